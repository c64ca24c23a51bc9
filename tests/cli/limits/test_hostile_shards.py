"""Shards that anybody could have edited and sealed again: what is wrong with them is found by checks, and a fault of herd's stays one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts.sealed import seal_header

LINES = {
    "counts": "fit-mrf rows.csv --smoothing 1 --label label",
    "classifiers": "nherd-train rows.csv --label label --parts 2 --shuffle --split 2,1,1",
    "blocks": "kernel-herd rows.csv -m 3 --block-rows 8 --block-atoms 4",
    "sketches": "kernel-herd rows.csv -m 3 --block-rows 8 --embedding nystrom:4",
    "machines": "fit-rbm rows.csv --label label --hidden 3 --epochs 1 --per-class",
}


@pytest.fixture
def halves(run: Callable, tmp_path: Path) -> Callable[[str], None]:
    """halves(NAME) makes 1.h5 and 2.h5, the shards of a run."""
    rows = np.random.default_rng(0).integers(0, 2, (40, 4))
    lines = [",".join(map(str, row)) + f",{i % 2}" for i, row in enumerate(rows)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")

    def make(name: str) -> None:
        for index in (1, 2):
            assert run(*LINES[name].split(), "--shard", f"{index}/2", "-q", "-o", f"{index}.h5").code == 0

    return make


def change(path: str, edit: Callable[[h5py.File], None]) -> None:
    """Edit an artifact and seal it again."""
    with h5py.File(path, "r+") as file:
        edit(file)
        kind = str(file.attrs["kind"])
    seal_header.write_seal(path, kind)


def put(name: str, value: object) -> Callable[[h5py.File], None]:
    """What puts a value in the place of an attribute or a dataset."""

    def edit(file: h5py.File) -> None:
        if name in file.attrs:
            file.attrs[name] = value
            return
        held = file[name][()]
        del file[name]
        file[name] = value(held) if callable(value) else value

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "says"),
    [
        ("counts", put("scopes", "nan"), "1.h5: the attribute 'scopes' is not a list of sets of variable indices"),
        ("counts", put("regions", "[[0, 9]]"), "1.h5: the attribute 'regions' is not a list of sets of variable indices"),
        ("counts", put("cut", float("-inf")), "1.h5: is damaged: the threshold is -inf, but must be finite"),
        ("classifiers", put("rest/y", lambda y: np.where(np.arange(len(y)) == 1, 2**31, y)), "1.h5: rest/y must hold 0 … 1, classes"),
        ("blocks", put("parts/0/x", lambda x: x[:, :-1]), "1.h5: is damaged: its atoms have 4 columns, but the shard has 5"),
        (
            "sketches",
            put("parts/0/sums", lambda sums: sums[:0]),
            "1.h5: is damaged: a sketch has -1 landmarks of 5 columns, but the shard has 4 landmarks of 5 columns",
        ),
        (
            "machines",
            put("parts/0/trace", lambda trace: np.append(trace, 1.0)),
            "1.h5: has parts that do not fit together (the arrays of its parts differ along E)",
        ),
        ("blocks", put("rows", 41), "2.h5: cannot be merged with 1.h5: they differ in 'rows'"),
    ],
)
def test_what_no_run_writes_is_named(run: Callable, halves: Callable, name: str, edit: Callable, says: str) -> None:
    halves(name)
    change("1.h5", edit)
    ended = run("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert (ended.code, ended.err.splitlines()[-2 if "hint: " in ended.err else -1]) == (65, f"herd merge: {says}")
    assert not Path("out.h5").exists()


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("hidden", -1, "the run of fit-rbm has 'hidden' as -1 in its history: it is not of the form n|auto"),
        ("algorithm", ["cd"], "the run of fit-rbm has 'algorithm' as [\"cd\"] in its history: "),
        ("report", "victim.html", "the run of fit-rbm was made with 'report', which this version does not know"),
        ("learning_rate", "$(touch x)", "the run of fit-rbm has 'learning_rate' as \"$(touch x)\" in its history: "),
    ],
)
def test_the_options_of_a_run_are_those_of_its_command_line(run: Callable, halves: Callable, option: str, value: object, says: str) -> None:
    halves("machines")
    for name in ("1.h5", "2.h5"):

        def edit(file: h5py.File) -> None:
            history = json.loads(file.attrs["provenance"])
            history[-1]["parameters"][option] = value
            file.attrs["provenance"] = json.dumps(history)

        change(name, edit)
    ended = run("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert ended.code == 65
    assert ended.err.startswith(f"herd merge: 1.h5: {says}")


def test_a_run_of_another_command_makes_no_such_shards(run: Callable, halves: Callable) -> None:
    halves("machines")
    for name in ("1.h5", "2.h5"):

        def edit(file: h5py.File) -> None:
            history = json.loads(file.attrs["provenance"])
            history[-1] |= {"command": "check", "parameters": {"seal_only": False, "rerun": False}}
            file.attrs["provenance"] = json.dumps(history)

        change(name, edit)
    ended = run("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert (ended.code, ended.err) == (
        65,
        "herd merge: 1.h5: is of kind rbm-shard, but its history says that it comes from herd check, which makes no such shards\n",
    )


def test_a_fault_of_herd_in_merge_is_told_as_one(run: Callable, halves: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    halves("machines")

    def broken(*given: object) -> None:
        raise TypeError("a fault of herd's")

    monkeypatch.setattr("herdcli.cli.fit_rbm.model_runs.save_all_units", broken)
    with pytest.raises(TypeError, match="a fault of herd's"):  # the fixture no_bug_is_a_refusal raises what would end in exit code 70
        run("merge", "1.h5", "2.h5", "-o", "out.h5")


@pytest.mark.parametrize(("rows", "mass"), [(-1, 20.0), (20, -1.0), (20, float("inf")), (20, float("nan"))])
def test_counts_of_no_possible_rows_are_refused(halves: Callable, run: Callable, rows: int, mass: float) -> None:
    halves("counts")
    change("1.h5", lambda file: file["parts/0"].attrs.update(rows=rows, mass=mass))
    ended = run("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert (ended.code, ended.err) == (
        65,
        f"herd merge: 1.h5: is damaged: the number of counted rows is {rows} and their weight {mass:g}\n",
    )


def test_numbers_that_sums_cannot_hold_are_refused(halves: Callable, run: Callable) -> None:
    halves("counts")
    change("1.h5", lambda file: file["parts/0"].attrs.update(rows=np.uint64(2**64 - 1)))
    ended = run("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert ended.code == 65
    assert ended.err == "herd merge: 1.h5: /parts/0/rows has 18446744073709551615, but at most 2^53 is allowed\n"
