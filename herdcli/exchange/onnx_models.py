"""ONNX: a model as a graph of operations, which onnxruntime and other engines run without herd.  Extra `onnx`.

The input is `X` (rows × columns, float32), in the columns and units of the data that the model learned from.  Classifiers have the
outputs `label` (text) and `probabilities`, feature layers `features`, regressions `mean` or those of classifiers.
Source: the operators of ONNX, opset 17.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli import __version__
from herdcli.errors import BadUsage, DataError
from herdcli.kinds import kind_for_value
from herdcli.online.model import Classifier
from herdcli.rbm.layers import DBN, model_layers
from herdcli.rbm.units import unit_family

if TYPE_CHECKING:
    from herdcli.ica.model import ICA
    from herdcli.rbm.model import RBM
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.regression.perceptron.model import Perceptron

OPSET, IR = 17, 8
ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu", "logistic": "Sigmoid", "softplus": "Softplus"}
LEAST = 1e-30  # added to probabilities before they are normalised to sum to 1: the float32 counterpart of 1e−300


class GraphBuilder:
    """A graph under construction: each method adds an operation and returns the name of its result."""

    def __init__(self, columns: int) -> None:
        import onnx

        self.onnx: Any = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []
        value = onnx.helper.make_tensor_value_info
        self.inputs = [value("X", onnx.TensorProto.FLOAT, ["rows", columns])]

    def op(self, kind: str, *inputs: Any, results: int = 1, **attributes: Any) -> Any:
        """Add an operation on results of other operations and on numbers, and return the name of its result."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        made = [f"{kind.lower()}{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(self.onnx.helper.make_node(kind, names, made, **attributes))
        return made[0] if results == 1 else made

    def constant(self, value: Any) -> str:
        """Add a constant of numbers (float32 if they are real) or texts."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array.astype(object) if array.dtype.kind == "U" else array
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def column(self, value: float) -> str:
        """Add a column (rows, 1) of one number."""
        rows = self.op("Shape", "X", start=0, end=1)
        return str(self.op("Expand", value, self.op("Concat", rows, np.array([1]), axis=0)))

    def result(self, name: str, source: str, columns: int | None, *, text: bool = False) -> None:
        """Declare an output."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name]))
        kind = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.FLOAT
        shape = ["rows"] if columns is None else ["rows", columns]
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))

    def write(self, path: str | os.PathLike[str], kind: str) -> None:
        """Check the graph and write it."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, f"herd_{kind}", self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="herd", producer_version=__version__)
        model.ir_version = IR
        self.onnx.checker.check_model(model)
        with open(path, "wb") as file:
            file.write(model.SerializeToString(deterministic=True))


def write_classifier(path: str | os.PathLike[str], model: Classifier) -> None:
    """Write the scores and variances of linear classifiers, and the probabilities that `herd apply` gives."""
    if model.machines or model.bits or model.documents is not None:
        what = "support vectors" if model.machines else "documents" if model.documents is not None else "hashed features"
        raise BadUsage(
            f"a classifier of {what} cannot be written as onnx", hint="train it with herd nherd-train on a data set, with --kernel none"
        )
    assert model.mean is not None
    graph = GraphBuilder(model.features)
    x = _normalized_rows(graph, model)
    score = graph.op("MatMul", x, model.mean.T)
    if model.variance is not None:
        variance = graph.op("MatMul", graph.op("Mul", x, x), model.variance.T)
    else:
        variance = _full_variance(graph, model, x)
    _probabilities(graph, _link_input(graph, score, variance, model), model)
    graph.write(path, "classifier")


def _normalized_rows(graph: GraphBuilder, model: Classifier) -> str:
    """Return normalised rows, as the weights expect them: length 1, a constant in front, divided by the mean sizes of the features."""
    x, settings = "X", model.settings
    if settings.normalize:
        norm = graph.op("ReduceL2", x, axes=[1], keepdims=1)
        x = graph.op("Div", x, graph.op("Where", graph.op("Greater", norm, 0.0), norm, 1.0))
    if settings.bias:
        x = graph.op("Concat", graph.column(1.0), x, axis=1)
    if (found := model.factors) is not None and model.size is not None:
        location, factor = found
        about = graph.op("Sub", x, location) if location.any() else x
        new = np.where(model.size > 0, 0.0, 1.0)
        x = graph.op("Add", graph.op("Mul", about, factor), graph.op("Mul", graph.op("Sign", x), new))  # unseen features: their sign
    return str(x)


def _full_variance(graph: GraphBuilder, model: Classifier, x: str) -> str:
    """Return x'Σx of each class; each class has a block on the diagonal of the joint covariance of all weights."""
    assert model.covariance is not None
    width = model.columns
    together = len(model.covariance) != model.count
    places = [slice(k * width, (k + 1) * width) if together else slice(0, width) for k in range(model.count)]
    blocks = [model.covariance[0 if together else k, part, part] for k, part in enumerate(places)]
    parts = [graph.op("ReduceSum", graph.op("Mul", graph.op("MatMul", x, block), x), np.array([1]), keepdims=1) for block in blocks]
    return str(graph.op("Max", parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1), 0.0))


