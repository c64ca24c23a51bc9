"""Multilayer perceptrons: regression whose linear predictors are a deep function of the columns."""
