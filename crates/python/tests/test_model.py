"""Every call beside a dict of sorted lists, in steps that Hypothesis chooses.

HEDGEROW_STEPS is the number of steps; the test of a release takes 100,000.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from bisect import bisect_left, insort
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test

import hedgerow

STEPS = int(os.environ.get("HEDGEROW_STEPS", "3000"))
STEPS_OF_A_RUN = 50

# How many were made.
steps = 0

Model = dict[int, list[int]]

keys = st.integers(-20, 20)
values = st.integers(0, 5)
slices = st.builds(
    slice,
    st.none() | st.integers(-60, 60),
    st.none() | st.integers(-60, 60),
    st.sampled_from([None, 1, -1]),
)


def pairs_of(model: Model) -> list[tuple[int, int]]:
    return [(key, value) for key in sorted(model) for value in model[key]]


def between(model: Model, start: int | None, stop: int | None) -> list[tuple[int, int]]:
    low = -100 if start is None else start
    high = 100 if stop is None else stop
    return [pair for pair in pairs_of(model) if low <= pair[0] < high]


class Machine(RuleBasedStateMachine):
    """A table of each kind. The writer's changes are seen by the writer at once, and by readers
    from the commit on."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.store = hedgerow.Store(self.folder + "/store", durability="none")
        self.models: dict[bool, Model] = {False: {}, True: {}}
        self.undo: list[tuple[hedgerow.Savepoint, dict[bool, Model]]] = []
        self.readers: list[tuple[hedgerow.Transaction, dict[bool, Model]]] = []
        self.kept: list[tuple[memoryview, bytes]] = []
        self.begin()

    def begin(self) -> None:
        self.txn = self.store.write()
        self.before = self.copied()
        self.tables = self.opened(self.txn)

    def opened(self, txn: hedgerow.Transaction) -> dict[bool, hedgerow.Table[int, int]]:
        return {
            False: txn.table("single", key=int, value=int),
            True: txn.table("several", key=int, value=int, duplicates=True),
        }

    def copied(self) -> dict[bool, Model]:
        return {
            kind: {key: list(values) for key, values in model.items()}
            for kind, model in self.models.items()
        }

    def teardown(self) -> None:
        self.txn.abort()
        for reader, _ in self.readers:
            reader.abort()
        for view, content in self.kept:
            assert bytes(view) == content
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(key=keys, value=values)
    def put(self, key: int, value: int) -> None:
        self.tables[False][key] = value
        self.models[False][key] = [value]

    @rule(key=keys, value=values)
    def add(self, key: int, value: int) -> None:
        there = self.models[True].setdefault(key, [])
        assert self.tables[True].add(key, value) == (value not in there)
        if value not in there:
            insort(there, value)

    @rule(pairs=st.lists(st.tuples(keys, values), max_size=30), several=st.booleans())
    def update(self, pairs: list[tuple[int, int]], several: bool) -> None:
        self.tables[several].update(pairs)
        for key, value in pairs:
            there = self.models[several].setdefault(key, [])
            if not several:
                there[:] = [value]
            elif value not in there:
                insort(there, value)

    @rule(key=keys, value=values)
    def set_default(self, key: int, value: int) -> None:
        there = self.models[False].setdefault(key, [value])
        assert self.tables[False].setdefault(key, value) == there[0]

    @rule(key=keys, several=st.booleans())
    def delete(self, key: int, several: bool) -> None:
        there = self.models[several].pop(key, None)
        try:
            del self.tables[several][key]
            assert there is not None
        except KeyError:
            assert there is None

    @rule(key=keys, several=st.booleans())
    def pop(self, key: int, several: bool) -> None:
        there = self.models[several].pop(key, [None])
        assert self.tables[several].pop(key, None) == there[0]

    @rule(last=st.booleans(), several=st.booleans())
    def pop_item(self, last: bool, several: bool) -> None:
        model = self.models[several]
        pairs = pairs_of(model)
        if not pairs:
            return
        key, value = pairs[-1 if last else 0]
        assert self.tables[several].popitem(last) == (key, value)
        model[key].remove(value)
        if not model[key]:
            del model[key]

    @rule(key=keys, value=values)
    def discard(self, key: int, value: int) -> None:
        model = self.models[True]
        there = value in model.get(key, [])
        assert self.tables[True].discard(key, value) == there
        if there:
            model[key].remove(value)
            if not model[key]:
                del model[key]

    @rule(start=st.none() | keys, stop=st.none() | keys, several=st.booleans())
    def delete_range(self, start: int | None, stop: int | None, several: bool) -> None:
        del self.tables[several][start:stop]
        for key in {key for key, _ in between(self.models[several], start, stop)}:
            del self.models[several][key]

    @rule()
    def save(self) -> None:
        self.undo.append((self.txn.savepoint(), self.copied()))

    @precondition(lambda self: self.undo)
    @rule()
    def roll_back(self) -> None:
        place, models = self.undo[-1]
        place.rollback()
        self.models = {k: {a: list(b) for a, b in m.items()} for k, m in models.items()}

    @precondition(lambda self: self.undo)
    @rule()
    def release(self) -> None:
        place, _ = self.undo.pop()
        place.release()

    @rule()
    def commit(self) -> None:
        self.txn.commit()
        self.undo.clear()
        self.begin()

    @rule()
    def abort(self) -> None:
        self.txn.abort()
        self.undo.clear()
        self.models = {k: {a: list(b) for a, b in m.items()} for k, m in self.before.items()}
        self.begin()

    @rule()
    def open_reader(self) -> None:
        if len(self.readers) > 3:
            self.readers.pop(0)[0].abort()
        if any(self.before.values()):
            self.readers.append((self.store.read(), self.before))

    @precondition(lambda self: self.readers)
    @rule()
    def keep_views(self) -> None:
        txn, models = self.readers[-1]
        raw = txn.table("single", key=int, value=memoryview)
        for key, [value] in list(models[False].items())[:3]:
            self.kept.append((raw[key], (value + (1 << 63)).to_bytes(8)))
        del self.kept[:-20]

    @precondition(lambda self: self.readers)
    @rule(
        reader=st.integers(0, 3),
        key=keys,
        value=values,
        bounds=st.tuples(st.none() | keys, st.none() | keys),
        part=slices,
        reverse=st.booleans(),
        several=st.booleans(),
    )
    def read_before(self, reader: int, **asked: Any) -> None:
        txn, models = self.readers[reader % len(self.readers)]
        compare(self.opened(txn)[asked["several"]], models, **asked)

    @rule(
        key=keys,
        value=values,
        bounds=st.tuples(st.none() | keys, st.none() | keys),
        part=slices,
        reverse=st.booleans(),
        several=st.booleans(),
    )
    def read_own(self, **asked: Any) -> None:
        compare(self.tables[asked["several"]], self.models, **asked)

    @invariant()
    def lengths(self) -> None:
        global steps
        steps += 1
        for kind, table in self.tables.items():
            assert len(table) == len(pairs_of(self.models[kind]))
            assert table.key_count() == len(self.models[kind])


