"""Options declared once: what follows from a field of a request."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from string import Formatter

import click
import pytest

from herdcli.artifacts.tables.condition_holdout import ConditionHoldout
from herdcli.cli.frame.history.request import field_recorded_as_file, field_recorded_if_changed, recorded_options
from herdcli.cli.frame.options.declaration import (
    LEARNING,
    Condition,
    DeclaredOption,
    Excludes,
    Needs,
    OneOf,
    OptionGroup,
    When,
    check_declared_options,
    check_request_options,
    choice_kind,
    click_options,
    custom_syntax_kind,
    declarations,
    find_declaration,
    flag,
    format_number,
    integer_kind,
    number_kind,
    option,
    repeated_option,
    shared_option_decorator,
    text_kind,
)
from herdcli.cli.frame.options.help_pages import Command, option_heading
from herdcli.cli.frame.options.session_options import SessionOptions
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import COMMANDS
from herdcli.cluster.cluster_spec import ClusterAddress
from herdcli.errors import BadUsage
from herdcli.records import dataclass
from herdcli.shards import ShardPlace


def _parse_pair(given: str) -> tuple[int, ...]:
    parts = given.split("x")
    if len(parts) != 2:
        raise ValueError("is not of the form AxB")
    return tuple(map(int, parts))


PAIR = custom_syntax_kind("axb", _parse_pair, lambda pair: "x".join(map(str, pair)))
DEEP = Condition("deep", why="without --layers 2 or more")


@dataclass(frozen=True, kw_only=True)
class Request:
    layers: int = option(integer_kind(1), default=1, help="Layers.")
    rate: float = option(
        number_kind(0, 1, open_low=True), default=0.125, group=LEARNING, record=field_recorded_if_changed(0.5), help="Step size."
    )
    shape: tuple[int, ...] = option(PAIR, default=(2, 3), only=DEEP, help="Shape.")
    center: bool = flag(
        default=True, negative="--no-center", only=Condition("deep", refusal="--center needs layers", hint="--layers 2"), help="C."
    )
    model: str | None = option(
        text_kind(), "-M", "--continue", metavar="MODEL", record=field_recorded_as_file(), help="Go on with a model."
    )
    names: tuple[str, ...] = repeated_option(choice_kind("a", "b"), "--name", help="Names.")

    @property
    def deep(self) -> bool:
        return self.layers > 1


@dataclass(frozen=True, kw_only=True)
class Contradictory:
    rule: str = option(
        choice_kind("plain", "best"), default="plain", only=OneOf("keep", None, refusal="--rule {rule} keeps {keep}"), help="R."
    )
    keep: str | None = option(text_kind(), only=Excludes("drop", "value_range", hint="leave out {other}"), help="K.")
    drop: bool = flag(only=When(OneOf("rule", "best"), Excludes("value_range", refusal="{option} has no {other}")), help="D.")
    value_range: str | None = option(text_kind(), "--range", help="V.")


class Listening:
    """A session that notes its warnings."""

    def __init__(self, *given: str) -> None:
        self.given = set(given)
        self.warned: list[tuple[str, str]] = []

    def warn_of_ignored_option(self, name: str, why: str) -> None:
        if name in self.given:
            self.warned.append((name, why))


def parse(*words: str) -> Request:
    @click.command("scratch", cls=Command)
    def command(**options: object) -> Request:
        return Request(**options)

    for decorate in reversed(click_options(Request)):
        command = decorate(command)
    return command.main(list(words), standalone_mode=False)


def test_defaults_are_those_declared():
    assert parse() == Request(layers=1, rate=0.125, shape=(2, 3), center=True, model=None, names=())


def test_options_are_typed_as_declared():
    found = parse("--layers", "3", "--no-center", "--shape", "4x5", "--continue", "m.h5", "--name", "a", "--name", "b")
    assert found == Request(layers=3, rate=0.125, shape=(4, 5), center=False, model="m.h5", names=("a", "b"))


def test_a_required_option_cannot_be_left_out():
    @click.command("scratch", cls=Command)
    @shared_option_decorator("count", option(integer_kind(1), "-m", "--count", required=True, help="C."))
    def command(count: int) -> int:
        return count

    assert command.main(["-m", "3"], standalone_mode=False) == 3
    with pytest.raises(click.MissingParameter):
        command.main([], standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--layers", "0"), "0 is not in the range x>=1."),
        (("--rate", "0"), "0.0 is not in the range 0<x<=1."),
        (("--shape", "4"), "'4' is not of the form AxB"),
        (("--name", "c"), "'c' is not one of 'a', 'b'."),
    ],
)
def test_values_out_of_range_are_refused(words, message):
    with pytest.raises(click.BadParameter) as refused:
        parse(*words)
    assert refused.value.message == message


def test_the_record_follows_from_the_declaration():
    assert recorded_options(parse("-M", "m.h5")) == {
        "layers": 1,
        "rate": 0.125,
        "shape": (2, 3),
        "center": True,
        "model": "file",
        "names": (),
    }
    assert "rate" not in recorded_options(parse("--rate", ".5"))  # what a history without it means


def test_an_option_without_effect_is_named():
    session = Listening("shape")
    check_request_options(parse("--shape", "4x5"), session)
    assert session.warned == [("shape", "without --layers 2 or more")]
    session = Listening("shape")
    check_request_options(parse("--shape", "4x5", "--layers", "2"), session)
    assert session.warned == []


def test_an_option_that_contradicts_is_refused():
    with pytest.raises(BadUsage, match="--center needs layers") as refused:
        check_request_options(parse("--center"), Listening("center"))
    assert refused.value.hint == "--layers 2"
    check_request_options(parse(), Listening())  # not typed


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"keep": "a"}, "--rule best keeps a", None),
        ({"keep": "a", "rule": "plain", "drop": True}, "--keep and --drop exclude each other", "leave out --drop"),
        ({"keep": "a", "rule": "plain", "value_range": "0,1"}, "--keep and --range exclude each other", "leave out --range"),
        ({"drop": True, "value_range": "0,1"}, "--drop has no --range", None),
    ],
)
def test_a_refusal_names_the_options_as_they_are_typed(values, message, hint):
    request = Contradictory(**{"rule": "best", "keep": None, "drop": False, "value_range": None} | values)
    given = [name for name, value in vars(request).items() if value not in (None, False, "plain")]
    with pytest.raises(BadUsage) as refused:
        check_request_options(request, Listening(*given))
    assert (refused.value.message, refused.value.hint) == (message, hint)


@dataclass(frozen=True, kw_only=True)
class Conflicting:
    rule: str = option(
        choice_kind("a", "b"),
        default="a",
        only=Needs(When(OneOf("rule", "b"), Condition("sizes")), "--rule {rule} needs sizes", hint="--size 1, or leave out --rule {rule}"),
        help="R.",
    )
    sizes: tuple[int, ...] = repeated_option(integer_kind(), "--size", only=Condition("deep", why="with {layers} layers"), help="S.")
    layers: int = option(integer_kind(1), default=1, only=Needs(OneOf("rule", "a"), "not with {rule}", typed=True), help="L.")
    refine: int = option(integer_kind(0), default=0, only=Needs(OneOf("rule", "a"), "{option} needs another rule than {rule}"), help="R.")
    width: int = option(integer_kind(0), default=1, only=OneOf("rule", "a", why="without rule a"), help="W.")

    @property
    def deep(self) -> bool:
        return self.layers > 1


def conflicting(**options: object) -> Conflicting:
    return Conflicting(**{"rule": "a", "sizes": (), "layers": 1, "refine": 0, "width": 1} | options)


def test_every_value_but_the_default_needs_what_it_is_said_to_need():
    with pytest.raises(BadUsage, match=r"^--rule b needs sizes$") as refused:
        check_request_options(conflicting(rule="b"), Listening())  # whether it was typed, or made of other options
    assert refused.value.hint == "--size 1, or leave out --rule b"
    check_request_options(conflicting(rule="b", sizes=(1,)), Listening("rule"))
    with pytest.raises(BadUsage, match=r"^--refine needs another rule than b$"):
        check_request_options(conflicting(rule="b", sizes=(1,), refine=1), Listening("rule", "refine"))
    check_request_options(conflicting(rule="b", sizes=(1,)), Listening("rule", "refine"))  # --refine 0 refines nothing
    with pytest.raises(BadUsage, match=r"^not with b$"):
        check_request_options(conflicting(rule="b", sizes=(1,)), Listening("rule", "layers"))


def test_a_warning_names_values_and_no_refused_default():
    session = Listening("sizes", "refine", "width")
    check_request_options(conflicting(rule="b", sizes=(1,)), session)
    assert session.warned == [("sizes", "with 1 layers"), ("width", "without rule a")]


def test_options_of_the_run_may_depend_on_the_request():
    group = OptionGroup(
        {"threads": find_declaration(option(integer_kind(1), help="T.")), "shard": find_declaration(option(integer_kind(1), help="S."))}
    )
    narrowed = group.with_conditions(threads=OneOf("rule", "b"), shard=(Needs(OneOf("rule", "a"), "{option} not with {rule}", typed=True),))
    session = Listening("threads")
    session.request = conflicting(rule="a")
    check_declared_options(narrowed.declared.items(), session, session)
    assert session.warned == [("threads", "with --rule a")]
    session = Listening("threads", "shard")
    session.request = conflicting(rule="b")
    with pytest.raises(BadUsage, match=r"^--shard not with b$"):
        check_declared_options(narrowed.declared.items(), session, session)
    check_declared_options(group.declared.items(), session, session)  # which is as it was
    assert session.warned == []


def test_the_heading_in_the_help_is_the_declared_one():
    command = click.Command("scratch", params=[])
    for decorate in click_options(Request):
        decorate(command)
    groups = {param.name: option_heading(str(param.name), "scratch", param) for param in command.params}
    assert groups["rate"] == LEARNING
    assert groups["layers"] == "Model"


@pytest.mark.parametrize("value", [0.1, 1e-9, 1 / 3, 1e22, 5e-324, 123456789.25])
def test_numbers_are_written_so_that_they_are_read_back(value):
    assert float(format_number(value)) == value


VALUES = {  # of kinds with a form of their own, beside the defaults: command.field -> values
    "herd.step_sizes": [(1, 2, 3)],
    "herd.value_range": [(0.0, 255.0), (-1 / 3, 1e-9)],
    "fit-mrf.structure": [("chow-liu", 0.0, 0), ("l1", 0.0, 0), ("l1", 0.05, 0), ("stability", 0.0, 50), ("chow-liu+random", 1 / 3, 6)],
    "ups-infer.damping_schedule": [(0.0, 0.5, 1 / 3)],
    "ups-infer.time": [20.0, 300.0, 1 / 3, 1e-9],
    "ups-infer.query": ["mpe", "mmap:a,b", 'dsep:"a,b",c|d'],
    "ups-infer.slices": ["filtering", "lag:3"],
    "apply.want": ["paths:100", "forecast:3"],
    "eval.dimensions": [(199, 200, 10, 30)],
    "eval.mlr_penalty": ["auto", 0.0, 1 / 3],
    "check.max_disk": [1500, 10 * 1000**3],
    "convert.hold_outs": [ConditionHoldout("glasses", "glasses", ("on", "off")), ConditionHoldout("dark", "light")],
    "em.components": [(3, 3), (1, 10)],
    "em.controls": [("a", "b")],
    "fit-rbm.hidden": ["auto", 30],
    "fit-rbm.batch_size": [0, 20],
    "fit-rbm.layers": [(500, 250)],
    "fit-rbm.visible_units": ["gaussian", "softmax:3", "rate:10"],
    "nherd-train.C": [0.5, 1e-7, "running"],
    "nherd-train.half_life": [0.0, 1.0, 1e4],
    "nherd-train.coverage": [0.9, 1 / 3],
    "nherd-train.interactions": ["ab", "ab,cd", "::"],
    "ica.components": [20, 0.95, 0.333, 0.145, 99.9 / 100, 1.0],
    "ica.mix": [("random", 0.5), ("instamix", 0.25)],
    "ica.rates": [((0.05, 2000), (1e-7, 3))],
    "ica.topography": [(20, 10)],
    "ica.initial_scale": [0.0, 0.1, 1 / 3],
    "kernel-herd.bandwidth": ["median", 0.7, 1 / 3, 1e-100],
    "kernel-herd.scale": ["std", "range", (2.0,), (1.0, 1 / 3, 1e-9)],
    "kernel-herd.norm": ["exact", "sample:2000"],
    "kernel-herd.embedding": ["exact", "sample:9", "nystrom:1000", "fourier:64"],
}


def declared() -> list[tuple[str, str]]:
    requests = ((name, vars(import_module(module).command.callback).get("request")) for name, (module, *_) in COMMANDS.items())
    return [(command, name) for command, request in requests if request for name, _ in declarations(request)]


@pytest.mark.parametrize(("command", "name"), declared())
def test_what_is_formatted_is_parsed_as_the_same_value(command, name):
    declaration = dict(declarations(vars(import_module(COMMANDS[command][0]).command.callback)["request"]))[name]
    kind, default = declaration.kind, declaration.settings.get("default")
    values = list(VALUES.get(f"{command}.{name}", []))
    if kind is not None and isinstance(kind.click_type, click.Choice):
        values += [value for value in kind.click_type.choices if not value.endswith(":N")]
    if kind is not None and default is not None:
        values.append(kind.parse(str(default)))
    for value in values:
        assert kind.parse(kind.format(value)) == value


SESSION_VALUES = {
    "max_memory": [1, 1500, 2_000_000, 10 * 1000**3, 3 * 1024**3],
    "read_columns": [("a",), ("x*", "a:f", "3:7"), ("a,b", 'say "c"', "d e")],
    "shard": [ShardPlace(2, 4)],
    "cluster": [ClusterAddress("local", 2), ClusterAddress("running", address="tcp://127.0.0.1:8786")],
    "cluster_options": [("queue", "long"), ("tls_ca_file", "a=b.pem")],
    "checkpoint": ["state file"],
}


@pytest.mark.parametrize("name", SESSION_VALUES)
def test_options_of_every_run_are_formatted_and_parsed_as_the_same_value(name):
    kind = dict(declarations(SessionOptions))[name].kind
    assert kind is not None
    for value in SESSION_VALUES[name]:
        assert kind.parse(kind.format(value)) == value


@pytest.mark.parametrize(("name", "declaration"), list(declarations(SessionOptions)))
def test_conditions_of_options_of_every_run_ask_for_what_the_session_has(name, declaration):
    known = {*dir(Session), *(each.name for each in fields(Session))}
    assert {condition.holds for condition in declaration.only} <= known, name


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_every_run_are_declared(command):
    own = [param for param in _params(command) if isinstance(param, click.Option) and param.name in dict(declarations(SessionOptions))]
    assert [param.name for param in own if not isinstance(param, DeclaredOption)] == []


def test_shards_of_a_fit_in_rounds_are_refused(run, small):
    ended = run("em", small, "--shard", "1/2")
    assert ended.code == 2
    assert "--shard: every iteration needs all rows, so the run cannot be divided into shards" in ended.err


@pytest.mark.parametrize(("command", "name"), declared())
def test_conditions_ask_for_what_the_request_has(command, name):
    request = vars(import_module(COMMANDS[command][0]).command.callback)["request"]
    own = dict(declarations(request))
    for condition in (part for each in own[name].only for part in _parts(each)):
        known = {*dir(request), *(each.name for each in fields(request))}
        assert {condition.holds, *getattr(condition, "names", ())} <= known | {""}  # of Never
        assert condition.why or condition.refusal or isinstance(condition, (OneOf, When)) or condition not in own[name].only
        types = [param.type for param in _params(command) if param.name == condition.holds]
        if isinstance(condition, OneOf) and types and isinstance(types[0], click.Choice):  # a misspelt value would never be met
            assert set(condition.values) - {None} <= set(types[0].choices)
        placeholders = {
            field
            for text in (condition.why, condition.refusal, condition.hint or "")
            for _, field, _, _ in Formatter().parse(text)
            if field
        }
        assert placeholders <= known | {"option", "other"}


def _parts(condition: Condition) -> list[Condition]:
    """A condition and those that it is made of."""
    if isinstance(condition, When):
        return [condition, *_parts(condition.given), *_parts(condition.then)]
    return [condition, *_parts(condition.condition)] if isinstance(condition, Needs) else [condition]


def _params(command: str) -> list[click.Parameter]:
    return import_module(COMMANDS[command][0]).command.params


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_asks_beforehand_whether_a_file_can_be_read(command):
    # between the look and the opening another run may remove its checkpoint, and an output need not be readable
    kinds = [kind for param in _params(command) for kind in getattr(param.type, "types", [param.type])]
    assert not [kind for kind in kinds if isinstance(kind, click.Path) and kind.readable]
