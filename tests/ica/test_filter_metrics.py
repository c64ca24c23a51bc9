"""What is said of filters, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from herdcli.ica.filters import filter_metrics, filter_spectra


def test_interference_of_a_known_product():
    product = np.array([[0.0, 10.0, 1.0], [-4.0, 0.0, 0.0], [1.0, 1.0, 2.0]])
    assert filter_metrics.source_to_interference_db(product) == pytest.approx([np.inf, 20.0, 10 * np.log10(4 / 2)])
    assert filter_metrics.source_to_interference_db(product, np.array([1.0, 4.0, 1.0])) == pytest.approx(
        [np.inf, 10 * np.log10(400), 10 * np.log10(4 / 5)]
    )


def test_interference_does_not_see_order_and_scale_of_the_outputs():
    product = np.random.default_rng(0).normal(size=(5, 5)) + 4 * np.eye(5)
    other = (product * [[2.0], [-1.0], [0.1], [7.0], [1.0]])[[3, 0, 4, 1, 2]]
    assert filter_metrics.source_to_interference_db(other) == pytest.approx(filter_metrics.source_to_interference_db(product))


def test_a_source_without_an_output_has_none():
    assert filter_metrics.source_to_interference_db(np.array([[1.0, 0.1], [0.0, 0.0]]))[1] == -np.inf
    assert filter_metrics.source_to_interference_db(np.array([[1.0, 0.0]])).tolist() == [np.inf, -np.inf]


def test_kurtosis_of_known_densities():
    random = np.random.default_rng(0)
    outputs = np.stack([random.normal(size=200_000), random.laplace(size=200_000), random.uniform(size=200_000)], axis=1)
    assert filter_metrics.excess_kurtosis(outputs) == pytest.approx([0.0, 3.0, -1.2], abs=0.15)


def test_participation_of_one_entry_of_some_and_of_all():
    filters = np.array([[0, 3, 0, 0], [1, -1, 0, 0], [2, 2, -2, 2.0]])
    assert filter_metrics.participation_ratio(filters) == pytest.approx([0.25, 0.5, 1.0])


def test_localisation_of_a_point_and_of_even_power():
    point, even, edges = np.eye(12)[5], np.ones(12), np.eye(12)[[0, 11]].sum(axis=0)
    assert filter_metrics.filter_localisation(np.stack([point, even]), (3, 4)) == pytest.approx([1.0, 0.0])
    assert filter_metrics.filter_localisation(edges[None], (12,))[0] == pytest.approx(1 - 5.5 / np.sqrt((12**2 - 1) / 12))


def test_figures_of_any_filters_are_those_of_their_powers_entry_by_entry():
    filters = np.random.default_rng(5).standard_normal((4, 12))
    for found, share, row in zip(
        filter_metrics.filter_localisation(filters, (3, 4)), filter_metrics.participation_ratio(filters), filters, strict=True
    ):
        power = row**2 / (row @ row)
        places = np.array([(k // 4, k % 4) for k in range(12)])
        spread = np.sqrt(sum(p * np.square(place - power @ places).sum() for p, place in zip(power, places, strict=True)))
        even = np.sqrt(np.square(places - places.mean(axis=0)).sum(axis=1).mean())
        assert found == pytest.approx(1 - spread / even)
        assert share == pytest.approx((row @ row) ** 2 / (12 * (row**4).sum()))


def test_score_matching_of_gaussians_is_its_closed_form_and_least_at_the_truth():
    """E = ½ z'Pz: the objective is ½ tr(P C P) − tr P with C = E zz', least at P = C⁻¹."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(400, 3)) @ random.normal(size=(3, 3))
    C = Z.T @ Z / len(Z)

    def objective(P):
        return filter_metrics.score_matching_loss(Z @ P, np.full(len(Z), np.trace(P))).mean()

    P = random.normal(size=(3, 3))
    P = P @ P.T
    assert objective(P) == pytest.approx(0.5 * np.trace(P @ C @ P) - np.trace(P))
    best = np.linalg.inv(C)
    assert objective(best) == pytest.approx(-0.5 * np.trace(best))
    assert all(objective(best + 0.01 * (D + D.T)) > objective(best) for D in random.normal(size=(20, 3, 3)))


def test_envelope_of_a_modulated_wave():
    time = np.arange(100)
    shape = np.exp(-0.5 * ((time - 50) / 10) ** 2)
    assert filter_spectra.signal_envelopes((shape * np.cos(0.9 * time))[None])[0] == pytest.approx(shape, abs=1e-3)
    odd = filter_spectra.signal_envelopes(np.cos(2 * np.pi * 3 * np.arange(9) / 9)[None])
    assert odd[0] == pytest.approx(np.ones(9))


def test_gaps_shorter_than_asked_are_filled():
    row = np.array([[0, 2, 0, 0, 2, 2, 0, 0, 0, 2, 0.9]])
    assert filter_spectra.mask_above_half_peak(row, 3)[0].tolist() == [
        False,
        True,
        True,
        True,
        True,
        True,
        False,
        False,
        False,
        True,
        False,
    ]


def test_a_wave_train_lies_at_its_time_and_frequency():
    time = np.arange(128)
    train = np.exp(-0.5 * ((time - 40) / 6) ** 2) * np.cos(2 * np.pi * 32 / 128 * time)
    plane = filter_spectra.time_frequency_power(np.stack([train, np.zeros(128) + 1e-9]))
    frequency, when = np.nonzero(plane > 0.5 * plane.max())
    assert (frequency.mean(), when.mean()) == pytest.approx((32, 40), abs=0.5)
    assert plane.max() == pytest.approx((train**2).sum(), rel=1e-6)


def test_gaps_shorter_than_the_limit_are_filled():
    """Of the stretches of 1, 2 and 3 entries below half the peak, those are filled whose ends are no more than the limit apart."""
    row = np.array([[0, 4, 1, 4, 2, 2, 3, 0, 0, 0, 4, 0]], dtype=float)
    wanted = {1: "010100100010", 2: "011100100010", 3: "011111100010", 4: "011111111110"}
    for gap, bits in wanted.items():
        assert "".join(str(int(place)) for place in filter_spectra.mask_above_half_peak(row, gap)[0]) == bits


@pytest.mark.parametrize("length", [8, 9])
def test_envelopes_are_the_absolute_values_of_the_analytic_signal(length):
    rows = np.random.default_rng(0).standard_normal((3, length)) + 1.0
    np.testing.assert_allclose(filter_spectra.signal_envelopes(rows), np.abs(signal.hilbert(rows, axis=1)), rtol=1e-12)
    plane = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length)
    np.testing.assert_allclose(filter_spectra.power_spectra(rows), np.abs(rows @ plane.T) ** 2, rtol=1e-9)
