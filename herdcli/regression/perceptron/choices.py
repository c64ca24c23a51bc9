"""The names of activations and optimizers, in a file without slow imports."""

from __future__ import annotations

ACTIVATIONS = ("tanh", "relu", "logistic", "softplus")
OPTIMIZERS = ("trust-region", "adam", "sgd")
