"""What `herd eval` computes for each kind of artifact, a file for each kind."""
