"""A worker of `--cluster local:N`: `python -m herdcli.cluster.worker_process BYTES ARGUMENTS…`, with the arguments of `dask worker`."""

from __future__ import annotations

import resource
import sys

BASE = 600_000_000  # bytes allowed in any case, for the interpreter, the libraries and the stacks of a worker's threads


def main(arguments: list[str]) -> None:
    """Limit the memory of the process to BYTES beyond a worker's own needs (0: no limit), then serve the scheduler until it ends."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bound = int(arguments[0]) + BASE if int(arguments[0]) else hard  # else keep the limit of the parent process
    resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    from distributed.cli import dask_worker

    dask_worker.main(arguments[1:], prog_name="herd worker")


if __name__ == "__main__":
    main(sys.argv[1:])
