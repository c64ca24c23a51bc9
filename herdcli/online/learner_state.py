"""What a learner is given and where it stands: sources of blocks, a block with its place, the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Protocol

from herdcli.online.example_blocks import ExampleBlock, mask_examples
from herdcli.online.model import Machine
from herdcli.records import dataclass
from herdcli.schema import Array


class BlockSource(Protocol):
    """Where blocks come from: `block(step)` is the block of a step, None after the last.

    proof  of the batch before, as a resumed run remembers it: DataError if what was read again is not the same.
    """

    @property
    def steps(self) -> int | None:
        """Blocks in all, None where nobody knows."""
        ...

    def block(self, step: int, proof: bytes = b"") -> LabelledBatch | None:
        """The block of a step, None behind the last; proof: of what was read before it, which must be the same text."""
        ...


class HasClassNames(Protocol):
    """What knows the names of the classes; those of a stream can be settled as it is read."""

    @property
    def names(self) -> Sequence[str]:
        """The classes, in the order of their indices."""
        ...


@dataclass(frozen=True)
class LabelledBatch:
    """A block with labels as class indices, its number within the pass, and whether the pass is the first.

    proof  how much had been read when the block was whole, and the digest of it; empty where a source has none.
    held   (n,) bool: examples that no pass before has learned, where some are held out.
    """

    block: ExampleBlock
    number: int
    first_pass: bool
    proof: bytes = b""
    held: Array | None = None


@dataclass(frozen=True)
class HoldoutRule:
    """Which examples of a pass are judged and not learned: every `every`-th; with `until_last` the last pass learns them."""

    every: int = 0
    until_last: bool = False

    def batch(self, block: ExampleBlock, place: Array, number: int, turn: int, passes: int, proof: bytes) -> LabelledBatch:
        """A batch of pass `turn` of so many; place (n,): where each example stands among all."""
        if not self.every:
            return LabelledBatch(block, number, turn == 0, proof)
        held = place % self.every == self.every - 1
        learns = self.until_last and turn == passes - 1
        return LabelledBatch(block if learns else mask_examples(block, held), number, turn == 0, proof, held)


@dataclass
class LearnerState:
    """Everything the rest of a run depends on.  Of table, stack, sigma and machines the one in use is not None."""

    step: int
    done: bool
    counts: Array  # (classes,) labels seen
    running: Array  # (2,) examples, sum of |x|²
    tally: Array  # (6,) seen, wrong, loss, updates, refused, largest C·v of the first examples
    trace: Array  # (3, T) examples, error, loss at powers of two
    score: Array  # (n, C) last progressive scores
    variance: Array  # (n, C)
    label: Array  # (n,), of labels (n, C)
    table: Array | None = None  # (D, 2, C) means and variances
    mean: Array | None = None  # (C, D)
    sigma: Array | None = None  # (M, D', D'), upper triangle
    machines: list[Machine] = field(default_factory=list)
    sizes: Array | None = (
        None  # (D, 2) values ≠ 0 of each feature and the sum of their |x|; of --scale standard (D, 5), see `fast.standardize`
    )
    proof: Array | None = None  # of the last batch, so that a resumed run knows its text again
    passes: Array | None = None  # (3, P) held-out examples of each pass, how many were wrong, the sum of their losses
    coverage: Array | None = None  # (6,) level, α_t, examples, covered, size, unbounded of prediction sets, with --coverage
    conformity: Array | None = None  # (w,) nonconformity of the last examples
    best: list[Array] = field(default_factory=list)  # weights of the best pass so far, with --early-stop
    stack: Array | None = None  # (C, D, 2) means and variances of each label, in the place of a table
    weights: Array | None = None  # (D, C), in the place of a table where multipliers are kept
    columns: Array | None = None  # (K,) column of each row of a table of those that were met, see `compact`
    place: Array | None = None  # (D,) row of each column, −1 of one that was not
    multipliers: Array | None = None  # (N, C) of each row in memory, see `fast.learn_dual`

    # a run that goes on from a model, or from a race, begins with columns, points and scores, and meets others
    free_axes: ClassVar[dict[str, tuple[int, ...]]] = {
        **dict.fromkeys(("score", "variance", "label"), (0,)),
        **dict.fromkeys(("trace", "passes", "stack", "mean"), (1,)),
        "sigma": (1, 2),
    }
