"""The stubs beside the module: mypy's own comparison, and mypy in strict mode over package and
tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hedgerow

TESTS = Path(__file__).parent


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=TESTS.parent, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_say_what_the_module_has(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    # The names that the compiled half exports are those of the package; the last one is an alias
    # that stubtest takes for something else.
    names = ("hedgerow._hedgerow.__all__", r"hedgerow._hedgerow\..*\.__class_getitem__",
             "hedgerow.types.Durability")
    allowed.write_text("\n".join(names))
    run("-m", "mypy.stubtest", "hedgerow", "--allowlist", str(allowed))


def test_mypy_is_strict() -> None:
    run("-m", "mypy", "--strict", "-p", "hedgerow")
    run("-m", "mypy", "--strict", str(TESTS))


def test_everything_public_is_documented() -> None:
    for name in hedgerow.__all__:
        item = getattr(hedgerow, name)
        if not isinstance(item, type):
            continue
        assert item.__doc__, name
        for member, value in vars(item).items():
            if not member.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{member}"
