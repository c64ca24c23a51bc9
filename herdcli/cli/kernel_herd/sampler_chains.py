"""Samplers' draws as `herd kernel-herd` reads them: one file per chain, and a warning about divergent draws."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.rows import row_ranges
from herdcli.artifacts.text.stan import is_stan
from herdcli.cli.frame.rows.sampler_columns import CHAINS, DIVERGENT, OWN, chain_column
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

_ID = re.compile(rb"^#\s*id\s*=\s*(\d+)", re.MULTILINE)
HEAD = 1 << 16  # number of first bytes in which CmdStan writes the number of the chain


def has_separate_chain_files(source: str, by: str | None) -> bool:
    """Return whether each file of INPUT is a chain: CmdStan files, or any several files if chains are thinned separately."""
    if not row_ranges.is_file_pattern(source):
        return by in CHAINS and os.path.isfile(source) and is_stan(_read_head(source))
    return by in CHAINS or is_stan(_read_head(row_ranges.matching_files(source)[0]))


def load_chains(session: Session, source: str, input_format: str | None) -> Artifact:
    """Load the draws of all files, with a column `chain`: the file's own chain numbers if it has them, else the number of the file.

    Raises DataError for files with other columns than the first.
    """
    paths = row_ranges.matching_files(source)
    found = [session.load(path, "data", kinds={"dataset"}, input_format=input_format, also=OWN, labels=False) for path in paths]
    first, parts = found[0].value, []
    for artifact in found[1:]:
        if (artifact.value.feature_names, artifact.value.X.shape[1]) != (first.feature_names, first.X.shape[1]):
            raise DataError(f"has other columns than {found[0].name}", where=artifact.name, hint="give files of chains from the same model")
    for path, artifact in zip(paths, found, strict=True):
        parts.append((artifact.value, _chain_numbers(path, artifact.value)))
    if all(number is None or len(np.unique(number)) == 1 for _, number in parts):
        numbers = [None if number is None else float(number[0]) for _, number in parts]
        own = None not in numbers and len(set(numbers)) == len(numbers)
        parts = [(data, np.full(len(data.X), float(numbers[k] or 0) if own else k + 1.0)) for k, (data, _) in enumerate(parts)]
    elif any(number is None for _, number in parts):
        raise DataError("some files number their chains and others do not", where=source, hint="convert all of them in the same way")
    digest = hashlib.sha256("".join(artifact.sha256 for artifact in found).encode()).hexdigest()
    chain = np.concatenate([number for _, number in parts if number is not None])
    whole = replace(
        first, X=np.concatenate([data.X for data, _ in parts]), y=None, split=None, columns=_shared_columns(parts) | {"chain": chain}
    )
    if first.weight is not None and all(data.weight is not None for data, _ in parts):
        whole = replace(whole, weight=np.concatenate([data.weight for data, _ in parts]))
    made = replace(found[0], value=whole, sha256=digest, name=source, size=sum(each.size for each in found))
    session.inputs["data"] = replace(made, value=None)
    chains = len(np.unique(chain))
    count = f"{chains} chain{'s' * (chains > 1)} in {len(paths)} file{'s' * (len(paths) > 1)}"
    session.console.note(f"{source}: {len(chain)} draws from {count}")
    return made


def _shared_columns(parts: Sequence[tuple[Dataset, Array | None]]) -> dict[str, Array]:
    """Return the additional columns that all files have."""
    common = set.intersection(*(set(data.columns or {}) for data, _ in parts)) - set(CHAINS)
    return {name: np.concatenate([(data.columns or {})[name] for data, _ in parts]) for name in sorted(common)}


def _chain_numbers(path: str, data: Dataset) -> Array | None:
    """Return the chain (n,) of each draw of a file; None if the file does not contain it."""
    column = chain_column(list(data.columns or {}))
    if column is not None:
        return np.asarray((data.columns or {})[column], dtype=np.float64)
    head = _read_head(path)
    named = _ID.search(head) if is_stan(head) else None
    return None if named is None else np.full(len(data.X), float(named[1]))


def _read_head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD)


def note_divergent_draws(session: Session, columns: dict[str, Array]) -> None:
    """Warn about divergent draws, which are kept like all others."""
    name = next((name for name in DIVERGENT if name in columns), None)
    if name is not None and (count := int(np.count_nonzero(columns[name]))):
        what = f"{count} of {len(columns[name])} draws are divergent"
        session.console.warn(f"{what}, so the chain may miss part of its distribution (in Stan, raise adapt_delta); the draws are kept")
