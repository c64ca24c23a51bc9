"""`herd nherd-train --cache FILE`: a file of parsed blocks, so that later passes and later runs need not parse the text again.

The first pass of a run always reads and digests its text, because the record needs the digest.  A piece is not parsed again if its
digest matches the cache.  From the first piece that differs, text is parsed and a new cache is written.  Later passes read only the
cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from herdcli.artifacts.text.parsed_text_cache import CacheWriter, ParsedCache, ParsedPiece, write_cache
from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.text.text_parser import BlockReader, TextBytes, regroup_whole_lines

if TYPE_CHECKING:
    from herdcli.cli.frame.run.console import Console

STATE = ("skipped", "lines", "groups")  # the state of a reader besides its rows


class CachingReader:
    """A reader that stores the parsed blocks in a file; `proof` is the digest of the text up to the end of the last block."""

    def __init__(self, path: str, reader: BlockReader, proof: Callable[[], bytes], console: Console) -> None:
        self.path, self.reader, self.console, self.where = path, reader, console, reader.where
        self.key = json.dumps([reader.vw, reader.bits, reader.zero_based, reader.skip_bad, list(reader.interactions or ())]).encode()
        self.store = ParsedCache(path, self.key)
        self.complete = False  # whether the whole text of this run is in the store
        self._of_text, self._proof = proof, b""

    def proof(self) -> bytes:
        """Return the digest of the text up to the end of the last block's piece."""
        return self._proof

    def blocks(self, pieces: Iterable[TextBytes], *, lend: bool = False) -> Iterator[ExampleBlock]:
        """Yield one or more blocks for each piece of whole lines; see `BlockReader.blocks`."""
        for piece in self._stored_pieces() if self.complete else self._first_pass_pieces(pieces):
            self._proof = piece.proof
            for pointer, value, label, weight, index in piece.blocks:
                block = ExampleBlock(pointer, index, value, label, weight)
                yield block if lend else block.copy_arrays()

    def _stored_pieces(self) -> Iterator[ParsedPiece]:
        for number in range(len(self.store.parts)):
            piece = self.store.piece(number, check=False)
            assert piece is not None
            yield piece

    def _first_pass_pieces(self, pieces: Iterable[TextBytes]) -> Iterator[ParsedPiece]:
        """Yield the pieces of a first pass: from the store while its text matches, then parsed and written to a new store."""
        writer: CacheWriter | None = None
        shorter = False
        self.reader.begin()
        with ExitStack() as stack:
            count = 0
            for text in regroup_whole_lines(pieces):
                piece = None if writer else self._matching_piece(count)
                if piece is None:
                    writer = writer or self._restart_file(stack, count)
                    blocks = [(b.pointer, b.value, b.label, b.weight, b.index) for b in self.reader.read(text, lend=True)]
                    piece = ParsedPiece(blocks, self._of_text(), {name: getattr(self.reader, name) for name in STATE})
                    writer.add(piece)
                count += 1
                yield piece
            if writer is None and count < len(self.store.parts):
                self._restart_file(stack, count)
                shorter = True
        if writer or shorter:
            self.store = ParsedCache(self.path, self.key)
        self.complete = True

    def _matching_piece(self, number: int) -> ParsedPiece | None:
        """Return the stored piece if it belongs to the text read so far and is undamaged, else None."""
        if number >= len(self.store.parts):
            return None
        piece = self.store.piece(number, check=True)
        if piece is None:
            self.store.reason = "is damaged"
        elif piece.proof != self._of_text():
            self.store.reason = "belongs to another text"
        else:
            for name in STATE:
                setattr(self.reader, name, piece.state[name])
            return piece
        return None

    def _restart_file(self, stack: ExitStack, count: int) -> CacheWriter:
        """Start a new file with the pieces that matched, and return its writer."""
        if self.store.reason or self.store.parts:
            self.console.note(
                f"{self.path} {self.store.reason or 'belongs to another text'}, so the text is parsed and the cache written again"
            )
        writer = stack.enter_context(write_cache(self.path, self.key))
        for number in range(count):
            piece = self.store.piece(number, check=False)
            assert piece is not None
            writer.add(piece)
        return writer
