"""rapid-layout takes a page apart that is drawn here: the same regions and classes, confidences within 1e-3."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not find_spec("rapid_layout"), reason="rapid-layout is not installed")

TEXT = "A graph compiler reads a model, makes it smaller, proves that it is the same, and runs it on any processor."
REPEATS = 3


def page() -> Any:
    """A page with a title, two columns of text, a table and a figure."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (1000, 1300), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((250, 60), "Fusion by post-dominators", fill="black", font=ImageFont.load_default(40))
    for column in (60, 530):
        for line in range(22):
            draw.text((column, 160 + 22 * line), TEXT[line : line + 52], fill="black", font=ImageFont.load_default(16))
    for row in range(7):
        draw.line((60, 720 + 40 * row, 940, 720 + 40 * row), fill="black", width=2)
        for column in range(4):
            draw.text((80 + 220 * column, 730 + 40 * row), f"{row * 4 + column}.5 ms", fill="black", font=ImageFont.load_default(18))
    draw.ellipse((350, 1010, 650, 1250), outline="black", fill="orange")
    return np.asarray(picture)


def work() -> tuple[Any, float]:
    from rapid_layout import RapidLayout

    analyse = RapidLayout()
    image = page()
    found = analyse(image)
    begin = time.perf_counter()
    for _ in range(REPEATS):
        analyse(image)
    seconds = time.perf_counter() - begin
    return ([[float(x) for x in box] for box in found.boxes], list(found.class_names), [float(score) for score in found.scores]), seconds


def test_finds_the_same_regions(both: tuple[Any, Any]) -> None:
    (boxes, names, scores), (other_boxes, other_names, other_scores) = both
    print(list(zip(names, scores, strict=True)))
    assert names, "no region was found at all"
    assert names == other_names
    assert scores == pytest.approx(other_scores, rel=0, abs=1e-3)
    for box, other in zip(boxes, other_boxes, strict=True):
        assert box == pytest.approx(other, rel=0, abs=0.5)  # pixels
