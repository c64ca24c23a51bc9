"""The table of learning algorithms; this module has no imports."""

from __future__ import annotations

# name -> module.attribute: constructs a Learner from (problem, settings)
ALGORITHMS: dict[str, str] = {
    "ups-jt": "herdcli.markov.learning.ipf.IterativeScaling",
    "effective-ipf": "herdcli.markov.learning.ipf.IterativeScaling",
    "ipf": "herdcli.markov.learning.ipf.IterativeScaling",
    "loopy-is": "herdcli.markov.learning.loopy_scaling.make_loopy_scaling_learner",
    "cvm": "herdcli.markov.learning.cvm.ClusterVariation",
    "gis": "herdcli.markov.learning.log_linear_models.FeatureScaling",
    "iis": "herdcli.markov.learning.log_linear_models.FeatureScaling",
    "gradient": "herdcli.markov.learning.gradient_learning.make_gradient_learner",
    "pseudo-likelihood": "herdcli.markov.learning.gradient_learning.PseudoLikelihood",
    "linear-response": "herdcli.markov.learning.linear_response.LinearResponse",
}
NEEDS_ROWS = {"pseudo-likelihood"}
NO_FEATURES = {"loopy-is", "cvm", "linear-response"}
NO_BASE = {"linear-response"}
DIRECTED = ("bayes",)  # fitted from families, not clusters; they have no LearningProblem
SCORES = ("bic", "bdeu", "k2")  # scores of structures of Bayesian networks
