"""Fig. 2 of Welling (2009): rate filters of "5", and herding sequences of "4" with and without data.

    python scripts papers/fig2_digits FOLDER [--hidden 100] [--iterations 2000] [--seeds 5]  (herding-fig2.csv and .png there; extra `plot`)

One `herd herd --per-class` of the USPS digits makes the filters (rates of x_i z_k, for 20 hidden units) and `herd herd --rates` goes on
from it without data for the second sequence.  The first sequence climbs for two sweeps only in each step (`--sweeps 2`): the paper takes
"a few iterations of coordinate-wise ascent" (sec. 5), where `herd herd` climbs until no unit changes.  A seed draws the rows, 700 of each
digit, and the first weights; the pictures are those of seed 0.  The table has for each, over all digits,

roughness     share of pairs of neighbouring pixels that differ, of data and pseudo-samples: higher is noisier
distance      share of pixels in which a row differs from the nearest training row of its digit (of data: another one)
change        share of pixels that differ between one pseudo-sample and the next
apart         the same of any two of the twenty: where change is lower, the sequence is smooth
correlation   of the values of neighbouring pixels in the filters: 0 is noise

The paper speaks of average weights: they are averaged here over the second half of the iterations, beside the last ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, herd, pyplot, write_csv
from shared.real_data import path

from herdcli import artifacts
from herdcli.artifacts.tables import dataset_preparation
from herdcli.herding.binary_features import pack_rows
from herdcli.herding.dynamics import HiddenHerding
from herdcli.herding.model import Herding
from herdcli.herding.problem import HiddenHerdingProblem, HiddenHerdingSettings

SHOWN = 20
SWEEPS = 2
SPLIT = "700,0,0"


def made(out: Path, *arguments: object) -> Herding:
    """The artifact of one `herd herd`."""
    herd("herd", *arguments, "-o", out)
    value: Herding = artifacts.load(str(out)).value
    return value


def pictures(values: np.ndarray, herding: Herding) -> np.ndarray:
    """Rows over the kept units as pictures, pruned units blank."""
    full = np.full((len(values), herding.all_units), values.min())
    full[:, herding.units] = values
    return full.reshape(-1, *herding.image_shape)


def roughness(images: np.ndarray) -> float:
    """Share of horizontal and vertical neighbours that differ."""
    return float(np.mean([np.mean(np.diff(images, axis=axis) != 0) for axis in (1, 2)]))


def correlation(images: np.ndarray) -> float:
    """Mean correlation of horizontal and vertical neighbours in pictures of real numbers."""
    sides = [(images[:, 1:], images[:, :-1]), (images[:, :, 1:], images[:, :, :-1])]
    return float(np.mean([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in sides]))


def nearest(rows: np.ndarray, training: np.ndarray, least: int = 0) -> float:
    """Mean share of pixels that differ from the nearest training row that differs in `least` pixels or more."""
    count = (rows.shape[1] - rows.astype(np.int64) @ training.T.astype(np.int64)) // 2
    return float(np.where(count < least, rows.shape[1], count).min(axis=1).mean() / rows.shape[1])


def training_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The truth values of the rows that herding learned from, and their digits."""
    dataset = artifacts.load(str(path("usps_all.h5"))).value
    training = dataset_preparation.assign_splits(dataset, SPLIT, seed) == 0
    return dataset_preparation.binarise(dataset, 0.2, 0.2)[0][training], dataset.y[training]


