"""Parts that describe themselves are whole, and one that lacks something is refused by name."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from herdcli import algorithm, parts
from herdcli.em import fitting, model_table
from herdcli.em.models.clusters import ClusterModels
from herdcli.errors import BadUsage, IncompletePart
from herdcli.fast import numpy_online
from herdcli.ica import expert_table
from herdcli.ica.densities.base import Expert
from herdcli.ica.densities.laplace import LaplaceExpert
from herdcli.ica.experts import EXPERTS
from herdcli.markov import algorithms
from herdcli.markov.algorithms import table as inference
from herdcli.markov.bethe.ups import UPS
from herdcli.markov.method import Delegate, InferenceMethod, InferenceSettings
from herdcli.markov.model import random_networks
from herdcli.online.learners import algorithm_table, reference_updates
from herdcli.online.model import Settings
from herdcli.quadrature.rules import rule_table
from herdcli.quadrature.rules.pivoted_cholesky import CholeskyRule
from herdcli.quadrature.rules.rule import Rule, load_rule
from herdcli.rbm import units
from herdcli.rbm.units.base import UnitFamily
from herdcli.rbm.units.gaussian import GaussianUnits
from herdcli.regression import families, family_table

OPTIONS = ("refine", "extend", "block_rows", "target", "candidates", "scores")  # that some rules of kernel-herd read and others refuse


def without(part: type, base: type, name: str) -> type:
    """A part without one thing that its base asks for."""
    own = {
        key: value for key, value in vars(part).items() if key not in (name, "__abstractmethods__", "_abc_impl", "__dict__", "__weakref__")
    }
    return types.new_class(f"Lacking{name}", (base,), exec_body=lambda namespace: namespace.update(own))


def required(base: type) -> Iterator[str]:
    """Methods and attributes that each part has to bring."""
    yield from base.__abstractmethods__
    yield from parts.required_attributes(base)


@pytest.mark.parametrize("lacking", sorted(required(UnitFamily)))
def test_a_unit_family_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is sampled, learned or summed as another one."""
    monkeypatch.setattr("herdcli.rbm.units.gaussian.GaussianUnits", without(GaussianUnits, UnitFamily, lacking))
    monkeypatch.setitem(units.TABLE, "narrow", units.FamilyEntry(path="herdcli.rbm.units.gaussian.GaussianUnits", values="(variance ¼)"))
    units.unit_family.cache_clear()
    with pytest.raises(IncompletePart, match=rf"lacks {lacking}$"):
        units.unit_family("narrow")
    units.unit_family.cache_clear()


def test_a_part_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(units.TABLE, "narrow", units.FamilyEntry(path="herdcli.errors.BadUsage", values=""))
    with pytest.raises(IncompletePart, match=r"^herdcli\.errors\.BadUsage is not a UnitFamily$"):
        units.unit_family("narrow")


@pytest.mark.parametrize("name", [name.replace(":N", ":4").replace(":K", ":3") for name in units.family_names()])
def test_unit_families_have_the_names_of_their_lines(name: str) -> None:
    found = units.unit_family(name)
    assert found.name == name
    assert type(found).__module__.startswith("herdcli.rbm.units.")


@pytest.mark.parametrize("lacking", sorted(required(Rule)))
def test_a_selection_rule_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None ends as another one."""
    monkeypatch.setattr("herdcli.quadrature.rules.pivoted_cholesky.CholeskyRule", without(CholeskyRule, Rule, lacking))
    entry = rule_table.RuleEntry(path="herdcli.quadrature.rules.pivoted_cholesky.CholeskyRule", reads=frozenset())
    monkeypatch.setitem(rule_table.TABLE, "incomplete", entry)
    load_rule.cache_clear()
    with pytest.raises(IncompletePart, match=rf"lacks {lacking}$"):
        load_rule("incomplete")
    load_rule.cache_clear()


@pytest.mark.parametrize("name", rule_table.TABLE)
def test_selection_rules_are_whole(name: str) -> None:
    found = load_rule(name)
    assert found.name == name
    assert found.steps(64, 8) > 0
    assert rule_table.TABLE[name].reads <= {"init", "rates", "unique", "polish", *OPTIONS}


def test_an_unknown_selection_rule_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"^unknown rule 'frank'$"):
        load_rule("frank")


@pytest.mark.parametrize("lacking", sorted(parts.required_methods(InferenceMethod)))
def test_an_inference_algorithm_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = type("Incomplete", (UPS,), {lacking: None})
    monkeypatch.setattr("herdcli.markov.bethe.ups.UPS", part)
    with pytest.raises(IncompletePart, match=rf"^herdcli\.markov\.bethe\.ups\.UPS lacks {lacking}$"):
        algorithms.make_inference_method(random_networks.generate_random_network("grid", rows=2, columns=2), InferenceSettings("ups"))


def test_an_unknown_inference_algorithm_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"^unknown algorithm 'annealing'$"):
        algorithms.make_inference_method(random_networks.generate_random_network("grid", rows=2, columns=2), InferenceSettings("annealing"))


@pytest.mark.parametrize("name", inference.TABLE)
def test_inference_algorithms_are_whole(name: str) -> None:
    entry = inference.TABLE[name]
    for path in filter(None, (entry.path, entry.general)):
        parts.import_class_with_methods(path, InferenceMethod)
    assert entry.reads <= set(inference.OPTIONS)


def test_a_delegate_has_what_a_method_has() -> None:
    """So that whatever is asked of an algorithm is answered where it is wrapped."""
    asked = {name for name in dir(InferenceMethod) if not name.startswith("_")}
    assert asked <= set(dir(Delegate))


@pytest.mark.parametrize("lacking", sorted(families.Family.__abstractmethods__))
def test_a_family_of_regressions_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herdcli.regression.families.Poisson", without(families.Poisson, families.Family, lacking))
    with pytest.raises(IncompletePart, match=rf"lacks {lacking}$"):
        families.family_by_name("poisson")


@pytest.mark.parametrize("name", family_table.TABLE)
def test_families_of_regressions_have_the_names_of_their_lines(name: str) -> None:
    assert families.family_by_name(name, classes=3).name == name


@pytest.mark.parametrize("lacking", sorted({*required(Expert)} - {"log_z"} | {"log_integral"}))
def test_an_expert_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No density takes the place of another."""
    base = LaplaceExpert.__base__
    assert base is not None
    monkeypatch.setattr("herdcli.ica.densities.laplace.LaplaceExpert", without(LaplaceExpert, base, lacking))
    entry = expert_table.ExpertEntry(path="herdcli.ica.densities.laplace.LaplaceExpert", tails="heavy")
    monkeypatch.setitem(expert_table.TABLE, "laplace", entry)
    with pytest.raises(IncompletePart, match=rf"lacks {lacking}$"):
        EXPERTS["laplace"]


