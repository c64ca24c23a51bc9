"""The papers' figures: `make results` knows every stage, and what is committed agrees with scripts/papers/expected.toml."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.datasets import registry

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
TABLE = "method,t,error\nours,1,0.5\nours,2,0.25\ntheirs,1,0.4\n"
CLAIM = """
[[paper]]
name = "A"
title = "A (2000)"
[[paper.claim]]
figure = "fig. 1"
claim = "ours wins"
here = "{ours:.0%}"
verdict = "reproduced"
file = "fig1.csv"
read.ours = { where = { method = "ours" }, value = "error", over = "min" }
read.theirs = { where = { method = "theirs", t = "<= 1" }, value = "error" }
holds = ["ours < theirs"]
ours.ours = [0.25, 0.01]
quick.holds = ["ours < 2 * theirs"]
"""
NAME = "A, fig. 1, 'ours wins'"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))} | {
    "LC_ALL": "C"
}  # not of `make test`


@pytest.fixture
def script(monkeypatch):
    """A module of scripts/."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module


@pytest.fixture
def check(script, monkeypatch, capsys, tmp_path):
    """`papers/check_results.py ARGUMENTS` of results with one table: exit code, stdout, stderr lines."""
    module = script("papers.check_results")
    results, expected = tmp_path / "results", tmp_path / "expected.toml"
    results.mkdir()
    (results / "fig1.csv").write_text(TABLE)

    def run(*arguments: str, claim: str = CLAIM):
        expected.write_text('intro = "# Claims"\n' + claim)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(sys, "argv", ["check_results.py", "--expected", str(expected), "results", *arguments])
        code = module.main()
        out, err = capsys.readouterr()
        return code, out, err.splitlines()

    return run


