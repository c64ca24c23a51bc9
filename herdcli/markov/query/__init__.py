"""Questions to a network beside its marginals: likeliest states, joint marginals, bounds on log Z, sensitivities, and draws."""
