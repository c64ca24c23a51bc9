"""Downloads from a server on the loopback address: whole, cut short, resumed, with another digest, slow, redirected, gone."""

from __future__ import annotations

import hashlib
import re
import sys

import pytest
from loopback import Served, loopback_server

from herdcli.datasets.registry import PublishedFile
from herdcli.errors import BadUsage, DataError, Unreachable

pytest.importorskip("pooch")

from herdcli.datasets.download import DownloadLimits, fetch_file

CONTENT = bytes(range(256)) * 400  # 102,400 bytes
DIGEST = hashlib.sha256(CONTENT).hexdigest()
QUICK = DownloadLimits(attempts=3, pause=0.0, silence=5.0)


@pytest.fixture
def server():
    with loopback_server() as found:
        yield found


@pytest.fixture
def get(tmp_path):
    """get(*addresses, sha256=…) downloads data.bin; the path, and the progress that was reported."""

    def run(*addresses, sha256=DIGEST, patience=QUICK):
        reported: list[tuple[int, int | None]] = []
        source = PublishedFile(file="data.bin", urls=(), sha256=sha256)
        path = fetch_file(source, tmp_path / "sources", addresses, lambda *progress: reported.append(progress), patience)
        assert sorted(each.name for each in path.parent.iterdir()) == ["data.bin"]  # nothing unfinished is left
        return path, reported

    return run


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_whole(server, get, sha256):
    path, reported = get(server.put("data.bin", CONTENT), sha256=sha256)
    assert path.read_bytes() == CONTENT
    assert reported[-1] == (len(CONTENT), len(CONTENT))
    assert server.requests == [("data.bin", None)]
    get(f"{server.address}/data.bin", sha256=sha256)
    assert len(server.requests) == 1, "what is there is not downloaded again"


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_cut_short_and_resumed(server, get, sha256):
    path, reported = get(server.put("data.bin", CONTENT, "cut", "cut", "whole"), sha256=sha256)
    assert path.read_bytes() == CONTENT
    assert server.requests == [("data.bin", None), ("data.bin", "bytes=51200-"), ("data.bin", "bytes=76800-")]
    assert reported[-1] == (len(CONTENT), len(CONTENT))


def test_resumed_by_a_later_call(server, get, tmp_path):
    address = server.put("data.bin", CONTENT, "cut")
    with pytest.raises(Unreachable, match="cut short"):
        get(address, patience=DownloadLimits(attempts=1, pause=0.0, silence=5.0))
    assert (tmp_path / "sources" / ".data.bin.part").stat().st_size == 51_200
    server.put("data.bin", CONTENT)
    assert get(address)[0].read_bytes() == CONTENT
    assert server.requests[-1] == ("data.bin", "bytes=51200-")


def test_a_file_that_changed_meanwhile_begins_anew(server, get):
    """Without a known digest only the tag of the server says that the rest belongs to another file."""
    address = server.put("data.bin", CONTENT, "cut")
    with pytest.raises(Unreachable):
        get(address, sha256=None, patience=DownloadLimits(attempts=1, pause=0.0, silence=5.0))
    other = CONTENT[::-1]
    server.put("data.bin", other)
    assert get(address, sha256=None)[0].read_bytes() == other


def test_a_server_without_ranges_sends_the_whole_again(server, get):
    assert get(server.put("data.bin", CONTENT, "cut", "whole-only"))[0].read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_dropped(server, get, tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / ".data.bin.part").write_bytes(bytes(200_000))
    assert get(server.put("data.bin", CONTENT))[0].read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=200000-", None]


def test_another_digest_is_refused_and_the_next_address_is_tried(server, get):
    wrong, right = server.put("a/data.bin", CONTENT[:-1] + b"?"), server.put("b/data.bin", CONTENT)
    with pytest.raises(Unreachable, match=re.escape(f"{wrong}: the file differs from the published one (SHA-256)")):
        get(wrong)
    assert get(wrong, right)[0].read_bytes() == CONTENT


def test_a_part_of_another_file_does_not_spoil_the_next_attempt(server, get, tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / ".data.bin.part").write_bytes(b"?" * 1000)
    assert get(server.put("data.bin", CONTENT))[0].read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


def test_slow_and_redirected(server, get):
    server.put("far/data.bin", CONTENT, "slow")
    server.files["data.bin"] = Served(redirect="far/data.bin")
    assert get(f"{server.address}/data.bin")[0].read_bytes() == CONTENT


def test_silence_ends_an_attempt(server, get):
    silent, right = server.put("a/data.bin", CONTENT, "silent"), server.put("b/data.bin", CONTENT)
    impatient = DownloadLimits(attempts=1, pause=0.0, silence=0.2)
    with pytest.raises(Unreachable, match=re.escape(f"{silent}: the server did not answer in time")):
        get(silent, patience=impatient)
    assert get(silent, right, patience=impatient)[0].read_bytes() == CONTENT


def test_gone_is_not_retried_and_busy_is(server, get):
    gone, busy = server.put("a/data.bin", CONTENT, "gone"), server.put("b/data.bin", CONTENT, "busy", "busy", "whole")
    assert get(gone, busy)[0].read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == ["a/data.bin", *3 * ["b/data.bin"]]


def test_nothing_to_be_had_says_where_and_what_to_do(server, get, tmp_path):
    gone, busy = server.put("a/data.bin", CONTENT, "gone"), server.put("b/data.bin", CONTENT, "busy")
    nobody = "http://127.0.0.1:9/data.bin"
    with pytest.raises(Unreachable) as refused:
        get(gone, busy, nobody)
    assert refused.value.exit_code == 69
    assert refused.value.message == (
        f"cannot download data.bin: {gone}: 404 Not Found; {busy}: 503 Service Unavailable; {nobody}: no connection"
    )
    assert refused.value.hint == f"download it elsewhere and put it at {tmp_path}/sources/data.bin"


def test_a_file_put_there_by_hand_is_checked_and_taken(get, tmp_path):
    (tmp_path / "sources").mkdir()
    there = tmp_path / "sources" / "data.bin"
    there.write_bytes(CONTENT)
    assert get("http://127.0.0.1:9/data.bin")[0] == there
    there.write_bytes(b"?")
    with pytest.raises(DataError, match="its SHA-256 is 8a8de823") as refused:
        get("http://127.0.0.1:9/data.bin")
    assert (refused.value.where, refused.value.hint) == (str(there), "remove it and try again")


def test_without_pooch(get, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(BadUsage, match="downloads need the package pooch") as refused:
        get("http://127.0.0.1:9/data.bin")
    assert refused.value.hint == "pip install 'herdcli[data]'"
