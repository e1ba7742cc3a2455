"""rapidocr-onnxruntime reads text in pictures that are drawn here: the same boxes, the same strings, confidences within 1e-3."""

from __future__ import annotations

import time
from typing import Any

import both

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


def same(results: Any, others: Any) -> list[str]:
    differences = []
    for number, (lines, other_lines) in enumerate(zip(results, others)):
        lines, other_lines = lines or [], other_lines or []
        print(f"picture {number}: {len(lines)} lines: {[text for _, text, _ in lines]}")
        if len(lines) != len(other_lines):
            differences.append(f"picture {number}: {len(lines)} lines, and {len(other_lines)}")
        for (box, text, confidence), (other_box, other_text, other_confidence) in zip(lines, other_lines):
            if box != other_box:
                differences.append(f"picture {number}: the box of '{text}' is {box}, and {other_box}")
            if text != other_text:
                differences.append(f"picture {number}: '{text}', and '{other_text}'")
            if abs(float(confidence) - float(other_confidence)) > 1e-3:
                differences.append(f"picture {number}: '{text}' with {confidence}, and {other_confidence}")
    if not any(results):
        differences.append("nothing was read at all")
    return differences


if __name__ == "__main__":
    both.main(work, same)
