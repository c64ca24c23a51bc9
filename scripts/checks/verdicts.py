"""Whether verdicts tell bad models from good ones: 62 misconfigured fits and 60 sensible ones of real data, fitted and judged by herd.

    HERD_DATA=FOLDER python scripts checks/verdicts -o results/verdicts.tsv

A misconfigured fit counts as flagged if the verdict of `eval` is not `ok`, or if learning ended with an error; as told, if the fitting
command itself warned of it at its end.  Models that lose to one Gaussian on the same rows are bad, however usual their options: the 256
columns of phoneme are so correlated that four diagonal components are 60 to 70 nats a row below it, and 16 hidden units 155 to 165.
Exits 1 if fewer than 95 % of them are flagged or told, or more than 2 % of the good ones.
--only TEXT runs the cases whose name has TEXT in it, and changes their lines alone in a table that exists.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from herdcli.artifacts import load
from herdcli.cli.main import main as herd
from herdcli.evaluation.verdict_advice import TOLD

FLAGGED, FALSE = 0.95, 0.02
ROWS = 1200
WORDS = ("verdict: ", "worse than independent columns", *TOLD.values())  # in what a command says at its end of a bad model


def sets(folder: Path) -> dict[str, str]:
    """Name -> file of every set: a sample of each, with labels shuffled, with every column shuffled, and with columns blown up."""
    random, data = np.random.default_rng(0), Path(os.environ.get("HERD_DATA", "/nowhere"))
    with contextlib.redirect_stderr(io.StringIO()):
        run("data", "digits", "-o", str(folder / "digits.h5"))
    files = {"digits": folder / "digits.h5", "spam": data / "spambase.h5", "phoneme": data / "phoneme.h5", "usps": data / "usps_all.h5"}
    found: dict[str, str] = {}
    for name, path in files.items():
        value = load(str(path)).value
        X = value.X.toarray() if value.is_sparse else np.asarray(value.X)
        rows = np.sort(random.choice(len(X), min(ROWS, len(X)), replace=False))
        X, y = X[rows], np.asarray(value.y)[rows]
        limits = {} if value.value_range is None else {"value_range": value.value_range}
        apart = np.column_stack([random.permutation(column) for column in X.T])
        wide = X.astype(float) * np.logspace(-3, 4, X.shape[1])
        cases = {"": (X, y), "-labels": (X, random.permutation(y)), "-apart": (apart, y), "-wide": (wide, y), "-few": (X[:40], y[:40])}
        for suffix, (A, b) in cases.items():
            found[name + suffix] = str(folder / f"{name}{suffix}.npz")
            np.savez(found[name + suffix], X=A, y=b, **(limits if suffix != "-wide" else {}))
        found[f"{name}-fewer"] = str(folder / f"{name}-fewer.npz")
        np.savez(found[f"{name}-fewer"], X=X[:, ::32], y=y)
        on = (np.median(X, axis=0) < X) if name in ("spam", "phoneme") else X.min() + 0.4 * (X.max() - X.min()) < X
        columns = np.argsort(-on.var(axis=0))[:12]
        bits = on[:, np.sort(columns)].astype(np.uint8)
        for suffix, A in {
            "-bits": bits,
            "-bits-apart": np.column_stack([random.permutation(c) for c in bits.T]),
            "-bits-few": bits[:30],
        }.items():
            found[name + suffix] = str(folder / f"{name}{suffix}.npz")
            np.savez(found[name + suffix], X=A)
    return found


RBM = "fit-rbm {} --hidden 16 --epochs 10"
BAD: dict[str, str] = {
    "rbm rate 50 digits": RBM.format("digits") + " --learning-rate 50",
    "rbm rate 50 usps": RBM.format("usps") + " --learning-rate 50",
    "rbm rate 5 spin digits": RBM.format("digits") + " --units spin --learning-rate 5",
    "rbm rate 5 pcd digits": RBM.format("digits") + " --algorithm pcd --learning-rate 5",
    "rbm rate 5 fpcd usps": RBM.format("usps") + " --algorithm fpcd --learning-rate 5",
    "rbm rate 20 bits spam": RBM.format("spam-bits") + " --learning-rate 20",
    "rbm rate 20 bits phoneme": RBM.format("phoneme-bits") + " --learning-rate 20",
    "rbm rate 1e-6 digits": "fit-rbm digits --hidden 16 --epochs 1 --learning-rate 1e-6",
    "rbm rate 1e-6 usps": "fit-rbm usps --hidden 16 --epochs 1 --learning-rate 1e-6",
    "rbm rate 1e-6 bits spam": "fit-rbm spam-bits --hidden 8 --epochs 1 --learning-rate 1e-6",
    "rbm gaussian unscaled spam": RBM.format("spam") + " --visible-units gaussian",
    "rbm gaussian unscaled digits": RBM.format("digits") + " --visible-units gaussian",
    "rbm gaussian unscaled wide": RBM.format("phoneme-wide") + " --visible-units gaussian",
    "rbm gaussian correlated phoneme": "fit-rbm phoneme --visible-units gaussian --standardize --hidden 16 --epochs 15",
    "rbm columns apart digits": RBM.format("digits-apart"),
    "rbm columns apart usps": RBM.format("usps-apart"),
    "rbm columns apart bits": RBM.format("spam-bits-apart"),
    "rbm few rows digits": "fit-rbm digits-few --hidden 300 --epochs 800 --learning-rate 0.05 --weight-decay 0",
    "rbm few rows bits": "fit-rbm digits-bits-few --hidden 200 --epochs 2000 --learning-rate 0.1 --weight-decay 0",
    "rbm weight decay digits": RBM.format("digits") + " --weight-decay 20",
    "rbm weight decay usps": RBM.format("usps") + " --weight-decay 20",
    "rbm first weights digits": RBM.format("digits") + " --initial-scale 30 --learning-rate 1e-5",
    "rbm per class labels digits": RBM.format("digits-labels") + " --per-class",
    "rbm per class labels usps": RBM.format("usps-labels") + " --per-class",
    "dbn rate 50 digits": "fit-rbm digits --layers 16,16 --epochs 5 --learning-rate 50",
    "dbn columns apart digits": "fit-rbm digits-apart --layers 16,16 --epochs 5",
    "nherd labels digits": "nherd-train digits-labels",
    "nherd labels spam": "nherd-train spam-labels",
    "nherd labels phoneme": "nherd-train phoneme-labels",
    "nherd labels usps": "nherd-train usps-labels",
    "nherd columns apart spam": "nherd-train spam-apart",
    "nherd columns apart digits": "nherd-train digits-apart",
    "nherd few rows kernel phoneme": "nherd-train phoneme-labels --kernel gaussian --width 0.001",
    "regress labels spam": "regress spam-labels",
    "regress labels phoneme": "regress phoneme-labels",
    "regress labels digits": "regress digits-labels --l2 0.01",
    "regress few rows digits": "regress digits-few",
    "regress few rows spam": "regress spam-few",
    "regress penalty spam": "regress spam --l2 1e9",
    "regress penalty phoneme": "regress phoneme --l1 100",
    "regress one iteration usps": "regress usps --iterations 1",
    "em many components digits": "em digits --components 100 --covariance full --iterations 30 --starts 1",
    "em many components spam": "em spam --components 150 --covariance full --iterations 30 --starts 1",
    "em two iterations digits": "em digits --components 10 --iterations 2 --starts 1",
    "em columns apart phoneme": "em phoneme-apart --model fa --components 2",
    "em columns apart digits": "em digits-apart --model fa --components 3",
    "em one component kmeans": "em phoneme --model kmeans --components 1",
    "em few rows kmeans": "em phoneme-labels --model kmeans --components 600 --starts 1",
    "em diagonal correlated phoneme": "em phoneme --components 4 --covariance diagonal",
    "em few rows mixture": "em phoneme-few --components 12 --covariance full",
    "herd short digits": "herd digits --hidden 16 --iterations 3",
    "herd short usps": "herd usps --hidden 16 --iterations 3",
    "herd labels digits": "herd digits-labels --per-class --hidden 16 --iterations 50",
    "kernel narrow digits": "kernel-herd digits -m 50 --bandwidth 0.01",
    "kernel narrow spam": "kernel-herd spam -m 50 --bandwidth 1e-4",
    "kernel wide digits": "kernel-herd digits -m 50 --bandwidth 1e6",
    "kernel wide phoneme": "kernel-herd phoneme -m 50 --bandwidth 1e5",
    "mrf columns apart spam": "fit-mrf spam-bits-apart",
    "mrf columns apart digits": "fit-mrf digits-bits-apart",
    "mrf few rows digits": "fit-mrf digits-bits-few --smoothing 0",
    "ica few rows digits": "ica digits-few --components 12 --iterations 500",
    "ica one iteration digits": "ica digits --components 20 --iterations 1 --algorithm ml",
}
GOOD: dict[str, str] = {}
for seed in range(3):
    tail = f" --seed {seed}"
    for name in ("digits", "usps", "spam-bits", "digits-bits"):
        GOOD[f"rbm {name} {seed}"] = f"fit-rbm {name} --hidden 16 --epochs 15{tail}"
    GOOD |= {
        f"rbm pcd digits {seed}": f"fit-rbm digits --hidden 16 --epochs 15 --algorithm pcd{tail}",
        f"rbm per class digits {seed}": f"fit-rbm digits --per-class --hidden 8 --epochs 15{tail}",
        f"rbm gaussian phoneme {seed}": f"fit-rbm phoneme-fewer --visible-units gaussian --standardize --learn-variances --hidden 16{tail}",
        f"dbn digits {seed}": f"fit-rbm digits --layers 16,8 --epochs 15{tail}",
        f"nherd digits {seed}": f"nherd-train digits --shuffle{tail}",
        f"nherd spam {seed}": f"nherd-train spam --shuffle{tail}",
        f"nherd usps {seed}": f"nherd-train usps --shuffle{tail}",
        f"regress digits {seed}": f"regress digits --l2 0.01{tail}",
        f"regress phoneme {seed}": f"regress phoneme --l2 0.1{tail}",
        f"em phoneme {seed}": f"em phoneme --model fa --components 10{tail}",
        f"em kmeans digits {seed}": f"em digits --model kmeans --components 10{tail}",
        f"herd digits {seed}": f"herd digits --hidden 16 --iterations 300{tail}",
        f"kernel digits {seed}": f"kernel-herd digits -m 50{tail}",
        f"ica digits {seed}": f"ica digits --components 15{tail}",
    }
for name in ("digits-bits", "spam-bits", "usps-bits"):
    GOOD[f"mrf {name}"] = f"fit-mrf {name}"
GOOD |= {
    "regress usps": "regress usps --l2 0.01",
    "em factors phoneme": "em phoneme --model fa --components 2",
    "kernel phoneme": "kernel-herd phoneme -m 50",
}


def run(*line: str) -> tuple[int, str]:
    """Exit code and stdout of a command in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            herd(list(line))
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def judged(line: str, files: dict[str, str], folder: Path) -> tuple[str, str]:
    """The verdict of `eval` on what a line learns, or that it failed; and what the fitting command said of it."""
    words = [files.get(word, word) for word in line.split()]
    path, told = str(folder / "model.h5"), io.StringIO()
    with contextlib.redirect_stderr(told):
        code, _ = run(*words, "-o", path)
    warnings = [text.split("warning: ", 1)[1] for text in told.getvalue().splitlines() if "warning: " in text]
    warned = "; ".join(text[:70] for text in warnings if any(word in text for word in WORDS))
    if code:
        last = [text for text in told.getvalue().splitlines() if not text.startswith("hint")][-1]
        return (f"exit {code}" if code in (1, 65) else f"broken: {last[:120]}"), warned or last[:70]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        code, _ = run("eval", path, "--chains", "30", "-o", str(folder / "table.json"))
    if code:
        return f"broken: {errors.getvalue()[:100]}", warned
    return json.loads((folder / "table.json").read_text())[0].get("verdict") or "none", warned


