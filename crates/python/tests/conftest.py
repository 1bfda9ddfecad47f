"""What the tests share: a store in a folder that goes away."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis.configuration import set_hypothesis_home_dir

import hedgerow

# Nothing is left in the folder from which the tests are run.
set_hypothesis_home_dir(tempfile.mkdtemp())

# A shell starts jobs in the background with Ctrl-C ignored. Some tests send it, and one of them would
# wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[hedgerow.Store]:
    with hedgerow.Store(tmp_path / "store") as opened:
        yield opened
