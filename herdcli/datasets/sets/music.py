"""Two excerpts from each of eight recordings, ten seconds each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from herdcli.datasets.registry import GITHUB, Arrays, DatasetEntry, PublishedFile

COMMIT = "450cdd8a002c98e7bdbfebb309fc1ed024001f77"
RATE, LENGTH = 8_820, 88_436  # the size in Teh's thesis
# name, SHA-256 if the publisher's index has it (librosa/data, index/registry.txt), licence, seconds at which the excerpts begin
RECORDINGS: tuple[tuple[str, str | None, str, tuple[float, float]], ...] = (
    (
        "147793__setuniman__sweet-waltz-0i-22mi.hq.ogg",
        "248f93b7c729bc0bd6c4cbc107e6b67ec4d60e40c111e313d4d69f77748da26a",
        "CC BY-NC 3.0",
        (2.46, 27.06),
    ),
    (
        "442789__lena-orsa__happy-music-pistachio-ice-cream-ragtime.hq.ogg",
        "1cc83b775e640a8dd409da9e29f5b5e0124bc5ec9bb4fda975919d31d1d893b8",
        "CC BY-NC 3.0",
        (3.5382766439909297, 38.921133786848074),
    ),
    (
        "Hungarian_Dance_number_5_-_Allegro_in_F_sharp_minor_(string_orchestra).hq.ogg",
        "8e93ff0182a93168b15346c497b164cb49d2a97bf1e987a1149ea579e914532e",
        "public domain",
        (2.2922448979591836, 25.21469387755102),
    ),
    ("Karissa_Hobbs_-_Lets_Go_Fishin.hq.ogg", None, "CC BY 3.0", (6.649433106575963, 73.1439455782313)),
    (
        "Kevin_MacLeod_-_P_I_Tchaikovsky_Dance_of_the_Sugar_Plum_Fairy.hq.ogg",
        "f062221a56a227cdb7c067cf2e6ac0e250a50012f7693ca0c8e31f05f83e49b1",
        "CC BY 3.0",
        (5.9937868480725625, 65.93174603174603),
    ),
    (
        "Kevin_MacLeod_-_Vibe_Ace.hq.ogg",
        "73d6443ef90a7c022f164e5aa90e56c2291585930b39b1656d0765abbc1f1779",
        "CC BY 3.0",
        (3.0729251700680273, 33.80235827664399),
    ),
    (
        "admiralbob77_-_Choice_-_Drum-bass.hq.ogg",
        "57b4d95473b92a8441c1d3ab20f836a3e0cbf501bf3afe1ce7a5d0d98d7d4576",
        "CC BY-NC (text says 3.0, link 4.0)",
        (1.2512925170068028, 13.764285714285714),
    ),
    (
        "glacier-bay-humpback.hq.ogg",
        "c3250ff526898aa5528aeb6b81a49aff58f63400ec2ddb8bcb86caf611d33144",
        "public domain",
        (3.2404308390022676, 35.644943310657595),
    ),
)


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return excerpts as columns in time order: mono, resampled to 8.82 kHz, divided by their standard deviation."""
    import math

    import numpy as np
    import soundfile
    from scipy.signal import resample_poly

    columns = []
    for name, _, _, starts in RECORDINGS:
        samples, rate = soundfile.read(files[name], dtype="float64", always_2d=True)
        common = math.gcd(RATE, rate)
        sound = resample_poly(samples.mean(axis=1), RATE // common, rate // common)
        columns += [sound[round(start * RATE) :][:LENGTH] for start in starts]
    X = np.stack([each / each.std() for each in columns], axis=1)
    centred = X - X.mean(axis=0)
    return {
        "X": X.astype(np.float32),
        "file": [name for name, _, _, starts in RECORDINGS for _ in starts],
        "kurtosis": (centred**4).mean(axis=0) / (centred**2).mean(axis=0) ** 2,
        "licence_per_source": [licence for _, _, licence, starts in RECORDINGS for _ in starts],
        "start_s": np.array([start for _, _, _, starts in RECORDINGS for start in starts]),
    }


ENTRY = DatasetEntry(
    name="music",
    file="music16_long.h5",
    rows=LENGTH,
    columns=2 * len(RECORDINGS),
    size=4_800_000,
    description="two excerpts of 10 s of each of eight recordings, mono, 8.82 kHz, unit variance, in time order",
    figures="Teh 4.5, 4.6; claims; leagues; em",
    licence="public domain, CC BY and CC BY-NC, by recording: licence_per_source",
    restricted=True,
    origin="github.com/librosa/data, audio/*.hq.ogg",
    sources=tuple(
        PublishedFile(
            file=name,
            urls=(f"{GITHUB}/librosa/data/{COMMIT}/audio/{quote(name)}", f"https://librosa.org/data/audio/{quote(name)}"),
            sha256=digest,
        )
        for name, digest, _, _ in RECORDINGS
    ),
    attributes={"sample_rate": RATE},
    packages=("soundfile",),
    checked=False,
    convert=convert,
    digest="2749cc7e4ea7906c866597d55e0d72e8836242ada87979b45755a1d3a9890f21",
)
