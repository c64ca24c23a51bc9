"""`herd ups-infer --query` as processes: answers as text, tables and artifacts, and the exact words about what cannot be asked."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.util import find_spec

import h5py
import numpy as np
import pytest
from pyarrow import parquet
from small_networks import brute_force, random_network

from herdcli import artifacts, iterate
from herdcli.algorithm import run_algorithm
from herdcli.cli.main import main
from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
from herdcli.markov.method import InferenceSettings
from herdcli.markov.query import log_z_bounds as enclosing
from herdcli.markov.query import marginal_map, marginal_map_search, max_product
from herdcli.markov.query.tree_reweighted import TreeReweighted

THREE = b"MARKOV\n3\n2 3 2\n2\n2 0 1\n2 1 2\n6\n1 2 3 4 5 6\n6\n6 1 4 0 2 3\n"
# Π f over (x0, x1, x2): the largest is x = (1, 0, 0), 4·6 = 24; Z = Σ_1 (Σ_0 f)(Σ_2 f) = 5·7 + 7·4 + 9·5 = 108.
BIF = b"""network a { property author someone; }
// a comment
variable rain { type discrete [ 2 ] { yes, no }; property position = (0, 0); }
variable wet { type discrete [ 2 ] { yes, no }; }
/* another,
   of two lines */
