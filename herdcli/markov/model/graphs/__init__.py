"""Graphs of networks: directed graphs, lattices, regions, structures."""
