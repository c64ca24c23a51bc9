"""Whether `herd fit-rbm` with its default rate and centring ever explains held-out rows worse than independent columns.

    HERD_DATA=DIR python scripts bench/rbm/defaults [--sets a9a,w8a] [--hidden 16] [--epochs 15] [--seeds 5] [--out TABLE.tsv]

    HERD_DATA=DIR python scripts bench/rbm/defaults --plain [--out results/rbm_plain.tsv]

The sets of checks/likelihood.py, three quarters of at most 6000 rows to learn from and the rest to judge by, by the algorithm that is the
default of two-state units, of spins too, and by CD-1 and PCD.  Every figure is an exact mean log-likelihood in nats.
--plain: `herd fit-rbm rows.h5 --seed S | herd eval` without another option (100 units and epochs, its own split), as eval has it: a star is
a log-likelihood that is not reliable, with its conservative figure.
Exit code 1 if a model of the defaults is below independent columns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from checks.likelihood import FILES, rows_of

from herdcli.algorithm import run_algorithm
from herdcli.errors import Diverged
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import Settings, fill_defaults

HERD = (sys.executable, "-m", "herdcli.cli.main")
VARIANTS = (("rpcd", "binary"), ("rpcd", "spin"), ("cd", "binary"), ("pcd", "binary"))


def judged(train: np.ndarray, held: np.ndarray, settings: Settings) -> float:
    """Exact mean log-likelihood of the held-out rows."""
    if settings.visible_units == "spin":
        train, held = 2 * train - 1, 2 * held - 1
    problem = parallel_fits.LearningProblem([train], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    h = Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    return float(row_log_likelihood(h, held, exact_log_partition(h)).mean())


def _moment(rows: np.ndarray, units: str) -> float:
    """The largest moment of rows in the values of these units."""
    return largest_covariance_eigenvalue(rows) * (4 if units == "spin" else 1)


def independent(train: np.ndarray, held: np.ndarray) -> float:
    p = (train.sum(axis=0, dtype=np.float64) + 1) / (len(train) + 2)
    return float((held @ np.log(p) + (1 - held) @ np.log1p(-p)).mean())


def plain(name: str, rows: np.ndarray, seed: int) -> tuple[float, str, float]:
    """Log-likelihood of held-out rows without options, a star where eval does not rely on it, and that of independent columns."""
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(Path(folder) / f"{name}.h5", "w") as file:
            file["X"] = rows
        fit = subprocess.Popen([*HERD, "fit-rbm", f"{name}.h5", "--seed", str(seed), "-q"], cwd=folder, stdout=subprocess.PIPE)
        made = subprocess.run([*HERD, "eval", "-q", "--format", "json"], stdin=fit.stdout, capture_output=True, check=True)
        if fit.wait():
            raise SystemExit(f"{name}: fit-rbm ended with {fit.returncode}")
    found = json.loads(made.stdout)[0]
    lower = found.get("log_likelihood_conservative")
    return (found["log_likelihood"] if lower is None else lower), "" if lower is None else "*", found["independent"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    lines, worse = ["set\talgorithm\tunits\tseed\tindependent\tdefault"], 0
    for name in arguments.sets.split(","):
        rows = rows_of(name)
        if rows is None:
            continue
        if arguments.plain:
            for seed in range(arguments.seeds):
                found, star, baseline = plain(name, rows, seed)
                worse += found < baseline
                lines.append(f"{name}\tauto\tbinary\t{seed}\t{baseline:.2f}\t{found:.2f}{star}")
                print(lines[-1], flush=True)
            continue
        train, held = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
        baseline = independent(train, held)
        for (algorithm, units), seed in ((variant, seed) for variant in VARIANTS for seed in range(arguments.seeds)):
            kinds = {"visible_units": units, "hidden_units": units}
            asked = Settings(arguments.hidden, algorithm, epochs=arguments.epochs, seed=seed, **kinds)
            chosen = fill_defaults(
                asked, len(train), rate=True, centering=True, decay=True, largest_eigenvalue=partial(_moment, train, units)
            )
            try:
                found = judged(train, held, chosen)
            except Diverged:
                found = -np.inf
            worse += found < baseline
            lines.append(f"{name}\t{algorithm}\t{units}\t{seed}\t{baseline:.2f}\t{found:.2f}")
            print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print(f"{worse} of {len(lines) - 1} below independent columns")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
