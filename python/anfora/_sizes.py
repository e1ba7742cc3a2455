"""Which sizes of its arguments a compiled function is for."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator

Path = tuple[Any, ...]  # to a value, see programs.cc
Shape = tuple[int, ...]

_ONE = -1


def shapes_of(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[Path, Shape]:
    """The shapes of the tensors in arguments, by their paths."""
    found: dict[Path, Shape] = {}
    for i, argument in enumerate(arguments):
        found.update(_shapes(argument, (("argument", i),)))
    for name, argument in keywords.items():
        found.update(_shapes(argument, (("keyword", name),)))
    return found


def _shapes(value: Any, path: Path) -> Iterator[tuple[Path, Shape]]:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            yield from _shapes(getattr(value, name), (*path, ("attribute", name)))
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _shapes(item, (*path, ("item", i)))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _shapes(item, (*path, ("item", key)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _shapes(getattr(value, field.name), (*path, ("attribute", field.name)))
    elif isinstance(getattr(value, "shape", None), tuple):
        yield path, tuple(value.shape)


class Sizes:
    """Sizes of arguments, as what is alike among them: those that are 1, and those that are equal.

    A graph for sizes that are equal needs no broadcasting and no test between them. A call with others compiles once more, for what all
    calls have alike so far, so that this ends. The compiler may assume ranges of the sizes of the first of these calls.
    """

    def __init__(self, classes: dict[Path, Shape], is_exact: bool, first: dict[str, int] | None = None) -> None:
        self.classes = classes  # by tensor and axis: a number for each size, or the size itself
        self.is_exact = is_exact
        self.first = first or {}  # by name, of what ranges may be assumed

    @classmethod
    def exactly(cls, shapes: dict[Path, Shape]) -> Sizes:
        return cls(shapes, True)

    @classmethod
    def alike(cls, shapes: dict[Path, Shape], before: Sizes | None, may_assume: bool) -> Sizes:
        """What the shapes and those that were met before have alike."""
        numbers: dict[tuple[int, int], int] = {}
        classes: dict[Path, Shape] = {}
        for path, shape in shapes.items():
            met = before.classes[path] if before else (_ONE,) * len(shape)
            pairs = zip(shape, met)
            classes[path] = tuple(_ONE if pair == (1, _ONE) else numbers.setdefault(pair, len(numbers)) for pair in pairs)
        first = {f"n{number}": pair[0] for pair, number in numbers.items()}
        return cls(classes, False, first if may_assume else None)

    def fits(self, shapes: dict[Path, Shape]) -> bool:
        if self.is_exact:
            return shapes == self.classes
        sizes = {_ONE: 1}
        return all(sizes.setdefault(number, size) == size
                   for path, shape in shapes.items() for number, size in zip(self.classes[path], shape))

    def names(self) -> dict[Path, list[str]] | None:
        """How the dimensions are called: sizes that are known are numbers. None: each has a name of its own, see programs.h."""
        return {path: [str(c) if self.is_exact else "1" if c == _ONE else f"n{c}" for c in row] for path, row in self.classes.items()}

    def key(self) -> tuple[Any, ...]:
        return self.is_exact, bool(self.first), tuple(self.classes.values())


class Within:
    """That a size of an argument lies in a range, which was assumed when the function was compiled."""

    def __init__(self, path: Path) -> None:
        self.path, (_, self.axis, self.least, self.most) = path[:-1], path[-1]

    def holds(self, shapes: dict[Path, Shape]) -> bool:
        return is_within(shapes[self.path], self.axis, self.least, self.most)

    def __str__(self) -> str:
        return f"{self.least}" if self.least == self.most else f"{self.least} or more"


def is_within(shape: Shape, axis: int, least: int, most: int | None) -> bool:
    return least <= shape[axis] and (most is None or shape[axis] <= most)


class AnySizes(Sizes):
    """All sizes."""

    def __init__(self) -> None:
        super().__init__({}, False)

    def fits(self, shapes: dict[Path, Shape]) -> bool:
        return True

    def names(self) -> None:
        return None
