"""What a user asks of `herd eval`."""

from __future__ import annotations

from herdcli.cli.frame.request import as_file, as_recorded, input_file, output_file, shown_as_file, unrecorded, where_changed
from herdcli.cli.frame.targets import recorded_scores
from herdcli.errors import BadUsage
from herdcli.records import dataclass

TABLES = ("confusion", "mcnemar", "tournament")  # of classifiers: other tables than one row per artifact


def _target(text: str | None) -> str | None:
    from herdcli.cli.frame.targets import recorded_target

    return None if text is None else recorded_target(text)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd eval`; names and meanings are those of its --help."""

    sources: tuple[str, ...] = input_file()
    format: str | None = unrecorded()
    plots: tuple[tuple[str, str], ...] = output_file()
    requirements: tuple[str, ...]
    unit: str
    calibrate: str
    mlr_penalty: float | str
    likelihood: str
    chains: int
    temperatures: int | None
    reverse: bool
    report: str | None = output_file(shown_as_file)
    keep_going: bool
    confusion: bool
    mcnemar: bool
    tournament: bool
    data: str | None = as_file()
    reference: str | None = as_file()
    target: str | None = as_recorded(_target)
    trace: bool
    kernel: str | None
    mixing: str | None = as_file()
    true_sources: str | None = as_file()
    gallery: str | None = as_file()
    probes: str
    probe_sets: str | None
    gallery_images: int | None
    drop_first: int
    dimensions: tuple[int, ...]
    seed: int
    scores: str | None = where_changed(None, recorded_scores)
    exact: bool = where_changed(False)

    @property
    def paths(self) -> tuple[str, ...]:
        """The artifacts: as named, else stdin."""
        return self.sources or ("-",)

    @property
    def table(self) -> str | None:
        """Which table of classifiers is asked for, if one is.  Raises BadUsage for several."""
        chosen = [name for name in TABLES if getattr(self, name)]
        if len(chosen) > 1:
            raise BadUsage(f"--{chosen[0]} and --{chosen[1]} make different tables", hint="ask for one at a time")
        return chosen[0] if chosen else None
