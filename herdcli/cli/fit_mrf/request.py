"""The options of `herd fit-mrf`."""

from __future__ import annotations

from dataclasses import replace

from herdcli.cli.frame.history.request import field_recorded_as_file, field_recorded_if_changed, input_file_field, output_file_field
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    Needs,
    OneOf,
    When,
    choice_kind,
    custom_syntax_kind,
    flag,
    format_number,
    integer_kind,
    number_kind,
    option,
    text_kind,
)
from herdcli.markov.learning.algorithm_table import ALGORITHMS, DIRECTED, SCORES
from herdcli.records import dataclass


def _parse_structure(text: str) -> tuple[str, float, int]:
    from herdcli.markov.model.graphs import structure_selection

    return structure_selection.parse_structure(text)


def _format_structure(structure: tuple[str, float, int]) -> str:
    name, share, number = structure
    if name == "chow-liu+random":
        return f"{name}:{format_number(share)},{number}"
    if name == "l1":
        return f"{name}:{format_number(share)}" if share else name
    return f"{name}:{number}" if name == "stability" else name


STRUCTURE = custom_syntax_kind("structure", _parse_structure, _format_structure)
BY_GRADIENT = OneOf("algorithm", "gradient")
SAMPLED = (BY_GRADIENT, OneOf("expectations", "gibbs", "cd"))
OF_CLIQUES = OneOf("algorithm", "loopy-is", "cvm")
WITH_ORDERS = OneOf("algorithm", "ups-jt", "effective-ipf", "loopy-is", "cvm", "gis", "iis", "gradient", "bayes")
ITERATED = OneOf("algorithm", *(name for name in (*ALGORITHMS, *DIRECTED) if name != "linear-response"))
SEARCH = Condition("searches_parents", why="without --structure hill-climb")
SUPPORT = Condition(
    "bootstrap", refusal="--support works only with --bootstrap: it writes how often the samples have each edge", hint="use --bootstrap 100"
)
PARENTS = Condition(
    "is_directed",
    refusal="--network gives the parents of a Bayesian network, so it needs --algorithm bayes",
    hint="add --algorithm bayes, or give pairs with --edges",
)
ROWS = Condition("has_rows", why="with --moments")
OF_PAIRS = OneOf("algorithm", *ALGORITHMS)  # algorithms for undirected pairs and larger clusters
UNDIRECTED = Needs(OF_PAIRS, "--algorithm bayes does not work with {option}", hint="--network FILE gives the parents")
NEEDS_ROWS = Needs(ROWS, "{option} needs rows, but --moments has none")
NEW_CLUSTERS = Excludes("moments", refusal="--moments already defines the clusters, so {option} is not possible")
OF_PARENTS = ("chow-liu", "independent", "hill-climb")  # structures that have directions
FITTING_STRUCTURE = (
    Excludes("edges", "clusters"),
    NEW_CLUSTERS,
    Needs(
        When(OF_PAIRS, Condition("has_pair_structure")),
        "--structure {structure_kind} works only with --algorithm bayes: it finds the parents of a Bayesian network",
        hint="use --algorithm bayes",
    ),
    Needs(
        When(OneOf("algorithm", *DIRECTED), Condition("has_directed_structure")),
        "--algorithm {algorithm} does not work with --structure {structure_kind}",
        hint=f"use --structure {', '.join(OF_PARENTS)}, or --network FILE",
    ),
    Needs(
        When(OneOf("algorithm", "linear-response"), Condition("joins_all_pairs")),
        "--algorithm {algorithm} needs a factor for every pair of variables",
        hint="use --structure full, or another algorithm",
    ),
)
PATH = Condition(
    "has_penalty_path",
    refusal="--path works only with --structure l1 or stability: it writes their path of penalties",
    hint="use --structure l1",
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd fit-mrf`; names and meanings are those of its --help."""

    source: str = input_file_field()
    format: str | None = shared_options.output_format_option(*shared_options.NETWORK_FORMATS)
    values: str = option(
        choice_kind("auto", "two", "states"),
        default="auto",
        group=INPUT,
        only=ROWS,
        help="Meaning of the columns' numbers: on or off (two), or states.  auto: states if some are above 1 and no --range is given.",
    )
    structure: tuple[str, float, int] | None = option(
        STRUCTURE,
        metavar="NAME",
        only=FITTING_STRUCTURE,
        help="Pairs to join: chow-liu (the tree of largest mutual information), chow-liu+random:P,R (also each pair up to R steps apart on "
        "the tree, with probability P), grid (neighbouring pixels), full, independent; l1[:PENALTY] (pairs of two-state variables "
        "chosen by l1-penalised regressions; without PENALTY by extended BIC), stability[:HALVES] (pairs that l1 chooses in three "
        "quarters of HALVES random halves of the rows); hill-climb (parents for --algorithm bayes, by --score).  [default: chow-liu]",
    )
    edges: str | None = option(
        text_kind(),
        metavar="FILE",
        record=field_recorded_as_file(),
        only=(Excludes("clusters"), NEW_CLUSTERS, UNDIRECTED),
        help="File with the pairs to join, two variables per line.",
    )
    clusters: str | None = option(
        text_kind(),
        metavar="FILE",
        record=field_recorded_as_file(),
        only=(NEW_CLUSTERS, UNDIRECTED),
        help="File with the clusters of variables to join, one cluster per line.",
    )
    induce: int = option(
        integer_kind(0),
        default=0,
        shown=False,
        metavar="N",
        only=(UNDIRECTED, NEEDS_ROWS),
        help="Add N pairs to the structure, each time the one with the largest gain in likelihood.",
    )
    smoothing: float = option(
        number_kind(0),
        resolved=True,
        only=ROWS,
        help="Number of uniformly distributed rows to add to DATA, so that states without rows stay possible.  [default: 1]",
    )
    path: str | None = option(
        text_kind(),
        metavar="FILE",
        record=output_file_field(stdout=True),
        only=PATH,
        help="Write the pairs chosen at each penalty of --structure l1 or stability to this CSV file (-: stdout).",
    )
    support: str | None = option(
        text_kind(),
        metavar="FILE",
        record=output_file_field(stdout=True),
        only=(SUPPORT, SEARCH),
        help="Write the share of the --bootstrap samples that have each edge to this CSV file (-: stdout).",
    )
    bootstrap: int = option(
        integer_kind(0),
        default=0,
        shown=False,
        metavar="N",
        record=field_recorded_if_changed(0),
        only=SEARCH,
        help="Also run hill-climb on N bootstrap samples of the rows, to see how certain each edge is.",
    )
    forbidden_edges: str | None = option(
        text_kind(),
        metavar="FILE",
        record=field_recorded_if_changed(None, lambda value: "file"),
        only=SEARCH,
        help="File with edges that hill-climb never adds, a parent and a child per line.",
    )
    required_edges: str | None = option(
        text_kind(),
        metavar="FILE",
        record=field_recorded_if_changed(None, lambda value: "file"),
        only=SEARCH,
        help="File with edges that hill-climb always keeps, a parent and a child per line.",
    )
    tabu: int = option(
        integer_kind(0),
        default=10,
        record=field_recorded_if_changed(10),
        only=SEARCH,
        help="Number of steps for which hill-climb does not change an edge again; it ends after 3 N steps without a better network.",
    )
    equivalent_rows: float = option(
        number_kind(0, open_low=True),
        default=1.0,
        record=field_recorded_if_changed(1.0),
        only=(SEARCH, OneOf("score", "bdeu")),
        help="Weight of the prior of --score bdeu, as a number of rows.",
    )
    score: str = option(
        choice_kind(*SCORES), default="bic", record=field_recorded_if_changed("bic"), only=SEARCH, help="Score that hill-climb maximises."
    )
    max_parents: int = option(
        integer_kind(1),
        default=3,
        record=field_recorded_if_changed(3),
        only=SEARCH,
        help="Maximum number of parents of a variable in hill-climb.",
    )
    network: str | None = option(
        text_kind(),
        metavar="FILE",
        record=field_recorded_if_changed(None, lambda value: "file"),
        only=(PARENTS, Excludes("structure")),
        help="Bayesian network whose structure --algorithm bayes takes; only its tables are learned from DATA.",
    )
    moments: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        only=(UNDIRECTED, Needs(Condition("reads_stdin"), "--moments replaces DATA", hint="leave out {source}")),
        help="JSON file with the marginals and expectations to fit, instead of DATA.",
    )
    features: str | None = option(
        text_kind(),
        "--feature-clusters",
        metavar="FILE",
        record=field_recorded_as_file(),
        only=(UNDIRECTED, NEEDS_ROWS),
        help="JSON file with clusters and their features; only the averages of the features are fitted, not whole marginals.",
    )
    base: str | None = option(
        text_kind(),
        metavar="NETWORK",
        record=field_recorded_as_file(),
        only=UNDIRECTED,
        help="Start from this network: find the distribution with the marginals of DATA that is nearest to it (least KL divergence).",
    )
    algorithm: str = option(
        choice_kind(*ALGORITHMS, *DIRECTED),
        default="ups-jt",
        group=LEARNING,
        help="Exact: ups-jt; the older effective-ipf, ipf, gis, iis, gradient give the same model.  Approximate, for large junction trees: "
        "loopy-is, cvm, pseudo-likelihood, linear-response.  bayes: tables of a Bayesian network (by EM if values are missing).",
    )
    tolerance: float = option(
        number_kind(0, open_low=True),
        default=1e-9,
        group=LEARNING,
        only=ITERATED,
        help="Largest error of a marginal at which the fit has converged.",
    )
    orders: int = option(
        integer_kind(1), default=8, only=WITH_ORDERS, help="Number of elimination orders to try; more can give a smaller junction tree."
    )
    max_clique: int | None = option(
        integer_kind(2),
        metavar="K",
        only=(UNDIRECTED, OF_CLIQUES),
        help="Largest clique of loopy-is and cvm: grow their cliques to K variables, by mutual information, for a better approximation.",
    )
    regions: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        only=(UNDIRECTED, Excludes("max_clique"), OF_CLIQUES),
        help="File with the cliques of loopy-is and cvm, one per line.",
    )
    double_loop: bool = flag(
        group=LEARNING,
        only=OneOf("algorithm", "loopy-is"),
        help="Fit loopy-is by a double loop, which always converges; use it if --damping does not help.",
    )
    damping: float = option(
        number_kind(0, 1, open_high=True),
        default=0.0,
        group=LEARNING,
        only=OneOf("algorithm", "loopy-is"),
        help="Share of its old value that each message of loopy-is keeps (geometric mean); try 0.7 if it does not converge.",
    )
    penalty: float = option(
        number_kind(0),
        "--l2",
        default=0.0,
        group=LEARNING,
        only=OneOf("algorithm", "gradient", "pseudo-likelihood"),
        help="L2 penalty on the logarithms of the factors (gradient, pseudo-likelihood).",
    )
    expectations: str = option(
        choice_kind("exact", "gibbs", "cd"),
        default="exact",
        only=BY_GRADIENT,
        help="Model expectations of --algorithm gradient: exact, or sampled by persistent Gibbs chains (gibbs) or short chains that start "
        "at rows (cd).",
    )
    learning_rate: float = option(
        number_kind(0, open_low=True),
        default=0.5,
        group=LEARNING,
        only=SAMPLED,
        help="Initial step size of --expectations gibbs or cd; it falls to 0 over the iterations.",
    )
    chains: int = option(integer_kind(1), default=100, group=LEARNING, only=SAMPLED, help="Number of Gibbs chains of --algorithm gradient.")
    sweeps: int = option(integer_kind(1), default=1, group=LEARNING, only=SAMPLED, help="Gibbs sweeps per update of --algorithm gradient.")
    iterations: int = shared_options.iterations_option(only=ITERATED)
    on_nonconvergence: str = shared_options.nonconvergence_option(only=ITERATED)
    input_format: str | None = shared_options.input_format_option()
    label: str | None = shared_options.label_option(only=ROWS)
    value_range: tuple[float, float] | None = shared_options.value_range_option(only=ROWS)
    threshold: float | None = shared_options.threshold_option(only=ROWS)
    split: str | None = shared_options.split_option(only=ROWS)
    seed: int = shared_options.seed_option()
    levels_are_states = True  # the levels of a text column are states; there are no one-hot columns
    uses_validation_rows = False
    roles_recognised_by_name = frozenset[str]()  # every column is a variable

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Set --smoothing to 1 pseudo-row if it is not given, unless --moments is; without it, unseen states would be impossible."""
        return self if "smoothing" in typed_options else replace(self, smoothing=0.0 if self.moments else 1.0)

    @property
    def is_directed(self) -> bool:
        """Whether a Bayesian network is learned."""
        return self.algorithm == "bayes"

    @property
    def searches_parents(self) -> bool:
        """Whether the parents of a Bayesian network are found by hill climbing."""
        return self.is_directed and self.structure_kind == "hill-climb"

    @property
    def has_penalty_path(self) -> bool:
        """Whether the structure is chosen along a path of penalties."""
        return self.structure_kind in ("l1", "stability")

    @property
    def has_rows(self) -> bool:
        """Whether the network is learned from rows."""
        return not self.moments

    @property
    def reads_stdin(self) -> bool:
        """Whether the data are read from standard input."""
        return self.source == "-"

    @property
    def structure_kind(self) -> str:
        """The name of the structure without its numbers; chow-liu by default."""
        return "chow-liu" if self.structure is None else self.structure[0]

    @property
    def has_pair_structure(self) -> bool:
        """Whether the structure consists of undirected pairs."""
        return self.structure_kind != "hill-climb"

    @property
    def has_directed_structure(self) -> bool:
        """Whether the structure is that of a Bayesian network."""
        return self.structure_kind in OF_PARENTS

    @property
    def joins_all_pairs(self) -> bool:
        """Whether the structure joins all pairs."""
        return self.structure_kind == "full"
