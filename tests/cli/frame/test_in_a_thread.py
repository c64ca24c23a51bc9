"""`cli.main` where signal handlers cannot be set."""

from __future__ import annotations

import threading
from pathlib import Path

from herdcli.cli.main import main


def test_a_command_runs_in_a_worker_thread(tmp_path: Path) -> None:
    codes: list[object] = []

    def work() -> None:
        try:
            main(["data", "digits", "-o", str(tmp_path / "digits.h5")])
        except SystemExit as ended:
            codes.append(ended.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [0]
