"""The value of --cluster and the options that belong to it; this module does not import Dask, so commands without a cluster can use it."""

from __future__ import annotations

import re

from herdcli.records import dataclass

FORMS = "local:N, tcp://HOST:PORT, tls://HOST:PORT, slurm:N, pbs:N, sge:N, lsf:N, kubernetes:N"


@dataclass(frozen=True)
class ClusterAddress:
    """Workers of one `kind`: either `count` workers that are started for this run, or those of the scheduler at `address`."""

    kind: str  # local, running, slurm, pbs, sge, lsf, kubernetes
    count: int | None = None
    address: str | None = None

    def __str__(self) -> str:
        return self.address or f"{self.kind}:{self.count}"


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster.

    options  the KEY=VALUE settings in their order.  retries  the repetitions of a unit that failed.
    mixed    workers with different BLAS kernels are accepted.
    """

    where: ClusterAddress
    options: tuple[tuple[str, str], ...] = ()
    retries: int = 3
    mixed: bool = False


def parse_cluster(text: str) -> ClusterAddress:
    """Parse the text after --cluster.  Raises ValueError for anything else."""
    if re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", text):
        return ClusterAddress("running", address=text)
    match = re.fullmatch(r"(local|slurm|pbs|sge|lsf|kubernetes):(\d{1,6})", text, re.ASCII)
    if match is None or not int(match[2]):
        raise ValueError(f"is none of {FORMS}")
    return ClusterAddress(match[1], int(match[2]))


def parse_setting(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE.  Raises ValueError for anything else."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", key):
        raise ValueError("is not of the form KEY=VALUE")
    return key.replace("-", "_"), value
