"""Finished sets: found, made from published files, taken from a mirror, and checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopback import loopback_server

from herdcli.datasets import cache, registry
from herdcli.datasets.digests import arrays_digest
from herdcli.datasets.download import DownloadLimits
from herdcli.datasets.hdf5_layout import read_arrays, write_arrays
from herdcli.datasets.registry import DatasetEntry, PublishedFile
from herdcli.errors import BadUsage, CannotCreate, DataError, Unreachable

QUICK = DownloadLimits(attempts=2, pause=0.0, silence=5.0)


class Reports:
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.warnings = [], []

    def note(self, message):
        self.notes.append(message)

    def warn(self, message):
        self.warnings.append(message)

    def progress(self, file):
        return lambda here, total: None


def convert(files):
    values = np.array([[int(each) for each in line.split()] for line in files["rows.txt"].read_text().splitlines()], np.int32)
    return {"X": values[:, 1:], "y": values[:, 0]}


ARRAYS = {"X": np.array([[1, 2], [3, 4], [5, 6]], np.int32), "y": np.array([0, 1, 0], np.int32)}
TEXT = b"0 1 2\n1 3 4\n0 5 6\n"


@pytest.fixture
def server():
    with loopback_server() as found:
        yield found


@pytest.fixture
def entry(server):
    return DatasetEntry(
        name="small",
        file="small.h5",
        rows=3,
        columns=2,
        size=2000,
        description="three rows",
        figures="none",
        licence="public domain",
        restricted=False,
        origin="a test",
        sources=(PublishedFile(file="rows.txt", urls=(f"{server.address}/published/rows.txt",)),),
        digest=arrays_digest(ARRAYS),
        convert=convert,
    )


def test_downloaded_converted_checked_and_kept(server, entry, tmp_path):
    server.put("published/rows.txt", TEXT)
    reports, folder = Reports(), cache.Cache(tmp_path / "sets", patience=QUICK)
    path = folder.find_or_download(entry, reports)
    assert path == tmp_path / "sets" / "small.h5"
    assert arrays_digest(read_arrays(path)) == entry.digest
    host = server.address.removeprefix("http://")
    assert reports.notes == [f"small: 1 file of unknown size from {host}; licence: public domain"]
    assert folder.find_or_download(entry, reports) == path
    assert (len(server.requests), len(reports.notes), reports.warnings) == (1, 1, [])


def test_a_restricted_set_asks_once(server, entry, tmp_path):
    server.put("published/rows.txt", TEXT)
    restricted, folder = replace(entry, restricted=True, licence="research only"), cache.Cache(tmp_path, patience=QUICK)
    with pytest.raises(BadUsage) as refused:
        folder.find_or_download(restricted, Reports())
    assert refused.value.message == "small is not free to use for every purpose; licence: research only"
    assert refused.value.hint == "if your use is allowed: herd data small --accept-licence"
    assert server.requests == []
    folder.find_or_download(restricted, Reports(), accept_licence=True)
    folder.find_or_download(restricted, Reports())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[:-6], "has 2 rows × 2 columns, expected 3 × 2"),
        (TEXT.replace(b"6", b"7"), "its values differ from those that the tables of the papers were computed with"),
        (b"<html>", "differs from the published file of small: "),
    ],
)
def test_other_arrays_are_refused(server, entry, tmp_path, text, message):
    server.put("published/rows.txt", text)
    with pytest.raises(DataError) as refused:
        cache.Cache(tmp_path, patience=QUICK).find_or_download(entry, Reports())
    assert refused.value.message.startswith(message)
    assert (refused.value.where, refused.value.hint) == (f"{tmp_path}/sources/rows.txt", "remove it and try again")
    assert not (tmp_path / "small.h5").exists()


def test_values_of_an_unchecked_conversion_are_warned_of(server, entry, tmp_path):
    server.put("published/rows.txt", TEXT.replace(b"6", b"7"))
    reports = Reports()
    cache.Cache(tmp_path, patience=QUICK).find_or_download(replace(entry, checked=False), reports)
    assert reports.warnings == ["small: its values differ from those that the tables of the papers were computed with"]
    server.put("published/rows.txt", TEXT[:-6])
    (tmp_path / "small.h5").unlink()
    (tmp_path / "sources" / "rows.txt").unlink()
    with pytest.raises(DataError, match="has 2 rows × 2 columns, expected 3 × 2"):
        cache.Cache(tmp_path, patience=QUICK).find_or_download(replace(entry, checked=False), Reports())


def test_a_damaged_finished_set_is_refused(entry, tmp_path):
    write_arrays(tmp_path / "small.h5", entry, ARRAYS | {"y": ARRAYS["y"] + 1})
    with pytest.raises(DataError, match="its values differ") as refused:
        cache.Cache(tmp_path, patience=QUICK).find_or_download(entry, Reports())
    assert refused.value.where == f"{tmp_path}/small.h5"
    (tmp_path / "small.h5").write_bytes(b"no HDF5")
    with pytest.raises(DataError, match="cannot be read as the data set small"):
        cache.Cache(tmp_path, patience=QUICK).find_or_download(entry, Reports())


def test_a_folder_that_cannot_be_made(entry, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCreate, match="cannot be created: Not a directory") as refused:
        cache.Cache(tmp_path / "file" / "sets", patience=QUICK).find_or_download(entry, Reports())
    assert refused.value.hint == "set HERD_DATA to a folder that you can write to"


def test_a_mirror_has_the_finished_set(server, entry, tmp_path):
    write_arrays(tmp_path / "there.h5", entry, ARRAYS)
    server.put("mirror/small.h5", (tmp_path / "there.h5").read_bytes())
    folder = cache.Cache(tmp_path / "sets", (f"{server.address}/mirror",), QUICK)
    assert arrays_digest(read_arrays(folder.find_or_download(entry, Reports()))) == entry.digest
    assert [path for path, _ in server.requests] == ["mirror/small.h5"]


def test_a_finished_set_of_a_mirror_is_checked(server, entry, tmp_path):
    write_arrays(tmp_path / "there.h5", entry, ARRAYS | {"y": ARRAYS["y"] + 1})
    server.put("mirror/small.h5", (tmp_path / "there.h5").read_bytes())
    with pytest.raises(DataError, match="its values differ"):
        cache.Cache(tmp_path / "sets", (f"{server.address}/mirror",), QUICK).find_or_download(replace(entry, checked=False), Reports())


def test_a_mirror_has_the_published_file(server, entry, tmp_path):
    server.put("mirror/rows.txt", TEXT)
    folder = cache.Cache(tmp_path, ("http://127.0.0.1:9", f"{server.address}/mirror"), QUICK)
    assert arrays_digest(read_arrays(folder.find_or_download(entry, Reports()))) == entry.digest


def test_a_folder_of_files(server, entry, tmp_path):
    server.put("published/rows.txt", TEXT)
    nets = replace(entry, name="nets", file="nets", rows=0, columns=0, digest=None, convert=None)
    folder = cache.Cache(tmp_path, patience=QUICK)
    assert not folder.is_finished(nets)
    assert folder.find_or_download(nets, Reports()) == tmp_path / "nets"
    assert (tmp_path / "nets" / "rows.txt").read_bytes() == TEXT
    assert folder.is_finished(nets)
    assert folder.find_or_download(nets, Reports()) == tmp_path / "nets"
    assert len(server.requests) == 1


def test_nothing_to_be_had(entry, tmp_path):
    nowhere = replace(entry, sources=(PublishedFile(file="rows.txt", urls=("http://127.0.0.1:9/rows.txt",)),))
    with pytest.raises(Unreachable, match=r"cannot download rows.txt: http://127.0.0.1:9/rows.txt: no connection") as refused:
        cache.Cache(tmp_path, patience=QUICK).find_or_download(nowhere, Reports())
    assert refused.value.hint == f"download it elsewhere and put it at {tmp_path}/sources/rows.txt"
    (tmp_path / "sources").mkdir(exist_ok=True)
    (tmp_path / "sources" / "rows.txt").write_bytes(TEXT)
    cache.Cache(tmp_path, patience=QUICK).find_or_download(nowhere, Reports())


def test_a_missing_package_is_named_before_the_download(server, entry, tmp_path):
    with pytest.raises(BadUsage, match="the conversion of small needs the package nosuchpackage") as refused:
        cache.Cache(tmp_path, patience=QUICK).find_or_download(replace(entry, packages=("nosuchpackage",)), Reports())
    assert refused.value.hint == "pip install 'herdcli[data]'"
    assert server.requests == []


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HERD_DATA", str(tmp_path))
    monkeypatch.setenv("HERD_DATA_MIRROR", "http://a/ http://b")
    assert cache.default_cache() == cache.Cache(tmp_path, ("http://a", "http://b"))
    monkeypatch.delenv("HERD_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pytest.importorskip("platformdirs")
    assert cache.default_cache().folder == tmp_path / "cache" / "herd" / "data"


# The registry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.dataset_names())
def test_every_entry_is_whole(name):
    entry = registry.find_dataset(name)
    assert entry.name == name
    assert entry.description
    assert entry.licence
    assert entry.origin
    assert (entry.digest is None) == entry.is_folder
    assert entry.sources
    for source in entry.sources:
        assert source.urls
        assert all(url.startswith(("https://", "http://qwone.com/")) for url in source.urls)
        assert source.sha256 is None or len(bytes.fromhex(source.sha256)) == 32
    assert len({source.file for source in entry.sources}) == len(entry.sources)


def test_an_unknown_set():
    with pytest.raises(BadUsage, match="no data set 'iris'"):
        registry.find_dataset("iris")
