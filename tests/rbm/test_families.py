"""Unit families of both layers, mixed freely: against enumeration, closed forms, quadrature and replicated binary units."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln, logsumexp

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import normalizability
from herdcli.rbm.likelihood import annealed_importance, enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator

FINITE = ("binary", "spin", "rate:3", "softmax:3")
NAMES = (*FINITE, "gaussian", "poisson")
# pairs whose partition function is finite for small weights of either sign
PAIRS = [pair for pair in itertools.product(NAMES, NAMES) if not set(pair) <= {"gaussian", "poisson"}] + [("gaussian", "gaussian")]


def model(visible: str, hidden: str, shape: tuple[int, int] = (3, 3), *, scale: float = 0.4, seed: int = 0) -> Harmonium:
    random = np.random.default_rng(seed)
    D, K = shape
    W = random.normal(0, scale, (D, K))
    if visible == hidden == "gaussian":
        W *= 0.6 / np.linalg.norm(W, 2)
    if visible == hidden == "poisson":
        W = -np.abs(W)
    return Harmonium(W, random.normal(0, 0.5, D), random.normal(0, 0.5, K), unit_family(visible), unit_family(hidden))


def lattice(name: str, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (S, columns) of a layer and the log of the weight of each: all states, or enough of a grid to integrate over."""
    units = unit_family(name)
    if name == "gaussian":
        x = np.arange(-9, 9.01, 0.5)
        one, weight = x[:, None], -0.5 * x**2 - 0.5 * np.log(2 * np.pi) + np.log(0.5)
    elif name == "poisson":
        x = np.arange(0.0, 45.0)
        one, weight = x[:, None], -gammaln(x + 1)
    elif name.startswith("rate"):
        x, n = np.arange(units.scale + 1.0), units.scale
        one, weight = x[:, None], gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    else:
        one = np.eye(units.group) if units.group > 1 else np.array([[float(value)] for value in units.states])
        weight = np.zeros(len(one))
    count = columns // units.group
    chosen = np.array(list(itertools.product(range(len(one)), repeat=count)))
    return one[chosen].reshape(len(chosen), columns), weight[chosen].sum(axis=1)


def small_shape(visible: str, hidden: str) -> tuple[int, int]:
    """Columns that keep a sum over both layers' lattices short."""

    def columns(name: str) -> int:
        return {"gaussian": 2, "poisson": 2}.get(name, 3)

    return columns(visible), columns(hidden)


