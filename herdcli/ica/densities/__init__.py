"""Densities of one filter output: one file and one class each, with a line in `herdcli.ica.expert_table`."""
