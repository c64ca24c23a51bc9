"""Random numbers as a function of (seed, unit, stream, step); no generator state is stored.

Each step makes a new generator, so resuming, sharding and repeating one step all give the same numbers.
`unit` is the index of a model, class, split, chain or group; `step` is the step of the algorithm; `part` is one of the parts of
a step that several threads compute.  Philox counts its own draws in the lowest counter word.  So no two
(seed, unit, stream, step, part) overlap before 2^64 draws.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """The purposes of random numbers; each value has one purpose.  Append new ones and do not renumber: stored results depend on it."""

    SPLIT = 1  # which rows are train, valid, test
    INITIAL = 2  # initial weights and states
    SHUFFLE = 3  # the order of rows within an epoch
    GIBBS = 4  # units sampled in learning
    ANNEALING = 5  # annealed importance sampling
    FOLDS = 6  # cross-validation and cross-fitting
    SAMPLE = 8  # samples drawn for the user
    HERDING = 9  # initial weights and state of herding
    BANDWIDTH = 10  # rows from which a median distance is computed
    ATOMS = 11  # atoms and candidates drawn from a target
    LABEL_NOISE = 12  # labels that are replaced in training
    NETWORK = 13  # structure, weights and biases of a generated Markov network
    ELIMINATION = 14  # ties between elimination orders
    CHAINS = 15  # Gibbs chains over a Markov network
    CLAMP = 16  # the forests that UPS does not clamp
    PATCHES = 17  # positions of patches and segments
    MIXING = 18  # a random mixing matrix
    HOLD_OUT = 19  # the condition under which each person is tested
    STRUCTURE = 20  # random pairs of a learned network
    LEARNING = 21  # chains that a Markov network is fitted with
    MOMENTA = 22  # momenta and acceptances of hybrid Monte Carlo
    EQUILIBRIUM = 23  # sources drawn from a square model
    REVERSE_ANNEALING = 24  # annealed importance sampling from the model back to the base
    DEEP = 25  # hidden states sampled for the layer above
    BOUND = 26  # hidden states whose mean is the bound of a deep belief network
    NORM = 27  # rows that the norm of a mean embedding is estimated from
    MODES = 28  # hidden states from which mean-field solutions are searched
    POPULATIONS = 29  # populations of annealed chains
    PILOT = 30  # chains that place the temperatures
    LONG = 31  # chains at the model, from which reverse annealing starts
    EM_START = 32  # starting values of an expectation–maximisation
    MINIBATCH = 33  # rows in a minibatch of k-means
    CONDITIONAL = 34  # chains that fix the known entries of rows
    PATHS = 35  # paths of hidden states drawn from their posterior
    PARTICLES = 36  # particle filters
    SEQUENCES = 37  # new sequences sampled from a sequence model
    EXPECTED = 38  # chains whose mean is the row that a recurrent RBM expects
    LANDMARKS = 39  # rows or frequencies that approximate a mean embedding
    THINNING = 40  # rows that kernel thinning starts with, its exchanges and coin flips
    PIVOTS = 41  # pivots of a randomly pivoted Cholesky factor
    SUPPORT = 42  # initial support points
    RESERVOIR = 43  # rows of a stream that are kept as candidates
    ROWS = 44  # new rows drawn from a mixture or from factors
    BINARIZED = 45  # entries that are 1 in rows binarized at random
    TRAJECTORY = 46  # particles that estimate log Z along the updates of a fit
    MISSING = 47  # missing entries of training rows, drawn given the others
    RENEWAL = 48  # hidden states from which persistent chains restart


def generator(seed: int, stream: Stream, *, unit: int = 0, step: int = 0, part: int = 0) -> np.random.Generator:
    """Return the generator of one purpose at one step, or for one part of a step.  0 ≤ seed < 2^64.

    Source: Salmon et al. (2011), Philox4x64 as NumPy implements it.
    """
    key = np.array([seed, unit], dtype=np.uint64)
    counter = np.array([0, part, step, int(stream)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
