"""`herd network` and `herd ups-infer` as processes: pipes, formats, and the exact words about bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli import artifacts, iterate
from herdcli.evaluation import verdicts
from herdcli.markov import algorithms
from herdcli.markov.formats import network_formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks

TWO = b"MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"


def test_a_pipe_from_a_seed_to_marginals(shell):
    first = shell("herd network grid --rows 3 --columns 4 --sigma-w 2 --seed 3 | herd ups-infer --format mar")
    assert first.code == 0
    assert first.out.startswith(b"MAR\n12 2 0.")
    assert "treewidth 3 and 2^" in first.err
    again = shell(
        "herd network grid --rows 3 --columns 4 --sigma-w 2 --seed 3 --format uai | herd ups-infer --algorithm enumerate --format mar"
    )
    ours, theirs = ([float(word) for word in run.out.split()[1:]] for run in (first, again))
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-13


def test_formats_go_round(shell, tmp_path):
    done = shell("herd network tree --nodes 9 -o a.uai && herd network convert a.uai -o b.h5 && herd network convert b.h5 -o c.fg && "
                 "gzip -k c.fg && herd network convert c.fg.gz -o d.uai")  # fmt: skip
    assert done.code == 0, done.err
    assert (tmp_path / "a.uai").read_bytes() == (tmp_path / "d.uai").read_bytes()


def test_same_bytes(herd):
    assert herd("network", "random").out == herd("network", "random").out != herd("network", "random", "--seed", "1").out


def test_evidence_observations_and_likelihoods(herd, tmp_path):
    (tmp_path / "two.uai").write_bytes(TWO)
    (tmp_path / "two.evid").write_bytes(b"1 1 0\r\n")
    for option in (["--evidence", "two.evid"], ["--observe", "x1=1,0", "--algorithm", "enumerate"], ["--soft-evidence", "x1=1,0"]):
        words = herd("ups-infer", "two.uai", *option, "--format", "mar").out.split()
        assert [float(word) for word in words[1:]] == pytest.approx([2, 2, 0.25, 0.75, 2, 1, 0], abs=1e-15)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (["-"], TWO[:-3], 65, "stdin: the file ends at line 7, token 3, where a value of factor 0 is expected\nhint: check whether"),
        (["-"], TWO.replace(b"3 4", b"-3 4"), 65, "stdin: factor 0: value 2 is -3, but must be finite and not negative"),
        (["-", "--observe", "x0=0.5,0.6"], TWO, 65, "stdin: the marginal of x0 sums to 1.1, not to 1"),
        (["-", "--observe", "x0=0.5"], TWO, 65, "stdin: --observe 'x0=0.5' has 1 values, but x0 has 2 states"),
        (["-", "--observe", "x9=0.5,0.5"], TWO, 65, "stdin: there is no variable 9: the network has 2, numbered 0 to 1"),
        (["-", "--observe", "x0"], TWO, 2, "--observe 'x0' is not of the form NAME=NUMBER,NUMBER…"),
        (["-", "--evidence", "-"], TWO, 2, "stdin can be read only once"),
        (["-"], b"", 66, "nothing arrived on stdin"),
        (["none.uai"], b"", 66, "none.uai: there is no such file"),
    ],
)  # fmt: skip
def test_bad_input(herd, arguments, stdin, code, message):
    ended = herd("ups-infer", *arguments, stdin=stdin)
    assert ended.code == code, ended.err
    assert message in ended.err
    assert ended.out == b""


def test_evidence_of_probability_zero_is_a_negative_result(herd, tmp_path):
    (tmp_path / "zero.uai").write_bytes(TWO.replace(b"1 2 3 4", b"0 2 3 4"))
    (tmp_path / "zero.evid").write_bytes(b"2 0 0 1 0")
    ended = herd("ups-infer", "zero.uai", "--evidence", "zero.evid")
    assert ended.code == 1
    assert "the evidence has probability 0: the network excludes x0=0, x1=0" in ended.err


def test_trees_beyond_memory_are_refused_by_name(shell):
    ended = shell("herd network grid --grid-rows 40 --grid-columns 40 | herd ups-infer --algorithm junction-tree --max-memory 1G")
    assert ended.code == 65
    assert "stdin: the junction tree, treewidth " in ended.err
    assert "more than the 1 GB allowed" in ended.err


def test_a_data_set_is_no_network(herd, small):
    assert "is of kind dataset, but must be of kind network" in herd("ups-infer", small).err


def test_propagation_that_fails_names_ups(shell):
    made = "herd network grid --rows 10 --columns 10 --sigma-w 5 --seed 2 | herd ups-infer --algorithm bp --iterations 40"
    warned = shell(f"{made} --format pr")
    assert warned.code == 0
    assert "ups-infer: warning: bp did not converge in 40 iterations: the residual is " in warned.err
    assert "use --algorithm ups, whose free energy falls in every iteration; --on-nonconvergence error exits with code 1" in warned.err
    assert "100 variables, bp, not converged, log Z " in warned.err
    refused = shell(f"{made} --on-nonconvergence error")
    assert (refused.code, refused.out) == (1, b"")
    assert "hint: use --algorithm ups, whose free energy falls in every iteration\n" in refused.err


def test_observed_marginals_travel_with_the_network(shell):
    made = "herd network grid --observe border --sigma-alpha 2 --seed 3"
    done = shell(f"{made} | herd ups-infer --algorithm ups --format mar && {made} | herd ups-infer --algorithm loopy-is --format mar")
    first, second = ([float(word) for word in line.split()[1:]] for line in done.out.decode().split("MAR")[1:])
    assert len(first) == len(second) == 25 * 3
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) < 1e-7
    refused = shell(f"{made} | herd ups-infer --algorithm bp")
    assert refused.code == 2
    assert "--algorithm bp does not work with observed marginals" in refused.err
    assert shell(f"{made} | herd ups-infer --algorithm bp --ignore-observed --format pr").code == 0


def test_options_without_effect_are_told(shell):
    done = shell("herd network tree | herd ups-infer --algorithm junction-tree --clamp rows --tolerance 1e-3 --format pr")
    assert "warning: --clamp has no effect with --algorithm junction-tree" in done.err
    assert "warning: --tolerance has no effect with --algorithm junction-tree" in done.err
    clash = shell("herd network tree | herd ups-infer --algorithm bp --schedule residual --damping 0.5")
    assert clash.code == 2
    assert "--schedule residual does not work with damping" in clash.err


def test_damping_that_rises_while_propagation_does_not_converge(shell):
    made = "herd network grid --sigma-w 4 --observe border --sigma-alpha 0.3 --seed 4 | herd ups-infer --format mar"
    run = f"{made} --algorithm loopy-is --schedule parallel --damping-kind linear --iterations 400 --tolerance 1e-6"
    plain = shell(f"{run} --damping-schedule 0")
    assert "did not converge in 400 iterations" in plain.err
    done = shell(f"{run} --damping-schedule 0,0.5 && {made} --algorithm ups")
    assert "converge" not in done.err
    damped, ups = ([float(word) for word in line.split()] for line in done.out.decode().split("MAR")[1:])
    assert max(abs(a - b) for a, b in zip(damped, ups, strict=True)) < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("0,0.5 --damping 0.1", "--damping and --damping-schedule exclude each other"),
        ("0,1", "Invalid value for '--damping-schedule': '0,1' is not a list of shares from 0 to below 1, such as 0,0.5,0.9"),
        ("0,nan", "'0,nan' is not a list of shares"),
        ("0.5 --schedule checkerboard", "--schedule checkerboard does not work with damping"),
    ],
)
def test_damping_schedules_that_are_refused(shell, options, message):
    ended = shell(f"herd network grid --rows 2 --columns 2 | herd ups-infer --algorithm bp --damping-schedule {options}")
    assert ended.code == 2
    assert message in ended.err


def test_regions_restarts_and_clamp_sets(shell, tmp_path):
    (tmp_path / "sets.txt").write_text("x1 x3 x5 x7\nx0 x4 x8\n")
    made = "herd network grid --rows 3 --columns 3 --sigma-w 2 -o g.h5"
    run = "herd ups-infer g.h5 --format pr --algorithm"
    done = shell(
        f"{made} && {run} double-loop --regions plaquettes && {run} ups --clamp sets.txt --iterations 3000 && {run} ups --restarts 3"
    )
    assert done.code == 0, done.err
    assert "4 outer regions of at most 4 variables, 5 inner ones" in done.err
    assert "4 starts; free energies of the distinct fixed points found: -" in done.err
    kikuchi, by_hand, restarted = (float(line) for line in done.out.decode().split() if line != "PR")
    assert by_hand == pytest.approx(restarted, abs=1e-8)
    assert kikuchi != pytest.approx(restarted, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--algorithm ups --clamp none.txt", 66, "none.txt: there is no such file"),
        ("--algorithm ups --clamp bad.txt", 65, "bad.txt: there is no variable 'y1'"),
        ("--algorithm ups --restarts 2 --checkpoint c", 2, "--restarts does not work with --checkpoint"),
        ("--algorithm bp --schedule checkerboard --restarts 2", 2, "--schedule checkerboard does not work with --restarts"),
        ("--algorithm bp --regions plaquettes", 0, "warning: --regions has no effect with --algorithm bp"),
        (
            "--algorithm gbp --regions plaquettes --iterations 20",
            0,
            "; use --damping 0.5, or --algorithm double-loop, which always converges",
        ),
    ],
)
def test_what_new_options_refuse(shell, tmp_path, options, code, message):
    (tmp_path / "bad.txt").write_text("x1 y1\n")
    ended = shell(f"herd network grid --rows 4 --columns 4 --sigma-w 1 | herd ups-infer {options} -o r.h5")
    assert ended.code == code, ended.err
    assert message in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--checkpoint c", "--algorithm auto does not work with --checkpoint\nhint: choose an algorithm, such as --algorithm gibbs\n"),
        ("--query mpe --shard 1/2", "--query mpe asks one question, so it does not work with --evidence-rows, --restarts and --shard\n"),
        ("--slices filtering --evidence-rows r.csv --checkpoint c", "--slices does not work with --checkpoint and --shard\n"),
        ("--slices filtering --evidence-rows r.csv --shard 1/2", "--slices does not work with --checkpoint and --shard\n"),
        (
            "--algorithm bp --query log-z",
            "--query log-z is exact, but --algorithm bp is not\nhint: --algorithm bp --format pr gives its log Z\n",
        ),
    ],
)
def test_contradictions_are_refused_before_the_network_is_read(herd, options, message):
    ended = herd("ups-infer", "none.uai", *options.split())
    assert (ended.code, ended.err) == (2, f"herd ups-infer: {message}")


def test_options_without_effect_on_marginals_are_told(herd):
    ended = herd("ups-infer", "--search-steps", "3", "--bucket-cells", "9", "--format", "pr", stdin=b"MARKOV\n1\n2\n1\n1 0\n2\n1 2\n")
    assert ended.err.count("has no effect with --query marginals") == 2


def test_larger_factors_are_told(herd):
    three = b"MARKOV\n3\n2 2 2\n1\n3 0 1 2\n8\n1 2 3 4 5 6 7 0\n"
    ended = herd("ups-infer", "--algorithm", "ups", "--format", "pr", stdin=three)
    assert ended.code == 0
    assert "one factor over three variables or more became an auxiliary node (Weiss & Freeman 2001)" in ended.err
    assert float(ended.out.split()[1]) == pytest.approx(1.4471580313422192, abs=1e-14)


def test_errors_against_a_reference(shell, tmp_path):
    made = "herd network grid --sigma-w 2 -o g.h5 && herd ups-infer g.h5 --algorithm bp -o bp.h5"
    judged = [f"herd eval {pair} --format json" for pair in ("bp.h5 --reference exact.h5", "bp.h5 --reference exact.mar",
                                                             "exact.h5 --reference exact.mar")]  # fmt: skip
    done = shell(" && ".join([made, "herd ups-infer g.h5 -o exact.h5", "herd ups-infer g.h5 -o exact.mar", *judged]))
    assert done.code == 0, done.err
    decoder, text, rows = json.JSONDecoder(), done.out.decode(), []
    while text.strip():
        (row,), end = decoder.raw_decode(text.lstrip())
        rows.append(row)
        text = text.lstrip()[end:]
    assert 1e-6 < rows[0]["marginal_error"] < rows[0]["marginal_error_max"] < 0.2
    assert rows[0]["marginal_l1"] == pytest.approx(2 * rows[0]["marginal_error"])
    assert rows[0]["log_z_error"] > 1e-6
    assert rows[1]["log_z_error"] is None
    assert rows[1]["marginal_error"] == rows[0]["marginal_error"]
    assert rows[2]["marginal_error_max"] == 0
    missed = shell("herd eval bp.h5 --reference exact.h5 --require 'marginal_error<1e-9'")
    assert missed.code == 1
    other = shell("herd network tree --nodes 3 | herd ups-infer | herd eval - --reference exact.mar")
    assert "has 3 variables, but the --reference has 25" in other.err


def test_auto_goes_on_where_a_candidate_fails_and_blames_no_zeros(herd, tmp_path):
    # Two leaves say that x100 is 0, two that it is 1, with odds of 1e600, which no float64 holds; the network is possible for all that.
    lattice = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=1.0)
    sure = np.array([[1e300, 1e-300], [1e300, 1e-300]])
    leaves = [((101 + k, 100), sure if k < 2 else sure[:, ::-1]) for k in range(4)]
    text = network_formats.write_uai(network.build_network([2] * 105, [*lattice.factors(), *leaves]))
    (tmp_path / "odds.uai").write_text(text)
    done = herd("ups-infer", "odds.uai", "--max-memory", "60k", "--format", "pr")
    assert done.code == 1
    told = [line for line in done.err.splitlines() if "auto: " in line]
    assert told[1] == "ups-infer: auto: gbp fails: gbp failed: the beliefs of a region became zero for all states"
    for name in ("bp", "ups"):
        assert (
            f"ups-infer: auto: {name} fails: the values of the factors over x100 and x101 differ by a factor of 10^600, too much "
            "for float64" in told
        )
    assert told[-1] == "herd ups-infer: auto: none of the algorithms gave an answer"
    assert "100 variables" not in done.err
    exact = herd("ups-infer", "odds.uai", "--format", "pr").out.split()
    assert float(exact[1]) > 0


def test_auto_says_what_it_chose_and_what_it_tried(shell):
    made = "herd network grid --rows 10 --columns 10 --sigma-w 5 --seed 2 -o g.h5 && herd ups-infer g.h5 --iterations 500 --tolerance 1e-3"
    done = shell(f"{made} --max-memory 50k --format pr")
    assert "auto: gbp, because the junction tree, treewidth " in done.err
    assert "auto: bp, to check the result of gbp, whose regions cover every loop once" in done.err
    assert "auto: gibbs" not in done.err
    assert re.search(r"auto: the answer is that of gbp; disagreement with the other answers: .*\(not converged\)", done.err)
    assert "100 variables, gbp, log Z 168.31" in done.err
    without = shell("herd ups-infer g.h5 --iterations 500 --tolerance 1e-3 --max-memory 50k --effort 0 --format pr")
    assert "auto: ups, because bp did not converge" in without.err, without.err
    assert "100 variables, ups, log Z 171.9" in without.err
    assert "auto: junction-tree, which is exact and fits into the allowed memory" in shell("herd ups-infer g.h5 --format pr").err
    refused = shell("herd ups-infer g.h5 --algorithm gibbs --format pr")
    assert refused.code == 2
    assert "gibbs computes no log Z" in refused.err


def test_what_a_time_allowed_is_repeated_by_its_effort(shell, tmp_path):
    run = "herd ups-infer g.h5 --max-memory 50k --iterations 80 --burn-in 20 --sweeps 100"
    done = shell(f"herd network grid --rows 10 --columns 10 --sigma-w 5 -o g.h5 && {run} --time 0.5s -o timed.h5")
    told = re.search(r"auto: --effort (\S+) repeats this run, on any machine", done.err)
    assert told, done.err
    again = shell(f"{run} --effort {told[1]} -o again.h5")
    assert again.code == 0
    assert (tmp_path / "timed.h5").read_bytes() == (tmp_path / "again.h5").read_bytes()
    assert shell(f"{run} --time soon").err.splitlines()[0].endswith("'soon' is not a time, such as 20s or 5m")
    assert "warning: --time has no effect with --algorithm bp" in shell(f"{run} --algorithm bp --time 1s -o x.h5").err


def test_regions_from_a_file_and_of_cliques(shell, tmp_path):
    (tmp_path / "regions.txt").write_text("x0 x1 x3 x4\n1 2 4 5\n3 4 6 7\n4 5 7 8\n")
    run = "herd ups-infer g.h5 --algorithm gbp --damping 0.5 --iterations 2000 --format pr --regions"
    done = shell(f"herd network grid --rows 3 --columns 3 --sigma-w 6 -o g.h5; {run} regions.txt; {run} plaquettes; {run} cliques:4")
    given, plaquettes, cliques = (float(line) for line in done.out.decode().split() if line != "PR")
    assert given == plaquettes
    exact = float(shell("herd ups-infer g.h5 --format pr").out.split()[1])
    assert abs(cliques - exact) < 1e-8 < 1e-7 < abs(plaquettes - exact)
    assert shell(f"{run} cliques:1").err.startswith("herd ups-infer: --regions cliques:1 needs a number of variables, 2 or more")
    assert "none.txt: there is no such file" in shell(f"{run} none.txt").err


def test_saving_checkpoints_changes_nothing(shell, tmp_path):
    run = "herd ups-infer g.h5 --algorithm gibbs --sweeps 300 --burn-in 10"
    done = shell(f"herd network grid -o g.h5 && {run} -o a.h5 && {run} --checkpoint c --every 100 -o b.h5")
    assert done.code == 0, done.err
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_tap_outside_plefkas_range_is_told(shell):
    made = "herd network grid --rows 6 --columns 6 --seed 1 --sigma-w"
    far = shell(f"{made} 6 | herd ups-infer --algorithm tap --damping 0.5 --format pr")
    assert far.code == 0
    assert "warning: tap is not valid for this network: the largest Σ_j W_ij² (m_j(1 − m_j))² is " in far.err
    assert "warning: tap" not in shell(f"{made} 0.3 | herd ups-infer --algorithm tap --format pr").err


def test_a_refusal_under_evidence_names_the_network(shell, tmp_path):
    (tmp_path / "e").write_text("1 0 1")
    made = "herd network grid --rows 29 --columns 29 -o g.h5 && herd ups-infer g.h5 --evidence e --algorithm"
    for algorithm in ("junction-tree --max-memory 1G", "frontier", "enumerate"):
        ended = shell(f"{made} {algorithm}")
        assert ended.code == 65
        assert "ups-infer: g.h5: " in ended.err, ended.err
    (tmp_path / "e").write_text("1 0 2")
    ended = shell(f"{made} junction-tree")
    assert (ended.code, "ups-infer: e: the evidence gives x0 the state 2, but its states are 0 to 1" in ended.err) == (65, True), ended.err


def test_a_dry_run_tells_the_memory_of_the_junction_tree(shell):
    """2^43 cells are told without being made, and nothing is written."""
    told = shell("herd network grid --grid-rows 40 --grid-columns 40 | herd ups-infer --algorithm junction-tree --dry-run")
    assert (told.code, told.err.count("warning")) == (0, 0)
    assert re.match(r"junction-tree: (at most )?\d+ steps, about ", told.out.decode())
    assert told.out.decode().endswith(" TB of memory\n"), told.out


@pytest.mark.parametrize(("name", "begins"), [("m.mar", b"MAR\n25 2 0."), ("m.pr", b"PR\n")])
def test_a_text_ends_the_run_as_an_artifact_does(herd, shell, tmp_path, name, begins):
    run = ["ups-infer", "g.h5", "--algorithm", "bp", "--schedule", "sequential", "--checkpoint", "c.h5", "--every", "1", "-o", name]
    assert shell("herd network grid -o g.h5").code == 0
    ended = herd(*run)
    assert (ended.code, (tmp_path / "c.h5").exists()) == (0, False)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert herd(*run, "-n").code == 73


def test_options_know_the_algorithms_of_the_table_alone():
    from herdcli.cli.ups_infer.request import AUTO, USERS
    from herdcli.markov.algorithms.table import TABLE

    assert {name for users in USERS.values() for name in users} == {AUTO, *TABLE}
    assert {option for entry in TABLE.values() for option in entry.reads} <= USERS.keys()


def test_marginals_of_variables_alone(shell, tmp_path):
    shell("herd network grid --rows 3 --columns 4 -o g.h5; herd network grid --grid-rows 30 --grid-columns 40 -o l.h5")
    for name, options in (("g", "--algorithm ups"), ("l", "--algorithm bp")):
        shell(f"herd ups-infer {name}.h5 {options} -o all.h5; herd ups-infer {name}.h5 {options} --output-marginals nodes -o nodes.h5")
        whole, short = (load_beliefs(tmp_path / part) for part in ("all.h5", "nodes.h5"))
        assert np.array_equal(whole.node, short.node)
        assert (len(short.clique), len(short.clique_offset)) == (0, 1)
        assert len(whole.clique) > 1000 * (name == "l")
    shell("herd info nodes.h5; herd eval nodes.h5 --reference all.h5")


def load_beliefs(path):
    return artifacts.load(str(path)).value


def test_auto_goes_on_where_regions_or_chains_take_too_much_memory(herd):
    assert herd("network", "random", "--nodes", "20", "--mean-degree", "8", "--sigma-w", "1", "-o", "r.h5").code == 0
    run = herd("ups-infer", "r.h5", "--max-memory", "40k", "--effort", "20", "--format", "mar")
    assert run.code == 0, run.err
    assert run.err.count("auto: gbp fails: the beliefs of the regions would take 160 kB, more than the 40 kB allowed\n") == 1
    assert "gbp fails" not in run.err.replace("gbp fails", "", 1)
    assert "auto: bp, because gbp gave no answer\n" in run.err
    assert "auto: tempered-gibbs, because no other algorithm confirms bp\n" in run.err
    assert "auto: the answer is that of tempered-gibbs; " in run.err
    less = herd("ups-infer", "r.h5", "--max-memory", "30k", "--effort", "20", "--format", "mar")
    assert less.code == 0, less.err
    assert less.err.count("auto: tempered-gibbs fails: the counts of the chains would take 30.7 kB, more than the 30 kB allowed\n") == 1
    refused = herd("ups-infer", "r.h5", "--max-memory", "8k", "--format", "mar")
    assert refused.code == 65
    assert "r.h5: the beliefs would take 12.2 kB, more than the 8 kB allowed\n" in refused.err


def test_a_dry_run_tells_the_steps_that_propagation_is_likely_to_take(herd, tmp_path):
    """After as many as show how the residual falls, not the 1,000 that there may be."""
    assert herd("network", "grid", "--grid-rows", "8", "--grid-columns", "8", "-o", "g.h5").code == 0
    script = (
        "import sys; import herdcli.cli.frame.run.dry_run as s; s.TRIAL_SECONDS, s.TRIAL_STEPS = 0.0, 6; "
        "from herdcli.cli.main import main; sys.argv = 'herd ups-infer g.h5 --algorithm bp --schedule parallel --dry-run'.split(); main()"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    likely = re.match(r"bp: likely (\d+) steps, about ", told)
    assert likely, told
    given = random_networks.generate_random_network("grid", rows=8, columns=8)
    made = algorithms.make_inference_method(given, InferenceSettings(algorithm="bp", schedule="parallel"))
    taken = iterate.run_steps(made.step, made.init(), until=made.done).step
    assert int(likely[1]) == pytest.approx(taken, rel=0.4)


def seconds(told: str) -> float:
    """Those that a dry run tells."""
    return float(re.search(r"about (\S+) s and ", told)[1])


def steps(told: str) -> int:
    """Those that a dry run tells."""
    return int(re.search(r"(\d+) steps, ", told)[1])


def test_a_dry_run_of_auto_counts_all_that_it_will_try(herd):
    """Regions, propagation and both runs of chains; what --effort leaves to these takes most of the time."""
    assert herd("network", "grid", "--grid-rows", "12", "--grid-columns", "12", "--sigma-w", "5", "-o", "g.h5").code == 0
    line = ["ups-infer", "g.h5", "--max-memory", "400k", "--effort", "20"]
    planned, made = (herd(*line, *more) for more in (["--dry-run"], ["--format", "mar"]))
    assert (planned.code, made.code) == (0, 0), made.err
    told = planned.out.decode()
    assert re.match(r"gbp, bp, (tree-ep, )?tempered-gibbs: (at most |likely )?\d+ steps, about ", told), told
    longer = herd(*line[:-1], "2000", "--dry-run").out.decode()
    assert steps(longer) > 10 * steps(told)
    assert seconds(longer) > seconds(told)


def test_a_dry_run_of_auto_refuses_as_the_run_does(herd):
    assert herd("network", "random", "--nodes", "20", "--mean-degree", "8", "--sigma-w", "1", "-o", "r.h5").code == 0
    planned = herd("ups-infer", "r.h5", "--max-memory", "40k", "--effort", "20", "--dry-run")
    assert (planned.code, planned.out.decode().split(":")[0]) == (0, "bp, tempered-gibbs"), planned.err
    made = herd("ups-infer", "r.h5", "--max-memory", "40k", "--effort", "20", "--format", "mar")
    assert "auto: gbp fails: " in made.err  # after its steps, which count
    assert steps(planned.out.decode()) > steps(herd("ups-infer", "r.h5", "--algorithm", "bp", "--dry-run").out.decode()) + 300
    refused = herd("ups-infer", "r.h5", "--max-memory", "8k", "--dry-run")
    assert (refused.code, refused.out) == (65, b"")
    assert "r.h5: the beliefs would take 12.2 kB, more than the 8 kB allowed\n" in refused.err


def test_chains_that_disagree_are_advised_more_of_them(herd):
    """Neither another algorithm's free energy nor iterations help: sweeps do."""
    assert herd("network", "grid", "--grid-rows", "6", "--grid-columns", "6", "--sigma-w", "4", "-o", "g.h5").code == 0
    ended = herd("ups-infer", "g.h5", "--algorithm", "gibbs", "--sweeps", "16", "--burn-in", "0", "-o", "m.h5")
    assert "; raise --sweeps, or use --algorithm tempered-gibbs; --on-nonconvergence error exits with code 1\n" in ended.err
    verdict = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]["verdict"]
    assert verdict == "inaccurate marginals; chains disagree; sampling error"


