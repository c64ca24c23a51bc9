"""Advice for each finding of a verdict, for kinds without their own advice (`kinds`).

The module also has the words by which a command may have reported the same finding already.
"""

from __future__ import annotations

DIVERGED = "diverged"

ADVICE = {
    "worse than independent": "lower --learning-rate, take more --gibbs-steps or --algorithm pt, or --standardize the columns",
    "learned nothing": "the model needs columns that depend on each other",
    "overfits": "fewer units or components, a penalty, or more rows",
    "dead units": "a lower --learning-rate, or fewer --hidden",
    "worse than majority": "check that the labels belong to the rows; another --learning-rate, --C or --epochs",
    "worse than naive Bayes": "fewer --hidden, more rows or epochs, or a lower --learning-rate",
    "worse than nearest centroid": "more rows or passes, a penalty, --scale standard, or a simpler model",
    "worse than a linear model": "more rows or passes, a penalty, --scale standard, or herd regress --l2 0.01",
    "no better than chance": "check that the labels belong to the rows; scale the columns",
    "one class": "scale the columns, shuffle the rows, or change --C",
    "misleading probabilities": "errors may be few, but do not use the probabilities",
    "worse than baseline": "fewer --components, more --starts, or other columns",
    "variance at floor": "a component sits on few rows: fewer --components or another --covariance",
    "not converged": "more --iterations",
    "impossible rows": "some test rows have probability 0: --smoothing 1",
    "below mean field": "log Z is below a lower bound: --restarts 10, --algorithm ups, or an exact one",
    "log Z above its bound": "--algorithm junction-tree if it is affordable, else auto",
    "inaccurate marginals": "--algorithm junction-tree if it is affordable, else auto",
    "marginals not checked": "the network is too large for a second answer; --algorithm auto compares several algorithms",
    "inconsistent marginals": "more --iterations, or --algorithm ups",
    "chains disagree": "more --sweeps, --algorithm tempered-gibbs, or under auto more --effort",
    "sampling error": "more --sweeps, or under auto more --effort",
    "worse than whitening": "another --density, more rows, or more --iterations",
    "worse than random": "another --rule or --kernel, or more atoms",
    "kernel too narrow": "a larger --bandwidth, or scale the columns: --scale std",
    "kernel too wide": "a smaller --bandwidth, or scale the columns: --scale std",
    "one point": "more atoms, or --unique",
    "embedding too coarse": "its error may hide the MMD of random rows: a larger number in --embedding, or --embedding exact",
    "too few rows": "fewer --components, or more rows",
    "dead filters": "fewer --filters or --components",
    "unstable": "forecasts grow without bound: fewer --components, more rows, or differences of the rows",
    DIVERGED: "a lower --learning-rate, or scale the columns",
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
