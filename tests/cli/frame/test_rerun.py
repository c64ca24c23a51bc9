"""herd check --rerun: an artifact is made again from its history, and compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.artifacts.sealed import artifact_comparison, seal_header
from herdcli.artifacts.sealed.file_digests import accepted_digests
from herdcli.cli.frame.history import command_lines, history_stages
from herdcli.cli.frame.run import file_registry
from herdcli.errors import DataError

MADE = {  # what makes out.h5 of the files that `folder` has, and the inputs to name
    "fit-rbm": ("fit-rbm bits.csv --hidden 3 --epochs 2 -o out.h5", "bits.csv"),
    "fit-rbm per class": ("fit-rbm bits.csv --label y --per-class --hidden 3 --epochs 1 -o out.h5", "bits.csv"),
    "fit-rbm layers": ("fit-rbm bits.csv --layers 4,2 --epochs 1 -o out.h5", "bits.csv"),
    "fit-rbm below": ("fit-rbm bits.csv --below rbm.h5 --hidden 2 --epochs 1 -o out.h5", "bits.csv rbm.h5"),
    "fit-rbm recurrent": ("fit-rbm bits.csv --recurrent --hidden 3 --epochs 2 --split .5,.25,.25 --links hidden -o out.h5", "bits.csv"),
    "fit-rbm recurrent by default": ("fit-rbm bits.csv --recurrent --epochs 2 -o out.h5", "bits.csv"),
    "fit-rbm pairs": ("fit-rbm --pairs bits.csv --label y --hidden 3 --epochs 2 --units binary -o out.h5", "bits.csv"),
    "sample recurrent": ("sample recurrent.h5 --count 2 --length 3 --burn-in 4 -o out.h5", "recurrent.h5"),
    "sample recurrent by default": ("sample recurrent.h5 --count 2 --length 3 -o out.h5", "recurrent.h5"),
    "fit-rbm continue": ("fit-rbm bits.csv --continue rbm.h5 --epochs 1 -o out.h5", "bits.csv rbm.h5"),
    "herd": ("herd bits.csv --hidden 3 --iterations 5 -o out.h5", "bits.csv"),
    "nherd-train rows": ("nherd-train bits.csv --label y -o out.h5", "bits.csv"),
    "nherd-train text": ("nherd-train text.svm -o out.h5", "text.svm"),
    "nherd-train text with a given C": ("nherd-train text.svm --C 1 --passes 2 --shuffle -o out.h5", "text.svm"),
    "nherd-train text that fades": ("nherd-train text.svm --half-life 30 -o out.h5", "text.svm"),
    "nherd-train text that does not fade": ("nherd-train text.svm --half-life none -o out.h5", "text.svm"),
    "nherd-train pairs": ("nherd-train spaces.vw --interactions ab -o out.h5", "spaces.vw"),
    "nherd-train continue": ("nherd-train text.svm --continue first.h5 -o out.h5", "text.svm first.h5"),
    "merge": ("merge first.h5 second.h5 -o out.h5", "first.h5 second.h5"),
    "merge calibrated": ("merge first.h5 second.h5 --calibration-data text.svm -o out.h5", "text.svm first.h5 second.h5"),
    "kernel-herd": ("kernel-herd real.csv -m 5 -o out.h5", "real.csv"),
    "kernel-herd target": ("kernel-herd --distribution gaussian:0,1 --candidates sobol:64 -m 5 -o out.h5", ""),
    "kernel-herd mixture": ("kernel-herd --distribution mixture:mixture.csv --candidates sobol:64 -m 5 -o out.h5", "mixture.csv"),
    "kernel-herd extend": ("kernel-herd real.csv --extend points.h5 -m 6 -o out.h5", "real.csv points.h5"),
    "kernel-herd steps": ("kernel-herd real.csv --rule step --step steps.csv -m 3 -o out.h5", "real.csv steps.csv"),
    "network tree": ("network tree --nodes 6 --seed 3 -o out.h5", ""),
    "network convert": ("network convert net.uai -o out.h5", "net.uai"),
    "ups-infer": ("ups-infer net.uai -o out.h5", "net.uai"),
    "ups-infer evidence": ("ups-infer net.uai --evidence seen.evid -o out.h5", "net.uai seen.evid"),
    "ups-infer rows of evidence": ("ups-infer net.uai --evidence-rows states.csv -o out.h5", "net.uai states.csv"),
    "fit-mrf": ("fit-mrf bits.csv --smoothing 1 -o out.h5", "bits.csv"),
    "ica": ("ica real.csv --iterations 5 -o out.h5", "real.csv"),
    "em": ("em real.csv --components 2 --iterations 3 -o out.h5", "real.csv"),
    "em hmm": ("em real.csv --model hmm --components 2 --iterations 2 -o out.h5", "real.csv"),
    "em kmeans": ("em real.csv --model kmeans --components 2 -o out.h5", "real.csv"),
    "regress": ("regress real.csv --target c -o out.h5", "real.csv"),
    "regress gaps": ("regress gaps.csv --target c --missing mean -o out.h5", "gaps.csv"),
    "apply": ("apply rbm.h5 bits.csv -o out.h5", "rbm.h5 bits.csv"),
    "fit-rbm continue with options": (
        "fit-rbm bits.csv --continue rbm.h5 --epochs 2 --learning-rate 0.01 --gibbs-steps 2 -o out.h5",
        "bits.csv rbm.h5",
    ),
    "sample given": ("sample rbm.h5 --given torn.csv --burn-in 5 -o out.h5", "rbm.h5 torn.csv"),
    "sample given often": ("sample rbm.h5 --given torn.csv --count 100 --burn-in 5 -o out.h5", "rbm.h5 torn.csv"),
    "sample": ("sample rbm.h5 --count 4 -o out.h5", "rbm.h5"),
    "sample given without chains": ("sample rbm.h5 --given torn.csv -o out.h5", "rbm.h5 torn.csv"),
    "sample by chains": ("sample rbm.h5 --count 4 --chains 2 -o out.h5", "rbm.h5"),
    "convert": ("convert real.csv --split 6,2,2 -o out.h5", "real.csv"),
    "convert to Parquet": ("convert real.csv -o out.parquet", "real.csv"),
    "convert from gzip": ("convert real.csv.gz -o out.h5", "real.csv.gz"),
    "fit-rbm with all rows in a batch": ("fit-rbm bits.csv --batch-size all --epochs 1 -o out.h5", "bits.csv"),
    "a shard": ("fit-rbm bits.csv --label y --per-class --hidden 3 --epochs 1 --shard 2/2 -o out.h5", "bits.csv"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small inputs of every kind."""
    import gzip

    from herdcli.cli.main import main

    made = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    bits, real = rng.integers(2, size=(40, 5)), rng.laplace(size=(60, 3)) @ rng.normal(size=(3, 3))
    (made / "bits.csv").write_text("a,b,c,d,y\n" + "".join(",".join(map(str, row)) + "\n" for row in bits))
    lines = [",".join(f"{value:.4g}" for value in row) + "\n" for row in real]
    (made / "real.csv").write_text("a,b,c\n" + "".join(lines))
    (made / "gaps.csv").write_text("a,b,c\n" + "".join(lines[1:]) + ",1,2\n")
    (made / "torn.csv").write_text("a,b,c,d\n1,,0,1\n,0,0,1\n")
    (made / "real.csv.gz").write_bytes(gzip.compress((made / "real.csv").read_bytes()))
    (made / "text.svm").write_text("".join(f"{2 * (row[0] > 0) - 1} 1:{row[0]:.3f} 2:{row[1]:.3f}\n" for row in real))
    (made / "net.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n")
    (made / "states.csv").write_text("x0,x1\n0,\n1,0\n")
    (made / "spaces.vw").write_text("1 |a x:1 y:2 |b z:1\n-1 |a x:2 |b z:3 w:1\n1 |a x:1 |b w:2\n")
    (made / "seen.evid").write_text("1 0 1\n")
    (made / "steps.csv").write_text("size\n0.5\n0.3\n0.2\n")
    (made / "mixture.csv").write_text("weight,mean,sd\n0.5,-1,1\n0.5,1,1\n")
    for line in (
        "fit-rbm bits.csv --label y --hidden 4 --epochs 1 -o rbm.h5",
        "fit-rbm bits.csv --recurrent --hidden 2 --epochs 1 -o recurrent.h5",
        "nherd-train text.svm -o first.h5",
        "nherd-train text.svm --algorithm arow -o second.h5",
        "kernel-herd real.csv -m 3 -o points.h5",
    ):
        words = [str(made / word) if word.endswith((".csv", ".svm", ".h5")) else word for word in line.split()]
        with pytest.raises(SystemExit) as ended:
            main([*words, "-q"])
        assert ended.value.code == 0, line
    return made


