"""A folder for files in between, gone at the end whatever fails."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def scratch_folder(prefix: str = "herd-", within: str | None = None) -> Iterator[str]:
    """A new folder of this user alone, in $TMPDIR or `within` another one.

    A call that fails while it is removed costs neither the work nor, on the second try, the folder.
    """
    folder = tempfile.mkdtemp(prefix=prefix, dir=within)
    try:
        yield folder
    finally:
        for _ in range(2):
            with suppress(OSError):  # of a folder whose descriptor could not be closed, which rmtree closes twice
                shutil.rmtree(folder, ignore_errors=True)
