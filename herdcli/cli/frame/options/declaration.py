"""The declaration of an option as a typed field of its command's request, in one place.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        hidden: int = option(integer_kind(1), default=100, only=WITH_HIDDEN_UNITS, help="Hidden units.")
        step_sizes: tuple[int, ...] = option(STEP_SIZES, default=(1, 1, 1), group=LEARNING, help="…")
        rates: str | None = option(text_kind(), metavar="ARTIFACT", record=field_recorded_as_file(), help="Earlier rates.")
        flip: bool = flag(default=True, negative="--no-flip", help="Flip all spins at a fixed point where that helps.")

The declaration determines the option of the command line and its place in the help (`click_options`).  It determines the values that a
history can hold, and the text that is read back as a value (`ValueKind.format`).  It also determines the warning or the error for an option
that has no effect, which every command checks first (`check_request_options`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

import click

from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
S = TypeVar("S", bound=str)
INPUT, MODEL, LEARNING, LONG, OUTPUT = "Input", "Model", "Learning", "Long runs", "Output"  # headings of the help
Decorator = Callable[[Callable[..., object]], Callable[..., object]]  # decorates a command
DECLARATION = "declaration"  # the key in the metadata of a field
# The file is opened later, and an error then names it.  A check for readability beforehand would fail for an output without that
# permission, and for a checkpoint that another run removes meanwhile.
FILE_PATH = click.Path(dir_okay=False, readable=False)


class ValueKind(Generic[T]):
    """The type of an option's values: how a text is parsed, and how a value is formatted so that parsing returns the same value."""

    def __init__(self, click_type: click.ParamType, format: Callable[[T], str] = str) -> None:  # type: ignore[type-arg,unused-ignore]
        self.click_type = click_type
        self.format = format

    def parse(self, text: str) -> T:
        """Return the value that a text stands for.  Raises click.BadParameter."""
        return cast(T, self.click_type.convert(text, None, None))


class ParsedType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A click type made from a function that parses a text and raises ValueError with a message.

    quoted  whether the typed text precedes the message.
    """

    def __init__(self, name: str, parse: Callable[[str], object], *, quoted: bool = True) -> None:
        self.name = name
        self.parse = parse
        self.quoted = quoted

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return the value that a text stands for; a value that is not a text is returned unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            raise click.BadParameter(f"'{value}' {error}" if self.quoted else str(error), ctx, param) from None


def format_number(value: float) -> str:
    """Return the shortest text that is read back as the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def integer_kind(low: int | None = None, high: int | None = None) -> ValueKind[int]:
    """Return the kind of integers from `low` to `high`."""
    return ValueKind(click.IntRange(low, high))


def number_kind(
    low: float | None = None, high: float | None = None, *, open_low: bool = False, open_high: bool = False
) -> ValueKind[float]:
    """Return the kind of numbers from `low` to `high`; `open_low` and `open_high` exclude the limits."""
    bounded = low is not None or high is not None
    return ValueKind(click.FloatRange(low, high, min_open=open_low, max_open=open_high) if bounded else click.FLOAT, format_number)


def text_kind() -> ValueKind[str]:
    """Return the kind of texts of any length."""
    return ValueKind(click.STRING)


def path_kind() -> ValueKind[str]:
    """Return the kind of file names that do not name a folder."""
    return ValueKind(FILE_PATH)


def choice_kind(*names: S) -> ValueKind[S]:
    """Return the kind whose values are these names."""
    return ValueKind(click.Choice(names))


def custom_syntax_kind(name: str, parse: Callable[[str], T], format: Callable[[T], str] = str, *, quoted: bool = True) -> ValueKind[T]:
    """Return a kind whose values have their own syntax.

    parse   converts a text to a value and raises ValueError with a message, shown as "'TEXT' …" or, without `quoted`, as the whole message.
    format  the inverse of `parse`: parse(format(value)) == value.
    """
    return ValueKind(ParsedType(name, parse, quoted=quoted), format)


class Condition:
    """A condition under which options have an effect, with the message for the case that it is not met.

    holds    the name of the property of the request that must be true.
    why      completes the warning "--OPTION has no effect …"; or
    refusal  the text of the error, with its `hint`; {option} stands for the typed option, other names in braces for the request's values.
    """

    by_value = False  # whether the condition refuses every value except the default, instead of refusing the option if it was typed

    def __init__(self, holds: str, *, why: str = "", refusal: str = "", hint: str | None = None) -> None:
        self.holds, self.why, self.refusal, self.hint = holds, why, refusal, hint

    def is_met(self, request: object) -> bool:
        """Whether options with this condition have an effect."""
        return bool(getattr(request, self.holds))

    def reason_for_no_effect(self, request: object) -> str:
        """Return the reason why the options have no effect."""
        return self.why.format_map(_RequestValues(request, {}))

    def refusal_error(self, request: object, option: str) -> BadUsage:
        """Return the error that refuses an option."""
        values = _RequestValues(request, {"option": option})
        return BadUsage(self.refusal.format_map(values), hint=None if self.hint is None else self.hint.format_map(values))


