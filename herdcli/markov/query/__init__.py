"""Queries to a network other than its marginals: most probable states, joint marginals, bounds on log Z, sensitivities, and samples."""
