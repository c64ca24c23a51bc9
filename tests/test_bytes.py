"""The table of docs/reliability.md says what `scripts/checks/determinism.py` finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks import determinism

from herdcli.cli.main import COMMANDS

NEVER = ("threads", "NumPy loops", "locale", "hash seed")  # of them no byte may depend
QUICK = ("nherd-train",)
UNMIXED = {"cv", "data", "info", "check", "seal", "selftest", "completion"}  # commands that reckon nothing that is kept


def test_the_table_has_every_command_and_every_setting_that_no_byte_depends_on() -> None:
    table = determinism.read()
    assert set(COMMANDS) - {line.split()[0] for line in determinism.COMMANDS.values()} == UNMIXED
    assert list(table) == list(determinism.COMMANDS)
    for command, row in table.items():
        assert {row[column] for column in NEVER} <= {"=", "·"}, command


@pytest.mark.parametrize("command", QUICK)
def test_threads_locale_and_hash_seed_change_no_byte(command: str) -> None:
    """NumPy loops, with which the race for C takes most of a minute: tests/cli/frame/test_kernels.py has them for every command."""
    found = determinism.matrix([command], [column for column in NEVER if column != "NumPy loops"])
    assert set(found[command].values()) <= {"=", "·"}


@pytest.mark.slow
@pytest.mark.parametrize("command", determinism.COMMANDS)
def test_settings_that_no_byte_depends_on(command: str) -> None:
    found = determinism.matrix([command], NEVER)
    assert set(found[command].values()) <= {"=", "·"}


def test_the_table_says_that_exact_commands_depend_on_no_processor() -> None:
    table = determinism.read()
    exact = {command: row for command, row in table.items() if "--exact" in determinism.COMMANDS[command]}
    assert {command.split(" --exact")[0] for command in exact} == {"fit-rbm", "eval", "apply", "kernel-herd"}
    for command, row in exact.items():
        assert set(row) == set(determinism.SETTINGS)
        assert {cell for column, cell in row.items() if column != "lowest versions"} <= {"=", "·"}, command


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=() if name == "fit-rbm --exact" else pytest.mark.slow)
        for name, line in determinism.COMMANDS.items()
        if "--exact" in line
    ],
)
def test_settings_that_no_byte_of_an_exact_command_depends_on(command: str) -> None:
    columns = ("SSE2 everywhere",) if command == "fit-rbm --exact" else (name for name in determinism.SETTINGS if name != "lowest versions")
    found = determinism.matrix([command], columns)
    assert set(found[command].values()) <= {"=", "·"}


def test_cells_join_a_table_that_is_there() -> None:
    known = {"herd": {"threads": "=", "locale": "≠"}, "convert": {"threads": "·", "locale": "="}}
    found = determinism.joined(known, {"herd": {"locale": "="}, "em": {"threads": "="}})
    assert found == {
        "convert": {"threads": "·", "locale": "="},
        "herd": {"threads": "=", "locale": "="},
        "em": {"threads": "=", "locale": "?"},
    }


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
