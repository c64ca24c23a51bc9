"""Runs a herd command in this process; the last line on stdout is JSON with the processor seconds of its iterations.

python scripts/bench/program/command_time.py em rows.npy --model kmeans -o out.h5
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from herdcli.cli.frame.run import session
from herdcli.cli.main import main

total = 0.0
run, run_preparation = session.Session.run, session.Session.run_preparation


def timed(method: Any) -> Any:
    """The method, whose processor time is added to the total."""

    def wrapper(*arguments: Any, **named: Any) -> Any:
        global total
        started = time.process_time()
        try:
            return method(*arguments, **named)
        finally:
            total += time.process_time() - started

    return wrapper


if __name__ == "__main__":
    session.Session.run = timed(run)  # type: ignore[method-assign]
    session.Session.run_preparation = timed(run_preparation)  # type: ignore[method-assign]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    print(json.dumps({"inside": total or None}))
    sys.exit(code)
