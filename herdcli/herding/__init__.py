"""Herding of Boltzmann machines and Markov random fields."""

MODELS = ("rbm", "mrf")  # with hidden units, and fully visible
