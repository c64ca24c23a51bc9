"""Advice for each finding of a verdict, for kinds without their own advice (`kinds`).

The module also has the words by which a command may have reported the same finding already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

DIVERGED = "diverged"

ADVICE = {
    "worse than independent": "use a lower --learning-rate, more --gibbs-steps, --algorithm pt or --standardize",
    "learned nothing": "the model is no better than independent columns: check whether the columns depend on each other",
    "overfits": "use fewer --components, or more rows",
    "dead units": "use a lower --learning-rate, or fewer --hidden",
    "worse than majority": "check that the labels belong to the rows, or use another --learning-rate, --C or --epochs",
    "worse than naive Bayes": "use fewer --hidden, more rows or --epochs, or a lower --learning-rate",
    "worse than nearest centroid": "use more rows or --epochs, a penalty, --scale standard, or a simpler model",
    "worse than a linear model": "use more rows or --epochs, a penalty, --scale standard, or herd regress --l2 0.01",
    "no better than chance": "check that the labels belong to the rows, and scale the columns",
    "one class": "scale the columns, shuffle the rows, or change --C",
    "misleading probabilities": "do not use the probabilities, even if the error is low",
    "worse than baseline": "use fewer --components, more --starts, or other columns",
    "variance at floor": "a component covers only a few rows: use fewer --components or another --covariance",
    "not converged": "use more --iterations",
    "impossible rows": "some test rows have probability 0: use --smoothing 1",
    "below mean field": "log Z is below the mean-field lower bound: use --restarts 10, --algorithm ups or an exact algorithm",
    "log Z above its bound": "use --algorithm junction-tree, or auto if memory does not suffice",
    "inaccurate marginals": "use --algorithm junction-tree, or auto if memory does not suffice",
    "marginals not checked": "the network is too large for a second algorithm; --algorithm auto compares several",
    "inconsistent marginals": "use more --iterations, or --algorithm ups",
    "chains disagree": "use more --sweeps or --algorithm tempered-gibbs; with --algorithm auto, more --effort",
    "sampling error": "use more --sweeps; with --algorithm auto, more --effort",
    "worse than whitening": "use another --density, more rows, or more --iterations",
    "worse than random": "use another --rule or --kernel, or more atoms",
    "kernel too narrow": "use a larger --bandwidth, or scale the columns with --scale std",
    "kernel too wide": "use a smaller --bandwidth, or scale the columns with --scale std",
    "one point": "use more atoms, or --unique",
    "embedding too coarse": "its error may be larger than the MMD: use a larger number in --embedding, or --embedding exact",
    "too few rows": "use fewer --components, or more rows",
    "dead filters": "use fewer --filters or --components",
    "unstable": "forecasts grow without bound: use fewer --components, more rows, or differences of the rows",
    DIVERGED: "use a lower --learning-rate, or scale the columns",
}


# the command's own message for a run that ends with this verdict
TOLD = {
    "not converged": "converge",
    "chains disagree": "the chains of",
    "separated": "without bound",
    "variance at floor": "to the floor",
    "diverged": "ran away",
    "gaussian outputs": "look Gaussian",
}


def join_advice(advice: Iterable[str]) -> str:
    """Join the advice for several findings: what to use becomes one list, and suggestions that were made before are left out."""
    made: list[str] = []
    options: list[str] = []  # what the first clause that only says what to use recommends
    place = 0
    for clause in (clause for text in advice for clause in text.split("; ")):
        start, use, rest = clause.rpartition("use ")
        if not use or (start and not start.endswith(": ")):
            made += [clause] if clause not in made else []
            continue
        earlier = "; ".join([*made, *options])
        parts = [part.removeprefix("or ") for part in rest.split(", ")]
        new = [part for part in parts if not re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", earlier)]
        if not start:
            place = place if options else len(made)
            options += new
        elif new:
            made.append(clause if len(new) == len(parts) else f"{start}use {_join_alternatives(new)}")
        elif start.removesuffix(": ") not in made:
            made.append(start.removesuffix(": "))
    if options:
        made.insert(place, f"use {_join_alternatives(options)}")
    return "; ".join(made)


def _join_alternatives(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, or {parts[-1]}"