probability ( rain ) { table 0.2, 0.8; property weight = 3; }
probability ( wet | rain ) { (yes) 0.9, 0.1; (no) 0.3, 0.7; }
"""


@pytest.fixture
def three(tmp_path):
    (tmp_path / "three.uai").write_bytes(THREE)
    (tmp_path / "rain.bif").write_bytes(BIF)


@pytest.mark.parametrize(
    ("query", "form", "expected"),
    [
        ("mpe", "map", "MPE\n3 1 0 0\n"),
        ("mmap:x1", "map", "MMAP\n1 1 2\n"),
        ("mmap:x2,x1", "map", "MMAP\n2 2 0 1 0\n"),
        ("log-z", "pr", f"PR\n{math.log10(108)!r}\n"),
        ("mpe", "csv", 'variable,state\n"x0",1\n"x1",0\n"x2",0\n'),
    ],
)
def test_answers_as_text(herd, three, query, form, expected):
    ended = herd("ups-infer", "three.uai", "--query", query, "--format", form)
    assert ended.code == 0, ended.err
    if query == "log-z":
        assert float(ended.out.split()[1]) == pytest.approx(math.log10(108), abs=1e-13)
    else:
        assert ended.out.decode() == expected


def test_tables_of_joints_marginals_and_sensitivities(herd, three, tmp_path):
    joint = herd("ups-infer", "three.uai", "--query", "joint:x2,x0", "--format", "csv").out.decode().split()
    assert joint[0] == "x2,x0,probability"
    rows = [[float(word) for word in line.split(",")] for line in joint[1:]]
    # Σ_1 f(x0, x1) f(x1, x2) by hand.
    expected = {(0, 0): 1 * 6 + 2 * 4 + 3 * 2, (0, 1): 4 * 6 + 5 * 4 + 6 * 2, (1, 0): 1 + 0 + 9, (1, 1): 4 + 0 + 18}
    assert {(a, b): p * 108 for a, b, p in rows} == pytest.approx(expected)
    marginals = herd("ups-infer", "three.uai", "--format", "csv").out.decode().splitlines()
    assert marginals[0] == "variable,p0,p1,p2"
    assert float(marginals[1].split(",")[1]) == pytest.approx(30 / 108)
    assert marginals[1].startswith('"x0",')
    assert marginals[1].endswith(",")
    slopes = herd("ups-infer", "rain.bif", "--query", "sensitivity:wet=yes", "--format", "csv").out.decode().splitlines()
    assert slopes[0] == "child,child_state,parents,parent_states,factor,cell,value,derivative"
    assert float(slopes[3].split(",")[7]) == pytest.approx(0.2 * (1 - 0.42))  # ∂/∂θ of θ·.2/(.8 + .2(θ + .1)) beside .24, at .9


def test_parquet_reads_back(herd, three, tmp_path):
    assert herd("ups-infer", "three.uai", "-o", "m.parquet").code == 0
    found = parquet.read_table(tmp_path / "m.parquet").to_pydict()
    assert list(found) == ["variable", "p0", "p1", "p2"]
    assert found["variable"] == ["x0", "x1", "x2"]
    assert found["p1"] == pytest.approx([78 / 108, 28 / 108, 32 / 108])
    assert artifacts.load(str(tmp_path / "m.parquet"), kinds={"dataset"}, missing=True).value.columns["variable"].tolist() == [
        "x0",
        "x1",
        "x2",
    ]


def test_every_query_has_the_same_columns_in_csv_and_parquet(herd, three, tmp_path):
    for query in ("marginals", "log-z", "bounds", "mpe", "mmap:rain", "joint:wet,rain", "sensitivity:wet=yes"):
        lines = herd("ups-infer", "rain.bif", "--query", query, "--format", "csv").out.decode().splitlines()
        assert herd("ups-infer", "rain.bif", "--query", query, "-o", "q.parquet").code == 0
        found = parquet.read_table(tmp_path / "q.parquet")
        assert found.column_names == lines[0].split(",")
        for line, row in zip(lines[1:], found.to_pylist(), strict=True):
            for word, value in zip(line.split(","), row.values(), strict=True):
                assert word.strip('"') == value if isinstance(value, str) else float(word) == pytest.approx(value, nan_ok=True)
    assert herd("ups-infer", "rain.bif", "--query", "mpe", "-o", "m.parquet").code == 0
    assert parquet.read_table(tmp_path / "m.parquet").to_pydict() == {
        "variable": ["rain", "wet"],
        "state": [1, 1],
        "state_name": ["no", "no"],
    }


def test_likeliest_states_as_beliefs(herd, three, tmp_path):
    assert herd("ups-infer", "three.uai", "--query", "mmap:x1", "-o", "m.h5").code == 0
    with h5py.File(tmp_path / "m.h5") as file:
        assert file["assignment"][:].tolist() == [-1, 2, -1]
        np.testing.assert_allclose(file["node"][:], [3 / 9, 6 / 9, 0, 0, 1, 2 / 5, 3 / 5])
        assert file.attrs["log_z"] == pytest.approx(math.log(45))
        assert file.attrs["log_value_upper"] == file.attrs["log_z"]


def test_bounds_enclose(herd, three, tmp_path):
    out = herd("ups-infer", "three.uai", "--query", "bounds", "--format", "csv").out.decode().splitlines()
    found = dict(zip(out[0].split(","), map(float, out[1].split(",")), strict=True))
    assert found["lower"] - 1e-12 <= math.log(108) <= found["upper"] + 1e-12
    assert found["state"] == pytest.approx(math.log(24))
    assert herd("ups-infer", "three.uai", "--query", "bounds", "-o", "b.h5").code == 0
    with h5py.File(tmp_path / "b.h5") as file:
        assert file.attrs["log_z_lower"] <= math.log(108) <= file.attrs["log_z_upper"] + 1e-12


def test_evidence_is_part_of_the_likeliest_states(herd, three, tmp_path):
    (tmp_path / "e.evid").write_text("1 2 1\n")
    assert herd("ups-infer", "three.uai", "--query", "mpe", "--evidence", "e.evid", "--format", "map").out == b"MPE\n3 1 2 1\n"
    ended = herd("ups-infer", "three.uai", "--query", "mmap:x2", "--evidence", "e.evid")
    assert ended.code == 2
    assert "--query mmap names x2, which the evidence already fixes" in ended.err


def test_sensitivities_under_evidence_name_the_cells_of_the_file(herd, three, tmp_path):
    """P(rain = yes | wet = yes) = .9·.2/(.9·.2 + .3·.8); cells with wet = no do not matter to it."""
    (tmp_path / "wet.evid").write_text("wet=yes\n")
    asked = ("--evidence", "wet.evid", "--query", "sensitivity:rain=yes", "--format", "csv")
    lines = herd("ups-infer", "rain.bif", *asked).out.decode().splitlines()[1:]
    z = 0.9 * 0.2 + 0.3 * 0.8
    expected = [(0, 0, 0.2, 0.9 * 0.24 / z**2), (0, 1, 0.8, -0.3 * 0.18 / z**2), (1, 0, 0.9, 0.2 * 0.24 / z**2), (1, 1, 0.1, 0),
                (1, 2, 0.3, -0.8 * 0.18 / z**2), (1, 3, 0.7, 0)]  # fmt: skip
    assert [tuple(map(float, line.split(",")[4:])) for line in lines] == pytest.approx([pytest.approx(row) for row in expected])
    (tmp_path / "empty.uai").write_text("MARKOV\n1\n2\n0\n")
    ended = herd("ups-infer", "empty.uai", "--query", "sensitivity:x0=1", "--format", "csv")
    assert (ended.code, ended.out) == (65, b"")
    assert ended.err == "herd ups-infer: empty.uai: the network has no factors, so there are no table entries to analyse\n"


def test_what_does_not_fit_is_told_with_a_bound(shell):
    asked = (
        "herd network grid --rows 12 --columns 12 --sigma-w 5 | herd ups-infer --query mpe --max-memory 64k --search-steps 5 --format map"
    )
    ended = shell(f"{asked} --effort 0")
    assert ended.code == 0, ended.err
    assert "auto: max-product, because the tables of elimination exceed --max-memory" in ended.err
    assert "branch-and-bound is approximate here: the log value of its answer is" in ended.err
    assert "elimination needs more than --max-memory; --effort may close the gap" in ended.err
    ended = shell(f"{asked} --algorithm max-product")
    assert "max-product is approximate here: the" in ended.err
    ended = shell("herd network random --nodes 60 --degree 3 --seed 1 --sigma-w 4 | "
                  "herd ups-infer --query mpe --max-memory 30k --iterations 5 --search-steps 1 --format map")  # fmt: skip
    assert "auto: branch and bound with mini-buckets of 2^" in ended.err
    assert "60 states, branch-and-bound, log value 77.85045864, " in ended.err
    whole = shell("herd network random --nodes 60 --degree 3 --seed 1 --sigma-w 4 | herd ups-infer --query mpe --format map")
    assert "60 states, max-elimination, log value 77.85045864, " in whole.err
    assert ended.out == whole.out
    refused = shell("herd network grid --rows 12 --columns 12 | herd ups-infer --query joint:x0,x143 --max-memory 64k")
    assert refused.code == 65
    assert "stdin: elimination, 2^" in refused.err


def test_finding_what_zeros_leave_empty_is_held_against_the_memory_allowed(herd, tmp_path):
    """It took hundreds of megabytes before the elimination itself was refused, and ended where memory did, with no word of that."""
    side = 25
    cells = [row * side + column for row in range(side) for column in range(side)]
    pairs = [(i, i + 1) for i in cells if (i + 1) % side] + [(i, i + side) for i in cells[:-side]]
    scopes = "\n".join(f"2 {i} {j}" for i, j in pairs)
    text = f"MARKOV\n{side * side}\n{'2 ' * side * side}\n{len(pairs)}\n{scopes}\n" + "4\n1 1 1 0\n" * len(pairs)
    (tmp_path / "hard.uai").write_text(text)
    ended = herd("ups-infer", "hard.uai", "--query", "log-z", "--max-memory", "20M")
    assert (ended.code, ended.out) == (65, b"")
    assert ended.err.startswith("herd ups-infer: hard.uai: elimination, 2^32.5 table cells, would take ")
    assert ", more than the 20 MB allowed\nhint: --query bounds encloses log Z" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--query", "best"], 2, "is none of marginals, log-z, bounds, mpe, mmap:A,B"),
        (["--query", "mmap:x9"], 65, "there is no variable 9: the network has 3, numbered 0 to 2"),
        (["--query", "mmap:cloud"], 65, "there is no variable 'cloud'"),
        (["--query", "mmap:x1,x1"], 2, "--query mmap names x1 twice"),
        (["--query", "mpe", "--format", "mar"], 2, "--query mpe cannot be written as mar"),
        (["--query", "mpe", "--algorithm", "ups"], 2, "--query mpe does not work with --algorithm ups"),
        (["--query", "log-z", "--algorithm", "bp"], 2, "--query log-z is exact, but --algorithm bp is not"),
        (["--query", "mpe", "--observe", "x0=.5,.5"], 2, "--query mpe does not work with observed marginals"),
        (["--query", "sensitivity:x1=7", "--format", "csv"], 65, "the evidence gives x1 the state 7, but its states are 0 to 2"),
        (["--algorithm", "max-product"], 2, "--algorithm max-product finds the most probable states, not marginals\nhint: use --query mpe"),
    ],
)
def test_what_cannot_be_asked(herd, three, arguments, code, message):
    ended = herd("ups-infer", "three.uai", *arguments)
    assert ended.code == code, ended.err
    assert message in ended.err


@pytest.mark.parametrize(("query", "value"), [("mpe", math.log(24)), ("mmap:x1", math.log(45))])
def test_eval_does_not_take_the_value_of_an_assignment_for_log_z(herd, three, query, value):
    assert herd("ups-infer", "three.uai", "--query", query, "-o", "likeliest.h5").code == 0
    (figures,) = json.loads(herd("eval", "likeliest.h5", "--format", "json").out)
    assert figures.get("log_z") is None
    assert figures["log_value"] == pytest.approx(value)
    assert figures["log_value_upper"] == pytest.approx(value)


def test_log_z_alone_as_an_artifact_names_what_has_it(herd, three):
    ended = herd("ups-infer", "three.uai", "--query", "log-z", "-o", "z.h5")
    assert ended.code == 2
    assert "--query log-z cannot be written as hdf5\n" in ended.err
    assert "hint: use --format pr, csv, parquet; without --query the artifact has log_z beside the marginals\n" in ended.err


@pytest.mark.parametrize("typed", [("--effort", "5"), ("--time", "9s")])
def test_what_auto_may_spend_is_told_to_have_no_effect_where_it_is_exact(herd, three, typed):
    ended = herd("ups-infer", "three.uai", *typed, "--format", "pr")
    assert ended.code == 0, ended.err
    assert f"warning: {typed[0]} has no effect where auto is exact\n" in ended.err
    assert "no effect" not in herd("ups-infer", "three.uai", "--format", "pr").err


@pytest.mark.parametrize("name", ["tree-ep", "loop-corrected"])
def test_corrected_propagation_as_a_command(herd, three, tmp_path, name):
    """A chain of three is exact; eval reads it, a checkpoint is taken, and pr is refused where there is no log Z."""
    ended = herd("ups-infer", "three.uai", "--algorithm", name, "-o", "m.h5", "--checkpoint", "c.ckpt")
    assert ended.code == 0, ended.err
    with h5py.File(tmp_path / "m.h5") as file:
        assert np.allclose(file["node"][:2], [30 / 108, 78 / 108], atol=1e-12)
    report = herd("eval", "m.h5", "--format", "json")
    assert report.code == 0, report.err
    assert herd("check", "m.h5").code == 0
    text = herd("ups-infer", "three.uai", "--algorithm", name, "--format", "pr")
    if name == "tree-ep":
        assert float(text.out.split()[1]) == pytest.approx(math.log10(108))
    else:
        assert text.code == 2
        assert "loop-corrected computes no log Z, but --format pr writes only log Z\n" in text.err


@pytest.mark.slow
def test_bounds_enclose_log_z_on_fifty_networks():
    for seed in range(50):
        given = random_network(seed, seed % 2 == 1, 7)
        exact_log_z = brute_force(given)[1]
        settings = InferenceSettings(algorithm="tree-reweighted", iterations=5 + seed)
        above = run_algorithm(TreeReweighted(given, settings)).attributes["log_z"]
        told = enclosing.compute_log_z_bounds(given, compute_mean_field_bound(given), float(above), 64, settings)
        assert told.lower <= exact_log_z + 1e-9
        assert told.upper >= exact_log_z - 1e-9


def hidden_chain(steps: int) -> str:
    """A chain of two-state variables, each seen through another one: hidden ones first."""
    pair, seen = "4\n 8 2 3 7\n", "4\n 9 1 2 8\n"
    scopes = [f"2 {k} {k + 1}\n" for k in range(steps - 1)] + [f"2 {k} {steps + k}\n" for k in range(steps)]
    return f"MARKOV\n{2 * steps}\n{'2 ' * (2 * steps)}\n{2 * steps - 1}\n{''.join(scopes)}{pair * (steps - 1)}{seen * steps}"


def test_marginal_map_is_exact_where_sums_before_maxima_do_not_fit(herd, tmp_path):
    (tmp_path / "chain.uai").write_text(hidden_chain(30))
    asked = ",".join(map(str, range(30, 60)))
    ended = herd("ups-infer", "chain.uai", "--query", f"mmap:{asked}", "--max-memory", "200M", "-o", "m.csv")
    assert ended.code == 0
    assert "branch and bound, because exact elimination needs much larger tables" in ended.err
    assert "30 states, branch-and-bound, log value " in ended.err
    assert "at most" not in ended.err
    value = float(ended.err.partition("log value ")[2].split(",")[0])
    (tmp_path / "all.evid").write_text("30 " + " ".join(f"{i} 0" for i in range(30, 60)))
    out = herd("ups-infer", "chain.uai", "--evidence", "all.evid", "--query", "log-z", "--format", "csv").out.decode().splitlines()
    assert value == pytest.approx(float(out[1].split(",")[0]))
    assert {line.split(",")[1] for line in (tmp_path / "m.csv").read_text().splitlines()[1:]} == {"0"}
    ended = herd("ups-infer", "chain.uai", "--query", f"mmap:{asked}", "--max-memory", "200M", "--effort", "0", "-o", "m.csv")
    assert ended.code == 0
    assert "coordinate-ascent" in ended.err


def test_marginal_map_that_coordinate_ascent_has_no_room_for(tmp_path, monkeypatch, capsys):
    """What branch and bound has found is the answer, with its bound; where it has found nothing, --effort is named."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([*line, *words])
        return ended.value.code, capsys.readouterr().err

    monkeypatch.setattr(marginal_map, "elimination_bytes", lambda network, asked: 1 << 40)
    (tmp_path / "chain.uai").write_text(hidden_chain(30))
    asked = f"mmap:{','.join(map(str, range(30, 60)))}"
    line = ["ups-infer", str(tmp_path / "chain.uai"), "--query", asked, "--max-memory", "200M", "-o", str(tmp_path / "m.csv")]
    code, told = run("--effort", "0")
    assert code == 65
    assert "chain.uai: eliminating the variables that are summed out would take 1.1 TB, more than the 200 MB allowed\n" in told
    assert "hint: raise --effort: branch and bound needs less memory, but found no states within this effort\n" in told
    result = marginal_map_search.BranchAndBound.result
    monkeypatch.setattr(
        marginal_map_search.BranchAndBound, "result", lambda self, state: replace(result(self, state), exact=False, bound=128.0)
    )
    code, told = run()
    assert code == 0, told
    assert "auto: the best answer of branch and bound, because coordinate ascent exceeds --max-memory\n" in told
    assert (
        "warning: branch-and-bound is approximate here: the log value of its answer is 127.06952, and the optimum is at most 128; " in told
    )
    assert "elimination needs more than --max-memory; --effort may close the gap\n" in told


