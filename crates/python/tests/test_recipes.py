"""The programs of the documentation run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import hedgerow

ROOT = Path(__file__).parent.parent


def programs() -> list[tuple[str, str]]:
    found = []
    for page in (ROOT / "docs" / "recipes.md", ROOT / "README.md"):
        title = page.stem
        either = r"^## ([^\n]*)$|^```python\n(.*?)^```$"
        for part in re.finditer(either, page.read_text(), re.M | re.S):
            if part[1]:
                title = part[1]
            else:
                found.append((title, part[2]))
    return found


@pytest.mark.parametrize(("title", "program"), programs(), ids=[title for title, _ in programs()])
def test_a_recipe_runs(
    title: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for peer in re.findall(r"^import (lmdb|plyvel|polars|pyarrow)$", program, re.M):
        pytest.importorskip(peer)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, title, "exec"), {"__name__": "recipe"})


def test_each_subject_has_one() -> None:
    titles = "\n".join(title for title, _ in programs() if title[0].isdigit())
    for subject in ("cache", "rank", "Pages", "series", "Dedup", "queue", "feed", "frames",
                    "from lmdb", "from sqlite3", "from plyvel", "SQL", "together", "keeps up",
                    "since yesterday", "asyncio"):
        assert subject in titles


def test_the_docstring_of_the_package_runs() -> None:
    assert doctest.testmod(hedgerow).failed == 0