def test_the_committed_results_are_what_is_expected():
    ended = subprocess.run(
        [sys.executable, SCRIPTS, "papers/check_results", "results"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("; 0 missed\n")


def test_a_claim_that_holds(check, tmp_path):
    assert check("--write")[0] == 0
    assert "| fig. 1 | ours wins |  | 25 % | yes |" in (tmp_path / "results" / "README.md").read_text()
    code, out, err = check()
    assert (code, err) == (0, [])
    assert out.splitlines()[-1] == "1 claims: 1 reproduced; 0 missed"


def test_a_tampered_table(check, tmp_path):
    (tmp_path / "results" / "fig1.csv").write_text(TABLE.replace("0.25", "0.45"))
    assert check()[::2] == (1, [f"{NAME}: ours < theirs does not hold: 0.45 < 0.4", f"{NAME}: ours is 0.45, not 0.25 ± 0.01"])
    assert check("--quick")[::2] == (0, [])  # 2 * theirs


def test_a_table_that_is_missing(check, tmp_path):
    (tmp_path / "results" / "fig1.csv").unlink()
    assert check()[::2] == (1, [f"{NAME}: results/fig1.csv is missing: make results/fig1.csv"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("theirs,1,0.4\n", "", "results/fig1.csv has no row with method = theirs and t = <= 1"),
        ("theirs,1,0.4\n", "theirs,1,0.4\ntheirs,0,0.4\n", "results/fig1.csv has 2 rows with method = theirs and t = <= 1"),
        ("theirs,1,0.4", "theirs,1,", "results/fig1.csv has rows without a number in 'error' where method = theirs and t = <= 1"),
        ("method,t,error", "method,t,mistakes", "results/fig1.csv has no column 'error'"),
    ],
)
def test_a_table_without_what_is_looked_for(check, tmp_path, old, new, message):
    (tmp_path / "results" / "fig1.csv").write_text(TABLE.replace(old, new))
    assert check()[::2] == (1, [f"{NAME}: {message}"])


def test_a_negative_result_that_has_become_positive(check):
    claim = CLAIM.replace('"reproduced"', '"not"\nreason = "runs"\nwhy = "one run"').replace("holds = [", "fails = [", 1)
    assert check(claim=claim)[::2] == (1, [f"{NAME}: ours < theirs holds now (0.25 < 0.4), so the verdict 'not' is out of date"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "verdict =",
            "verdickt =",
            "unknown key 'verdickt' (known: claim, fails, figure, file, here, holds, lacks, ours, printed, quick, read, ",
        ),
        ('"reproduced"', '"sure"', "unknown verdict 'sure' (known: reproduced, partly, not, not run)"),
        ('"reproduced"', '"partly"', "the verdict 'partly' does not follow from holds, fails, lacks and tested"),
        ('"reproduced"', '"reproduced"\nwhy = "luck"', "reason and why are for claims that are not reproduced"),
        ('"reproduced"', '"partly"\nlacks = "all"', "needs why, and a reason (general, data, runs, set-up)"),
        ('"reproduced"', '"partly"\nlacks = "all"\nwhy = "so"\nreason = "luck"', "needs why, and a reason (general, data, runs, set-up)"),
        ('over = "min"', 'over = "mode"', "unknown over 'mode' (known: mean, median, min, max, sum, count)"),
        ("where = { method", "were = { method", "unknown key 'were' (known: file, over, value, where)"),
    ],
)
def test_mistakes_in_what_is_expected(check, old, new, message):
    code, _, (line,) = check(claim=CLAIM.replace(old, new, 1))
    assert code == 2
    assert line.startswith(f"expected.toml: {NAME}: {message}")


def test_a_claim_that_is_not_reproduced_ends_with_its_reason(check, tmp_path):
    claim = CLAIM.replace('"reproduced"', '"partly"\nlacks = "one set"\nreason = "data"\nwhy = "the other is not public"')
    assert check("--write", claim=claim)[0] == 0
    line = "| fig. 1 | ours wins |  | 25 %; one set. *Other data:* the other is not public | partly |"
    assert line in (tmp_path / "results" / "README.md").read_text()


def test_a_paper_with_a_page_is_read_there_figure_by_figure(check, tmp_path):
    page = '[page.a]\ntitle = "A (2000): winning"\nintro = "A wins."\n'
    figure = '[[paper.figure]]\nname = "fig. 1"\nfiles = ["fig1.csv", "fig1.png"]\nrun = "one run"\nshows = "Errors."\n'
    in_words = CLAIM.split("[[paper.claim]]")[1].replace("fig. 1", "sec. 2").replace("ours wins", "ours wins always")
    claim = page + CLAIM.replace("[[paper.claim]]", 'page = "a"\n' + figure + "[[paper.claim]]") + "[[paper.claim]]" + in_words
    assert check("--write", claim=claim)[0] == 0
    text = (tmp_path / "results" / "a.md").read_text()
    parts = ["# A (2000): winning", "A wins.", "2 claims were judged. Holds: 2.", "## Figure 1", "Errors.", "![fig. 1: fig1](fig1.png)"]
    parts += ["* **Holds.** Ours wins.\n  Here: 25 %.", "## Claims in words", "* **Holds.** Sec. 2: ours wins always.\n  Here: 25 %."]
    assert [text.count(part) for part in parts] == [1] * len(parts)
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert "Make it with `make results/fig1.csv` (one run), and the numbers are in [fig1.csv](fig1.csv)." in text
    assert "| [A (2000): winning](a.md) | 2 | holds: 2 |" in (tmp_path / "results" / "README.md").read_text()
    (tmp_path / "results" / "a.md").write_text("# A\n")
    stale = "results/a.md is not what expected.toml and the tables say: python scripts papers/check_results --write"
    assert check(claim=claim)[::2] == (1, [stale])


def test_a_page_that_is_not_described(check):
    claim = CLAIM.replace("[[paper.claim]]", 'page = "b"\n[[paper.claim]]')
    assert check(claim=claim)[::2] == (2, ["expected.toml: A: there is no page 'b' (known: )"])


def test_a_name_that_no_quantity_has(check):
    claim = CLAIM.replace("ours < theirs", "hours < theirs")
    assert check(claim=claim)[::2] == (2, ["expected.toml: 'hours' in 'hours' is no quantity (known: ours, theirs)"])


def test_a_page_that_is_out_of_date(check, tmp_path):
    (tmp_path / "results" / "README.md").write_text("# Claims\n")
    message = "results/README.md is not what expected.toml and the tables say: python scripts papers/check_results --write"
    assert check()[::2] == (1, [message])


@pytest.mark.parametrize(
    ("text", "holds"),
    [("a < b", True), ("2 * a < b", False), ("a + b - 0.5 <= 2.5 < 3", True), ("b > a > 1", False), ("- a < 0", True), ("a >= a", True)],
)
def test_inequalities(script, text, holds):
    assert script("papers.check_results").inequality(text, {"a": 1.0, "b": 2.0})[0] is holds


def test_quantities(script, tmp_path):
    (tmp_path / "t.csv").write_text("kind,a,b\nx,1,2\nx,3,1\ny,5,5\n")

    def read(**spec):
        return script("papers.check_results").quantity(spec, "t.csv", tmp_path)

    assert read(where={"kind": "x"}, value=["a", "b"], over="mean") == 3.5
    assert read(where={"a": "> b"}, over="count") == 1
    assert read(where={"a": [1, 5], "kind": ["x", "y"]}, value="b", over="sum") == 7
    assert read(where={"a": 5.0}, value="b") == 5


def stages(target: str) -> dict[str, list[str]]:
    """Stage -> files, of `make -n TARGET` where nothing is there yet."""
    line = ["make", "-n", target, "RESULTS=none", "VENV=none"]
    shown = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^for file in (.*?); do cp none/(?:quick/)?work/([\w-]+)/", shown, re.MULTILINE)
    for name in re.findall(r"python scripts (\S+)", shown):
        assert (SCRIPTS / name).with_suffix(".py").exists(), name
    return {stage: files.split() for files, stage in found}


def test_make_knows_every_stage_and_each_file_has_one():
    text = (ROOT / "results.mk").read_text()
    wanted = set(re.findall(r"^STAGES \+= ([\w-]+)$", text, re.MULTILINE)) | {f"bach-fig{number}" for number in (3, 4, 5, 6, 7)}
    wanted |= {f"claims-{topic}" for topic in ("herding", "inference", "learning", "faces", "ica", "kernel", "scaling")}
    made, quick = stages("results-stages"), stages("quick-stages")
    assert len(wanted) == 32
    assert set(made) == set(quick) == wanted
    files = [file for stage in made.values() for file in stage]
    assert len(files) == len(set(files))
    assert all(set(quick[stage]) <= set(made[stage]) for stage in wanted)
    expected = tomllib.loads((SCRIPTS / "papers" / "expected.toml").read_text(encoding="utf-8"))
    listed = {file for paper in expected["paper"] for figure in paper.get("figure", []) for file in figure["files"]}
    assert listed == set(files)
    assert not [file for file in files if not (ROOT / "results" / file).exists()]


def test_every_paper_is_looked_at_by_the_quick_run():
    expected = tomllib.loads((SCRIPTS / "papers" / "expected.toml").read_text(encoding="utf-8"))
    for paper in expected["paper"]:
        claims = paper.get("claim", [])
        assert not claims or any("quick" in claim for claim in claims), paper["name"]


def test_a_stage_that_fails_leaves_nothing_and_one_that_is_done_is_not_run_again(tmp_path):
    scripts = tmp_path / "bin"
    scripts.mkdir()
    (tmp_path / "venv").mkdir()
    for stamp in ("installed", "installed-dev"):
        (tmp_path / "venv" / stamp).touch()
    python = scripts / "python"

    def make(body: str, *options: str) -> tuple[int, str]:
        """`make` of fig. 1's table with this in the place of its script ($2 is its folder)."""
        python.write_text(f'#!/bin/sh\ncase "$1" in *shared/real_data.py) exit 0;; esac\n{body}\n')
        python.chmod(0o755)
        line = ["make", f"{tmp_path}/out/herding-fig1.csv", f"RESULTS={tmp_path}/out", f"VENV={tmp_path}/venv", f"BIN={scripts}", *options]
        ended = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout

    assert make('echo half > "$3"/herding-fig1.csv; exit 1')[0] == 2
    assert not list((tmp_path / "out").glob("herding*"))
    assert make('echo whole > "$3"/herding-fig1.csv; echo picture > "$3"/herding-fig1.png')[0] == 0
    whole = {"herding-fig1.csv": "whole\n", "herding-fig1.png": "picture\n"}
    assert {path.name: path.read_text() for path in (tmp_path / "out").glob("*.*")} == whole
    script = ("-W", "scripts/papers/fig1_tipi.py")  # as if it were changed
    assert make('echo half > "$3"/herding-fig1.csv; exit 1', *script)[0] == 2
    assert {path.name: path.read_text() for path in (tmp_path / "out").glob("*.*")} == whole
    assert make("exit 1") == (0, f"make: '{tmp_path}/out/herding-fig1.csv' is up to date.\n")


def test_a_missing_data_set_is_named_with_its_source(tmp_path):
    ended = subprocess.run(
        [sys.executable, SCRIPTS, "shared/real_data", "usps_all.h5"],
        env=os.environ | {"HERD_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"{tmp_path}/usps_all.h5 is missing: herd data usps --accept-licence gets it, or set HERD_DATA to the folder that holds it\n"
    )


def test_every_data_set_has_a_source(script):
    text = (ROOT / "results.mk").read_text()
    named = {name for line in re.findall(r"(?:\.|-)data := (.*)", text) for name in line.split()}
    real_data = script("shared.real_data")
    assert named <= set(real_data.NAMES)
    assert {real_data.NAMES[name].name for name in named} == {entry.name for entry in registry.datasets_for_results()}


def test_stages_without_their_data_are_left_out_by_name(script, monkeypatch, tmp_path, capsys):
    """And those that read their tables."""
    module = script("papers.stages_without_data")
    monkeypatch.setattr(module, "is_there", lambda name: name not in {"yale64.h5", "spambase.h5"})
    files, data, needs = module.described("quick", Path("none"))
    reasons = module.left_out(files, data, needs)
    assert {name for name in reasons if "yale64.h5" in reasons[name]} == {"faces", "claims-faces"}
    assert reasons["faces"] == "yale64.h5 is not there: herd data yale --accept-licence"
    assert reasons["nherd-fig4-5"] == "it reads tables of nherd"
    assert set(reasons) == {"faces", "claims-faces", "nherd", "nherd-fig4-5", "league-sides", "league"}
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "described", lambda kind, folder: ({"faces": ["none/quick/faces/errors.csv"]}, data, {}))
    monkeypatch.setattr(module, "left_out", lambda *_: {"faces": "no data"})
    monkeypatch.setattr(sys, "argv", ["stages_without_data.py", "quick", "none", "--report"])
    (tmp_path / "none" / "quick").mkdir(parents=True)
    module.main()
    assert capsys.readouterr().out == "0 of 1 stages are done\nleft out: faces (no data)\n"
    assert (tmp_path / "none" / "quick" / "left-out.csv").read_text() == "file,stage,reason\nfaces/errors.csv,faces,no data\n"
    monkeypatch.setattr(module, "left_out", lambda *_: {})
    module.main()
    assert not (tmp_path / "none" / "quick" / "left-out.csv").exists()


def test_make_leaves_out_the_stages_that_it_is_told():
    line = ["make", "-n", "quick-stages", "WITHOUT=faces league", "RESULTS=none", "VENV=none"]
    shown = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    assert "scripts papers/fig_faces.py none" not in shown
    assert "scripts papers/fig_mrf.py none" in shown


def test_claims_of_tables_that_were_left_out_are_named_and_not_missed(check, tmp_path):
    (tmp_path / "results" / "fig1.csv").unlink()
    assert check("--quick")[0] == 1
    (tmp_path / "results" / "left-out.csv").write_text("file,stage,reason\nfig1.csv,fig1,usps_all.h5 is not there\n")
    code, out, err = check("--quick")
    assert (code, err) == (0, [])
    assert out.splitlines()[-2:] == [
        "1 claims not judged, because tables or programs are missing:",
        f"  {NAME}: fig1.csv: usps_all.h5 is not there",
    ]


def test_claims_about_programs_that_took_no_part_are_missed_in_full_results_alone(script, monkeypatch, tmp_path, capsys):
    module = script("papers.check_results")
    (tmp_path / "t.csv").write_text("task,contender,exact\nMAR,herd,3\n")
    spec = {"where": {"task": "MAR", "contender": "pyagrum"}, "value": "exact"}
    with pytest.raises(module.PeerMissing, match=r"^t\.csv: pyagrum did not take part; install it for this comparison$"):
        module.quantity(spec, "t.csv", tmp_path)
    claim = {"figure": "a", "claim": "b", "verdict": "reproduced", "file": "t.csv", "read": {"other": spec}, "holds": ["other > 0"]}
    paper = {"name": "League", "claim": [claim | {"quick": {"holds": ["other > 0"]}}]}
    assert module.report({"paper": [paper]}, tmp_path, quick=True) == 0
    assert module.report({"paper": [paper]}, tmp_path, quick=False) == 1
    assert "pyagrum did not take part" in capsys.readouterr().err


def test_references_of_networks_are_exact_and_compared_with_what_is_known(script, monkeypatch, tmp_path):
    module = script("checks.network_references")
    (tmp_path / "coin.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2 1.0 3.0\n")
    monkeypatch.setattr(module, "KNOWN", {"coin.uai": float(np.log(4)), "absent.uai": 0.0})
    monkeypatch.setattr(sys, "argv", ["network_references.py", str(tmp_path)])
    module.main()
    found = json.loads((tmp_path / "references.json").read_text())
    assert list(found) == ["coin.uai"]
    assert found["coin.uai"]["logZ"] == pytest.approx(np.log(4), abs=1e-12)
    np.testing.assert_allclose(found["coin.uai"]["marg"], [[0.25, 0.75]], atol=1e-12)
    monkeypatch.setattr(module, "KNOWN", {"coin.uai": 1.0})
    monkeypatch.setattr(sys, "argv", ["network_references.py", str(tmp_path), "--again"])
    with pytest.raises(SystemExit, match=r"coin.uai: log Z is 1.386294361, and 1 is known: the file is another one"):
        module.main()


def test_a_table_goes_on_where_it_was_left(script, tmp_path):
    table, done = tmp_path / "table.csv", []
    table.write_text("seed,algorithm,x\n0,a,1.5\n0,b,2.5\n1,a,3.5\n")

    def work(unit):
        done.append(unit["seed"])
        return [unit | {"algorithm": name, "x": 9.25} for name in "ab"]

    script("papers.fig_ups").gathered(table, [{"seed": seed} for seed in range(3)], 2, work)
    assert sorted(done) == [1, 2]
    assert table.read_text() == "seed,algorithm,x\n0,a,1.5\n0,b,2.5\n1,a,9.25\n1,b,9.25\n2,a,9.25\n2,b,9.25\n"


def test_a_command_that_fails_ends_the_script(script):
    pipeline = script("shared.figure_pipeline")
    assert pipeline.told("info", "none.h5", answers=(66,)) == (66, "herd info: none.h5: there is no such file\n")
    with pytest.raises(SystemExit, match=r"failed with exit code 66: herd info none\.h5$"):
        list(pipeline.side_by_side(lambda unit: [pipeline.told("info", unit["file"])], [{"file": "none.h5"}]))


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_forked_command_reads_writes_and_ends_as_one_of_its_own(script, monkeypatch, tmp_path, platform):
    commands = script("shared.forked_commands")
    monkeypatch.setattr(commands.sys, "platform", platform)
    rows = "a,b\n1,2\n3,4\n"
    assert commands.run(["convert", "-", "-q", "-o", "rows.h5"], tmp_path, rows) == (0, "", "")
    begun = len(commands._every)
    alone = subprocess.run([sys.executable, "-m", "herdcli", "info", "rows.h5"], cwd=tmp_path, capture_output=True, text=True, check=True)
    for _ in range(2):  # the second finds everything loaded
        assert commands.run(["info", "rows.h5"], tmp_path, errors=True) == (0, alone.stdout, alone.stderr)
    assert commands.run(["info", "none.h5"], tmp_path, errors=True) == (66, "", "herd info: none.h5: there is no such file\n")
    assert len(commands._every) == begun


def test_the_page_of_the_league_begins_with_what_is_lost(script):
    league = script("leagues.kernel")

    def row(method, mmd2, seconds):
        return {"set": "digits", "rows": 9, "atoms": 3, "method": method, "mmd2": mmd2, "seconds": seconds, "memory_mb": 1.0}

    found = [
        row(league.CHAMPIONS[0], 0.3, 2.0),
        row(league.CHAMPIONS[1], 0.2, 4.0),
        row("k-means", 0.1, 1.0),
        row("herd --refine 10", 0.05, 1),
    ]
    (first,) = league.firsts(found)
    assert (first["champion"], first["other"]) == (league.CHAMPIONS[1], "k-means")
    assert first["ratio"] == pytest.approx(2)
    lines = league.page(found, ["coreax"]).splitlines()
    assert "* digits, 3 atoms: k-means 0.1, herd --rule min-norm-point 0.2" in lines[: lines.index("## Everything")]
    assert "* digits: k-means 1.0 s; the faster champion 2.0 s" in lines
    assert "Not installed, and so not in the table: coreax." in lines
    assert "nowhere of 1." in league.page([*found[:2], row("k-means", 0.2, 1.0)], [])


def test_the_league_says_first_where_herd_is_behind(script, tmp_path):
    module = script("leagues.league_page")
    (tmp_path / "herding-fig3.csv").write_text(
        "column,error\nMLR,0.09\n1NN,0.05\nH1,0.02\nSH1,0.03\nCD1,0.025\nH2,0.02\nSH2,0.03\nCD2,0.01\n"
    )
    (tmp_path / "league-bench-hmm.txt").write_text("3.0 times as fast\n")
    page = module.page(tmp_path, tmp_path)
    assert "Behind in 1 of 2." in page
    behind, ahead = (line for line in page.splitlines() if line.startswith("- "))
    assert behind.startswith("- **behind**, USPS, 100 hidden units, 4 splits: CD-1 (`herd fit-rbm`) 1.00%, herding 2.00%")
    assert ahead.startswith("- ahead, USPS, 50 hidden units, 4 splits: herding 2.00%, CD-1 (`herd fit-rbm`) 2.50%")
    assert "## `herd kernel-herd`" not in page
    assert "| `herd em` | `scripts/bench/tables/hmm.py` | below |" in page
    assert page.count("3.0 times as fast") == 1


def test_sides_of_the_league_are_paired_draw_by_draw(script):
    page = script("leagues.pairs_page")

    def row(contender, draw, quality, seconds, package="herdcli"):
        told = {"task": "gmm", "asked": "minus nats a row", "set": "speech", "package": package, "version": "1.0", "settings": ""}
        return {**told, "contender": contender, "draw": draw, "quality": quality, "seconds": seconds, "mb": 100}

    ours = [row("herd em", draw, 10.0 + draw, 1.0) for draw in range(3)]
    theirs = [row("mixture", draw, 9.9 + draw + 0.01 * draw, 2.0, "scikit-learn") for draw in range(3)]
    broken = [row("glum", draw, "nan" if draw else 1.0, 0.1, "glum") for draw in range(3)]
    lines = page.first([*ours, *theirs, *broken])
    assert "In quality behind the best rival in 1 of 1:" in lines
    assert "- `herd em`, speech, minus nats a row: 11 against mixture 10.91, beyond twice the standard error" in lines
    assert "In time behind the best rival in 0 of 1:" in lines
    table = page.whole([*ours, *theirs, *broken])
    assert "| 10.91 | 0.583124 | 2.00 | 100 | mixture | scikit-learn 1.0 |" in table
    assert table[-1] == "| | | | | glum | failed in 2 of 3 draws; glum 1.0 |"


def test_rivals_measure_what_they_say(script):
    """Log Z of a machine of one hidden unit and the Amari distance of a permutation, by hand."""
    rivals = script("leagues.peer_programs")
    assert rivals.amari(np.array([[0.0, 2.0], [-3.0, 0.0]]), np.eye(2)) == 0
    assert rivals.amari(np.array([[1.0, 0.5], [0.0, 1.0]]), np.eye(2)) == pytest.approx(1.0)
    assert rivals.lengths(np.array([3, 3, 3, 1, 1, 7])) == [3, 2, 1]
    assert rivals.loss(np.array([0.5, 1.0]), np.array([1, 1])) == pytest.approx(np.log(2) / 2, abs=1e-12)


def test_intervals_of_claims_are_two_standard_errors(script):
    told = script("claims.claim_rows").told
    row = told("c", "s", "q", [1.0, 2.0, 3.0])
    assert (row["runs"], row["mean"], row["low"], row["high"]) == (3, 2.0, 2.0 - 2 / 3**0.5, 2.0 + 2 / 3**0.5)
    assert [told("c", "s", "q", 4.0)[name] for name in ("runs", "se", "low", "high")] == [1, 0.0, 4.0, 4.0]


MAKEFILE = """
stages:
	@echo 'results: one $(RESULTS)/one.csv'; echo 'results: two $(RESULTS)/two.csv'; echo 'quick: one $(RESULTS)/quick/one.csv'
$(RESULTS)/one.csv:
	printf 'a,b\\n1,2\\n3,4\\n' > $@
$(RESULTS)/two.csv:
	sleep 20
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_stage_that_is_made_again_and_is_recorded(script, monkeypatch, tmp_path, number):
    module = script("papers.rebuild_results")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "commit", lambda: "0" * 40)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    before = signal.getsignal(number)
    assert module.again(Path("again"), False, ["two", "one"], None) == 128 + number
    timer.join()
    rows = module.read_csv(tmp_path / "again" / "record.csv")
    assert [(row["stage"], row["end"]) for row in rows] == [("two", "stopped")]
    assert signal.getsignal(number) == before


def test_fields_that_differ_are_told_by_how_much(script):
    relative = script("papers.rebuild_results").relative
    assert relative("34.40672642020537", "34.40672642020539") == pytest.approx(6e-16, rel=0.1)
    assert [relative(*both) for both in (("1", "2"), ("0", "-3"), ("True", "1"), ("nan", "1"), ("", "1"))] == [0.5, 1, 1, 1, 1]


def test_results_made_again_are_recorded_and_compared(script, monkeypatch, tmp_path):
    module = script("papers.rebuild_results")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "one.csv").write_text("a,b\n1,2\n3,5\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run([*git, *words], check=True)
    folder = Path("again")
    assert module.again(folder, False, None, 0.3) == 0  # two is stopped, one is done
    rows = module.read_csv(tmp_path / folder / "record.csv")
    assert [(row["stage"], row["end"]) for row in rows] == [("one", "ended"), ("two", "stopped")]
    assert float(rows[1]["seconds"]) < 10
    page = module.page(folder)
    assert "1 of 2 stages of `make results` have ended; missing: two (begun)." in page
    assert "| one.csv | `b9485148546419a0` | differs in 1 of 4 fields (b), the largest by 0.2 of itself |" in page
    assert module.again(folder, False, ["one"], None) == 0  # nothing to do
    assert len(module.read_csv(tmp_path / folder / "record.csv")) == 2
    (tmp_path / "Makefile").write_text(MAKEFILE.replace("sleep 20", "exit 3"))
    with pytest.raises(SystemExit, match=r"files differ from the commit; commit or restore them first:\nM Makefile"):
        module.again(folder, False, None, None)
    subprocess.run([*git, "commit", "-q", "-am", "two"], check=True)
    with pytest.raises(SystemExit, match=r"again was begun with commit [0-9a-f]{40}, and this is [0-9a-f]{40}: name another folder"):
        module.again(folder, False, None, None)
    assert module.again(Path("other"), False, ["two"], None) == 1
    assert module.read_csv(tmp_path / "other" / "record.csv")[0]["end"] == "failed with exit code 2"
    with pytest.raises(SystemExit, match=r"there is no stage 'three' \(known: one, two\)"):
        module.again(Path("other"), False, ["three"], None)


def test_tasks_of_many_classes_have_no_rows_at_equal_C(script):
    """They are taught no passes for that table, and a count of nothing is no error of 0."""
    paper, tasks = script("papers.paper_nherd"), script("papers.nherd_tasks")
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = csr_matrix(np.eye(3)[y] + 0.1 * random.random((60, 3)))
    folds = [(np.arange(40), np.arange(40, 60))]
    for classes, expected in ((3, 0), (2, len(paper.GRID))):
        task = tasks.Task("three", "many", X, np.minimum(y, classes - 1), folds, classes)
        chosen, equal, _ = paper.run(task, 0.0)
        assert (len(chosen), len(equal)) == (len(paper.ALGORITHMS), expected)
