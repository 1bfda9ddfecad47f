/* Databases with several values a key, and orders other than that of the bytes. */
#ifndef TRANSCRIPT_DUPLICATES_H
#define TRANSCRIPT_DUPLICATES_H

#include "calls.h"

static void duplicates(void)
{
	title("several values of a key");
	size_t count;
	MDB_stat stat;
	begin_with("dups", MDB_DUPSORT);
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("a"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("c"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), MDB_NODUPDATA));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), 0));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), 0));
	CALL(mdb_put(txn, dbi, S("one"), S("x"), MDB_NODUPDATA));
	data = *S("z");
	GET(mdb_put(txn, dbi, S("k"), &data, MDB_NOOVERWRITE));
	say_bytes("     data", &data);
	printf("\n");
	CALL(mdb_put(txn, dbi, S("k"), S("bb"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), S("d"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), S("d"), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("p"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("l"), S("1"), MDB_APPEND));
	CALL(mdb_put(txn, dbi, S("l"), N(511, 'v'), 0));
	CALL(mdb_put(txn, dbi, S("l"), N(512, 'v'), 0));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	GET(mdb_get(txn, dbi, S("k"), &data));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	STEP(cur, MDB_FIRST_DUP);
	CALL(mdb_cursor_count(cur, &count));
	SEEK(cur, S("k"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_GET_CURRENT);
	STEP(cur, MDB_FIRST_DUP);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_PREV_DUP);
	STEP(cur, MDB_NEXT_NODUP);
	STEP(cur, MDB_NEXT_DUP);
	STEP(cur, MDB_PREV_DUP);
	STEP(cur, MDB_PREV_NODUP);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_FIRST);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_LAST);
	STEP(cur, MDB_NEXT);
	SEEK2(cur, S("k"), S("b"), MDB_GET_BOTH);
	SEEK2(cur, S("k"), S("bb"), MDB_GET_BOTH);
	SEEK2(cur, S("k"), S("bb"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("k"), S("e"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("no"), S("e"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("one"), S("x"), MDB_GET_BOTH);
	SEEK2(cur, S("one"), S("a"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("one"), S("y"), MDB_GET_BOTH_RANGE);
	CALL(mdb_cursor_get(cur, S("k"), NULL, MDB_GET_BOTH));
	SEEK(cur, S("l"), MDB_SET_RANGE);
	SEEK(cur, S("k"), MDB_SET_KEY);
	STEP(cur, MDB_GET_MULTIPLE);
	STEP(cur, MDB_NEXT_MULTIPLE);
	STEP(cur, MDB_PREV_MULTIPLE);
	CALL(mdb_cursor_put(cur, S("k"), S("d"), MDB_MULTIPLE));
	walk(txn, dbi);
	end();
}

/* What the cursor does after a search that found nothing, in a page that has more on both sides. */
static void after_a_miss(MDB_val *wanted, MDB_val *other, MDB_cursor_op op)
{
	static const MDB_cursor_op steps[] = { MDB_GET_CURRENT, MDB_NEXT, MDB_PREV, MDB_NEXT_DUP,
		MDB_PREV_DUP, MDB_NEXT_NODUP, MDB_PREV_NODUP, MDB_FIRST_DUP, MDB_LAST_DUP };
	for (size_t i = 0; i <= LENGTH(steps); i++) {
		size_t count;
		/* Values that were never looked at are no defined memory in the original's cursor. */
		must("set", mdb_cursor_get(cur, S("b"), &data, MDB_SET));
		key = *wanted;
		data = *other;
		CALL(mdb_cursor_get(cur, &key, &data, op));
		if (i < LENGTH(steps)) {
			STEP(cur, steps[i]);
			STEP(cur, MDB_GET_CURRENT);
		} else
			NUMBER(mdb_cursor_count(cur, &count), count);
	}
}

static void missed_searches(void)
{
	title("searches that miss");
	begin_with("missed", MDB_DUPSORT);
	for (char k = 'b'; k <= 'h'; k += 2)
		for (char v = '1'; v <= (k == 'd' ? '1' : '7'); v += 2)
			must("put", mdb_put(txn, dbi, N(1, k), N(1, v), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	/* The next key has several values, or one. */
	after_a_miss(S("e"), S("3"), MDB_SET);
	after_a_miss(S("e"), S("3"), MDB_SET_KEY);
	after_a_miss(S("c"), S("1"), MDB_SET);
	after_a_miss(S("e"), S("3"), MDB_GET_BOTH);
	after_a_miss(S("e"), S("3"), MDB_GET_BOTH_RANGE);
	/* The key is there, the value is not. */
	after_a_miss(S("f"), S("0"), MDB_GET_BOTH);
	after_a_miss(S("f"), S("4"), MDB_GET_BOTH);
	after_a_miss(S("f"), S("8"), MDB_GET_BOTH);
	after_a_miss(S("f"), S("8"), MDB_GET_BOTH_RANGE);
	after_a_miss(S("d"), S("0"), MDB_GET_BOTH);
	after_a_miss(S("d"), S("2"), MDB_GET_BOTH_RANGE);
	SEEK(cur, S("e"), MDB_SET);
	CALL(mdb_cursor_del(cur, 0));
	SEEK2(cur, S("f"), S("8"), MDB_GET_BOTH_RANGE);
	CALL(mdb_cursor_del(cur, 0));
	SEEK2(cur, S("f"), S("4"), MDB_GET_BOTH);
	CALL(mdb_cursor_del(cur, 0));
	walk(txn, dbi);
	end();
}

static void duplicate_deletes(void)
{
	title("deleting values");
	MDB_stat stat;
	MDB_cursor *other;
	size_t count;
	begin_with("dupdel", MDB_DUPSORT);
	for (char c = 'a'; c <= 'h'; c++) {
		must("put", mdb_put(txn, dbi, S("k"), N(1, c), 0));
		must("put", mdb_put(txn, dbi, S("m"), N(1, c), 0));
	}
	CALL(mdb_put(txn, dbi, S("n"), S("only"), 0));
	CALL(mdb_del(txn, dbi, S("k"), S("c")));
	CALL(mdb_del(txn, dbi, S("k"), S("c")));
	CALL(mdb_del(txn, dbi, S("n"), S("other")));
	CALL(mdb_del(txn, dbi, S("n"), S("only")));
	CALL(mdb_del(txn, dbi, S("n"), NULL));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	CALL(mdb_cursor_open(txn, dbi, &other));
	SEEK2(cur, S("k"), S("d"), MDB_GET_BOTH);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_GET_CURRENT);
	NUMBER(mdb_cursor_count(cur, &count), count);
	STEP(cur, MDB_NEXT);
	SEEK2(other, S("k"), S("g"), MDB_GET_BOTH);
	CALL(mdb_put(txn, dbi, S("k"), S("f1"), 0));
	CALL(mdb_del(txn, dbi, S("k"), S("a")));
	STEP(other, MDB_GET_CURRENT);
	STEP(other, MDB_PREV_DUP);
	SEEK2(cur, S("k"), S("f"), MDB_GET_BOTH);
	CALL(mdb_cursor_put(cur, S("k"), S("f"), MDB_CURRENT));
	STEP(cur, MDB_GET_CURRENT);
	SEEK(cur, S("k"), MDB_SET);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	STEP(cur, MDB_GET_CURRENT);
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	SEEK2(cur, S("m"), S("h"), MDB_GET_BOTH);
	CALL(mdb_cursor_del(cur, 0));
	CALL(mdb_put(txn, dbi, S("m"), S("i"), 0));
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_PREV_DUP);
	CALL(mdb_del(txn, dbi, S("m"), NULL));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	walk(txn, dbi);
	end();
}

/* Room for the first value of a key. A second one is undefined in the original. */
static void reserved_values(void)
{
	static const unsigned kinds[] = { MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
	static const char *const names[] = { "reserved", "reservedfixed" };
	for (int i = 0; i < 2; i++) {
		title(names[i]);
		begin_with(names[i], kinds[i]);
		MDB_val d = *value(NULL, 8);
		CALL(mdb_put(txn, dbi, S("b"), &d, MDB_RESERVE));
		memcpy(d.mv_data, "12345678", 8);
		GET(mdb_get(txn, dbi, S("b"), &data));
		d = *value(NULL, 512);
		CALL(mdb_put(txn, dbi, S("c"), &d, MDB_RESERVE));
		d = *value(NULL, 8);
		CALL(mdb_put(txn, dbi, S("b"), &d, MDB_RESERVE | MDB_NOOVERWRITE));
		printf("     after KEYEXIST:");
		say_bytes("data", &d);
		printf("\n");
		CALL(mdb_put(txn, dbi, S("b"), S("00000000"), 0));
		CALL(mdb_put(txn, dbi, S("b"), S("99999999"), 0));
		CALL(mdb_cursor_open(txn, dbi, &cur));
		d = *value(NULL, 8);
		CALL(mdb_cursor_put(cur, S("d"), &d, MDB_RESERVE | MDB_APPEND));
		memcpy(d.mv_data, "dddddddd", 8);
		STEP(cur, MDB_GET_CURRENT);
		d = *value(NULL, 8);
		CALL(mdb_cursor_put(cur, S("c"), &d, MDB_RESERVE));
		memcpy(d.mv_data, "cccccccc", 8);
		CALL(mdb_cursor_put(cur, S("c"), S("aaaaaaaa"), 0));
		while (!mdb_cursor_get(cur, &key, &data, MDB_PREV))
			;
		do
			STEP(cur, MDB_NEXT);
		while (!mdb_cursor_get(cur, &key, &data, MDB_GET_CURRENT) && *(char *)key.mv_data != 'd');
		end();
	}
}

/* A key with so many values that they need a tree of their own in the original. */
static void many_values(void)
{
	title("many values of a key");
	MDB_stat stat;
	size_t count, seen = 0;
	char text[16];
	begin_with("manydups", MDB_DUPSORT);
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof text, "%05d", i * 3571 % 5000);
		must("put", mdb_put(txn, dbi, S("k"), S(text), 0));
	}
	CALL(mdb_put(txn, dbi, S("j"), S("before"), 0));
	CALL(mdb_put(txn, dbi, S("l"), S("behind"), 0));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("k"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	SEEK2(cur, S("k"), S("02500"), MDB_GET_BOTH);
	STEP(cur, MDB_PREV);
	CALL(mdb_cursor_del(cur, 0));
	STEP(cur, MDB_NEXT);
	SEEK2(cur, S("k"), S("02499"), MDB_GET_BOTH_RANGE);
	STEP(cur, MDB_LAST_DUP);
	STEP(cur, MDB_NEXT);
	STEP(cur, MDB_PREV);
	STEP(cur, MDB_FIRST_DUP);
	STEP(cur, MDB_PREV);
	SEEK(cur, S("k"), MDB_SET);
	do
		seen++;
	while (!mdb_cursor_get(cur, &key, &data, MDB_NEXT_DUP));
	FACT(seen);
	CALL(mdb_cursor_del(cur, MDB_NODUPDATA));
	NUMBER(mdb_stat(txn, dbi, &stat), stat.ms_entries);
	walk(txn, dbi);
	end();
}

static void fixed_values(void)
{
	title("values of one size");
	size_t count, total = 0;
	unsigned numbers[] = { 5, 1, 3, 5, 9 };
	MDB_val several[2];
	begin_with("fixed", MDB_DUPSORT | MDB_DUPFIXED);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	several[0] = (MDB_val){ sizeof *numbers, numbers };
	several[1] = (MDB_val){ LENGTH(numbers), NULL };
	NUMBER(mdb_cursor_put(cur, S("k"), several, MDB_MULTIPLE), several[1].mv_size);
	STEP(cur, MDB_FIRST);
	NUMBER(mdb_cursor_count(cur, &count), count);
	SEEK(cur, S("k"), MDB_SET);
	STEP(cur, MDB_GET_MULTIPLE);
	STEP(cur, MDB_NEXT_MULTIPLE);
	several[0] = (MDB_val){ sizeof *numbers, numbers };
	several[1] = (MDB_val){ 2, NULL };
	NUMBER(mdb_cursor_put(cur, S("k"), several, MDB_MULTIPLE | MDB_NODUPDATA), several[1].mv_size);
	CALL(mdb_put(txn, dbi, S("single"), U(7), 0));
	SEEK(cur, S("single"), MDB_SET);
	STEP(cur, MDB_NEXT_DUP);
	for (unsigned i = 0; i < 3000; i++)
		must("put", mdb_put(txn, dbi, S("long"), U(i), 0));
	SEEK(cur, S("long"), MDB_SET);
	NUMBER(mdb_cursor_count(cur, &count), count);
	for (int code = mdb_cursor_get(cur, &key, &data, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cur, &key, &data, MDB_NEXT_MULTIPLE))
		total += data.mv_size;
	FACT(total);
	SEEK2(cur, S("long"), U(0xaff), MDB_GET_BOTH);
	total = 0;
	for (int code = mdb_cursor_get(cur, &key, &data, MDB_GET_MULTIPLE); !code;
		code = mdb_cursor_get(cur, &key, &data, MDB_PREV_MULTIPLE))
		total += data.mv_size;
	FACT(total);
	SEEK2(cur, S("k"), U(3), MDB_GET_BOTH);
	STEP(cur, MDB_NEXT_MULTIPLE);
	STEP(cur, MDB_PREV_MULTIPLE);
	STEP(cur, MDB_GET_CURRENT);
	SEEK2(cur, S("long"), U(0x100), MDB_GET_BOTH);
	SEEK2(cur, S("long"), U(0xffff), MDB_GET_BOTH_RANGE);
	CALL(mdb_del(txn, dbi, S("long"), U(0x100)));
	CALL(mdb_del(txn, dbi, S("long"), NULL));
	walk(txn, dbi);
	end();
}

/* Where a cursor stands after a put that was refused, and what it deletes there. */
static void refused_values(void)
{
	title("refused values");
	for (unsigned many = 0; many < 2; many++) {
		begin_with(many ? "refused2" : "refused1", MDB_DUPSORT);
		unsigned last = many ? 1999 : 9;
		for (unsigned i = 0; i <= last; i++)
			must("put", mdb_put(txn, dbi, S("k"), big_endian(i), 0));
		CALL(mdb_put(txn, dbi, S("j"), big_endian(5), 0));
		CALL(mdb_put(txn, dbi, S("l"), big_endian(5), 0));
		CALL(mdb_cursor_open(txn, dbi, &cur));
		CALL(mdb_cursor_put(cur, S("k"), big_endian(6), MDB_NODUPDATA));
		STEP(cur, MDB_GET_CURRENT);
		STEP(cur, MDB_NEXT);
		CALL(mdb_cursor_put(cur, S("k"), big_endian(4), MDB_NODUPDATA));
		CALL(mdb_cursor_del(cur, 0));
		STEP(cur, MDB_GET_CURRENT);
		CALL(mdb_cursor_put(cur, S("k"), big_endian(7), MDB_APPENDDUP));
		STEP(cur, MDB_GET_CURRENT);
		STEP(cur, MDB_PREV);
		/* What the store has given out itself is copied before. */
		SEEK2(cur, S("k"), big_endian(3), MDB_GET_BOTH);
		CALL(mdb_cursor_put(cur, S("k"), &data, MDB_APPENDDUP));
		STEP(cur, MDB_GET_CURRENT);
		CALL(mdb_cursor_put(cur, S("k"), big_endian(8), MDB_APPENDDUP | MDB_NODUPDATA));
		STEP(cur, MDB_GET_CURRENT);
		CALL(mdb_cursor_put(cur, S("k"), big_endian(8), MDB_NOOVERWRITE | MDB_NODUPDATA));
		STEP(cur, MDB_GET_CURRENT);
		CALL(mdb_cursor_put(cur, S("l"), big_endian(5), MDB_NODUPDATA));
		STEP(cur, MDB_GET_CURRENT);
		STEP(cur, MDB_PREV);
		CALL(mdb_cursor_put(cur, S("l"), big_endian(5), MDB_APPENDDUP));
		STEP(cur, MDB_GET_CURRENT);
		CALL(mdb_cursor_del(cur, 0));
		if (!many)
			walk(txn, dbi);
		end();
	}
}

/* Flags that are about the key, with several values of it: they are asked for the first one. */
static void several_of_a_new_key(void)
{
	title("several values of a key that must be new");
	static const unsigned flags[] = { MDB_APPEND, MDB_NOOVERWRITE, MDB_APPEND | MDB_APPENDDUP };
	unsigned numbers[] = { 4, 6, 8 };
	char key_text[] = "m0";
	begin_with("newkeys", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
	CALL(mdb_put(txn, dbi, S("k"), U(6), 0));
	CALL(mdb_put(txn, dbi, S("m"), U(6), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	for (size_t i = 0; i < LENGTH(flags); i++) {
		MDB_val several[2] = { { sizeof *numbers, numbers }, { LENGTH(numbers), NULL } };
		int code = mdb_cursor_put(cur, S(key_text), several, MDB_MULTIPLE | flags[i]);
		printf("%4d %x, new key -> %s %zu\n", ++calls, flags[i], code_name(code),
			several[1].mv_size);
		STEP(cur, MDB_GET_CURRENT);
		several[0] = (MDB_val){ sizeof *numbers, numbers };
		several[1] = (MDB_val){ LENGTH(numbers), NULL };
		code = mdb_cursor_put(cur, S("k"), several, MDB_MULTIPLE | flags[i]);
		printf("%4d %x, old key -> %s %zu\n", ++calls, flags[i], code_name(code),
			several[1].mv_size);
		STEP(cur, MDB_GET_CURRENT);
		key_text[1]++;
	}
	walk(txn, dbi);
	end();
}

static void integers(void)
{
	title("integers");
	begin_with("ints", MDB_INTEGERKEY);
	CALL(mdb_put(txn, dbi, U(256), S("256"), 0));
	CALL(mdb_put(txn, dbi, U(2), S("2"), 0));
	CALL(mdb_put(txn, dbi, U(0x80000000u), S("large"), 0));
	CALL(mdb_put(txn, dbi, U(0), S("0"), 0));
	CALL(mdb_put(txn, dbi, U(1), S("1"), MDB_APPEND));
	GET(mdb_get(txn, dbi, U(256), &data));
	GET(mdb_get(txn, dbi, U(3), &data));
	FACT(mdb_cmp(txn, dbi, U(2), U(256)) < 0);
	FACT(mdb_cmp(txn, dbi, U(2), U(2)));
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "long", MDB_INTEGERKEY | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, Z(1), S("1"), 0));
	CALL(mdb_put(txn, dbi, Z((size_t)1 << 40), S("2^40"), 0));
	CALL(mdb_put(txn, dbi, Z(255), S("255"), 0));
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, Z(256), MDB_SET_RANGE);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "dup", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, S("k"), Z(256), 0));
	CALL(mdb_put(txn, dbi, S("k"), Z(2), 0));
	CALL(mdb_put(txn, dbi, S("k"), Z(1000), MDB_APPENDDUP));
	CALL(mdb_put(txn, dbi, S("k"), Z(999), MDB_APPENDDUP));
	FACT(mdb_dcmp(txn, dbi, Z(2), Z(256)) < 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK2(cur, S("k"), Z(3), MDB_GET_BOTH_RANGE);
	walk(txn, dbi);
	end();
}

static void reverse(void)
{
	title("compared from the back");
	begin_with("reverse", MDB_REVERSEKEY);
	CALL(mdb_put(txn, dbi, S("az"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("zb"), S("2"), 0));
	CALL(mdb_put(txn, dbi, S("b"), S("3"), 0));
	CALL(mdb_put(txn, dbi, S("cza"), S("4"), 0));
	FACT(mdb_cmp(txn, dbi, S("az"), S("zb")) > 0);
	FACT(mdb_cmp(txn, dbi, S("b"), S("zb")) < 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("ab"), MDB_SET_RANGE);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "dup", MDB_DUPSORT | MDB_REVERSEDUP | MDB_CREATE, &dbi));
	CALL(mdb_put(txn, dbi, S("k"), S("az"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("zb"), 0));
	CALL(mdb_put(txn, dbi, S("k"), S("b"), 0));
	FACT(mdb_dcmp(txn, dbi, S("az"), S("zb")) > 0);
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, "plain", MDB_CREATE, &dbi));
	FACT(mdb_cmp(txn, dbi, S("a"), S("ab")) < 0);
	FACT(mdb_cmp(txn, dbi, S("b"), S("ab")) > 0);
	FACT(mdb_cmp(txn, dbi, S(""), S("a")) < 0);
	end();
}

