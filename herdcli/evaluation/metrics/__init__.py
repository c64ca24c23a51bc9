"""Metrics that several kinds of artifacts share."""
