"""The encoding of missing values and text in columns: learned once from the training rows, kept with the model, and used again later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import recoding
from herdcli.artifacts.dataset import GAPS_HINT, require_rows
from herdcli.artifacts.recoding import Recoding
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.load_save import PrepareColumns
    from herdcli.cli.frame.run.console import Console
    from herdcli.schema import Array

LEARNED_FROM = "data"  # the role of the input whose training rows determine levels and means


@dataclass(frozen=True)
class CleaningOptions:
    """How a session encodes the columns of one input.

    recoding     the encoding of the model that was read; None: it is learned.
    missing, categorical  the values of these options; None: not typed, or the command does not have the option.
    able         whether the command accepts missing values.
    training     (n,) bool, the rows to learn from; None: the training rows by the request's --split and --seed.
    unused       collects a note for each input with columns of text that were not used.
    """

    console: Console
    command: str
    request: object
    recoding: Recoding | None
    missing: str | None
    categorical: str | None
    able: bool
    training: Callable[[Dataset], Array] | None
    unused: list[str] = field(default_factory=list, compare=False)

    @property
    def fills_missing(self) -> bool:
        """Whether missing values are accepted because they will be filled in or dropped."""
        known = self.recoding
        return self.missing is not None or bool(known and known.means)

    @property
    def uses_texts(self) -> bool:
        """Whether columns of text can become numbers."""
        return bool(self.recoding) or self.categorical != "none"

    def report_unused_texts(self) -> None:
        """Print the columns of text that were not used, for inputs without a line at the end of reading."""
        for line in self.unused:
            self.console.note(line)

    def prepare(self, role: str) -> PrepareColumns | None:
        """Return the function that converts an input's columns to numbers; None if the columns stay unchanged."""
        known = self.recoding
        learns = known is None and role == LEARNED_FROM and self.categorical is not None
        if not learns and not known:
            return None
        return lambda data, texts, where, own: self._prepare_columns(data, texts, where, own, known or None, learns=role == LEARNED_FROM)

    def _prepare_columns(
        self, data: Dataset, texts: list[str], where: str, file_recoding: Recoding, model_recoding: Recoding | None, *, learns: bool
    ) -> tuple[Dataset, Recoding]:
        note = self.console.note
        coded = model_recoding is not None and model_recoding.codes
        if model_recoding is not None and coded:
            data, texts = recoding.decode_state_columns(data, file_recoding, model_recoding, texts)
            data, texts, there = recoding.encode_state_names(data, model_recoding, texts)
        if not coded and not texts and self.missing is None and not (model_recoding and model_recoding.means):
            return data, model_recoding or Recoding()
        require_rows(data, where)
        wanted = (
            texts
            if model_recoding is None and self.categorical == "auto"
            else [name for name in texts if model_recoding and name in model_recoding.levels]
        )
        ignored = [name for name in texts if name not in wanted]
        if ignored:
            listed = f"{', '.join(ignored[:12])}{' …' if len(ignored) > 12 else ''}"
            self.unused.append(f"{where}: these parts of the file are not used: {listed}")
        missing = self.missing
        if model_recoding is None:
            codes = getattr(self.request, "levels_are_states", False)
            if missing == "drop":
                levels = dict.fromkeys(wanted, ("None",)) if codes else None
                data = recoding.drop_incomplete_rows(data, wanted, where=where, note=note, levels=levels)
            most = recoding.MOST_SYMBOLS if getattr(self.request, "uses_levels_of_all_rows", False) else recoding.MOST_LEVELS
            model_recoding = recoding.fit_encoding(
                data, wanted, self._training_mask(data), missing=missing, where=where, note=note, codes=codes, max_levels=most
            )
        elif missing == "mean" and not model_recoding.means:
            raise BadUsage(
                "the model has no column means: it was learned without --missing mean", where="--missing", hint="use --missing drop"
            )
        gaps = missing or (None if not self.able else "kept" if learns else "states")
        made = recoding.apply_encoding(data, model_recoding, texts, missing=gaps, where=where, note=note, warn=self.console.warn)
        return made, there if coded and learns else model_recoding

    def _training_mask(self, data: Dataset) -> Array:
        """Return the mask of the training rows (n,)."""
        from herdcli.artifacts.tables import dataset_preparation

        if self.training is not None:
            return self.training(data)
        if getattr(self.request, "uses_levels_of_all_rows", False):
            return np.ones(data.X.shape[0], dtype=bool)
        spec, seed = getattr(self.request, "split", None), getattr(self.request, "seed", 0)
        whole = self.command == "convert" and data.split is None  # convert makes no split unless it is asked to
        if not hasattr(self.request, "split") or (whole and spec is None):
            return np.ones(data.X.shape[0], dtype=bool)
        chosen: Array = dataset_preparation.assign_splits(data, spec, seed) == TRAIN
        return chosen if chosen.any() else np.ones(data.X.shape[0], dtype=bool)

    def add_missing_value_hint(self, error: DataError) -> DataError:
        """Return the error with a hint at the options for missing values, if the command has them."""
        if error.hint and GAPS_HINT in error.hint and self.categorical is not None and "infinite" not in error.message:
            hint = recoding.FEATURES_HINT if self.missing == "mean" else recoding.MISSING_HINT
            error.hint = error.hint.replace(GAPS_HINT, hint)
        return error
