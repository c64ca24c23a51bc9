"""Feature learning: restricted Boltzmann machines, deep belief networks, independent components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neural_network import BernoulliRBM
from sklearn.utils.validation import check_is_fitted

from herdcli.engine import command_function
from herdcli.schema import Array
from herdcli.sklearn.base import BinaryUnitEstimator, Estimator, Options, RandomState, RowsLike, TargetsLike, writable_copy

if TYPE_CHECKING:
    from sklearn.utils import Tags

TWO_STATE = ("binary", "spin")


class Harmonium(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BinaryUnitEstimator):
    """The base of RBM and DBN: features are the means of the highest hidden units given the rows."""

    units: str
    visible_units: str | None

    def _are_units_binary(self) -> bool:
        return (self.visible_units or self.units) in TWO_STATE

    def fit(self, X: RowsLike, y: TargetsLike | None = None) -> Any:
        """Fit to all rows (n, d) of an array, a sparse matrix or a frame; y is ignored."""
        X = self._validate_training_rows(X, accept_sparse="csr")
        self._fit_command("fit_rbm", self._training_dataset(X), **self._asked(), **self._unit_options(X))
        self._n_features_out = int(self._highest_rbm().W.shape[2])
        return self

    def _asked(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in SETTINGS if hasattr(self, name)}
        return {name: value for name, value in own.items() if value is not None}

    def _highest_rbm(self) -> Any:
        return self.artifact_

    def transform(self, X: RowsLike) -> Array:
        """Return E[h | v] (n, K) of rows (n, d)."""
        made: Array = self._apply_model(self._clip_to_range(self._validate_new_rows(X, accept_sparse="csr")), want="features").X
        return made

    def score(self, X: RowsLike, y: TargetsLike | None = None) -> float:
        """Return the mean log-likelihood of rows in nats; for a DBN, return a lower bound.

        It is exact if a layer has at most 25 units, else computed by annealing.
        """
        checked = self._clip_to_range(self._validate_new_rows(X, accept_sparse="csr"))
        rows = self._training_dataset(checked, split=np.full(checked.shape[0], 2, dtype=np.uint8))
        row = command_function("eval")(self.artifact_, data=rows)[0]
        return float(row["log_likelihood"] if "log_likelihood" in row else row["log_likelihood_bound"])

    def sample(self, n_samples: int = 1, *, burn_in: int = 1000) -> Array:
        """Return rows (n_samples, d) sampled by Gibbs chains, one chain for each row."""
        check_is_fitted(self, "artifact_")
        rows: Array = command_function("sample")(self.artifact_, count=n_samples, burn_in=burn_in, seed=self.seed_).X
        return rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # features are float32
        return tags


class RBM(Harmonium):
    """A restricted Boltzmann machine, fitted as by `herd fit-rbm`.

    hidden         number of hidden units.
    units          families of both layers (binary, spin, gaussian, rate:N, …); visible_units and hidden_units set a single layer.
    algorithm      auto (rpcd for up to 32 binary units, else cd), cd, pcd, exact …; steps: Gibbs sweeps per update.
    learning_rate  None: chosen from units, batch and updates.
    standardize    gaussian visible units: columns are scaled to mean 0 and variance 1.
    threshold      grey values from this share of their range upwards are on; None: 0.4 of it.
    value_range    the range of grey values; None: that of the training rows.

    Attributes: `components_` (hidden, d), `intercept_visible_` (d), `intercept_hidden_` (hidden), `artifact_`.
    """

    def __init__(
        self,
        hidden: int = 100,
        *,
        units: str = "binary",
        visible_units: str | None = None,
        hidden_units: str | None = None,
        algorithm: str = "auto",
        steps: int = 1,
        epochs: int = 100,
        batch_size: int = 20,
        learning_rate: float | None = None,
        standardize: bool = False,
        threshold: float | None = None,
        value_range: tuple[float, float] | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.hidden = hidden
        self.units = units
        self.visible_units = visible_units
        self.hidden_units = hidden_units
        self.algorithm = algorithm
        self.steps = steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.threshold = threshold
        self.value_range = value_range
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None) -> RBM:
        """Fit to all rows (n, d) of an array, a sparse matrix or a frame; y is ignored."""
        super().fit(X, y)
        self._set_weight_attributes()
        return self

    def _set_weight_attributes(self) -> None:
        W, b, c = (writable_copy(item[0]) for item in (self.artifact_.W, self.artifact_.b, self.artifact_.c))
        self.components_, self.intercept_visible_, self.intercept_hidden_ = W.T, b, c
        self._n_features_out = len(c)

    @classmethod
    def from_artifact(cls, artifact: Any) -> RBM:
        """Return the fitted estimator of a model that a command or function fitted, or that `herd convert --to rbm` read."""
        if getattr(artifact, "count", 1) != 1:
            raise ValueError(f"there are {artifact.count} models, one for each class, and an RBM is one")
        hidden, about = artifact.W.shape[2], {"visible_units": artifact.visible_units, "hidden_units": artifact.hidden_units}
        made = cls(hidden, **about, epochs=artifact.epochs or 1, threshold=artifact.threshold, random_state=artifact.seed)
        made.artifact_, made.seed_, made.n_features_in_ = artifact, artifact.seed, artifact.columns
        limits = artifact.value_range if made._are_units_binary() else None
        made.value_range = made.value_range_ = None if limits is None else (float(limits[0]), float(limits[1]))
        if artifact.feature_names is not None:
            made.feature_names_in_ = np.array(artifact.feature_names, dtype=object)
        made._set_weight_attributes()
        return made

    def as_bernoulli_rbm(self) -> BernoulliRBM:
        """Return a fitted BernoulliRBM of scikit-learn with the same weights.  Raises ValueError for units that are not binary."""
        check_is_fitted(self, "artifact_")
        units = {self.artifact_.visible_units, self.artifact_.hidden_units}
        if units != {"binary"}:
            raise ValueError(f"a BernoulliRBM has binary units, this model {' and '.join(sorted(units))} ones")
        made = BernoulliRBM(len(self.components_))
        made.components_, made.intercept_visible_, made.intercept_hidden_ = (
            self.components_,
            self.intercept_visible_,
            self.intercept_hidden_,
        )
        made.n_features_in_, made._n_features_out = self.n_features_in_, len(self.components_)
        return made

    def score_samples(self, X: RowsLike) -> Array:
        """Return −F(v) (n,) in nats: the log-probability of each row plus log Z."""
        found: Array = self._apply_model(self._clip_to_range(self._validate_new_rows(X, accept_sparse="csr")), want="energies").X
        return -found[:, 0]


class DBN(Harmonium):
    """A deep belief network fitted layer by layer, as by `herd fit-rbm --layers`; parameters are those of RBM.

    layers  hidden units of each layer, the lowest first.
    """

    def __init__(
        self,
        layers: Sequence[int] = (100, 100),
        *,
        units: str = "binary",
        visible_units: str | None = None,
        hidden_units: str | None = None,
        steps: int = 1,
        epochs: int = 100,
        batch_size: int = 20,
        learning_rate: float | None = None,
        standardize: bool = False,
        threshold: float | None = None,
        value_range: tuple[float, float] | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.layers = layers
        self.units = units
        self.visible_units = visible_units
        self.hidden_units = hidden_units
        self.steps = steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.threshold = threshold
        self.value_range = value_range
        self.options = options
        self.random_state = random_state

    def _highest_rbm(self) -> Any:
        return self.artifact_.layers[-1]


SETTINGS = (
    *("hidden", "layers", "units", "visible_units", "hidden_units", "algorithm", "steps", "epochs", "batch_size", "learning_rate"),
    "standardize",
)


class ICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Independent components and energy-based filters, fitted as by `herd ica`.

    algorithm   infomax, ml, fastica, picard, sobi, ebm, equil, sparse-coding; None: the command's own.
    components  number of whitened dimensions; None: all.  filters: number of outputs; None: as many as dimensions.

    Attributes: `components_` (outputs, d), the unmixing matrix of centred rows, `mixing_` (d, outputs), `mean_` (d), `artifact_`.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        *,
        components: int | None = None,
        filters: int | None = None,
        iterations: int | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.algorithm = algorithm
        self.components = components
        self.filters = filters
        self.iterations = iterations
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None) -> ICA:
        """Fit to all rows (n, d); y is ignored."""
        X = self._validate_training_rows(X, ensure_min_samples=2)
        asked = {name: getattr(self, name) for name in ("algorithm", "components", "filters", "iterations")}
        self._fit_command("ica", self._training_dataset(X), **{name: value for name, value in asked.items() if value is not None})
        model = self.artifact_
        self.components_, self.mixing_, self.mean_ = (
            writable_copy(model.unmixing_matrix),
            writable_copy(model.basis),
            writable_copy(model.whitening.mean),
        )
        self._n_features_out = len(self.components_)
        return self

    def transform(self, X: RowsLike) -> Array:
        """Return the outputs (n, M) of rows (n, d)."""
        made: Array = self._apply_model(self._validate_new_rows(X)).X
        return made

    def inverse_transform(self, X: RowsLike) -> Array:
        """Return the rows (n, d) of outputs (n, M)."""
        check_is_fitted(self, "artifact_")
        made: Array = command_function("apply")(self.artifact_, np.asarray(X, dtype=np.float64), want="rows").X
        return made
