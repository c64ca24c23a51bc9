"""The table of docs/reliability.md says what `scripts/determinism.py` finds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import determinism  # noqa: E402

NEVER = ("threads", "NumPy loops", "locale", "hash seed")  # of them no byte may depend
QUICK = ("nherd-train",)


def test_the_table_has_every_command_and_every_setting_that_no_byte_depends_on() -> None:
    table = determinism.read()
    assert list(table) == list(determinism.COMMANDS)
    for command, row in table.items():
        assert {row[column] for column in NEVER} <= {"=", "·"}, command


@pytest.mark.parametrize(
    "command", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in determinism.COMMANDS if name not in QUICK)]
)
def test_settings_that_no_byte_depends_on(command: str) -> None:
    found = determinism.matrix([command], NEVER)
    assert set(found[command].values()) <= {"=", "·"}


@pytest.mark.slow
def test_the_whole_table() -> None:
    """What stands in the page is found again, where this machine can run it; of rounding the order of its size."""
    table = determinism.read()
    for command, row in determinism.matrix(list(determinism.COMMANDS), determinism.SETTINGS).items():
        for column, found in row.items():
            said = table[command].get(column, found)
            assert (found == "=") <= (said in ("=", found) or "e" in said), (command, column)
            assert found in ("=", "·", said) or "e" in said, (command, column, found, said)


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [(b"a,1.0\n", b"a,1.0\n", "="), (b"a,1.0\n", b"a,1.5\n", "3e-01"), (b"a,1.0\n", b"b,1.0\n", "≠")],
)
def test_cells_of_texts(tmp_path: Path, ours: bytes, theirs: bytes, says: str) -> None:
    assert determinism.cell(ours, theirs, tmp_path) == says
