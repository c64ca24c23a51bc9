"""The manual: what is generated is up to date, the cookbook's pipelines run, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {"cookbook.md": 10, "clusters.md": 5}  # pages whose pipelines run, one after another in one folder


def recipes(page: str) -> list[str]:
    """The shell blocks of a page."""
    return re.findall(r"^```sh\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_generated_pages_are_what_the_commands_say():
    ended = subprocess.run([sys.executable, ROOT / "scripts" / "make_manual.py", "--check"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("page", PAGES)
def test_the_recipes_run(tmp_path, page):
    assert len(recipes(page)) == PAGES[page]
    changes = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "EXAMPLES": str(DOCS / "examples")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")} | changes
    for recipe in recipes(page):
        command = ["bash", "-euo", "pipefail", "-c", recipe]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, f"{recipe}\n{ended.stderr}"


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *sorted((ROOT / "results").glob("*.md"))], ids=lambda page: page.name)
def test_links_of_the_manual_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target
