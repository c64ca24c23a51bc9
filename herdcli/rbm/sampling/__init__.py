"""Drawing from restricted Boltzmann machines."""
