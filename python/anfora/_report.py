"""What an optimization did: a table for people, in a terminal and in a notebook."""

from __future__ import annotations

import functools
from typing import NamedTuple

from . import _core


class Step(NamedTuple):
    """What one pass did over all rounds."""

    name: str  #: as the option ``passes`` takes it
    title: str
    doc: str
    rewrites: int
    nodes_removed: int  #: negative when it added some
    seconds: float


class Side(NamedTuple):
    """A model before or after: nodes and bytes of its ONNX file, floating point operations of a run."""

    nodes: int
    bytes: int
    flops: float


def _side(model: _core.Model) -> Side:
    return Side(*model.size_as_onnx(), model.flops())


_HEADER = ("", "rewrites", "nodes", "size", "compute", "")


class OptimizeReport:
    """What :func:`anfora.optimize` did. Prints as a table."""

    def __init__(
        self, before: _core.Model, after: _core.Model, steps: tuple[Step, ...], rounds: int, seconds: float
    ) -> None:
        self._models = before, after
        self.steps = steps  #: the passes that changed something, in their order
        self.rounds = rounds  #: until nothing changed
        self.seconds = seconds

    @functools.cached_property
    def before(self) -> Side:
        """The model that was given; counted when first asked for."""
        return _side(self._models[0])

    @functools.cached_property
    def after(self) -> Side:
        """The optimized one."""
        return _side(self._models[1])

    def _rows(self) -> list[tuple[str, ...]]:
        def side(name: str, of: Side) -> tuple[str, ...]:
            return (name, "", str(of.nodes), _core.human_bytes(of.bytes), _core.human_flops(of.flops), "")

        rows = [side("before", self.before)]
        for step in self.steps:
            nodes = f"{-step.nodes_removed:+d}" if step.nodes_removed else ""
            rows.append(("  " + step.title, str(step.rewrites), nodes, "", "", step.doc))
        return rows + [side("after", self.after)]

    def __str__(self) -> str:
        rows = [_HEADER, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 5)), row[5]]).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self._time()])

    def _time(self) -> str:
        return f"{self.seconds:.2f} s, {self.rounds} round{'s' * (self.rounds != 1)}"

    def _repr_html_(self) -> str:
        """The table without colours, so that it has those of the page, dark or light."""
        import html

        def row(cells: tuple[str, ...]) -> str:
            tag = "td" if cells[0].startswith(" ") else "th"  # a step; the heading or a side
            words, number = "text-align:left;padding:.2em .6em", "text-align:right;padding:.2em .6em;white-space:nowrap"
            styles = (words, number, number, number, number, words)
            texts = (f'<{tag} style="{style}">{html.escape(cell)}</{tag}>' for cell, style in zip(cells, styles))
            return f"<tr>{''.join(texts)}</tr>"

        rows = "\n".join(map(row, self._rows()))
        caption = f'<caption style="caption-side:bottom;text-align:left;padding:.4em .6em">{self._time()}</caption>'
        return f"<table>{caption}\n<thead>{row(_HEADER)}</thead>\n<tbody>{rows}</tbody>\n</table>"
