"""Downloads by pooch (extra `data`): resumed after an interruption, retried, from several addresses in turn, checked by their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from herdcli.datasets.registry import PublishedFile
from herdcli.errors import BadUsage, DataError, Unreachable
from herdcli.records import dataclass

BLOCK = 1 << 16
GONE = (401, 403, 404, 410)  # status codes of an address that does not have the file, now or later
DownloadProgress = Callable[[int, int | None], None]  # called with the bytes downloaded so far and the total, or None


@dataclass(frozen=True)
class DownloadLimits:
    """The limits of a download.

    attempts  the number of attempts at each address; two if no server answers.
    pause     seconds before the second attempt, doubled before the third.
    silence   seconds without a byte after which an attempt ends.
    """

    attempts: int = 3
    pause: float = 1.0
    silence: float = 60.0


USUAL = DownloadLimits()
UNCONNECTED = "no connection"


class _FileNotAtAddress(Exception):
    """The address answers, but does not have the file."""


def fetch_file(
    source: PublishedFile, folder: Path, addresses: Sequence[str], report: DownloadProgress, patience: DownloadLimits = USUAL
) -> Path:
    """Return the published file in `folder`: the file that is already there, or a download from the first address that has it.

    A file that was put there by hand is checked and used.  Raises Unreachable, DataError if the file there is a different one, and
    BadUsage if pooch is not installed.
    """
    target = folder / source.file
    if target.exists():
        _check_digest(target, source)
        return target
    pooch = _import_pooch()
    failures = []
    for address in addresses:
        for attempt in range(patience.attempts):
            if attempt:
                time.sleep(patience.pause * 2 ** (attempt - 1))
            try:
                _retrieve(pooch, source, target, address, report, patience)
                return target
            except _FileNotAtAddress as error:
                failures.append(f"{address}: {error}")
                break
            except (OSError, ValueError) as error:  # requests raises subclasses of OSError; pooch ValueError for a wrong digest
                reason = _error_reason(error)
                if attempt + 1 == patience.attempts or (reason == UNCONNECTED and attempt):
                    failures.append(f"{address}: {reason}")
                    break
    raise Unreachable(
        f"cannot download {source.file}: {'; '.join(failures) or 'no address is known'}",
        hint=f"download it elsewhere and put it at {target}",
    )


def _import_pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise BadUsage("downloads need the package pooch", hint="pip install 'herdcli[data]'") from error
    pooch.get_logger().setLevel("WARNING")
    return pooch


def _check_digest(path: Path, source: PublishedFile) -> None:
    if source.sha256 is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != source.sha256:
        raise DataError(
            f"its SHA-256 is {found}, but that of the published file is {source.sha256}", where=str(path), hint="remove it and try again"
        )


def _retrieve(pooch: Any, source: PublishedFile, target: Path, address: str, report: DownloadProgress, patience: DownloadLimits) -> None:
    """Make one attempt.  Partial data stays in a file next to the target; it is removed if the digest is wrong."""
    part = target.with_name(f".{target.name}.part")
    known = None if source.sha256 is None else f"sha256:{source.sha256}"

    def download(url: str, output_file: str, pooch_object: object) -> None:
        _resume_download(url, part, source, report, patience)
        os.replace(part, output_file)
        _origin_file(part).unlink(missing_ok=True)

    try:
        pooch.retrieve(address, known_hash=known, fname=target.name, path=target.parent, downloader=download)
    finally:
        with contextlib.suppress(OSError):
            if part.exists() and not part.stat().st_size:
                part.unlink()
            if not part.exists():
                _origin_file(part).unlink(missing_ok=True)


def _origin_file(part: Path) -> Path:
    """Return the path of the note with the address and version of an unfinished download."""
    return part.with_name(f"{part.name}.origin")


def _resume_download(url: str, part: Path, source: PublishedFile, report: DownloadProgress, patience: DownloadLimits) -> None:
    """Append the missing bytes, or start again if the server sends the whole file.  Raises OSError if fewer bytes arrive than announced."""
    import requests

    there = part.stat().st_size if part.exists() else 0
    origin = _origin_file(part)
    address, _, version = origin.read_text(encoding="utf-8").partition("\n") if there and origin.exists() else ("", "", "")
    same = bool(version) and address == url
    if there and not same and source.sha256 is None:
        there = 0  # pieces of two files could not be told apart
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={there}-"} if there else {})
    if there and same:
        headers["If-Range"] = version
    with requests.get(url, headers=headers, stream=True, timeout=(min(patience.silence, 20.0), patience.silence)) as answer:
        if answer.status_code == 416:  # the partial file is longer than the file on the server
            part.unlink()
            raise OSError("the partial download does not match the file, so the download starts again")
        if answer.status_code in GONE:
            raise _FileNotAtAddress(f"{answer.status_code} {answer.reason}")
        answer.raise_for_status()
        resumed = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {there}-")
        if answer.status_code == 206 and not resumed:
            raise OSError("the server sent a different part from the one requested")
        origin.write_text(f"{url}\n{answer.headers.get('ETag') or answer.headers.get('Last-Modified') or ''}", encoding="utf-8")
        _append_response(answer, part, there if resumed else 0, report)


def _append_response(answer: Any, part: Path, offset: int, report: DownloadProgress) -> None:
    length = "" if "Content-Encoding" in answer.headers else answer.headers.get("Content-Length", "")
    total = offset + int(length) if length.isdecimal() else None
    answer.raw.enforce_content_length = False  # it would drop the last block of an incomplete response
    with part.open("ab" if offset else "wb") as file:
        for block in answer.iter_content(BLOCK):
            file.write(block)
            offset += len(block)
            report(offset, total)
    if total is not None and offset != total:
        raise OSError(f"cut short after {offset} of {total} bytes")


def _error_reason(error: Exception) -> str:
    """Return the reason of an error, in a few words."""
    import requests

    if isinstance(error, ValueError) and "hash" in str(error):
        return "the file differs from the published one (SHA-256)"
    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.Timeout):
        return "the server did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "cut short"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "the server did not answer in time" if "timed out" in str(error) else UNCONNECTED
    return str(error).partition("\n")[0]
