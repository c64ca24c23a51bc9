"""The conditions under which options of `herd fit-rbm` have an effect, and the names that they are about."""

from __future__ import annotations

from herdcli.cli.frame.options.declaration import Condition, Excludes, OneOf

ALGORITHMS = ("auto", "cd", "pcd", "rpcd", "fpcd", "pt", "tap", "pseudo-likelihood", "exact")
CHAINS = OneOf("algorithm", "cd", "pcd", "rpcd", "fpcd", "pt", "tap")
PERSISTENT = OneOf("algorithm", "pcd", "rpcd", "fpcd", "pt", "tap")
OF_ONE_MODEL = (
    "per_class",
    "folds",
    "average_scores",
    "layers",
    "below",
    "standardize",
    "final_steps",
    "replicas",
    "labels",
    "learn_variances",
)
IN_MEMORY = ("per_class", "folds", "labels", "layers", "below", "pairs", "recurrent", "learn_variances")  # need all rows
WATCHED = (
    "validate_every",
    "patience",
    "average",
    "keep_state",
    "track_likelihood",
    "draw_missing",
    "model",
)  # options that layers and pairs do not support

PER_CLASS = Condition("per_class", why="without --per-class")
RECURRENT = Condition("recurrent", why="without --recurrent")
NEW = Condition("is_new", why="with --continue: the model decides")  # options that a continued model determines
LOWEST = Condition("is_lowest_layer", why="with --below: the model decides")
ONE_LAYER = Condition("has_one_layer", why="with --layers")
HYBRID = Condition("is_hybrid", why="without --labels hybrid")
SPARSE = Condition("is_sparse", why="without --sparsity-target")
AUTO = OneOf("hidden", "auto")
SIZES_SEARCHED = Excludes(
    *("recurrent", "pairs", "layers", "below"),
    refusal="--hidden auto and {other} exclude each other",
    hint="use --hidden auto with a single rbm, or with one for each class",
)
SIZE_OF_MODEL = Excludes("model", refusal="--hidden auto and {other} exclude each other", hint="the model decides: leave out --hidden")
WORDLESS = Condition(
    "has_no_word_counts", refusal="{option} does not work with words", hint="use words with a single rbm, or with one for each class"
)
PAIRS = Condition("pairs")
ALGORITHM_OF_PAIRS = OneOf(
    "algorithm",
    *(name for name in ALGORITHMS if name not in ("rpcd", "pt", "tap")),
    refusal="--pairs and --algorithm {algorithm} exclude each other",
    hint="use --algorithm pcd",
)
OPTIMIZER_OF_PAIRS = OneOf(
    "optimizer",
    *(None, "momentum"),
    refusal="--pairs and --optimizer exclude each other",
    hint="a model of pairs is one model of all labels",
)
ANIMATED = Excludes("recurrent", "pairs", "layers", "below", hint="herd eval --plot filters draws them after the fit")
SINGLE = Excludes("per_class", "layers", "below", hint="use {option} with a single rbm")
ONE_MODEL = Excludes("layers", "below", refusal="--layers and --below learn one model, --per-class several", hint="leave one of them out")
LIKELY = OneOf(
    "labels",
    *(None, "generative"),
    refusal="--draw-missing and --labels {labels} exclude each other: entries are drawn by the likelihood of rows",
    hint="use --labels generative",
)
