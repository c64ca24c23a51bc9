"""Graphs of networks: directed graphs, lattices, region graphs and structures."""
