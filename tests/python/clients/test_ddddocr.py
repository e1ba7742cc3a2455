"""ddddocr reads letters that are drawn here, and finds where they are: the same strings, the same boxes."""

from __future__ import annotations

import io
import time
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not find_spec("ddddocr"), reason="ddddocr is not installed")

WORDS = ("anfora", "7k3Qx", "graph", "2048", "Compiler")
REPEATS = 10


def pictures() -> list[bytes]:
    """PNG files of words, each in another size, tilted."""
    from PIL import Image, ImageDraw, ImageFont

    made = []
    for number, word in enumerate(WORDS):
        size = 24 + 6 * number
        picture = Image.new("RGB", (size * len(word), size * 2), "white")
        ImageDraw.Draw(picture).text((size // 2, size // 2), word, fill=(0, 20 * number, 60), font=ImageFont.load_default(size))
        file = io.BytesIO()
        picture.rotate(2 * number, fillcolor="white").save(file, "png")
        made.append(file.getvalue())
    return made


def work() -> tuple[Any, float]:
    import ddddocr

    reader = ddddocr.DdddOcr(show_ad=False)
    finder = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
    images = pictures()
    results = [(reader.classification(image), finder.detection(image)) for image in images]
    begin = time.perf_counter()
    for _ in range(REPEATS):
        for image in images:
            reader.classification(image)
            finder.detection(image)
    return results, time.perf_counter() - begin


def test_reads_the_same(both: tuple[Any, Any]) -> None:
    results, others = both
    print(results)
    assert any(boxes for _, boxes in results), "no letter was found at all"
    assert results == others
