"""Densities of one filter output: a file and a class each, a line each in `herdcli.ica.expert_table`."""
