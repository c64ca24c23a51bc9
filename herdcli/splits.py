"""The numbers of the splits of a data set: rows to learn from, to choose and to calibrate by, and to judge by."""

TRAIN, VALID, TEST = 0, 1, 2  # rows of any other split take no part
