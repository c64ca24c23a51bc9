"""Vowpal Wabbit's readable model: a weight for each hashed feature, after a header with the number of bits of the hash.

herd hashes names as Vowpal Wabbit does, into columns 1 …, and keeps the constant in column 0; Vowpal Wabbit has it at 11650396.
A line is index:weight; in a model that can be trained further, two more numbers follow.
Source: Vowpal Wabbit's wiki, "Command line arguments" (--readable_model) and gd.cc of the same program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.online.model import Classifier, Progress, RunningTotals, Settings
from herdcli.online.text.quadratic_features import parse_namespace_pairs

if TYPE_CHECKING:
    from herdcli.schema import Array

CONSTANT = 11650396
ALL = "--hash all"  # names that are whole numbers are hashed like other names, as in herd
MOST_BITS = 30
_QUADRATIC = re.compile(r"(?:--quadratic|--interactions|-q) ((?:[!-9;-{}~]{2}|::)(?!\S))")
HARMLESS = ("--hash", "all", "strings", "--link", "identity", "logistic", "glf1", "poisson")


def write_model(path: str | os.PathLike[str], model: Classifier) -> None:
    """Write the weights of a classifier of two classes that hashes text as Vowpal Wabbit does."""
    weights = _feature_weights(model)
    head = [
        "Version 9.11.9",
        "Id ",
        "Min label:-1",
        "Max label:1",
        f"bits:{model.bits}",
        "lda:0",
        "0 ngram:",
        "0 skip:",
        f"options: {' '.join([ALL, *(f'--quadratic {pair}' for pair in model.interactions or ())])}",
        ":0",
    ]
    lines = [f"{index}:{weights[index]!r}" for index in np.flatnonzero(weights).tolist()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*head, *lines]) + "\n")


def _feature_weights(model: Classifier) -> list[float]:
    """Return the weight of each hashed feature, including the constant."""
    for wrong, what in (
        (model.mean is None, "has support vectors, but Vowpal Wabbit's readable model holds weights"),
        (model.count != 1, f"has {len(model.classes)} classes, but Vowpal Wabbit's readable model holds two"),
        (model.text != "vw", "was not learned from Vowpal Wabbit text, whose features the readable model needs"),
        (model.settings.normalize, "scales examples to length 1, which Vowpal Wabbit's readable model cannot express"),
    ):
        if wrong:
            raise BadUsage(what, hint="train such a model: herd nherd-train TEXT.vw")
    assert model.mean is not None
    mean = model.mean[0].astype(np.float64)
    if (scaled := model.factors) is not None:
        # w·((x − location) factor) is (w factor)·x − (w factor)·location, whose last term is added to the constant
        location, factor = scaled
        mean = mean * factor
        if model.settings.bias:
            mean[0] -= mean @ location
    weights = mean[int(model.settings.bias) :]
    if model.settings.bias:
        weights = weights.copy()
        weights[CONSTANT & (len(weights) - 1)] += mean[0]
    found: list[float] = weights.tolist()
    return found


def read_model(text: str, require_memory: Callable[[int, str], None], note: Callable[[str], None]) -> Classifier:
    """Return the classifier of a readable model.  Raises DataError with the line that is wrong.

    require_memory  called with the bytes that the declared bits need and their purpose, before they are allocated.
    note     called with one line for the user.
    """
    lines = enumerate(text.splitlines(), start=1)
    bits, interactions = _parse_header(lines)
    require_memory(32 << bits, f"2^{bits} weights")
    weights = np.zeros(1 << bits)
    for number, line in lines:
        place = re.fullmatch(r"(\d+):(\S+)(?: .*)?", line)
        if place is None:
            if re.fullmatch(r"\D.* \S+|\w*", line):  # the state of learning, such as initial_t 0
                continue
            raise DataError(f"line {number} is not index:weight")
        try:
            index, weight = int(place[1]), float(place[2])
        except ValueError:
            raise DataError(f"line {number} has no number as its weight") from None
        if index >= len(weights):
            raise DataError(f"line {number} has the index {index}, but there are only 2^{bits} weights")
        if not np.isfinite(weight):
            raise DataError(f"line {number} has a weight that is not finite")
        weights[index] = weight
    if f"options: {ALL}" not in text:
        note(
            f"this model was trained without {ALL}, so herd looks up wrong weights for features whose names are whole numbers; "
            f"train it again with {ALL}"
        )
    return replace(_build_classifier(weights, bits), interactions=interactions or None)


def _parse_header(lines: Iterator[tuple[int, str]]) -> tuple[int, list[str]]:
    """Return the bits and the pairs of namespaces that the header declares; `lines` then continues after the header."""
    bits, found = 0, list[str]()
    for number, line in lines:
        if line.startswith("bits:"):
            if not re.fullmatch("[0-9]{1,2}", line[5:]) or not 1 <= int(line[5:]) <= MOST_BITS:
                raise DataError(f"line {number} must give a number of bits from 1 to {MOST_BITS}")
            bits = int(line[5:])
        if line.startswith("options:"):
            found += [name for pair in _QUADRATIC.findall(line) for name in parse_namespace_pairs(pair)]
            if strange := [word for word in _QUADRATIC.sub("", line[8:]).split() if word not in HARMLESS]:
                hint = "train it without --oaa and other reductions: herd reads one weight for each feature or pair of features"
                raise DataError(f"was learned with {' '.join(strange)}", hint=hint)
        if re.fullmatch(r":\d+", line):
            if bits == 0:
                break
            return bits, found
    raise DataError("ends before its weights", hint="write the file again: vw --readable_model FILE")


def _build_classifier(weights: Array, bits: int) -> Classifier:
    """Return a classifier with variance 0: its scores are those of Vowpal Wabbit, but it has no information about their uncertainty."""
    constant = CONSTANT & (len(weights) - 1)
    mean = np.concatenate([[weights[constant]], weights])
    mean[constant + 1] = 0.0
    nothing = Progress(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    return Classifier(
        classes=["-1", "1"],
        settings=Settings(bias=True),
        running=RunningTotals(),
        progress=nothing,
        mean=mean[None],
        variance=np.zeros((1, len(mean))),
        bits=bits,
        text="vw",
    )
