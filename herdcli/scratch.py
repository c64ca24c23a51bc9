"""A folder for temporary files, which is removed at the end even after an error."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def scratch_folder(prefix: str = "herd-", within: str | None = None) -> Iterator[str]:
    """Create a folder in $TMPDIR or in `within` that only this user can read; remove it at the end.

    If removing it fails, no error is raised, and a second attempt is made.
    """
    folder = tempfile.mkdtemp(prefix=prefix, dir=within)
    try:
        yield folder
    finally:
        for _ in range(2):
            with suppress(OSError):  # the descriptor of a folder could not be closed, and rmtree closes it twice
                shutil.rmtree(folder, ignore_errors=True)
