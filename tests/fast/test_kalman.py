"""The Kalman loops against each other, bit for bit, in every way their covariances can repeat."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from linear_dynamics import system

from herdcli import fast
from herdcli.em.sequence.kalman import filter_sequences, smooth_sequences


def rows(count: int, columns: int, missing: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    Y = random.standard_normal((count, columns))
    return np.where(random.random(Y.shape) < missing, np.nan, Y)


@pytest.mark.parametrize(("states", "columns", "missing"), [(1, 1, 0.0), (2, 3, 0.3), (5, 2, 0.0), (8, 16, 0.2), (3, 4, 1.0), (64, 3, 0.2)])
def test_both_loops_give_the_same_bits(states, columns, missing):
    p, Y, offsets = system(states, columns), rows(40, columns, missing), np.array([0, 1, 9, 40])
    if fast.loops_in_use() != "cython":
        pytest.skip("there are no compiled loops to compare with")
    found = []
    try:
        for name in ("cython", "python"):
            fast.use_loops(name)
            filtered = filter_sequences(p, Y, offsets)
            found.append((filtered, smooth_sequences(p, filtered, offsets)))
    finally:
        fast.use_loops("cython")
    for here, twin in zip(*found, strict=True):
        names = [name for name in here.__dataclass_fields__ if name not in ("edge_covariance", "edge_factor")]  # rooms with more in them
        for name in names:
            assert np.asarray(getattr(here, name)).tobytes() == np.asarray(getattr(twin, name)).tobytes(), name
        assert here.covariance.tobytes() == twin.covariance.tobytes()


def test_covariances_that_settled_are_those_of_single_steps(monkeypatch):
    """A long sequence makes few covariances; with nothing looked up (a pattern of its own for every row) the same bits come out."""
    from herdcli.em.sequence import kalman as module

    p, Y, offsets = system(3, 2), rows(1000, 2, 0.0), np.array([0, 1000])
    settled = filter_sequences(p, Y, offsets)
    alone = module.MissingPatterns(np.ones((1000, 2), dtype=bool), np.arange(1000))
    single = module.collapse_rows(p, Y, module.find_missing_patterns(Y))
    monkeypatch.setattr(module, "collapse_rows", lambda *_: module.CollapsedRows(np.repeat(single.TT, 1000, axis=0), single.z, single.log))
    apart = filter_sequences(p, Y, offsets, None, alone)
    assert settled.edges < 200
    assert apart.edges == 1000
    assert settled.mean.tobytes() == apart.mean.tobytes()
    assert settled.covariance.tobytes() == apart.covariance.tobytes()
    here, there = smooth_sequences(p, settled, offsets), smooth_sequences(p, apart, offsets)
    assert here.mean.tobytes() == there.mean.tobytes()
    assert here.covariance.tobytes() == there.covariance.tobytes()
    assert here.lag_one_covariance.tobytes() == there.lag_one_covariance.tobytes()


def test_more_covariances_than_there_is_room_for_make_more_room(monkeypatch):
    from herdcli.em.sequence import kalman as module

    p, Y, offsets = system(2, 3), rows(200, 3, 0.4), np.array([0, 120, 200])
    wide = filter_sequences(p, Y, offsets)
    monkeypatch.setattr(module, "ROOM", 2)
    narrow = filter_sequences(p, Y, offsets)
    assert narrow.mean.tobytes() == wide.mean.tobytes()
    assert smooth_sequences(p, narrow, offsets).covariance.tobytes() == smooth_sequences(p, wide, offsets).covariance.tobytes()


def test_a_signal_ends_a_call_within_a_long_sequence(monkeypatch):
    """The handler raises in the middle of the call: the last row is never reached."""
    count = 500 if fast.loops_in_use() == "python" else 20_000
    p, Y, offsets = system(8, 2), rows(count, 2, 0.3), np.array([0, count])
    whole, edges = fast.kalman_filter, []

    def timed(*given):
        edges.append(given[18])
        given[18][...] = -7
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        return whole(*given)

    def stop(number, frame):
        raise InterruptedError

    monkeypatch.setattr(fast, "kalman_filter", timed)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(InterruptedError):
            filter_sequences(p, Y, offsets)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert edges[0][-1] == -7
