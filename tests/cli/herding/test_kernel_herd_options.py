"""What the declarations of `herd kernel-herd` refuse and call without effect: before anything is read, and in histories alike."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.cli.frame.history.recorded_options import refuse_contradictions
from herdcli.cli.frame.history.request import request_from_record
from herdcli.cli.kernel_herd.request import Request
from herdcli.errors import DataError

LAW = "does not work with a Stein kernel, whose target is the distribution with these scores"
TAKEN = "hint: herding, line-search, min-norm-point and rpcholesky take others"
OTHER_BYTES = "hint: leave out --exact; results may then differ in the last digits between machines"
EQUAL = "herding, greedy, random, sobol, kernel-thinning, compress++, support-points or facility-location"
REFUSED = {
    "--rule step": ["--rule step needs step sizes", "hint: use --step constant:0.1, or --step FILE"],
    "--rule compress++ --kernel stein:imq": [
        "--rule compress++ represents the rows, but a Stein kernel represents the distribution of their scores",
        "hint: use --rule greedy",
    ],
    "--rule random --kernel Stein:imq": [
        "--rule random samples from the target, but a Stein kernel knows only its scores",
        "hint: use --rule greedy",
    ],
    "--rule away --refine 1": ["--refine needs atoms of equal weight, but --rule away gives other weights", f"hint: use {EQUAL}"],
    "--rule compress++ --unique": [
        "--unique does not work with --rule compress++",
        "hint: use greedy, support-points or facility-location",
    ],
    "--rule bpcg --unique": [
        "--unique does not work with --rule bpcg",
        "hint: rules with an active set and rpcholesky never take a candidate twice anyway",
    ],
    "--rule support-points --distribution uniform": [
        "--rule support-points chooses among the rows themselves, so it does not work with --distribution",
        TAKEN,
    ],
    "--rule facility-location --candidates c.csv": [
        "--rule facility-location chooses among the rows themselves, so it does not work with --candidates",
        TAKEN,
    ],
    "--rule rpcholesky --extend e.h5": [
        "--rule rpcholesky cannot continue earlier samples",
        "hint: choose all --count atoms at once, or use herding",
    ],
    "--rule rpcholesky --block-rows 9": [
        "--block-rows needs weights that are not negative, but --rule rpcholesky can give negative ones",
        "hint: use --rule herding",
    ],
    "--rule greedy --polish": ["--polish works with herding, line-search, open-loop and step, without --unique"],
    "--unique --polish": ["--polish works with herding, line-search, open-loop and step, without --unique"],
    "--embedding fourier:9 --polish": [
        "--polish does not work with --embedding fourier, whose bound holds only for the candidates",
        "hint: nystrom:R",
    ],
    "--block-rows 9 --by a": ["--block-rows does not work with --by"],
    "--block-rows 9 --thin-by-chain": ["--block-rows does not work with --by"],
    "--block-rows 9 --candidates c.csv": ["--block-rows does not work with --candidates"],
    "--block-rows 9 --extend e.h5": ["--block-rows does not work with --extend"],
    "--block-rows 9 --polish": ["--block-rows does not work with --polish"],
    "--block-rows 9 --distribution uniform": ["--block-rows works only with --distribution rows"],
    "--block-rows 9 --thinning-report r.csv": [
        "--thinning-report needs all rows in memory, in one run",
        "hint: leave out --block-rows and --shard, or --thinning-report",
    ],
    "--by a --shard 1/2 --thinning-report r.csv": [
        "--thinning-report needs all rows in memory, in one run",
        "hint: leave out --block-rows and --shard, or --thinning-report",
    ],
    "--distribution uniform --candidates grid:9 --thinning-report r.csv": [
        "--thinning-report compares atoms with rows, but the target has no rows",
        "hint: leave it out",
    ],
    "--kernel stein:imq --thinning-report r.csv": [
        "--thinning-report compares atoms with rows, but the target has no rows",
        "hint: leave it out",
    ],
    "--label s --candidates c.csv": ["--label does not work with --candidates"],
    "--label s --distribution uniform": ["--label does not work with --distribution"],
    "--label s --block-rows 9": ["--label does not work with --block-rows"],
    "--label s --polish": ["--label does not work with --polish"],
    "--label s:hamming --by s": ["--label does not work with --by s"],
    "--kernel stein:imq --label s": [f"--label {LAW}"],
    "--kernel stein:imq --distribution uniform": [f"--distribution {LAW}"],
    "--kernel stein:imq --candidates c.csv": [f"--candidates {LAW}"],
    "--kernel stein:imq --block-rows 9": [f"--block-rows {LAW}"],
    "--kernel stein:imq --row-weight w": [f"--row-weight {LAW}"],
    "--kernel stein:imq --rule herding --polish": [f"--polish {LAW}"],
    "--thin-by-chain --by a": ["--thin-by-chain means --by chain, so --by a is not possible", "hint: leave out --by a, or --thin-by-chain"],
    "--exact --trace-projected": ["--exact does not work with --trace-projected", OTHER_BYTES],
    "--exact --polish": ["--exact does not work with --polish", OTHER_BYTES],
    "--exact --distribution uniform": ["--exact does not work with --distribution", OTHER_BYTES],
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_contradicts_is_refused_before_anything_is_read(run, line):
    ended = run("kernel-herd", "none.csv", "-m", "3", *line.split(), "-o", "out.h5")
    first, *hint = REFUSED[line]
    assert (ended.code, ended.err.splitlines()) == (2, [f"herd kernel-herd: {first}", *hint])


@pytest.mark.parametrize(
    "line",
    [
        "--rule away --refine 0",
        "--rule kernel-thinning --distribution rows",
        "--kernel stein:imq --distribution rows --scores s.csv",
        "--label s --distribution rows --by t",
        "--exact --distribution rows",
        "--thin-by-chain",
        "--rule step --step constant:0.1",
    ],
)
def test_values_that_ask_for_nothing_contradict_nothing(run, line):
    ended = run("kernel-herd", "none.csv", "-m", "3", *line.split(), "-o", "out.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (66, "herd kernel-herd: none.csv: there is no such file")


def test_the_number_of_atoms_is_required(run):
    ended = run("kernel-herd", "none.csv", "-o", "out.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "herd kernel-herd: Missing option '-m' / '--count'.")


@pytest.mark.parametrize(
    ("line", "warnings"),
    [
        ("--rule greedy --init zero", ["--init has no effect with --rule greedy"]),
        ("--norm exact", ["--norm has no effect without --candidates and rows"]),
        ("--block-atoms 4", ["--block-atoms has no effect without --block-rows"]),
        ("--scores s.csv", ["--scores has no effect with --kernel gaussian"]),
        ("--distribution uniform --embedding exact", ["--embedding has no effect without rows as the target"]),
        (
            "--kernel stein:imq --scores s.csv --embedding exact --init mean",
            ["--init has no effect with --rule greedy", "--embedding has no effect with --kernel stein:imq"],
        ),
    ],
)
def test_what_has_no_effect_is_named(run, line, warnings):
    ended = run("kernel-herd", "none.csv", "-m", "3", *line.split(), "-o", "out.h5")
    assert [text for text in ended.err.splitlines() if "warning" in text] == [f"kernel-herd: warning: {text}" for text in warnings]


def test_warnings_are_given_once(run, tmp_path):
    np.savetxt(tmp_path / "rows.csv", np.random.default_rng(0).normal(size=(20, 2)), delimiter=",", header="a,b", comments="")
    ended = run("kernel-herd", str(tmp_path / "rows.csv"), "-m", "3", "--norm", "exact", "--init", "zero", "--rule", "away", "-o", "out.h5")
    assert ended.code == 0
    assert [text.partition(" has no effect")[0] for text in ended.err.splitlines() if "warning" in text] == [
        "kernel-herd: warning: --init",
        "kernel-herd: warning: --norm",
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rule": "compress++", "unique": True}, "--unique does not work with --rule compress++"),
        ({"block_rows": 9, "by": "a"}, "--block-rows does not work with --by"),
        ({"exact": True, "simd": "avx2+fma"}, "--exact does not work with HERD_SIMD=avx2+fma, which rounds otherwise"),
        ({"thin_by_chain": True, "by": "a"}, "--thin-by-chain means --by chain, so --by a is not possible"),
    ],
)
def test_a_history_that_no_command_line_makes_is_refused(changed, message):
    made = {"count": 3, "rule": "herding", "refine": 0, "unique": False, "weights": "rule", "kernel": "gaussian", "target": "rows"}
    record = json.loads(json.dumps(made | {"bandwidth": "median", "scale": "none", "polish": False, "no_state": False, "seed": 0}))
    refuse_contradictions(request_from_record(Request, record), "stage 1", "out.h5")
    with pytest.raises(DataError) as refused:
        refuse_contradictions(request_from_record(Request, record | changed), "stage 1", "out.h5")
    assert refused.value.message == f"stage 1 cannot be made again: {message}"
