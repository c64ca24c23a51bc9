"""CmdStan's CSV: draws, and its diagnostic file with gradients, with comment lines in between.

Columns NAME__ are the sampler's own and are left out unless requested, as are warm-up draws.  A diagnostic file has the
draws on the unconstrained scale, momenta p_NAME, which are left out, and gradients g_NAME.  The file has gradients of the potential
−log p; they are returned as ∇ log p.
Source: the CmdStan guide on CSV output; the sign is that of stan/mcmc/hmc/hamiltonians/base_hamiltonian.hpp.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_columns import dataset_from_table
from herdcli.artifacts.text import delimited_text
from herdcli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_COMMENT = re.compile(rb"^#[^\n]*\n?", re.MULTILINE)
_ADAPTED = b"# Adaptation terminated"


def is_stan(head: bytes) -> bool:
    """Return whether a file begins like CmdStan's."""
    first = next((line for line in head.split(b"\n") if line.strip() and not line.startswith(b"#")), b"")
    return first.startswith(b"lp__,") and (b"stan_version_major" in head or b",accept_stat__" in first)


def read(stream: BinaryIO, head: bytes, *, where: str, options: LoadOptions) -> Dataset:
    """Read the data set of a stream that begins with head."""
    import pyarrow as pa

    raw = stream.read()
    warm = raw.find(_ADAPTED)
    before = _COMMENT.sub(b"", raw[: max(warm, 0)])
    titles, _, warmup = before.partition(b"\n")
    if warm >= 0 and warmup.strip():
        options.note(f"{where}: left out the {warmup.count(10)} draws of the warm-up")
        raw = titles + b"\n" + raw[warm:]
    table = pa.Table.from_batches(_read_batches(_COMMENT.sub(b"", raw), where, options))
    return dataset_from_table(_parameter_columns(table, where, options), {}, where=where, options=options)


def _read_batches(text: bytes, where: str, options: LoadOptions) -> list[pa.RecordBatch]:
    found = list(delimited_text.read_batches(io.BytesIO(text), text[: 1 << 16], where=where, options=options))
    if not sum(batch.num_rows for batch in found):
        raise DataError("has no draws", where=where, hint="check whether the sampler was interrupted")
    return found


def _parameter_columns(table: pa.Table, where: str, options: LoadOptions) -> pa.Table:
    """Return the columns of parameters, and of their gradients with the sign of ∇ log p."""
    names = [name for name in table.column_names if not name.endswith("__") and not name.startswith(("p_", "g_"))]
    others = {name for name in table.column_names if not name.endswith("__")} - set(names)
    momenta = {f"p_{name}" for name in names}
    gradients = [f"g_{name}" for name in names]
    if names and others == momenta | set(gradients):
        options.note(f"{where}: the columns g_… hold the gradients of log p: --scores g_ uses them")
        table = table.select([*names, *gradients])
        for place, name in enumerate(gradients, len(names)):
            table = table.set_column(place, name, [-np.asarray(table.column(name), dtype=np.float64)])
        return table
    return table.select([name for name in table.column_names if not name.endswith("__") or name in options.keep])