def with_inputs(names: str) -> list[str]:
    return [word for name in names.split() for word in ("--input", name)]


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this test's own with the inputs in it."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MADE)
def test_an_artifact_of_every_command_is_made_again(run: Callable, here: Path, name: str) -> None:
    line, inputs = MADE[name]
    made = run(*line.split(), "-q")
    assert made.code == 0, made.err
    out = line.split()[-1]
    before = {path.name for path in here.iterdir()}
    ended = run("check", "--rerun", out, *with_inputs(inputs))
    assert (ended.code, ended.out, ended.err) == (0, f"{out}: reproduced: same bytes\n", "")
    assert {path.name for path in here.iterdir()} == before
    wanted, told = artifacts.load(out).sha256, command_lines.command_lines(artifacts.load(out))
    names = {digest[:12]: path for path in here.iterdir() if path.name != out for digest in accepted_digests(str(path))}
    assert bool(told) != ("continue" in name and line.startswith("fit-rbm"))  # whose record takes options over from the model
    if not told:
        return
    for line in told:
        again = re.sub(r"\b[A-Z]+-([0-9a-f]{12})\b", lambda found: str(names[found[1]].name), line)
        assert run(*again.split()[1:], "-q").code == 0, line
    assert artifacts.load(out).sha256 == wanted, told