@pytest.mark.parametrize("name", expert_table.TABLE)
def test_experts_have_the_names_of_their_lines(name: str) -> None:
    assert EXPERTS[name].name == name


def test_learners_are_the_updates_of_the_loops() -> None:
    """Each line has the number that the loops know its update by, and each update has a line."""
    assert {name: entry.code for name, entry in algorithm_table.TABLE.items()} == {
        name: getattr(numpy_online, name.upper()) for name in algorithm_table.TABLE
    }
    assert {entry.code for entry in algorithm_table.TABLE.values()} == set(reference_updates.KNOWN)


def test_a_learner_that_the_loops_do_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not learn as another one."""
    monkeypatch.setitem(algorithm_table.TABLE, "winnow", algorithm_table.AlgorithmEntry(code=10, reads=frozenset({"C"})))
    with pytest.raises(IncompletePart, match=r"^the loops have no update 10, for winnow$"):
        reference_updates.settings_as_codes(Settings(algorithm="winnow"))


@pytest.mark.parametrize("name", algorithm_table.TABLE)
@pytest.mark.parametrize(("setting", "other"), [("C", 3.0), ("loss", "log"), ("confidence", 0.6), ("always_update", True)])
def test_learners_read_the_settings_that_their_lines_name(name: str, setting: str, other: object) -> None:
    """What a setting changes in the updates of several examples, or does not."""
    examples = [(m, v) for m in (-3.0, -0.2, 0.4, 2.0) for v in (0.3, 4.0)]
    base = Settings(algorithm=name, C=0.7)
    found = [[reference_updates.update_step(each, m, v) for m, v in examples] for each in (base, replace(base, **{setting: other}))]
    assert (found[0] != found[1]) == (setting in algorithm_table.TABLE[name].reads)


@pytest.mark.parametrize("lacking", sorted(required(fitting.RowModel)))
def test_a_model_of_rows_that_lacks_something_is_refused(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is learned as a factor model."""
    monkeypatch.setattr("herdcli.em.models.clusters.ClusterModels", without(ClusterModels, fitting.RowModel, lacking))
    with pytest.raises(IncompletePart, match=rf"lacks {lacking}$"):
        fitting.row_model("kmeans")


def test_an_unknown_model_of_rows_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"^unknown model 'lda', expected gmm, kmeans, fa, ppca, pca$"):
        fitting.row_model("lda")


@pytest.mark.parametrize("name", [name for name, entry in model_table.TABLE.items() if not entry.sequences])
def test_models_of_rows_have_the_names_of_their_lines(name: str) -> None:
    assert fitting.row_model(name).name == name


def sources(*, containing: str) -> Iterator[tuple[Path, str]]:
    """The modules of the package whose text has a match of a pattern: parsing all of them takes seconds."""
    pattern = re.compile(containing, re.MULTILINE)
    for path in sorted(Path(parts.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if pattern.search(text):
            yield path, text


def test_algorithms_are_frozen_dataclasses_but_those_of_markov() -> None:
    """Constructors of markov turn a network and settings into orders and index arrays; all others hold what they are given."""
    package = Path(parts.__file__).parent
    mutable = [
        node.name
        for path, text in sources(containing=r"^    def step\(")
        if package / "markov" not in path.parents
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and not any("Protocol" in ast.unparse(base) for base in node.bases)
        and {"step", "result"} <= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        and not any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert mutable == []


def test_abilities_of_algorithms_are_declared() -> None:
    """No class answers for names that it does not have, and no algorithm is asked by the names of its attributes what it can do."""
    assert not [path.name for path, _ in sources(containing=r"^ +def __getattr(ibute)?__\(")]
    bases = (algorithm.HasStateShapes, algorithm.EstimatesSteps, algorithm.FixedLengthAlgorithm)
    abilities = {name for base in bases for name in base.__abstractmethods__}
    assert abilities == {"state_template", "estimate_total_steps", "steps"}
    guess = rf'\b(hasattr|getattr)\([^"()]*"({"|".join(abilities)})"'
    assert re.search(guess, 'if hasattr(algorithm, "state_template"):')
    assert not [path.name for path, _ in sources(containing=guess)]
