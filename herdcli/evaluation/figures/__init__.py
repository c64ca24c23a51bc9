"""The metrics that `herd eval` computes, one file for each kind of artifact."""
