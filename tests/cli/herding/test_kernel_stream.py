"""`herd kernel-herd - --block-rows N`: rows of a pipe, seen once, as CSV, Arrow and Parquet; what it stores, resumes and refuses."""

from __future__ import annotations

import hashlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from herdcli import artifacts
from herdcli.cli.kernel_herd import stream_sketches
from herdcli.errors import DataError

X = np.random.default_rng(0).standard_normal((700, 3)) + 3.0 * (np.arange(700)[:, None] % 2)
TABLE = pa.table(dict(zip("abc", X.T, strict=True)))
OPTIONS = ("kernel-herd", "-", "-m", 12, "--block-rows", 256, "--embedding", "nystrom:60")


def piped(form, table=TABLE):
    """The bytes of a table."""
    out = io.BytesIO()
    if form == "csv":
        csv.write_csv(table, out)
    elif form == "parquet":
        pq.write_table(table, out, row_group_size=100)
    else:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=90)
    return out.getvalue()


def _digest(inputs):
    """The digest of the one input."""
    (found,) = inputs.values() if isinstance(inputs, dict) else inputs
    return found["sha256"]


def test_a_seal_holds_on_a_pipe_too(herd, tmp_path):
    (tmp_path / "rows.csv").write_bytes(piped("csv"))
    assert herd("convert", "rows.csv", "-o", "rows.parquet").code == 0
    good = (tmp_path / "rows.parquet").read_bytes()
    place = good.index(b"herd.sha256")
    place = next(i for i in range(place, len(good)) if all(c in b"0123456789abcdef" for c in good[i : i + 64]))
    bad = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    ended = herd(*OPTIONS, "-o", "x.h5", stdin=bad)
    assert (ended.code, ended.err.splitlines()[0]) == (65, "herd kernel-herd: stdin: the contents do not match the seal (SHA-256 differs)")
    assert herd(*OPTIONS, "-o", "x.parquet", stdin=good).code == 0
    ended = herd(*OPTIONS, "-o", "y.h5", stdin=(tmp_path / "x.parquet").read_bytes())
    assert (ended.code, ended.err.splitlines()[0]) == (65, "herd kernel-herd: stdin: is of kind samples, but must be of kind dataset")


def test_every_format_has_the_same_atoms_within_the_bound(herd, tmp_path):
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    found = {}
    for form in ("csv", "parquet", "stream"):
        ended = herd(*OPTIONS, "-o", "out.h5", stdin=piped(form))
        assert ended.code == 0, ended.err
        assert "length scales, column scales and landmarks are computed from the first 256 rows: gaussian:" in ended.err
        artifact = artifacts.load(str(tmp_path / "out.h5"))
        found[form] = value = artifact.value
        np.testing.assert_array_equal(value.x, X[value.index])
        assert _digest(artifact.history[-1]["inputs"]) == hashlib.sha256(piped(form)).hexdigest()
    for value in found.values():
        np.testing.assert_array_equal(value.mmd, found["csv"].mmd)
    assert found["csv"].summary.rows[0] == 700
    figures = json.loads(herd("eval", "out.h5", "--data", "rows.csv", "--format", "json").out)[0]
    assert 0 < abs(figures["target_mmd"] - figures["mmd"]) <= figures["embedding_error"] < 0.05
    assert figures["target_mmd"] < 0.5 * figures["mmd_random"]


def test_artifacts_without_blocks_are_read_whole(shell, digits):
    ended = shell("herd kernel-herd - -m 5 --block-rows 100 --block-atoms 10 -o out.h5 < digits.h5 && herd eval out.h5")
    assert ended.code == 0
    assert "to the union of the blocks' atoms" in ended.err


def test_row_weights_count(herd, tmp_path):
    weight = np.where(np.arange(700) % 2, 0.0, 2.0)
    table = TABLE.append_column("mass", pa.array(weight))
    assert herd(*OPTIONS, "--row-weight", "mass", "-o", "out.h5", stdin=piped("csv", table)).code == 0
    value = artifacts.load(str(tmp_path / "out.h5")).value
    assert value.feature_names == ["a", "b", "c"]
    assert (weight[value.index] > 0).all()


def test_a_resumed_run_passes_over_what_it_has_seen_and_knows_it():
    """Blocks of 256 rows from data sets of 90; another row among those seen before is told."""
    request = SimpleNamespace(block_rows=256, row_weight=None)
    pieces = [SimpleNamespace(X=X[row : row + 90], feature_names=None, weight=None) for row in range(0, 700, 90)]
    whole = stream_sketches.StreamBlocks(iter(pieces), request)
    np.testing.assert_array_equal(whole.first_block()[0], X[:256])
    found = [whole.block(step, whole.proof())[0] for step in range(3)]
    np.testing.assert_array_equal(np.concatenate(found), X)
    assert whole.block(3, whole.proof()) is None
    proof = stream_sketches.StreamBlocks(iter(pieces), request)
    for step in range(2):
        proof.block(step, proof.proof())
    again = stream_sketches.StreamBlocks(iter(pieces), request)
    again.first_block()
    np.testing.assert_array_equal(again.block(2, proof.proof())[0], X[512:])
    other = stream_sketches.StreamBlocks(iter([SimpleNamespace(X=X + 1.0, feature_names=None, weight=None)]), request)
    with pytest.raises(DataError, match="differ from those that were read before the checkpoint was saved"):
        other.block(2, proof.proof())


@pytest.mark.parametrize(
    ("options", "stdin", "code", "message"),
    [
        ((), piped("csv") + b"1,2\n", 65, "herd kernel-herd: stdin: row 700 has 2 values, expected 3"),
        ((), b"a,b\n1,2\n", 65, "herd kernel-herd: stdin: has only one row, but at least two are needed"),
        ((), b"a,b\n1,2\n3,\n", 65, "herd kernel-herd: stdin: column 'b' has 1 missing value (first: row 1)"),
        ((), piped("stream")[:-3000], 65, "herd kernel-herd: stdin: the Arrow stream cannot be read"),
        (("--embedding", "exact"), piped("csv"), 2, "herd kernel-herd: --embedding exact needs all rows in memory"),
        (("--missing", "drop"), piped("csv"), 2, "herd kernel-herd: --missing does not work with --block-rows and a pipe"),
        (("--by", "a"), piped("csv"), 2, "herd kernel-herd: --block-rows does not work with --by"),
        (("--exact",), piped("csv"), 2, "herd kernel-herd: --exact does not work with --block-rows and a pipe"),
        (("--row-weight", "mass"), piped("csv"), 2, "herd kernel-herd: stdin: --row-weight mass: there is no such column"),
    ],
)
def test_bad_input_in_one_line(herd, options, stdin, code, message):
    ended = herd(*OPTIONS, *options, "-o", "x.h5", stdin=stdin)
    assert ended.code == code
    last = [line for line in ended.err.splitlines() if line.startswith("herd kernel-herd: ")]
    assert len(last) == 1
    assert last[0].startswith(message)