def test_stages_follow_from_the_first_input(run: Callable, here: Path) -> None:
    for line in ("fit-rbm bits.csv --hidden 3 --epochs 1 -o r.h5", "apply r.h5 bits.csv -o features.h5", "em features.h5 -o out.h5"):
        assert run(*line.split(), "-q").code == 0
    ended = run("check", "--rerun", "out.h5", "--input", "bits.csv")
    assert (ended.code, ended.out, ended.err) == (0, "out.h5: reproduced: same bytes\n", "")
    ended = run("check", "--rerun", "out.h5", "--input", "features.h5", "-v")  # the last stage alone
    assert ended.out == "out.h5: reproduced: same bytes\n"
    assert ended.err == "check: stage 3 (em) of out.h5 was made again\n"


def test_the_digits_need_not_be_named(run: Callable, tmp_path: Path) -> None:
    for line in ("data digits -o digits.h5", "convert digits.h5 --split 9,0,3 -o few.h5"):
        assert run(*line.split(), "-q").code == 0
    assert run("check", "--rerun", "few.h5").out == "few.h5: reproduced: same bytes\n"


@pytest.mark.parametrize(("name", "option"), [("fit-rbm pairs", "average"), ("ups-infer", "regions"), ("fit-rbm", "batch_size")])
def test_a_record_without_an_option_means_what_a_command_line_without_it_means(run: Callable, here: Path, name: str, option: str) -> None:
    """So do records of earlier versions, which did not have the option."""
    line, inputs = MADE[name]
    assert run(*line.split(), "-q").code == 0
    hostile("out.h5", lambda history: history[-1]["parameters"].pop(option))
    ended = run("check", "--rerun", "out.h5", *with_inputs(inputs))
    assert (ended.code, ended.out, ended.err) == (0, "out.h5: reproduced: same values, other bytes\n", "")


def test_what_is_missing_is_named_by_its_role_and_digest(run: Callable, here: Path) -> None:
    assert run("merge", "first.h5", "second.h5", "-q", "-o", "out.h5").code == 0
    one, two = (artifacts.load(name).sha256[:12] for name in ("first.h5", "second.h5"))
    ended = run("check", "--rerun", "out.h5", "--input", "second.h5")
    says = f"herd check: out.h5: input 'model 1' (classifier, sha256 {one}) of stage 1 (merge) is not among the files given\n"
    assert (ended.code, ended.out, ended.err) == (
        66,
        "",
        says + "hint: name it with --input FILE; a file that a later run has replaced cannot be used any more\n",
    )
    ended = run("check", "--rerun", "out.h5", "--input", "bits.csv")
    assert ended.code == 66
    assert "is not among the files given, and 1 more\n" in ended.err
    assert two not in ended.err


def changed(path: str, change: Callable[[h5py.File], None]) -> None:
    """An artifact edited and sealed again."""
    kind = artifacts.load(path).kind
    with h5py.File(path, "r+") as file:
        change(file)
    seal_header.write_seal(path, kind)


def records(file: h5py.File) -> list[dict]:
    return list(json.loads(file.attrs["provenance"]))


