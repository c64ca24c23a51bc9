"""(e) Texts and tables of every format, broken where their structure is: refused in one line, or read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import corpus
from .forked_trials import Outcome, herd, judged, linked

TOKENS = (
    b"", b"0", b"-1", b"1", b"2", b"7", b"nan", b"inf", b"-inf", b"1e999", b"1e300", b"1e-320", b"2147483646", b"2147483647", b"4294967296",
    b"9223372036854775807", b"99999999999999999999", b"x", b":", b",", b"\0", b"\xff\xfe", b'"', b"\n", b"#", b"{", b"}", b"[" * 3000,
    b" " * 3000, b"1:", b":1", b"3:4:5", b"\xe2\x80\xae", b"-0", b"1" * 400, b"0x10", b"1_0", b"+", b"|",
)  # fmt: skip
WORD = re.compile(rb"[^\s,:;(){}\[\]|]+")

UAI = b"MARKOV\n3\n2 3 2\n3\n1 0\n2 0 1\n2 1 2\n\n2 0.4 0.6\n\n6 1 2 3 4 5 6\n\n6 6 5 4 3 2 1\n"
FG = b"2\n\n1\n0\n2\n2\n0 0.4\n1 0.6\n\n2\n0 1\n2 2\n4\n0 1\n1 2\n2 3\n3 4\n"
BIF = (
    b"network n {\n}\nvariable a {\n  type discrete [ 2 ] { yes, no };\n}\nvariable b {\n  type discrete [ 2 ] { yes, no };\n}\n"
    b"probability ( a ) {\n  table 0.2, 0.8;\n}\nprobability ( b | a ) {\n  (yes) 0.3, 0.7;\n  (no) 0.9, 0.1;\n}\n"
)
MAR = b"MAR\n9 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5 2 .5 .5\n"
MOMENTS = b'{"variables": {"a": 2, "b": 2}, "marginals": [{"scope": ["a", "b"], "table": [[0.4, 0.1], [0.2, 0.3]]}]}'

# name of the file -> its text (None: made by `herd convert bin.h5 -o NAME`), and the commands that read it
READ: dict[str, tuple[bytes | None, tuple[str, ...]]] = {
    "in.csv": (None, ("convert EVIL -o out.h5", "nherd-train EVIL -o out.h5", "em EVIL --components 2 -o out.h5")),
    "in.svm": (None, ("convert EVIL -o out.h5", "nherd-train EVIL -o out.h5")),
    "in.npz": (None, ("convert EVIL -o out.h5",)),
    "in.npy": (None, ("convert EVIL -o out.h5",)),
    "in.parquet": (None, ("check EVIL", "convert EVIL -o out.h5", "convert EVIL -o out.csv")),
    "in.csv.gz": (None, ("convert EVIL -o out.h5",)),
    "in.h5": (None, ("check EVIL", "convert EVIL -o out.csv")),
    "in.uai": (UAI, ("network convert EVIL -o out.h5", "ups-infer EVIL -o out.h5")),
    "in.fg": (FG, ("ups-infer EVIL -o out.h5",)),
    "in.bif": (BIF, ("ups-infer EVIL -o out.h5",)),
    "in.mar": (MAR, ("eval beliefs.h5 --reference EVIL",)),
    "in.evid": (b"2 0 1 3 0\n", ("ups-infer network.h5 --ignore-observed --evidence EVIL -o out.h5",)),
    "in.json": (MOMENTS, ("fit-mrf --moments EVIL -o out.h5",)),
    "in.edges": (b"0 1\n1 2\n", ("fit-mrf rows.csv --smoothing 1 --label label --edges EVIL -o out.h5",)),
    "in.steps": (b"0.5\n0.3\n0.2\n", ("kernel-herd points.csv -m 3 --rule step --step EVIL -o out.h5",)),
}


def broken(text: bytes, random: np.random.Generator) -> bytes:
    """The text with one to three changes: a word, a line, an end, bytes."""
    for _ in range(int(random.integers(1, 4))):
        words = list(WORD.finditer(text[:20_000]))
        draw = random.random()
        token = TOKENS[random.integers(len(TOKENS))]
        if draw < 0.5 and words:
            word = words[random.integers(len(words))]
            text = text[: word.start()] + token + text[word.end() :]
        elif draw < 0.7:
            lines = text.split(b"\n")
            at = int(random.integers(len(lines)))
            what = random.integers(4)
            lines[at : at + 1] = [[], [lines[at]] * 2, [lines[at], token], [lines[at] + b" " + token]][what]
            text = b"\n".join(lines)
        elif draw < 0.8:
            text = text[: int(random.integers(len(text) + 1))]
        else:
            raw = bytearray(text)
            for _ in range(int(random.integers(1, 5))):
                if raw:
                    raw[random.integers(len(raw))] = int(random.integers(256))
            text = bytes(raw)
    return text


class Parsers:
    """Trial i breaks format i mod F."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.texts = folder, seed, dict[str, bytes]()
        for name, (text, _) in READ.items():
            if text is None:
                corpus.run(f"convert bin.h5 -q -o {name}", folder)
                text = (folder / name).read_bytes() if (folder / name).exists() else b""
            self.texts[name] = text

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        name = list(READ)[number % len(READ)]
        linked(self.folder, own)
        random = np.random.default_rng([self.seed, number])
        evil = own / f"evil{name.removeprefix('in')}"
        evil.write_bytes(broken(self.texts[name], random))
        if name == "in.h5" and random.random() < 0.7:
            from herdcli.artifacts.sealed import seal_header

            seal_header.write_seal(evil, "dataset")
        for line in READ[name][1]:
            code, text = herd(shlex.split(line.replace("EVIL", evil.name)))
            yield Outcome(number, f"{name} {number}: {line}", judged(code, text), text[:1500])
