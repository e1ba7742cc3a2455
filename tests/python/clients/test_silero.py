"""silero-vad finds the same speech in a sentence that espeak-ng speaks, between silence and noise."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import wave
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(not find_spec("silero_vad"), reason="silero-vad is not installed"),
    pytest.mark.skipif(not shutil.which("espeak-ng"), reason="espeak-ng is not installed"),
]

RATE = 16000
SENTENCE = "Anfora compiles neural networks. It reads a model, makes it smaller, and runs it."
REPEATS = 5


def spoken(sentence: str = SENTENCE) -> Any:
    """Samples at 16 kHz: silence, the sentence, noise, the sentence again, silence."""
    import numpy as np

    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["espeak-ng", "-v", "en", "-w", file.name, sentence], check=True)
        with wave.open(file.name) as sound:
            rate = sound.getframerate()
            samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).astype(np.float32) / 32768
    times = np.arange(int(len(samples) * RATE / rate)) * (rate / RATE)
    speech = np.interp(times, np.arange(len(samples)), samples).astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 0.005, 2 * RATE).astype(np.float32)
    silence = np.zeros(RATE, np.float32)
    return np.concatenate([silence, speech, noise, speech, silence])


def work() -> tuple[Any, float]:
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    torch.set_num_threads(1)
    samples = torch.from_numpy(spoken())
    model = load_silero_vad(onnx=True)
    found = get_speech_timestamps(samples, model)
    begin = time.perf_counter()
    for _ in range(REPEATS):
        get_speech_timestamps(samples, model)
    seconds = time.perf_counter() - begin
    model.reset_states()
    probabilities = [float(model(samples[i : i + 512], RATE)) for i in range(0, len(samples) - 511, 512)]
    return (found, probabilities), seconds


def test_finds_the_same_speech(both: tuple[Any, Any]) -> None:
    (found, probabilities), (other_found, other_probabilities) = both
    print(f"speech: {[(span['start'] / RATE, span['end'] / RATE) for span in found]} s")
    assert found, "no speech was found at all"
    assert found == other_found
    assert probabilities == pytest.approx(other_probabilities, rel=0, abs=1e-3)
