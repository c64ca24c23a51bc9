"""An HTTP server on the loopback address that serves files as well or as badly as a test asks."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """How one path is answered.

    content     of the file.
    ways        of the first answers, the last one of all later ones: whole, cut (half of what was asked, then the connection ends),
                gone (404), busy (503), silent (no byte for a while), slow (byte after byte), whole-only (no ranges).
    redirect    to another path.
    """

    content: bytes = b""
    ways: list[str] = field(default_factory=lambda: ["whole"])
    redirect: str | None = None


@dataclass
class Loopback:
    """The server: its address, what it serves by path, and the (path, Range header) of every request."""

    address: str
    files: dict[str, Served] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def put(self, path: str, content: bytes, *ways: str) -> str:
        """Serve content; the address of the path."""
        self.files[path] = Served(content, list(ways) or ["whole"])
        return f"{self.address}/{path}"


class _Handler(BaseHTTPRequestHandler):
    loopback: Loopback
    silence = 2.0

    def log_message(self, format: str, *arguments: object) -> None:
        """No lines on stderr."""

    def do_GET(self) -> None:
        """Answer as the path says."""
        path, asked = self.path.lstrip("/"), self.headers.get("Range")
        self.loopback.requests.append((path, asked))
        served = self.loopback.files.get(path)
        if served is None:
            self.send_error(404)
            return
        if served.redirect is not None:
            self.send_response(302)
            self.send_header("Location", f"{self.loopback.address}/{served.redirect}")
            self.end_headers()
            return
        way = served.ways.pop(0) if len(served.ways) > 1 else served.ways[0]
        if way in ("gone", "busy"):
            self.send_error(404 if way == "gone" else 503)
            return
        if way == "silent":
            time.sleep(self.silence)
            return
        self._send(served.content, way, asked)

    def _send(self, content: bytes, way: str, asked: str | None) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        first = 0
        if asked and way != "whole-only" and self.headers.get("If-Range", tag) == tag:
            first = int(asked.removeprefix("bytes=").partition("-")[0])
        if first >= len(content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("ETag", tag)
        self.end_headers()
        rest = content[first:]
        if way == "cut":
            self.wfile.write(rest[: len(rest) // 2])
        elif way == "slow":
            for start in range(0, len(rest), max(len(rest) // 5, 1)):
                self.wfile.write(rest[start : start + max(len(rest) // 5, 1)])
                self.wfile.flush()
                time.sleep(0.02)
        else:
            self.wfile.write(rest)


@contextmanager
def loopback_server() -> Iterator[Loopback]:
    """A running server on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    found = Loopback(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"loopback": found})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
