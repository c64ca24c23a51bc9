"""The check whether several artifacts are evaluated on the same test rows, from the inputs and splits in their histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session


@dataclass(frozen=True)
class TestRowsIdentity:
    """The test rows of an artifact: sha256 of the data set, and how its split was sampled (None for the data set's own)."""

    sha256: str
    split: str | None
    seed: int | None
    rule: str | None
    missing: str | None

    def difference(self, other: TestRowsIdentity) -> str | None:
        """Return in words why the other test rows differ; None if they are the same."""
        if self.sha256 != other.sha256:
            return "they were learned from different inputs"
        if self.split != other.split:
            shown = [text or "the data set's own or the default" for text in (self.split, other.split)]
            return f"--split {shown[0]} and {shown[1]}"
        if self.seed != other.seed:
            return f"--seed {self.seed} and {other.seed}" if None not in (self.seed, other.seed) else "one of the splits was drawn"
        if self.rule != other.rule:
            return "an earlier version drew one of the splits class by class"
        return "--missing drop left rows out of one of them" if self.missing != other.missing else None


def test_rows_identity(artifact: Artifact) -> TestRowsIdentity | None:
    """Return the test rows of an artifact; None if its history has no split of a data set."""
    for stage in reversed(artifact.history):
        parameters = stage.get("parameters", {})
        data = [each for each in stage.get("inputs", []) if each.get("role") == "data" and each.get("kind") == "dataset"]
        if "split" in parameters and "seed" in parameters and data and stage.get("command") != "convert":
            split, rule = parameters["split"], parameters.get("split_rule")
            drawn = split is not None or rule is not None
            missing = parameters.get("missing")
            return TestRowsIdentity(
                data[0]["sha256"], split, parameters["seed"] if drawn else None, rule, missing if missing == "drop" else None
            )
    return None


def warn_of_different_test_rows(session: Session, artifacts: Sequence[Artifact]) -> None:
    """Warn once of artifacts that are evaluated on other test rows than the first one."""
    known = [(artifact.name, rows) for artifact in artifacts if (rows := test_rows_identity(artifact)) is not None]
    for name, rows in known[1:]:
        why = known[0][1].difference(rows)
        if why is not None:
            session.console.warn(f"{known[0][0]} and {name} are evaluated on different test rows: {why}")
            return
