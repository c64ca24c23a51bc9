"""The numbers of the splits of a data set: training rows, validation rows (for model selection and calibration) and test rows."""

TRAIN, VALID, TEST = 0, 1, 2  # rows of any other split are not used
