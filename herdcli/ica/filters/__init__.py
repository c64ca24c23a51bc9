"""Properties of the filters that `herd ica` learns: their convention, spectra, and distance from the true filters."""
