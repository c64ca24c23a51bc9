"""What the program knows about one kind of artifact: an entry of the table in kinds.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from herdcli.errors import DataError
from herdcli.parts import import_by_path
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of artifact.

    versions  dataclass of each version; the last one is written.
    metrics   (value, settings, *, map, progress) -> dict from column to text, number or None, or a list of such: its rows in `herd eval`.
    baseline  the column with the baseline that the verdict compares the model with; None: there is no verdict.
    verdicts  the possible verdicts in a few words, besides `ok`, `diverged` and `no test rows`; the most important first.
    findings  (row of metrics, value) -> the verdicts that apply; None: the metrics have a verdict already, or there is none.
    advice    finding -> a remedy, where it differs from the remedy for other kinds.
    harmonium whether it is a harmonium, or layers of harmoniums: `rbm.layers.model_layers` returns the layers.
    exact     whether --exact works with it.
    tolerance the largest relative difference of an array between two machines, or two versions of a library.
    quick     (value, *, map) -> the columns that the verdict needs, at the end of training; None: `metrics` are quick enough.
    judge     (session, artifact, request) -> the artifact that `metrics` and `plots` get, changed by the options of `eval` that
              `judged_by` names: other rows, a reference, a gallery, a target.  None: such options have no effect on it.
    announce  (session, value, request): prints a note before its metrics are computed.
    comparison (row of metrics) -> a sentence that compares the model with its baseline if the model is worse.
    plots     name -> (value, settings, *, map) -> Figure: `herd eval --plot`.
    summary   (value, names of the values of text columns) -> the tables of its contents that `herd info` shows; None: its fields.
    table     (value, names of the values of text columns) -> the columns of its main table, if that is not the largest of `summary`.
    score     columns of `herd eval`, the first with a value counts, of which Python's `score()` makes one figure where larger is better:
              COLUMN, 1 - COLUMN or -COLUMN.  Empty: it has no score.
    plain     the reason why it has no metrics or no plots, in a few words; only for kinds without.
    apply     (session, model, request) -> (Dataset, summary): the model applied to new rows, `herd apply`.
    imports   (session, request) -> (value, description): weights of other programs, `herd convert --to`.
    exports   format -> (path, value): writes a file for other programs, `herd convert`; every command can write netcdf.
    sample    (session, model, request) -> (Dataset, summary): rows sampled from the model, `herd sample`.
    finish    (session, whole, history, request): saves the result of the units of all shards, for kinds of shards.
    request   the command's request class, in which the record of a shard is read.
    """

    name: str
    versions: tuple[str, ...]
    metrics: str | None = None
    baseline: str | None = None
    verdicts: tuple[str, ...] = ()
    findings: str | None = None
    advice: Mapping[str, str] = field(default_factory=dict)
    harmonium: bool = False
    exact: bool = False
    tolerance: float = 1e-6
    quick: str | None = None
    judge: str | None = None
    judged_by: tuple[str, ...] = ()
    announce: str | None = None
    comparison: str | None = None
    plots: Mapping[str, str] = field(default_factory=dict)
    summary: str | None = None
    table: str | None = None
    score: tuple[str, ...] = ()
    plain: str = ""
    apply: str | None = None
    sample: str | None = None
    imports: str | None = None
    exports: Mapping[str, str] = field(default_factory=dict)
    finish: str | None = None
    request: str | None = None

    @property
    def version(self) -> int:
        """The version that this program writes."""
        return len(self.versions)

    def dataclass_of_version(self, version: int, *, where: str | None = None) -> type[Any]:
        """Return the dataclass of one version.  Raises DataError for a version newer than this program."""
        if not 1 <= version <= self.version:
            message = f"is a {self.name} of version {version}, but this version of herd reads only versions up to {self.version}"
            raise DataError(message, where=where, hint="update with: pip install --upgrade herdcli")
        found: type[Any] = import_by_path(self.versions[version - 1])
        return found
