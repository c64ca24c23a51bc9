"""What a user asks of `herd ups-infer`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import as_file, as_recorded, input_file, unrecorded, where_changed
from herdcli.errors import BadUsage, is_unicode
from herdcli.markov.algorithms.table import ITERATED, OPTIONS, reading
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session

AUTO = "auto"
FORMATS = ("hdf5", "mar", "pr", "map", "csv", "parquet")
REGIONS = ("auto", "edges", "plaquettes")
CLAMPS = ("auto", "rows", "columns", "rows-columns")
OF_AUTO = {  # options that auto reads
    *("orders", "message_passing", "schedule", "damping", "damping_kind", "damping_schedule", "clamp", "regions", "sweeps", "chains"),
    *("effort", "time", "tolerance", "iterations", "on_nonconvergence"),
}
USERS = {option: (*((AUTO,) if option in OF_AUTO else ()), *reading(option)) for option in OPTIONS}


def _are_states(value: object) -> bool:
    """Whether a recorded value is a list of NAME=STATE."""
    return isinstance(value, list) and all(isinstance(each, str) and "=" in each and is_unicode(each) for each in value)


def _recorded_clamp(value: str) -> str:
    """The record of --clamp: the content of a file is among the inputs."""
    return value if value in CLAMPS else "file"


def _recorded_regions(value: str) -> str:
    """The record of --regions: the content of a file is among the inputs; `auto` was called edges when there was nothing else."""
    return value if value in REGIONS or value.startswith("cliques:") else "file"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd ups-infer`; names and meanings are those of its --help."""

    source: str = input_file()
    format: str | None = unrecorded()
    input_format: str | None = unrecorded()
    algorithm: str
    tolerance: float
    orders: int
    message_passing: str
    schedule: str
    damping: float
    damping_schedule: tuple[float, ...] | None
    damping_kind: str
    clamp: str = as_recorded(_recorded_clamp)
    restarts: int
    linear_response: bool
    regions: str = as_recorded(_recorded_regions)
    iterations: int
    on_nonconvergence: str
    sweeps: int
    burn_in: int
    annealing: int
    chains: int
    evidence_rows: str | None = as_file()
    evidence: str | tuple[str, ...] | None = as_file()  # typed as files and states, resolved as the one file
    evidence_states: tuple[str, ...] = where_changed((), allowed=lambda value: _are_states(value))
    observe: tuple[str, ...]
    likelihood: tuple[str, ...]
    ignore_observed: bool
    output_marginals: str = where_changed("all")
    effort: float = where_changed(500.0)
    time: float | None = unrecorded()
    query: str = where_changed("marginals")
    search_steps: int = where_changed(50)
    bucket_cells: int = where_changed(4096)
    solver: str = where_changed("herd")
    slices: str | None = where_changed(None)
    missing_rows: str = where_changed("refuse")
    seed: int

    def resolved(self, given: frozenset[str]) -> Request:
        """With the file of --evidence apart from the states typed.  Raises BadUsage for a second file."""
        typed = self.evidence if isinstance(self.evidence, tuple) else ()
        states = tuple(text for text in typed if "=" in text and not Path(text).exists())
        files = [text for text in typed if text not in states]
        if len(files) > 1:
            raise BadUsage(f"--evidence names two files, {files[0]} and {files[1]}", hint="one file, and NAME=STATE as often as you like")
        return replace(self, evidence=files[0] if files else None, evidence_states=states)

    def warn_of_ignored(self, session: Session, observed: bool) -> None:
        """Warnings for options without effect on this algorithm.  Raises BadUsage for contradictions.

        observed  whether there are observed marginals, with which the junction tree iterates too.
        """
        if self.query != "mpe":
            session.ignored("solver", "without --query mpe")
        for option, users in USERS.items():
            if self.algorithm not in users or (self.algorithm == "junction-tree" and option in ITERATED and not observed):
                session.ignored(option, f"with --algorithm {self.algorithm}")
        if self.algorithm == "loopy-is" and self.schedule == "checkerboard":
            raise BadUsage("--schedule checkerboard is for --algorithm bp", hint="--schedule residual")
        if self.restarts and self.schedule == "checkerboard":
            raise BadUsage("--schedule checkerboard takes no restarts", hint="--schedule residual")
        if self.damping and self.damping_schedule:
            raise BadUsage("--damping and --damping-schedule exclude each other")
        if self.damping == 0 and not self.damping_schedule:
            session.ignored("damping_kind", "without --damping")
        elif self.algorithm in USERS["schedule"] and self.schedule in ("residual", "checkerboard"):
            raise BadUsage(f"--schedule {self.schedule} takes no damping", hint="--schedule sequential or parallel")
