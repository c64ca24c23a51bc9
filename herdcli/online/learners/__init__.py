"""Online learners: their updates, selection, early stopping, merging and continuation."""