def earlier_lines(path: Path | None, only: str) -> dict[tuple[str, str], str]:
    """(name, meant) -> line of a table that stays where some cases alone are run again, of cases that there are still."""
    if path is None or not only or not path.exists():
        return {}
    found = {(name, meant): line for line in path.read_text().splitlines()[1:] for name, meant, *_ in [line.split("\t")]}
    return {key: line for key, line in found.items() if key[0] in {"bad": BAD, "good": GOOD}[key[1]]}


def main() -> int:
    """Fit, judge, print the table, hold it to its bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    lines = earlier_lines(asked.output, asked.only)
    shares: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = sets(folder)
        for meant, cases in (("bad", BAD), ("good", GOOD)):
            found = {name: judged(line, files, folder) for name, line in cases.items() if asked.only in name}
            for name, (verdict, warned) in found.items():
                lines[name, meant] = f"{name}\t{meant}\t{verdict}\t{'yes' if warned else 'no'}"
                wrong = (verdict == "ok") == (meant == "bad") or verdict.startswith("broken")
                print(f"{'!!' if wrong else '  '} {meant:4} {name:34} {verdict:24} {warned[:60]}", flush=True)
            flagged = sum(verdict not in ("ok", "none") for verdict, _ in found.values()) / max(1, len(found))
            told = sum(bool(warned) for _, warned in found.values()) / max(1, len(found))
            print(f"{meant}: {len(found)} fits, {100 * flagged:.1f} % flagged, {100 * told:.1f} % told at the end of training", flush=True)
            shares[meant] = (flagged, told)
    if asked.output:
        order = [(name, meant) for meant, cases in (("bad", BAD), ("good", GOOD)) for name in cases]
        asked.output.write_text("\n".join(["fit\tmeant\tverdict\ttold", *(lines[key] for key in order if key in lines)]) + "\n")
    return 0 if min(shares["bad"]) >= FLAGGED and max(shares["good"]) <= FALSE else 1


if __name__ == "__main__":
    sys.exit(main())
