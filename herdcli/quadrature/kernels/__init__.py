"""Kernels: their values, sums, products and notation."""
