"""Names for annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)

Name: TypeAlias = str | bytes
"""A name of a table: text, or bytes."""

Durability: TypeAlias = Literal["durable", "eventual", "none"]
"""What a commit promises when it returns."""

Path: TypeAlias = str | PathLike[str]
"""Where a store is."""


class Codec(Protocol):
    """An object with ``dumps`` and ``loads``, such as the module ``json``."""

    def dumps(self, obj: Any, /) -> str | bytes:
        """What is stored of a value; text is stored as UTF-8."""

    def loads(self, s: Any, /) -> Any:
        """The value of what was stored, which is given as bytes."""


class Pairs(Protocol[K_co, V_co]):
    """A mapping, as ``update`` takes it."""

    def keys(self) -> Any:
        """Its keys."""

    def items(self) -> Iterable[tuple[K_co, V_co]]:
        """Its pairs."""


Types: TypeAlias = Codec | tuple[Any, ...]
"""What says the type of keys or values and no type checker can follow."""

Order: TypeAlias = (
    Literal["bytewise", "reverse", "integer"] | tuple[str, Callable[[Any], Any]] | None
)
"""An order: of bytes, or a name and a function such as ``sorted`` takes for its key."""
