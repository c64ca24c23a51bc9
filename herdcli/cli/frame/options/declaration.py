"""An option declared once, as a typed field of its command's request.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        hidden: int = option(whole(1), default=100, only=WITH_HIDDEN_UNITS, help="Hidden units.")
        step_sizes: tuple[int, ...] = option(STEP_SIZES, default=(1, 1, 1), group=LEARNING, help="…")
        rates: str | None = option(text(), metavar="ARTIFACT", record=as_file(), help="Continue this herding by its rates.")
        flip: bool = flag(default=True, negative="--no-flip", help="Flip all spins at a fixed point where that helps.")

From the declaration follow the option of the command line and its place in the help (`click_options`), the values that a history can have,
the text that makes a value (`Kind.format`), and the warning or the refusal where an option has no effect, which every command begins with
(`check`).
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
Decorator = Callable[[Callable[..., object]], Callable[..., object]]  # of a command
DECLARATION = "declaration"  # the key in the metadata of a field
# A file that is opened later, where an error names it: a look beforehand whether it is readable would fail for an output without that
# permission, and for a checkpoint that another run removes meanwhile.
FILE_PATH = click.Path(dir_okay=False, readable=False)


class Kind(Generic[T]):
    """The values that an option takes: how a text is read, and how a value is written so that it is read back as the same value."""

    def __init__(self, click_type: click.ParamType, format: Callable[[T], str] = str) -> None:  # type: ignore[type-arg,unused-ignore]
        self.click_type = click_type
        self.format = format

    def parse(self, text: str) -> T:
        """The value of a text.  Raises click.BadParameter."""
        return cast(T, self.click_type.convert(text, None, None))


class ParsedType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A type of click made of a function: text to value, raising ValueError with what is wrong.

    quoted  the message begins with the text that was typed.
    """

    def __init__(self, name: str, parse: Callable[[str], object], *, quoted: bool = True) -> None:
        self.name = name
        self.parse = parse
        self.quoted = quoted

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The value of a text; a value that is none is returned as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            raise click.BadParameter(f"'{value}' {error}" if self.quoted else str(error), ctx, param) from None


def format_number(value: float) -> str:
    """The shortest text that is read back as the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def whole(low: int | None = None, high: int | None = None) -> Kind[int]:
    """Whole numbers from `low` to `high`."""
    return Kind(click.IntRange(low, high))


def number(low: float | None = None, high: float | None = None, *, open_low: bool = False, open_high: bool = False) -> Kind[float]:
    """Numbers from `low` to `high`; `open_low` and `open_high` leave out the ends."""
    bounded = low is not None or high is not None
    return Kind(click.FloatRange(low, high, min_open=open_low, max_open=open_high) if bounded else click.FLOAT, format_number)


def text() -> Kind[str]:
    """Texts of any length."""
    return Kind(click.STRING)


def path() -> Kind[str]:
    """The name of a file that is no folder."""
    return Kind(FILE_PATH)


def choice(*names: S) -> Kind[S]:
    """One of these names."""
    return Kind(click.Choice(names))


def parsed(name: str, parse: Callable[[str], T], format: Callable[[T], str] = str, *, quoted: bool = True) -> Kind[T]:
    """Values of a form of their own.

    parse   text to value, raising ValueError with what is wrong: as "'TEXT' …" or, not `quoted`, as the whole message.
    format  its inverse: parse(format(value)) == value.
    """
    return Kind(ParsedType(name, parse, quoted=quoted), format)


class Condition:
    """Where options have an effect: what the request is asked, and the message where the answer is no.

    holds    the name of a property of the request.
    why      completes "--OPTION has no effect …", the warning; or
    refusal  the error, with its `hint`; {option} stands for the option as it is typed, any other name in braces for the request's value.
    """

    by_value = False  # whether every value but the default is refused, and not the option where it was typed

    def __init__(self, holds: str, *, why: str = "", refusal: str = "", hint: str | None = None) -> None:
        self.holds, self.why, self.refusal, self.hint = holds, why, refusal, hint

    def is_met(self, request: object) -> bool:
        """Whether options with this condition have an effect."""
        return bool(getattr(request, self.holds))

    def reason(self, request: object) -> str:
        """Why they have none."""
        return self.why.format_map(_Values(request, {}))

    def error(self, request: object, option: str) -> BadUsage:
        """The refusal of an option."""
        values = _Values(request, {"option": option})
        return BadUsage(self.refusal.format_map(values), hint=None if self.hint is None else self.hint.format_map(values))


class _Values(dict[str, object]):
    """The values of a request by name, for a message."""

    def __init__(self, request: object, more: Mapping[str, object]) -> None:
        super().__init__(more)
        self._request = request

    def __missing__(self, name: str) -> object:
        return getattr(self._request, name)


class Never(Condition):
    """A condition that nothing meets: the option is there to be refused.  refusal, hint: of the error."""

    def __init__(self, refusal: str, hint: str) -> None:
        super().__init__("", refusal=refusal, hint=hint)

    def is_met(self, request: object) -> bool:
        """Never."""
        return False


class OneOf(Condition):
    """Options of some values of another option: `OneOf("algorithm", "bp", "gbp")`; the warning names the value that was chosen.

    default     the value that the other option has where it is None.
    positional  the other one is an argument, which has no name where it is typed.
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

    def _chosen(self, request: object) -> object:
        value = getattr(request, self.holds)
        return self.default if value is None else value

    def is_met(self, request: object) -> bool:
        """Whether the other option has one of the values."""
        return self._chosen(request) in self.values

    def reason(self, request: object) -> str:
        """With which value they have no effect, where nothing else is said."""
        if self.why:
            return super().reason(request)
        name = "" if self.positional else f"--{self.holds.replace('_', '-')} "
        return f"with {name}{self._chosen(request)}"


