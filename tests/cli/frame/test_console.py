"""What a person reads: help, closing lines, quiet and verbose runs, usage errors, tracebacks on request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.cli.frame.run.console import Console
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import COMMANDS


def test_help_lists_every_command_and_imports_nothing_heavy(tmp_path):
    program = (
        "import sys\n"
        "from herdcli.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'scipy', 'h5py', 'pyarrow', 'rich', 'threadpoolctl', 'inspect_heavy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == "[]\n"
    listing = " ".join(done.stdout[done.stdout.index("Commands:") :].split())
    for name, (_, line) in COMMANDS.items():
        assert f" {name} {line}" in listing


def test_no_command_imports_scipy_stats(tmp_path):
    modules = ", ".join(module for module, _ in COMMANDS.values())
    program = (
        f"import sys, {modules}, herdcli.rbm.learning.parallel_fits, herdcli.evaluation.figures.rbm; print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "False\n"


def test_version_names_the_kernels(herd):
    from herdcli import __version__, fast

    assert herd("--version").out.decode() == f"herd {__version__} ({fast.loops_in_use()} kernels)\n"


@pytest.mark.examples
@pytest.mark.parametrize("command", COMMANDS)
def test_help_opens_with_an_example_that_runs(herd, shell, digits, command):
    text = herd(command, "--help").out.decode()
    head = re.split(r"^[A-Z].*:$", text, maxsplit=1, flags=re.MULTILINE)[0]  # before the first group of options
    examples = re.findall(r"^ +(herd .+)$", head.replace("\r", ""), re.MULTILINE)
    assert examples, text
    for number, example in enumerate(examples):
        if number == 0 or not missing_inputs(example, digits.parent):
            ended = shell(example if number else f"{example} > first")
            assert ended.code == 0, f"{example}\n{ended.err}"


def missing_inputs(example: str, folder: Path) -> list[str]:
    """What an example needs and does not have: files that neither herd nor an earlier example makes, an extra, a download."""
    named = re.findall(r"(?<!-o )(?<!> )\b[\w.-]+\.(?:h5|svm|gz|csv|bif|parquet|json|safetensors)\b", example)
    extra = ["onnx"] if example.endswith(".onnx") and find_spec("onnx") is None else []
    downloads = re.findall(r"herd data (?!digits|--list|--where|\|)\S+", example)
    return [name for name in named if not (folder / name).exists()] + extra + downloads


def test_help_and_h_are_the_same(herd):
    assert herd("fit-rbm", "-h").out == herd("fit-rbm", "--help").out


def test_closing_line(herd, small, quick):
    ended = herd(*quick("small.h5", "-o", "out.h5"))
    figure = r"held-out log-likelihood -\d+(\.\d+)? \(independent columns -\d+(\.\d+)?\)"
    assert re.match(rf"fit-rbm: 4 hidden, 2 epochs, {figure}, \d+\.\d s → rbm \d+(\.\d+)? kB\n", ended.err)


def test_quiet_says_nothing(herd, small, quick):
    assert herd(*quick("small.h5", "-q", "-o", "out.h5")).err == ""


def test_quiet_still_says_errors(herd, quick):
    assert herd(*quick("missing.h5", "-q")).err.startswith("herd fit-rbm: missing.h5: ")


def test_verbose_says_more(herd, small, quick):
    plain, verbose = herd(*quick("small.h5", "-o", "out.h5")), herd(*quick("small.h5", "-v", "-o", "out.h5"))
    assert len(verbose.err.splitlines()) > len(plain.err.splitlines())
    assert "small.h5" in verbose.err


def test_debug_shows_the_traceback(herd, quick):
    assert "Traceback" not in herd(*quick("missing.h5")).err
    ended = herd(*quick("missing.h5", "--debug"))
    assert ended.code == 66
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.splitlines()[-1].startswith("herd fit-rbm: missing.h5: ")


def test_no_escape_codes_in_a_log(herd, small, quick):
    for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        ended = herd(*quick("small.h5", "-v", "-o", "out.h5"), env=env)
        assert "\x1b" not in ended.err


USAGE = {
    "no hidden units": (["fit-rbm", "small.h5", "--hidden", "0"], "--hidden"),
    "negative rate": (["fit-rbm", "small.h5", "--learning-rate", "-1"], "--learning-rate"),
    "nan rate": (["fit-rbm", "small.h5", "--learning-rate", "nan"], "--learning-rate"),
    "negative seed": (["fit-rbm", "small.h5", "--seed", "-1"], "--seed"),
    "seed of 65 bits": (["fit-rbm", "small.h5", "--seed", str(2**64)], "--seed"),
    "batch of none": (["fit-rbm", "small.h5", "--batch-size", "0"], "--batch-size"),
    "unknown algorithm": (["fit-rbm", "small.h5", "--algorithm", "bp"], "--algorithm"),
    "unknown option": (["fit-rbm", "small.h5", "--hiden", "3"], "--hiden"),
    "threshold above one": (["fit-rbm", "small.h5", "--threshold", "1.5"], "--threshold"),
    "empty range": (["fit-rbm", "small.h5", "--range", "3,3"], "--range"),
    "size in words": (["fit-rbm", "small.h5", "--max-memory", "much"], "--max-memory"),
    "two inputs": (["fit-rbm", "small.h5", "small.h5"], "small.h5"),
    "unknown command": (["fit-rmb"], "fit-rbm"),
    "unknown data": (["data", "letters"], "letters"),
    "threads of none": (["fit-rbm", "small.h5", "-j", "0"], "--threads"),
    "split of words": (["fit-rbm", "small.h5", "--split", "most,some,few"], "--split"),
    "split of two": (["fit-rbm", "small.h5", "--split", ".5,.5"], "--split"),
    "unreadable bar": (["eval", "model.h5", "--require", "error is small"], "error is small"),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage(herd, model, name):
    arguments, named = USAGE[name]
    ended = herd(*arguments)
    assert (ended.code, ended.out) == (2, b"")
    lines = ended.err.splitlines()
    assert lines[0].startswith("herd")
    assert named in lines[0]
    assert len(lines) <= 2


def test_threads_from_the_environment(herd, small, quick):
    ended = herd(*quick("small.h5"), env={"HERD_THREADS": "many"})
    assert ended.code == 2
    assert "HERD_THREADS='many'" in ended.err
    assert herd(*quick("small.h5"), env={"SLURM_CPUS_PER_TASK": "2"}).code == 0


def test_option_without_effect_is_warned_about(herd, small, quick):
    ended = herd(*quick("small.h5", "--replicas", "3", "--every", "5", "-o", "out.h5"))
    assert ended.code == 0
    assert "fit-rbm: warning: --replicas has no effect with --algorithm rpcd\n" in ended.err
    assert "fit-rbm: warning: --every has no effect without --checkpoint\n" in ended.err


def test_dry_run_plans_and_makes_nothing(herd, digits, tmp_path):
    ended = herd("fit-rbm", "digits.h5", "--dry-run", "-o", "out.h5")
    assert ended.code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"digits.h5"}
    assert "memory" in (ended.err + ended.out.decode())


@dataclass
class Step:
    """A state of nothing but its step."""

    step: int


@dataclass(frozen=True)
class Working(FixedLengthAlgorithm[Step]):
    """Steps of 2 ms of work after a first one of 0.3 s; the second half costs three times as much, which `share` says or not.

    waits  seconds of each step for which it leaves the processor to others, as on a busy machine.
    """

    shared: bool
    waits: float = 0.0
    steps = 600
    state = Step

    def init(self):
        return Step(0)

    def step(self, state):
        ends = time.process_time() + 0.002 * (0.3 / 0.002 if state.step == 0 else 1 if state.step < 300 else 3)
        time.sleep(self.waits)
        while time.process_time() < ends:
            pass
        return Step(state.step + 1)

    def memory(self):
        return 0

    def progress(self, state):
        share = np.interp(state.step, [0, 300, 600], [0, 0.25, 1]) if self.shared else None
        return RunProgress(state.step, 600, share=share)

    def result(self, state):
        return None


@pytest.mark.parametrize(
    ("shared", "waits", "seconds"),
    [(False, 0.0, 0.3 + 600 * 0.002), (True, 0.0, 0.3 + 300 * 0.002 + 300 * 0.006), (False, 0.02, 0.3 + 600 * 0.002)],
)
def test_a_dry_run_leaves_out_what_the_first_step_loads_and_weighs_steps(capsys, shared, waits, seconds):
    """And the time that others have the processor: with the waits of all steps it would tell 13 s."""
    options = {"clobber": True, "threads": 1, "max_memory": None, "checkpoint": None, "every": None, "resume": False, "dry_run": True}
    session = Session(command="fit-rbm", console=Console("fit-rbm"), request=Step(0), given=set(), output="-", inputs={}, **options)
    with pytest.raises(click.exceptions.Exit):
        session.run(Working(shared, waits), label="learning")
    said = re.fullmatch(r"learning: 600 steps, about (\S+) s and .* of memory\n", capsys.readouterr().out)
    assert seconds / 1.5 < float(said[1]) < 4 * seconds  # the first step for each would be 180 s


def test_threshold_used_is_said(herd, digits):
    ended = herd("fit-rbm", "digits.h5", "--hidden", "4", "--epochs", "1", "-o", "out.h5")
    assert "0.4" in ended.err.splitlines()[0]


def test_missed_bar_exits_1_and_still_shows_the_table(herd, model):
    ended = herd("eval", "model.h5", "--require", "reconstruction<0")
    assert ended.code == 1
    assert ended.out.startswith(b"file\tkind\t")
    assert re.fullmatch(r"herd eval: model\.h5: reconstruction is 0\.\d+, required < 0", ended.err.splitlines()[-1])


def test_bar_on_a_column_that_is_not_there(herd, model):
    ended = herd("eval", "model.h5", "--require", "eror<0.1")
    assert ended.code == 2
    assert "'eror'" in ended.err


def test_bar_on_a_figure_that_is_not_there(herd, model):
    ended = herd("eval", "model.h5", "--require", "error<0.1")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("herd eval: model.h5: error ")


def test_eval_formats_hold_the_same_row(herd, model):
    tables = {name: herd("eval", "model.h5", "--format", name).out.decode() for name in ("json", "csv", "markdown", "latex")}
    (row,) = json.loads(tables["json"])
    assert row["file"] == "model.h5"
    assert row["kind"] == "rbm"
    for table in tables.values():
        assert "model.h5" in table.replace(r"\_", "_")
        assert f"{row['reconstruction']:.3g}"[:5] in table


def test_eval_of_several_artifacts_has_a_row_each(herd, model, tmp_path):
    (tmp_path / "copy.h5").write_bytes(model.read_bytes())
    lines = herd("eval", "model.h5", "copy.h5").out.decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["file", "model.h5", "copy.h5"]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_names_the_commands(herd, shell, name):
    script = herd("completion", name)
    assert script.code == 0
    assert b"_HERD_COMPLETE" in script.out
    offered = shell("herd", _HERD_COMPLETE=f"{name}_complete", COMP_WORDS="herd fit", COMP_CWORD="fit" if name == "fish" else "1")
    assert "fit-rbm" in offered.out.decode()


def test_bug_is_written_to_a_file(herd_command, herd_environment, tmp_path, scratch):
    program = "import sys\nfrom herdcli.cli import main\nmain.COMMANDS = {'info': ('herdcli.no_such_module', '')}\nmain.main(['info'])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=herd_environment(), check=False
    )
    assert done.returncode == 70
    (log,) = scratch.iterdir()
    assert str(log) in done.stderr
    assert "no_such_module" in log.read_text()


def test_herd_alone_says_what_to_do(herd):
    ended = herd()
    assert (ended.code, ended.err) == (0, "")
    assert "  herd data digits | herd fit-rbm | herd eval " in ended.out.decode()


def test_the_version_has_a_short_option(herd):
    assert herd("-V").out == herd("--version").out


def test_quiet_and_verbose_may_stand_before_the_command(herd, digits):
    assert herd("-q", "convert", "digits.h5", "-o", "a.csv").err == ""
    assert herd("convert", "digits.h5", "-o", "b.csv", "-v").err.count("\n") == herd("-v", "convert", "digits.h5", "-o", "c.csv").err.count(
        "\n"
    )
    ended = herd("-q", "convrt")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "herd: no command 'convrt'; did you mean 'herd convert'?")