def joint(h: Harmonium) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visible points, hidden points, and the log weight of each pair, from the definition of the energy."""
    v, v_weight = lattice(h.visible.name, len(h.b))
    z, z_weight = lattice(h.hidden.name, len(h.c))
    return v, z, (v @ h.b + v_weight)[:, None] + (z @ h.c + z_weight)[None] + v @ h.W @ z.T


@pytest.mark.parametrize("name", NAMES)
def test_log_partition_mean_and_base_measure_belong_together(name: str) -> None:
    """A(a) is the log of the sum over values, its derivative the mean."""
    units = unit_family(name)
    natural = np.linspace(-1.5, 1.2, units.group * (4 if units.group > 1 else 9)).reshape(-1, units.group)
    values, weight = lattice(name, units.group)
    np.testing.assert_allclose(units.log_partition(natural)[:, 0], logsumexp(natural @ values.T + weight, axis=1), atol=1e-9)
    np.testing.assert_allclose(units.summed_log_partition(natural.copy()), units.log_partition(natural).sum(axis=1), atol=1e-12)
    if name != "gaussian":
        np.testing.assert_allclose(units.log_base_measure(values), weight, atol=1e-12)
    p = np.exp(natural @ values.T + weight - units.log_partition(natural))
    np.testing.assert_allclose(units.mean(natural), p @ values, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_natural_parameters_have_the_mean_they_are_made_for(name: str) -> None:
    units = unit_family(name)
    mean = units.mean(np.linspace(-2, 2, 12)[None])
    np.testing.assert_allclose(units.mean(units.natural(mean)), mean, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_base_rates_are_finite_and_near_the_means_of_the_rows(name: str) -> None:
    units, random = unit_family(name), np.random.default_rng(0)
    values, _ = lattice(name, units.group)
    rows = values[random.integers(0, min(len(values), 6), 2000)]
    rows = np.hstack([rows, np.tile(values[0], (2000, 1))])
    biases = units.base_rate_parameters(rows)
    assert np.isfinite(biases).all()
    np.testing.assert_allclose(units.mean(biases[None])[0], rows.mean(axis=0), atol=0.02)


@pytest.mark.parametrize(("visible", "hidden"), PAIRS)
def test_free_energies_and_log_z_are_sums_over_all_states(visible: str, hidden: str) -> None:
    h = model(visible, hidden, small_shape(visible, hidden))
    v, _, weight = joint(h)
    inside = v[np.abs(v).max(axis=1) < 3] if visible == "gaussian" else v[:200]
    rows = [int(np.flatnonzero((v == row).all(axis=1))[0]) for row in inside[:60]]
    correction = 2 * np.log(0.5) if visible == "gaussian" else 0.0  # the spacing of the grid is no part of the density
    np.testing.assert_allclose(-h.free_energy(v[rows]), logsumexp(weight[rows], axis=1) - correction, atol=1e-8)
    assert enumeration.is_enumerable(h)
    assert enumeration.exact_log_partition(h) == pytest.approx(logsumexp(weight), abs=1e-8)


@pytest.mark.parametrize(("visible", "hidden"), [("rate:4", "rate:2"), ("softmax:3", "rate:4"), ("gaussian", "softmax:2")])
def test_enumeration_in_blocks_is_the_whole_sum(visible: str, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h = model(visible, hidden, (6, 4))
    whole = enumeration.exact_log_partition(h)
    monkeypatch.setattr(enumeration, "BLOCK", 60)
    assert enumeration.exact_log_partition(h) == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), [(n, m) for n in (1, 3) for m in (1, 4)])
def test_a_rate_unit_is_exactly_its_replicated_binary_units(visible: int, hidden: int) -> None:
    """Same weights for all replicas: log Z, the likelihood of counts, hidden and visible means and pseudo-samples agree."""
    h = model(f"rate:{visible}", f"rate:{hidden}", (2, 3), scale=0.8)
    replicated = Harmonium(
        np.kron(h.W, np.ones((visible, hidden))),
        np.repeat(h.b, visible),
        np.repeat(h.c, hidden),
        unit_family("binary"),
        unit_family("binary"),
    )
    assert enumeration.exact_log_partition(h) == pytest.approx(enumeration.exact_log_partition(replicated), abs=1e-12)
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=2 * visible)))
    counts = bits.reshape(-1, 2, visible).sum(axis=2)
    probability = np.exp(row_likelihood.row_log_likelihood(replicated, bits, enumeration.exact_log_partition(replicated)))
    for row in np.unique(counts, axis=0):
        found = row_likelihood.row_log_likelihood(h, row[None], enumeration.exact_log_partition(h))[0]
        assert found == pytest.approx(np.log(probability[(counts == row).all(axis=1)].sum()), abs=1e-12)
    np.testing.assert_allclose(h.hidden_means(counts), replicated.hidden_means(bits).reshape(len(bits), 3, hidden).sum(axis=2), atol=1e-12)


@pytest.mark.parametrize("hidden", NAMES[:4])
def test_the_gauge_map_of_binary_to_spin_visible_units_carries_log_z_and_likelihoods(hidden: str) -> None:
    """v = (1 + s)/2: W/2, b/2, and c gains half the column sums; log Z moves by Σ b/2."""
    h = model("binary", hidden, (4, 3), scale=1.0)
    spins = Harmonium(h.W / 2, h.b / 2, h.c + h.W.sum(axis=0) / 2, unit_family("spin"), h.hidden)
    log_z, moved = enumeration.exact_log_partition(h), enumeration.exact_log_partition(spins)
    assert log_z == pytest.approx(moved + h.b.sum() / 2, abs=1e-12)
    v = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    ours, theirs = row_likelihood.row_log_likelihood(h, v, log_z), row_likelihood.row_log_likelihood(spins, 2 * v - 1, moved)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_allclose(
        row_likelihood.log_pseudo_likelihood(h, v), row_likelihood.log_pseudo_likelihood(spins, 2 * v - 1), atol=1e-12
    )


def test_gaussian_layers_are_probabilistic_pca_with_unit_noise() -> None:
    """v ~ N(m, (I − WW')⁻¹) = N(m, I + AA') with A of the same left vectors: log Z and likelihood of that normal density."""
    h = model("gaussian", "gaussian", (5, 2))
    covariance = np.linalg.inv(np.eye(5) - h.W @ h.W.T)
    left, singular, _ = np.linalg.svd(h.W)
    A = left[:, :2] * np.sqrt(1 / (1 - singular**2) - 1)
    np.testing.assert_allclose(covariance, np.eye(5) + A @ A.T, atol=1e-12)
    mean = covariance @ (h.b + h.W @ h.c)
    v = np.random.default_rng(1).normal(0, 2, (20, 5))
    centred = v - mean
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + (centred @ np.linalg.inv(covariance) * centred).sum(axis=1))
    np.testing.assert_allclose(row_likelihood.row_log_likelihood(h, v, enumeration.exact_log_partition(h)), expected, atol=1e-10)


@pytest.mark.parametrize(("visible", "hidden"), list(itertools.product(("rate:3", "softmax:3", "spin"), NAMES[:4])))
def test_pseudo_likelihood_is_the_product_of_conditionals(visible: str, hidden: str) -> None:
    h = model(visible, hidden, (6 if visible.startswith("softmax") else 3, 3))
    group = h.visible.group
    v, _, weight = joint(h)
    log_p = logsumexp(weight, axis=1)
    expected = np.zeros(len(v))
    for first in range(0, v.shape[1], group):
        others = np.delete(v, np.arange(first, first + group), axis=1)
        for index, row in enumerate(others):
            expected[index] += log_p[index] - logsumexp(log_p[(others == row).all(axis=1)])
    np.testing.assert_allclose(row_likelihood.log_pseudo_likelihood(h, v), expected, atol=1e-10)


def test_goodness_of_fit_3_10_is_3_7() -> None:
    """Σ_h P(h|v) (v'W h − log P(h|v)), base measure of the counts included, is Σ_j n log(1 + e^{I_j}), −F without its visible part."""
    h = model("rate:2", "rate:4", (3, 2))
    h = Harmonium(h.W, np.zeros(3), np.zeros(2), h.visible, h.hidden)
    z, base = lattice("rate:4", 2)
    for v in ([0.0, 1.0, 2.0], [2.0, 2.0, 1.0], [0.5, 1.7, 0.2]):  # pixels between counts too
        terms = v @ h.W @ z.T
        log_p = terms + base - logsumexp(terms + base)
        fit = np.exp(log_p) @ (terms - (log_p - base))
        assert fit == pytest.approx(4 * np.log1p(np.exp(v @ h.W)).sum(), abs=1e-12)
        assert fit == pytest.approx(-h.free_energy(np.array([v]))[0] - h.visible.log_base_measure(np.array([v]))[0], abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_samples_and_means_are_the_familys(name: str) -> None:
    units, n = unit_family(name), 20_000
    bias = np.linspace(-1.5, 1.2, 12).astype(np.float32)
    natural, states = np.zeros((n, 12), dtype=np.float32), np.empty((n, 12), dtype=np.float32)
    units.layer().sample(natural, bias, states, generator(0, Stream.GIBBS), scale=0.5, beta=0.8)
    mean = units.mean(0.8 * bias.astype(np.float64)[None])[0]
    np.testing.assert_allclose(natural, np.tile(0.5 * mean, (n, 1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states.mean(axis=0), mean, atol=5 * np.sqrt(states.var(axis=0).max() / n))
    values, weight = lattice(name, units.group)
    p = np.exp(0.8 * bias.astype(np.float64).reshape(-1, units.group) @ values.T + weight)
    p /= p.sum(axis=1, keepdims=True)
    second = (p @ values**2).reshape(-1)
    np.testing.assert_allclose((states**2).mean(axis=0), second, rtol=0.1)
    if name != "gaussian":
        units.require_valid_block(states)
        assert {tuple(row) for row in states.reshape(-1, units.group)} <= {tuple(row) for row in values.astype(np.float32)}
    natural = np.zeros((3, 12), dtype=np.float32)
    units.layer().means(natural, bias, scale=-2.0)
    np.testing.assert_allclose(natural[0], -2 * units.mean(bias.astype(np.float64)[None])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_are_no_rows(name: str) -> None:
    none = np.empty((0, 6), dtype=np.float32)
    assert unit_family(name).layer().sample_unbiased_states((0, 6), generator(0, Stream.INITIAL)).shape == (0, 6)
    unit_family(name).layer().sample(none, np.zeros(6, np.float32), none.copy(), generator(0, Stream.GIBBS))
    unit_family(name).require_valid_block(none)
    assert unit_family(name).summed_log_partition(none.copy()).shape == (0,)
    assert unit_family(name).mean(none).shape == (0, 6)


@pytest.mark.parametrize("name", NAMES)
def test_fair_states_are_drawn_at_natural_parameter_0(name: str) -> None:
    states = unit_family(name).layer().sample_unbiased_states((4000, 6), generator(0, Stream.INITIAL))
    assert states.dtype == np.float32
    expected = unit_family(name).mean(np.zeros((1, 6)))[0]
    np.testing.assert_allclose(states.mean(axis=0), expected, atol=5 * np.sqrt(states.var(axis=0).max() / 4000))


@pytest.mark.parametrize(
    ("visible", "hidden"), [("rate:3", "gaussian"), ("softmax:3", "poisson"), ("gaussian", "softmax:3"), ("poisson", "rate:3")]
)
def test_sweeps_leave_the_models_own_distribution_in_place(visible: str, hidden: str) -> None:
    """From fair states, 40 sweeps of 20 000 chains reach the first two moments of p(v) as summed over the lattice."""
    n, h = 20_000, model(visible, hidden, small_shape(visible, hidden))
    W, b, c = (part.astype(np.float32) for part in (h.W, h.b, h.c))
    sweeper = GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), generator(0, Stream.SAMPLE))
    states = sweeper.hidden.sample_unbiased_states((n, len(c)), generator(0, Stream.INITIAL))
    v, means, hidden_means = np.empty((n, len(b)), np.float32), np.empty((n, len(b)), np.float32), np.empty((n, len(c)), np.float32)
    for _ in range(40):
        sweeper.update_visible(states, means, v)
        sweeper.update_hidden(v, hidden_means, states)
    points, _, weight = joint(h)
    p = np.exp(logsumexp(weight, axis=1) - logsumexp(weight))
    for power in (1, 2):
        expected, spread = p @ points**power, np.sqrt(p @ points ** (2 * power) / n)
        assert (np.abs((v.astype(np.float64) ** power).mean(axis=0) - expected) < 5 * spread).all()


@pytest.mark.parametrize(("visible", "hidden"), [*PAIRS, ("poisson", "poisson")])
def test_annealing_agrees_with_the_sum(visible: str, hidden: str) -> None:
    h = model(visible, hidden, small_shape(visible, hidden))
    _, _, weight = joint(h)
    problem = annealed_importance.AnnealingProblem((h,), (np.zeros(len(h.b)),), chains=400, temperatures=100)
    (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    assert found.log_partition == pytest.approx(logsumexp(weight), abs=5 * found.standard_error + 1e-6)
    assert found.standard_error < 0.1


# what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gauss", "unknown units 'gauss', expected one of binary, spin, rate:N, gaussian, poisson, softmax:K, words"),
        ("rate", "unknown units 'rate'"),
        ("rate:0", "unknown units 'rate:0'"),
        ("rate:2000", "rate:N needs a number N from 1 to 1000, not 2000"),
        ("softmax:1", "softmax:N needs a number N from 2 to 1000, not 1"),
    ],
)
def test_names_of_no_family_are_refused(name: str, says: str) -> None:
    with pytest.raises(BadUsage) as caught:
        unit_family(name)
    assert caught.value.message.startswith(says)


@pytest.mark.parametrize(
    ("name", "rows", "says"),
    [
        ("binary", [[0, 2]], "there are values other than 0 and 1, but binary units need one of these"),
        ("spin", [[-1, 0]], "there are values other than -1 and 1, but spin units need one of these"),
        ("rate:4", [[0, 4.5]], "there are values from 0 to 4.5, but rate:4 units have only 0 to 4"),
        ("rate:4", [[-1, 2]], "there are values from -1 to 2, but rate:4 units have only 0 to 4"),
        ("gaussian", [[0, np.inf]], "there are values that are not finite"),
        ("poisson", [[0, 1], [2, 0.5]], "there is a value 0.5 in row 1, column 1, but poisson units need whole numbers from 0 upwards"),
        ("poisson", [[-3, 1]], "there is a value -3 in row 0, column 0, but poisson units need whole numbers from 0 upwards"),
        ("softmax:2", [[0, 1, 1]], "there are 3 columns, but softmax:2 units need a multiple of 2"),
        (
            "softmax:2",
            [[0, 1, 0, 1], [1, 0, 1, 1]],
            "columns 2 to 3 of row 1 sum to 2: the 2 columns of each softmax:2 unit must be at least 0 and sum to 1",
        ),
    ],
)
def test_values_outside_a_familys_domain_are_named(name: str, rows: list[list[float]], says: str) -> None:
    with pytest.raises(DataError) as caught:
        unit_family(name).require_valid_block(np.array(rows, dtype=np.float32))
    assert caught.value.message == says


def test_values_inside_a_familys_domain_are_accepted() -> None:
    for name, rows in (("rate:4", [[0, 3.5]]), ("softmax:2", [[0.25, 0.75]]), ("poisson", [[0, 1e6]]), ("spin", [[-1, 1]])):
        unit_family(name).require_valid_block(np.array(rows, dtype=np.float32))


def test_models_that_are_not_normalisable_are_refused_with_the_reason() -> None:
    two = np.eye(2)
    with pytest.raises(DataError, match=r"largest singular value of the weights is 1\.5, but gaussian layers need a value below 1"):
        enumeration.exact_log_partition(Harmonium(1.5 * two, np.zeros(2), np.zeros(2), unit_family("gaussian"), unit_family("gaussian")))
    with pytest.raises(DataError, match=r"a weight is 0\.1, but poisson layers need weights of at most 0"):
        normalizability.require_normalisable(Harmonium(0.1 * two, np.zeros(2), np.zeros(2), unit_family("poisson"), unit_family("poisson")))
    with pytest.raises(BadUsage, match="poisson visible with gaussian hidden units have no normalisable distribution"):
        normalizability.require_normalisable_families(unit_family("poisson"), unit_family("gaussian"))
    normalizability.require_normalisable_families(unit_family("gaussian"), unit_family("gaussian"))


def test_projection_moves_weights_to_the_nearest_proper_ones() -> None:
    random = np.random.default_rng(0)
    W = random.normal(size=(6, 3))
    left, singular, right = np.linalg.svd(W, full_matrices=False)
    moved = W.copy()
    normalizability.project_to_normalisable(unit_family("gaussian"), unit_family("gaussian"), moved)
    np.testing.assert_allclose(moved, (left * np.minimum(singular, 0.999)) @ right, atol=1e-12)
    inside = 0.1 * W
    normalizability.project_to_normalisable(unit_family("gaussian"), unit_family("gaussian"), inside)
    np.testing.assert_array_equal(inside, 0.1 * W)
    one = np.diag([1.5, 0.1, 0.2])
    normalizability.project_to_normalisable(unit_family("gaussian"), unit_family("gaussian"), one)
    np.testing.assert_allclose(one, np.diag([0.999, 0.1, 0.2]), atol=1e-12)
    counts = W.copy()
    normalizability.project_to_normalisable(unit_family("poisson"), unit_family("poisson"), counts)
    np.testing.assert_array_equal(counts, np.minimum(W, 0))
    free = W.copy()
    normalizability.project_to_normalisable(unit_family("poisson"), unit_family("binary"), free)
    np.testing.assert_array_equal(free, W)


def test_pseudo_likelihood_of_infinitely_many_values_is_refused() -> None:
    h = model("gaussian", "binary")
    with pytest.raises(BadUsage, match="pseudo-likelihood needs visible units with finitely many values, but these are gaussian"):
        row_likelihood.log_pseudo_likelihood(h, np.zeros((1, 3)))


def test_layers_of_too_many_states_are_not_enumerated() -> None:
    h = model("rate:3", "rate:3", (13, 13))
    assert not enumeration.is_enumerable(h)
    with pytest.raises(BadUsage, match=r"at most 2\^25 states, but both layers have more"):
        enumeration.exact_log_partition(h)


# what belongs to a family besides its distribution ------------------------------------------------


@pytest.mark.parametrize(
    ("name", "group", "scale", "limits", "values"),
    [
        ("binary", 1, 1, (0.0, 1.0), [[0], [1]]),
        ("spin", 1, 1, (-1.0, 1.0), [[-1], [1]]),
        ("rate:3", 1, 3, (0.0, 3.0), [[0], [1], [2], [3]]),
        ("softmax:2", 2, 1, (0.0, 1.0), [[1, 0], [0, 1]]),
        ("gaussian", 1, 1, None, None),
        ("poisson", 1, 1, None, None),
    ],
)
def test_columns_scale_range_and_values_of_a_unit(name: str, group: int, scale: int, limits: object, values: object) -> None:
    units = unit_family(name)
    assert (units.name, units.group, units.scale, units.range) == (name, group, scale, limits)
    assert (None if units.support is None else units.support.tolist()) == values
    assert unit_family("rate:1000").scale == unit_family("softmax:1000").group == 1000
    assert unit_family("rate:1").scale == 1


def test_base_rates_are_smoothed_as_each_family_says() -> None:
    """Rows 1 to 3 of one column; the pseudo-counts are those of the docstrings."""
    for name, column, mean in (
        ("binary", [1, 1, 0], 3 / 5),  # a row of each state
        ("spin", [1, 1, -1], 3 / 5 - 2 / 5),
        ("rate:4", [4, 1, 1], (6 + 4) / 5),  # a row of 0 and one of 4
        ("gaussian", [2.0, 4.0, -1.5], 1.5),
        ("poisson", [0, 3, 4], 7.5 / 4),  # half a count in a row more
    ):
        rows = np.array(column, dtype=np.float32)[:, None]
        np.testing.assert_allclose(unit_family(name).mean(unit_family(name).base_rate_parameters(rows)), [mean], rtol=1e-12, err_msg=name)
    chosen = np.eye(3)[[0, 0, 0, 2]]
    np.testing.assert_allclose(
        unit_family("softmax:3").mean(unit_family("softmax:3").base_rate_parameters(chosen)), np.array([4, 1, 2]) / 7, rtol=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
def test_layers_take_natural_parameters_as_they_are_unless_asked(name: str) -> None:
    units = unit_family(name)
    bias, natural = np.linspace(-0.5, 0.4, 6, dtype=np.float32), np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    expected = units.mean(natural.astype(np.float64) + bias)
    for sampled in (False, True):
        means, states = natural.copy(), np.empty_like(natural)
        if sampled:
            units.layer().sample(means, bias, states, generator(0, Stream.GIBBS))
        else:
            units.layer().means(means, bias)
        np.testing.assert_allclose(means, expected, rtol=1e-5, atol=1e-6)
    double, states = natural.copy(), np.empty_like(natural)
    units.layer().means(double, bias, scale=2.0)
    np.testing.assert_allclose(double, 2 * expected, rtol=1e-5, atol=1e-6)
    double = natural.copy()
    units.layer().sample(double, bias, states, generator(0, Stream.GIBBS), scale=2.0, beta=2.0)
    np.testing.assert_allclose(double, 2 * units.mean(2 * (natural.astype(np.float64) + bias)), rtol=1e-5, atol=1e-6)


def test_rates_of_counts_end_at_e_to_the_20th() -> None:
    natural = np.array([[19.0, 21.0, 300.0]], dtype=np.float32)
    unit_family("poisson").layer().means(natural, np.zeros(3, dtype=np.float32))
    np.testing.assert_allclose(natural, np.exp([[19.0, 20.0, 20.0]]), rtol=1e-5)
    assert unit_family("poisson").mean(np.array([699.0, 800.0])) == pytest.approx(np.exp([699.0, 700.0]))


def test_proportions_of_one_of_k_columns_may_be_rounded() -> None:
    unit_family("softmax:2").require_valid_block(np.array([[0.3, 0.70005]]))
    with pytest.raises(DataError, match=r"columns 0 to 1 of row 7 sum to 1\.0002"):
        unit_family("softmax:2").require_valid_block(np.array([[0.3, 0.7002]]), 7)
    with pytest.raises(DataError, match="columns 2 to 3 of row 0 sum to 1:"):
        unit_family("softmax:2").require_valid_block(np.array([[0.0, 1.0, -0.5, 1.5]]))


def test_entries_that_a_sparse_matrix_leaves_out_are_0() -> None:
    X = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0]])
    rows = csr_array(X)
    for name, expected in (("rate:3", np.log([3, 3, 1])), ("poisson", -np.log([2, 6, 1]))):  # n over x; 1/x!
        unit_family(name).require_rows(rows)
        np.testing.assert_allclose(unit_family(name).row_log_base_measure(rows), expected, atol=1e-12)
        np.testing.assert_allclose(unit_family(name).row_log_base_measure(X), expected, atol=1e-12)
    assert unit_family("spin").row_log_base_measure(X) == unit_family("binary").row_log_base_measure(rows) == 0.0
    unit_family("binary").require_rows(csr_array(np.array([[0, 1], [0, 0]])))
    unit_family("spin").require_rows(csr_array(np.array([[-1, 1], [1, 1]])))
    with pytest.raises(DataError, match="values other than -1 and 1"):
        unit_family("spin").require_rows(csr_array(np.array([[-1, 1], [1, 0]])))
    with pytest.raises(DataError, match="values other than 0 and 1"):
        unit_family("binary").require_rows(csr_array(np.array([[0, 2]])))
