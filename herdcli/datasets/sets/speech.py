"""Segments of 12.5 ms of spoken digits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from herdcli.datasets.registry import Arrays, DatasetEntry, PublishedFile

FILE = "free-spoken-digit-dataset.zip"
COMMIT = "26eb9aaf76e81b692f806f9140c2d2777410d7a1"
COUNT, LENGTH, SEED = 50_000, 100, 47  # the shape in Teh's thesis


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return segments at random positions from a seed, uniform over all positions: first the recordings are sampled, then the positions.

    Recordings DIGIT_SPEAKER_NUMBER.wav are sorted by speaker, digit and number.
    """
    import io

    import numpy as np
    from scipy.io import wavfile

    from herdcli.datasets.archives import read_members

    found = {}
    for name, content in read_members(files[FILE], "recordings", ".wav"):
        digit, speaker, number = name.removesuffix(".wav").split("_")
        found[speaker, int(digit), int(number)] = wavfile.read(io.BytesIO(content))[1]
    keys = sorted(found)
    speakers = sorted({speaker for speaker, _, _ in keys})
    places = np.array([len(found[key]) - LENGTH + 1 for key in keys])
    random = np.random.default_rng(SEED)
    recording = random.choice(len(keys), COUNT, p=places / places.sum())
    start = (random.random(COUNT) * places[recording]).astype(np.int32)
    return {
        "X": np.stack([found[keys[k]][first : first + LENGTH] for k, first in zip(recording, start, strict=True)]).astype(np.int16),
        "recording": recording.astype(np.int32),
        "speaker": np.array([speakers.index(speaker) for speaker, _, _ in keys], np.uint8)[recording],
        "start": start,
        "y": np.array([digit for _, digit, _ in keys], np.int32)[recording],
    }


ENTRY = DatasetEntry(
    name="speech",
    file="speech_segments.h5",
    rows=COUNT,
    columns=LENGTH,
    size=6_700_000,
    description="12.5 ms at 8 kHz at random places of spoken digits; recording and start say where, speaker and y who says which digit",
    figures="Teh 4.7, 4.8; claims; leagues; em",
    licence="CC BY-SA 4.0",
    restricted=False,
    origin="github.com/Jakobovski/free-spoken-digit-dataset, recordings",
    sources=(PublishedFile(file=FILE, urls=(f"https://github.com/Jakobovski/free-spoken-digit-dataset/archive/{COMMIT}.zip",)),),
    attributes={"sample_rate": 8000, "seed": SEED},
    checked=False,
    convert=convert,
    digest="1b24c561e04bc2eec5bf919ac3ecab90a704342fd12e1a7116a9c80700b0fd2d",
)
