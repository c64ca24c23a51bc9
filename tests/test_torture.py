"""The lists of scripts/torture are complete: every kind of artifact and page it has, every command, algorithms with checkpoints."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from herdcli.cli.main import COMMANDS
from herdcli.kinds import KINDS

OPTIONS = ("algorithm", "model", "rule", "family")  # what a command runs, among several


@pytest.fixture(scope="module")
def corpus():
    return import_module("torture.corpus")


def options(command: str) -> dict[str, object]:
    return {str(param.name): param for param in import_module(COMMANDS[command][0]).command.params}


def words(lines) -> list[list[str]]:
    return [line.split() for line in lines]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_file_of_every_kind_is_read_by_every_command_that_can(corpus, kind):
    name = corpus.OF_KIND[kind.name]
    assert name in corpus.MADE
    read = words(line for lines in corpus.READ.values() for line in lines)
    own = words(line for file in (name, corpus.SECOND.get(kind.name)) for line in corpus.READ.get(file, ()))
    for page, command in (("apply", "apply"), ("sample", "sample"), ("finish", "merge")):
        assert not getattr(kind, page) or any(line[:2] == [command, "EVIL"] for line in own), f"no line '{command} EVIL' for {name}"
    for option in kind.judged_by[:1]:
        asked = [line for line in read if line[0] == "eval" and f"--{option}" in line and (line[1] == "EVIL" or line[1] == name)]
        assert asked, f"no line 'eval EVIL --{option}' for {name}"


def test_every_command_reads_or_makes_something_tortured(corpus):
    lines = [*corpus.MADE.values(), *corpus.LONG.values(), *corpus.EVERYWHERE, *(line for lines in corpus.READ.values() for line in lines)]
    asked = {line.split()[0] for line in lines}
    assert set(COMMANDS) - asked == {"cv", "data", "seal", "selftest", "completion"}  # cv runs fit commands and eval, which are asked


@pytest.mark.parametrize("command", [name for name in COMMANDS if "checkpoint" in options(name)])
def test_every_command_with_checkpoints_is_killed_with_each_of_its_algorithms(corpus, command):
    lines = [line for line in words(corpus.LONG.values()) if line[0] == command]
    assert lines
    option = next((name for name in OPTIONS if hasattr(getattr(options(command).get(name), "type", None), "choices")), None)
    if option is not None:
        spared = {choice for choice, more in corpus.VARIED[command][2].items() if more is corpus.AT_ONCE}
        asked = {line[line.index(f"--{option}") + 1] for line in lines if f"--{option}" in line}
        assert asked | spared == set(options(command)[option].type.choices)


def test_what_a_part_has_found_is_put_into_its_row_and_the_others_stay(corpus, tmp_path, monkeypatch):
    table = import_module("torture.table")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\n{table.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(table, "PAGE", page)
    table.write({"kills": table.row("kills", 3, Counter(stopped=11, ran=2, wrong=1), 4.4)})
    table.write({"mutants": table.row("mutants", 1200, Counter(refused=1000, ran=300, traceback=2, crashed=1), 60)})
    text = page.read_text(encoding="utf-8")
    assert "| mutants | changed files | 1 200 | 1 303 | 1 000 | 300 | 0 | 1 | 2 | 60 |\n| kills | signals | 11 | 14 |" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_a_record_goes_on_after_its_last_trial_and_tells_the_commits(corpus, tmp_path, monkeypatch):
    table = import_module("torture.table")
    path = tmp_path / "slices.jsonl"
    assert table.following(path, "structures", 0, 5) == 5
    for at, commit, verdicts in ((0, "aaa", Counter(ran=4, crashed=1)), (250, "bbb", Counter(refused=3)), (500, "bbb", Counter(ran=2))):
        monkeypatch.setattr(table, "commit", lambda commit=commit: commit)
        table.record(path, "structures", (0, at, 250), (250, verdicts, 1.5), ["structures 3 crashed"] * verdicts["crashed"])
    assert table.following(path, "structures", 0, 5) == 750
    assert table.following(path, "structures", 1, 5) == 5
    assert table.following(path, "histories", 0, 5) == 5
    assert table.recorded(path) == {"structures": (750, Counter(ran=6, refused=3, crashed=1), 4.5)}
    assert table.by_commit(path) == ["structures: 250 trials on aaa, 1 findings", "structures: 500 trials on bbb, 0 findings"]


def test_files_of_other_formats_are_those_of_their_number(corpus):
    import numpy as np

    foreign = import_module("torture.foreign")
    for suffix, (build, lines) in foreign.FORMATS.items():
        first, second = ([build(np.random.default_rng([0, number])) for number in range(12)] for _ in range(2))
        assert first == second, suffix
        assert len(set(first)) > 8, suffix
        assert all("EVIL" in line for line in lines)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A folder with one small sealed data set."""
    import h5py
    import numpy as np

    from herdcli import artifacts
    from herdcli.artifacts.dataset import Dataset

    folder = tmp_path_factory.mktemp("files")
    record = {"software": "herdcli", "version": "0", "command": "convert", "parameters": {"to": None}, "inputs": []}
    artifacts.save(str(folder / "rows.h5"), Dataset(X=np.arange(12.0).reshape(4, 3), y=np.arange(4)), [record])
    assert h5py.is_hdf5(folder / "rows.h5")
    return folder


def test_every_change_of_a_structure_can_be_made(corpus, sealed, tmp_path):
    import shutil

    import h5py
    import numpy as np

    surgery, watching = import_module("torture.surgery"), import_module("torture.watching")
    watching.victims(tmp_path / surgery.VICTIMS)
    for change in {*surgery.OF_DATASETS, *surgery.OF_GROUPS, surgery.attribute}:
        done = []
        for attempt in range(40):
            path = Path(shutil.copyfile(sealed / "rows.h5", tmp_path / "evil.h5"))
            try:
                with h5py.File(path, "r+") as file:
                    place = "X@kind" if change is surgery.attribute else "X"
                    file["X"].attrs["kind"] = "rows"
                    done.append(change(file, place, np.random.default_rng(attempt)))
            except (ValueError, TypeError, OSError, RuntimeError, KeyError, OverflowError, UnicodeEncodeError):
                continue
        assert done, change.__name__


def test_what_a_command_must_leave_alone_is_watched(corpus, tmp_path):
    watching = import_module("torture.watching")
    watching.victims(tmp_path / "victims")
    watch = watching.Watch()
    watch.add(tmp_path / "victims", watching.OPEN | watching.MODIFY)
    assert watch.events() == []
    (tmp_path / "victims" / "raw.bin").read_bytes()
    (tmp_path / "victims" / "text.txt").write_text("x")
    found = watch.events()
    assert "victims/raw.bin opened" in found
    assert "victims/text.txt written" in found
    assert watch.events() == []
    (tmp_path / "out.h5").touch()
    (tmp_path / "left").touch()
    assert watching.strays(tmp_path) == ["left"]
    assert watching.controls(b"a\tb\nc") is None
    assert "x1b" in watching.controls(b"a\x1b[31m")
    before = watching.reset_peak()
    bytearray(b"x") * (200 << 20)
    assert watching.peak() - before > 150 << 20


def test_changed_histories_are_those_of_their_number(corpus, sealed):
    import numpy as np

    histories = import_module("torture.histories")
    trials = histories.Histories(sealed, seed=0)
    first, second = (
        [trials._written(next(iter(trials.histories.values())), np.random.default_rng([0, n]), 2) for n in range(50)] for _ in range(2)
    )
    assert first == second
    assert len({text for text, _ in first}) > 40
