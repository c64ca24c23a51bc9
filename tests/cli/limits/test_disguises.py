"""Texts that steer a terminal, turn the direction of writing or are half characters; files that keep who may read them."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts.sealed import seal_header

STEERING = "a\x1b[31m\u202eb\nc"


def disguised(path: Path) -> None:
    """A model whose history has such texts, sealed as anyone can seal it."""
    with h5py.File(path, "r+") as file:
        history = json.loads(file.attrs["provenance"])
        history[-1]["command"] = STEERING
        history[-1]["parameters"][STEERING] = STEERING
        file.attrs["provenance"] = json.dumps(history)
    seal_header.write_seal(str(path), "rbm")


@pytest.fixture
def model(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bits.csv").write_text("a,b\n1,0\n0,1\n1,1\n0,0\n")
    assert run("fit-rbm", "bits.csv", "--hidden", "2", "--epochs", "1", "-q", "-o", "rbm.h5").code == 0
    return tmp_path / "rbm.h5"


def test_a_report_and_info_show_no_character_that_steers(run: Callable, model: Path) -> None:
    disguised(model)
    assert run("eval", "rbm.h5", "--report", "page.html", "-q", "-o", "table.tsv").code == 0
    told = run("info", "rbm.h5")
    assert told.code == 0
    for text in (Path("page.html").read_text(encoding="utf-8"), told.out):
        assert "a\\u001b[31m\\u202eb" in text
        assert not {"\x1b", "\u202e"} & set(text)
    assert any(line.startswith("  1. a\\u001b[31m\\u202eb\\nc ") for line in told.out.splitlines())


def test_names_and_labels_that_steer_are_shown_in_hints_and_pictures(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {STEERING: [0.5, 1.5, 0.1, 2.0] * 8, "plain": [1.0, 0.5, 3.0, 0.2] * 8, "y": ["k\u202em", "n"] * 16}
    pq.write_table(pa.table(columns), "rows.parquet")
    told = run("convert", "rows.parquet", "--drop", "none", "-o", "x.h5")
    assert told.code == 2
    assert told.err.splitlines()[1] == "hint: columns: a\\u001b[31m\\u202eb\\nc, plain, y"
    assert run("nherd-train", "rows.parquet", "-q", "-o", "linear.h5").code == 0
    assert run("eval", "linear.h5", "--report", "page.html", "-q", "-o", "table.tsv").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "k\\u202em" in page
    assert not {"\x1b", "\u202e"} & set(page)


@pytest.mark.parametrize("text", ['{"a": 1, "b": "\\ud800"}\n{"a": 2, "b": "x"}\n', '{"a": 1, "\\udc00": 2}\n'])
def test_half_a_character_in_json_is_refused(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.json").write_text(text)
    ended = run("convert", "rows.json", "-o", "out.h5")
    assert ended.code == 65
    assert "herd convert: rows.json: is not valid JSON lines (" in ended.err


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(run: Callable, model: Path, mode: int) -> None:
    os.chmod(model, mode)
    assert run("fit-rbm", "bits.csv", "--hidden", "2", "--epochs", "2", "-q", "-o", "rbm.h5").code == 0
    assert model.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("name", ["$(touch pwned).h5", "-x.h5", "a;touch pwned.h5", "a'b\"c.h5", "a\nb.h5"])
@pytest.mark.parametrize("followed", [True, False])
def test_commands_on_a_page_do_what_they_say_whatever_files_are_called(run: Callable, model: Path, name: str, followed: bool) -> None:
    """Pasted into a shell they make or check the file of that name, and nothing else."""
    if not followed:  # whose history no command line has, so that the page names the file to check
        with h5py.File(model, "r+") as file:
            history = json.loads(file.attrs["provenance"])
            history[-1]["parameters"]["epochs"] = -1
            file.attrs["provenance"] = json.dumps(history)
        seal_header.write_seal(str(model), "rbm")
    os.rename("rbm.h5", name)
    assert run("eval", "--report", "page.html", "-q", "-o", "table.tsv", "--", f"./{name}" if followed else name).code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    lines = html.unescape(re.search(r'<pre tabindex="0">(.*?)</pre>', page, re.DOTALL)[1])
    seen = subprocess.run(
        ["bash", "-c", f"herd() {{ printf '%s\\0' \"$@\"; }}\n{lines}"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    words = [os.path.normpath(word) for word in seen.stdout.split("\0")]
    assert name in words
    assert not Path("pwned").exists()
    assert not Path("pwned.h5").exists()