class Excludes(Condition):
    """Options that contradict others: `Excludes("patience", "average", hint="…")`.

    refusal  the error; {other} stands for the option that it contradicts, as it is typed.
    """

    def __init__(self, *names: str, refusal: str = "{option} and {other} exclude each other", hint: str | None = None) -> None:
        super().__init__(names[0], refusal=refusal, hint=hint)
        self.names = names

    def is_met(self, request: object) -> bool:
        """Whether none of the others was asked for."""
        return not any(getattr(request, name) for name in self.names)

    def error(self, request: object, option: str) -> BadUsage:
        """The refusal of an option, with the other one's name."""
        other = typed_name(type(request), next(name for name in self.names if getattr(request, name)))
        values = _Values(request, {"option": option, "other": other})
        return BadUsage(self.refusal.format_map(values), hint=None if self.hint is None else self.hint.format_map(values))


class When(Condition):
    """A condition that counts only where another one is met."""

    def __init__(self, given: Condition, then: Condition) -> None:
        super().__init__(then.holds, refusal=then.refusal, hint=then.hint)
        self.given, self.then = given, then

    def is_met(self, request: object) -> bool:
        """Whether the second holds, or the first does not."""
        return not self.given.is_met(request) or self.then.is_met(request)

    def reason(self, request: object) -> str:
        """That of the second."""
        return self.then.reason(request)

    def error(self, request: object, option: str) -> BadUsage:
        """That of the second."""
        return self.then.error(request, option)


class Needs(Condition):
    """A condition without which every value but the default is refused, typed or made of other options.

    --refine 0 needs nothing, and --thin-by-chain, which sets --by, needs what --by needs.
    typed  the default is refused, too, where it was typed.
    """

    def __init__(self, condition: Condition, refusal: str, *, hint: str | None = None, typed: bool = False) -> None:
        super().__init__(condition.holds, refusal=refusal, hint=hint)
        self.condition, self.by_value = condition, not typed

    def is_met(self, request: object) -> bool:
        """Whether the condition is."""
        return self.condition.is_met(request)


