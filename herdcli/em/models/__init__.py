"""Models of rows: a file and a class each, a line each in `herdcli.em.model_table`."""
