"""Figures 3.4 to 3.12 of Teh (2003), chapter 3, on the ORL and Yale faces, from `herd` pipelines.

    python scripts papers/fig_faces FOLDER                                    # all; about half an hour of one core
    python scripts papers/fig_faces FOLDER --data orl-even --partitions 1     # a look

FERET is not to be had.  ORL (40 persons, 10 images; 28 × 23 pixels, 56 × 46 for single faces) and Yale (15 persons, 11 conditions; 32 × 32)
take its place; neither names the day an image was taken, so there are no Δdays and Δmonths.  Normalisation: block means, the inscribed
ellipse, the common histogram.  Each partition is a split drawn by `herd convert` from its number:

orl-even     five images of each person train and are the gallery, the other five are probes
orl          eight and two, about the thesis' share of 818 in 1,002
orl-glasses  half of the persons seen with and without glasses are tested on one of the two and known by the other
yale         a quarter of the persons each is tested on expressions, on glasses, on light from one side; a quarter on nothing

A model of pairs is learned by `herd fit-rbm --pairs` as it comes, and judged by `herd eval --gallery`; eigenfaces are components 2 to 200.
It is learned once more without negative weights (sec. 3.5.5, "worse than all").
Models stay in FOLDER, and what is there is not made again.  In FOLDER/faces, errors.csv has a line for each partition, test set and
method, summary.csv the means over partitions and their standard errors, fields.csv what is measured of the other figures; figures
are 3_4.png to 3_12.png (3.3 and 3.8 are drawings).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, read_csv, write_csv
from shared.real_data import path

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.evaluation.plots import gallery_plots, plot_list, tiles
from herdcli.ica.filters import filter_metrics
from herdcli.rbm import pairs
from herdcli.rbm.learning import parallel_fits

NORMAL = ("--mask", "ellipse", "--equalize")
SPLITS = {
    "orl-even": ("orl", ("--split", "5,0,5")),
    "orl": ("orl", ("--split", "8,0,2")),
    "orl-glasses": ("orl", ("--hold-out", "glasses")),
    "yale": (
        "yale",
        (
            *("--hold-out", "expression:condition=happy,sad,sleepy,surprised,wink"),
            *("--hold-out", "glasses:condition=glasses"),
            *("--hold-out", "light:condition=leftlight,rightlight"),
        ),
    ),
}
SOURCES = {"orl": ("orl.h5", "4", "glasses"), "yale": ("yale64.h5", "2", "condition")}
SETS = {
    ("orl-even", "test"): "ORL, 5 and 5 images",
    ("orl", "test"): "ORL, 8 and 2 images",
    ("orl-glasses", "glasses"): "ORL, Δglasses",
    ("yale", "expression"): "Yale, Δexpression",
    ("yale", "glasses"): "Yale, Δglasses",
    ("yale", "light"): "Yale, Δlight",
}
SINGLE = (
    "--visible-units",
    "rate:10",
    "--hidden-units",
    "rate:100",
    "--batch-size",
    "100",
    "--mean-field",
    "visible",
    "--rate-decay",
    "none",
)
SINGLE = (*SINGLE, "--weight-decay", "0", "--learning-rate", "0.0005", "--bias-rate", "0.005", "--epochs", "500", "--split", ".9,0,.1")
NON_NEGATIVE = "rbm-pairs, non-negative"


def made(target: Path, *arguments: object) -> Path:
    """What a command writes to -o, unless it is there already."""
    if not target.exists():
        herd(*arguments, "-q", "-o", target)
    return target


def grey(*pictures: Path) -> None:
    """Pictures in shades of grey alone, which take half the bytes."""
    from PIL import Image

    for picture in pictures:
        Image.open(picture).convert("L").save(picture, optimize=True)


def normalised(work: Path) -> None:
    """orl.h5, yale.h5 and, of twice the size, single.h5 in the working folder."""
    for name, (source, factor, column) in SOURCES.items():
        made(work / f"{name}.h5", "convert", path(source), "--subsample", factor, *NORMAL, "--keep-column", column)
    made(work / "single.h5", "convert", path(SOURCES["orl"][0]), "--subsample", 2, *NORMAL)


def examples(work: Path, target: Path) -> Row:
    """Figure 3.4: normalised faces, two lines of each set.  How far apart images of one set are in equal places of their histograms."""
    pictures, apart = [], 0.0
    for name in SOURCES:
        data = artifacts.load(str(work / f"{name}.h5")).value
        chosen = np.linspace(0, len(data.X) - 1, 20).astype(int)
        levels = np.sort(data.X[chosen].astype(float) / data.value_range[1], axis=1)
        apart = max(apart, float(np.ptp(levels, axis=0).mean()))
        shown = tiles.rows_as_images(data.X[chosen], data.image_shape) / data.value_range[1]
        side = 32
        frame = np.full((len(chosen), side, side), np.nan)
        top, left = ((side - length) // 2 for length in shown.shape[1:])
        frame[:, top : top + shown.shape[1], left : left + shown.shape[2]] = shown
        pictures.append(frame)
    plot_list.write_figure(
        tiles.tile_images(np.concatenate(pictures), columns=10, title="normalised faces: ORL above, Yale below"), target, ".png"
    )
    return {"figure": "3.4", "of": "faces", "quantity": "spread of histograms", "value": apart}


def fields(figure: str, weights: np.ndarray) -> list[Row]:
    """How much of the pixels a receptive field uses (participation 1: all alike), of fields (M, pixels)."""
    used = filter_metrics.participation_ratio(weights[:, np.any(weights != 0, axis=0)])
    values = {"participation": np.median(used), "largest weight": np.abs(weights).max()}
    return [{"figure": figure, "of": "fields", "quantity": name, "value": float(value)} for name, value in values.items()]


def single(work: Path, output: Path) -> list[Row]:
    """Figures 3.5 to 3.7: receptive fields, reconstructions, receptive fields without negative weights."""
    quickly = ("--likelihood", "ais", "--chains", 2, "--temperatures", 1, "--format", "csv")  # its likelihood is not looked at
    faces = made(work / "faces.h5", "fit-rbm", work / "single.h5", *SINGLE)
    shown = ("--plot", "filters", output / "3_5.png", "--plot", "reconstructions", output / "3_6.png")
    (row,) = read_csv(herd("eval", faces, *quickly, *shown))
    value = artifacts.load(str(faces)).value
    share = float(row["reconstruction"]) / float((value.holdout.X / 10).var(axis=0).mean())  # rate:10
    error = {"figure": "3.6", "of": "reconstructions", "quantity": "error as a share of the pixels' variance", "value": share}
    return [*fields("3.5", value.W[0].T), error, *fields("3.7", parts(work, output / "3_7.png"))]


def parts(work: Path, target: Path) -> np.ndarray:
    """Figure 3.7: single faces without negative weights, 1,000 minibatches by the rule of `--pairs`; the largest fields first."""
    data = artifacts.load(str(work / "orl.h5")).value
    rows = data.X / np.float32(data.value_range[1]) * 10
    varies = np.ptp(rows, axis=0) > 0
    settings = replace(pairs.DEFAULTS, non_negative=True, epochs=250)
    problem = parallel_fits.LearningProblem([np.ascontiguousarray(rows[:, varies])], settings)
    state = run_algorithm(pairs.PairLearning(problem))
    weights = np.zeros((settings.hidden, len(varies)))
    weights[:, varies] = state.W[0].T
    order = np.argsort(-np.sum(weights**2, axis=1), kind="stable")[:60]
    plot_list.write_figure(
        tiles.tile_images(tiles.rows_as_images(weights[order], data.image_shape), signed=True, columns=12), target, ".png"
    )
    return weights


def partition(work: Path, name: str, number: int, *more: str) -> tuple[Path, Path]:
    """The data of one partition and the model learned from them."""
    source, options = SPLITS[name]
    data = made(work / f"{name}-{number}.h5", "convert", work / f"{source}.h5", *options, "--seed", number)
    return data, made(work / f"{name}-{number}-pairs{''.join(more)}.h5", "fit-rbm", "--pairs", data, "--seed", number, *more)


def recognise(work: Path, table: Path, wanted: list[str], partitions: int) -> list[Row]:
    """The error rates of the partitions of some data, after those that are in the table already."""
    rows = read_csv(table)
    done = {(row["data"], int(row["partition"]), row["method"] == NON_NEGATIVE) for row in rows}
    for name in wanted:
        for number, plain in product(range(partitions), (True, False)):
            if (name, number, not plain) in done:
                continue
            data, model = partition(work, name, number, *(() if plain else ("--non-negative",)))
            found = read_csv(herd("eval", model, "--gallery", data, "--drop-first", 1, "--format", "csv"))
            for row in found:
                if row["set"] != "all" and (plain or row["method"] == "rbm-pairs"):
                    method = {} if plain else {"method": NON_NEGATIVE}
                    rows.append({"data": name, "partition": number, **{key: row[key] for key in list(row)[2:]}, **method})
            write_csv(table, rows)
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Means over partitions by test set and method, and the standard error of the rank-1 rate."""
    made: list[Row] = []
    for (data, name), title in SETS.items():
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if (row["data"], row["set"], row["method"]) == (data, name, method)]
            if own:
                ranks = {key: np.array([float(row[key]) for row in own]) for key in own[0] if key.startswith("rank_")}
                spread = float(np.std(ranks["rank_1"], ddof=1) / np.sqrt(len(own))) if len(own) > 1 else None
                made.append(
                    {
                        "set": title,
                        "method": method,
                        "partitions": len(own),
                        "probes": float(np.mean([float(row["probes"]) for row in own])),
                    }
                    | {key: float(values.mean()) for key, values in ranks.items()}
                    | {"rank_1_se": spread}
                )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--data", nargs="+", choices=SPLITS, default=list(SPLITS), help="which of the four kinds of partitions")
    arguments = parser.parse_args()
    work, output = arguments.folder, arguments.folder / "faces"
    output.mkdir(parents=True, exist_ok=True)
    normalised(work)
    measured = [examples(work, output / "3_4.png"), *single(work, output)]
    data, model = partition(work, "orl-glasses", 0)
    herd("eval", model, "--gallery", data, "--plot", "filters", output / "3_11.png", "--plot", "nearest", output / "3_10.png")
    _, local = partition(work, "orl-glasses", 0, "--non-negative")
    herd("eval", local, "--plot", "filters", output / "3_12.png")
    for figure, file in (("3.11", model), ("3.12", local)):
        value = artifacts.load(str(file)).value
        measured += fields(figure, np.hstack([value.W1.T, value.W2.T]))
    write_csv(output / "fields.csv", measured)
    table = summary(recognise(work, output / "errors.csv", arguments.data, arguments.partitions))
    write_csv(output / "summary.csv", table)
    grey(*sorted(output.glob("3_*.png")))
    shown = [{**row, "probes": f"{row['probes']:g}"} for row in table if row["method"] != NON_NEGATIVE]
    plot_list.write_figure(gallery_plots.error_rate_bars(shown), output / "3_9.png", ".png")


if __name__ == "__main__":
    main()
