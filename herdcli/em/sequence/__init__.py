"""Models of sequences: hidden Markov models and linear dynamical systems."""
