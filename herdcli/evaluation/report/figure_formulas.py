"""The formula of each metric of `herd eval`, and its source, for --explain.

In formulas n counts held-out rows x, p is the model, y a label, ŷ its prediction, w weights; logarithms are natural.
"""

from __future__ import annotations

import re

from herdcli.evaluation.report.own_explanations import own_explanations

TEH = "Teh (2003), Bethe Free Energy and Contrastive Divergence Approximations for Undirected Graphical Models"
WELLING = "Welling (2009), Herding Dynamical Weights to Learn"
BACH = "Bach, Lacoste-Julien & Obozinski (2012), On the Equivalence between Herding and Conditional Gradient Algorithms"
CRAMMER = "Crammer & Lee (2010), Learning via Gaussian Herding"
MAKIN = "Makin, An Introduction to Modern Statistical Learning, 6.7.3"
SCHWARZ, AKAIKE = "Schwarz (1978), Estimating the Dimension of a Model", "Akaike (1974), A New Look at the Statistical Model Identification"
BIERNACKI = "Biernacki, Celeux & Govaert (2000), Assessing a Mixture Model for Clustering with the ICL"
NEAL = "Neal (2001), Annealed Importance Sampling; Salakhutdinov & Murray (2008)"
BESAG = "Besag (1975), Statistical Analysis of Non-Lattice Data"
GRETTON = "Gretton et al. (2012), A Kernel Two-Sample Test"
HYVARINEN = "Hyvärinen (2005), Estimation of Non-Normalized Statistical Models by Score Matching"
GUIDE = "Hinton (2012), A Practical Guide to Training Restricted Boltzmann Machines"
BURDA = "Burda, Grosse & Salakhutdinov (2015), Accurate and Conservative Estimates of MRF Log-likelihood"
DESJARDINS = "Desjardins, Courville & Bengio (2011), On Tracking the Partition Function"
GROSSE = "Grosse, Ghahramani & Adams (2015), Sandwiching the Marginal Likelihood using Bidirectional Monte Carlo"
PEARL = "Pearl (1988), Probabilistic Reasoning in Intelligent Systems"
CICHOCKI = "Cichocki & Amari (2002), Adaptive Blind Signal and Image Processing"
HINTON = "Hinton, Osindero & Teh (2006), A Fast Learning Algorithm for Deep Belief Nets"
RECURRENT = "Sutskever, Hinton & Taylor (2008), The Recurrent Temporal Restricted Boltzmann Machine"
GUO = "Guo et al. (2017), On Calibration of Modern Neural Networks"
BRIER = "Brier (1950), Verification of Forecasts Expressed in Terms of Probability"
HANLEY = "Hanley & McNeil (1982), The Meaning and Use of the Area under a ROC Curve"
CONFORMAL = "Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World"
SEQUENTIAL = "Dawid (1984), Statistical Theory: The Prequential Approach"
HUBERT = "Hubert & Arabie (1985), Comparing Partitions"
TAGS = "Tsoumakas, Katakis & Vlahavas (2010), Mining Multi-label Data"
KALMAN = "Ghahramani & Hinton (1996), Parameter Estimation for Linear Dynamical Systems"
RABINER = "Rabiner (1989), A Tutorial on Hidden Markov Models"
MCCULLAGH = "McCullagh & Nelder (1989), Generalized Linear Models"
MCNEMAR = "McNemar (1947), Note on the Sampling Error of the Difference between Correlated Proportions"
AMARI = "Amari, Cichocki & Yang (1996), A New Learning Algorithm for Blind Signal Separation"
YEDIDIA = "Yedidia, Freeman & Weiss (2005), Constructing Free-Energy Approximations"
EM = "Dempster, Laird & Rubin (1977); Neal & Hinton (1998), A View of the EM Algorithm"
BISHOP = "Bishop (2006), Pattern Recognition and Machine Learning, ch. 10"
COMPUTED = "herd"  # herd's own metrics, and counts
RUN = "the run that made the artifact"
FILE = "the artifact"

