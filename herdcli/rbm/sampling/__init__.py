"""Sampling from restricted Boltzmann machines."""
