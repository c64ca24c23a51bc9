"""--cluster WHERE and what belongs to it, as typed: imports nothing of Dask, which is there for whoever uses it."""

from __future__ import annotations

import re

from herdcli.records import dataclass

FORMS = "local:N, tcp://HOST:PORT, tls://HOST:PORT, slurm:N, pbs:N, sge:N, lsf:N, kubernetes:N"


@dataclass(frozen=True)
class ClusterAddress:
    """Workers of `kind`: so many (`count`) that are begun for this run, or those of the scheduler at `address`."""

    kind: str  # local, running, slurm, pbs, sge, lsf, kubernetes
    count: int | None = None
    address: str | None = None

    def __str__(self) -> str:
        return self.address or f"{self.kind}:{self.count}"


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster.  options  KEY=VALUE, in their order; retries  of a unit that failed; mixed  BLAS kernels are let be."""

    where: ClusterAddress
    options: tuple[tuple[str, str], ...] = ()
    retries: int = 3
    mixed: bool = False


def parse_cluster(text: str) -> ClusterAddress:
    """What was typed after --cluster.  Raises ValueError for anything else."""
    if re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", text):
        return ClusterAddress("running", address=text)
    match = re.fullmatch(r"(local|slurm|pbs|sge|lsf|kubernetes):(\d{1,6})", text, re.ASCII)
    if match is None or not int(match[2]):
        raise ValueError(f"is none of {FORMS}")
    return ClusterAddress(match[1], int(match[2]))


def parse_setting(text: str) -> tuple[str, str]:
    """KEY=VALUE.  Raises ValueError for anything else."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", key):
        raise ValueError("is not of the form KEY=VALUE")
    return key.replace("-", "_"), value
