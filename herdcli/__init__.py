"""Learning and inference by herding, contrastive divergence and Bethe free energies."""

__version__ = "0.1.0"
