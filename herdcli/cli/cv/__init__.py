"""herd cv: cross-validation of any fitting command."""
