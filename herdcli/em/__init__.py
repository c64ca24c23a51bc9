"""Latent variable models fitted by expectation–maximisation: mixtures, factors, k-means and sequence models, all on one driver."""
