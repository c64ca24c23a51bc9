"""Are the published files of `herd data` where the registry says, and are they the files that it knows?  Needs a network.

    python scripts checks/data_sources                     every address: status and size, without downloading
    python scripts checks/data_sources --download          download each file and compare its SHA-256 too
    python scripts checks/data_sources --only usps --only r8 --write results/sources.md

A line for each address: HTTP status, size, whether it is the known size, and the digest; exit 1 where an address of a set fails.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import requests
from shared.figure_pipeline import replace

from herdcli.datasets import registry
from herdcli.datasets.registry import DatasetEntry, PublishedFile

SECONDS = 30
HEADINGS = ("set", "file", "address", "status", "bytes", "SHA-256")


def look(source: PublishedFile, address: str, download: bool) -> tuple[str, str, str, bool]:
    """Status, size and digest of one address, in words, and whether they are as expected."""
    try:
        with requests.get(address, headers={"Accept-Encoding": "identity"}, stream=True, timeout=SECONDS, allow_redirects=True) as answer:
            if answer.status_code != 200:
                return f"{answer.status_code} {answer.reason}", "", "", False
            size = int(answer.headers["Content-Length"]) if answer.headers.get("Content-Length", "").isdigit() else None
            digest = ""
            if download:
                sha256, size = hashlib.sha256(), 0
                for block in answer.iter_content(1 << 16):
                    sha256.update(block)
                    size += len(block)
                digest = sha256.hexdigest()
    except requests.exceptions.RequestException as error:
        return type(error).__name__, "", "", False
    sized = size is None or source.size is None or size == source.size
    known = not digest or source.sha256 is None or digest == source.sha256
    shown = "" if size is None else f"{size:,}" if sized else f"{size:,}, expected {source.size:,}"
    verdict = "" if not digest else digest if source.sha256 is None else "as known" if known else f"{digest}, expected {source.sha256}"
    return "200", shown, verdict, sized and known


def rows(entries: list[DatasetEntry], download: bool) -> tuple[list[tuple[str, ...]], int]:
    """The table, and how many addresses are not as expected."""
    found, failed = [], 0
    for entry in entries:
        for source in entry.sources:
            for address in source.urls:
                status, size, digest, good = look(source, address, download)
                failed += not good
                found.append((entry.name, source.file, address, status, size, digest))
                print(f"{'ok' if good else 'FAIL':5}{entry.name}: {address}: {status} {size} {digest}".rstrip(), flush=True)
    return found, failed


def page(found: list[tuple[str, ...]]) -> str:
    """The table as Markdown."""
    lines = ["<!-- made by scripts/checks/data_sources.py -->", "", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in found]) + "\n"


def main() -> int:
    """Look at every address."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", choices=registry.dataset_names())
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    found, failed = rows([registry.find_dataset(name) for name in options.only or registry.dataset_names()], options.download)
    if options.write:
        replace(options.write, page(found))
    print(f"{len(found)} addresses, {failed} not as expected")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
