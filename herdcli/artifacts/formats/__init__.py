"""Readers and writers of binary formats of other programs, one file per format."""
