"""A worker of `--cluster local:N`: `python -m herdcli.cluster.worker_process BYTES ARGUMENTS…`.

Without ARGUMENTS it serves the pipes of standard input and output; otherwise they are those of `dask worker`.
"""

from __future__ import annotations

import os
import resource
import sys

BASE = 600_000_000  # bytes allowed in any case, for the interpreter, the libraries and the stacks of a worker's threads


def main(arguments: list[str]) -> None:
    """Limit the memory of the process to BYTES beyond a worker's own needs (0: no limit), then serve until the command has ended."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bound = int(arguments[0]) + BASE if int(arguments[0]) else hard  # else keep the limit of the parent process
    resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    if not arguments[1:]:
        from herdcli.cluster.local_workers import serve_pipes

        replies = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # what a library prints goes to the log
        serve_pipes(sys.stdin.buffer, replies)
    from distributed.cli import dask_worker

    dask_worker.main(arguments[1:], prog_name="herd worker")


if __name__ == "__main__":
    main(sys.argv[1:])
