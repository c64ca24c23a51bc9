"""No output replaces an input or another output: every path of a run is registered and compared before any work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import click
import pytest

from herdcli.cli.frame.history.request import OUTPUT, USE, can_name_file
from herdcli.cli.frame.run.file_registry import OF_EVERY_RUN, NamedFile, refuse_conflicts
from herdcli.cli.main import COMMANDS
from herdcli.errors import BadUsage

# options and arguments of free text that name no file
TEXTS = {
    *("by", "classes", "interactions", "keep", "kernel", "label", "layer", "likelihood", "offset", "observe", "only", "positive"),
    *("probe_sets", "cmap", "title", "requirements", "row_weight", "sequence", "shard", "split", "topics", "C", "regress target"),
    *("cv fitted", "cv words", "options_file"),
    *(
        "em weights",
        "regress weights",
        "encoding",
        "exposure",
        "failures",
        "half_life",
        "split_column",
        "text",
        "trials",
        "weights_column",
        "explain",
    ),
}
WORDS = {  # what a command needs besides its files
    "regress": ["--target", "a"],
    "network": ["convert"],
    "fit-mrf": ["--structure", "l1"],
    "kernel-herd": ["-m", "2"],
    "sample": ["-m", "2"],
}
FORMS = {"target": "mixture:{}", "scores": "./{}"}  # how a file is named where other texts are possible


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, (module, _) in COMMANDS.items():
        yield name, import_module(module).command


def uses(command: click.Command) -> dict[str, str]:
    """Parameters that name files, by what is done with these."""
    kind = vars(command.callback)["request"]
    found = {
        each.name: "out" if each.metadata.get(USE) == OUTPUT else "in"
        for each in fields(kind)
        if can_name_file(each) or USE in each.metadata
    }
    return found | {param.name: "out" for param in command.params if param.name in OF_EVERY_RUN}


def test_every_text_is_a_file_or_is_known_to_be_none() -> None:
    for name, command in commands():
        if "request" not in vars(command.callback):
            continue
        registered = uses(command)
        for param in command.params:
            types = param.type.types if isinstance(param.type, click.Tuple) else [param.type]
            if any(isinstance(each, (click.types.StringParamType, click.Path, click.File)) for each in types):
                known = registered.keys() | TEXTS
                assert param.name in known or f"{name} {param.name}" in known, f"herd {name}: is {param.opts[0]} a file?"


def typed(param: click.Parameter, path: str) -> list[str]:
    text = FORMS.get(param.name, "{}").format(path)
    if isinstance(param, click.Argument):
        return [text]
    return [max(param.opts, key=len), *(["trace"] if param.name == "plots" else []), text]


# an output that may be the input, and two options that exclude each other
ALLOWED = {("nherd-train", "output", "model"), ("fit-rbm", "plots", "below")}


def pairs() -> Iterator[tuple[str, str, str]]:
    """A command with each of its outputs, together with each of its inputs."""
    for name, command in commands():
        if name in ("cv", "check", "seal", "info", "selftest", "completion", "data"):
            continue
        found = uses(command)
        for out in (param for param, use in found.items() if use == "out"):
            yield from ((name, out, other) for other in found if other != out and (name, out, other) not in ALLOWED)


@pytest.mark.parametrize(("name", "out", "other"), list(pairs()))
def test_no_file_is_named_twice(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, out: str, other: str) -> None:
    monkeypatch.chdir(tmp_path)
    command = import_module(COMMANDS[name][0]).command
    params = {param.name: param for param in command.params}
    Path("in.csv").write_text("a,b\n1,0\n0,1\n1,1\n")
    os.symlink("in.csv", "link.svg")
    words, positional = [], list(WORDS.get(name, []))
    for param in command.params:
        if isinstance(param, click.Argument) and param.required and param.name not in (out, other, "structure"):
            Path(f"{param.name}.h5").write_text("another")
            positional += typed(param, f"{param.name}.h5")
    ways = [typed(params[out], "link.svg"), typed(params[other], "in.csv")]
    for param, way in zip((params[out], params[other]), ways, strict=True):
        if isinstance(param, click.Argument):
            positional += way
        else:
            words += way
    if name == "apply" and other == "model":
        positional.reverse()
    ended = run(name, *positional, *words)
    assert ended.code == 2, ended.err
    assert re.search(r"would overwrite the input (\./)?in.csv\n", ended.err) or " is named by both " in ended.err, ended.err
    assert Path("in.csv").read_text() == "a,b\n1,0\n0,1\n1,1\n"


def test_a_model_may_be_updated_in_place(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.svm").write_text("1 1:1\n-1 1:-1\n" * 5)
    assert run("nherd-train", "rows.svm", "-q", "-o", "model.h5").code == 0
    before = Path("model.h5").read_bytes()
    assert run("nherd-train", "--continue", "model.h5", "rows.svm", "-q", "-o", "model.h5").code == 0
    assert Path("model.h5").read_bytes() != before
    ended = run("nherd-train", "--continue", "model.h5", "rows.svm", "-q", "--trace", "model.h5")
    says = "herd nherd-train: model.h5: --trace would overwrite this input\nhint: name another file: --trace FILE\n"
    assert (ended.code, ended.err) == (2, says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("herd convert - -o in.csv < in.csv", "in.csv: -o would overwrite the input stdin"),
        ("herd convert /dev/stdin -o in.csv < in.csv", "in.csv: -o would overwrite the input /dev/stdin"),
        ("herd convert in.csv >> in.csv", "stdout: -o would overwrite the input in.csv"),
        ("herd eval -o in.csv < in.csv", "in.csv: -o would overwrite the input stdin"),
        ("herd convert '*.csv' -o in.csv", "in.csv: -o would overwrite the input *.csv"),
        ("herd convert . -o ./in.csv", "./in.csv: -o would overwrite the input ."),
        ("ln in.csv hard.csv; herd convert hard.csv -o in.csv", "in.csv: -o would overwrite the input hard.csv"),
        ("cp in.csv .out.h5.herd-tmp; herd convert .out.h5.herd-tmp -o out.h5", "out.h5: -o would overwrite the input .out.h5.herd-tmp"),
        ("herd herd in.csv -o ./new.h5 --trace new.h5", "./new.h5: this file is named by both -o and --trace"),
        ("ln -s new.h5 link; herd herd in.csv -o link --trace new.h5", "link: this file is named by both -o and --trace"),
        ("cp in.csv p-trace.svg; herd eval p-trace.svg --plot all p.svg", "p-trace.svg: --plot would overwrite this input"),
        ("herd eval in.csv --plot trace p.svg --plot filters p.svg", "p.svg: this file is named twice by --plot"),
        ("herd herd in.csv --iterations 2 --lock in.csv -o out.h5", "in.csv: --lock would overwrite this input"),
        ("herd cv --lock in.csv regress in.csv --target a", "in.csv: --lock would overwrite this input"),
        ("herd herd in.csv -o out.h5 --trace .out.h5.herd-tmp", "out.h5: this file is named by both -o and --trace"),
        (
            "herd kernel-herd in.csv -m 2 --thinning-report - | cat; exit ${PIPESTATUS[0]}",
            "stdout: this file is named by both -o and --thinning-report",
        ),
        ("herd fit-mrf in.csv --structure l1 --path - | cat; exit ${PIPESTATUS[0]}", "stdout: this file is named by both -o and --path"),
        (
            "cp in.csv t10k-labels-idx1-ubyte; herd convert t10k-images-idx3-ubyte -o t10k-labels-idx1-ubyte",
            "t10k-labels-idx1-ubyte: -o would overwrite",
        ),
    ],
)
def test_files_are_told_apart_by_what_they_are(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,0\n0,1\n1,1\n")
    function = f'herd() {{ {sys.executable} -m herdcli.cli.main "$@"; }}'
    ended = subprocess.run(
        ["bash", "-c", f"{function}\n{line}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 2, ended.stderr
    assert says in ended.stderr
    assert (tmp_path / "in.csv").read_text() == "a,b\n1,0\n0,1\n1,1\n"


@pytest.mark.parametrize("label", ["--trace", "--lock", "--checkpoint", "--options"])
def test_stdout_and_stdin_do_not_take_the_place_of_a_file(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("a,b\n1,0\n0,1\n1,1\n")
    ended = run("herd", "in.csv", "-o", "out.h5", label, "-")
    file = "FILE.toml" if label == "--options" else "FILE"
    says = f"herd herd: {label} needs the name of a file\nhint: {label} {file}; ./- is a file that is called -\n"
    assert (ended.code, ended.err) == (2, says)
    assert os.listdir() == ["in.csv"]


def test_stdin_is_not_sealed(run: Callable) -> None:
    ended = run("seal", "-")
    says = (
        "herd seal: stdin cannot be sealed, because the checksum is written into the file\nhint: name a file: herd seal FILE; ./- "
        "is a file that is called -\n"
    )
    assert (ended.code, ended.err) == (2, says)


def test_a_lock_is_a_file_with_a_name_of_its_own(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("a,b\n1,0\n0,1\n1,1\n")
    os.symlink("elsewhere", "link")
    empty, linked = (run("herd", "in.csv", "-o", "out.h5", "--lock", name) for name in ("", "link"))
    assert (empty.code, empty.err) == (2, "herd herd: --lock needs the name of a file\nhint: --lock FILE\n")
    assert (linked.code, linked.err) == (73, "herd herd: link: is a symbolic link\n")


def test_streams_may_be_shared() -> None:
    refuse_conflicts(
        [NamedFile("-o", "/dev/null", OUTPUT), NamedFile("--trace", "/dev/null", OUTPUT), NamedFile("INPUT", "/dev/null", "input")]
    )


def test_a_pipe_takes_one_output(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadUsage, match="is named by both -o and --report"):
        refuse_conflicts([NamedFile("-o", str(tmp_path / "pipe"), OUTPUT), NamedFile("--report", str(tmp_path / "pipe"), OUTPUT)])


@pytest.mark.parametrize(
    ("words", "code", "where"),
    [
        ("in.csv", 66, "in.csv"),
        ("ABSOLUTE/in.csv -o out.csv", 73, "out.csv"),
        ("ABSOLUTE/in.csv -o ABSOLUTE/out.csv", 0, ""),
    ],
)
def test_relative_paths_need_a_working_directory(tmp_path: Path, words: str, code: int, where: str) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,0\n0,1\n1,1\n")
    (tmp_path / "gone").mkdir()
    line = 'rmdir "$PWD"; exec "$@"'
    typed = words.replace("ABSOLUTE", str(tmp_path)).split()
    herd = ["bash", "-c", line, "bash", sys.executable, "-P", "-m", "herdcli", "convert", *typed, "-q"]
    ended = subprocess.run(herd, cwd=tmp_path / "gone", capture_output=True, text=True, stdin=subprocess.DEVNULL)
    hint = "hint: go to another directory with cd, or give absolute paths\n"
    assert ended.returncode == code
    assert ended.stderr == ("" if not code else f"herd convert: {where}: the working directory does not exist any more\n{hint}")
