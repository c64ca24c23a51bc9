"""Discrete Markov networks: exact inference, the Bethe free energy, and what minimises it.

Source: Teh (2003), chapters 2, 5 and 6.
"""