def average_weights(value: Herding, on: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The pair weights of a finished run, averaged over the second half of its iterations: the same run once more, step by step."""
    settings = HiddenHerdingSettings(
        hidden=value.M.shape[2], iterations=value.iterations, burn_in=value.burn_in, keep=0, sweeps=value.sweeps, seed=value.seed
    )
    assert value.classes is not None
    runs = tuple(pack_rows(on[labels == int(name)][:, value.units], "spin") for name in value.classes)
    herding = HiddenHerding(HiddenHerdingProblem(runs, settings))
    state = herding.init()
    total = np.zeros(value.M.shape)
    for iteration in range(value.iterations):
        for run in range(len(runs)):
            herding.run_iterations(state, 1, run)
        state.iteration += 1
        if iteration >= value.iterations // 2:
            total += np.stack([run.M for run in state.runs])
    assert all(np.array_equal(run.M, M) for run, M in zip(state.runs, value.M, strict=True)), "not the run of `herd herd`"
    return total / (value.iterations - value.iterations // 2)


def table(with_data: Herding, few: Herding, without: Herding, seed: int) -> list[Row]:
    """The figures of the data, of the sequences, and of rate filters and weights, as means over the digits."""
    on, labels = training_rows(seed)
    rows: list[Row] = []
    sequences = {"data": None, "driven by data": with_data, "driven by data, two sweeps": few, "driven by rates": without}
    for name, value in sequences.items():
        found = []
        for run, label in enumerate(with_data.classes or []):
            own = 2 * on[labels == int(label)].astype(np.int8) - 1
            states = own[:SHOWN] if value is None else pictures(value.kept_samples(run)[0], value).reshape(SHOWN, -1)
            apart = np.mean([states[i] != states[j] for i in range(SHOWN) for j in range(i)])
            change = np.mean(states[1:] != states[:-1])
            found.append([roughness(states.reshape(SHOWN, 16, 16)), nearest(states, own, 1 if value is None else 0), change, apart])
        means = dict(zip(("roughness", "distance", "change", "apart"), map(float, np.mean(found, axis=0)), strict=True))
        rows.append({"seed": seed, "of": name, **means, "correlation": None})
    filters = {"rate filters": with_data.rates.pair, "weights": with_data.M, "average weights": average_weights(with_data, on, labels)}
    for name, values in filters.items():
        assert values is not None
        found = [correlation(pictures(value.T.astype(float), with_data)) for value in values]
        rows.append({**dict.fromkeys(rows[0]), "seed": seed, "of": name, "correlation": float(np.mean(found))})
    return rows


def strip(axes: np.ndarray, images: np.ndarray, title: str) -> None:
    """Two rows of pictures."""
    limit = np.abs(images).max()
    for image, place in zip(images, axes.flat, strict=True):
        place.imshow(image, cmap="gray", vmin=-limit, vmax=limit)
        place.set_axis_off()
    axes.flat[0].set_title(title, loc="left", fontsize=9)


def draw(with_data: Herding, few: Herding, without: Herding, target: Path) -> None:
    assert with_data.classes is not None
    assert with_data.rates.pair is not None
    four, five = with_data.classes.index("4"), with_data.classes.index("5")
    rates = with_data.rates.pair[five] / with_data.rates.scale[five]
    figure, axes = pyplot().subplots(6, SHOWN // 2, figsize=(7, 5))
    strip(axes[:2], pictures(rates[:, :SHOWN].T, with_data), 'rate filters of "5"')
    strip(axes[2:4], pictures(few.kept_samples(four)[0], few), '"4", driven by data')
    strip(axes[4:], pictures(without.kept_samples(four)[0], without), '"4", driven by rates')
    figure.savefig(target, dpi=130, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    length = ["--iterations", arguments.iterations, "--keep-last", SHOWN]
    options = ["--per-class", "--split", SPLIT, "--hidden", arguments.hidden, "--threshold", 0.2, *length]
    rows: list[Row] = []
    for seed in range(arguments.seeds):
        learned, decoupled = folder / f"learned-{seed}.h5", folder / f"decoupled-{seed}.h5"
        with_data = made(learned, path("usps_all.h5"), *options, "--seed", seed)
        without = made(decoupled, "--rates", learned, *length)
        few = made(folder / f"two-sweeps-{seed}.h5", path("usps_all.h5"), *options, "--seed", seed, "--sweeps", SWEEPS)
        rows += table(with_data, few, without, seed)
        if seed == 0:
            draw(with_data, few, without, folder / "herding-fig2.png")
    write_csv(folder / "herding-fig2.csv", rows)


if __name__ == "__main__":
    main()
