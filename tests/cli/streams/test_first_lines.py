"""The first label of text: a byte order mark is no part of it, and costs of actions are no class names."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdcli.artifacts import load

MARK = b"\xef\xbb\xbf"
PLAIN = ("--algorithm", "arow", "--C", "1", "--half-life", "0")


@pytest.mark.parametrize(
    ("name", "text", "classes"),
    [
        ("a.vw", b"1 | a b:2\n-1 | c d\n1 | a c\n-1 | d\n", ["-1", "1"]),
        ("a.vw", b"spam | a b:2\nham | c d\nspam | a c\nham | d\n", ["ham", "spam"]),
        ("a.svm", b"1 1:1 2:2\n-1 3:1 4:1\n1 1:1 3:1\n-1 4:1\n", ["-1", "1"]),
        ("a.vw", b"1 | a b:2\n-1 | c d", ["-1", "1"]),  # no line end at the end
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_label(herd, tmp_path: Path, name: str, text: bytes, classes: list[str]) -> None:
    models = []
    for mark in (b"", MARK):
        (tmp_path / name).write_bytes(mark + text)
        assert herd("nherd-train", "-q", name, *PLAIN, "-o", "m.h5").code == 0
        models.append(load(str(tmp_path / "m.h5")).value)
        assert list(models[-1].classes) == classes
    assert models[0].mean.tobytes() == models[1].mean.tobytes()


def test_costs_of_actions_are_no_class_names(herd, tmp_path: Path) -> None:
    (tmp_path / "a.vw").write_text("1:0:.5 | a\n2:1:.25 | b\n")
    done = herd("nherd-train", "a.vw", *PLAIN, "-o", "m.h5")
    assert done.code == 65
    assert "label 1:0:.5 has a cost, as in contextual bandits, but herd learns only classes" in done.err
    declared = herd("nherd-train", "-q", "a.vw", *PLAIN, "--classes", "1:0:.5,2:1:.25", "-o", "m.h5")
    assert declared.code == 0
