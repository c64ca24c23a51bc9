"""Factor analysis and principal components."""
