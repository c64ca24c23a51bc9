"""Text into blocks: whatever the pieces, what the errors say, what labels mean, and hashing with its inverse map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdcli.errors import DataError
from herdcli.online.block_sources import TextSource, gather_blocks
from herdcli.online.class_labels import LabelEncoder, check_classes, format_label, format_labels
from herdcli.online.example_blocks import ExampleBlock, apply_scales, block_from_rows, join_blocks, prepare_block
from herdcli.online.text.text_parser import BlockReader

TEXT = b"+1 1:0.5 7:2\n-1 3:1e-3\n\n# nothing\n+1\n-1 2:4 9:1\n"


def read(text: bytes, cut: int = 1 << 20, **options) -> list[ExampleBlock]:
    reader = BlockReader("x.svm", options.pop("vw", False), **options)
    return list(reader.blocks(text[k : k + cut] for k in range(0, len(text), cut)))


@given(st.integers(1, len(TEXT)))
@settings(max_examples=40, deadline=None)
def test_pieces_do_not_matter(cut):
    whole, parts = gather_blocks(read(TEXT)), gather_blocks(read(TEXT, cut))
    assert np.array_equal(whole[0].toarray(), parts[0].toarray())
    assert whole[1].tolist() == parts[1].tolist() == [1, -1, 1, -1]
    assert whole[0].shape == (4, 9)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (b"x 1:2", "x.svm: line 3, column 1: 'x' where a label was expected", "a line is: label"),
        (b"1 1:2 zz", "x.svm: line 3, column 7: 'zz' where index:value was expected", "a whole number, a colon"),
        (b"1 0:1", "x.svm: line 3, column 3: '0:1' has index 0, and svmlight counts from 1", "--zero-based"),
        (b"1 5:1 4:2", "x.svm: line 3, column 7: '4:2' does not have a larger index than the one before", "--bits 18"),
        (b"1 5:1 5:2", "x.svm: line 3, column 7: '5:2' does not have a larger index than the one before", "--bits 18"),
        (b"1 5:one", "x.svm: line 3, column 3: '5:one' does not have a number as its value", None),
        (b"1 5:nan", "x.svm: line 3, column 3: '5:nan' is not finite", "leave the feature out"),
        (b"inf 5:1", "x.svm: line 3, column 1: 'inf' is not finite", "leave the feature out"),
        (b"1 3000000000:1", "x.svm: line 3, column 3: '3000000000:1' has an index above 2147483645", "--bits 22"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(line, message, hint):
    with pytest.raises(DataError) as caught:
        read(b"1 1:1\n-1 2:1\n" + line + b"\n1 1:1\n")
    assert str(caught.value) == message
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 2 3", "line 2, column 1: has no bar |"),
        (b"|a x", "line 2, column 1: has no label"),
        (b"1 -2 |a x", "line 2, column 1: '1 -2 ' is not an importance of 0 or more"),
        (b"1 |a x:y", "line 2, column 6: 'x:y' does not have a number as its value"),
    ],
)
def test_a_wrong_line_of_vowpal_wabbit_is_named(line, message):
    with pytest.raises(DataError) as caught:
        read(b"1 |a b\n" + line + b"\n", vw=True, bits=10)
    assert str(caught.value).startswith(f"x.svm: {message}")


def test_wrong_lines_are_passed_over_up_to_a_number():
    text = b"1 1:1\nbad\n-1 2:1\nworse 1:1\n1 3:1\n"
    reader = BlockReader("x.svm", False, skip_bad=2)
    blocks = list(reader.blocks([text]))
    assert [block.rows for block in blocks] == [3]
    assert blocks[0].index.tolist() == [1, 2, 3]
    assert reader.skipped == 2
    with pytest.raises(
        DataError, match="line 4, column 1: 'worse' where a label was expected; this is bad line number 2, but --skip-bad allows only 1"
    ):
        read(text, skip_bad=1)


@pytest.mark.parametrize(
    ("blocks", "names", "classes"),
    [
        ([[1, -1, 1]], ["-1", "1"], [[1, 0, 1]]),
        ([[0, 0], [1, 0]], ["0", "1"], [[0, 0], [1, 0]]),
        ([[1, 1], [1, -1]], ["-1", "1"], [[1, 1], [1, 0]]),
        ([[1, 1], [1, 0]], ["0", "1"], [[1, 1], [1, 0]]),
        ([[2, 1]], ["1", "2"], [[1, 0]]),
        ([[3, 5, 4], [5, 3, 3]], ["3", "4", "5"], [[0, 2, 1], [2, 0, 0]]),
    ],
)
def test_labels_become_classes(blocks, names, classes):
    labels = LabelEncoder()
    assert [labels.encode_labels(np.array(block, dtype=float), "x").tolist() for block in blocks] == classes
    assert labels.names == names


def test_labels_that_were_not_declared_are_refused():
    labels = LabelEncoder(["-1", "1"])
    labels.encode_labels(np.array([1.0, -1.0]), "x")
    with pytest.raises(DataError, match="label 2 is not one of the classes -1, 1"):
        labels.encode_labels(np.array([1.0, 2.0]), "x")
    late = LabelEncoder()
    late.encode_labels(np.array([1.0, 2.0, 3.0]), "x")
    with pytest.raises(DataError, match=r"label 7 did not occur among the first examples \(1, 2, 3\)"):
        late.encode_labels(np.array([7.0]), "x")
    with pytest.raises(DataError, match="the labels of the first examples are 3 and 8"):
        LabelEncoder().encode_labels(np.array([3.0, 8.0]), "x")


def test_classes_are_limited_and_listed():
    check_classes([1.0, 2.0, 3.0], "x", 3)
    with pytest.raises(DataError, match="4 different labels exceed the 3 allowed"):
        check_classes([1.0, 2.0, 3.0, 4.0], "x", 3)
    with pytest.raises(DataError, match=r"label 2\.5 is not a whole number, so it cannot be a class"):
        check_classes([1.0, 2.5, 3.5], "x", 9)
    names = [str(k) for k in range(11)]
    assert format_labels(names[:10]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert format_labels(names) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (11 in all)"
    assert [format_label(label) for label in (1.0, -1.0, 2.5, float("nan"))] == ["1", "-1", "2.5", "?"]
    with pytest.raises(DataError, match="class 'a' is not a number, but labels in text files are numbers"):
        LabelEncoder(["a", "b"])
    with pytest.raises(DataError, match="class 'inf' is not a number"):
        LabelEncoder(["1", "inf"])
    given = LabelEncoder(["3", "-1", "7"])  # in the order that was declared
    assert given.encode_labels(np.array([7.0, 3.0, -1.0]), "x").tolist() == [2, 0, 1]
    for strange in (8.0, -2.0, 5.0):
        with pytest.raises(DataError, match=f"label {strange:g} is not one of the classes 3, -1, 7"):
            given.encode_labels(np.array([3.0, strange]), "x")


def test_a_stream_of_one_label_settles_by_the_first_other_one():
    labels = LabelEncoder()
    assert labels.encode_labels(np.array([1.0, 1.0]), "x").tolist() == [1, 1]
    assert labels.names == ["?", "1"]
    with pytest.raises(DataError, match=r"label 2 did not occur among the first examples \(1\)"):
        labels.encode_labels(np.array([2.0]), "x")
    assert labels.encode_labels(np.array([0.0, 1.0]), "x").tolist() == [0, 1]
    for first, names in ((-1.0, ["-1", "1"]), (0.0, ["0", "1"])):
        one = LabelEncoder()
        assert one.encode_labels(np.array([first]), "x").tolist() == [0]
        assert one.names == names
    with pytest.raises(DataError, match="the labels of the first examples are 2"):
        LabelEncoder().encode_labels(np.array([2.0, 2.0]), "x")


def test_blocks_as_dense_rows_within_a_width_and_joined():
    X = np.array([[1.0, 0, 2], [0, 0, 0], [0, 5, -3]])
    block = block_from_rows(X, np.array([1, 0, 1]), slice(0, 3), np.array([1.0, 2, 3]))
    assert (block.rows, block.width) == (3, 4)
    np.testing.assert_array_equal(block.to_dense(4), np.column_stack([np.zeros(3), X]))
    np.testing.assert_array_equal(block.to_dense(3), np.column_stack([np.zeros(3), X[:, :2]]))
    cut = block.drop_features_beyond(3)
    assert (cut.pointer.tolist(), cut.index.tolist(), cut.value.tolist()) == ([0, 1, 1, 2], [1, 2], [1.0, 5.0])
    assert block.drop_features_beyond(4) is block
    plain = block_from_rows(X, np.array([1, 0, 1]), slice(1, 3))
    both = join_blocks([block, plain])
    assert both.pointer.tolist() == [0, 2, 2, 4, 4, 6]
    np.testing.assert_array_equal(both.to_dense(4)[:, 1:], np.concatenate([X, X[1:]]))
    assert (both.weight.tolist(), both.label.tolist()) == ([1, 2, 3, 1, 1], [1, 0, 1, 0, 1])
    assert join_blocks([plain, plain]).weight is None
    none = ExampleBlock(np.zeros(2, dtype=np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(1))
    assert none.width == 1
    assert prepare_block(none, normalize=True, bias=False).value.size == 0


def test_features_over_their_mean_sizes_and_the_sign_of_those_never_met():
    block = block_from_rows(np.array([[4.0, -6.0, 0.0, 5.0], [0.0, 0.0, -2.0, 0.0]]), np.array([1, 0]), slice(0, 2))
    sizes = np.array([[0.0, 0.0], [2.0, 4.0], [1.0, 12.0], [0.0, 0.0]])
    seen = apply_scales(block, sizes)
    assert seen.value.tolist() == [2.0, -0.5, 1.0, -1.0]


def test_a_pass_over_text_can_be_taken_up_at_any_block():
    text = b"".join(b"%d %d:1\n" % (1 - 2 * (n % 2), n + 1) for n in range(50))
    reader = BlockReader("x.svm", False)

    def source() -> TextSource:
        return TextSource(lambda: [text], reader, LabelEncoder(), passes=2, rows=8)

    whole = source()
    batches = [whole.block(k) for k in range(14)]
    assert whole.block(14) is None
    assert [(batch.number, batch.first_pass) for batch in batches[6:8]] == [(6, True), (0, False)]
    again = source().block(9)
    assert again.number == 2
    assert np.array_equal(again.block.index, batches[9].block.index)


def test_blocks_that_are_lent_hold_what_copies_hold():
    lines = [b"%d %d:%d\n" % (1 - 2 * (n % 2), n % 7 + 1, n) if n % 9 else b"wrong\n" for n in range(1, 60)]
    pieces = [b"".join(lines[k : k + 13]) for k in range(0, len(lines), 13)]
    kept = gather_blocks(BlockReader("x.svm", False, skip_bad=9).blocks(pieces))
    source = TextSource(lambda: pieces, BlockReader("x.svm", False, skip_bad=9), LabelEncoder(), rows=5)
    values, labels, step = [], [], 0
    while batch := source.block(step):
        values.append(batch.block.value.copy())
        labels.append(batch.block.label.copy())
        step += 1
    assert step > len(pieces)
    assert np.array_equal(np.concatenate(values), kept[0].data)
    assert np.array_equal(np.concatenate(labels), kept[1] > 0)


def test_rows_are_scaled_and_get_a_bias():
    block = block_from_rows(np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]]), np.array([1, 0]), slice(0, 2))
    made = prepare_block(block, normalize=True, bias=True)
    assert made.pointer.tolist() == [0, 3, 4]
    assert made.index.tolist() == [0, 1, 3, 0]
    assert np.allclose(made.value, [1.0, 0.6, 0.8, 1.0])


def test_an_example_of_zeros_alone_stays_so():
    block = ExampleBlock(np.array([0, 1, 3]), np.array([2, 0, 1], dtype=np.int32), np.array([0.0, 3.0, 4.0]), np.zeros(2))
    np.testing.assert_allclose(prepare_block(block, normalize=True, bias=False).value, [0.0, 0.6, 0.8])


def test_columns_of_a_hash_keep_their_first_name():
    names: dict[int, str] = {}
    read(b"1 |user age:3 name=ann |page sports\n-1 |user age:5\n", vw=True, bits=20, names=names)
    assert sorted(names.values()) == ["page^sports", "user^age", "user^name=ann"]


def test_columns_are_hashed_into_as_many_as_there_are_bits():
    line = b"".join(b" w%d" % k for k in range(200))
    (block,) = BlockReader("x.vw", True, bits=3).blocks([b"1 |a" + line + b"\n"])
    assert set(block.index.tolist()) == set(range(1, 9))


def test_weights_are_kept_where_one_of_them_is_not_one():
    (plain,) = BlockReader("x.vw", True, bits=3).blocks([b"1 |a b\n-1 |a c\n"])
    (weighed,) = BlockReader("x.vw", True, bits=3).blocks([b"1 |a b\n-1 2.5 |a c\n"])
    assert plain.weight is None
    assert weighed.weight.tolist() == [1.0, 2.5]


@pytest.mark.parametrize("vw", [False, True])
def test_arrays_of_rows_follow_the_lines_and_those_of_entries_the_bytes(vw):
    bar = b"| " if vw else b""
    long_line = b"1 " + bar + b" ".join(b"%d:2" % k for k in range(1, 400)) + b"\n"
    short_lines = (b"1 " + bar + b"1:2\n") * 300
    reader = BlockReader("x.svm", vw, bits=18 if vw else 0)
    made = list(reader.blocks([long_line, short_lines, long_line]))
    assert [block.rows for block in made] == [1, 300, 1]
    assert [len(block.index) for block in made] == [399, 300, 399]
    label, weight, pointer, index, value = reader._room
    assert max(len(label), len(weight), len(pointer)) <= 2 * 301 + 1
    assert min(len(index), len(value)) >= len(short_lines) // 2