@pytest.mark.parametrize(
    ("change", "code", "out", "err"),
    [
        (lambda file: file["X"].write_direct(file["X"][:] * (1 + 1e-13)), 0, "out.h5: reproduced within 1.0e-13 (X), 1e-09 allowed\n", ""),
        (
            lambda file: file["X"].write_direct(file["X"][:] * 1.5),
            1,
            "",
            "herd check: out.h5: differs: X by 3.3e-01, more than 1e-09\nhint: herd info shows the history that was followed\n",
        ),
        (
            lambda file: file.attrs.__setitem__("provenance", "[]"),
            65,
            "",
            "herd check: out.h5: has no history of the commands that made it, so it cannot be made again\n"
            "hint: use a file that herd wrote as .h5 or .parquet: text files have no history\n",
        ),
        (
            lambda file: file.attrs.__setitem__("provenance", json.dumps([{**records(file)[0], "command": "unmake"}])),
            65,
            "",
            "herd check: out.h5: was made by the command 'unmake', which this version does not have\n",
        ),
        (
            lambda file: file.attrs.__setitem__("provenance", json.dumps([{**records(file)[0], "command": "completion"}])),
            65,
            "",
            "herd check: out.h5: was made by the command 'completion', which writes no artifact\n",
        ),
        (
            lambda file: file.attrs.__setitem__("provenance", json.dumps([{**records(file)[0], "parameters": {"to": None, "wings": 2}}])),
            65,
            "",
            "herd check: out.h5: stage 1 (convert) was made with 'wings', which this version does not know\n",
        ),
        (
            lambda file: file.attrs.__setitem__("provenance", json.dumps([{**records(file)[0], "version": "0.0.7"}])),
            0,
            "out.h5: reproduced: same values, other bytes\n",
            "check: warning: out.h5: was made by herd 0.0.7, but this is 0.1.0: results may differ\n",
        ),
    ],
    ids=["rounding", "other values", "no history", "no such command", "a command without artifacts", "no such option", "another version"],
)
def test_what_is_found(run: Callable, here: Path, change: Callable, code: int, out: str, err: str) -> None:
    assert run("convert", "real.csv", "-q", "-o", "out.h5").code == 0
    changed("out.h5", change)
    ended = run("check", "--rerun", "out.h5", "--input", "real.csv")
    assert (ended.code, ended.out, ended.err) == (code, out, err)


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("check out.h5 --input real.csv", 2, "--input works only with --rerun"),
        ("check --rerun --seal-only out.h5", 2, "--rerun and --seal-only exclude each other"),
        ("check --rerun -", 2, "--rerun reads FILE more than once, and stdin can be read only once"),
        ("check --rerun out.h5 --input nowhere.csv", 66, "nowhere.csv: there is no such file"),
        ("check --rerun real.csv", 65, "real.csv: has no history of the commands that made it, so it cannot be made again"),
    ],
)
def test_bad_use(run: Callable, here: Path, line: str, code: int, err: str) -> None:
    assert run("convert", "real.csv", "-q", "-o", "out.h5").code == 0
    ended = run(*line.split())
    assert ended.code == code
    assert f"herd check: {err}\n" in ended.err


def test_a_damaged_file_is_not_made_again(run: Callable, here: Path) -> None:
    assert run("convert", "real.csv", "-q", "-o", "out.h5").code == 0
    content = bytearray(Path("out.h5").read_bytes())
    content[-1] ^= 1
    Path("out.h5").write_bytes(content)
    ended = run("check", "--rerun", "out.h5", "--input", "real.csv")
    assert (ended.code, ended.out) == (65, "")


def test_the_largest_difference_is_relative_and_has_a_place() -> None:
    from herdcli.artifacts.dataset import Dataset

    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    other = np.array([[1.0, 2.0], [3.0, 4.4]])
    largest, place = artifact_comparison.largest_difference(Dataset(X=other), Dataset(X=X))
    assert (round(largest, 12), place) == (round(0.4 / 4.4, 12), "X")
    assert artifact_comparison.largest_difference(Dataset(X=X), Dataset(X=X.copy())) == (0.0, "")
    residual = 1e-14 * X  # what rounding has left
    assert artifact_comparison.largest_difference(Dataset(X=residual), Dataset(X=2 * residual)) == (pytest.approx(4e-14), "X")
    assert artifact_comparison.largest_difference(Dataset(X=X[:1]), Dataset(X=X)) == (float("inf"), "X")
    assert artifact_comparison.largest_difference(Dataset(X=X, source="a"), Dataset(X=X, source="b")) == (float("inf"), "source")