@pytest.mark.parametrize(
    ("algorithm", "told"), [("gibbs", "sampling error"), ("tempered-gibbs", "sampling error"), ("bp", "inconsistent marginals")]
)
def test_marginals_of_draws_that_are_not_those_of_their_factors_are_a_sampling_error(algorithm, told):
    made = SimpleNamespace(algorithm=algorithm, warnings=None)
    row = {"converged": 1, "consistency_gap": 0.02}
    for value in (made, SimpleNamespace(beliefs=made)):
        assert verdicts.verdict_text("beliefs", row, value) == told
        assert verdicts.verdict_text("beliefs", row | {"consistency_gap": 0.001}, value) == "ok"
    advice = verdicts.verdict_sentence(told, row, "beliefs")
    assert ("--algorithm ups" in advice, "more --effort" in advice) == (algorithm == "bp", algorithm != "bp")


def test_tables_marked_bayes_that_are_no_distributions_are_told(herd, tmp_path):
    text = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n.5 .5\n4\n.3 .6 1 0\n"
    (tmp_path / "n.uai").write_text(text)
    ended = herd("ups-infer", "n.uai", "--format", "pr")
    told = "n.uai: is marked BAYES, but a row of factor 1 sums to 0.9, not to 1: its factors are multiplied as in a MARKOV file"
    assert (ended.code, ended.err.count(f"warning: {told}\n")) == (0, 1), ended.err
    assert 10 ** float(ended.out.split()[1]) == pytest.approx(0.95)
    assert herd("network", "convert", "n.uai", "--format", "uai").out.startswith(b"MARKOV\n")
    (tmp_path / "n.uai").write_text(text.replace(".3 .6", ".3 .7"))
    good = herd("network", "convert", "n.uai", "--format", "uai")
    assert (good.out.startswith(b"BAYES\n"), "warning" in good.err) == (True, False)