def _standard_margins(graph: GraphBuilder, score: str, variance: str, count: int) -> str:
    """Return m / √(1 + v) of each class against the strongest other class, as `online.prediction.standard_margins`."""
    if count == 1:
        one = graph.op("Div", score, graph.op("Sqrt", graph.op("Add", variance, 1.0)))
        return str(graph.op("Concat", graph.op("Neg", one), one, axis=1))
    _, order = graph.op("TopK", score, np.array([2]), axis=1, results=2)
    best, second = graph.op("Split", order, np.array([1, 1]), axis=1, results=2)
    own = graph.op("Equal", best, np.arange(count)[None])
    rival = graph.op("Where", own, second, best)
    margin = graph.op("Sub", score, graph.op("GatherElements", score, rival, axis=1))
    spread = graph.op("Add", graph.op("Add", variance, graph.op("GatherElements", variance, rival, axis=1)), 1.0)
    return str(graph.op("Div", margin, graph.op("Sqrt", spread)))


def _link_input(graph: GraphBuilder, score: str, variance: str, model: Classifier) -> str:
    """Return the argument of the link function of the confidence, as `online.prediction.link_input`."""
    if model.link != "softmax":
        return _standard_margins(graph, score, variance, model.count)
    mean = graph.op("Div", graph.op("ReduceSum", variance, np.array([1]), keepdims=1), float(model.count))
    return str(graph.op("Div", score, graph.op("Sqrt", graph.op("Add", mean, 1.0))))


def _probabilities(graph: GraphBuilder, margins: str, model: Classifier) -> None:
    """Add F(g m / √(1 + v)) of each class, normalised to sum to 1, and the class with the largest value."""
    if model.link != "normal":
        _class_outputs(graph, graph.op("Softmax", graph.op("Mul", margins, model.scale), axis=1), margins, model.classes)
        return
    # Φ(z) = ½ (1 + erf(z/√2))
    erf = graph.op("Erf", graph.op("Mul", margins, model.scale / np.sqrt(2.0)))
    phi = graph.op("Add", graph.op("Mul", graph.op("Add", erf, 1.0), 0.5), LEAST)
    _class_outputs(graph, graph.op("Div", phi, graph.op("ReduceSum", phi, np.array([1]), keepdims=1)), margins, model.classes)


def _class_outputs(graph: GraphBuilder, probabilities: str, values: str, names: list[str]) -> None:
    """Add the outputs of a classifier; by: the values whose largest one gives the most probable class."""
    likeliest = graph.op("ArgMax", values, axis=1, keepdims=0)
    graph.result("label", graph.op("Gather", np.array(names, dtype=str), likeliest, axis=0), None, text=True)
    graph.result("probabilities", probabilities, len(names))


def write_hidden_means(path: str | os.PathLike[str], model: RBM | DBN) -> None:
    """Write E[h | v] of an rbm, or of the layers of a dbn in sequence, as `herd apply --want features`."""
    layers = model_layers(model)
    if layers[0].labels is not None:
        raise DataError("is a joint model of rows and labels, which cannot be written as ONNX")
    graph = GraphBuilder(layers[0].columns)
    values = _unit_values(graph, layers[0])
    for layer in layers:
        parts = [_unit_means(graph, graph.op("Add", graph.op("MatMul", values, h.W), h.c), layer.hidden_units) for h in layer.harmoniums()]
        values = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    scale = unit_family(layers[-1].hidden_units).scale
    made = values if scale == 1 else graph.op("Div", values, float(scale))
    graph.result("features", made, layers[-1].c.size)
    graph.write(path, kind_for_value(model).name)


