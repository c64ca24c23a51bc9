"""A worker of `--cluster local:N`: `python -m herdcli.cluster.worker_process BYTES ARGUMENTS…`, the arguments those of `dask worker`."""

from __future__ import annotations

import resource
import sys

BASE = 600_000_000  # what interpreter, libraries and the stacks of a worker's threads may have in any case


def main(arguments: list[str]) -> None:
    """Hold the process to BYTES beside what a worker takes (0: no bound), then serve the scheduler until it ends."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bound = int(arguments[0]) + BASE if int(arguments[0]) else hard  # the bound of the process that began this one is its own
    resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    from distributed.cli import dask_worker

    dask_worker.main(arguments[1:], prog_name="herd worker")


if __name__ == "__main__":
    main(sys.argv[1:])
