"""Simple baseline models for comparison with results."""
