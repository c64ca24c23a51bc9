"""Fig. 4.7 to 4.13 of Teh (2003): features of speech, natural pictures, digits and faces, learned by energy-based models.

    python scripts/fig_ica_features.py DATA RESULTS [--models FOLDER] [--only NAME] [--fraction F]

DATA is the folder of the data sets.  Each model is one `herd` pipe with the settings of the thesis, kept in FOLDER, with a
checkpoint, so that an interrupted run goes on where it stopped.  --fraction makes all schedules shorter.  Pictures go to
RESULTS/ica-NAME-*.png, figures to RESULTS/ica-features.csv.

speech          200 filters of 12.5 ms at 8 kHz                  fig. 4.7, 4.8
patches         768 filters of 16×16 pixels, log intensities     fig. 4.9 to 4.11
patches8        192 filters of 8×8 pixels of other pictures      the same in a thirtieth of the time
map             196 filters of 8×8 pixels on a map of 14×14      sec. 4.8, without a figure in the thesis
digits          361 filters of 16×16 digits                      fig. 4.12
faces           361 filters of 256 components                    fig. 4.13b
faces-pixels    the same of the transpose, "architecture I"      fig. 4.13c
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from herdcli import artifacts
from herdcli.evaluation import plots
from herdcli.evaluation.ica_plots import small_curves
from herdcli.ica import metrics, spectra
from herdcli.ica.model import ICA
from herdcli.numerics import gabor
from herdcli.numerics.principal import principal

HERD = [sys.executable, "-m", "herdcli"]
STUDENT = "ica --algorithm ebm --expert student --batch-size 100 --momentum 0.9"
LIKE_PATCHES = f"{STUDENT} --leapfrog 30 --weight-decay 1e-4 --initial-scale unit --gamma-rate 1"
FACES = f"{STUDENT} --components 256 --filters 361 --steps 3 --leapfrog 20 --initial-scale unit --gamma-rate 0.2"
SPEECH = "0.05x5000,0.025x5000,0.005x4000,0.0025x3000,0.0005x3000"

COLUMNS = ["name", "filters", "dimensions", "iterations", "kurtosis"]
COLUMNS += ["participation", "localisation", "gabor_r2", "gabor_share", "acceptance"]

# name -> (data set, how it is prepared, the fit, its rates)
EXPERIMENTS = {
    "speech": ("speech_segments.h5", "", f"{STUDENT} --filters 200 --leapfrog 20 --initial-scale 0.1 --gamma-rate 1", SPEECH),
    "patches": ("patches16.h5", "", f"{LIKE_PATCHES} --log --filters 768", "0.01x16000,0.005x5000,0.002x3000"),
    "patches8": ("natural13.h5", "--patches 8 --count 100000 --log", f"{LIKE_PATCHES} --filters 192", "0.01x6000"),
    "map": ("natural13.h5", "--patches 8 --count 50000 --log", f"{LIKE_PATCHES} --topography 14x14", "0.01x5000,0.005x2000"),
    "digits": ("usps_all.h5", "", f"{LIKE_PATCHES} --filters 361", "0.01x12000,0.002x3000"),
    "faces": ("olivetti.h5", "--mask ellipse --equalize", FACES, "0.005x2000"),
    "faces-pixels": ("olivetti.h5", "--equalize --transpose", FACES, "0.005x2000"),
}
WANTED = {  # of `herd eval --plot`
    "speech": ["tiling"],
    "patches": ["gabors", "tiling"],
    "patches8": ["tiling"],
    "map": ["filters"],
    "digits": ["gabors"],
}


def scaled(rates: str, fraction: float) -> str:
    """The schedule with so many of its updates."""
    parts = [part.split("x") for part in rates.split(",")]
    return ",".join(f"{rate}x{max(1, round(int(updates) * fraction))}" for rate, updates in parts)


def herd(line: str) -> None:
    subprocess.run([*HERD, *shlex.split(line)], check=True)


def fitted(name: str, arguments: argparse.Namespace) -> tuple[ICA, Path, Path]:
    """The model of an experiment, its file, and the rows it was fitted to; made if they are not there."""
    source, preparation, fit, rates = EXPERIMENTS[name]
    rows, model = arguments.data / source, arguments.models / f"{name}.h5"
    if preparation:
        rows = arguments.models / f"{name}-rows.h5"
        if not rows.exists():
            herd(f"convert {preparation} {arguments.data / source} -o {rows}")
    if not model.exists():
        herd(f"{fit} --rates {scaled(rates, arguments.fraction)} {rows} -o {model} --checkpoint {model}.checkpoint --resume")
    value: ICA = artifacts.load(str(model)).value
    return value, model, rows


def figures(name: str, value: ICA, model: Path, rows: Path) -> dict[str, str]:
    """The row of `herd eval`; of architecture I the locality of the outputs over the pixels."""
    done = subprocess.run([*HERD, "eval", "--format", "json", str(model)], check=True, stdout=subprocess.PIPE)
    row = json.loads(done.stdout)[0] | {"name": name, "iterations": value.iterations}
    if name == "faces-pixels":
        outputs = pixel_outputs(value, rows)
        row["participation"] = float(np.median(metrics.participation(outputs)))
        row["localisation"] = float(np.median(metrics.localisation(outputs, (64, 64))))
    return {
        column: "" if row[column] is None else f"{row[column]:.4g}" if isinstance(row[column], float) else str(row[column])
        for column in COLUMNS
    }


def pixel_outputs(value: ICA, rows: Path) -> np.ndarray:
    """Outputs (M, pixels) of filters that act on the images' values at one pixel."""
    return value.features(artifacts.load(str(rows)).value.X).T