def test_an_approximation_that_is_off_is_told_by_the_run_and_by_the_file(herd, tmp_path):
    """Three units that differ from each other and a field: the Bethe approximation is far off; the file keeps what the run warned of."""
    unlike, field = "1 20 20 1", "1 3"
    pairs = "".join(f"\n4\n {unlike}\n" for _ in range(3))
    (tmp_path / "n.uai").write_text(f"MARKOV\n3\n2 2 2\n4\n1 0\n2 0 1\n2 1 2\n2 0 2\n\n2\n {field}\n{pairs}")
    ended = herd("ups-infer", "n.uai", "--algorithm", "mean-field", "-o", "m.h5")
    assert ended.code == 0
    assert "warning: a marginal is wrong by about 0." in ended.err
    assert "(by exact inference); use --algorithm junction-tree, which is affordable and exact\n" in ended.err
    row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    assert row["verdict"] == "inaccurate marginals"
    assert (row["exact_cells"], row["log_z_lower"] <= row["log_z_upper"]) == (8, True)
    herd("ups-infer", "n.uai", "-o", "e.h5")
    compared = json.loads(herd("eval", "m.h5", "--reference", "e.h5", "--format", "json").out)[0]
    assert compared["marginal_error_max"] == pytest.approx(row["estimated_error"], rel=1e-9)
    kept = artifacts.load(str(tmp_path / "m.h5")).value.warnings
    assert kept[0].startswith("a marginal is wrong by about 0.")


