"""Latent variables by expectation–maximisation: mixtures, factors, k-means, on one driver and one way of adding statistics up."""
