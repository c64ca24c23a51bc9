"""Tables as data sets: which columns are features, labels, splits and weights."""
