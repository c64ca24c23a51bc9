"""Fig. 4.7 to 4.13 of Teh (2003): features of speech, natural pictures, digits and faces, learned by energy-based models.

    python scripts papers/fig_ica_features FOLDER [--only NAME] [--fraction F]

The data sets are those of $HERD_DATA.  Each model is one `herd` pipe with the settings of the thesis, kept in FOLDER, with a
checkpoint, so that an interrupted run goes on where it stopped.  --fraction makes all schedules shorter.  Pictures are
FOLDER/ica-NAME-*.png, figures FOLDER/ica-features.csv.

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
import json
from pathlib import Path

import numpy as np
from shared.figure_pipeline import herd, read_csv, write_csv
from shared.real_data import path

from herdcli import artifacts
from herdcli.evaluation.plots import gabor, plot_list
from herdcli.evaluation.plots.ica_plots import curve_panels
from herdcli.evaluation.plots.tiles import tile_images
from herdcli.ica.filters import filter_metrics, filter_spectra
from herdcli.ica.model import ICA
from herdcli.numerics.principal_components import fit_principal_components

STUDENT = "ica --algorithm ebm --expert student --batch-size 100 --momentum 0.9"
LIKE_PATCHES = f"{STUDENT} --leapfrog 30 --weight-decay 1e-4 --initial-scale unit --gamma-rate 1"
FACES = f"{STUDENT} --components 256 --filters 361 --proposals 3 --leapfrog 20 --initial-scale unit --gamma-rate 0.2"
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


def pairs(rates: str) -> list[list[float]]:
    """A schedule as numbers: rates, each with its updates."""
    return [[float(number) for number in part.split("x")] for part in rates.split(",")]


def scaled(rates: str, fraction: float) -> str:
    """The schedule with so many of its updates."""
    return ",".join(f"{rate:g}x{max(1, round(updates * fraction))}" for rate, updates in pairs(rates))


def fitted(name: str, arguments: argparse.Namespace) -> tuple[ICA, Path, Path]:
    """The model of an experiment, its file, and the rows it was fitted to; made unless they are there, of the same schedule."""
    source, preparation, fit, rates = EXPERIMENTS[name]
    rows, model = path(source), arguments.folder / f"{name}.h5"
    rates = scaled(rates, arguments.fraction)
    if preparation:
        rows = arguments.folder / f"{name}-rows.h5"
        if not rows.exists():
            herd("convert", *preparation.split(), path(source), "-o", rows)
    if not model.exists() or artifacts.load(str(model)).history[-1]["parameters"]["rates"] != pairs(rates):
        herd(*fit.split(), "--rate-schedule", rates, rows, "-o", model, "--checkpoint", f"{model}.{rates}.checkpoint", "--resume")
    value: ICA = artifacts.load(str(model)).value
    return value, model, rows


def figures(name: str, value: ICA, model: Path, rows: Path) -> dict[str, str]:
    """The row of `herd eval`; of architecture I the locality of the outputs over the pixels."""
    row = json.loads(herd("eval", "--format", "json", model))[0] | {"name": name, "iterations": value.iterations}
    if name == "faces-pixels":
        outputs = pixel_outputs(value, rows)
        row["participation"] = float(np.median(filter_metrics.participation_ratio(outputs)))
        row["localisation"] = float(np.median(filter_metrics.filter_localisation(outputs, (64, 64))))
    return {
        column: "" if row[column] is None else f"{row[column]:.4g}" if isinstance(row[column], float) else str(row[column])
        for column in COLUMNS
    }


def pixel_outputs(value: ICA, rows: Path) -> np.ndarray:
    """Outputs (M, pixels) of filters that act on the images' values at one pixel."""
    return value.features(artifacts.load(str(rows)).value.X).T


def store(found: dict[str, dict[str, str]], target: Path) -> None:
    """The rows, beside those that other runs have left."""
    found = {row["name"]: row for row in read_csv(target)} | found
    write_csv(target, [found[name] for name in EXPERIMENTS if name in found])


