"""What a user of pandas or scikit-learn hands to a function: tables with labels beside them, lists, dictionaries, misspelt names."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import herdcli as herd
from herdcli.artifacts.sealed.artifact_comparison import largest_difference
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.python_inputs import format_assignments, option_words, rows_as_table_or_array, to_arrow_table

pytestmark = pytest.mark.filterwarnings("ignore:herd ")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
PRICE = X @ [1.0, -2.0] + RNG.normal(size=60)


@pytest.fixture(scope="module")
def linear():
    return herd.regress(X, PRICE, feature_names=["size", "rooms"])


def same_coefficients(fit, other):
    return largest_difference(fit.coefficients, other.coefficients)[0] < 1e-12


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def test_a_frame_and_a_series_together(pandas, linear):
    frame = pandas.DataFrame(X, columns=["size", "rooms"], index=pandas.date_range("2020-01-01", periods=60))
    price = pandas.Series(PRICE, name="price", index=frame.index)
    for y in (price, price.to_frame(), price.to_numpy(), price.tolist(), price.to_numpy()[:, None]):
        fit = herd.regress(frame, y)
        assert fit.feature_names == ["size", "rooms"]
        assert same_coefficients(fit, linear)
        assert fit.target == ("price" if y is price else "y")


def test_text_labels_and_weights_beside_a_frame(pandas):
    frame = pandas.DataFrame({"size": X[:, 0], "city": pandas.Categorical(np.where(X[:, 1] > 0, "Oslo", "Rome"))})
    sold = pandas.Series(np.where(PRICE > 0, "yes", "no"), name="sold")
    fit = herd.nherd_train(frame, sold, C=1.0, row_split=np.repeat([0, 1], 30))
    assert (fit.classes, fit.feature_names) == (["no", "yes"], ["size", "city=Oslo", "city=Rome"])
    assert set(fit.predict(frame)) == {"no", "yes"}
    assert fit.score(frame, sold) == np.mean(fit.predict(frame) == sold.to_numpy())
    weighted = herd.regress(frame[["size"]], PRICE, row_weight=np.arange(60.0))
    assert same_coefficients(weighted, herd.regress(frame[["size"]].assign(weight=np.arange(60.0), y=PRICE)))


def test_rows_that_do_not_belong_together_are_refused(pandas):
    frame, price = pandas.DataFrame(X, columns=["a", "b"]), pandas.Series(PRICE, name="price")
    with pytest.raises(
        BadUsage, match=r"^y and X have different indexes\nhint: use y\.loc\[X\.index\] to match by index, or y\.to_numpy\(\)"
    ):
        herd.regress(frame, price.sort_values())
    with pytest.raises(BadUsage, match=r"^y has 5 values, but X has 60 rows$"):
        herd.regress(frame, PRICE[:5])
    with pytest.raises(BadUsage, match=r"^X has a column 'y', and y is given too\nhint: leave out y, or rename or drop the column$"):
        herd.regress(frame.rename(columns={"a": "y"}), PRICE)
    with pytest.raises(BadUsage, match=r"^y has 2 columns, but must have one"):
        herd.regress(frame, frame)
    with pytest.raises(TypeError, match=r"^y needs one value for each row, not int; options are keywords$"):
        herd.fit_rbm(frame, 10)
    with pytest.raises(TypeError, match=r"^feature_names comes beside arrays"):
        herd.em(frame, feature_names=["a", "b"])
    with pytest.raises(BadUsage, match=r"^feature_names has 3 names, but X has 2 columns$"):
        herd.em(X, feature_names="abc")


def test_columns_with_many_levels_repeated_names_or_mixed_types(pandas):
    levels = pandas.DataFrame(X, columns=pandas.MultiIndex.from_tuples([("size", "m2"), ("size", "rooms")]))
    assert to_arrow_table(levels).column_names == ["size.m2", "size.rooms"]
    assert to_arrow_table(pandas.DataFrame(X)).column_names == ["0", "1"]
    with pytest.raises(BadUsage, match=r"^X has more than one column 'a'\nhint: rename or drop the repeated columns$"):
        herd.em(pandas.DataFrame(X, columns=["a", "a"]))
    with pytest.raises(BadUsage, match=r"^X: column 'a' has values of different types\nhint: convert it with DataFrame\.astype$"):
        herd.em(pandas.DataFrame({"a": [1, "x", 2.5]}))
    with pytest.raises(DataError, match=r"^X: column 'built' holds dates or times\nhint: turn them into numbers"):
        herd.em(pandas.DataFrame({"built": pandas.date_range("2001-01-01", periods=3), "a": [1.0, 2, 3]}))


def test_whole_numbers_with_gaps_are_numbers(pandas):
    y = pandas.Series([0, 1, None] * 20, dtype="Int64")
    with pytest.raises(DataError, match=r"^X: column y has 20 NaN rows \(first: row 2\)\nhint: "):
        herd.regress(X, y)
    with pytest.raises(DataError, match=r"^y has the label -1 in row 2"):
        herd.nherd_train(X, y.map({0: "no", 1: "yes"}))


def test_lists_and_dictionaries_are_rows(linear):
    for rows in (X.tolist(), [tuple(row) for row in X], X.astype(object)):
        assert same_coefficients(herd.regress(rows, PRICE.tolist()), linear)
    columns = {"size": X[:, 0], "rooms": X[:, 1].tolist()}
    records = [dict(zip(columns, row, strict=True)) for row in X.tolist()]
    for rows in (columns, records, pa.table(columns)):
        fit = herd.regress(rows, PRICE)
        assert fit.feature_names == ["size", "rooms"]
        assert same_coefficients(fit, linear)
    mixed = rows_as_table_or_array([[1.5, "red"], [2.5, "blue"]])
    assert (mixed.column_names, [str(kind) for kind in mixed.schema.types]) == (["x0", "x1"], ["double", "string"])


def test_tables_of_other_libraries_come_by_arrow_s_interface():
    class Frame:
        """A table that pandas, polars and pyarrow do not know."""

        columns = ("a", "b")

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": [1.0, 2.0], "b": ["x", "y"]}).__arrow_c_stream__(requested_schema)

    assert to_arrow_table(Frame()).to_pydict() == {"a": [1.0, 2.0], "b": ["x", "y"]}


def test_tensors_of_other_libraries_are_arrays():
    tensor = SimpleNamespace()
    kind = type("Tensor", (), {"__array__": lambda self, dtype=None, copy=None: np.eye(2)})
    assert rows_as_table_or_array(tensor) is tensor
    assert rows_as_table_or_array(kind()).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3]], r"this list is not a table of rows: its rows have 1 or 2 values"),
        (["a", "b"], r"a list of texts is not a table of rows; give a dictionary of columns"),
        ([], r"this list is not a table of rows"),
        ({"a": [1, 2], "b": [1]}, r"a dictionary of rows has a list of values for each column, all of one length \(a 2, b 1\)"),
        ({"a": 1}, r"a dictionary of rows has a list of values"),
        ({"a": [1, "x"]}, r"column 'a' has values of different types: int, str"),
        (3.5, r"X is a float; it should be an array, a table"),
        (None, r"em\(\) needs rows X: an array, a table"),
    ],
)
def test_what_is_not_rows_is_a_type_error(rows, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        herd.em(rows)


def test_dictionaries_are_evidence(tmp_path):
    network = herd.network("grid", grid_rows=2, grid_columns=2, seed=1)
    by_text = herd.ups_infer(network, evidence=["x0=1", "x3=0"], observe="x1=0.2,0.8")
    by_dictionary = herd.ups_infer(network, evidence={"x0": 1, "x3": np.int64(0), "x2": None}, observe={"x1": np.array([0.2, 0.8])})
    assert largest_difference(by_dictionary, by_text)[0] == 0.0
    assert format_assignments({"a=b": 1, 'say "x"': "y"}) == ['"a=b"=1', '"say \\"x\\""=y']
    assert option_words(["size", "a,b"], tmp_path, "columns", repeated=False, count=1) == [['size,"a,b"']]
    assert option_words(range(1, 4), tmp_path, "split", repeated=False, count=1) == [["1,2,3"]]
    assert option_words([("a", "b"), ("c", "d")], tmp_path, "plot", repeated=True, count=2) == [["a", "b"], ["c", "d"]]


def test_evidence_may_be_a_series(pandas, tmp_path):
    assert option_words(pandas.Series({"x0": 1, "x1": np.nan}), tmp_path, "evidence", repeated=True, count=1) == [["x0=1.0"]]


def test_inputs_have_names():
    with pytest.raises(TypeError, match=r"^apply\(\) needs model too$"):
        herd.apply(X=X)
    with pytest.raises(TypeError, match=r"^apply\(\) needs model$"):
        herd.apply()
    with pytest.raises(TypeError, match=r"^apply\(\) takes model, X; 3 inputs are given, options are keywords$"):
        herd.apply(X, X, X)
    with pytest.raises(TypeError, match=r"^merge\(\) needs models$"):
        herd.merge()
    with pytest.raises(TypeError, match=r"^this call needs an input: rows, a result, or a path$"):
        herd.kernel_herd(distribution="nowhere", count=3)
    model = herd.em(X, components=1)
    assert herd.apply(model=model, X=X) == herd.apply(model, X)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: herd.regress(X, PRICE, familly="gaussian"), TypeError, r"regress\(\) has no option 'familly'; did you mean 'family'\?"),
        (lambda: herd.regress(X, PRICE, max_iter=3), TypeError, r"regress\(\) has no option 'max_iter'; did you mean 'iterations'\?"),
        (lambda: herd.regress(X, PRICE, one_pass="yes"), TypeError, r"regress\(\) option 'one_pass' is True or False, not 'yes'"),
        (lambda: herd.fit_rbm(X, hidden=True), TypeError, r"fit_rbm\(\) option 'hidden' needs a value, not True"),
        (lambda: herd.regress({"a": [1.0, 2], "price": [1.0, 2]}, target="prise"), HerdError, r"[^\n]*prise[^\n]*\nhint: [^\n]*price"),
        (lambda: herd.em({"a": [1.0, 2], "b": [1.0, 2]}, columns="aa"), HerdError, r"X: --columns aa: there is no such column\nhint: "),
        (
            lambda: herd.ups_infer(herd.fit_mrf({"city": ["Rome", "Oslo"] * 9, "n": [0, 1, 1] * 6}), evidence={"citty": "Rome"}),
            DataError,
            r"--evidence: there is no variable 'citty'\nhint: did you mean 'city'\?",
        ),
        (
            lambda: herd.ups_infer(herd.fit_mrf({"city": ["Rome", "Oslo"] * 9, "n": [0, 1, 1] * 6}), evidence={"city": "Rom"}),
            DataError,
            r"--evidence: city has no state 'Rom'\nhint: did you mean 'Rome'\?",
        ),
        (
            lambda: herd.eval(herd.em(X, components=1), require="loglikelihood>0"),
            BadUsage,
            r"--require loglikelihood>0: there is no column 'loglikelihood'\nhint: did you mean log_likelihood\?",
        ),
        (lambda: herd.load("missing.h5"), HerdError, r"missing\.h5: there is no such file"),
        (lambda: herd.em(X, model="kmean"), BadUsage, r"Invalid value for '--model': [^\n]*\nhint: did you mean model='kmeans'\?$"),
        (
            lambda: herd.em(X, covariance="diag"),
            BadUsage,
            r"Invalid value for '--covariance': [^\n]*\nhint: did you mean covariance='diagonal'\?$",
        ),
        (lambda: herd.em(X, model="qqq"), BadUsage, r"Invalid value for '--model': 'qqq' is not one of [^\n]*$"),
        (lambda: herd.fit_rbm(X, visible_units="gausian"), BadUsage, r"Invalid [^\n]*\nhint: did you mean visible_units='gaussian'\?$"),
        (lambda: herd.kernel_herd(X, count=2, kernel="gausian"), BadUsage, r"[^\n]*\nhint: did you mean gaussian\?  kernels: "),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_warnings_show_the_line_of_the_caller():
    constant = np.column_stack([X > 0, np.ones(60)]).astype(float)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        rbm = herd.fit_rbm(constant, hidden=2, epochs=1)
        rbm.transform(np.column_stack([X > 0, np.zeros(60)]).astype(float))
    assert found
    assert {warning.filename for warning in found} == {__file__}


def test_functions_run_in_threads_and_in_processes(linear):
    found = {}

    def fit(number):
        found[number] = herd.regress(X, PRICE)

    threads = [threading.Thread(target=fit, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all(same_coefficients(each, linear) for each in found.values())


@pytest.mark.slow  # three processes that import herd
def test_results_and_errors_come_back_from_processes(linear):
    with get_context("spawn").Pool(1) as pool:
        assert same_coefficients(pool.apply(herd.regress, (X, PRICE)), linear)
        with pytest.raises(BadUsage, match=r"^y has 5 values"):
            pool.apply(herd.regress, (X, PRICE[:5]))


def test_names_types_and_help_of_functions():
    script = (
        "import herdcli as herd, pydoc; print(pydoc.render_doc(herd, renderer=pydoc.plaintext)); print(pydoc.plaintext.document(herd.em))"
    )
    text = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "    regress(X: Any = None, y: Any = None, *, row_split: Any = None" in text
    assert "      l1: Lasso penalty: adds l1 ‖β‖₁ to the mean loss." in text
    assert "herd data digits |" not in text  # examples of the shell
    assert {name for name in dir(herd) if not name.startswith("_")} == {*herd.LEARNING, *herd.COMPUTING, *herd.OWN}