class OfRequest(Condition):
    """A condition of an option of the run, which is asked of the session, that asks the session's request: --threads with an algorithm."""

    def __init__(self, condition: Condition) -> None:
        super().__init__("request", why=condition.why, refusal=condition.refusal, hint=condition.hint)
        self.condition = condition

    def is_met(self, request: object) -> bool:
        """Whether the session's request meets it."""
        return self.condition.is_met(getattr(request, self.holds))

    def reason(self, request: object) -> str:
        """That of the request."""
        return self.condition.reason(getattr(request, self.holds))

    def error(self, request: object, option: str) -> BadUsage:
        """That of the request."""
        return self.condition.error(getattr(request, self.holds), option)


class Declaration(Generic[T]):
    """What a field says of its option: the settings of click's, its kind, its place in the help, and where it has an effect."""

    def __init__(
        self,
        kind: Kind[T] | None,
        names: tuple[str, ...],
        settings: Mapping[str, object],
        group: str,
        only: tuple[Condition, ...],
        default: object = None,
    ) -> None:
        self.kind, self.names, self.settings, self.group, self.only, self.default = kind, names, settings, group, only, default

    def typed_name(self, field_name: str) -> str:
        """The long name that is typed, with its dashes."""
        return max(self.names or (f"--{field_name.replace('_', '-')}",), key=len)

    def narrowed(self, conditions: Iterable[Condition]) -> Declaration[T]:
        """The same with more conditions."""
        return Declaration(self.kind, self.names, self.settings, self.group, (*self.only, *conditions), self.default)


class DeclaredOption(click.Option):
    """An option of click that knows the heading it stands under in the help."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


@overload
def option(
    kind: Kind[T],
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
    kind: Kind[T],
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
    kind: Kind[T],
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
    kind: Kind[T],
    *names: str,
    help: str,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
    hidden: bool = False,
) -> T | None: ...
def option(
    kind: Kind[T],
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
    """A field whose option takes one value.

    names    as typed, where that is not --FIELD-NAME.
    default  the value without the option; `shown` in the help.
    resolved the value without the option depends on other options: `Request.resolved` fills it in.
    record   what a history has of it: a field of `frame.request` (as_file(), where_changed(…), …); None: the value.
    hidden   the help does not list it.
    """
    settings: dict[str, object] = {"type": kind.click_type, "help": help, "default": default, "metavar": metavar, "required": required}
    settings["hidden"] = hidden
    if default is not None:
        plain = isinstance(default, (float, str)) or (isinstance(default, int) and kind.format(default) == str(default))
        settings |= {"default": default if plain else kind.format(default), "show_default": shown}
    if required:
        del settings["default"]  # a default of None would count as given
    declared: T | None = _declared(Declaration(kind, names, settings, group, _as_tuple(only), default), record)
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
    """A field whose option takes no value.

    default   None: what is done where nothing was typed depends on other options.
    negative  the name that switches it off.
    """
    settings: dict[str, object] = {"is_flag": True, "default": default, "help": help}
    if negative is not None:
        settings |= {"negative": negative, "show_default": default is not None}
    declared: bool | None = _declared(Declaration[bool](None, names, settings, group, _as_tuple(only), default), record)
    return declared


def repeated(
    kind: Kind[T],
    *names: str,
    help: str,
    group: str = MODEL,
    metavar: str | None = None,
    only: tuple[Condition, ...] | Condition = (),
    record: object = None,
) -> tuple[T, ...]:
    """A field whose option may be repeated."""
    settings = {"type": kind.click_type, "help": help, "multiple": True, "metavar": metavar}
    declared: tuple[T, ...] = _declared(Declaration(kind, names, settings, group, _as_tuple(only), ()), record)
    return declared


def _as_tuple(only: tuple[Condition, ...] | Condition) -> tuple[Condition, ...]:
    return (only,) if isinstance(only, Condition) else only


def _declared(declaration: Declaration[T], record: object) -> Any:
    marks = {DECLARATION: declaration}
    if not isinstance(record, Field):
        return field(metadata=marks)
    return field(default=record.default, metadata={**record.metadata, **marks})


def declarations(request: type[DataclassInstance]) -> Iterator[tuple[str, Declaration[object]]]:
    """Name and declaration of each field that is an option."""
    for each in fields(request):
        declaration = each.metadata.get(DECLARATION)
        if declaration is not None:
            yield each.name, declaration


def declaration_of(declared: object) -> Declaration[object]:
    """The declaration in a field that `option`, `flag` or `repeated` made."""
    declaration: Declaration[object] = cast(Field[object], declared).metadata[DECLARATION]
    return declaration


def typed_name(request: type, field_name: str) -> str:
    """The option of a field as it is typed, with its dashes."""
    declared = dict(declarations(request)).get(field_name)
    return f"--{field_name.replace('_', '-')}" if declared is None else declared.typed_name(field_name)


def shared_option(name: str, declared: object) -> Decorator:
    """The decorator of a declared field, for a command whose request does not declare it yet."""
    return _click_option(name, declaration_of(declared))


class OptionGroup:
    """Options of many commands that are no part of a request, as one decorator.  declared: by the names of their parameters."""

    def __init__(self, declared: dict[str, Declaration[object]]) -> None:
        self.declared = declared

    def where(self, **conditions: tuple[Condition, ...] | Condition) -> OptionGroup:
        """The same options, with conditions that a command's request has for some of them."""
        more = {name: map(OfRequest, _as_tuple(only)) for name, only in conditions.items()}
        return OptionGroup({name: each.narrowed(more[name]) if name in more else each for name, each in self.declared.items()})

    def __call__(self, command: Callable[..., object]) -> Callable[..., object]:
        """The command with these options."""
        for name, declaration in reversed(self.declared.items()):
            command = _click_option(name, declaration)(command)
        return command


