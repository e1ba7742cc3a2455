"""openwakeword listens to sentences that espeak-ng speaks: the same scores of all its wake words in every frame."""

from __future__ import annotations

import shutil
import time
from importlib.util import find_spec
from typing import Any

import pytest

from test_silero import spoken

pytestmark = [
    pytest.mark.skipif(not find_spec("openwakeword"), reason="openwakeword is not installed"),
    pytest.mark.skipif(not shutil.which("espeak-ng"), reason="espeak-ng is not installed"),
]

SENTENCES = ("Hey Jarvis, what is the weather today?", "Alexa, set a timer for five minutes.")


def work() -> tuple[Any, float]:
    import numpy as np
    from openwakeword.model import Model

    clips = [(spoken(sentence) * 32767).astype(np.int16) for sentence in SENTENCES]
    model = Model()
    begin = time.perf_counter()
    results = [frame for clip in clips for frame in model.predict_clip(clip)]
    seconds = time.perf_counter() - begin
    return [{word: float(score) for word, score in frame.items()} for frame in results], seconds


def test_hears_the_same(both: tuple[Any, Any]) -> None:
    frames, others = both
    print({word: round(max(frame[word] for frame in frames), 4) for word in frames[0]})
    assert len(frames) == len(others)
    for frame, other in zip(frames, others, strict=True):
        assert frame == pytest.approx(other, rel=0, abs=1e-3)
