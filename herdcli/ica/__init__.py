"""Independent components: InfoMax, maximum likelihood, energy-based models and sparse coding."""