def click_options(request: type[DataclassInstance]) -> list[Decorator]:
    """The decorators that give a command the options of its request, in their order."""
    return [_click_option(name, declaration) for name, declaration in declarations(request)]


def _click_option(name: str, declaration: Declaration[object]) -> Decorator:
    settings = cast(dict[str, Any], dict(declaration.settings))
    typed = list(declaration.names or (f"--{name.replace('_', '-')}",))
    negative = settings.pop("negative", None)
    if negative is not None:
        typed[-1] = f"{typed[-1]}/{negative}"
    return click.option(*typed, name, cls=DeclaredOption, group=declaration.group, **settings)


class TypedOptions(Protocol):
    """The options that were typed, and a place for warnings about them, as a session has them."""

    @property
    def given(self) -> Collection[str]:
        """The names of their fields."""

    def ignored(self, option: str, why: str) -> None:
        """Warn that one of them has no effect."""


def check(request: DataclassInstance, session: TypedOptions) -> None:
    """Warn of each option of a request that was typed and has no effect.  Raises BadUsage where one is refused."""
    check_options(declarations(type(request)), request, session)


def check_options(declared: Iterable[tuple[str, Declaration[object]]], request: object, session: TypedOptions) -> None:
    """Warn of each of these options that was typed and has no effect.  Raises BadUsage where one is refused.

    request  has the properties that the conditions name.
    """
    declared = list(declared)
    refuse_options(declared, request, session.given)
    for name, declaration in declared:
        unmet = next((condition for condition in declaration.only if not (condition.refusal or condition.is_met(request))), None)
        if unmet is not None and name in session.given:
            session.ignored(name, unmet.reason(request))


def refuse_typed(request: DataclassInstance, typed_options: Collection[str]) -> None:
    """Raise BadUsage for the first of the options in `typed_options` that contradicts others, where `resolved` cannot make sense of
    them."""
    refuse_options(((name, declaration) for name, declaration in declarations(type(request)) if name in typed_options), request)


def refuse_options(declared: Iterable[tuple[str, Declaration[object]]], request: object, given: Collection[str] | None = None) -> None:
    """Raise BadUsage for the first of these options that contradicts others.  given: those that were typed; None: all."""
    for name, declaration in declared:
        for condition in declaration.only:
            if not condition.refusal or condition.is_met(request):
                continue
            if getattr(request, name) != declaration.default if condition.by_value else given is None or name in given:
                raise condition.error(request, declaration.typed_name(name))
