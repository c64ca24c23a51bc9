"""herd eval --report: the page as a file, what is refused, and what a real browser makes of it."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; report-uri /violation"


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
    assert "eval: warning: table.h5 skipped: there is nothing to evaluate in kind 'report'\n" in ended.err
    nothing = herd("eval", "table.h5", "--report", "other.html", "--keep-going")
    assert nothing.code == 2
    assert nothing.err.endswith(
        "herd eval: other.html: there is nothing to report\nhint: name artifacts; --confusion and similar tables have no page\n"
    )


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("-", 2, "herd eval: --report needs the name of a file\nhint: --report report.html\n"),
        ("no/page.html", 73, "herd eval: no/page.html: the folder no does not exist\nhint: mkdir -p no\n"),
    ],
)
def test_pages_that_cannot_be_written_are_refused_before_any_work(herd, path, code, message):
    ended = herd("eval", "not-there.h5", "--report", path)
    assert (ended.code, ended.out, ended.err) == (code, b"", message)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
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
        command = [CHROMIUM, *QUIET.split(), f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", address]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        server.shutdown()
    assert asked == ["/page"]
    assert shown.count("<section") == 1
    assert shown.count("data:image/png;base64,") == page.count(b"data:image/png;base64,")
