"""Coverage of the 95 % intervals of `herd regress --gls` in small samples: simulated rows whose coefficients are known.

    python scripts bench/tables/gls_coverage [--draws 1000] [--rows 60] [--only ar1|variance] > results/gls_coverage.tsv

--strength X and --columns NAME choose single lines of the table, for runs of more draws.

Errors of `ar1` are stationary with a correlation of `strength`.  Errors of `variance` are independent, and the log of their variance is
linear in the first column.  Columns are independent normal numbers, a line in time and normal numbers, or an AR(1) of .8 and one of .5.
For each design stand the shares of draws whose interval covers each coefficient, and beside them those of plain least squares.
"""

from __future__ import annotations

import argparse

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.regression import covariance
from herdcli.regression.fit import NewtonDescent
from herdcli.regression.model import GeneralisedLinear, assemble_regression, initial_coefficients

TRUTH = np.array([1.0, -0.5, 2.0])  # the intercept last


def ar1(random: np.random.Generator, rows: int, correlation: float) -> np.ndarray:
    """A stationary AR(1) of variance 1."""
    noise = random.normal(size=rows)
    noise[1:] *= np.sqrt(1 - correlation**2)
    for t in range(1, rows):
        noise[t] += correlation * noise[t - 1]
    return noise


def columns(random: np.random.Generator, rows: int, design: str) -> np.ndarray:
    """X (rows, 2)."""
    if design == "ar":
        return np.column_stack([ar1(random, rows, 0.8), ar1(random, rows, 0.5)])
    free = random.normal(size=(rows, 2))
    if design == "trend":
        free[:, 0] = np.linspace(-1, 1, rows)
    return free


def fitted(given: covariance.LeastSquaresColumns, whitened: covariance.WhitenedRows | None, name: str) -> GeneralisedLinear:
    """The regression of rows that are whitened, or as they are."""
    problem = (given if whitened is None else whitened.columns).problem()
    pair = None if whitened is None else (name, whitened)
    return assemble_regression(
        problem,
        run_algorithm(NewtonDescent(problem, initial_coefficients(problem))),
        names=None,
        classes=None,
        target="y",
        seed=0,
        whitened=pair,
    )


def covered(value: GeneralisedLinear) -> np.ndarray:
    """Which intervals (3,) hold the truth."""
    return np.array([row["low"] <= true <= row["high"] for row, true in zip(value.table(), TRUTH, strict=True)])


def coverage(form: str, design: str, strength: float, rows: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of draws (3,) covered by generalised and by plain least squares."""
    random, hits = np.random.default_rng([rows, draws, int(100 * strength), len(design)]), np.zeros((2, 3))
    steps = covariance.TimeSteps(np.zeros(rows, dtype=np.int64), np.arange(rows))
    for _ in range(draws):
        X = columns(random, rows, design)
        noise = ar1(random, rows, strength) if form == "ar1" else random.normal(size=rows) * np.exp(0.5 * strength * X[:, 0])
        given = covariance.LeastSquaresColumns(X, np.ones(rows), X @ TRUTH[:2] + TRUTH[2] + noise)
        whitened = covariance.fit_ar1(given, steps) if form == "ar1" else covariance.fit_variance_model(given, X)
        hits += [covered(fitted(given, whitened, form)), covered(fitted(given, None, ""))]
    return hits[0] / draws, hits[1] / draws


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--only", choices=("ar1", "variance"), default=None)
    parser.add_argument("--strength", type=float, default=None, help="Only cases of this strength.")
    parser.add_argument("--columns", choices=("normal", "trend", "ar"), default=None, help="Only cases of these columns.")
    options = parser.parse_args()
    print("gls\tcolumns\tstrength\tdraws\tfirst\tsecond\tintercept\tfirst (plain)\tsecond (plain)\tintercept (plain)")
    cases = [("ar1", design, rho) for rho in (0.3, 0.6, 0.9) for design in ("normal", "trend", "ar")]
    cases += [("variance", design, size) for size in (0.5, 1.0) for design in ("normal", "trend")]
    chosen = (options.only, options.columns, options.strength)
    for form, design, strength in cases:
        if any(asked not in (None, own) for asked, own in zip(chosen, (form, design, strength), strict=True)):
            continue
        own, plain = coverage(form, design, strength, options.rows, options.draws)
        print(form, design, strength, options.draws, *(f"{share:.3f}" for share in (*own, *plain)), sep="\t", flush=True)


if __name__ == "__main__":
    main()
