"""nherd-train --cache: the same model to the byte, from the cache where it is of the same text, and never from one that is not."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts.text.parsed_text_cache import ParsedCache, ParsedPiece, write_cache
from herdcli.errors import DataError
from herdcli.online.text.text_parser import BlockReader

FIXED = ("--algorithm", "nherd", "--C", "1")
NEW = "so the text is parsed and the cache written again"


def svm(count: int, seed: int = 0) -> bytes:
    """Rows of eight features whose label is the sign of the first."""
    values = np.random.default_rng(seed).standard_normal((count, 8)).round(3)
    rows = [(1 if row[0] > 0 else -1, " ".join(f"{k + 1}:{x}" for k, x in enumerate(row))) for row in values.tolist()]
    return "".join(f"{label} {pairs}\n" for label, pairs in rows).encode()


def vw(text: bytes) -> bytes:
    """The same as Vowpal Wabbit text."""
    return text.replace(b"1 1:", b"1 |f 1:")


@pytest.fixture(scope="module")
def lines() -> dict[str, bytes]:
    """Text of more than one piece."""
    return {"x.svm": svm(300) * 55, "x.vw": vw(svm(300)) * 55}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("x.svm", ("--passes", "3")),
        ("x.vw", ("--bits", "10", "--passes", "2", "--interactions", "ff")),
        ("x.vw", ("--bits", "10", "--shuffle", "--passes", "2")),
        ("x.svm", ("--passes", "9", "--early-stop", "1")),
    ],
)
def test_a_model_has_the_same_bytes_with_and_without(herd, tmp_path, lines, name, options):
    (tmp_path / name).write_bytes(lines[name])
    assert herd("nherd-train", name, "-q", *FIXED, *options, "-o", "plain.h5").code == 0
    stamps = []
    for turn in ("first", "again"):
        ended = herd("nherd-train", name, *FIXED, *options, "--cache", "c.bin", "-o", f"{turn}.h5")
        assert ended.code == 0
        assert NEW not in ended.err
        assert (tmp_path / f"{turn}.h5").read_bytes() == (tmp_path / "plain.h5").read_bytes()
        stamps.append((tmp_path / "c.bin").stat().st_mtime_ns)
    assert stamps[0] == stamps[1]


def test_a_second_run_parses_nothing_and_skipped_lines_are_still_known(run, tmp_path, lines, monkeypatch):
    (tmp_path / "x.svm").write_bytes(lines["x.svm"] + b"1 qid:3 1:2\nbad\n")
    line = ("nherd-train", "x.svm", *FIXED, "--skip-bad", "2", "--passes", "2", "--cache", "c.bin", "-o", "m.h5")
    first = run(*line)
    assert first.code == 0
    assert "1 lines skipped" in first.err

    def never(self, text, lend):
        raise AssertionError("parsed")

    monkeypatch.setattr(BlockReader, "_parts", never)
    again = run(*line)
    assert again.code == 0
    assert "1 lines skipped" in again.err


@pytest.mark.parametrize("change", ["other text", "longer", "shorter", "bit", "cut", "options", "empty"])
def test_a_cache_that_does_not_fit_is_made_anew_and_said_so(herd, tmp_path, lines, change):
    text = lines["x.svm"]
    (tmp_path / "x.svm").write_bytes(text)
    assert herd("nherd-train", "x.svm", "-q", *FIXED, "--cache", "c.bin", "-o", "a.h5").code == 0
    cache, more = (tmp_path / "c.bin").read_bytes(), ()
    if change == "other text":
        (tmp_path / "x.svm").write_bytes(text[: text.rindex(b"\n", 0, -30000) + 1] + svm(200, seed=5))
    elif change == "longer":
        (tmp_path / "x.svm").write_bytes(text + svm(10, seed=6))
    elif change == "shorter":
        (tmp_path / "x.svm").write_bytes(text[: text.index(b"\n", 1 << 19) + 1])
    elif change == "options":
        more = ("--bits", "6")
    else:
        spoiled = bytearray(cache)
        spoiled[len(cache) // 2] ^= 4
        (tmp_path / "c.bin").write_bytes({"bit": bytes(spoiled), "cut": cache[:-50], "empty": b""}[change])
    for turn in ("plain", "mended", "again"):
        ended = herd("nherd-train", "x.svm", *FIXED, *more, *(() if turn == "plain" else ("--cache", "c.bin")), "-o", f"{turn}.h5")
        assert ended.code == 0
        assert (NEW in ended.err) == (turn == "mended"), ended.err
        assert (tmp_path / f"{turn}.h5").read_bytes() == (tmp_path / "plain.h5").read_bytes()
    if change in ("bit", "cut", "empty"):
        assert (tmp_path / "c.bin").read_bytes() == cache


def test_text_from_a_pipe_uses_it_too(herd, tmp_path, lines):
    assert herd("nherd-train", "-q", *FIXED, "--cache", "c.bin", "-o", "a.h5", stdin=lines["x.svm"]).code == 0
    ended = herd("nherd-train", *FIXED, "--cache", "c.bin", "-o", "b.h5", stdin=lines["x.svm"])
    assert ended.code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_a_run_that_fails_leaves_no_cache(herd, tmp_path, lines):
    (tmp_path / "x.svm").write_bytes(lines["x.svm"] + b"bad\n")
    assert herd("nherd-train", "x.svm", "-q", "--cache", "c.bin", "-o", "a.h5").code == 65
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.svm"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--cache", "notes.txt"), 65, "notes.txt: is not a cache of parsed text"),
        (("--cache", "m.h5"), 2, "m.h5: this file is named by both -o and --cache"),
        (("--cache", "-"), 2, "--cache needs a file that can be read in place, which stdout is not"),
        (("--cache", "c.bin", "--inverse-map", "--bits", "8"), 2, "--cache stores columns without the names that --inverse-map needs"),
        (("--cache", "no/c.bin"), 73, "no/c.bin: "),
    ],
)
def test_what_cannot_be_a_cache_is_refused(herd, tmp_path, arguments, code, message):
    (tmp_path / "notes.txt").write_text("keep me, these are notes\n")
    ended = herd("nherd-train", "-q", *arguments, "-o", "m.h5", stdin=svm(20))
    assert ended.code == code, ended.err
    assert ended.err.startswith(f"herd nherd-train: {message}")
    assert (tmp_path / "notes.txt").read_text() == "keep me, these are notes\n"


def test_with_a_data_set_it_does_nothing(herd, tmp_path, write):
    write(tmp_path / "d.h5", {"X": np.random.default_rng(0).standard_normal((40, 3)), "y": np.arange(40) % 2})
    ended = herd("nherd-train", "d.h5", "--cache", "c.bin", "-o", "m.h5")
    assert "--cache has no effect with a data set" in ended.err
    assert not (tmp_path / "c.bin").exists()


def test_arrays_come_back_as_they_were(tmp_path):
    random = np.random.default_rng(0)
    rows = (np.array([0, 2, 3]), random.standard_normal(3), np.array([1.0, -1.0]), None, np.array([3, 9, 1], dtype=np.int32))
    weighed = (*rows[:3], np.array([0.5, 2.0]), rows[4])
    with write_cache(str(tmp_path / "c"), b"key") as writer:
        writer.add(ParsedPiece([rows, weighed], b"proof", {"lines": 2}))
        writer.add(ParsedPiece([], b"more", {"lines": 3}))
    store = ParsedCache(str(tmp_path / "c"), b"key")
    first, second = (store.piece(number, check=True) for number in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.proof, first.state, second.proof, second.blocks) == (b"proof", {"lines": 2}, b"more", [])
    for found, expected in zip(first.blocks, (rows, weighed), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True) if b is not None)
    assert first.blocks[0][3] is None
    assert ParsedCache(str(tmp_path / "c"), b"other").reason == "was made with other options, or by another version"
    with pytest.raises(DataError, match="is not a cache"):
        (tmp_path / "n").write_bytes(b"{}")
        ParsedCache(str(tmp_path / "n"), b"key")
