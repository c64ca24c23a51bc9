"""Which columns of a table have a role, and which are read."""

from __future__ import annotations

import pytest

from herdcli.artifacts import load
from herdcli.artifacts.tables.column_roles import (
    ROLES,
    ColumnRoles,
    ColumnUse,
    atom_figures,
    describe_column_use,
    find_matching_columns,
    role_warning,
)
from herdcli.errors import BadUsage

NAMES = ["id", "x1", "x2", "height", "weight", "Class"]


def test_roles_are_recognised_by_usual_names_where_they_are_asked_for():
    assert ColumnRoles().assign_roles(NAMES, None, "t") == {"weight": "weight", "y": "Class"}
    assert ColumnRoles(frozenset()).assign_roles(NAMES, None, "t") == {}
    assert ColumnRoles(frozenset({"y"})).assign_roles(NAMES, None, "t") == {"y": "Class"}


def test_columns_that_are_named_have_their_role_whatever_they_are_called():
    roles = ColumnRoles(frozenset(), split="x1", weight="x2")
    assert roles.assign_roles(NAMES, "height", "t") == {"split": "x1", "weight": "x2", "y": "height"}
    assert ColumnRoles(ROLES).assign_roles(NAMES, "none", "t") == {"weight": "weight"}
    assert ColumnRoles(ROLES, weight="none").assign_roles(NAMES, None, "t") == {"y": "Class"}
    assert ColumnRoles(ROLES).assign_roles(["none", "y"], "none", "t") == {"y": "none"}


def test_a_column_of_the_model_is_a_feature_whatever_it_is_called():
    assert ColumnRoles(features=frozenset({"weight"})).assign_roles(NAMES, None, "t") == {"y": "Class"}


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(BadUsage, match="has no column or array 'part' for --split-column"):
        ColumnRoles(split="part").assign_roles(NAMES, None, "t")
    with pytest.raises(BadUsage, match="has no column or array 'kind' for the labels"):
        ColumnRoles().assign_roles(NAMES, "kind", "t")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("height", ["height"]),
        ("x*", ["x1", "x2"]),
        ("x1:height", ["x1", "x2", "height"]),
        ("height:x1", ["x1", "x2", "height"]),
        ("1", ["id"]),
        ("2:4", ["x1", "x2", "height"]),
        ("?lass", ["Class"]),
    ],
)
def test_names_patterns_ranges_and_places(text, found):
    assert find_matching_columns(NAMES, text, "--drop", "t") == found


@pytest.mark.parametrize("text", ["y", "z*", "7", "0", "4:2", "x1:y"])
def test_what_matches_no_column_is_refused(text):
    with pytest.raises(BadUsage, match=r"--drop .*: there is no such column") as error:
        find_matching_columns(NAMES, text, "--drop", "t")
    assert error.value.hint == "columns: id, x1, x2, height, weight, Class"


def test_a_name_goes_before_a_place():
    assert find_matching_columns(["2", "1"], "1", "--columns", "t") == ["1"]


def test_columns_with_another_role_are_spared():
    assert ColumnRoles(columns=("x*",)).excluded_columns(NAMES, ["Class"], "t") == ["id", "height", "weight"]
    assert ColumnRoles(drop=("x1", "weight")).excluded_columns(NAMES, ["weight"], "t") == ["x1"]


def test_what_is_said_of_columns():
    assert describe_column_use(None) == describe_column_use(ColumnUse({}, {}, True)) == ""
    assert describe_column_use(ColumnUse({"y": "class", "weight": "w"}, {}, False)) == (
        ", weights from column 'w', labels from column 'class'"
    )
    assert role_warning(ColumnUse({}, {"y": "--label"}, False)) == "column 'y' is a feature (else: --label y)"
    both = role_warning(ColumnUse({}, {"split": "--split-column", "y": "--label"}, False))
    assert both == "columns 'split' and 'y' are features (else: --split-column split, --label y)"


def test_every_format_leaves_columns_out(tmp_path):
    import h5py
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.arange(12.0).reshape(4, 3)
    table = pa.table({name: X[:, i] for i, name in enumerate("abc")} | {"when": pa.array([0, 1, 2, 3], pa.timestamp("s"))})
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b,c,when\n" + "\n".join(f"{r[0]},{r[1]},{r[2]},2020-01-0{k + 1}" for k, r in enumerate(X)))
    for name in ("t.parquet", "t.csv"):  # moments are no numbers, but nobody reads them
        found = load(str(tmp_path / name), roles=ColumnRoles(drop=("b", "when"))).value
        assert found.feature_names == ["a", "c"]
        assert np.array_equal(found.X, X[:, [0, 2]])
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["X"] = X
    np.savez(tmp_path / "t.npz", X=X)
    for name in ("t.h5", "t.npz"):
        assert np.array_equal(load(str(tmp_path / name), roles=ColumnRoles(columns=("x1:x2",))).value.X, X[:, 1:])
        with pytest.raises(BadUsage, match="--columns and --drop leave no column"):
            load(str(tmp_path / name), roles=ColumnRoles(drop=("1:3",)))


ATOMS = ["row", "weight", "mmd", "height", "age"]


@pytest.mark.parametrize(
    ("names", "figures"),
    [
        (ATOMS, ["row", "weight", "mmd"]),
        (["group", *ATOMS], ["group", "row", "weight", "mmd"]),
        (["row", "weight", "height"], []),
        (["height", *ATOMS[:3]], []),
        (ATOMS[:3], []),
    ],
)
def test_the_figures_of_a_table_of_atoms(names, figures):
    assert atom_figures(names) == figures


def test_the_figures_of_atoms_are_not_features():
    roles = ColumnRoles(frozenset())
    assert roles.assign_roles(ATOMS, None, "t") == {"weight": "weight"}
    assert roles.excluded_columns(ATOMS, ["weight"], "t") == ["row", "mmd"]
    assert roles.excluded_columns(["group", *ATOMS], ["weight", "group"], "t") == ["row", "mmd"]
    assert ColumnRoles(columns=("row", "age")).excluded_columns(ATOMS, ["weight"], "t") == ["mmd", "height"]
    assert ColumnRoles(weight="none").assign_roles(ATOMS, None, "t") == {}


def test_the_figures_of_atoms_are_features_of_a_model_that_was_fitted_to_them():
    roles = ColumnRoles(features=frozenset(ATOMS))
    assert (roles.assign_roles(ATOMS, None, "t"), roles.excluded_columns(ATOMS, [], "t")) == ({}, [])


def test_a_table_of_atoms_is_read_as_weighted_rows(tmp_path):
    path = tmp_path / "atoms.csv"
    path.write_text("group,row,weight,mmd,height,age\na,7,.25,.9,1,2\nb,3,.75,.4,3,5\n")
    said = []
    data = load(str(path), note=said.append).value
    assert data.feature_names == ["height", "age"]
    assert data.weight.tolist() == [0.25, 0.75]
    assert f"{path}: herd wrote these columns beside the atoms, and they are not features: group, row, mmd" in said
