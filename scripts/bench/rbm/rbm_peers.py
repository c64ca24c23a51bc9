"""How far `herd fit-rbm` without options on its learning is from the best of fifty tuned runs of other programs, on ten sets.

    OPENBLAS_NUM_THREADS=1 HERD_DATA=DIR python scripts bench/rbm/rbm_peers [--sets a9a,w8a] [--rows 3000] [--epochs 40]
        [--algorithm cd] [--known FILE] [--out FILE]

The sets of checks/likelihood.py, three quarters of --rows rows to learn from and the rest to judge by; 16 hidden units, the same number of
epochs for everybody.  Every figure is the exact mean log-likelihood of the rows held out, in nats: 2^16 hidden states are summed.

herd          the command's defaults, or those of --algorithm; seeds 0 to 4.
scikit-learn  25 runs of `BernoulliRBM`: five learning rates by five sizes of batches.
torch         25 runs of a loop of our own in PyTorch, CD-1 with momentum .9 in batches of 20: five learning rates by five weight decays,
              visible biases that begin at the columns' log odds, a rate that falls to 0.

The best peer is chosen by the very rows that judge, which is in its favour.
Bar: no seed below independent columns, and herd's mean at most .5 nats behind the best peer.  Exit code 1 if it is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bench.rbm.defaults import independent, judged
from bench.rbm.likelihood import binary, exact
from checks.likelihood import FILES, rows_of

from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import Settings, fill_defaults

HIDDEN, SEEDS, BAR = 16, range(5), 0.5
SKLEARN_RATES, SKLEARN_BATCHES = (0.2, 0.1, 0.05, 0.02, 0.01), (5, 10, 20, 50, 100)
TORCH_RATES, TORCH_DECAYS = (0.1, 0.05, 0.02, 0.01, 0.005), (0.0, 1e-4, 5e-4, 1e-3, 3e-3)
COLUMNS = ("set", "training_rows", "independent", "herd", "worst_seed", "best_peer", "its_settings", "short_by")


def by_sklearn(train: np.ndarray, rate: float, batch: int, epochs: int) -> Harmonium:
    """A model of scikit-learn's."""
    from sklearn.neural_network import BernoulliRBM

    made = BernoulliRBM(HIDDEN, learning_rate=rate, batch_size=batch, n_iter=epochs, random_state=0).fit(train.astype(np.float32))
    return binary(made.components_.T, made.intercept_visible_, made.intercept_hidden_)


def by_torch(train: np.ndarray, rate: float, decay: float, epochs: int) -> Harmonium:
    """CD-1 with momentum, as a user of PyTorch would write it."""
    import torch

    torch.manual_seed(0)
    data = torch.tensor(train, dtype=torch.float32)
    n, batch, mean = len(data), 20, data.mean(0)
    W, b, c = 0.01 * torch.randn(data.shape[1], HIDDEN), torch.logit(mean.clamp(0.01, 0.99)), torch.zeros(HIDDEN)
    moved = [torch.zeros_like(part) for part in (W, b, c)]
    total, done = epochs * -(-n // batch), 0
    for _ in range(epochs):
        for rows in torch.randperm(n).split(batch):
            v = data[rows]
            h = torch.sigmoid(v @ W + c)
            shown = torch.bernoulli(torch.sigmoid(torch.bernoulli(h) @ W.T + b))
            last = torch.sigmoid(shown @ W + c)
            step = rate * (1 - done / total) / len(rows)
            slopes = v.T @ h - shown.T @ last - decay * len(rows) * W, (v - shown).sum(0), (h - last).sum(0)
            for part, before, slope in zip((W, b, c), moved, slopes, strict=True):
                part.add_(before.mul_(0.9).add_(slope, alpha=step))
            done += 1
    return binary(W.numpy(), b.numpy(), c.numpy())


def peers(train: np.ndarray, epochs: int) -> Iterator[tuple[str, Harmonium]]:
    """Fifty runs, by what is told of them."""
    for rate in SKLEARN_RATES:
        for batch in SKLEARN_BATCHES:
            yield f"scikit-learn, rate {rate:g}, batches of {batch}", by_sklearn(train, rate, batch, epochs)
    for rate in TORCH_RATES:
        for decay in TORCH_DECAYS:
            yield f"torch, rate {rate:g}, decay {decay:g}", by_torch(train, rate, decay, epochs)


def found_before(table: Path) -> dict[str, tuple[str, float]]:
    """The best peer of each set and its log-likelihood, of a table that this script has written."""
    lines = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    return {line[0]: (line[6], float(line[5])) for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--algorithm", default="rpcd")
    parser.add_argument("--known", type=Path, help="table of an earlier run with the same rows and epochs, whose best peers stand")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines, missed = ["\t".join(COLUMNS)], 0
    known = {} if arguments.known is None else found_before(arguments.known)
    print(lines[0])
    for name in arguments.sets.split(","):
        if (rows := rows_of(name)) is None:
            continue
        rows = rows[: arguments.rows]
        train, held = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
        baseline = independent(train, held)
        ours = []
        for seed in SEEDS:
            asked = Settings(HIDDEN, arguments.algorithm, epochs=arguments.epochs, seed=seed)
            moment = partial(largest_covariance_eigenvalue, train)
            ours.append(
                judged(train, held, fill_defaults(asked, len(train), rate=True, centering=True, decay=True, largest_eigenvalue=moment))
            )
        if name in known:
            best, peer = known[name]
        else:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # rates that are too large
                theirs = {
                    told: exact(h, held) if all(np.isfinite(part).all() for part in (h.W, h.b, h.c)) else -np.inf
                    for told, h in peers(train, arguments.epochs)
                }
            best = max(theirs, key=lambda told: theirs[told])
            peer = theirs[best]
        short = peer - float(np.mean(ours))
        missed += short > BAR or min(ours) < baseline
        lines.append(f"{name}\t{len(train)}\t{baseline:.2f}\t{np.mean(ours):.2f}\t{min(ours):.2f}\t{peer:.2f}\t{best}\t{short:+.2f}")
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print(f"{missed} of {len(lines) - 1} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
