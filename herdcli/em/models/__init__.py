"""Models of rows: one file and one class each, with a line in `herdcli.em.model_table`."""
