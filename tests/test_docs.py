"""The manual: what is generated is up to date, pipelines and job scripts run, links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import browser
import pytest

from herdcli.artifacts import file_locks

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOWTO = {
    "own-data": 2,
    "thinning": 3,
    "documents": 2,
    "bayesian-networks": 5,
    "sources": 2,
    "clusters-of-a-table": 3,
    "lecture": 6,
    "slurm": 1,
    "export": 1,
    "scikit-learn": 1,
    "vowpal-wabbit": 1,
    "networks": 3,
    "figures": 4,
}
PAGES = {"tutorial.md": 7, "cookbook.md": 14, "clusters.md": 7, "gallery.md": 8} | {
    f"howto/{name}.md": blocks for name, blocks in HOWTO.items()
}  # pages whose pipelines run, one after another in one folder


def recipes(page: str) -> list[str]:
    """The shell blocks of a page."""
    return re.findall(r"^```sh\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_generated_pages_are_what_the_commands_say():
    ended = subprocess.run([sys.executable, ROOT / "scripts", "dev/make_manual", "--check"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.fixture
def bash(herd_environment, tmp_path):
    """A shell in tmp_path, with herd on its path and the examples of the manual in $EXAMPLES."""

    def run(*arguments: object, programs: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([*filter(None, [programs]), herd_environment["PATH"]])
        kept = {name: value for name, value in herd_environment.items() if not name.startswith("SLURM_")}
        environment = kept | {"PATH": path, "EXAMPLES": str(DOCS / "examples")} | changes
        line = ["bash", *map(str, arguments)]
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.mark.examples
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow) if page == "gallery.md" else page for page in PAGES])
def test_the_recipes_run(bash, tmp_path, page):
    assert len(recipes(page)) == PAGES[page]
    for recipe in recipes(page):
        ended = bash("-euo", "pipefail", "-c", recipe)
        assert ended.returncode == 0, f"{recipe}\n{ended.stderr}"
    shown = re.findall(r"!\[[^\]]+\]\(gallery/([^)]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert [name for name in shown if not (tmp_path / name).exists()] == []


@pytest.mark.parametrize("page", sorted((DOCS / "howto").glob("*.md")), ids=lambda page: page.stem)
def test_a_howto_fits_a_screen(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 50


def test_pictures_of_the_gallery_are_small_and_all_are_shown():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "gallery").iterdir()}
    shown = re.findall(r"!\[[^\]]+\]\(gallery/([^)]+)\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert sorted(sizes) == sorted(shown)
    images = {"coreset-atoms.svg": 150_000}  # holds thumbnails and a density
    assert all(size <= images.get(name, 250_000 if name.endswith(".gif") else 60_000) for name, size in sizes.items())
    assert sum(sizes.values()) <= 1_300_000


def test_the_gallery_says_what_is_drawn_of_every_kind():
    command = [sys.executable, ROOT / "scripts", "dev/make_gallery", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not all(map(importlib.util.find_spec, ("mkdocs", "material", "latex2mathml"))), reason="needs herdcli[docs]")
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    pages = {
        path.relative_to(tmp_path / "site").as_posix(): path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")
    }
    assert {"index.html", "gallery.html", "results/index.html", "commands/eval.html", "CHANGELOG.html"} <= set(pages)
    fetched = re.compile(
        r"<(?:script|img|iframe)[^>]+src=[\"']?(?:https?:)?//|<link[^>]+rel=[\"']?(?:stylesheet|preconnect|icon)[^>]+https?://"
    )
    assert [name for name, page in pages.items() if fetched.search(page)] == []
    theory = [page for name, page in pages.items() if name.startswith("theory/")]
    assert len(theory) == 5
    assert all(page.count("<math") > 5 and "$$" not in page for page in theory)
    terms = [term for page in pages.values() for term in re.findall(r'glossary\.html#(term-[\w-]+)"', page)]
    assert len(terms) > 100
    assert set(terms) <= set(re.findall(r'id="(term-[\w-]+)"', pages["glossary.html"]))
    if browser.ABLE:
        wrong, passed = browser.violations(tmp_path / "site", "index.html", tmp_path)
        assert [each for each in wrong if each[0] in ("serious", "critical")] == []
        assert passed > 20


def test_a_nightly_job_that_meets_the_last_one_does_nothing(bash, tmp_path):
    nightly, *_ = recipes("clusters.md")
    assert bash("-euo", "pipefail", "-c", nightly).returncode == 0
    (tmp_path / "nightly.h5").unlink()
    with file_locks.hold_lock(str(tmp_path / "nightly.lock"), "is held by this test"):
        ended = bash("nightly.sh")
    assert (ended.returncode, ended.stderr) == (0, "herd fit-rbm: nightly.lock: another run holds this lock\n")
    assert not (tmp_path / "nightly.h5").exists()


def test_a_task_of_an_array_whose_time_is_up_is_queued_again(bash, tmp_path):
    programs = tmp_path / "programs"
    for name, body in (("srun", 'exec "$@"'), ("scontrol", 'echo "$@" >> scontrol.log')):
        programs.mkdir(exist_ok=True)
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    task = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
    (tmp_path / "classes").mkdir()
    assert bash("-c", "herd data digits -q -o digits.h5").returncode == 0
    with file_locks.hold_output_lock(str(tmp_path / "classes" / "shard-2.state"), "is held by this test"):
        ended = bash(DOCS / "examples" / "slurm_array.sh", programs=str(programs), **task)
    assert ended.returncode == 75, ended.stderr
    assert (tmp_path / "scontrol.log").read_text() == "requeue 7_2\n"
    ended = bash(DOCS / "examples" / "slurm_array.sh", programs=str(programs), **task)
    assert ended.returncode == 0, ended.stderr
    assert "shard 2 of 3: 3 of 10 models" in ended.stderr
    assert (tmp_path / "classes" / "shard-2.h5").exists()


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *sorted((ROOT / "results").glob("*.md"))], ids=lambda page: page.name)
def test_links_of_the_manual_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_glossary_names_what_is_in_the_code():
    rows = re.findall(r"^\| (.+?) \| .+? \| `(herdcli[\w.]*)` \|$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 40
    assert [term for term, _ in rows] == sorted((term for term, _ in rows), key=str.lower)
    for term, name in rows:
        package, _, last = name.rpartition(".")
        found = importlib.util.find_spec(name) is not None if last.islower() else hasattr(importlib.import_module(package), last)
        assert found, f"{term}: {name}"