def store(found: dict[str, dict[str, str]], path: Path) -> None:
    """The rows, beside those that other runs have left."""
    if path.exists():
        with path.open(newline="") as file:
            found = {row["name"]: row for row in csv.DictReader(file)} | found
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found[name] for name in EXPERIMENTS if name in found)


def tiles(pictures: np.ndarray, path: Path, columns: int, title: str) -> None:
    """Pictures (n, h, w), each on a scale of its own, zero mid-grey."""
    scaled_pictures = pictures / np.abs(pictures).max(axis=(1, 2), keepdims=True)
    plots.write(plots.tiles(scaled_pictures, columns=columns, signed=True, title=title), path, ".png")


def speech(value: ICA, results: Path) -> None:
    """Fig. 4.7: the five filters of largest power and five others, and their spectra; fig. 4.8."""
    rows = value.whitening.rotated(value.J)
    others = 5 + np.random.default_rng(0).choice(len(rows) - 5, 5, replace=False)
    shown = rows[[*range(5), *others]]
    shown /= np.abs(shown).max(axis=1, keepdims=True)
    plots.write(small_curves(shown, np.arange(shown.shape[1]) / 8, "ms"), results / "ica-speech-filters.png", ".png")
    power = spectra.power_spectra(shown)
    power /= power.max(axis=1, keepdims=True)
    kilohertz = np.arange(power.shape[1]) * 8 / shown.shape[1]
    plots.write(small_curves(power, kilohertz, "kHz"), results / "ica-speech-spectra.png", ".png")


def pictures(value: ICA, path: Path) -> None:
    """Fig. 4.9 and 4.12: 144 filters drawn at random, by rising frequency of their Gabor functions."""
    side = int(value.image_shape[0])
    rows = value.whitening.rotated(value.J).reshape(-1, side, side)
    rows = rows[np.random.default_rng(0).choice(len(rows), min(144, len(rows)), replace=False)]
    tiles(rows[np.argsort(gabor.fit(rows).frequency)], path, 16, f"{len(rows)} of the {len(value.J)} filters, by frequency")


def faces(value: ICA, results: Path, data: Path) -> None:
    """Fig. 4.13a and b: eigenfaces, and the features by their rows of raw pixels."""
    shape = tuple(int(side) for side in value.image_shape)
    eigen = principal(artifacts.load(str(data)).value.X, 32).components.reshape(-1, *shape)
    tiles(eigen, results / "ica-faces-eigenfaces.png", 8, "32 eigenfaces")
    rows = value.whitening.rotated(value.J).reshape(-1, *shape)
    rows = rows[np.random.default_rng(0).choice(len(rows), 32, replace=False)]
    tiles(rows, results / "ica-faces-features.png", 8, "32 features, drawn at random")


def faces_pixels(value: ICA, results: Path, data: Path) -> None:
    """Fig. 4.13c: the outputs of the filters over the pixels, as pictures."""
    outputs = pixel_outputs(value, data).reshape(-1, 64, 64)
    outputs = outputs[np.random.default_rng(0).choice(len(outputs), 32, replace=False)]
    tiles(outputs, results / "ica-faces-pixels.png", 8, "32 features of architecture I, drawn at random")


def neighbours(value: ICA, rows: Path, path: Path) -> None:
    """Mean correlation of |outputs| of two filters, by their distance on the map: the larger one of down and across."""
    outputs = np.abs(value.features(artifacts.load(str(rows)).value.X[:20_000]))
    height, width = value.grid.tolist()
    down, across = (np.abs(place[:, None] - place) for place in np.divmod(np.arange(height * width), width))
    distance = np.maximum(np.minimum(down, height - down), np.minimum(across, width - across))
    correlation = np.corrcoef(outputs.T)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["distance", "correlation"])
        writer.writerows([far, f"{correlation[distance == far].mean():.4f}"] for far in range(1, distance.max() + 1))


def draw(name: str, value: ICA, model: Path, rows: Path, results: Path) -> None:
    """The pictures of one experiment."""
    if name == "faces":
        faces(value, results, rows)
    elif name == "faces-pixels":
        faces_pixels(value, results, rows)
    elif name == "speech":
        speech(value, results)
    elif name == "map":
        neighbours(value, rows, results / "ica-map-neighbours.csv")
    else:
        pictures(value, results / f"ica-{name}-filters.png")
    wanted = WANTED.get(name, [])
    options = " ".join(f"--plot {plot} {results}/ica-{name}-{plot}.png" for plot in wanted)
    if wanted:
        herd(f"eval {model} {options} -o {model}.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description="Fig. 4.7 to 4.13 of Teh (2003).")
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", type=Path, default=None, help="default: RESULTS/ica-models")
    parser.add_argument("--only", choices=list(EXPERIMENTS), action="append")
    parser.add_argument("--fraction", type=float, default=1.0)
    arguments = parser.parse_args()
    arguments.models = arguments.models or arguments.results / "ica-models"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments.models.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or EXPERIMENTS:
        value, model, rows = fitted(name, arguments)
        draw(name, value, model, rows, arguments.results)
        store({name: figures(name, value, model, rows)}, arguments.results / "ica-features.csv")


if __name__ == "__main__":
    main()
