"""herd eval --report: the page as a file, what is refused, and what a real browser makes of it."""

from __future__ import annotations

import hashlib
import html
import http.server
import re
import shlex
import threading

import browser
import pytest

from herdcli import artifacts
from herdcli.artifacts.sealed.file_digests import accepted_digests

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; report-uri /violation"


def test_page_beside_the_table(herd, model, tmp_path):
    ended = herd("eval", "model.h5", "--report", "page.html")
    assert ended.code == 0
    assert ended.out.startswith(b"file\tkind\t")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "model.h5" in page
    assert "herd fit-rbm" in page


def test_what_cannot_be_evaluated_is_named_and_passed_over(herd, model, tmp_path, digits):
    report = ["--report", "page.html"]
    assert herd("eval", "model.h5", "-o", "table.h5").code == 0
    refused = herd("eval", "model.h5", "table.h5", *report)
    assert refused.code == 65
    assert not (tmp_path / "page.html").exists()
    ended = herd("eval", "model.h5", "table.h5", *report, "--keep-going")
    assert ended.code == 0
    assert "eval: warning: table.h5 skipped: artifacts of kind 'report' cannot be evaluated\n" in ended.err
    nothing = herd("eval", "table.h5", "--report", "other.html", "--keep-going")
    assert nothing.code == 2
    assert nothing.err.endswith(
        "herd eval: other.html: --report needs an artifact that can be evaluated\n"
        "hint: give at least one, and leave out --confusion, --mcnemar and --tournament\n"
    )


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("-", 2, "herd eval: --report needs the name of a file\nhint: use --report report.html\n"),
        ("no/page.html", 73, "herd eval: no/page.html: the folder no does not exist\nhint: mkdir -p no\n"),
    ],
)
def test_pages_that_cannot_be_written_are_refused_before_any_work(herd, path, code, message):
    ended = herd("eval", "not-there.h5", "--report", path)
    assert (ended.code, ended.out, ended.err) == (code, b"", message)


@pytest.mark.skipif(browser.CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_it_and_fetches_nothing(herd, model, tmp_path):
    assert herd("eval", "model.h5", "--report", "page.html").code == 0
    page, asked = (tmp_path / "page.html").read_bytes(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY)  # the browser tells what breaks it
            self.end_headers()
            self.wfile.write(page)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/page"
        shown = browser.dumped(address, tmp_path)
        server.shutdown()
    assert asked == ["/page"]
    assert shown.count("<section") == 2
    assert shown.count("data:image/png;base64,") == page.count(b"data:image/png;base64,")


def filled(line, files):
    """A command line of the page with its placeholders as the files of these digests."""
    names = {digest[:12]: path for path in files for digest in accepted_digests(str(path))}
    return shlex.split(re.sub(r"\b[A-Z]+-([0-9a-f]{12})\b", lambda found: names[found[1]].name, line))


def test_the_commands_on_the_page_make_the_same_artifacts_again(herd, small, tmp_path):
    lines = (
        "fit-rbm small.h5 --hidden 3 --epochs 2 --batch-size 5 -o a.h5",
        "convert small.h5 --split 6,2,2 -o c.h5",
        "kernel-herd c.h5 -m 4 --by y -o b.h5",
        "apply a.h5 small.h5 -o f.h5",
        "nherd-train f.h5 --label y --passes 2 -o d.h5",
    )
    for line in lines:
        assert herd(*line.split(), "-q").code == 0, line
    made = {name: artifacts.load(str(tmp_path / name)).sha256 for name in ("a.h5", "b.h5", "d.h5")}
    ended = herd("eval", *made, "--report", "page.html", "-q")
    assert ended.code == 0, ended.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in made:
        (tmp_path / name).unlink()
    for block, (name, digest) in zip(re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL), made.items(), strict=True):
        for line in html.unescape(block).splitlines():
            program, *words = filled(line, [small])
            assert program == "herd"
            ended = herd(*words, "-q")
            assert ended.code == 0, (line, ended.err)
        assert artifacts.load(str(tmp_path / name)).sha256 == digest, block


def test_a_file_that_was_read_stands_in_the_commands_by_its_name(herd, tmp_path):
    rows = "".join(f"{k % 7},{k % 5},{(k * k) % 11}\n" for k in range(60))
    (tmp_path / "my rows.csv").write_text("a,b,c\n" + rows)
    assert herd("em", "my rows.csv", "--components", "2", "-o", "m.h5", "-q").code == 0
    for data, shown in (((), r"DATASET-[0-9a-f]{12}"), (("--data", "my rows.csv"), "'my rows.csv'")):
        assert herd("eval", "m.h5", *data, "--report", "page.html", "-q").code == 0
        page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert re.search(rf"\nherd em {shown} --components 2 -o m.h5", page.replace(">herd", ">\nherd"))
        assert ("names in capitals" in page) == (not data)


def test_a_page_of_two_models_is_small(herd, digits, tmp_path):
    pytest.importorskip("matplotlib")
    assert herd("fit-rbm", "digits.h5", "--hidden", "30", "--epochs", "2", "-q", "-o", "a.h5").code == 0
    assert herd("nherd-train", "digits.h5", "-q", "-o", "b.h5").code == 0
    assert herd("eval", "a.h5", "b.h5", "--report", "page.html", "-q").code == 0
    page = (tmp_path / "page.html").read_bytes()
    assert len(page) < 300_000
    assert page.count(b"<svg") == 4 + 5  # pictures of the rbm, and of the classifier: its trace among them
    assert herd("eval", "a.h5", "b.h5", "--report", "again.html", "-q").code == 0
    assert hashlib.sha256((tmp_path / "again.html").read_bytes()).digest() == hashlib.sha256(page).digest()


@pytest.mark.skipif(not browser.ABLE, reason=browser.WHY)
def test_axe_finds_nothing_serious(herd, model, tmp_path):
    assert herd("kernel-herd", "small.h5", "-m", "4", "-q", "-o", "b.h5").code == 0
    assert herd("eval", "model.h5", "b.h5", "--report", "page.html", "-q").code == 0
    wrong, passed = browser.violations(tmp_path, "page.html", tmp_path)
    assert [each for each in wrong if each[0] in ("serious", "critical")] == []
    assert passed > 15
