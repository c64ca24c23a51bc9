"""Mixtures of Gaussians and k-means."""
