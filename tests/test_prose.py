"""scripts/dev/check_prose.py: it finds what a reader stumbles over, and nothing of it is left in pages, help and messages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "dev" / "check_prose.py"
LONG = "Each " + "very " * 34 + "long sentence has to be read twice."


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_prose"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("sentence", "finding"),
    [
        (LONG, "42 words in one sentence"),
        ("Rows without labels are told.", "'are told'"),
        ("The weights follow the law of the target.", "'law of'"),
        ("Of words: chains of every length.", "Of words:"),
        ("Ten chains; of words: one for each length.", "'; of words:'"),
        ("Of the rows, those that are tested stay in memory.", "'Of the'"),
        ("Most memory, as `2G`, of the process.", "', as CODE'"),
        ("The one of two that the others bear out.", "'bear out'"),
        ("Minimised is the mean loss.", "'Minimised is the'"),
        ("It writes the the table.", "'the the' is doubled"),
        ("The likeliest state of each variable.", "'likeliest' is not used: write most probable"),
    ],
)
def test_a_bad_sentence_is_found(prose, tmp_path, sentence, finding):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\nA good sentence.\n\n- {sentence}\n")
    ended = subprocess.run([sys.executable, SCRIPT, page], capture_output=True, text=True, check=False)
    found = [line for passage in prose.page_passages(page) for line in prose.findings(passage, prose.unused_words())]
    assert found[0].startswith("page.md:5: ")
    assert finding in found[0]
    assert (ended.returncode, ended.stdout.splitlines()) == (1, found)


def test_code_tables_and_formulas_are_no_sentences(prose, tmp_path):
    page = tmp_path / "page.md"
    words = "word " * 40
    page.write_text(
        f"```sh\nherd {words}\n```\n\n| {'a ' * 20} | {'b ' * 20} |\n|---|---|\n\n"
        f"`{words}` and $x {words} y$ are short.\n\n$$\n{words}\n$$\n"
    )
    assert [line for passage in prose.page_passages(page) for line in prose.findings(passage, {})] == []


def test_messages_are_read_from_the_sources(prose):
    texts = {passage.text for passage in prose.message_passages()}
    assert "cannot sample from this target: only its score function is known" in texts
    assert len(texts) > 3000


def test_help_of_every_option_is_read(prose):
    places = {passage.where for passage in prose.help_passages()}
    assert {"herd eval", "herd ups-infer --algorithm", "herd fit-rbm --hidden"} <= places


def test_pages_help_and_messages_have_no_finding():
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ended.stdout, ended.returncode) == ("", 0)
