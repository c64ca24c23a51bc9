"""`herd data`: the list, one set, all sets; what is refused, and what is said where a set cannot be had."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from loopback import loopback_server

from herdcli.cli.main import cli
from herdcli.datasets import cache, registry
from herdcli.datasets.download import DownloadLimits
from herdcli.errors import BadUsage, Unreachable

ROOT = Path(__file__).resolve().parents[2]
RAW = [folder / "raw" for folder in (Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data")]
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {"https_proxy": NOWHERE, "http_proxy": NOWHERE, "no_proxy": "127.0.0.1"}


def test_the_list_names_every_set(herd, tmp_path):
    (tmp_path / "a9a").write_text("")
    listed = herd("data", "--list", env={"HERD_DATA": str(tmp_path)})
    assert (listed.code, listed.err) == (0, "")
    lines = listed.out.decode().splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == ["digits", *registry.dataset_names()]
    assert heads[1] == "usps        11,000 × 256        1.4 MB  to download, 1.5 MB from raw.githubusercontent.com"
    assert next(line for line in heads if line.startswith("a9a ")) == "a9a         32,561 × 123        2.3 MB  here"
    assert "  licence:  research use, cite (Blitzer, Dredze, Pereira 2007) (asks for --accept-licence)" in lines


def test_where_sets_are(herd, tmp_path):
    env = {"HERD_DATA": str(tmp_path)}
    assert herd("data", "--where", env=env).out.decode() == f"{tmp_path}\n"
    assert herd("data", "usps", "--where", env=env).out.decode() == f"{tmp_path}/usps_all.h5\n"
    refused = herd("data", "digits", "--where", env=env)
    assert (refused.code, refused.err) == (
        2,
        "herd data: digits is part of the herd package, so it has no path of its own\nhint: herd data digits -o FILE\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "herd data: no data set is named\nhint: list them: herd data --list\n"),
        (("usps", "--all"), "herd data: NAME, --list and --all exclude each other\nhint: give one of them\n"),
        (
            ("networks", "-o", "x.h5"),
            "herd data: networks is a folder of files, which -o cannot write\nhint: herd data networks --where prints where they are\n",
        ),
        (("usps", "-o", "x.doc"), "herd data: x.doc: '.doc' is not a format that herd writes\n"),
    ],
)
def test_refused(herd, arguments, message):
    refused = herd("data", *arguments)
    assert refused.code == 2
    assert refused.err.startswith(message)


def test_a_licence_is_shown_and_asked(herd, tmp_path):
    refused = herd("data", "yale", "-o", "yale.h5", env={"HERD_DATA": str(tmp_path / "sets"), **OFFLINE})
    assert refused.code == 2
    assert refused.err == (
        "herd data: yale is not free to use for every purpose; licence: non-commercial research, credit Yale; no licence file\n"
        "hint: if your use is allowed: herd data yale --accept-licence\n"
    )
    assert not (tmp_path / "sets").exists()


def test_without_a_network(herd, tmp_path):
    pytest.importorskip("pooch")
    pytest.importorskip("rdata")
    ended = herd("data", "spam", "-o", "spam.h5", env={"HERD_DATA": str(tmp_path / "sets"), **OFFLINE})
    assert ended.code == 69
    source = registry.find_dataset("spam").sources[0]
    assert ended.err == (
        "data: spam: 0.1 MB from raw.githubusercontent.com; "
        "licence: CC BY 4.0 (UCI Spambase: Hopkins, Reeber, Forman, Suermondt 1999); GPL (≥ 2) of the package\n"
        f"herd data: cannot download spam.RData: {source.urls[0]}: no connection\n"
        f"hint: download it elsewhere and put it at {tmp_path}/sets/sources/spam.RData\n"
    )


def test_a_set_from_its_published_file(herd, tmp_path):
    """The real file, served on the loopback address; the second call needs no network."""
    pytest.importorskip("pooch")
    pytest.importorskip("rdata")
    folder = next((each for each in RAW if (each / "spam.RData").exists()), None)
    if folder is None:
        pytest.skip("spam.RData is neither in $HERD_DATA/raw nor in ../shared/data/raw")
    env = {"HERD_DATA": str(tmp_path / "sets"), **OFFLINE}
    with loopback_server() as server:
        server.put("spam.RData", (folder / "spam.RData").read_bytes())
        made = herd("data", "spam", "-o", "spam.h5", env=env | {"HERD_DATA_MIRROR": server.address})
    assert made.code == 0, made.err
    again = herd("data", "spam", "-o", "again.h5", env=env)
    assert again.code == 0
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "spam.h5").read_bytes()
    shown = herd("info", "spam.h5").out.decode()
    assert "4601       57  y" in shown
    assert "github.com/cran/ElemStatLearn" in shown
    assert "word_freq_make" in shown
    assert herd("check", "spam.h5").code == 0


@pytest.fixture
def three_sets(monkeypatch, tmp_path):
    """In place of the registry: a set that is there, one that cannot be had and one whose licence has to be accepted."""
    there, lost, restricted = registry.find_dataset("a9a"), registry.find_dataset("spam"), registry.find_dataset("yale")
    lost = replace(lost, sources=(replace(lost.sources[0], urls=(f"{NOWHERE}/spam.RData",)),))
    monkeypatch.setattr(registry, "datasets_for_results", lambda: iter([there, lost, restricted]))
    monkeypatch.setattr(cache, "default_cache", lambda: cache.Cache(tmp_path, patience=DownloadLimits(attempts=1, silence=1.0)))
    (tmp_path / "a9a").write_text("")


def test_all_goes_on_after_a_failure(three_sets, tmp_path):
    pytest.importorskip("pooch")
    pytest.importorskip("rdata")
    ended = CliRunner().invoke(cli, ["data", "--all"])
    assert isinstance(ended.exception, Unreachable)
    assert str(ended.exception) == "1 of 3 sets could not be downloaded: spam"
    plan, _, fault, hint, left = ended.output.splitlines()
    assert plan == f"data: 1 of 3 sets are in {tmp_path}; 2 to download: 0.7 MB, 0.9 MB when converted"
    assert fault == f"herd data: spam: cannot download spam.RData: {NOWHERE}/spam.RData: no connection"
    assert hint == f"hint: download it elsewhere and put it at {tmp_path}/sources/spam.RData"
    assert (
        left
        == "data: yale is not downloaded, because its licence needs --accept-licence: non-commercial research, credit Yale; no licence file"
    )


def test_all_asks_for_licences_at_the_end(three_sets, tmp_path):
    (tmp_path / "spambase.h5").write_text("")
    ended = CliRunner().invoke(cli, ["data", "--all"])
    assert isinstance(ended.exception, BadUsage)
    assert str(ended.exception) == "these data sets need an accepted licence: yale"
    assert ended.exception.hint == "if your use is allowed: herd data --all --accept-licence"


def test_all_is_silent_about_sets_that_are_there(three_sets, tmp_path):
    for file in ("spambase.h5", "yale64.h5"):
        (tmp_path / file).write_text("")
    ended = CliRunner().invoke(cli, ["data", "--all"])
    assert (ended.exit_code, ended.output) == (0, f"data: 3 of 3 sets are in {tmp_path}\n")


def test_names_are_completed():
    from click.shell_completion import ShellComplete

    found = {item.value for item in ShellComplete(cli, {}, "herd", "_HERD_COMPLETE").get_completions(["data"], "n")}
    assert found == {"natural", "newsgroups", "news_w100", "networks"}
