"""Likelihoods and partition functions of restricted Boltzmann machines, exact and estimated."""
