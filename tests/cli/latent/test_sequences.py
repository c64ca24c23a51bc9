"""How the models in time read a table: the column that groups its rows, in every format, and what is told of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from herdcli.artifacts import Dataset, load
from herdcli.artifacts.load_save import save
from herdcli.cli.frame.rows import sequences
from herdcli.errors import BadUsage

KEY = ["a", "a", "b", "b", "b"]


class Session:
    """What reading needs of one."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.console = SimpleNamespace(note=self.notes.append)

    def load(self, path, role, **options):
        return load(path, **options)


def read(path, weights="weight", **options):
    session = Session()
    defaults = {"input_format": None, "label": None, "split": None, "seed": 0, "sequence": None}
    return sequences.read_sequences(session, SimpleNamespace(source=str(path), **(defaults | options)), weights=weights), session.notes


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("sequence,u,v,wave\n" + "".join(f"{key},{i},{2 * i},{i % 2}\n" for i, key in enumerate(KEY)))
    return path


def test_a_column_called_sequence_groups_the_rows_and_is_no_feature(csv):
    found, notes = read(csv)
    assert (found.sequences.names, found.sequences.lengths.tolist()) == (["a", "b"], [2, 3])
    assert found.data.feature_names == ["u", "v", "wave"]
    assert notes == ["2 sequences of 2 to 3 steps, one for each value of the column 'sequence'; the last part of each is held out"]


def test_another_column_can_be_named_also_one_of_numbers(csv):
    found, _ = read(csv, sequence="wave")
    assert found.sequences.names == ["0", "1"]
    assert found.data.feature_names == ["u", "v"]
    assert read(csv, sequence="u")[1][0].startswith("5 sequences of 1 step, one for each value of the column 'u'")
    with pytest.raises(BadUsage, match="has no extra column 'tide'"):
        read(csv, sequence="tide")


def test_formats_agree(csv, tmp_path):
    X = np.array([[i, 2 * i, i % 2] for i in range(5)], dtype=float)
    np.savez(tmp_path / "rows.npz", X=X, sequence=np.array(KEY))
    save(str(tmp_path / "rows.h5"), Dataset(X, columns={"sequence": np.array(KEY)}), [])
    for name in ("rows.npz", "rows.h5"):
        found, _ = read(tmp_path / name)
        assert found.sequences.names == ["a", "b"]
        assert found.sequences.as_one_block().X.tolist() == X.tolist()


def test_a_sealed_set_may_have_it_among_its_features(tmp_path):
    X = np.array([[1.0, 5], [1, 6], [2, 7]])
    save(str(tmp_path / "rows.h5"), Dataset(X, feature_names=["night", "u"]), [])
    found, _ = read(tmp_path / "rows.h5", sequence="night")
    assert found.sequences.names == ["1", "2"]
    assert found.data.X.tolist() == [[5], [6], [7]]


def test_a_single_array_and_rows_without_the_column_are_one_sequence(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((9, 2)))
    found, notes = read(tmp_path / "rows.npy", split="1,0,0")
    assert found.sequences.count == 1
    assert list(found.parts) == [0]
    assert notes == ["the rows are one sequence of 9 steps, because there is no column 'sequence'"]


def test_weights_are_read_by_their_column(csv):
    (csv.parent / "heavy.csv").write_text("sequence,u,mass\n" + "".join(f"{key},{i},{len(key + key)}\n" for i, key in enumerate(KEY)))
    found, _ = read(csv.parent / "heavy.csv", weights="mass")
    assert found.sequences.weight is not None
    assert found.sequences.weight.tolist() == [2.0, 2.0]
    assert found.data.feature_names == ["u"]
