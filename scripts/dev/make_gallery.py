"""The pictures of docs/gallery.md, made by the pipelines on that page, and the table of plots at its end.

    python scripts dev/make_gallery            write docs/gallery/*.svg and the table
    python scripts dev/make_gallery --check    only see whether the table is up to date

Runs `herd` beside this interpreter, the blocks of the page after the first one side by side.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from herdcli.kinds import KINDS
from herdcli.parts import import_by_path

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
HEADING = "## Every plot of every kind\n"


def table() -> str:
    """What `--plot` draws, kind by kind, in the plots' own first words."""
    lines = ["| kind | `--plot` | shows |", "|---|---|---|"]
    for kind in KINDS.values():
        for name, path in kind.plots.items():
            said = " ".join((inspect.getdoc(import_by_path(path)) or "").split("Source:")[0].split("\n\n")[0].split())
            lines.append(f"| {kind.name} | `{name}` | {said.replace('|', chr(92) + '|')} |")
    return f"{HEADING}\n" + "\n".join(lines) + "\n"


def page() -> str:
    """The page with its table as it ought to be."""
    return PAGE.read_text(encoding="utf-8").split(HEADING)[0].rstrip("\n") + f"\n\n{table()}"


def pictures() -> None:
    """Run the page's pipelines and take the pictures that it shows."""
    text = PAGE.read_text(encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:

        def run(block: str) -> None:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)

        first, *others = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        run(first)  # which writes the digits that the others read
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, others))
        PICTURES.mkdir(exist_ok=True)
        for name in re.findall(r"\(gallery/([^)]+)\)", text):
            shutil.copyfile(Path(folder) / name, PICTURES / name)


def main() -> int:
    if "--check" in sys.argv[1:]:
        if page() == PAGE.read_text(encoding="utf-8"):
            return 0
        print("docs/gallery.md: the table of plots is not what the kinds have: scripts/dev/make_gallery.py writes it", file=sys.stderr)
        return 1
    pictures()
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
