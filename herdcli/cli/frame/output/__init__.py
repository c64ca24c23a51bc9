"""The output of results: artifacts, text and tables."""
