"""The tables that `herd info` shows for an artifact, one module for each family of kinds."""
