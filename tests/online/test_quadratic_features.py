"""Quadratic features: columns by hand and as Vowpal Wabbit has them, products by a loop, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import fast
from herdcli.errors import DataError
from herdcli.fast.numpy_online import ordered
from herdcli.online.text import quadratic_features
from herdcli.online.text.text_parser import BlockReader

BITS = 18
TEXT = b"1 2.5 'tag |a x y:2 |b:3 z:3 |c q\n-1 | w |a x:4 |bee z |a p\n0 |c q:2\n\n1 x|c:2 u v |b z:.5 t:-1\n"


def rows_of(text: bytes, interactions: list[str], bits: int = BITS, **options) -> list[dict[int, float]]:
    reader = BlockReader("x.vw", True, bits=bits, interactions=interactions, **options)
    found = []
    for block in reader.blocks([text]):
        for row in range(block.rows):
            part = slice(block.pointer[row], block.pointer[row + 1])
            assert len(set(block.index[part].tolist())) == len(block.index[part])
            found.append(dict(zip((block.index[part] - 1).tolist(), block.value[part].tolist(), strict=True)))
    return found


def hashed(space: bytes, name: bytes, bits: int = BITS) -> int:
    return fast.murmur3(name, fast.murmur3(space, 0) if space else 0) & ((1 << bits) - 1)


def test_columns_and_values_by_hand():
    """Features and products that Vowpal Wabbit 9.11 names for this line with -q ab: x at 55432, y at 42847, z at 124687."""
    (row,) = rows_of(b"1 |a x y:2 |b z:3\n", ["ab"])
    x, y, z = hashed(b"a", b"x"), hashed(b"a", b"y"), hashed(b"b", b"z")
    assert (x, y, z) == (55432, 42847, 124687)
    assert (16777619 * 55432 ^ 124687) % 2**18 == 80151
    assert row == {x: 1.0, y: 2.0, z: 3.0, 80151: 3.0, 171394: 6.0}


@pytest.mark.parametrize("bits", [3, 18])
@pytest.mark.parametrize("chosen", [["ab"], ["ba"], ["aa"], ["ab", "cc", "bc"], ["::"]])
def test_products_are_those_of_a_loop(chosen, bits):
    lines = [
        ([(b"a", b"x", 1.0), (b"a", b"y", 2.0), (b"b", b"z", 9.0), (b"c", b"q", 1.0)]),
        ([(b"", b"w", 1.0), (b"a", b"x", 4.0), (b"bee", b"z", 1.0), (b"a", b"p", 1.0)]),
        ([(b"c", b"q", 2.0)]),
        ([(b"c", b"u", 2.0), (b"c", b"v", 2.0), (b"b", b"z", 0.5), (b"b", b"t", -1.0)]),
    ]
    letters = b" abc"
    wanted = [bytes([p, q]) for i, p in enumerate(letters) for q in letters[i:]] if chosen == ["::"] else [c.encode() for c in chosen]
    expected = []
    for line in lines:
        row: dict[int, float] = {}
        entries = [(space[:1] or b" ", hashed(space, name, bits), value) for space, name, value in line]
        for _, at, value in entries:
            row[at] = row.get(at, 0.0) + value
        for pair in wanted:
            left, right = ([entry for entry in entries if entry[0] == pair[k : k + 1]] for k in (0, 1))
            for i, (_, one, u) in enumerate(left):
                for _, two, v in right[i:] if left == right else right:
                    at = (16777619 * one ^ two) % 2**bits
                    row[at] = row.get(at, 0.0) + u * v
        expected.append(row)
    found = rows_of(TEXT, chosen, bits)
    if bits == 18:
        assert found == expected
    elif not any(pair[:1] == pair[1:] for pair in wanted):  # of its own pairs, entries of one column are multiplied as one
        for one, two in zip(found, expected, strict=True):
            assert one.keys() == two.keys()
            np.testing.assert_allclose([one[at] for at in two], list(two.values()), rtol=1e-15)


@pytest.mark.parametrize("options", ["-q ab", "-q ba", "-q aa", "-q ab -q bc -q ba", "-q ::"])
def test_columns_are_those_that_vowpal_wabbit_learns(options):
    vw = pytest.importorskip("vowpalwabbit")
    line = "1 | w |a x y:2 |b z:3 |c q:.5 r"
    learner = vw.Workspace(f"--quiet -b 12 --noconstant {options}")
    learner.learn(line)
    theirs = {index for index in range(1 << 12) if learner.get_weight(index)}
    learner.finish()
    chosen = quadratic_features.parse_namespace_pairs(",".join(options.replace("-q", "").split()))
    (row,) = rows_of(line.encode() + b"\n", chosen, 12)
    assert set(row) == theirs


def test_large_rows_come_in_parts_with_the_same_rows(monkeypatch):
    whole = rows_of(TEXT, ["::"])
    monkeypatch.setattr(quadratic_features, "ENTRIES", 4)
    reader = BlockReader("x.vw", True, bits=BITS, interactions=["::"])
    assert [block.rows for block in reader.blocks([TEXT])] == [1, 1, 1, 1]
    assert rows_of(TEXT, ["::"]) == whole


def test_weights_labels_names_and_wrong_lines_stay():
    names: dict[int, str] = {}
    reader = BlockReader("x.vw", True, bits=BITS, interactions=["ab"], names=names, skip_bad=1)
    first, second = reader.blocks([TEXT.replace(b"0 |c", b"bad |c")])
    assert reader.skipped == 1
    assert first.label.tolist() + second.label.tolist() == [1.0, -1.0, 1.0]
    assert first.weight.tolist() == [2.5, 1.0]
    assert second.weight is None
    assert names[80151 + 1] == "a^x*b^z"


@pytest.mark.parametrize("text", ["abc", "a", "a|", "é1", ",", "a:"])
def test_what_is_no_pair_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        quadratic_features.parse_namespace_pairs(text)


def test_each_pair_counts_once_whichever_letter_is_first():
    assert quadratic_features.parse_namespace_pairs("ab,cd,ba,ab") == ["ab", "cd"]
    assert quadratic_features.parse_namespace_pairs("ab,:") == ["::"]


@pytest.mark.parametrize(("chosen", "vw", "bits"), [(["ab"], False, 18), (["ab"], True, 0), (["abc"], True, 18), ([], True, 18)])
def test_a_model_with_impossible_pairs_is_refused(chosen, vw, bits):
    with pytest.raises(DataError, match="are not pairs of namespaces of hashed Vowpal Wabbit text"):
        quadratic_features.require_valid_pairs(chosen, vw, bits)


def test_keys_are_ordered_alike_whether_they_fit_beside_their_places_or_not():
    key = np.random.default_rng(0).integers(0, 50, 500)
    expected = np.argsort(key, kind="stable")
    for above in (50, 1 << 60):
        found, order = ordered(key, above)
        assert np.array_equal(order, expected)
        assert np.array_equal(found, key[expected])