ODD = (None, True, -1, 0, 7, 0.5, 1e308, 10**30, "", "x", "auto", "inf", float("nan"), "/etc/passwd", "file", "mixture:/etc/passwd", "a\0b")
ODD += ("\ud800", "-", "--help", [], [[]], ["a"], [1, 2], [["a", 1]], {}, {"a": 1}, "x" * 5000)


OTHERS = ("path", "report", "plots", "cache", "source", "sources", "output", "checkpoint", "model", "trace_file")


def hostile(path: str, change: Callable[[list[dict]], None]) -> None:
    """An artifact whose history was changed, sealed as anyone can seal it."""

    def edit(file: h5py.File) -> None:
        history = records(file)
        change(history)
        file.attrs["provenance"] = json.dumps(history)

    changed(path, edit)


@pytest.mark.parametrize("name", [name for name in MADE if "parquet" not in MADE[name][0]])
def test_odd_values_of_a_history_are_refused_in_one_line(run: Callable, here: Path, name: str) -> None:
    """None is a fault of herd's, and none that is accepted names a file that is no input."""
    line, _ = MADE[name]
    assert run(*line.split(), "-q").code == 0
    artifact = artifacts.load("out.h5")
    stage = history_stages.history_stages(artifact)[-1]
    placed = {each.role: f"INPUT-{each.role}" for each in stage.inputs}
    history_stages.stage_request(stage, placed, "out.h5", "SCRATCH")
    told: list[str] = []
    for option in (
        *stage.parameters,
        "path",
        "report",
        "plots",
        "cache",
        "source",
        "sources",
        "output",
        "checkpoint",
        "model",
        "trace_file",
    ):
        for value in ODD:
            odd = replace(stage, parameters={**stage.parameters, option: value})
            try:
                command, request, _ = history_stages.stage_request(odd, placed, "out.h5", "SCRATCH")
            except DataError as error:
                told.append(str(error))
                continue
            files = [each.path for each in file_registry.register_files(command, request, {})]
            assert all("INPUT-" in path or path.startswith("SCRATCH") or path == "-" for path in files), (option, value, files)
    assert max(map(len, told)) < 600
    assert not any("\n" in line for line in told)


@pytest.mark.parametrize(
    ("line", "change", "says"),
    [
        (
            "fit-mrf bits.csv --structure l1 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(path="victim.txt", source="bits.csv"),
            "stage 1 (fit-mrf) has 'path' as \"victim.txt\" in its history: no command writes that",
        ),
        (
            "eval rbm.h5 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(report="victim.txt", sources=["rbm.h5"], plots=[["filters", "victim.png"]]),
            "stage 2 (eval) has 'report' as \"victim.txt\" in its history: no command writes that",
        ),
        (
            "nherd-train text.svm -q -o out.h5",
            lambda history: history[-1]["parameters"].update(cache="victim.txt"),
            "stage 1 (nherd-train) has 'cache' as \"victim.txt\" in its history: no command writes that",
        ),
        (
            "fit-mrf bits.csv --structure l1 -q -o out.h5",
            lambda history: history[-1]["inputs"][0].update(role="path"),
            "stage 1 (fit-mrf) had an input 'path', which this version does not know",
        ),
        (
            "kernel-herd real.csv -m 5 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(candidates="file"),
            "stage 1 (kernel-herd) reads a file for 'candidates', which is not among the inputs of its history",
        ),
        (
            "apply rbm.h5 bits.csv -q -o out.h5",
            lambda history: history[-1].update(inputs=history[-1]["inputs"][1:]),
            "stage 2 (apply) reads 'model', which is not among the inputs of its history",
        ),
        (
            "fit-rbm bits.csv --epochs 1 -q -o out.h5",
            lambda history: history[-1].update(inputs=[]),
            "stage 1 (fit-rbm) cannot be made again: it reads an input that is not in its history",
        ),
        (
            "fit-rbm bits.csv --epochs 1 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(hidden=0),
            "stage 1 (fit-rbm) has 'hidden' as 0 in its history: it is not of the form n|auto",
        ),
        (
            "fit-rbm bits.csv --epochs 1 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(steps=10**8),
            "stage 1 (fit-rbm) cannot be made again: it takes more than the 3 s allowed",
        ),
        (
            "kernel-herd real.csv -m 5 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(count=10**9),
            "stage 1 (kernel-herd) cannot be made again: ",
        ),
        (
            "sample rbm.h5 --count 4 -q -o out.h5",
            lambda history: history[-1]["parameters"].update(count=1_000_000, burn_in=1),
            "stage 2 (sample) cannot be made again: ",
        ),
    ],
    ids=["path", "report", "cache", "role", "file", "no model", "no data", "range", "time", "memory", "disk"],
)
def test_a_hostile_history_harms_nothing(run: Callable, here: Path, line: str, change: Callable, says: str) -> None:
    for name in ("victim.txt", "victim.png", "file"):
        Path(name).write_text("precious")
    assert run(*line.split()).code == 0
    hostile("out.h5", change)
    before = {path: path.read_bytes() for path in here.iterdir()}
    given = with_inputs("bits.csv real.csv rbm.h5 text.svm")
    ended = run(
        "check", "--rerun", "out.h5", *given, "--max-time", "3" if "3 s" in says else "60", "--max-disk", "1M", "--max-memory", "400M"
    )
    assert (ended.code, ended.out) == (65, "")
    assert ended.err.startswith(f"herd check: out.h5: {says}")
    assert len([line for line in ended.err.splitlines() if not line.startswith("hint: ")]) == 1
    assert {path: path.read_bytes() for path in here.iterdir()} == before