def test_a_good_approximation_says_only_that_exact_inference_is_affordable(herd, tmp_path):
    (tmp_path / "n.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 1 2 3 4\n")
    ended = herd("ups-infer", "n.uai", "--algorithm", "bp", "-o", "m.h5")
    assert "exact inference is affordable here: --algorithm junction-tree needs 4 table cells\n" in ended.err
    row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    assert row["verdict"] == "ok"
    assert row["estimated_error"] < 1e-9
    assert row["log_z"] == pytest.approx(row["log_z_upper"], abs=1e-9)


def test_tap_outside_its_range_is_not_reliable_in_its_file_either():
    made = SimpleNamespace(algorithm="tap", warnings=["tap is outside Plefka's range"])
    fixed, above = {"converged": 1, "consistency_gap": 0.0}, {"converged": 1, "log_z": 3.0, "log_z_upper": 1.0}
    assert verdicts.beliefs_findings(fixed, made) == ["not reliable"]
    assert verdicts.beliefs_findings(fixed | {"estimated_error": 0.001}, made) == []
    assert verdicts.beliefs_findings(above, made) == ["log Z above its bound"]
    assert verdicts.beliefs_findings(above | {"converged": 0, "estimated_error": 0.2}, made) == [
        "log Z above its bound", "inaccurate marginals", "not converged",
    ]  # fmt: skip
    assert verdicts.beliefs_findings(above, SimpleNamespace(algorithm="tree-reweighted", warnings=None)) == []
    for by, error, findings in (
        ("exact inference", 0.005, []), ("exact inference", 0.02, ["not converged"]), ("short chains", 0.005, ["not converged"]),
    ):  # fmt: skip
        stopped = SimpleNamespace(algorithm="bp", warnings=None, estimated_by=by)
        assert verdicts.beliefs_findings({"converged": 0, "estimated_error": error}, stopped) == findings
