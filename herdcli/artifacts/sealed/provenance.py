"""Where an artifact comes from: one record per command, free of anything that varies between runs.

No time, host or path enters, so the same inputs and parameters give the same bytes.  The digest of
a record guards checkpoints: they are resumed by the command, parameters and inputs that began them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from herdcli import __version__

NO_EFFECT_ON_RESULT = frozenset(
    {"input", "output", "format", "input_format", "clobber", "no_clobber", "quiet", "verbose", "debug", "dry_run"}
    | {"threads", "checkpoint", "every", "resume", "shard", "lock", "max_memory", "plots"}
)


class InputRecord(Protocol):
    """What is recorded of an input artifact."""

    @property
    def kind(self) -> str: ...

    @property
    def sha256(self) -> str: ...


def stage_record(command: str, parameters: Mapping[str, object], inputs: Mapping[str, InputRecord]) -> dict[str, Any]:
    """One stage: software, command, the parameters that can change its result, inputs by role."""
    kept = {name: _json_value(value) for name, value in sorted(parameters.items()) if name not in NO_EFFECT_ON_RESULT}
    return {
        "software": "herdcli",
        "version": __version__,
        "command": command,
        "parameters": kept,
        "inputs": [{"role": role, "kind": item.kind, "sha256": item.sha256} for role, item in inputs.items()],
    }


def last_of(history: Sequence[Mapping[str, Any]], command: str) -> Mapping[str, Any] | None:
    """The last record of a command in a history, None where there is none that says what was asked and what went in."""
    stage: Mapping[str, Any]
    for stage in reversed(history):
        whole = isinstance(stage.get("parameters"), dict) and isinstance(stage.get("inputs"), list)
        if whole and stage.get("command") == command:
            return stage
    return None


def option_of(history: Sequence[Mapping[str, Any]], command: str, name: str) -> str | None:
    """What the last record of a command has for an option that takes a text; None for what is none, whoever wrote it there."""
    stage = last_of(history, command)
    value = None if stage is None else stage["parameters"].get(name)
    return value if isinstance(value, str) else None


def record_digest(stage: Mapping[str, Any]) -> str:
    """SHA-256 in hex of a record in canonical JSON: the configuration digest."""
    return hashlib.sha256(canonical_json(stage).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: the same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _json_value(value: Any) -> Any:
    """A parameter as JSON holds it: NumPy scalars and arrays, tuples and non-finite numbers included."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