FORMULAS: dict[str, tuple[str, str]] = {
    "file": ("the name that was given, or stdin", FILE),
    "kind": ("kind= in the first line of the file", FILE),
    "verdict_code": ("codes of the findings in herdcli/evaluation/verdicts.py, separated by semicolons", COMPUTED),
    "verdict": ("findings of herdcli/evaluation/verdicts.py, separated by semicolons", COMPUTED),
    "a": ("the file of the first classifier", FILE),
    "b": ("the file of the second classifier", FILE),
    "acceptance": ("accepted proposals / proposals of the last updates", RUN),
    "adjusted_rand": ("(RI − E RI)/(max RI − E RI), RI the share of pairs of rows that both groupings treat alike", HUBERT),
    "aic": ("2k − 2 log L, k free parameters, L the likelihood of the training rows", AKAIKE),
    "amari": ("Σᵢ (Σⱼ |pᵢⱼ|/maxₖ|pᵢₖ| − 1) and the same of columns, over 2N; p = unmixing × mixing", AMARI),
    "amari_squared": ("as amari with pᵢⱼ² for |pᵢⱼ|", AMARI),
    "atoms": ("count of points", FILE),
    "auc": ("P(score of a positive row > score of a negative one), ties half", HANLEY),
    "best_epoch": ("argmax over epochs of the figure on validation rows", RUN),
    "bic": ("k log n − 2 log L, k free parameters, n training rows", SCHWARZ),
    "bits_back": ("mean entropy of q(z|x)", MAKIN),
    "bottom": ("the name of the algorithm that wins less often", FILE),
    "bound": ("E_q log p(x, z, θ)/q(z, θ), a training row", BISHOP),
    "brier": ("(1/n) Σ Σ_c (p(c|x) − [y = c])²", BRIER),
    "calibration_error": ("Σ_b (n_b/n) |accuracy_b − confidence_b| over 15 bins b of equal width", GUO),
    "class": ("a class of the model", FILE),
    "code_length": ("E_q −log p(x, z), mean over rows", MAKIN),
    "code_length_hard": ("min_z −log p(x, z), mean over rows", MAKIN),
    "components": ("count", FILE),
    "condition": ("largest over smallest eigenvalue of K(xᵢ, xⱼ)", BACH),
    "consistency_gap": ("max |b_i(x_i) − Σ b_a(x_a)| over cliques a that hold i", YEDIDIA),
    "converged": ("1 if residual < tolerance at the end, else 0", RUN),
    "correlation": ("ρ of Corr(eₜ, eₜ₊ₖ) = ρᵏ, by maximum likelihood", "generalised least squares with AR(1) errors"),
    "coverage": ("(1/n) Σ [y in the prediction set of x]", CONFORMAL),
    "coverage_95": ("(1/n) Σ [|y − ŷ| < 1.96 s(x)]", COMPUTED),
    "dimensions": ("count", FILE),
    "pearson_ratio": ("X²/(n − p), X² = Σ w (y − μ)²/V(μ) over the training rows", MCCULLAGH),
    "dispersion": ("Σ (y − μ)²/V(μ) over n − k (Pearson's χ²)", MCCULLAGH),
    "effective_chains": ("(Σ w)²/Σ w² of the annealed weights w", NEAL),
    "effective_size": ("1/Σ wᵢ²", "Kish (1965), Survey Sampling"),
    "effective_states": ("exp(−Σ p log p) of the kept pseudo-samples", WELLING),
    "embedding_error": ("bound of ‖μ̂ − μ‖ of the approximated kernel mean", COMPUTED),
    "error": ("(1/n) Σ [ŷ ≠ y]", COMPUTED),
    "error_1nn": ("(1/n) Σ [label of the nearest training row ≠ y]", COMPUTED),
    "error_a": ("(1/n) Σ [ŷ of a ≠ y]", MCNEMAR),
    "error_b": ("(1/n) Σ [ŷ of b ≠ y]", MCNEMAR),
    "error_independent": ("(1/n) Σ [class of the calibrated log p(v) of independent columns for each class ≠ y]", COMPUTED),
    "error_independent_gain_se": ("s/√n, s the standard deviation over rows of [naive Bayes ≠ y] − [ŷ ≠ y]", COMPUTED),
    "error_centroid": ("(1/n) Σ [class of the nearest mean ≠ y], columns standardised", COMPUTED),
    "error_linear": ("(1/n) Σ [ŷ of ridge regression on indicators of classes ≠ y]", COMPUTED),
    "error_majority": ("1 − max_c n_c/n", COMPUTED),
    "error_gain_se": ("s/√n, s the standard deviation over rows of [y ≠ majority] − [ŷ ≠ y]", COMPUTED),
    "error_train": ("(1/N) Σ [ŷ ≠ y] over the N training rows", COMPUTED),
    "estimated_error": ("max |b_i(x_i) − p̂_i(x_i)|, p̂ by exact inference or short Gibbs chains", COMPUTED),
    "exact_cells": ("Σ of the cells of the junction tree's cliques", "Lauritzen & Spiegelhalter (1988)"),
    "explained": ("1 − deviance of held-out rows/deviance of their mean response", MCCULLAGH),
    "factors": ("count", FILE),
    "family": ("--family, or what the target suggests", FILE),
    "filters": ("count", FILE),
    "fixed_points": ("count of distinct energies among --restarts", RUN),
    "floors": ("count of variances below the floor in the last M step", RUN),
    "fraction": ("wins/(wins + losses)", CRAMMER),
    "free_energy_gap": (
        "mean F(x) of test rows − mean F(x) of training rows, F(x) = −log Σ_h exp(−E(x, h))", GUIDE,
    ),
    "free_energy_rise": ("max(0, maxₜ Fₜ₊₁ − Fₜ)", TEH),
    "gabor_r2": ("median over filters of 1 − ‖filter − Gabor‖²/‖filter‖²", "Gabor (1946); Teh (2003), 4.5"),
    "gabor_share": ("share of filters with r² ≥ .7", "Teh (2003), 4.5"),
    "gain": ("log_likelihood − baseline (squared_error: baseline − squared_error)", COMPUTED),
    "gain_se": ("s/√n, s the standard deviation over rows of log p(x) − log baseline(x)", COMPUTED),
    "gallery": ("count", FILE),
    "gap": ("max over x of ⟨μₜ − μ, μₜ − φ(x)⟩", BACH),
    "gaussian": ("(1/n) Σ log N(x; m, S), m and S of the training rows", COMPUTED),
    "gaussian_gain_se": ("s/√n, s the standard deviation over rows of log p(x) − log N(x)", COMPUTED),
    "gls": ("--gls", FILE),
    "groups": ("count", FILE),
    "hamming": ("(1/nL) Σ Σ_l [ŷ_l ≠ y_l] over L labels", TAGS),
    "hamming_none": ("(1/nL) Σ Σ_l y_l", TAGS),
    "hidden": ("count", FILE),
    "hidden_entropy": ("−p log₂ p − (1 − p) log₂(1 − p), p the share of pseudo-samples with the unit on, mean over units", WELLING),
    "icl": ("bic + 2 Σ entropy of q(z|x)", BIERNACKI),
    "independent": ("(1/n) Σ Σⱼ log p(xⱼ), the p(xⱼ) of the training rows", COMPUTED),
    "iterations": ("count", RUN),
    "judged_on": ("split 2, or what calibrated where there is none", FILE),
    "kl": ("Σ_x R(x) log R(x)/P(x)", "Kullback & Leibler (1951)"),
    "kurtosis": ("median over outputs of E s⁴/(E s²)² − 3", "Hyvärinen, Karhunen & Oja (2001), Independent Component Analysis"),
    "kurtosis_heldout": ("as kurtosis, of held-out rows", "Hyvärinen, Karhunen & Oja (2001), Independent Component Analysis"),
    "kurtosis_whitening": ("median of |E z⁴/(E z²)² − 3| over whitened columns z", COMPUTED),
    "label_log_likelihood": ("(1/n) Σ log p(y|x)", "Larochelle & Bengio (2008), Classification Using Discriminative RBMs"),
    "labels": ("(1/n) Σ Σ_l y_l", TAGS),
    "labels_given": ("(1/n) Σ Σ_l ŷ_l", TAGS),
    "largest_weight": ("max |w|", FILE),
    "law_distance": ("‖p − q‖₂, p the distribution of the weighted atoms, q of maximum entropy with the target's moments", BACH),
    "law_entropy": ("−Σ p log₂ p", BACH),
    "linear_gain_se": ("s/√n, s the standard deviation over rows of log p(y|x) − log of the linear model's", COMPUTED),
    "localisation": ("median of 1 − radius of a filter's power/radius of even power", COMPUTED),
    "log_likelihood": ("(1/n) Σ log p(x)", "maximum likelihood; log Z by the method in log_z_method"),
    "log_likelihood_alone": ("(1/n) Σ log p(y|x) without the errors of the rows before", COMPUTED),
    "log_likelihood_baseline": ("max of the baselines that the verdict is held against", COMPUTED),
    "log_likelihood_bound": ("(1/n) Σ E_q log p(x, h) + H(q), q the recognition weights", HINTON),
    "log_likelihood_conservative": ("log_likelihood with log Z from chains annealed back from rows", BURDA),
    "log_likelihood_first": ("(1/n) Σ log p₁(x)", HINTON),
    "log_likelihood_gaussian": ("(1/n) Σ log N(x; m, S), S full", COMPUTED),
    "log_likelihood_high": ("log_likelihood + t · log_likelihood_se, t the 97.5 % quantile", NEAL),
    "log_likelihood_independent": ("(1/n) Σ log N(x; m, S), S diagonal", COMPUTED),
    "log_likelihood_linear": ("(1/n) Σ log p(y|x) of the linear model, fitted with a small ridge to the training rows", COMPUTED),
    "log_likelihood_low": ("log_likelihood − t · log_likelihood_se, t the 97.5 % quantile", NEAL),
    "log_likelihood_mixture": ("(1/n) Σ log Σ_k π_k p(x|k), π the states' shares", RABINER),
    "log_likelihood_one_state": ("(1/n) Σ log p(x) of a single state", RABINER),
    "log_likelihood_persistence": ("(1/n) Σ log N(xₜ; xₜ₋₁, S), S of the training rows' steps", COMPUTED),
    "log_likelihood_reverse": ("log_likelihood with log Z of chains from the model to its base", GROSSE),
    "log_likelihood_tracked": ("log_likelihood with log Z summed along the updates", DESJARDINS),
    "log_likelihood_unlinked": ("(1/n) Σ log p(x) with the links' mean for the rows before", RECURRENT),
    "log_likelihood_whitening": ("(1/n) Σ log N(z; 0, I)", COMPUTED),
    "log_loss": ("−(1/n) Σ log p(y|x)", COMPUTED),
    "log_value": ("log Σ Π f(x) over the states that agree with the answer", PEARL),
    "log_value_upper": ("bound of max_x log Π f(x)", "Dechter & Rish (2003), Mini-Buckets"),
    "log_z": ("log Σ_x Π f(x), or its Bethe approximation −F", TEH),
    "log_z_error": ("|log Z − log Z of the reference|", COMPUTED),
    "log_z_lower": ("E_q log Π f + H(q) of mean field", TEH),
    "log_z_mean_field": ("E_q log Π f + H(q), q = Π q_i", TEH),
    "log_z_method": ("exact, annealed, or not reliable", NEAL),
    "log_z_upper": ("mini-buckets, or states × the largest value of each factor", "Dechter & Rish (2003), Mini-Buckets"),
    "losses": ("count of tasks", CRAMMER),
    "macro_f1": ("(1/L) Σ_l 2 TP_l/(2 TP_l + FP_l + FN_l)", TAGS),
    "mae": ("(1/n) Σ |y − ŷ|", COMPUTED),
    "marginal_error": ("mean over states of |b_i(x_i) − reference|", COMPUTED),
    "marginal_error_max": ("max |b(x) − reference|", COMPUTED),
    "marginal_l1": ("mean over variables or clusters of Σ_x |b(x) − reference|", COMPUTED),
    "max_entropy_distance": ("‖p − q‖₂, p the pseudo-samples' frequencies, q of maximum entropy with their moments", WELLING),
    "mean_error": ("‖Σ wᵢxᵢ − mean‖/standard deviation; for predictions, rms of x − column's mean, standardised", COMPUTED),
    "method": ("the model, or a classical similarity of images", TEH),
    "micro_f1": ("2 TP/(2 TP + FP + FN) over all pairs of a row and a label", TAGS),
    "mmd": ("‖Σ wᵢφ(xᵢ) − μ‖ = √(wᵀKw − 2 wᵀμ(x) + ‖μ‖²)", GRETTON),
    "mmd_error": ("standard error of the estimated ‖μ‖", GRETTON),
    "mmd_random": ("√((E K(x, x) − ‖μ‖²)/m) of m independent rows", GRETTON),
    "moment_gap": ("max |(1/T) Σₜ g(sₜ) − ḡ|", WELLING + ", prop. 1"),
    "moment_gap_random": ("about σ √(2 log F/T) of F features", COMPUTED),
    "moment_gap_times_t": ("T · moment_gap = max |w_T − w₀|", WELLING + ", prop. 1"),
    "mutual_information": ("I(cluster; label)/mean of their entropies", "Strehl & Ghosh (2002), Cluster Ensembles"),
    "noise": ("share of training labels that were changed", CRAMMER),
    "objective": ("last value of the trace", RUN),
    "occupied": ("count of components with E n_k ≥ 1", BISHOP),
    "only_a_wrong": ("Σ [a is wrong and b is right]", MCNEMAR),
    "only_b_wrong": ("Σ [b is wrong and a is right]", MCNEMAR),
    "p": ("two-sided binomial tail of the smaller count at ½", MCNEMAR),
    "pairs": ("count", FILE),
    "parameters": ("count", FILE),
    "participation": ("median over filters of (Σ f²)²/(P Σ f⁴), P pixels", COMPUTED),
    "perplexity": ("exp(−Σ log p(words)/number of words)", "Salakhutdinov & Hinton (2009), Replicated Softmax"),
    "perplexity_independent": ("exp(−Σ log share of the word/number of words)", COMPUTED),
    "persistence": ("√mean((xₜ − xₜ₋₁)/s)²", COMPUTED),
    "prediction_error": ("√mean((xₜ − E[xₜ|rows before])/s)²", KALMAN),
    "probes": ("count", FILE),
    "progressive_coverage": ("(1/t) Σ [y in the set predicted before it was learned]", CONFORMAL),
    "progressive_error": ("(1/t) Σ [ŷ before learning ≠ y]", SEQUENTIAL),
    "progressive_hamming": ("(1/tL) Σ Σ_l [ŷ_l before learning ≠ y_l]", SEQUENTIAL),
    "progressive_loss": ("(1/t) Σ loss before learning", SEQUENTIAL),
    "progressive_mae": ("(1/t) Σ |y − ŷ before learning|", SEQUENTIAL),
    "progressive_rmse": ("√((1/t) Σ (y − ŷ before learning)²)", SEQUENTIAL),
    "progressive_set_size": ("(1/t) Σ |set before learning|", CONFORMAL),
    "progressive_width": ("(1/t) Σ width before learning", CONFORMAL),
    "projected_mmd": ("min over w ≥ 0, Σ w = 1 of ‖Σ wᵢφ(xᵢ) − μ‖", BACH),
    "propagation_updates": ("count of messages", RUN),
    "pseudo_likelihood": ("(1/n) Σ Σⱼ log p(xⱼ | the other columns)", BESAG),
    "r2": ("1 − Σ (y − ŷ)²/Σ (y − ȳ)²", COMPUTED),
    "reconstruction": ("mean (x − E[x | E[h|x]])², in shares of the range", GUIDE),
    "reconstruction_mean": ("mean (x − x̄)²", COMPUTED),
    "reduce_error": ("MMD between the union of the blocks' atoms and their reduction", BACH),
    "reference_l1": ("mean over factors of Σ |P(x_a) − R(x_a)|", TEH),
    "residual": ("max change of a belief or moment in one more update", RUN),
    "rise": ("max(0, largest step of the objective in the wrong direction)", EM),
    "rmse": ("√((1/n) Σ (y − ŷ)²)", COMPUTED),
    "rmse_alone": ("rmse without the errors of the rows before", COMPUTED),
    "rmse_linear": ("√((1/n) Σ (y − ŷ of the linear model)²)", COMPUTED),
    "rmse_mean": ("√((1/n) Σ (y − ȳ)²)", COMPUTED),
    "rows": ("count", FILE),
    "rule_mmd": ("‖Σ wᵢφ(xᵢ) − μ‖ with the weights of --rule", BACH),
    "sampling_floor": ("√((E K(x, x) − ‖μ‖²)/N), N the rows of the target, without rows the atoms", GRETTON),
    "scaling_updates": ("count", RUN),
    "score_matching": ("E[½ ‖∇E(z)‖² − ∇²E(z)]", HYVARINEN),
    "second_error": ("‖Σ wᵢxᵢxᵢᵀ − M₂‖/‖M₂‖", BACH),
    "sequences_train": ("count", FILE),
    "set": ("a value of --probe-sets, or all", FILE),
    "set_size": ("(1/n) Σ |prediction set|", CONFORMAL),
    "sir": ("10 log₁₀ of power of the source/power of the others in its output, mean", CICHOCKI),
    "sir_least": ("the smallest of these", CICHOCKI),
    "smallest_weight": ("min wᵢ", FILE),
    "spectral_radius": ("max |λ| of the eigenvalues λ of A", KALMAN),
    "squared_error": ("(1/n) Σ ‖x − its centre, or its projection‖²", "Lloyd (1982), Least Squares Quantization"),
    "squared_error_baseline": ("(1/n) Σ ‖x − x̄‖²", COMPUTED),
    "states": ("count", FILE),
    "subset_accuracy": ("(1/n) Σ [ŷ_l = y_l for every l]", TAGS),
    "t": ("count", FILE),
    "target_mmd": ("as mmd, with μ of --distribution, --data or --scores", GRETTON),
    "tasks": ("count", CRAMMER),
    "temperatures": ("count", NEAL),
    "ties": ("count of tasks", CRAMMER),
    "top": ("the name of the algorithm that wins more often", FILE),
    "train_explained": ("1 − deviance/deviance of the mean response, training rows", MCCULLAGH),
    "train_log_likelihood": ("(1/N) Σ log p(x) over the N training rows", TEH),
    "variables": ("count", FILE),
    "weight_growth": ("‖w_T‖/‖w_{T/2}‖, the largest over runs", WELLING),
    "weight_norm": ("‖w_T‖", WELLING),
    "width": ("(1/n) Σ upper − lower end", CONFORMAL),
    "wins": ("count of tasks", CRAMMER),
}  # fmt: skip
PATTERNS: dict[str, tuple[str, str]] = {
    r"rank_\d+": ("share of probes with no image of their person among the k most similar ones", TEH + ", 3.4"),
    r"precision_at_\d+": ("(1/n) Σ share of the k best-scored labels that are a row's own", TAGS),
}
ENDINGS = {
    "_se": ("standard deviation over annealed chains, of the mean of {}", NEAL),
    "_valid": ("as {}, over the rows of split 1", COMPUTED),
    "_train": ("as {}, over the rows of split 0", COMPUTED),
    "_reverse": ("as {}, with log Z of chains annealed back from the model", GROSSE),
}


def metric_formula(metric: str) -> tuple[str, str] | None:
    """Return formula and source of a metric, or None if it has no entry."""
    if metric in FORMULAS:
        return FORMULAS[metric]
    if metric in own_explanations():
        return own_explanations()[metric][1:]
    for pattern, found in PATTERNS.items():
        if re.fullmatch(pattern, metric):
            return found
    for ending, (formula, source) in ENDINGS.items():
        own = metric.removesuffix(ending)
        if own != metric and metric_formula(own) is not None:
            return formula.format(own), source
    return None
