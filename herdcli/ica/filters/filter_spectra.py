"""Filters of signals in frequency and time: power spectra, envelopes, and the tiling of the time–frequency plane."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from herdcli.schema import Array

TIME_GAP, FREQUENCY_GAP = 6, 3  # largest gaps that are filled, exclusive


def power_spectra(filters: Array) -> Array:
    """Return |FFT|² of filters (M, P) of signals, (M, P // 2 + 1), at k/P cycles per sample."""
    return np.asarray(np.abs(np.fft.rfft(filters, axis=1)) ** 2)


def signal_envelopes(filters: Array) -> Array:
    """Return the absolute value of the analytic signal (M, P): the filter and its Hilbert transform as one complex number."""
    length = filters.shape[1]
    weight = np.zeros(length)
    weight[0] = 1.0
    # x + iH(x) has no negative frequencies, and twice the amplitude at positive ones.  Frequencies that equal their negatives, which are 0
    # and, for even lengths, ½, keep their amplitude.
    weight[1 : (length + 1) // 2] = 2.0
    if length % 2 == 0:
        weight[length // 2] = 1.0
    return np.asarray(np.abs(np.fft.ifft(np.fft.fft(filters, axis=1) * weight, axis=1)))


def mask_above_half_peak(rows: Array, max_gap: int) -> Array:
    """Return a mask of the entries of each row (P,) above half its peak, with gaps of fewer than `max_gap` entries filled."""
    result: Array = rows > 0.5 * rows.max(axis=1, keepdims=True)
    for row in result:
        places = np.flatnonzero(row)
        for before, after in pairwise(places.tolist()):
            if 1 < after - before <= max_gap:
                row[before:after] = True
    return result


def time_frequency_power(filters: Array) -> Array:
    """Return the power of filters (M, P) over frequency and time, (P // 2 + 1, P).

    Each filter adds its total power wherever both its squared envelope and its spectrum are above half their peaks.
    Source: Teh (2003), fig. 4.8.
    """
    when = mask_above_half_peak(signal_envelopes(filters) ** 2, TIME_GAP)
    what = mask_above_half_peak(power_spectra(filters), FREQUENCY_GAP)
    power = (filters**2).sum(axis=1)
    result: Array = what.T.astype(np.float64) @ (when * power[:, np.newaxis])
    return result
