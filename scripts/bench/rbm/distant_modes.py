"""Whether learned models keep the mass of far clouds of rows, which chains that begin at rows tell nothing of.

    python scripts bench/rbm/distant_modes [--seeds 5] [--algorithms cd,rpcd,pt]

Rows are prototypes drawn by a fair coin, with entries flipped at random: two or five clouds with nothing between, in one set the second the
opposite of the first.  Three quarters are learned from, by 16 hidden units at default rates, 40 epochs; figures are exact mean
log-likelihoods of the rest in nats, beside independent columns and about what the rows' own distribution has.
"""

from __future__ import annotations

import argparse
import math
from functools import partial

import numpy as np
from bench.rbm.defaults import independent, judged

from herdcli.rbm.learning.curvature_bound import largest_covariance_eigenvalue
from herdcli.rbm.settings import Settings, fill_defaults
from herdcli.records import dataclass

HIDDEN, EPOCHS = 16, 40


@dataclass(frozen=True)
class Clouds:
    """Rows (n, D) of clouds with these masses, whose entries are those of the prototype but for a share."""

    D: int
    n: int
    flipped: float
    masses: tuple[float, ...]
    seed: int = 0
    opposite: bool = False

    def rows(self) -> np.ndarray:
        """(n, D) int8."""
        draws = np.random.default_rng(self.seed)
        prototypes = draws.random((len(self.masses), self.D)) < 0.5
        if self.opposite:
            prototypes[1] = ~prototypes[0]
        cloud = draws.choice(len(self.masses), self.n, p=self.masses)
        return (prototypes[cloud] ^ (draws.random((self.n, self.D)) < self.flipped)).astype(np.int8)

    @property
    def best(self) -> float:
        """The mean log-likelihood of the rows' own distribution, clouds apart."""
        entropy = -sum(p * math.log(p) for p in (self.flipped, 1 - self.flipped)) * self.D
        return -entropy + sum(p * math.log(p) for p in self.masses)


SETS = {
    "two": Clouds(140, 2700, 0.05, (0.5, 0.5)),
    "two, 4 : 1": Clouds(60, 1300, 0.1, (0.8, 0.2)),
    "two, 300 columns": Clouds(300, 4000, 0.02, (0.5, 0.5)),
    "two, 30 columns": Clouds(30, 600, 0.05, (0.5, 0.5), seed=2),
    "two opposite, 3 : 7": Clouds(100, 1300, 0.05, (0.3, 0.7), seed=1, opposite=True),
    "five, unequal": Clouds(100, 2700, 0.05, (0.4, 0.25, 0.15, 0.12, 0.08)),
    "five": Clouds(200, 4000, 0.1, (0.2,) * 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", default="cd,rpcd,pt")
    arguments = parser.parse_args()
    algorithms = arguments.algorithms.split(",")
    print("\t".join(["clouds", "best", "independent", *algorithms]))
    for name, clouds in SETS.items():
        rows = clouds.rows()
        train, held = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
        told = [name, f"{clouds.best:.1f}", f"{independent(train, held):.1f}"]
        for algorithm in algorithms:
            asked = [Settings(HIDDEN, algorithm, epochs=EPOCHS, seed=seed) for seed in range(arguments.seeds)]
            moment = partial(largest_covariance_eigenvalue, train)
            found = [
                judged(train, held, fill_defaults(each, len(train), rate=True, centering=True, decay=True, largest_eigenvalue=moment))
                for each in asked
            ]
            told.append(f"{np.mean(found):.1f} ({min(found):.1f})")
        print("\t".join(told), flush=True)


if __name__ == "__main__":
    main()
