"""The provenance of an artifact: one record per command, without anything that varies between runs.

It contains no time, host or path, so equal inputs and parameters give equal bytes.  The digest of
a record protects checkpoints: only the same command with the same parameters and inputs can resume them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from herdcli import __version__
from herdcli.records import HistoryRecord

NO_EFFECT_ON_RESULT = frozenset(
    {"input", "output", "format", "input_format", "clobber", "no_clobber", "safe_csv", "quiet", "verbose", "debug", "dry_run"}
    | {"threads", "checkpoint", "every", "resume", "shard", "lock", "max_memory", "plots"}
)


class InputRecord(Protocol):
    """The properties of an input artifact that are recorded."""

    @property
    def kind(self) -> str: ...

    @property
    def sha256(self) -> str: ...


def make_history_record(command: str, parameters: Mapping[str, object], inputs: Mapping[str, InputRecord]) -> HistoryRecord:
    """Return one record: software, command, the parameters that can change its result, and inputs by role."""
    kept = {name: _json_value(value) for name, value in sorted(parameters.items()) if name not in NO_EFFECT_ON_RESULT}
    return {
        "software": "herdcli",
        "version": __version__,
        "command": command,
        "parameters": kept,
        "inputs": [{"role": role, "kind": item.kind, "sha256": item.sha256} for role, item in inputs.items()],
    }


def last_record_of_command(history: Sequence[HistoryRecord], command: str) -> HistoryRecord | None:
    """Return the last record of a command in a history, or None without one that has parameters and inputs."""
    stage: HistoryRecord
    for stage in reversed(history):
        whole = isinstance(stage.get("parameters"), dict) and isinstance(stage.get("inputs"), list)
        if whole and stage.get("command") == command:
            return stage
    return None


def recorded_text_option(history: Sequence[HistoryRecord], command: str, name: str) -> str | None:
    """Return the value of a text option in the last record of a command, or None if it is no text."""
    stage = last_record_of_command(history, command)
    value = None if stage is None else stage["parameters"].get(name)
    return value if isinstance(value, str) else None


def record_digest(stage: HistoryRecord) -> str:
    """Return the SHA-256 of a record in canonical JSON, in hex: the configuration digest."""
    return hashlib.sha256(canonical_json(stage).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _json_value(value: Any) -> Any:
    """Convert a parameter to JSON types, including NumPy scalars and arrays, tuples and non-finite numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
