"""Filters that `herd ica` learns: their convention, spectra, and how near they come to the true ones."""
