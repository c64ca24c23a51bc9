"""Rows that stay on disk and are read in blocks."""
