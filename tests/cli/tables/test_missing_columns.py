"""A column that the data lack: the hint names the nearest one, or else the first columns, for every option that names columns."""

from __future__ import annotations

import pytest

from herdcli.errors import missing_column_error

ROWS = "price,size,rooms,kind\n" + "".join(f"{i + 0.5},{i % 3},{i % 5 + 0.1},{'ab'[i % 2]}\n" for i in range(40))


@pytest.mark.parametrize(
    ("line", "option", "name", "close"),
    [
        ("regress --target", "--target", "prise", "price"),
        ("regress --target price --offset", "--offset", "sizes", "size"),
        ("em --columns", "--columns", "prices", "price"),
        ("em --drop", "--drop", "room", "rooms"),
    ],
)
def test_the_nearest_name_is_proposed(herd, tmp_path, line, option, name, close):
    (tmp_path / "t.csv").write_text(ROWS)
    ended = herd(line.split()[0], "t.csv", *line.split()[1:], name, "-o", "m.h5")
    assert ended.code == 2
    assert ended.err.splitlines()[-2:] == [
        f"herd {line.split()[0]}: t.csv: {option} {name}: there is no such column",
        f"hint: did you mean {option} {close}?",
    ]


@pytest.mark.parametrize(("line", "name"), [("nherd-train --label", "kinds"), ("kernel-herd -m 3 --by", "kimd")])
def test_the_nearest_name_of_a_column_of_labels(herd, tmp_path, line, name):
    (tmp_path / "t.csv").write_text(ROWS)
    ended = herd(line.split()[0], "t.csv", *line.split()[1:], name, "-o", "m.h5")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "hint: did you mean kind?")


def test_without_a_near_name_the_first_columns_are_listed():
    assert missing_column_error("--by", "colour", ["a", "b"]).hint == "columns: a, b"
    assert missing_column_error("--by", "colour", []).hint == "columns: none named"
    assert (
        missing_column_error("--by", "colour", [f"x{j}" for j in range(20)]).hint == f"columns: {', '.join(f'x{j}' for j in range(12))} …"
    )
