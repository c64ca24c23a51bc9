"""Random numbers as a function of (seed, unit, stream, step): no generator state is ever carried.

A generator is made afresh in the step that needs it, so resuming, sharding and running one step
again all see the same numbers.  `unit` is the index of a model, class, split, chain or group;
`step` the step of the algorithm, `part` one of the parts that several threads do it in.  Philox counts its own draws in the
lowest counter word, so no two (seed, unit, stream, step, part) overlap before 2^64 draws.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """One purpose each, never reused for two; append, do not renumber (stored results depend on it)."""

    SPLIT = 1  # which rows are train, valid, test
    INITIAL = 2  # initial weights and states
    SHUFFLE = 3  # the order of rows within an epoch
    GIBBS = 4  # units sampled in learning
    ANNEALING = 5  # annealed importance sampling
    FOLDS = 6  # cross-validation and cross-fitting
    SAMPLE = 8  # samples drawn for the user
    HERDING = 9  # initial weights and state of herding
    BANDWIDTH = 10  # rows that a median distance is taken over
    ATOMS = 11  # atoms and candidates drawn from a target
    LABEL_NOISE = 12  # labels that are replaced in training
    NETWORK = 13  # structure, weights and biases of a generated Markov network
    ELIMINATION = 14  # ties between elimination orders
    CHAINS = 15  # Gibbs chains over a Markov network
    CLAMP = 16  # which forests UPS leaves free
    PATCHES = 17  # where patches and segments are cut
    MIXING = 18  # a random mixing matrix
    HOLD_OUT = 19  # which persons are tested under which condition
    STRUCTURE = 20  # random pairs of a learned network
    LEARNING = 21  # chains that a Markov network is learned from
    MOMENTA = 22  # momenta and acceptances of hybrid Monte Carlo
    EQUILIBRIUM = 23  # sources drawn from a square model
    REVERSE_ANNEALING = 24  # annealed importance sampling from the model back to the base
    DEEP = 25  # hidden states drawn for the layer above
    BOUND = 26  # hidden states that the bound of a deep belief network is a mean over
    NORM = 27  # rows that the norm of a mean embedding is estimated from
    MODES = 28  # hidden states that mean-field solutions are sought from
    POPULATIONS = 29  # populations of annealed chains
    PILOT = 30  # chains that place the temperatures
    LONG = 31  # chains at the model that annealing back starts from
    EM_START = 32  # starting values of an expectation–maximisation
    MINIBATCH = 33  # rows that a minibatch of k-means takes
    CONDITIONAL = 34  # chains that hold the known entries of rows fast
    PATHS = 35  # paths of hidden states drawn from their posterior
    PARTICLES = 36  # particle filters
    SEQUENCES = 37  # new sequences drawn from a model in time
    EXPECTED = 38  # chains whose mean is the row that a recurrent RBM expects
    LANDMARKS = 39  # rows or frequencies that a mean embedding is approximated from
    THINNING = 40  # rows that kernel thinning begins with, its exchanges and coins
    PIVOTS = 41  # pivots of a randomly pivoted Cholesky factor
    SUPPORT = 42  # where support points begin
    RESERVOIR = 43  # rows of a stream that are kept as candidates
    ROWS = 44  # new rows drawn from a mixture or from factors
    BINARIZED = 45  # which entries are on of rows that become two-valued at random
    TRAJECTORY = 46  # particles that carry log Z along the updates of a fit
    MISSING = 47  # missing entries of training rows, drawn given the others
    RENEWAL = 48  # hidden states that persistent chains begin anew with


def generator(seed: int, stream: Stream, *, unit: int = 0, step: int = 0, part: int = 0) -> np.random.Generator:
    """The generator of one purpose at one step, or in one part of a step that is done in parts.  0 ≤ seed < 2^64.

    Source: Salmon et al. (2011), Philox4x64 as NumPy implements it.
    """
    key = np.array([seed, unit], dtype=np.uint64)
    counter = np.array([0, part, step, int(stream)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
