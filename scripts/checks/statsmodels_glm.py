"""`herd regress` beside statsmodels: the largest relative difference of each figure, for each kind of weights, offsets, trials and Ω.

    python scripts checks/statsmodels_glm                    with statsmodels in the same Python
    python scripts checks/statsmodels_glm --peer PYTHON      with the statsmodels of another one
    python scripts checks/statsmodels_glm --figures          only the figures of statsmodels, as JSON

The rows are functions of their numbers, so that they are the same everywhere.  tests/cli/regression/test_statsmodels.py holds the figures.

With an endog of successes and failures, statsmodels' X² leaves out the trials; R's quasibinomial has them, and so have shares with the
trials as var_weights.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 40
CORRELATION = 0.6
FIGURES = ("coefficients", "standard errors", "log-likelihood", "dispersion")


def columns() -> dict[str, np.ndarray]:
    """The columns of the table: two regressors, weights, an offset, and targets of all kinds."""
    n = np.arange(ROWS)
    x, z, w = np.round(np.sin(1.3 * n), 4), np.round(np.cos(0.7 * n * n), 4), 1.0 + n % 4
    hits = np.floor((w + 1) * (0.5 + 0.4 * np.sin(1.3 * n + 0.8))).clip(0, w)
    events = np.floor(w * np.exp(0.6 * x) * (1 + 0.9 * np.sin(3.7 * n))).clip(0)
    return {
        "x": x,
        "z": z,
        "w": w,
        "offset": np.round(0.3 * np.cos(2.1 * n), 4),
        "number": np.round(1 + 2 * x - z + np.sin(5.1 * n), 3),
        "positive": np.round(np.exp(0.5 * x) * (1.2 + np.sin(4.3 * n)), 3),
        "binary": (np.sin(5.1 * n) + x > 0).astype(float),
        "hits": hits,
        "misses": w - hits,
        "share": hits / w,
        "events": events,
    }


# For each case: the options of `herd regress`, and the call of statsmodels (Z: regressors and a column of ones).
CASES: dict[str, tuple[str, str]] = {
    "gaussian": ("--target number", "GLM(number, Z)"),
    "gaussian precision": ("--target number --weights w", "WLS(number, Z, weights=w)"),
    "gaussian frequency": ("--target number --weights w --weight-kind frequency", "GLM(number, Z, freq_weights=w)"),
    "gaussian offset": ("--target number --offset offset", "GLM(number, Z, offset=offset)"),
    "bernoulli": ("--target binary", "GLM(binary, Z, family=Binomial())"),
    "bernoulli precision": ("--target binary --weights w", "GLM(binary, Z, family=Binomial(), var_weights=w)"),
    "bernoulli frequency": ("--target binary --weights w --weight-kind frequency", "GLM(binary, Z, family=Binomial(), freq_weights=w)"),
    "successes of trials": ("--target hits --trials w", "GLM(column_stack([hits, misses]), Z, family=Binomial())"),
    "shares of trials": ("--target share --weights w --weight-kind trials", "GLM(column_stack([hits, misses]), Z, family=Binomial())"),
    "successes and failures": ("--target hits --failures misses", "GLM(column_stack([hits, misses]), Z, family=Binomial())"),
    "quasi-binomial": (
        "--target hits --failures misses --dispersion pearson",
        "GLM(share, Z, family=Binomial(), var_weights=w).fit(scale='X2')",
    ),
    "poisson": ("--target events --family poisson", "GLM(events, Z, family=Poisson())"),
    "poisson precision": ("--target events --family poisson --weights w", "GLM(events, Z, family=Poisson(), var_weights=w)"),
    "poisson frequency": (
        "--target events --family poisson --weights w --weight-kind frequency",
        "GLM(events, Z, family=Poisson(), freq_weights=w)",
    ),
    "poisson offset": ("--target events --family poisson --offset offset", "GLM(events, Z, family=Poisson(), offset=offset)"),
    "poisson exposure": ("--target events --family poisson --exposure w", "GLM(events, Z, family=Poisson(), exposure=w)"),
    "quasi-poisson": (
        "--target events --family poisson --exposure w --dispersion pearson",
        "GLM(events, Z, family=Poisson(), exposure=w).fit(scale='X2')",
    ),
    "gamma precision": ("--target positive --family gamma --weights w", "GLM(positive, Z, family=Gamma(Log()), var_weights=w)"),
    "gamma frequency": (
        "--target positive --family gamma --weights w --weight-kind frequency",
        "GLM(positive, Z, family=Gamma(Log()), freq_weights=w)",
    ),
    "covariance of a file": ("--target number --gls omega.csv", "GLS(number, Z, sigma=omega)"),
    "autoregressive errors": ("--target number --gls ar1:0.6", "GLS(number, Z, sigma=0.6 ** abs(i - j))"),
}


def omega() -> np.ndarray:
    """A covariance (ROWS, ROWS) that is neither diagonal nor stationary."""
    n = np.arange(ROWS)
    deviation = 1 + 0.5 * np.sin(0.9 * n)
    found: np.ndarray = np.round(deviation[:, None] * deviation * 0.4 ** np.abs(n[:, None] - n) + 0.2 * np.eye(ROWS), 6)
    return found


def peer_figures() -> dict[str, dict[str, Any]]:
    """The figures of statsmodels in each case: of a dispersion that is estimated, and of likelihoods at it."""
    import statsmodels.api as sm

    table, n = columns(), np.arange(ROWS)
    families = {name: getattr(sm.families, name) for name in ("Binomial", "Poisson", "Gamma")}
    names = {
        **{name: getattr(sm, name) for name in ("GLM", "WLS", "GLS")},
        **families,
        **table,
        "Log": sm.families.links.Log,
        "Z": np.column_stack([table["x"], table["z"], np.ones(ROWS)]),
        "column_stack": np.column_stack,
        "omega": omega(),
        "i": n[:, None],
        "j": n,
    }
    found = {}
    for case, (_, call) in CASES.items():
        model, _, scale = call.partition(".fit(")
        made = eval(model, names)  # noqa: S307
        glm = isinstance(made, sm.GLM)
        result = made.fit(**({"tol": 1e-14, "maxiter": 200} if glm else {}), **({"scale": "X2"} if scale else {}))
        # `fit(scale="X2")` divides the log-likelihood by the scale; ours is that of the family, at dispersion 1.
        likelihood = made.fit(tol=1e-14).llf if scale else result.llf
        found[case] = {
            "coefficients": [float(value) for value in result.params],
            "standard errors": [float(value) for value in result.bse],
            # Shares with weights have no binomial coefficient, ours are successes of trials.
            "log-likelihood": None if "share" in call else float(likelihood),
            "dispersion": float(result.scale),
        }
    return found


def write_table(folder: Path) -> None:
    """Write the table and the covariance as t.csv and omega.csv."""
    table = columns()
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows([repr(float(value)) for value in row] for row in zip(*table.values(), strict=True))
    np.savetxt(folder / "omega.csv", omega(), delimiter=",")


def command_options(case: str) -> list[str]:
    """The options of `herd regress` for a case: every row trains, and only x and z are regressors."""
    options = CASES[case][0].split()
    used = {options[place + 1] for place in range(len(options)) if options[place] in USES}
    return [*options, "--columns", ",".join(["x", "z", *sorted(used)]), "--split", "1,0,0"]


USES = ("--target", "--weights", "--offset", "--trials", "--failures", "--exposure")


def figures_of(value: Any) -> dict[str, Any]:
    """The same figures of a `regression` artifact."""
    return {
        "coefficients": [*value.coefficients[0].tolist(), float(value.intercept[0])],
        "standard errors": value.standard_error[0].tolist(),
        "log-likelihood": float(value.log_likelihood),
        "dispersion": float(value.dispersion),
    }


def largest_difference(ours: Any, theirs: Any) -> str:
    """The largest relative difference, as text; a dash where there is no figure to compare with."""
    return "–" if theirs is None else f"{float(np.max(np.abs(np.array(ours) / np.array(theirs) - 1))):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=sys.executable, help="the Python that has statsmodels")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.figures:
        print(json.dumps(peer_figures(), indent=1))
        return
    from shared.forked_commands import run

    from herdcli import artifacts

    theirs = json.loads(subprocess.run([options.peer, __file__, "--figures"], check=True, capture_output=True, text=True).stdout)
    print(f"| case | `herd regress` | statsmodels | {' | '.join(FIGURES)} |\n|---|---|---|{'---|' * len(FIGURES)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder)
        for case, (typed, call) in CASES.items():
            code, _, err = run(["regress", "t.csv", *command_options(case), "-q", "-o", "m.h5"], folder, errors=True)
            if code:
                sys.exit(f"{case}: {err}")
            ours = figures_of(artifacts.load(str(folder / "m.h5")).value)
            gaps = [largest_difference(ours[key], theirs[case][key]) for key in FIGURES]
            print(f"| {case} | `{typed}` | `{call}` | {' | '.join(gaps)} |", flush=True)


if __name__ == "__main__":
    main()
