"""Learning restricted Boltzmann machines: minibatches, gradients, chains and updates."""