class _RequestValues(dict[str, object]):
    """The values of a request by name, used to fill in a message."""

    def __init__(self, request: object, more: Mapping[str, object]) -> None:
        super().__init__(more)
        self._request = request

    def __missing__(self, name: str) -> object:
        return getattr(self._request, name)


class Never(Condition):
    """A condition that is never met: the option exists only to be refused, with an error made of `refusal` and `hint`."""

    def __init__(self, refusal: str, hint: str) -> None:
        super().__init__("", refusal=refusal, hint=hint)

    def is_met(self, request: object) -> bool:
        """Return False."""
        return False


class OneOf(Condition):
    """A condition that another option has one of some values: `OneOf("algorithm", "bp", "gbp")`; the warning names the actual value.

    default     the value to assume for the other option where it is None.
    positional  whether the other option is an argument, which is typed without a name.
    """

    def __init__(
        self,
        field_name: str,
        *values: object,
        default: object = None,
        positional: bool = False,
        why: str = "",
        refusal: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(field_name, why=why, refusal=refusal, hint=hint)
        self.values = values
        self.default = default
        self.positional = positional

    def _option_value(self, request: object) -> object:
        value = getattr(request, self.holds)
        return self.default if value is None else value

    def is_met(self, request: object) -> bool:
        """Whether the other option has one of the values."""
        return self._option_value(request) in self.values

    def reason_for_no_effect(self, request: object) -> str:
        """Return `why`, or else the value of the other option with which the options have no effect."""
        if self.why:
            return super().reason_for_no_effect(request)
        name = "" if self.positional else f"{option_name_as_typed(type(request), self.holds)} "
        return f"with {name}{self._option_value(request)}"


class Excludes(Condition):
    """A condition that the options it lists are not used: `Excludes("patience", "average", hint="…")`.

    refusal  the text of the error; {other} stands for the option that is in conflict, as it is typed.
    """

    def __init__(self, *names: str, refusal: str = "{option} and {other} exclude each other", hint: str | None = None) -> None:
        super().__init__(names[0], refusal=refusal, hint=hint)
        self.names = names

    def is_met(self, request: object) -> bool:
        """Whether none of the other options is used."""
        return not any(getattr(request, name) for name in self.names)

    def refusal_error(self, request: object, option: str) -> BadUsage:
        """Return the error that refuses an option and names the option that is in conflict with it."""
        other = option_name_as_typed(type(request), next(name for name in self.names if getattr(request, name)))
        values = _RequestValues(request, {"option": option, "other": other})
        return BadUsage(self.refusal.format_map(values), hint=None if self.hint is None else self.hint.format_map(values))


class When(Condition):
    """A condition (`then`) that applies only if another condition (`given`) is met."""

    def __init__(self, given: Condition, then: Condition) -> None:
        super().__init__(then.holds, refusal=then.refusal, hint=then.hint)
        self.given, self.then = given, then

    def is_met(self, request: object) -> bool:
        """Whether the second condition is met or the first one is not."""
        return not self.given.is_met(request) or self.then.is_met(request)

    def reason_for_no_effect(self, request: object) -> str:
        """Return the reason that the second condition gives."""
        return self.then.reason_for_no_effect(request)

    def refusal_error(self, request: object, option: str) -> BadUsage:
        """Return the error of the second condition."""
        return self.then.refusal_error(request, option)


class Needs(Condition):
    """A condition without which every value except the default is refused, whether it was typed or derived from other options.

    --refine 0 needs nothing; --thin-by-chain sets --by, so it needs whatever --by needs.
    typed  whether the default is refused too if it was typed.
    """

    def __init__(self, condition: Condition, refusal: str, *, hint: str | None = None, typed: bool = False) -> None:
        super().__init__(condition.holds, refusal=refusal, hint=hint)
        self.condition, self.by_value = condition, not typed

    def is_met(self, request: object) -> bool:
        """Whether the inner condition is met."""
        return self.condition.is_met(request)


class RequestCondition(Condition):
    """A condition of a session option that looks at the session's request, such as --threads, which some algorithms do not use."""

    def __init__(self, condition: Condition) -> None:
        super().__init__("request", why=condition.why, refusal=condition.refusal, hint=condition.hint)
        self.condition = condition

    def is_met(self, request: object) -> bool:
        """Whether the session's request meets the condition."""
        return self.condition.is_met(getattr(request, self.holds))

    def reason_for_no_effect(self, request: object) -> str:
        """Return the reason that the condition gives for the session's request."""
        return self.condition.reason_for_no_effect(getattr(request, self.holds))

    def refusal_error(self, request: object, option: str) -> BadUsage:
        """Return the error of the condition for the session's request."""
        return self.condition.refusal_error(getattr(request, self.holds), option)


class Declaration(Generic[T]):
    """The declaration of an option, held by a field: click's settings, the kind of its values, its help group, and its conditions."""

    def __init__(
        self,
        kind: ValueKind[T] | None,
        names: tuple[str, ...],
        settings: Mapping[str, object],
        group: str,
        only: tuple[Condition, ...],
        default: object = None,
    ) -> None:
        self.kind, self.names, self.settings, self.group, self.only, self.default = kind, names, settings, group, only, default

    def option_name_as_typed(self, field_name: str) -> str:
        """Return the long name of the option with its dashes, as it is typed."""
        return max(self.names or (f"--{field_name.replace('_', '-')}",), key=len)

    def with_conditions(self, conditions: Iterable[Condition]) -> Declaration[T]:
        """Return a copy of this declaration with more conditions."""
        return Declaration(self.kind, self.names, self.settings, self.group, (*self.only, *conditions), self.default)


class DeclaredOption(click.Option):
    """A click option that knows its heading in the help."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


@overload
def option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    default: T,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
    shown: bool = True,
) -> T: ...
@overload
def option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    required: bool,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> T: ...
@overload
def option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    resolved: bool,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> T: ...
@overload
def option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
    hidden: bool = False,
) -> T | None: ...
def option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    default: T | None = None,
    required: bool = False,
    resolved: bool = False,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
    shown: bool = True,
    hidden: bool = False,
) -> T | None:
    """Return a dataclass field for an option with one value.

    names    the option's names, if not --FIELD-NAME.
    default  the value without the option; `shown` says whether the help shows it.
    resolved whether the value without the option depends on other options, so that `Request.resolve_options` fills it in.
    record   how a history records the option: a field of `history.request`, such as `field_recorded_as_file()`; None: the value itself.
    hidden   whether the help leaves it out.
    """
    settings: dict[str, object] = {"type": kind.click_type, "help": help, "default": default, "metavar": metavar, "required": required}
    settings["hidden"] = hidden
    if default is not None:
        plain = isinstance(default, (float, str)) or (isinstance(default, int) and kind.format(default) == str(default))
        settings |= {"default": default if plain else kind.format(default), "show_default": shown}
    if required:
        del settings["default"]  # click would treat a default of None as a given value
    declared: T | None = _field_with_declaration(Declaration(kind, names, settings, group, _conditions_tuple(only), default), record)
    return declared


@overload
def flag(
    *names: str,
    help: str,
    default: bool = False,
    negative: str | None = None,
    group: str = MODEL,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> bool: ...
@overload
def flag(
    *names: str,
    help: str,
    default: None,
    negative: str | None = None,
    group: str = MODEL,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> bool | None: ...
def flag(
    *names: str,
    help: str,
    default: bool | None = False,
    negative: str | None = None,
    group: str = MODEL,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> bool | None:
    """Return a dataclass field for an option without a value.

    default   the value without the option; None: it depends on other options.
    negative  the name that switches it off.
    """
    settings: dict[str, object] = {"is_flag": True, "default": default, "help": help}
    if negative is not None:
        settings |= {"negative": negative, "show_default": default is not None}
    declared: bool | None = _field_with_declaration(
        Declaration[bool](None, names, settings, group, _conditions_tuple(only), default), record
    )
    return declared


def repeated_option(
    kind: ValueKind[T],
    *names: str,
    help: str,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> tuple[T, ...]:
    """Return a dataclass field for an option that may be repeated."""
    settings = {"type": kind.click_type, "help": help, "multiple": True, "metavar": metavar}
    declared: tuple[T, ...] = _field_with_declaration(Declaration(kind, names, settings, group, _conditions_tuple(only), ()), record)
    return declared


def _conditions_tuple(only: tuple[Condition, ...] | Condition) -> tuple[Condition, ...]:
    return (only,) if isinstance(only, Condition) else only


def _field_with_declaration(declaration: Declaration[T], record: object) -> Any:
    marks = {DECLARATION: declaration}
    if not isinstance(record, Field):
        return field(metadata=marks)
    return field(default=record.default, metadata={**record.metadata, **marks})


def declarations(request: type[DataclassInstance]) -> Iterator[tuple[str, Declaration[object]]]:
    """Yield the name and the declaration of each field that is an option."""
    for each in fields(request):
        declaration = each.metadata.get(DECLARATION)
        if declaration is not None:
            yield each.name, declaration


def find_declaration(declared: object) -> Declaration[object]:
    """Return the declaration in a field that `option`, `flag` or `repeated_option` made."""
    declaration: Declaration[object] = cast(Field[object], declared).metadata[DECLARATION]
    return declaration


def option_name_as_typed(request: type, field_name: str) -> str:
    """Return the option of a field with its dashes, as it is typed."""
    declared = dict(declarations(request)).get(field_name)
    return f"--{field_name.replace('_', '-')}" if declared is None else declared.option_name_as_typed(field_name)


def shared_option_decorator(name: str, declared: object) -> Decorator:
    """Return the decorator for a declared field, for a command whose request does not declare the option yet."""
    return _click_option(name, find_declaration(declared))


class OptionGroup:
    """A decorator that adds options shared by many commands; they do not belong to a request.  declared: by parameter name."""

    def __init__(self, declared: dict[str, Declaration[object]]) -> None:
        self.declared = declared

    def with_conditions(self, **conditions: tuple[Condition, ...] | Condition) -> OptionGroup:
        """Return a group of the same options, some of them with conditions on the command's request."""
        more = {name: map(RequestCondition, _conditions_tuple(only)) for name, only in conditions.items()}
        return OptionGroup({name: each.with_conditions(more[name]) if name in more else each for name, each in self.declared.items()})

    def __call__(self, command: Callable[..., object]) -> Callable[..., object]:
        """Return the command with these options added."""
        for name, declaration in reversed(self.declared.items()):
            command = _click_option(name, declaration)(command)
        return command


def click_options(request: type[DataclassInstance]) -> list[Decorator]:
    """Return the decorators that give a command the options of its request, in the order of the fields."""
    return [_click_option(name, declaration) for name, declaration in declarations(request)]


def _click_option(name: str, declaration: Declaration[object]) -> Decorator:
    settings = cast(dict[str, Any], dict(declaration.settings))
    typed = list(declaration.names or (f"--{name.replace('_', '-')}",))
    negative = settings.pop("negative", None)
    if negative is not None:
        typed[-1] = f"{typed[-1]}/{negative}"
    return click.option(*typed, name, cls=DeclaredOption, group=declaration.group, **settings)


class TypedOptions(Protocol):
    """The interface of a session that `check_request_options` uses: the typed options, and a method that warns about them."""

    @property
    def given(self) -> Collection[str]:
        """The field names of the typed options."""

    def warn_of_ignored_option(self, option: str, why: str) -> None:
        """Warn that one of the typed options has no effect."""


def check_request_options(request: DataclassInstance, session: TypedOptions) -> None:
    """Warn of each option of a request that was typed but has no effect.  Raises BadUsage if one is refused."""
    check_declared_options(declarations(type(request)), request, session)


def check_declared_options(declared: Iterable[tuple[str, Declaration[object]]], request: object, session: TypedOptions) -> None:
    """Warn of each of these options that was typed but has no effect.  Raises BadUsage if one is refused.

    request  the object with the properties that the conditions name.
    """
    declared = list(declared)
    refuse_contradicting_options(declared, request, session.given)
    for name, declaration in declared:
        unmet = next((condition for condition in declaration.only if not (condition.refusal or condition.is_met(request))), None)
        if unmet is not None and name in session.given:
            session.warn_of_ignored_option(name, unmet.reason_for_no_effect(request))


def refuse_contradicting_typed_options(request: DataclassInstance, typed_options: Collection[str]) -> None:
    """Raise BadUsage for the first of the typed options that contradicts others, for a `resolve_options` that cannot interpret them."""
    refuse_contradicting_options(
        ((name, declaration) for name, declaration in declarations(type(request)) if name in typed_options), request
    )


def refuse_contradicting_options(
    declared: Iterable[tuple[str, Declaration[object]]], request: object, typed_options: Collection[str] | None = None
) -> None:
    """Raise BadUsage for the first of these options that contradicts others.  given: the typed options; None: all."""
    for name, declaration in declared:
        for condition in declaration.only:
            if not condition.refusal or condition.is_met(request):
                continue
            if getattr(request, name) != declaration.default if condition.by_value else typed_options is None or name in typed_options:
                raise condition.refusal_error(request, declaration.option_name_as_typed(name))
