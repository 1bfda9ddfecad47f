/* Drives two libraries with LMDB's interface with the same random calls, and stops at the first that
 * answers differently: another code, another key, other data.
 *
 *     fuzz ORIGINAL.so OTHER.so FOLDER [--seeds A..B | --seconds N [--seeds A..]] [--calls N]
 *         [--wild 0|1]
 *
 * A seed gives the flags of the tables and a list of calls. What a call does depends on the list and
 * on the state that both libraries share, so that a list stays a sensible one when calls are taken
 * out of it: that is how the list is shrunk before it is printed. Each library runs the list in a
 * process of its own and writes down its answers. Where the original dies, as it does now and then
 * when several cursors stand on values of one key, the answers before are compared.
 *
 * Only defined calls are made. In particular a cursor is asked for nothing relative after a search
 * that found nothing, values are not replaced in place by ones that sort elsewhere, sizes are equal
 * where the flags say so. A child transaction goes on with the cursors of its parent, which go back
 * when it is aborted. In tables with several values of a key the original itself loses track of
 * cursors while others write: there a write closes all cursors but its own, unless --wild. */
#include "fuzz/cursors.h"

#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static int needs_writer(enum kind kind)
{
	return kind <= COUNT || kind == COLLECT;
}

static int needs_cursor(enum kind kind)
{
	return kind == MULTIPLE || (kind >= MOVE && kind <= COLLECT);
}

static void perform_on_cursor(const struct call *call)
{
	switch (call->kind) {
	case MULTIPLE: multiple(call); break;
	case MOVE: move(call); break;
	case SEEK: seek(call); break;
	case CURSOR_PUT: put_at_cursor(call); break;
	case CURSOR_CURRENT: put_current(call); break;
	case CURSOR_DELETE: delete_at_cursor(call); break;
	case COUNT: count_values(call); break;
	case COLLECT: collect(call); break;
	default: break;
	}
}

static void perform(const struct call *listed)
{
	struct call copy = *listed, *call = &copy;
	call->slot %= CURSORS;
	if (needs_writer(call->kind) && !world.depth)
		begin();
	if (needs_cursor(call->kind)) {
		if (world.cursor[call->slot].place != CLOSED)
			call->table = world.cursor[call->slot].table;
		else
			open_cursor(call);
		perform_on_cursor(call);
		return;
	}
	switch (call->kind) {
	case PUT: put(call); break;
	case DELETE_KEY: delete(call, 0); break;
	case DELETE_VALUE: delete(call, 1); break;
	case GET: get(call); break;
	case STAT: count_entries(call); break;
	case DROP: drop(call); break;
	case CLEAR: clear(call); break;
	case COMPARE: compare_items(call); break;
	case RESERVE: reserve(call); break;
	case WALK: walk(call->table, call->key % 2); break;
	case CURSOR_OPEN: open_cursor(call); break;
	case CURSOR_CLOSE: close_cursor(call); break;
	case BEGIN: begin(); break;
	case COMMIT: finish(1); break;
	case ABORT: finish(0); break;
	case READ_BEGIN: begin_reading(); break;
	case READ_END: end_reading(); break;
	case READ_RESET: reset_reading(); break;
	case READ_GET: get_reading(call); break;
	case READ_MOVE: move_reading(call); break;
	case REOPEN: close_environments(); open_environments(); break;
	default: break;
	}
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	(void)stat, (void)type, (void)where;
	return remove(path);
}

/* Runs the list on one library; ends the process. */
static void run(size_t which, int is_loud)
{
	alarm(60);
	world.is_loud = is_loud;
	journal = sides[which].journal;
	folder = sides[which].folder;
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (mkdir(folder, 0755)) {
		perror(folder);
		_exit(2);
	}
	load(sides[which].path);
	open_environments();
	for (world.at = 0; world.at < calls_len; world.at++)
		perform(&calls[world.at]);
	close_environments();
	open_environments();
	begin();
	for (uint32_t i = 0; i < TABLES; i++)
		if (is_used(i))
			walk(i, 1);
	close_environments();
	_exit(0);
}

/* How a list ended. */
enum ending { SAME, DIFFERENT, DIED };

/* Deaths of the original; their lists count up to there. */
static size_t deaths;

