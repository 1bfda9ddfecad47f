#!/bin/sh
# Runs the test suites of Python programs on the library, twice: on files of SQLite's and on stores.
# What becomes of each test has to be the same, but for those that are listed below with a reason.
#
#     sh crates/sqlite/tests/suites.sh [FOLDER]
#
# FOLDER is where install.sh has put the library; without it, it is installed in a folder of its
# own. Needs python3 with venv and pip, which gets the sources of Django, SQLAlchemy, sqlite-utils
# and diskcache. About ten minutes on two processors.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Expected to differ: tests of sqlite-utils that turn the write-ahead log off or on, which a store
# always has; that list a folder, where a store has its lock file; that read a file's first bytes.
differing='test_query_memory_does_not_create_file test_enable_wal test_disable_wal
test_create_database test_enable_disable_wal test_enable_wal_inside_transaction_raises'

# Of Django, what asks most of a database.
django='basic queries aggregation aggregation_regress annotations backends bulk_create constraints
custom_columns datatypes dates datetimes db_functions db_utils defer delete delete_regress
expressions expressions_case expressions_window extra_regress fixtures foreign_object
generic_relations get_or_create indexes introspection lookup m2m_regress many_to_many many_to_one
migrations model_fields model_inheritance null_queries ordering prefetch_related raw_query
reverse_lookup schema select_related transactions transaction_hooks update update_only_fields
validation'
alchemy='test/dialect/test_sqlite.py test/dialect/test_suite.py test/engine/test_transaction.py
test/engine/test_reflection.py test/engine/test_execute.py test/sql/test_query.py
test/sql/test_types.py test/sql/test_resultset.py test/sql/test_insert_exec.py
test/sql/test_update.py test/orm/test_unitofwork.py test/orm/test_unitofworkv2.py
test/orm/test_session.py test/orm/test_transaction.py test/orm/test_query.py
test/orm/test_cascade.py'

# fetch PACKAGE VERSION: unpacks a source package into a folder of that name.
fetch() {
    (cd "$work" && "$python" -m pip -q download --no-binary :all: --no-deps "$1==$2" &&
        mkdir "$1" && tar xzf ./*.tar.gz -C "$1" --strip-components 1 && rm ./*.tar.gz)
}

# pytest_results FOLDER ARGUMENT...: what became of each test.
pytest_results() {
    folder=$1
    shift
    (cd "$folder" && "$python" -m pytest -q -p no:cacheprovider --maxfail 100000 -rA "$@" 2>&1 || true) |
        sed -n 's/^\(PASSED\|FAILED\|ERROR\) \([^ ]*\).*/\1 \2/p' | sort
}

run_django() {
    mkdir "$1/files"
    cat > "$1/stores.py" << END
DATABASES = {
    name: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"$1/files/{name}.db",
        "TEST": {"NAME": f"$1/files/test_{name}.db"},
    }
    for name in ("default", "other")
}
SECRET_KEY = "x"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
END
    # shellcheck disable=SC2086 # a list
    (cd "$work/django/tests" && PYTHONPATH=$1 "$python" runtests.py --settings stores --parallel 1 \
        --noinput -v 2 $django 2>&1 || true) |
        sed -n 's/^\(.*\) \.\.\. \(ok\|FAIL\|ERROR\|skipped\|expected failure\).*/\2 \1/p' | sort
}

run_sqlalchemy() {
    cp -r "$work/sqlalchemy" "$1/source"
    # shellcheck disable=SC2086 # a list
    pytest_results "$1/source" --db sqlite_file $alchemy
}

run_sqlite_utils() {
    pytest_results "$work/sqlite-utils" tests
}

# A cache that several threads and processes fill, and that is kept below a size; without the tests
# of its part for Django.
run_diskcache() {
    pytest_results "$work/diskcache" tests/test_core.py tests/test_deque.py tests/test_fanout.py \
        tests/test_index.py tests/test_recipes.py
}

# begins ENGINE BYTES: the program has to make files of that kind, or the two runs would be one.
begins() {
    HEDGEROW_SQLITE_ENGINE=$1 LD_LIBRARY_PATH=$prefix/lib "$python" -c \
        'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("create table t(a)")' "$work/$1.db"
    [ "$(head -c 8 "$work/$1.db")" = "$2" ] || { echo "no file of $1 is made" >&2; exit 1; }
}

# compare NAME TESTS: runs run_NAME on both kinds of file; there have to be so many tests.
compare() {
    for engine in sqlite hedgerow; do
        mkdir -p "$work/$1-$engine"
        HEDGEROW_SQLITE_ENGINE=$engine LD_LIBRARY_PATH=$prefix/lib "run_$1" "$work/$1-$engine" \
            > "$work/$1.$engine"
    done
    count=$(wc -l < "$work/$1.sqlite")
    if diff "$work/$1.sqlite" "$work/$1.hedgerow" | grep '^[<>]' |
        grep -v -w -F "$(echo "$differing" | tr ' ' '\n')"; then
        echo "$1: differs"
        failures=$((failures + 1))
    elif [ "$count" -lt "$2" ]; then
        echo "$1: only $count tests ran"
        failures=$((failures + 1))
    else
        echo "$1: $count tests, the same"
    fi
}

prefix=${1:-}
if [ -z "$prefix" ]; then
    prefix=$work/prefix
    sh "$here/../install.sh" "$prefix"
fi
python3 -m venv "$work/venv"
python=$work/venv/bin/python
fetch django 5.2
fetch sqlalchemy 2.0.43
fetch sqlite-utils 4.2.1
fetch diskcache 5.6.3
"$python" -m pip -q install "$work/django" "$work/sqlalchemy" "$work/sqlite-utils" \
    "$work/diskcache" pytest pytest-xdist hypothesis cogapp mypy
begins sqlite 'SQLite f'
begins hedgerow HEDGEROW
compare django 1000
compare sqlalchemy 1000
compare sqlite_utils 1000
compare diskcache 170
[ "$failures" = 0 ]
