"""Mean embeddings of targets, exact and approximate."""
