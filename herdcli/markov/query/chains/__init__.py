"""Gibbs sampling of networks: in blocks, one variable at a time, and at several temperatures."""
