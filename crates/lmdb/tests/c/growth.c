/* What becomes of the file of two libraries with LMDB's interface, under values that are put,
 * replaced and deleted again and again; every value is read again at the end.
 *
 *     growth ORIGINAL.so OTHER.so FOLDER [DIVIDE]
 *
 * Prints a line of JSON a kind of work: the length of both files, and how it came to be in POINTS
 * steps. DIVIDE makes it shorter: so much fewer transactions. Exits with 1 where the other's file is
 * longer than MOST times the original's and SLACK bytes, or where a call fails. */
#include "side.h"

#define PAGE 4096
#define LONGEST (64 * PAGE)
#define KEYS_MAX 20000
#define POINTS 20
#define MOST 1.3
#define SLACK (256 << 10)

static char bytes[LONGEST];

/* ---- a run of one kind of work on one side ---- */

struct run {
	struct side *side;
	uint64_t state;
	/* The transaction that goes on, and how many there are. */
	size_t transaction, transactions;
	/* The length of the value of each key, and what its bytes are; none if there is no value. */
	struct { int is_there; size_t len; uint32_t fill; } live[KEYS_MAX];
};

/* A number below `bound`, the same on both sides. */
static size_t below(struct run *run, size_t bound)
{
	run->state = run->state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((run->state >> 33) % bound);
}

/* A length of 1 to `most` pages, as they are taken by a value with its header. */
static size_t pages(struct run *run, size_t most)
{
	return (1 + below(run, most)) * PAGE - 256;
}

/* A quarter each below 100 bytes, 1, 4 and 64 pages. */
static size_t mixed(struct run *run)
{
	static const size_t most[] = { 100, PAGE, 4 * PAGE, LONGEST };
	return 1 + below(run, most[below(run, LENGTH(most))]);
}

static MDB_val key_of(const size_t *key)
{
	return (MDB_val){ sizeof *key, (void *)key };
}

static void put(struct run *run, size_t key, size_t len)
{
	struct side *side = run->side;
	uint32_t fill = (uint32_t)below(run, UINT32_MAX);
	MDB_val name = key_of(&key), value = { len, bytes };
	memset(bytes, (int)(fill & 0xff), len);
	memcpy(bytes, &fill, len < sizeof fill ? len : sizeof fill);
	MUST(side, side->put(side->txn, side->dbi, &name, &value, 0));
	run->live[key].is_there = 1;
	run->live[key].len = len;
	run->live[key].fill = fill;
}

static void delete(struct run *run, size_t key)
{
	struct side *side = run->side;
	MDB_val name = key_of(&key);
	int code = side->del(side->txn, side->dbi, &name, NULL);
	if (code != (run->live[key].is_there ? 0 : MDB_NOTFOUND))
		fail(side->name, "a key is deleted", code);
	run->live[key].is_there = 0;
}

/* ---- kinds of work: what one transaction does ---- */

#define MANY 1009
#define FEW 100

/* Values of 1 to 16 pages, 50 replaced, no key twice. */
static void replace_pages(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < 50; i++)
		put(run, (run->transaction * 50 + i) % MANY, pages(run, 16));
	commit(run->side);
}

static void replace_mixed(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < FEW; i++)
		put(run, below(run, FEW), 1 + below(run, 17 * PAGE));
	commit(run->side);
}

/* Values of 1, 2 and 3 pages, each deleted after the next one was put. */
static void ring(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 1; i <= 3; i++) {
		put(run, i, i * PAGE - 256);
		delete(run, i == 1 ? 3 : i - 1);
	}
	commit(run->side);
}

/* One value of 40 kB, overwritten in a child transaction. */
static void child(struct run *run)
{
	struct side *side = run->side;
	begin(run->side, 0);
	MDB_txn *parent = side->txn;
	MUST(side, side->txn_begin(side->env, parent, 0, &side->txn));
	put(run, 0, 40000);
	commit(run->side);
	side->txn = parent;
	commit(run->side);
}

/* 64 identities, of each a value of at most 10 KiB that goes when the next one has come. */
static void verify(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < 64; i++) {
		size_t id = run->transaction * 64 + i;
		put(run, id % KEYS_MAX, 1 + below(run, 10 << 10));
		if (id > 0)
			delete(run, (id - 1) % KEYS_MAX);
	}
	commit(run->side);
}

static void replace_few(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < 4; i++) {
		size_t key = below(run, FEW);
		if (below(run, 8))
			put(run, key, mixed(run));
		else
			delete(run, key);
	}
	commit(run->side);
}

/* Put at the back, deleted at the front. */
static void queue(struct run *run)
{
	begin(run->side, 0);
	put(run, run->transaction % KEYS_MAX, mixed(run));
	if (run->transaction >= FEW)
		delete(run, (run->transaction - FEW) % KEYS_MAX);
	commit(run->side);
}

/* Values that get longer, up to 48 pages, and short again. */
static void ramp(struct run *run)
{
	size_t half = run->transactions / 2, at = run->transaction;
	size_t most = 1 + (at < half ? at : run->transactions - at) * 48 / half;
	begin(run->side, 0);
	for (size_t i = 0; i < 3; i++)
		put(run, below(run, FEW), 1 + below(run, most * PAGE));
	commit(run->side);
}

/* Nine of ten puts are to one of ten keys. */
static void hot(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < 3; i++)
		put(run, below(run, 10) ? below(run, FEW / 10) : below(run, FEW), mixed(run));
	commit(run->side);
}

/* A large transaction now and then, small ones in between. */
static void bulk(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; run->transaction % 64 == 0 && i < FEW / 2; i++)
		put(run, i * 2, mixed(run));
	put(run, below(run, FEW), 1 + below(run, 300));
	commit(run->side);
}

