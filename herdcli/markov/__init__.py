"""Discrete Markov networks: exact inference, the Bethe free energy and the algorithms that minimise it.

Source: Teh (2003), chapters 2, 5 and 6.
"""
