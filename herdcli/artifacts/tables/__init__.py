"""Tables as data sets: the choice of the columns that are features, labels, splits and weights."""