def _unit_values(graph: GraphBuilder, layer: RBM) -> str:
    """Return rows in the values of the visible units."""
    units = unit_family(layer.visible_units)
    if layer.column_mean is not None and layer.column_scale is not None:
        return str(graph.op("Div", graph.op("Sub", "X", layer.column_mean), layer.column_scale))
    if units.two_state and units.states is not None:
        low, high = (0.0, 1.0) if layer.value_range is None else map(float, layer.value_range)
        cut = low + (0.5 if layer.threshold is None else layer.threshold) * (high - low)
        on = graph.op("Cast", graph.op("GreaterOrEqual", "X", cut), to=1)
        least, most = units.states
        return str(on if (least, most) == (0, 1) else graph.op("Sub", graph.op("Mul", on, float(most - least)), float(-least)))
    if units.proportions:
        low, high = (0.0, 1.0) if layer.value_range is None else map(float, layer.value_range)
        return str(graph.op("Mul", graph.op("Div", graph.op("Sub", "X", low), high - low), float(units.scale)))
    return "X"


def _unit_means(graph: GraphBuilder, natural: str, name: str) -> str:
    """Return the means of units with natural parameters (rows, K)."""
    return str(unit_family(name).add_mean_to_graph(graph, natural))


def write_ica(path: str | os.PathLike[str], model: ICA) -> None:
    """Write the filter outputs of rows, as `herd apply` gives them."""
    if model.dictionary is not None:
        raise BadUsage(
            "a sparse coding model cannot be written as ONNX, because its codes are computed by iteration",
            hint="use herd ica with another --algorithm",
        )
    graph = GraphBuilder(int(model.whitening.mean.size))
    x = graph.op("Log", graph.op("Add", "X", 1.0)) if model.whitening.log else "X"
    graph.result("features", graph.op("MatMul", graph.op("Sub", x, model.whitening.mean), model.unmixing_matrix.T), len(model.J))
    graph.write(path, "ica")


def write_regression(path: str | os.PathLike[str], model: GeneralisedLinear) -> None:
    """Write the mean of each row, or the probabilities of its classes, as `herd apply` gives them."""
    graph = GraphBuilder(int(model.coefficients.shape[1]))
    eta = graph.op("Add", graph.op("MatMul", "X", model.coefficients.T), model.intercept)
    _family_outputs(graph, eta, model, len(model.coefficients))
    graph.write(path, "regression")


def write_perceptron(path: str | os.PathLike[str], model: Perceptron) -> None:
    """Write the mean of each row, or the probabilities of its classes, as `herd apply` gives them."""
    graph = GraphBuilder(model.columns)
    x = graph.op("Mul", graph.op("Sub", "X", model.column_mean), model.column_factor)
    for number, layer in enumerate(model.layers):
        x = graph.op("Add", graph.op("MatMul", x, layer.W.T), layer.b)
        if number < len(model.layers) - 1:
            x = graph.op(ACTIVATIONS[model.activation], x)
    _family_outputs(graph, x, model, len(model.null_intercept))
    graph.write(path, "perceptron")


def _family_outputs(graph: GraphBuilder, eta: Any, model: GeneralisedLinear | Perceptron, predictors: int) -> None:
    """Add the outputs for linear predictors (rows, K): means, or classes."""
    if model.family == "softmax":
        missing = len(model.classes or []) - predictors
        if missing:  # the first class is the reference of the others
            eta = graph.op("Concat", graph.column(0.0), eta, axis=1)
        p = graph.op("Softmax", eta, axis=1)
    elif model.family == "bernoulli":
        p = graph.op("Sigmoid", eta)
    elif model.family == "gaussian":
        p = eta
    elif model.family in ("poisson", "gamma", "gamma-shape"):
        p = graph.op("Mul", graph.op("Exp", eta), model.scale if model.family == "gamma-shape" else 1.0)
    else:
        raise BadUsage(f"a regression of family {model.family} cannot be written as onnx")
    if model.classes:
        p = p if model.family == "softmax" else graph.op("Concat", graph.op("Sub", 1.0, p), p, axis=1)
        _class_outputs(graph, p, p, model.classes)
    else:
        graph.result("mean", p, 1)
