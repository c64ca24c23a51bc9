"""Making an artifact again from its history: each stage's command with its recorded options, on inputs with the recorded digests.

A history names no files, so inputs are matched by their digests.  They are the given files, the files that ship with herd, and the outputs
of earlier stages of the same history.  An output made on another kind of machine may have other bytes; it still replaces the input that it
stands for, and the final result is compared within a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli import __version__, artifacts
from herdcli.artifacts.sealed import artifact_comparison
from herdcli.artifacts.sealed.file_digests import accepted_digests
from herdcli.cli.frame.history.history_stages import Stage, history_stages, stage_request
from herdcli.cli.frame.history.request import FILE
from herdcli.cli.frame.history.sandboxed_rerun import RerunLimits, rerun_stage
from herdcli.errors import NegativeResult, NoInput
from herdcli.scratch import scratch_folder

MISSING_INPUT = "name it with --input FILE; a file that a later run has replaced cannot be used any more"

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session


def find_files_by_digest(paths: Iterable[str]) -> dict[str, str]:
    """Return files, including those that ship with herd, by the digests that a history may have of them.  Raises NoInput, DataError."""
    from importlib.resources import as_file, files

    found: dict[str, str] = {}
    with as_file(files("herdcli.data")) as folder:
        shipped = sorted(str(path) for path in folder.glob("*.h5"))
    for path in (*shipped, *paths):
        found |= dict.fromkeys(accepted_digests(path), path)
    return found


def rerun_and_compare(session: Session, path: str, files_by_digest: Mapping[str, str], bounds: RerunLimits) -> str:
    """Make the artifact again and return a sentence that compares the two.

    Raises NegativeResult if they differ and NoInput if an input is missing.
    """
    original = artifacts.load(path, max_memory=session.max_memory)
    stages = history_stages(original)
    versions = sorted({stage.version for stage in stages} - {__version__})
    if versions:
        session.console.warn(f"{original.name}: was made by herd {' and '.join(versions)}, but this is {__version__}: results may differ")
    first = _first_stage_to_rerun(stages, files_by_digest, original.name)
    with scratch_folder() as folder:
        for stage in stages[first:]:  # before any of them runs
            stage_request(stage, {each.role: FILE for each in stage.inputs}, original.name, folder)
        suffix = "parquet" if Path(path).suffix == ".parquet" else "h5"
        made: str | None = None
        for stage in stages[first:]:
            target = Path(folder) / f"{stage.number}.{suffix}"
            place = getattr(original.value, "place", None)
            shard = None if place is None else str(place)
            rerun_stage(
                stage, _files_by_role(stage, files_by_digest, made, original.name), Path(folder), target, shard, original.name, bounds
            )
            session.console.detail(f"{stage} of {original.name} was made again")
            made = str(target)
        again = artifacts.load(str(made), max_memory=session.max_memory)
    return _comparison_text(original, again)


def _comparison_text(original: Artifact, rerun: Artifact) -> str:
    if rerun.sha256 == original.sha256:
        return f"{original.name}: reproduced: same bytes"
    if rerun.kind != original.kind:
        raise NegativeResult(f"differs: made again it is of kind {rerun.kind}, not {original.kind}", where=original.name)
    largest, place = artifact_comparison.largest_difference(rerun.value, original.value)
    allowed = artifact_comparison.comparison_tolerance(original.kind)
    if largest > allowed:
        said = "in type, shape or text" if largest == float("inf") else f"by {largest:.1e}, more than {allowed:.0e}"
        raise NegativeResult(f"differs: {place} {said}", where=original.name, hint="herd info shows the history that was followed")
    if largest == 0.0:
        return f"{original.name}: reproduced: same values, other bytes"
    return f"{original.name}: reproduced within {largest:.1e} ({place}), {allowed:.0e} allowed"


def _first_stage_to_rerun(stages: list[Stage], files_by_digest: Mapping[str, str], where: str) -> int:
    """Return the index of the last stage whose inputs are all available; later stages follow.  Raises NoInput for a missing input."""
    missing = [[each for each in stage.inputs if each.sha256 not in files_by_digest] for stage in stages]
    first = next((index for index in reversed(range(len(stages))) if not missing[index]), 0)
    # In each later stage, one missing input may be the output of the stage before.
    wanted = [(stages[first], each) for each in missing[first]]
    for stage, absent in zip(stages[first + 1 :], missing[first + 1 :], strict=True):
        wanted += [(stage, each) for each in absent[1:]]
    if wanted:
        stage, each = wanted[0]
        more = f", and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        raise NoInput(f"{each} of {stage} is not among the files given{more}", where=where, hint=MISSING_INPUT)
    return first


def _files_by_role(stage: Stage, files_by_digest: Mapping[str, str], earlier_output: str | None, where: str) -> dict[str, str]:
    """Return the file of each role."""
    found = {each.role: files_by_digest[each.sha256] for each in stage.inputs if each.sha256 in files_by_digest}
    for each in stage.inputs:
        if each.role not in found:
            if earlier_output is None:
                raise NoInput(f"{each} of {stage} is not among the files given", where=where, hint=MISSING_INPUT)
            found[each.role] = earlier_output
    return found