/* Runs the list on both libraries and compares their answers. */
static enum ending try_list(int is_loud)
{
	int states[2];
	fflush(stdout);
	for (size_t i = 0; i < 2; i++) {
		sides[i].journal->length = 0;
		pid_t child = fork();
		if (!child)
			run(i, is_loud);
		waitpid(child, &states[i], 0);
	}
	const struct journal *original = sides[0].journal, *other = sides[1].journal;
	int has_died = WIFSIGNALED(states[0]);
	deaths += has_died;
	/* The original may have gone wrong in the very call before the one that it died of. */
	size_t length = original->length;
	if (length > other->length)
		length = has_died ? other->length : length;
	if (WIFSIGNALED(states[1]) && !(has_died && other->length >= original->length))
		return DIED;
	if (!has_died && original->length != other->length)
		return DIFFERENT;
	return memcmp(original->text, other->text, length) ? DIFFERENT : SAME;
}

/* Takes out calls as long as the list still ends in the same way. */
static void shrink(enum ending ending)
{
	static struct call kept[CALLS_MAX];
	for (size_t piece = calls_len / 2; piece; piece /= 2) {
		for (size_t at = 0; at < calls_len;) {
			size_t kept_len = calls_len, end = at + piece < calls_len ? at + piece : calls_len;
			memcpy(kept, calls, sizeof calls);
			memmove(calls + at, calls + end, (calls_len - end) * sizeof *calls);
			calls_len -= end - at;
			if (try_list(0) != ending) {
				memcpy(calls, kept, sizeof calls);
				calls_len = kept_len;
				at += piece;
			}
		}
	}
}

/* Prints the answers up to the first that differ, and these of both. */
static void print_difference(void)
{
	const char *lines[2] = { sides[0].journal->text, sides[1].journal->text };
	for (int i = 0; i < 2; i++)
		sides[i].journal->text[sides[i].journal->length] = 0;
	for (;;) {
		size_t lengths[2] = { strcspn(lines[0], "\n"), strcspn(lines[1], "\n") };
		if (!*lines[0] || !*lines[1] || lengths[0] != lengths[1]
			|| memcmp(lines[0], lines[1], lengths[0])) {
			for (int i = 0; i < 2; i++)
				printf("%-8s %.*s\n", sides[i].name, *lines[i] ? (int)lengths[i] : 3,
					*lines[i] ? lines[i] : "end");
			return;
		}
		printf("%.*s\n", (int)lengths[0], lines[0]);
		for (int i = 0; i < 2; i++)
			lines[i] += lengths[i] + 1;
	}
}

static int report(uint64_t seed, enum ending ending)
{
	printf("seed %llu %s; shrinking\n", (unsigned long long)seed,
		ending == DIED ? "ends the other by a signal" : "differs");
	shrink(ending);
	printf("seed %llu, %zu calls:\n", (unsigned long long)seed, calls_len);
	for (size_t i = 0; i < TABLES; i++)
		if (is_used(i))
			printf("  table %zu: flags 0x%x%s\n", i, tables[i].flags,
				tables[i].has_order ? " and an order of the caller's" : "");
	try_list(1);
	print_difference();
	return 1;
}

static void prepare(char **arguments)
{
	mkdir(arguments[3], 0755);
	for (int i = 0; i < 2; i++) {
		sides[i].path = arguments[1 + i];
		snprintf(sides[i].folder, sizeof sides[i].folder, "%s/%s", arguments[3], sides[i].name);
		sides[i].journal = mmap(NULL, sizeof *sides[i].journal, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (sides[i].journal == MAP_FAILED) {
			perror("mmap");
			exit(2);
		}
	}
}

int main(int count, char **arguments)
{
	uint64_t first = 1, last = 0;
	double seconds = 0;
	if (count < 4) {
		fprintf(stderr, "usage: %s ORIGINAL.so OTHER.so FOLDER [--seeds A..B] [--seconds N] "
			"[--calls N] [--wild 0|1]\n", arguments[0]);
		return 2;
	}
	for (int i = 4; i + 1 < count; i += 2) {
		if (!strcmp(arguments[i], "--seeds"))
			sscanf(arguments[i + 1], "%lu..%lu", &first, &last);
		if (!strcmp(arguments[i], "--seconds"))
			seconds = atof(arguments[i + 1]);
		if (!strcmp(arguments[i], "--wild"))
			is_wild = atoi(arguments[i + 1]);
		if (!strcmp(arguments[i], "--calls"))
			calls_wanted = (size_t)atoi(arguments[i + 1]) % (CALLS_MAX + 1);
	}
	if (!last)
		last = seconds ? UINT64_MAX : first + 99;
	prepare(arguments);
	time_t start = time(NULL);
	uint64_t seed = first;
	for (; seed <= last && (!seconds || difftime(time(NULL), start) < seconds); seed++) {
		choose(seed);
		enum ending ending = try_list(0);
		if (ending)
			return report(seed, ending);
	}
	printf("%llu lists of %zu calls, no difference; the original died in %zu of them\n",
		(unsigned long long)(seed - first), calls_wanted, deaths);
	return 0;
}
