"""Quantities that several kinds of artifacts are evaluated by."""
