/* A transcript of LMDB's interface: some hundred calls, legal and illegal, a line each with its code
 * and its outputs. Run on two libraries it must print the same. It prints nothing that is left open
 * or depends on how pages are laid out: no addresses, no page counts, no process numbers.
 *
 *     transcript FOLDER original|ours
 *
 * Where the library of this project answers otherwise on purpose, the call stands in IMPROVED with
 * both answers: the line is the same only if each library gives the one that is told of it. */
#include "transcript/duplicates.h"
#include "transcript/environments.h"
#include "transcript/limits.h"
#include "transcript/names.h"
#include "transcript/nested.h"
#include "transcript/plain.h"
#include "transcript/programs.h"

int main(int count, char **arguments_)
{
	if (count != 3 || (strcmp(arguments_[2], "original") && strcmp(arguments_[2], "ours"))) {
		fprintf(stderr, "usage: %s FOLDER original|ours\n", arguments_[0]);
		return 2;
	}
	snprintf(root, sizeof root, "%s", arguments_[1]);
	is_ours = !strcmp(arguments_[2], "ours");
	static void (*const chapters[])(void) = {
		versions, environment_before_open, environment_opening, environment_when_open,
		transactions, readers, reader_table, stale_reader, arguments, sizes, put_flags,
		cursor_moves, cursor_deletes, many_rows, duplicates, missed_searches, duplicate_deletes,
		reserved_values, many_values, fixed_values, refused_values, several_of_a_new_key,
		integers, reverse, comparators, names, name_limits, names_and_transactions,
		first_and_last_names, deletes_beside_names, main_flags, many_flags, nested,
		nested_cursors, reader_cursors, map_full, read_only, copies, many_environments,
		two_processes, pointers, ranges_deleted, an_index, a_child_deleted,
		integers_that_are_none, databases_reused,
	};
	for (size_t i = 0; i < LENGTH(chapters); i++) {
		chapters[i]();
		fflush(stdout);
	}
	return 0;
}
