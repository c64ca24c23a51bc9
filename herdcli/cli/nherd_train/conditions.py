"""The conditions under which options of `herd nherd-train` have an effect, and the options that contradict each other.

With --continue the model decides: options that contradict a setting of new classifiers then have no effect and are not refused.
"""

from __future__ import annotations

from collections.abc import Collection

from herdcli.cli.frame.options.declaration import Condition, Excludes, OneOf, When
from herdcli.online.learners.algorithm_table import TABLE, learners_using_setting

NEW = Condition("is_new", why="with --continue: the model decides")
REGRESSION, MULTILABEL = OneOf("task", "regression"), OneOf("task", "multilabel")


def _new_model_condition(*conditions: Condition) -> When:
    """Return the last of these conditions, required only if the others hold and no model is continued, which would decide."""
    *given, condition = conditions
    for each in reversed(given):
        condition = When(each, condition)
    return When(NEW, condition)


def _learner_condition(learners: Collection[str], why: str = "", *, refusal: str = "", hint: str | None = None) -> OneOf:
    """Return the condition for options that only these learners support; auto counts as nherd."""
    names = (name for name in ("auto", *TABLE) if name in learners or (name == "auto" and "nherd" in learners))
    return OneOf("algorithm", *names, why=f"with --algorithm {{first_algorithm}}{why}", refusal=refusal, hint=hint)


def learner_setting_condition(setting: str) -> OneOf:
    """Return the condition for options that only the updates of some learners use."""
    return _learner_condition(learners_using_setting(setting))


def _linear_model_condition(refusal: str, hint: str) -> Condition:
    """Return the condition for options that contradict a kernel."""
    return Condition("is_linear", refusal=refusal, hint=hint)


def _task_exclusion_condition(task: OneOf, refusal: str, hint: str = "leave it out") -> When:
    """Return the condition for options that contradict a task of new classifiers."""
    return _new_model_condition(
        task, OneOf("task", *({"classification", "regression", "multilabel"} - set(task.values)), refusal=refusal, hint=hint)
    )


OF_CLASSES = _task_exclusion_condition(REGRESSION, "{option} is for classes, but --task regression has none")
OF_ONE_CLASS = (
    OF_CLASSES,
    _task_exclusion_condition(MULTILABEL, "{option} is for one class in each row, but --task multilabel has sets of labels"),
)
BY_SQUARES = "--task regression learns by squared loss, with --algorithm nherd or arow"
DIAGONAL = (
    "--task multilabel works only with a diagonal covariance for each label and without --kernel",
    "drop --kernel and --covariance full",
)
TASKS = _new_model_condition(
    REGRESSION, _learner_condition(learners_using_setting("task"), refusal=BY_SQUARES, hint="leave --algorithm out")
)
COVARIANCES = (
    NEW,
    _new_model_condition(OneOf("covariance", "full"), _task_exclusion_condition(MULTILABEL, *DIAGONAL)),
    _new_model_condition(
        OneOf("covariance", "diagonal"),
        _linear_model_condition("--kernel does not work with --covariance diagonal", "drop --covariance diagonal"),
    ),
)
FORMS = (
    NEW,
    _learner_condition([name for name, entry in TABLE.items() if entry.second_order], ", which has no covariance"),
    Condition("is_diagonal", why="with a full covariance"),
    _new_model_condition(
        OneOf("form", "exact"),
        _learner_condition(
            learners_using_setting("exact"),
            refusal="--form exact does not work with --algorithm {algorithm}",
            hint="use --form project or drop",
        ),
    ),
)
LOSSES = (
    NEW,
    learner_setting_condition("loss"),
    _new_model_condition(REGRESSION, OneOf("loss", "squared", refusal=BY_SQUARES, hint="leave --loss out")),
)
FADES = Condition("has_half_life")
WITH_EVIDENCE = "use --algorithm nherd or arow, without --kernel"
HALF_LIVES = (
    NEW,
    _new_model_condition(
        FADES, _linear_model_condition("--half-life needs variances that can grow again, but --kernel {kernel} has none", WITH_EVIDENCE)
    ),
    _new_model_condition(
        FADES,
        _learner_condition(
            learners_using_setting("half_life"),
            refusal="--half-life needs variances that can grow again, but --algorithm {algorithm} has none",
            hint=WITH_EVIDENCE,
        ),
    ),
)
MULTICLASS = (
    NEW,
    *OF_ONE_CLASS,
    _new_model_condition(
        OneOf("multiclass", "top-1"),
        _linear_model_condition("--kernel always learns each class against the rest, not top-1", "drop --multiclass top-1"),
    ),
)
KERNELS = (
    NEW,
    _new_model_condition(
        REGRESSION,
        _linear_model_condition("--task regression learns weights for features, so it does not work with --kernel", "drop --kernel"),
    ),
    _new_model_condition(MULTILABEL, _linear_model_condition(*DIAGONAL)),
)
SCALINGS = (
    NEW,
    _new_model_condition(
        OneOf("scaling", "standard"),
        Condition(
            "can_center",
            refusal="--scale standard centres the features, so it does not work without a bias",
            hint="use --scale online, which only divides",
        ),
    ),
)
EARLY_STOPS = (
    Condition("can_hold_out", refusal="--early-stop needs held-out examples", hint="use --holdout 10, or leave it out"),
    _new_model_condition(_linear_model_condition("--early-stop keeps weights, but a kernel model has none", "drop --early-stop")),
)
IN_PARTS = Condition("has_parts", why="without --parts")
PARTS = tuple(
    When(IN_PARTS, condition)
    for condition in (
        Excludes(
            "model",
            refusal="--parts learns each part from the start, so it does not work with --continue",
            hint="learn the new model separately and join the two with herd merge",
        ),
        _task_exclusion_condition(
            REGRESSION, "--parts does not work with --task regression", "learn regression models separately, and join them with herd merge"
        ),
        _task_exclusion_condition(MULTILABEL, "--parts does not work with --task multilabel"),
        Excludes(
            *("holdout", "early_stop"),
            refusal="--parts learns from all examples of each part, so it cannot hold any out",
            hint="drop --holdout and --early-stop, or --parts",
        ),
        _linear_model_condition("--parts merges weights, but kernel models share none", "drop --parts or --kernel"),
    )
)
COVERAGES = (NEW, _task_exclusion_condition(MULTILABEL, "--coverage does not work with --task multilabel"))
CACHED = (
    Condition("has_cache_file", refusal="--cache needs a file that can be read in place, which stdout is not", hint="name a file"),
    Excludes("inverse_map", refusal="--cache stores columns without the names that --inverse-map needs", hint="leave one of them out"),
)
