"""Gaps and text in the columns of an input: learned once from the training rows, kept with the model, used again by whoever applies it."""

from __future__ import annotations

from collections.abc import Callable
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
    from herdcli.artifacts.load_save import Prepare
    from herdcli.cli.frame.run.console import Console
    from herdcli.schema import Array

LEARNED_FROM = "data"  # the role of the input whose training rows teach levels and means


@dataclass(frozen=True)
class CleaningOptions:
    """How a session reads one input.

    recoding     of the model that was read; None: to be learned.    missing, categorical  the options; None: not typed, not there.
    able         the command can do with gaps.
    training     (n,) bool, the rows to learn from; None: those of the request's --split and --seed.
    """

    console: Console
    command: str
    request: object
    recoding: Recoding | None
    missing: str | None
    categorical: str | None
    able: bool
    training: Callable[[Dataset], Array] | None

    @property
    def fills_missing(self) -> bool:
        """Whether gaps are let in because something becomes of them."""
        known = self.recoding
        return self.missing is not None or bool(known and known.means)

    def prepare(self, role: str) -> Prepare | None:
        """The function that makes an input's columns numbers; None where they are left as they are."""
        known = self.recoding
        learns = known is None and role == LEARNED_FROM and self.categorical is not None
        if not learns and not known:
            return None
        return lambda data, texts, where, own: self._prepared(data, texts, where, own, known or None, learns=role == LEARNED_FROM)

    def _prepared(
        self, data: Dataset, texts: list[str], where: str, own: Recoding, known: Recoding | None, *, learns: bool
    ) -> tuple[Dataset, Recoding]:
        note = self.console.note
        coded = known is not None and known.codes
        if known is not None and coded:
            data, texts = recoding.decode_state_columns(data, own, known, texts)
            data, texts, there = recoding.encode_state_names(data, known, texts)
        if not coded and not texts and self.missing is None and not (known and known.means):
            return data, known or Recoding()
        require_rows(data, where)
        wanted = texts if known is None and self.categorical == "auto" else [name for name in texts if known and name in known.levels]
        ignored = [name for name in texts if name not in wanted]
        if ignored:
            note(f"{where}: these parts of the file are not used: {', '.join(ignored[:12])}{' …' if len(ignored) > 12 else ''}")
        missing = self.missing
        if known is None:
            codes = getattr(self.request, "levels_are_states", False)
            if missing == "drop":
                data = recoding.drop_incomplete_rows(data, wanted, where=where, note=note)
            most = recoding.MOST_SYMBOLS if getattr(self.request, "levels_of_all_rows", False) else recoding.MOST_LEVELS
            known = recoding.fit_encoding(
                data, wanted, self._training_mask(data), missing=missing, where=where, note=note, codes=codes, most=most
            )
        elif missing == "mean" and not known.means:
            raise BadUsage("the model has no column means: it was learned without --missing mean", where="--missing", hint="--missing drop")
        gaps = missing or (None if not self.able else "kept" if learns else "states")
        made = recoding.apply_encoding(data, known, texts, missing=gaps, where=where, note=note, warn=self.console.warn)
        return made, there if coded and learns else known

    def _training_mask(self, data: Dataset) -> Array:
        """Which rows are training rows (n,)."""
        from herdcli.artifacts.tables import dataset_preparation

        if self.training is not None:
            return self.training(data)
        if getattr(self.request, "levels_of_all_rows", False):
            return np.ones(data.X.shape[0], dtype=bool)
        spec, seed = getattr(self.request, "split", None), getattr(self.request, "seed", 0)
        whole = self.command == "convert" and data.split is None  # which draws no split of its own accord
        if not hasattr(self.request, "split") or (whole and spec is None):
            return np.ones(data.X.shape[0], dtype=bool)
        chosen: Array = dataset_preparation.assign_splits(data, spec, seed) == TRAIN
        return chosen if chosen.any() else np.ones(data.X.shape[0], dtype=bool)

    def add_missing_value_hint(self, error: DataError) -> DataError:
        """The error with the options that help against gaps, where the command has them."""
        if error.hint and GAPS_HINT in error.hint and self.categorical is not None and "infinite" not in error.message:
            error.hint = error.hint.replace(GAPS_HINT, recoding.MISSING_HINT)
        return error
