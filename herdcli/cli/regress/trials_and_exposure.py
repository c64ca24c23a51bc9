"""Targets of `herd regress` that are counts: successes in a number of trials, or events in an exposure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.schema import Array

LACKING = {"successes": "no trials", "shares": "no trials", "counts": "no exposure", "rates": "no exposure"}  # in rows left out, by form


class CountOptions(Protocol):
    """The options for the trials or exposure of a target, from a request or a record."""

    @property
    def trials(self) -> str | None:
        """The column of trials."""
        ...

    @property
    def failures(self) -> str | None:
        """The column of failures."""
        ...

    @property
    def exposure(self) -> str | None:
        """The column of exposures."""
        ...

    @property
    def weight_kind(self) -> str | None:
        """The meaning of the weights."""
        ...


@dataclass(frozen=True)
class Response:
    """The target (n,), offset (n,) and weights (n,), which are 0 for rows without information.

    form  the form of the target: "" without trials and exposure, "successes" or "shares" of trials, "counts" or "rates" of an exposure.
    """

    y: Array
    offset: Array
    weight: Array | None
    form: str = ""


FindColumn = Callable[["Dataset", str, str], tuple["Array", "Dataset"]]  # returns a named column, and the data set without it
MessageFunction = Callable[[str], None]


def trial_and_exposure_columns(options: CountOptions) -> list[str]:
    """Return the columns that the options name."""
    return [name for name in (options.trials, options.failures, options.exposure) if name]


def response_as_rates(
    data: Dataset, response: Response, options: CountOptions, find: FindColumn, *, where: str, note: MessageFunction, form: str = ""
) -> tuple[Dataset, Response]:
    """Return the data set without the columns of trials or exposures, and the response of its rows.

    form  the form of the fit's target; "" if it is to be inferred, which a note reports.
    """
    if options.failures:
        failures, data = find(data, options.failures, "--failures")
        _refuse_values(~(np.isfinite(failures) & (failures >= 0)), failures, options.failures, "failures are not negative", where)
        _refuse_values(~(response.y >= 0), response.y, "the target", "successes are not negative", where)
        return data, _response_as_shares(response, response.y + failures, "successes", "the target and its failures", where)
    if options.trials or options.weight_kind == "trials":
        trials, data, name = _trials_or_exposures(data, response, options.trials, "--trials", find, where)
        return data, _response_from_trials(response, trials, name, options, where, note, form)
    if options.exposure or options.weight_kind == "exposure":
        exposure, data, name = _trials_or_exposures(data, response, options.exposure, "--exposure", find, where)
        return data, _response_from_exposure(response, exposure, name, options, where, note, form)
    return data, response


def _trials_or_exposures(
    data: Dataset, response: Response, column: str | None, option: str, find: FindColumn, where: str
) -> tuple[Array, Dataset, str]:
    """Return the trials or exposures (n,) from a column or from the weights, the data set without the column, and its name."""
    if column is None:
        if response.weight is None:
            kind = option.removeprefix("--")
            raise DataError(
                f"has no weights for --weight-kind {kind}", where=where, hint=f"name their column: {option} COLUMN, or --weights COLUMN"
            )
        return response.weight, data, "weight"
    if response.weight is not None:
        raise DataError(
            f"has a column 'weight', but {option} {column} also sets the row weights",
            where=where,
            hint="rename 'weight', or leave the option out",
        )
    amounts, data = find(data, column, option)
    _refuse_values(
        ~(np.isfinite(amounts) & (amounts >= 0)), amounts, f"column '{column}'", f"{option} needs finite values of at least 0", where
    )
    return amounts, data, column


def _response_from_trials(
    response: Response, trials: Array, name: str, options: CountOptions, where: str, note: MessageFunction, form: str
) -> Response:
    from herdcli.regression import weight_meaning

    y, there = response.y, trials > 0
    if not form:
        whole = bool((y == np.floor(y)).all())
        form = "successes" if whole and (bool((y > 1).any()) or options.trials) else "shares"
        what = "numbers of successes" if form == "successes" else "shares of successes"
        note(f"the target is read as {what} among the trials in column '{name}'")
        if form == "shares" and not weight_meaning.are_whole_counts(y[there], trials[there]):
            note(f"some shares times '{name}' are not whole numbers, but numbers of successes should be")
    if form == "successes":
        return _response_as_shares(response, trials, form, f"the target and '{name}'", where)
    return replace(response, y=y, weight=trials, form=form)


def _response_as_shares(response: Response, trials: Array, form: str, what: str, where: str) -> Response:
    """Return the response with a number of successes (n,) among trials (n,) as shares."""
    over = response.y > trials
    if over.any():
        row = int(np.argmax(over))
        raise DataError(f"row {row} has {response.y[row]:g} successes in only {trials[row]:g} trials (columns: {what})", where=where)
    shares = np.divide(response.y, trials, out=np.zeros_like(trials), where=trials > 0)
    return replace(response, y=shares, weight=trials, form=form)


def _response_from_exposure(
    response: Response, exposure: Array, name: str, options: CountOptions, where: str, note: MessageFunction, form: str
) -> Response:
    from herdcli.regression import weight_meaning

    y = response.y
    impossible = (exposure == 0) & (y > 0)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise DataError(f"row {row} has the target {y[row]:g}, but an exposure of 0 in '{name}'", where=where)
    if not form:
        form = "counts" if options.exposure and bool((y == np.floor(y)).all()) else "rates"
        note(f"the target is read as {'counts' if form == 'counts' else 'rates'} for the exposure in column '{name}'")
        if form == "rates" and not weight_meaning.are_whole_counts(y, exposure):
            note(f"some rates times '{name}' are not whole numbers, but numbers of events should be")
    if form == "rates":
        return replace(response, weight=exposure, form=form)
    there = exposure > 0
    offset = response.offset + np.log(np.where(there, exposure, 1.0))
    return replace(response, offset=offset, weight=None if there.all() else there.astype(np.float64), form=form)


def _refuse_values(bad: Array, values: Array, what: str, why: str, where: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{what} has {values[row]:g} in row {row}; {why}", where=where)