CONTRADICTORY = {
    "em real.csv --components 2 --iterations 2": ({"bayes": True, "covariance": "tied"}, "--bayes uses full covariances, not tied"),
    "em real.csv --model fa --components 1": ({"per_class": True}, "--per-class is for mixtures and hidden Markov models"),
    "em real.csv --model kmeans --components 2": ({"components": None}, "--model kmeans needs a number of clusters"),
}


@pytest.mark.parametrize("line", CONTRADICTORY)
def test_options_of_a_history_that_contradict_each_other_are_refused(run: Callable, here: Path, line: str) -> None:
    changes, says = CONTRADICTORY[line]
    assert run(*line.split(), "-q", "-o", "out.h5").code == 0
    hostile("out.h5", lambda history: history[-1]["parameters"].update(changes))
    ended = run("check", "--rerun", "out.h5", "--input", "real.csv")
    assert (ended.code, ended.out) == (65, "")
    assert says in ended.err.splitlines()[0]


def test_a_report_is_made_again_with_its_page_in_the_scratch_folder(run: Callable, here: Path) -> None:
    assert run("eval", "rbm.h5", "--report", "page.html", "-q", "-o", "out.h5").code == 0
    before = {path: path.read_bytes() for path in here.iterdir()}
    ended = run("check", "--rerun", "out.h5", "--input", "rbm.h5")
    assert (ended.code, ended.out, ended.err) == (0, "out.h5: reproduced: same bytes\n", "")
    assert {path: path.read_bytes() for path in here.iterdir()} == before


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock")
def test_a_stage_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "victim").write_text("precious")
    script = f"""
import os, sys
from herdcli.sandbox import restrict_writes_to_folder
if not restrict_writes_to_folder({str(inside)!r}):
    sys.exit(77)
open({str(inside / "file")!r}, "w").write("x")
os.replace({str(inside / "file")!r}, {str(inside / "other")!r})
open(os.devnull, "w").write("x")
for act in (lambda: open({str(outside / "victim")!r}, "w"), lambda: os.unlink({str(outside / "victim")!r}),
            lambda: os.rename({str(inside / "other")!r}, {str(outside / "other")!r}), lambda: os.truncate({str(outside / "victim")!r}, 0)):
    try:
        act()
    except OSError:
        continue
    sys.exit(1)
"""
    code = subprocess.run([sys.executable, "-c", script]).returncode
    if code == 77:
        pytest.skip("a kernel without Landlock")
    assert code == 0
    assert (outside / "victim").read_text() == "precious"


def test_every_recorded_field_can_be_checked() -> None:
    """Each is an option, whose type checks it, or says itself what it can be."""
    from herdcli.cli.frame.history.request import ALLOWED, recordable_names
    from herdcli.cli.main import COMMANDS

    for name, (module, _) in COMMANDS.items():
        command = import_module(module).command
        if "request" not in vars(command.callback):
            continue
        options = {param.name for param in command.params}
        kind = vars(command.callback)["request"]
        for each in (kind, *kind.__subclasses__()):
            for field in fields(each):
                if field.name in recordable_names(each):
                    assert field.name in options or ALLOWED in field.metadata, f"herd {name}: {field.name}"