def draw_tiles(pictures: np.ndarray, target: Path, columns: int, title: str) -> None:
    """Pictures (n, h, w), each on a scale of its own, zero mid-grey."""
    scaled_pictures = pictures / np.abs(pictures).max(axis=(1, 2), keepdims=True)
    plot_list.write_figure(tile_images(scaled_pictures, columns=columns, signed=True, title=title), target, ".png")


def speech(value: ICA, results: Path) -> None:
    """Fig. 4.7: the five filters of largest power and five others, and their spectra; fig. 4.8."""
    rows = value.whitening.filters_in_row_axes(value.J)
    others = 5 + np.random.default_rng(0).choice(len(rows) - 5, 5, replace=False)
    shown = rows[[*range(5), *others]]
    shown /= np.abs(shown).max(axis=1, keepdims=True)
    plot_list.write_figure(curve_panels(shown, np.arange(shown.shape[1]) / 8, "ms"), results / "ica-speech-filters.png", ".png")
    power = filter_spectra.power_spectra(shown)
    power /= power.max(axis=1, keepdims=True)
    kilohertz = np.arange(power.shape[1]) * 8 / shown.shape[1]
    plot_list.write_figure(curve_panels(power, kilohertz, "kHz"), results / "ica-speech-spectra.png", ".png")


def pictures(value: ICA, target: Path) -> None:
    """Fig. 4.9 and 4.12: 144 filters drawn at random, by rising frequency of their Gabor functions."""
    side = int(value.image_shape[0])
    rows = value.whitening.filters_in_row_axes(value.J).reshape(-1, side, side)
    rows = rows[np.random.default_rng(0).choice(len(rows), min(144, len(rows)), replace=False)]
    draw_tiles(rows[np.argsort(gabor.fit_gabors(rows).frequency)], target, 16, f"{len(rows)} of the {len(value.J)} filters, by frequency")


def faces(value: ICA, results: Path, data: Path) -> None:
    """Fig. 4.13a and b: eigenfaces, and the features by their rows of raw pixels."""
    shape = tuple(int(side) for side in value.image_shape)
    eigen = fit_principal_components(artifacts.load(str(data)).value.X, 32).components.reshape(-1, *shape)
    draw_tiles(eigen, results / "ica-faces-eigenfaces.png", 8, "32 eigenfaces")
    rows = value.whitening.filters_in_row_axes(value.J).reshape(-1, *shape)
    rows = rows[np.random.default_rng(0).choice(len(rows), 32, replace=False)]
    draw_tiles(rows, results / "ica-faces-features.png", 8, "32 features, drawn at random")


def faces_pixels(value: ICA, results: Path, data: Path) -> None:
    """Fig. 4.13c: the outputs of the filters over the pixels, as pictures."""
    outputs = pixel_outputs(value, data).reshape(-1, 64, 64)
    outputs = outputs[np.random.default_rng(0).choice(len(outputs), 32, replace=False)]
    draw_tiles(outputs, results / "ica-faces-pixels.png", 8, "32 features of architecture I, drawn at random")


def neighbours(value: ICA, rows: Path, target: Path) -> None:
    """Mean correlation of |outputs| of two filters, by their distance on the map: the larger one of down and across."""
    outputs = np.abs(value.features(artifacts.load(str(rows)).value.X[:20_000]))
    height, width = value.grid.tolist()
    down, across = (np.abs(place[:, None] - place) for place in np.divmod(np.arange(height * width), width))
    distance = np.maximum(np.minimum(down, height - down), np.minimum(across, width - across))
    correlation = np.corrcoef(outputs.T)
    write_csv(
        target, [{"distance": far, "correlation": f"{correlation[distance == far].mean():.4f}"} for far in range(1, distance.max() + 1)]
    )


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
        herd("eval", model, *options.split())


def main() -> None:
    parser = argparse.ArgumentParser(description="Fig. 4.7 to 4.13 of Teh (2003).")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=list(EXPERIMENTS), action="append")
    parser.add_argument("--fraction", type=float, default=1.0)
    arguments = parser.parse_args()
    for name in arguments.only or EXPERIMENTS:
        value, model, rows = fitted(name, arguments)
        draw(name, value, model, rows, arguments.folder)
        store({name: figures(name, value, model, rows)}, arguments.folder / "ica-features.csv")


if __name__ == "__main__":
    main()