static int by_length(const MDB_val *a, const MDB_val *b)
{
	if (a->mv_size != b->mv_size)
		return a->mv_size < b->mv_size ? -1 : 1;
	return memcmp(a->mv_data, b->mv_data, a->mv_size);
}

static int downwards(const MDB_val *a, const MDB_val *b)
{
	return -by_length(a, b);
}

static void comparators(void)
{
	title("the caller's order");
	begin_with("custom", MDB_DUPSORT);
	CALL(mdb_set_compare(txn, dbi, by_length));
	CALL(mdb_set_dupsort(txn, dbi, downwards));
	CALL(mdb_put(txn, dbi, S("zz"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("aaa"), S("1"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("a"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("bb"), 0));
	CALL(mdb_put(txn, dbi, S("y"), S("b"), 0));
	FACT(mdb_cmp(txn, dbi, S("zz"), S("aaa")) < 0);
	FACT(mdb_dcmp(txn, dbi, S("a"), S("bb")) > 0);
	CALL(mdb_cursor_open(txn, dbi, &cur));
	SEEK(cur, S("q"), MDB_SET_RANGE);
	SEEK2(cur, S("y"), S("zz"), MDB_GET_BOTH_RANGE);
	SEEK2(cur, S("y"), S("ba"), MDB_GET_BOTH_RANGE);
	walk(txn, dbi);
	CALL(mdb_txn_commit(txn));
	CALL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	walk(txn, dbi);
	GET(mdb_get(txn, dbi, S("y"), &data));
	mdb_txn_abort(txn);
	mdb_env_close(env);
	must("create", mdb_env_create(&env));
	must("set_maxdbs", mdb_env_set_maxdbs(env, 8));
	must("open", mdb_env_open(env, at("custom"), 0, 0644));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	CALL(mdb_dbi_open(txn, "table", 0, &dbi));
	CALL(mdb_set_compare(txn, dbi, by_length));
	CALL(mdb_set_dupsort(txn, dbi, downwards));
	CALL(mdb_put(txn, dbi, S("xx"), S("1"), 0));
	CALL(mdb_del(txn, dbi, S("y"), S("bb")));
	walk(txn, dbi);
	CALL(mdb_dbi_open(txn, NULL, 0, &dbi));
	CALL(mdb_dbi_open(txn, "other", MDB_CREATE, &dbi));
	CALL(mdb_set_compare(txn, dbi, downwards));
	letters('a', 'e');
	walk(txn, dbi);
	end();
}

#endif
