"""rapidocr-onnxruntime reads text in pictures that are drawn here: the same boxes, the same strings, confidences within 1e-3."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not find_spec("rapidocr_onnxruntime"), reason="rapidocr-onnxruntime is not installed")

LINES = (
    "The quick brown fox jumps over the lazy dog",
    "Invoice No. 2024-0731   Total: 1,284.50 EUR",
    "graph compiler",
    "0123456789 +-*/=<>",
    "Pack my box with five dozen liquor jugs.",
)
REPEATS = 3


def pictures() -> list[Any]:
    """Pictures of text in several sizes, one of them with a slope."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    made = []
    for number, size in enumerate((18, 26, 40)):
        picture = Image.new("RGB", (40 + size * 26, 40 + len(LINES) * size * 2), "white")
        draw = ImageDraw.Draw(picture)
        for i, line in enumerate(LINES):
            draw.text((20, 20 + i * size * 2), line, fill=(10 * i, 0, 60), font=ImageFont.load_default(size))
        made.append(np.asarray(picture.rotate(3 * number, expand=True, fillcolor="white")))
    return made


def work() -> tuple[Any, float]:
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR()
    images = pictures()
    results = [reader(image)[0] for image in images]
    begin = time.perf_counter()
    for _ in range(REPEATS):
        for image in images:
            reader(image)
    return results, time.perf_counter() - begin


def test_reads_the_same(both: tuple[Any, Any]) -> None:
    results, others = both
    assert any(results), "nothing was read at all"
    for lines, other_lines in zip(results, others, strict=True):
        print([text for _, text, _ in lines or []])
        assert [(box, text) for box, text, _ in lines or []] == [(box, text) for box, text, _ in other_lines or []]
        confidences, other_confidences = ([float(confidence) for *_, confidence in each or []] for each in (lines, other_lines))
        assert confidences == pytest.approx(other_confidences, rel=0, abs=1e-3)
