"""Herding of Boltzmann machines and Markov random fields."""

MODELS = ("rbm", "mrf")  # the kinds of models: with hidden units, and fully visible
