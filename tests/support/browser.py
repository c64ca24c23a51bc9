"""Pages looked at by a real browser: headless Chromium, and axe-core's judgement of what people with screen readers and keyboards meet."""

from __future__ import annotations

import html
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
AXE = importlib.util.find_spec("axe_core_python")
ABLE = CHROMIUM is not None and AXE is not None
WHY = "needs chromium and axe-core-python"
ASK = (
    "addEventListener('load', () => axe.run().then(r => { const p = document.createElement('pre'); p.id = 'axe';"
    "p.textContent = JSON.stringify(r.violations.map(v => [v.impact, v.id, v.nodes[0].html])) + r.passes.length;"
    "document.body.append(p) }))"
)


def dumped(address: str, folder: Path, *more: str) -> str:
    """The page as the browser has it after its scripts ran.  folder  of the browser's own files."""
    command = [str(CHROMIUM), *QUIET.split(), f"--user-data-dir={folder / 'profile'}", *more, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def violations(root: Path, page: str, folder: Path) -> tuple[list[list[str]], int]:
    """What axe finds wrong with a page of a folder that is served, as [impact, rule, element], and how many rules it passes."""
    assert AXE is not None
    assert AXE.origin is not None
    axe = (Path(AXE.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    source = (root / page).read_text(encoding="utf-8")
    (root / f"axe-{page}").write_text(f"{source}<script>{axe}</script><script>{ASK}</script>", encoding="utf-8")
    handler = partial(_Silent, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown = dumped(f"http://127.0.0.1:{server.server_port}/axe-{page}", folder, "--virtual-time-budget=9000")
        server.shutdown()
    found = re.search(r'<pre id="axe">(.*?)</pre>', shown, re.DOTALL)
    assert found, shown[-2000:]
    said = html.unescape(found[1])
    wrong, end = json.JSONDecoder().raw_decode(said)
    return wrong, int(said[end:])


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
