"""What the tests share: a store in a folder that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hedgerow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[hedgerow.Store]:
    with hedgerow.Store(tmp_path / "store") as opened:
        yield opened
