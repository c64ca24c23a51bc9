"""The input and the state of a learner: sources of blocks, a block with its position, the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Protocol

from herdcli.online.example_blocks import ExampleBlock, mask_examples
from herdcli.online.model import KernelMachine
from herdcli.online.running_centroids import RunningCentroids
from herdcli.records import dataclass
from herdcli.schema import Array


class BlockSource(Protocol):
    """A source of blocks: `block(step)` is the block of a step, None after the last.

    proof  digest of the text before, as stored by a resumed run: DataError if the text that is read again differs.
    """

    @property
    def steps(self) -> int | None:
        """The total number of blocks, None if unknown."""
        ...

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        """Return the block of a step, None after the last; proof: digest of the text before it, which must be the same."""
        ...


class HasClassNames(Protocol):
    """An object with the names of the classes; those of a stream may be determined while it is read."""

    @property
    def names(self) -> Sequence[str]:
        """The classes, in the order of their indices."""
        ...


@dataclass(frozen=True)
class LabelledBatch:
    """A block with labels as class indices, its number within the pass, and whether the pass is the first.

    proof  length and digest of the text read up to the end of the block; empty for a source without digests.
    held   (n,) bool: examples that no earlier pass has learned, if some are held out.
    """

    block: ExampleBlock
    number: int
    first_pass: bool
    proof: bytes = b""
    held: Array | None = None


@dataclass(frozen=True)
class HoldoutRule:
    """The rule for held-out examples of a pass: every `every`-th; with `until_last` the last pass learns them."""

    every: int = 0
    until_last: bool = False

    def batch(self, block: ExampleBlock, positions: Array, number: int, pass_number: int, passes: int, proof: bytes) -> LabelledBatch:
        """Return a batch of pass `pass_number` out of `passes`; place (n,): the index of each example among all."""
        if not self.every:
            return LabelledBatch(block, number, pass_number == 0, proof)
        held = positions % self.every == self.every - 1
        learns = self.until_last and pass_number == passes - 1
        return LabelledBatch(block if learns else mask_examples(block, held), number, pass_number == 0, proof, held)


@dataclass
class LearnerState:
    """The complete state of a run.  Of table, stack, sigma and machines only the one in use is not None."""

    step: int
    done: bool
    counts: Array  # (classes,) number of examples of each label
    running: Array  # (2,) examples, sum of |x|²
    tally: Array  # (6,) seen, wrong, loss, updates, refused, largest C·v of the first examples
    trace: Array  # (3, T) examples, error, loss at powers of two
    score: Array  # (n, C) last progressive scores
    variance: Array  # (n, C)
    label: Array  # (n,), or labels (n, C)
    table: Array | None = None  # (D, 2, C) means and variances
    mean: Array | None = None  # (C, D)
    sigma: Array | None = None  # (M, D', D'), upper triangle
    machines: list[KernelMachine] = field(default_factory=list)
    sizes: Array | None = (
        None  # (D, 2) number of values ≠ 0 of each feature and the sum of their |x|; for --scale standard (D, 5), see `fast.standardize`
    )
    proof: Array | None = None  # digest of the text up to the last batch, by which a resumed run recognises its text
    passes: Array | None = None  # (3, P) held-out examples of each pass, how many were wrong, the sum of their losses
    coverage: Array | None = None  # (6,) level, α_t, examples, covered, size, unbounded of prediction sets, with --coverage
    conformity: Array | None = None  # (w,) nonconformity of the last examples
    best: list[Array] = field(default_factory=list)  # weights of the best pass so far, with --early-stop
    stack: Array | None = None  # (C, D, 2) means and variances of each label, in place of a table
    weights: Array | None = None  # (D, C), in place of a table where multipliers are kept
    columns: Array | None = None  # (K,) column of each row of a table of features that occurred, see `compact_features`
    place: Array | None = None  # (D,) row of each column, −1 for one that did not occur
    multipliers: Array | None = None  # (N, C) of each row in memory, see `fast.learn_dual`
    centroids: RunningCentroids | None = None  # the baseline of a stream's classifier

    # a run that continues a model or a race begins with its columns, points and scores, and gets more
    free_axes: ClassVar[dict[str, tuple[int, ...]]] = {
        **dict.fromkeys(("score", "variance", "label"), (0,)),
        **dict.fromkeys(("trace", "passes", "stack", "mean"), (1,)),
        "sigma": (1, 2),
    }
