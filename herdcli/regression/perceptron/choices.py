"""The names of activations and optimizers, which import nothing slow."""

from __future__ import annotations

ACTIVATIONS = ("tanh", "relu", "logistic", "softplus")
OPTIMIZERS = ("trust-region", "adam", "sgd")