def compare(
    table: hedgerow.Table[int, int],
    models: dict[bool, Model],
    key: int,
    value: int,
    bounds: tuple[int | None, int | None],
    part: slice,
    reverse: bool,
    several: bool,
) -> None:
    model = models[several]
    pairs, turn = pairs_of(model), -1 if reverse else 1
    asked = between(model, *bounds)
    there = model.get(key, [])
    assert (key in table) == (key in model)
    assert table.get(key, -1) == (there or [-1])[0]
    assert table.values_of(key) == there and table.count_values(key) == len(there)
    assert table.has(key, value) == (value in there)
    assert table.get_many(range(-5, 5)) == [model.get(k, [None])[0] for k in range(-5, 5)]
    assert table.count(*bounds) == len(asked)
    assert table.rank(key) == bisect_left(pairs, (key, -1))
    if several:
        assert table.rank(key, value) == bisect_left(pairs, (key, value))
    items = table.items(*bounds, reverse=reverse)
    assert len(items) == len(asked)
    assert list(items) == asked[::turn]
    assert list(items[part]) == asked[::turn][part]
    assert list(reversed(items)) == asked[::-turn]
    names = sorted({key for key, _ in asked})[::turn]
    found = table.keys(*bounds, reverse=reverse)
    assert list(found) == names and list(found[part]) == names[part]
    assert list(table.values(*bounds)) == [value for _, value in asked]
    if asked:
        assert items[len(asked) // 2] == asked[::turn][len(asked) // 2]
        assert found[-1] == names[-1]
        n = pairs.index(asked[0])
        assert table.nth(n) == asked[0] == table.at[n]
    step = max(1, len(pairs))
    assert table.sample(step) == pairs


def test_all_calls_beside_a_dict_of_sorted_lists() -> None:
    """A run may end before it has made all its steps: then there are more runs."""
    fixed = "HEDGEROW_STEPS" not in os.environ
    while steps < STEPS:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=max(1, (STEPS - steps) // STEPS_OF_A_RUN),
                stateful_step_count=STEPS_OF_A_RUN,
                deadline=None,
                derandomize=fixed,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    print(f"{steps} steps")