/* Child transactions, of which a third is given up. */
static void nested(struct run *run)
{
	struct side *side = run->side;
	begin(run->side, 0);
	MDB_txn *parent = side->txn;
	for (size_t i = 0; i < 4; i++) {
		static struct run before;
		MUST(side, side->txn_begin(side->env, parent, 0, &side->txn));
		memcpy(before.live, run->live, sizeof run->live);
		put(run, below(run, FEW), mixed(run));
		put(run, below(run, FEW), mixed(run));
		if (below(run, 3)) {
			commit(run->side);
		} else {
			side->txn_abort(side->txn);
			memcpy(run->live, before.live, sizeof run->live);
		}
		side->txn = parent;
	}
	commit(run->side);
}

static void short_values(struct run *run)
{
	begin(run->side, 0);
	for (size_t i = 0; i < 30; i++) {
		size_t key = below(run, 100 * FEW);
		if (below(run, 3))
			put(run, key, 1 + below(run, 300));
		else
			delete(run, key);
	}
	commit(run->side);
}

static const struct kind {
	const char *name;
	void (*transaction)(struct run *run);
	size_t transactions;
	unsigned flags;
	size_t map;
} kinds[] = {
	{ "1 to 16 pages", replace_pages, 1000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "1 to 16 pages, long", replace_pages, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "1 to 16 pages, durable", replace_pages, 500, 0, (size_t)1 << 32 },
	{ "100 of mixed lengths", replace_mixed, 2000, MDB_NOSYNC, (size_t)1 << 33 },
	{ "ring in a map of 1 MiB", ring, 20000, MDB_NOSYNC, 1 << 20 },
	{ "child transaction", child, 500, 0, (size_t)1 << 32 },
	{ "at most two live", verify, 20000 / 64, MDB_NOSYNC, (size_t)1 << 32 },
	{ "4 of 100", replace_few, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "queue", queue, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "ramp", ramp, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "hot keys", hot, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "now and then many", bulk, 5000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "nested", nested, 2000, MDB_NOSYNC, (size_t)1 << 32 },
	{ "short values", short_values, 5000, MDB_NOSYNC, (size_t)1 << 32 },
};

/* ---- both sides ---- */

/* Reads what was put again. */
static void must_hold_all(struct run *run)
{
	struct side *side = run->side;
	MDB_val value;
	MDB_stat stat_;
	size_t count = 0;
	begin(side, MDB_RDONLY);
	for (size_t key = 0; key < KEYS_MAX; key++) {
		MDB_val name = key_of(&key);
		int code = side->get(side->txn, side->dbi, &name, &value);
		if (code != (run->live[key].is_there ? 0 : MDB_NOTFOUND))
			fail(side->name, "a get", code);
		if (code)
			continue;
		count++;
		size_t len = run->live[key].len;
		uint32_t fill = run->live[key].fill;
		must_be(side, "the length of a value", value.mv_size, len);
		memset(bytes, (int)(fill & 0xff), len);
		memcpy(bytes, &fill, len < sizeof fill ? len : sizeof fill);
		must_be(side, "a difference in a value", memcmp(bytes, value.mv_data, len) != 0, 0);
	}
	MUST(side, side->stat(side->txn, side->dbi, &stat_));
	must_be(side, "the number of entries", stat_.ms_entries, count);
	side->txn_abort(side->txn);
}

/* Does all of a kind of work; `curve` is how long the file was on the way. */
static void work(struct side *side, const struct kind *kind, size_t divide, size_t *curve)
{
	static struct run run;
	size_t steps = kind->transactions / divide;
	memset(&run, 0, sizeof run);
	run.side = side, run.state = 42, run.transactions = steps;
	open_new(side, kind->flags, kind->map);
	for (size_t at = 0; at < POINTS; at++) {
		for (; run.transaction < steps * (at + 1) / POINTS; run.transaction++)
			kind->transaction(&run);
		curve[at] = length_of_file(side);
	}
	must_hold_all(&run);
	side->env_close(side->env);
}

static void print_curve(const char *name, const size_t *curve)
{
	printf(", \"%s\": [", name);
	for (size_t at = 0; at < POINTS; at++)
		printf("%s%zu", at ? ", " : "", curve[at]);
	printf("]");
}

int main(int count, char **arguments)
{
	static struct side sides[2];
	size_t curves[2][POINTS], divide = count > 4 ? strtoul(arguments[4], NULL, 10) : 1;
	int is_longer = 0;
	if (count < 4 || !divide) {
		fprintf(stderr, "usage: growth ORIGINAL.so OTHER.so FOLDER [DIVIDE]\n");
		return 2;
	}
	mkdir(arguments[3], 0755);
	for (int i = 0; i < 2; i++) {
		load(&sides[i], arguments[1 + i]);
		sides[i].name = i ? "other" : "original";
		snprintf(sides[i].folder, sizeof sides[i].folder, "%s/%s", arguments[3], sides[i].name);
	}
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		for (int side = 0; side < 2; side++)
			work(&sides[side], &kinds[i], divide, curves[side]);
		size_t original = curves[0][POINTS - 1], other = curves[1][POINTS - 1];
		int holds = (double)other <= MOST * (double)original + SLACK;
		is_longer |= !holds;
		printf("{\"work\": \"%s\", \"transactions\": %zu, \"original\": %zu, \"other\": %zu, "
			"\"ratio\": %.3f, \"holds\": %s", kinds[i].name, kinds[i].transactions / divide,
			original, other, (double)other / (double)original, holds ? "true" : "false");
		print_curve("original_curve", curves[0]);
		print_curve("other_curve", curves[1]);
		printf("}\n");
		fflush(stdout);
	}
	return is_longer;
}
