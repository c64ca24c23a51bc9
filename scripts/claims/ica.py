"""What Teh (2003), ch. 4, says in words of energy-based models and their filters, as numbers.

    python scripts claims/ica FOLDER [--quick] [--only CLAIM …]           (makes claims-ica.csv)

filters   sec. 4.7.2: horizontal and vertical filters are more than their share, larger ones are of lower frequency: Gabor functions fitted
          to 192 filters of 8×8 patches of two sets of pictures.
infomax   sec. 4.4.2: four filters of two dimensions by overcomplete information maximisation and by contrastive divergence of the same
          energy (4.27): log-likelihood of rows held out, and the logarithm of the manifold's volume, both summed over a fine grid (4.28).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims.claim_rows import told, write
from papers.fig_ica_features import LIKE_PATCHES
from scipy.special import logsumexp
from scipy.stats import spearmanr
from shared.figure_pipeline import Row, herd
from shared.real_data import path

from herdcli import artifacts
from herdcli.evaluation.plots import gabor
from herdcli.ica.model import ICA
from herdcli.schema import Array

PICTURES = {  # of the second set, means of 2×2 pixels, γ runs off at rate 1
    "natural": ("natural13.h5", ("--patches", 8, "--count", 50000), 1),
    "BSDS": ("patches16.h5", ("--subsample", 2), 0),
}


def filters(quick: bool) -> Iterator[Row]:
    """Of the filters with r² ≥ .7: the share within 15° of an axis (a third by chance), and the rank correlation of size and frequency."""
    for title, (file, options, gamma_rate) in list(PICTURES.items())[: 1 if quick else None]:
        axes, ranks, fitted = [], [], []
        for seed in range(1 if quick else 3):
            with TemporaryDirectory() as name:
                rows, model = Path(name) / "rows.h5", Path(name) / "model.h5"
                herd("convert", *options, "--log", path(file), "--seed", seed, "-q", "-o", rows)
                rates = "0.01x800" if quick else "0.01x3000"
                fit = (*LIKE_PATCHES.split(), "--gamma-rate", gamma_rate, "--filters", 192, "--rates", rates)
                herd(*fit, "--seed", seed, rows, "-q", "-o", model)
                value: ICA = artifacts.load(str(model)).value
            found = gabor.fit_gabors(value.whitening.filters_in_row_axes(value.J).reshape(-1, 8, 8))
            good = found.r2 >= 0.7
            degrees = np.degrees(found.theta[good]) % 90
            axes.append(float(np.mean(np.minimum(degrees, 90 - degrees) <= 15)))
            ranks.append(float(spearmanr(np.sqrt(found.sigma * found.tau)[good], found.frequency[good])[0]))
            fitted.append(float(good.mean()))
        yield told("filters", title, "described by a Gabor function", fitted)
        yield told("filters", title, "within 15° of an axis", axes)
        yield told("filters", title, "rank correlation of size and frequency", ranks)


GRID, REACH = 400, 25.0


def judged(value: ICA, held: Array) -> tuple[float, float]:
    """Mean log p of rows held out, in whitened coordinates, and log volume, log Z of 4.26 with outputs in [0, 1]."""
    line = (np.arange(GRID) + 0.5) / GRID * 2 * REACH - REACH
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    volume = float(logsumexp(log_element(value.J, points)) + 2 * np.log(2 * REACH / GRID))
    return float(log_element(value.J, value.whitening.apply(held)).mean()) - volume, volume


def log_element(J: Array, z: Array) -> Array:
    """log √det F'F with F = diag(σ'(u)) J, u = J z and the logistic function σ."""
    u = np.asarray(z, dtype=np.float64) @ J.T.astype(np.float64)
    slope = -np.logaddexp(0, u) - np.logaddexp(0, -u)  # log σ'
    first, second = np.triu_indices(len(J), 1)
    minors = np.abs(J[first, 0] * J[second, 1] - J[first, 1] * J[second, 0])  # Cauchy–Binet: det F'F is the sum of their squares
    return np.asarray(0.5 * logsumexp(2 * (slope[:, first] + slope[:, second]), b=minors**2, axis=1))


def pairs(title: str, seed: int) -> Array:
    """5,000 rows of two columns: neighbouring pixels, samples 1 ms apart, two recordings."""
    file, columns = {
        "pixels": ("patches16.h5", (100, 101)),
        "speech": ("speech_segments.h5", (40, 48)),
        "music": ("music16_long.h5", (2, 7)),
    }[title]
    X = np.asarray(artifacts.load(str(path(file))).value.X)
    chosen = np.random.default_rng(seed).permutation(len(X))[:5000]
    x = X[np.sort(chosen)][:, columns].astype(np.float64)
    return np.log1p(x) if title == "pixels" else x


def infomax(quick: bool) -> Iterator[Row]:
    """Half of the rows train, half judge; both from the same seed and with the same updates."""
    for title in ("pixels", "speech", "music")[: 1 if quick else None]:
        scores: dict[str, list[tuple[float, float]]] = {"infomax": [], "ebm": []}
        for seed in range(2 if quick else 3):
            x = np.random.default_rng(seed).permutation(pairs(title, seed))
            train, held = x[::2], x[1::2]
            with TemporaryDirectory() as name:
                rows = Path(name) / "rows.csv"
                np.savetxt(rows, train, delimiter=",", header="a,b", comments="")
                common = ("--filters", 4, "--rates", "0.02x200" if quick else "0.02x500,0.002x200", "--seed", seed, rows, "-q", "-o")
                for kind, options in (("infomax", ("--density", "logistic")), ("ebm", ("--expert", "infomax", "--leapfrog", 10))):
                    model = Path(name) / f"{kind}.h5"
                    herd("ica", "--algorithm", kind, *options, *common, model)
                    scores[kind].append(judged(artifacts.load(str(model)).value, held))
        table = {kind: np.array(values) for kind, values in scores.items()}
        for kind, values in table.items():
            yield told("infomax", title, f"nats a row: {kind}", values[:, 0])
            yield told("infomax", title, f"log volume: {kind}", values[:, 1])
        yield told("infomax", title, "gain of ebm, nats a row", table["ebm"][:, 0] - table["infomax"][:, 0])
        yield told("infomax", title, "larger log volume of infomax", table["infomax"][:, 1] - table["ebm"][:, 1])


CLAIMS = {"filters": filters, "infomax": infomax}

if __name__ == "__main__":
    write("claims-ica", CLAIMS)
