"""What helps against each finding of a verdict, and the words by which a command may have said the same already."""

from __future__ import annotations

DIVERGED = "diverged"

ADVICE = {
    "worse than independent": "lower --learning-rate, take more --steps or --algorithm pt, or --standardize the columns",
    "learned nothing": "it needs columns that depend on each other",
    "overfits": "fewer units or components, a penalty, or more rows",
    "dead units": "a lower --learning-rate, or fewer --hidden",
    "worse than majority": "check that the labels belong to the rows; another --learning-rate, --C or --epochs",
    "worse than nearest centroid": "more rows or passes, a penalty, --scale standard, or a simpler model",
    "worse than a linear model": "more rows or passes, a penalty, --scale standard, or herd regress --l2 0.01",
    "no better than chance": "check that the labels belong to the rows; scale the columns",
    "one class": "scale the columns, shuffle the rows, or change --C",
    "misleading probabilities": "the errors may be few, the probabilities are not to be used",
    "worse than baseline": "fewer --components, more --restarts, or other columns",
    "variance at floor": "a component sits on few rows: fewer --components or another --covariance",
    "not converged": "more --iterations",
    "impossible rows": "some test rows have probability 0: --smoothing 1",
    "below mean field": "log Z is less than a bound that it has: --restarts 10, --algorithm ups, or an exact one",
    "log Z above its bound": "--algorithm junction-tree if it is affordable, else auto",
    "inaccurate marginals": "--algorithm junction-tree if it is affordable, else auto",
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

ADVICE_OF = {
    ("herding", "worse than random"): "more --iterations, or --variant safe",
    ("network", "worse than independent"): "more rows, --smoothing 1, or a simpler --structure",
    ("network", "overfits"): "more rows, --smoothing 1, or a simpler --structure",
    ("regression", "overfits"): "a penalty (--l2 0.01), fewer columns, or more rows",
    ("regression", "worse than nearest centroid"): "a penalty (--l2 0.01), fewer columns, or more rows",
    ("regression", "worse than a linear model"): "a penalty (--l2 0.01), fewer columns, or more rows",
    ("regression", "learned nothing"): "a smaller penalty, or columns that the target depends on",
    ("ica", "overfits"): "fewer --components, or more rows",
    ("ica", "gaussian outputs"): "their rotation is not identifiable: more rows, or --algorithm sobi for rows in order of time",
    ("mixture", "worse than baseline"): "fewer --components, --covariance diagonal, or more rows",
    ("rbm", "worse than one Gaussian"): "--learn-variances, --standardize, more --hidden or more --epochs; or herd em",
    ("rbm", "learned nothing"): (
        "more --epochs, a higher --learning-rate, or --standardize for gaussian units; what no pair of columns shows, as a parity, needs "
        "--algorithm exact --learning-rate 0.3 --epochs 600; columns may be independent"
    ),
    ("dbn", "learned nothing"): "more --epochs, a higher --learning-rate, or --standardize for gaussian units; columns may be independent",
    ("mixture", "learned nothing"): "it says no more than one Gaussian does",
    ("kmeans", "learned nothing"): "it says no more than one centre does",
    ("factors", "learned nothing"): "it says no more than independent columns do",
    ("rtrbm", "worse than independent"): "more --epochs, a lower --learning-rate, or --standardize the columns",
    ("rtrbm", "learned nothing"): "more --epochs or another --learning-rate; rows may not depend on those before them",
    ("rtrbm", "worse than persistence"): "more --epochs, more --hidden, or another --learning-rate",
    ("rtrbm", "worse than the mean"): "more --epochs, more --hidden, or another --learning-rate",
    ("hmm", "variance at floor"): "some directions hardly vary within a state: fewer --components or another --covariance",
    ("hmm", "learned nothing"): "the order of the rows says no more than how often each state comes",
    ("lds", "learned nothing"): "it says no more than one Gaussian does",
    ("lds", "worse than baseline"): "more rows, fewer --components, or other columns: its baseline is one Gaussian",
    ("hmm", "worse than baseline"): "fewer --components, --covariance diagonal, or more rows",
    ("hmm", "worse than persistence"): "the rows move slowly: --model lds, or differences of the rows",
    ("lds", "worse than persistence"): "more --components: a column that no state follows is expected at its mean",
    ("rbm-pairs", "learned nothing"): "another --learning-rate, or more --epochs",
}


# what a command says itself where it ends with this verdict
TOLD = {
    "not converged": "converge",
    "chains disagree": "the chains of",
    "separated": "without bound",
    "variance at floor": "to the floor",
    "diverged": "ran away",
    "gaussian outputs": "look Gaussian",
}
