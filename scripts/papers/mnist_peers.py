"""Other programs for papers/fig_mnist.py: a harmonium of the training rows by persistent contrastive divergence, in float32 on one thread.

    python scripts papers/mnist_peers torch|rbms ROWS.h5 WEIGHTS.npz --epochs N [--seed S] [--rate X] [--centred]

Prints one line of JSON: `seconds` of the processor that the updates took, without imports and reading.  WEIGHTS.npz has W, b and c.

torch   a loop of our own in PyTorch with herd's settings: batches and chains of 100, one sweep, momentum .5, decay 1e-4, a rate that falls
        to 0 in a line; fused addmm_, in place, no autograd; `bernoulli_` draws states; visible biases begin at the columns' log-odds.
rbms    the package `rbms` (PyPI, 0.5): its models, chains and fit_batch_pcd in the loop of its `train`, without what that writes after
        every update; centred, gradients divided by their norm, plain descent at a constant rate.  Batches and chains of 100, one sweep.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
import torch

HIDDEN, BATCH, MOMENTUM, DECAY = 500, 100, 0.5, 1e-4
Learned = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def sampled(p: torch.Tensor) -> torch.Tensor:
    """States of units that are on with probability p."""
    return torch.empty_like(p).bernoulli_(p)


def by_torch(data: torch.Tensor, epochs: int, rate: float, *, centred: bool) -> Learned:
    """W (D, K), b (D,), c (K,) after so many epochs of rows (n, D)."""
    n, D = data.shape
    mean = data.mean(0)
    W, b, c = 0.01 * torch.randn(D, HIDDEN), torch.logit(mean.clamp(1e-4, 1 - 1e-4)), torch.zeros(HIDDEN)
    moved, low = (torch.zeros_like(W), torch.zeros_like(b), torch.zeros_like(c)), torch.full((HIDDEN,), 0.5)
    chain, total = sampled(torch.full((BATCH, HIDDEN), 0.5)), epochs * (n // BATCH)
    for number in range(total):
        if number % (n // BATCH) == 0:
            order = torch.randperm(n)
        first = number % (n // BATCH) * BATCH
        v, step = data[order[first : first + BATCH]], rate * (1 - number / total)
        h = torch.addmm(c, v, W).sigmoid_()
        shown = sampled(torch.addmm(b, chain, W.T).sigmoid_())
        last = torch.addmm(c, shown, W).sigmoid_()
        chain = sampled(last)
        if centred:
            low.lerp_(h.mean(0), 0.01)
            left = (v - mean).T, (shown - mean).T
            pairs = torch.mm(left[0], h - low).addmm_(left[1], last - low, alpha=-1).div_(BATCH)
            up, down = (v - shown).mean(0) - pairs @ low, (h - last).mean(0) - mean @ pairs
            moved[0].mul_(MOMENTUM).add_(pairs, alpha=step)
        else:
            up, down = (v - shown).mean(0), (h - last).mean(0)
            moved[0].mul_(MOMENTUM).addmm_(v.T, h, alpha=step / BATCH).addmm_(shown.T, last, alpha=-step / BATCH)
        moved[0].add_(W, alpha=-step * DECAY)
        moved[1].mul_(MOMENTUM).add_(up, alpha=step)
        moved[2].mul_(MOMENTUM).add_(down, alpha=step)
        W.add_(moved[0]), b.add_(moved[1]), c.add_(moved[2])
    return W, b, c


def by_rbms(data: torch.Tensor, epochs: int, rate: float, *, centred: bool) -> Learned:
    """The same by the package."""
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.dataset.dataset_class import RBMDataset
    from rbms.training.pcd import fit_batch_pcd

    n = len(data)
    rows = RBMDataset(data.numpy(), np.zeros(n), np.ones(n, np.float32), np.arange(n), "MNIST", True, device="cpu")
    model = BBRBM.init_parameters(HIDDEN, rows, torch.device("cpu"), torch.float32)
    model.init_grad()
    chains = model.init_chains(BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, maximize=True)
    for _ in range(epochs * (n // BATCH)):
        chosen = torch.randperm(n)[:BATCH]
        optimizer.zero_grad(set_to_none=False)
        chains, _ = fit_batch_pcd((rows.data[chosen], rows.weights[chosen]), chains, model, 1, 1.0, centered=centred)
        optimizer.step()
    return model.weight_matrix, model.vbias, model.hbias


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", choices=("torch", "rbms"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--centred", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    with h5py.File(asked.rows) as file:
        data = torch.from_numpy(file["X"][:][file["split"][:] == 0].astype(np.float32))
    start = time.process_time()
    with torch.no_grad():
        W, b, c = (by_torch if asked.program == "torch" else by_rbms)(data, asked.epochs, asked.rate, centred=asked.centred)
    print(json.dumps({"seconds": time.process_time() - start}))
    np.savez(asked.weights, **{name: part.numpy().astype(np.float64) for name, part in (("W", W), ("b", b), ("c", c))})


if __name__ == "__main__":
    main()