@pytest.mark.parametrize(
    "words", [("--algorithm", "gbp"), ("--algorithm", "gibbs"), ("--algorithm", "tempered-gibbs"), ("--algorithm", "tree-reweighted")]
)
def test_approximations_are_refused_before_their_first_step(words, tmp_path, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("a step was made")

    (tmp_path / "chain.uai").write_text(hidden_chain(400))
    monkeypatch.setattr(iterate, "run_steps", never)
    with pytest.raises(SystemExit) as ended:
        main(["ups-infer", str(tmp_path / "chain.uai"), *words, "--max-memory", "60k", "-o", str(tmp_path / "m.h5")])
    told = capsys.readouterr().err
    assert ended.value.code == 65, told
    assert "chain.uai: the " in told
    assert ", more than the 60 kB allowed\nhint: raise --max-memory if the machine has it\n" in told


def test_marginal_map_is_refused_before_the_search_for_a_beginning(tmp_path, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("max-product was begun")

    monkeypatch.setattr(marginal_map, "elimination_bytes", lambda network, asked: 1 << 40)
    monkeypatch.setattr(max_product.MaxProduct, "init", never)
    (tmp_path / "chain.uai").write_text(hidden_chain(30))
    asked = f"mmap:{','.join(map(str, range(30, 60)))}"
    with pytest.raises(SystemExit) as ended:
        main(["ups-infer", str(tmp_path / "chain.uai"), "--query", asked, "--max-memory", "1M", "-o", str(tmp_path / "m.csv")])
    assert ended.value.code == 65
    assert (
        "chain.uai: eliminating the variables that are summed out would take 1.1 TB, more than the 1 MB allowed\n"
        in capsys.readouterr().err
    )


@pytest.mark.skipif(find_spec("pytoulbar2") is not None, reason="pytoulbar2 is installed")
def test_the_solver_toulbar2_is_for_mpe_and_is_asked_for_where_it_is_missing(herd, tmp_path):
    (tmp_path / "n.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2\n1 2\n")
    ended = herd("ups-infer", "n.uai", "--query", "mpe", "--solver", "toulbar2", "--format", "map")
    assert (ended.code, ended.out) == (2, b"")
    assert "--solver toulbar2 needs pytoulbar2, which is not installed\nhint: pip install 'herdcli[toulbar2]'" in ended.err
    ignored = herd("ups-infer", "n.uai", "--solver", "toulbar2", "--format", "pr")
    assert "--solver has no effect without --query mpe" in ignored.err
