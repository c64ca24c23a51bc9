"""The processes that tests fork: a call that takes too long leaves nothing to the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from forked import Forker


@pytest.mark.slow  # two servers import everything
def test_a_call_after_a_timeout_gets_its_own_exit_code(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    forker = Forker(dict(os.environ))
    with open(tmp_path / "out", "w") as out:
        given = {"folder": tmp_path, "environment": dict(os.environ), "streams": (out.fileno(),) * 3}
        with pytest.raises(TimeoutError):
            forker.run(["info", "pipe"], **given, seconds=0.5)  # waits for a writer
        assert forker.run(["info", "none.csv"], **given, seconds=600) == 66
        assert forker.run(["--version"], **given, seconds=600) == 0
    forker.close()
