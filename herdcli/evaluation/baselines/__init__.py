"""Simple models that results are compared with."""
