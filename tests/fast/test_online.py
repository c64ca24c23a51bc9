"""Compiled loops of online learning against their NumPy twins: the same bits, the same words about bad text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from herdcli.fast import numpy_online as twin

compiled = pytest.importorskip("herdcli.fast._online")

RULES = [
    (algorithm, form, loss, always, C, 1.2)
    for algorithm in range(10)
    for form in range(3)
    for loss in ((0, 1, 2) if algorithm < 2 else (0,))
    for always in ((0, 1) if algorithm < 2 else (0,))
    for C in (0.0, 0.7)
]


def rows(seed: int, count: int = 60, width: int = 40, classes: int = 2) -> dict[str, np.ndarray]:
    """CSR rows of small random width, an empty one among them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 12, count)
    lengths[count // 2] = 0
    index = np.concatenate([np.sort(random.choice(width, n, replace=False)) for n in lengths] or [[]])
    return {
        "pointer": np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        "index": index.astype(np.int32),
        "value": random.standard_normal(len(index)) * random.choice([0.1, 1.0, 30.0], len(index)),
        "label": random.integers(0, classes, count).astype(np.int32),
    }


def table(width: int, classes: int) -> np.ndarray:
    made = np.zeros((width, 2, classes))
    made[:, 1] = 1.0
    return made


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_two_classes_give_the_same_bits(rule):
    data, weight = rows(1), np.random.default_rng(2).random(60)
    results = []
    for side in (compiled, twin):
        weights, running, outcome = table(40, 1), np.zeros(2), np.zeros((2, 60))
        updates = [side.learn_binary(weights, *data.values(), given, rule, running, *outcome) for given in (None, weight)]
        results.append((weights, running, outcome, updates))
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)
    assert results[0][3][0] > 0
    assert np.isfinite(results[0][0]).all()


@pytest.mark.parametrize("width", [3_000, 300_000])
@pytest.mark.parametrize("form", range(3))
def test_long_rows_give_the_same_bits_in_a_table_of_any_size(width, form):
    random, rule = np.random.default_rng(7), (0, form, 0, 0, 0.7, 0.0)
    lengths = random.integers(0, 400, 40)
    index = np.concatenate([np.sort(random.choice(width, n, replace=False)) for n in lengths]).astype(np.int32)
    data = (
        np.concatenate(([0], np.cumsum(lengths))),
        index,
        random.standard_normal(len(index)) / 10,
        random.integers(0, 2, 40, dtype=np.int32),
    )
    results = []
    for side in (compiled, twin):
        weights, running, outcome = table(width, 1), np.zeros(2), np.zeros((2, 40))
        results.append((weights, running, outcome, side.learn_binary(weights, *data, None, rule, running, *outcome)))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*results, strict=True))
    assert results[0][3] > 20


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule[3] == 0], ids=str)
def test_many_classes_give_the_same_bits(rule, top):
    data = rows(3, classes=5)
    results = []
    for side in (compiled, twin):
        weights, running, outcome = table(40, 5), np.zeros(2), np.zeros((2, 60, 5))
        updates = side.learn_multiclass(weights, *data.values(), None, rule, top, running, *outcome)
        scores = np.zeros((2, 60, 5))
        side.linear_scores(weights, *list(data.values())[:3], *scores)
        results.append((weights, running, outcome, updates, scores))
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)
    assert results[0][3] > 0


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize("classes", [3, 7, 8, 13, 20, 31, 44])
@pytest.mark.parametrize("rule", [(0, 1, 0, 0, 0.7, 1.2), (1, 1, 0, 0, 0.05, 1.2), (1, 2, 0, 0, 0.7, 1.2), (0, 0, 1, 1, 0.7, 1.2)], ids=str)
def test_any_number_of_classes_gives_the_same_bits(rule, classes, top):
    """Classes go by twenties, twelves, eights and fours, and are moved one by one or all at once."""
    data = rows(5, classes=classes)
    results = []
    for side in (compiled, twin):
        weights, running, outcome = table(40, classes), np.zeros(2), np.zeros((2, 60, classes))
        updates = side.learn_multiclass(weights, *data.values(), None, rule, top, running, *outcome)
        results.append((weights, running, outcome, updates))
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)
    assert results[0][3] > 0


def test_two_classes_are_one_class_against_the_rest():
    data, rule = rows(4), (0, 1, 0, 0, 0.5, 0.0)
    two, running, outcome = table(40, 1), np.zeros(2), np.zeros((2, 60))
    compiled.learn_binary(two, *data.values(), None, rule, running, *outcome)
    many, running = table(40, 2), np.zeros(2)
    compiled.learn_multiclass(many, *data.values(), None, rule, False, running, *np.zeros((2, 60, 2)))
    assert np.allclose(many[:, :, 1], two[:, :, 0], rtol=1e-12, atol=1e-15)  # sums over a row run in another order
    assert np.array_equal(many[:, 0, 0], -many[:, 0, 1])


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_steps_give_the_same_bits_at_extreme_margins(rule):
    for m in (-1e6, -3.0, -1e-9, 0.0, 0.3, 1.0, 2.5, 900.0):
        for v in (0.0, 1e-12, 0.5, 40.0, 1e8):
            for C in (0.0, 1e-8, 0.3, 1e6):  # 0: of kernels as long as all rows are 0
                assert compiled.solve_step(rule, m, v, C) == twin.solve_step(rule, m, v, C)


def parsed(side, text: bytes, *, vw: bool = False, mask: int = 0, first: int = 1, names=None, loose: bool = False):
    """(report, labels, weights, pointer, indices, values) of a text."""
    lines, size = text.count(b"\n") + 2, len(text) + 2
    label, weight, pointer = np.zeros(lines), np.zeros(lines), np.zeros(lines + 1, dtype=np.int64)
    index, value = np.zeros(size, dtype=np.int32), np.zeros(size)
    report = side.parse_text(text, vw, mask, first, label, weight, pointer, index, value, names, loose)
    count = report[0]
    entries = pointer[count]
    return report, label[:count], weight[:count], pointer[: count + 1], index[:entries], value[:entries]


SVMLIGHT = [
    b"+1 1:0.5 7:2 # a comment\n-1 3:1e-3\n\n# nothing\n1 qid:3 2:-4.25\r\n0\n",
    b"1 1:123456789012345678901234567890 2:0.1000000000000000055511151231257827 3:4.9e-324 4:1.7976931348623157e308\n",
    b"1 1:.5 2:5. 3:+7 4:-0 5:1E5",
    *[
        b"1 2:1\n" + line
        for line in (b"x 1:2\n", b"1 0:1\n", b"1 5:1 5:2\n", b"1 6:1 2:1\n", b"1 1:abc\n", b"1 1\n", b"1 1:\n", b"1 a:1\n")
    ],
    *[
        b"1 2:1\n" + line
        for line in (b"1 1:nan\n", b"nan 1:1\n", b"1 1:-inf", b"1 1:1e999\n", b"1 99999999999:1\n", b"1 2147483646:1", b"--1 1:1")
    ],
    *[
        b"1 2:1\n" + line
        for line in (b"1 1:1e 2:3\n", b"1 1:1e5.5\n", b"1 1:0x10\n", b"1 1:1_000\n", b"1 :3\n", b"1 qid: 2:1\n", b"1 1:2:3\n")
    ],
]
VW = [
    b"1 |a x y:2 x:0.5 |b:2 x y:3\n-1 2.5 'tag| z\n1 |\n-1 0.5 1.5 tag|q x\n1| x\n\n1 |a x|b y\n",
    *[b"1 |a x\n" + line for line in (b"1 a b\n", b"|a x\n", b"x |a x\n", b"1 0 |a x\n", b"1 -2 |a\n", b"1 y |a\n", b"1 2 3 4 |a\n")],
    b"1 0 |a x y:3\n" * 12 + b"1 -0.5 |a x\n",
    *[
        b"1 |a x\n" + line
        for line in (b"1 |a x:\n", b"1 |a x:y\n", b"1 |a:z x\n", b"1 |a x:nan\n", b"inf |a x\n", b"1e999|a\n", b"1 |a x:1:2")
    ],
]


@pytest.mark.parametrize("mask", [0, 7, (1 << 18) - 1])
@pytest.mark.parametrize("text", SVMLIGHT, ids=repr)
def test_svmlight_is_read_alike(text, mask):
    for first, loose in ((0, False), (1, False), (0, True)):
        ours, theirs = (parsed(side, text, mask=mask, first=first, loose=loose) for side in (compiled, twin))
        assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("mask", [1, 7, (1 << 18) - 1])
@pytest.mark.parametrize("text", VW, ids=repr)
def test_vowpal_wabbit_is_read_alike(text, mask):
    for ours, theirs in zip(parsed(compiled, text, vw=True, mask=mask), parsed(twin, text, vw=True, mask=mask), strict=True):
        assert np.array_equal(ours, theirs)


def some_number(random: np.random.Generator) -> str:
    """Mostly plain: digits, a point, digits; now and then whatever else a number or a line can have in it."""
    whole, part = (str(random.integers(10 ** random.integers(1, most))) for most in (10, 18))
    odd = [".5", "7.", "+3", "1e-05", "-0", "1E2", "0/1", "4:4", "inf", "--1", "5#6", "2\t", "9 ", "12\r", "007.50", ""]
    plain = [whole, f"{whole}.{part}", f"-{whole}.{part}", f"0.{part}", f"0.{part}", f"-{whole}"]
    return str(random.choice(plain)) if random.random() < 0.97 else str(random.choice(odd))


@pytest.fixture(params=compiled.instruction_sets())
def instructions(request):
    """Each instruction set that this machine runs, in turn."""
    used = compiled.instruction_set()
    compiled.use_instruction_set(request.param)
    yield request.param
    compiled.use_instruction_set(used)


def test_lines_of_all_sorts_are_read_alike(instructions):
    random = np.random.default_rng(9)
    codes = set()
    for _ in range(80):
        lines = []
        for _ in range(random.integers(1, 6)):
            places = np.cumsum(random.integers(1, 10 ** random.integers(1, 8), random.integers(0, 30)))
            lines.append(" ".join([str(random.choice(["1", "-1", "+1", "2.5"])), *(f"{place}:{some_number(random)}" for place in places)]))
        text = ("\n".join(lines) + "\n" * int(random.integers(2)) + "1 1:1\n" * int(random.integers(40))).encode()
        ours, theirs = (parsed(side, text) for side in (compiled, twin))
        codes.add(ours[0][3])
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
        assert np.array_equal(np.signbit(ours[-1]), np.signbit(theirs[-1]))
    assert len(codes) > 3


def test_lines_of_vowpal_wabbit_of_all_sorts_are_read_alike(instructions):
    """Names of all lengths, numbers plain and not, blanks where they may be and where they may not."""
    random = np.random.default_rng(10)
    codes = set()
    for _ in range(60):
        lines = []
        for _ in range(random.integers(1, 6)):
            features = []
            for _ in range(random.integers(0, 40)):
                name = "".join(random.choice(list("abcxyz019.-_é"), random.integers(1, 20)))
                features.append(
                    random.choice([f"{name}:{some_number(random)}", name, f" {name}", f"|{name} n{name}", f"|q:{name[:0]}2 {name}"])
                )
            lines.append(f"{random.choice(['1', '-1', '2 0.5', '1 0'])} |{random.choice(['', 'a', 'space'])} " + " ".join(features))
        text = ("\n".join(lines) + "\n" * int(random.integers(2)) + "1 | x\n" * int(random.integers(40))).encode()
        ours, theirs = (parsed(side, text, vw=True, mask=(1 << 18) - 1) for side in (compiled, twin))
        codes.add(ours[0][3])
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert {0, 5} <= codes


@pytest.mark.parametrize("vw", [False, True], ids=["svmlight", "vw"])
@pytest.mark.parametrize("odd", ["", "123456789:1", "7:0.1234567890123456", "3:12345678.5", "4:-.5", "9:1|", "5:", "6:1\x0b"], ids=repr)
def test_long_plain_rows_are_read_alike(instructions, vw, odd):
    """Rows of more features than are worked out at once, with one that is not plain among them; names and numbers of every length."""
    random = np.random.default_rng(11)
    for count in (1, 7, 8, 31, 32, 33, 64, 150):
        place = np.cumsum(random.integers(1, 10 ** random.integers(1, 6, count), count))
        wide = random.integers(0, 15, count).tolist()
        numbers = [f"{random.choice(['', '-'])}{random.integers(10)}{'.' * bool(w)}{'30514' * 3:.{w}}" for w in wide]
        pairs = [f"{p}:{number}" for p, number in zip(place, numbers, strict=True)]
        if vw:
            pairs[::3] = [f"name{'x' * w}" for w in wide[::3]]
        pairs.insert(count // 2, odd)
        text = (("1 | " if vw else "1 ") + " ".join(pairs) + " \n" + "-1 | 1:2\n" * 60 * vw + "-1 1:2\n" * 60 * (not vw)).encode()
        for mask in ((1 << 20) - 1,) if vw else (0, (1 << 20) - 1):
            ours, theirs = (parsed(side, text, vw=vw, mask=mask) for side in (compiled, twin))
            assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
            assert np.array_equal(np.signbit(ours[-1]), np.signbit(theirs[-1]))


def test_numbers_are_read_as_python_reads_them(instructions):
    random = np.random.default_rng(5)
    numbers = [repr(x) for x in (np.exp(random.uniform(-300, 300, 300)) * random.choice([-1, 1], 300)).tolist()]
    numbers += [f"{x:.{k}f}" for x in random.standard_normal(100) for k in (0, 3, 17, 25)]
    text = ("1 " + " ".join(f"{i + 1}:{number}" for i, number in enumerate(numbers)) + "\n").encode()
    report, *_, value = parsed(compiled, text)
    assert report[0] == 1
    assert np.array_equal(value, [float(number) for number in numbers])


@pytest.mark.parametrize("side", [compiled, twin], ids=["compiled", "twin"])
def test_rows_of_data_sets_may_fall_repeat_and_be_infinite(side):
    report, label, _, pointer, index, value = parsed(side, b"-INF 7:1 2:nan 7:+Infinity 3:-inf\nNaN\n" * 9, first=0, loose=True)
    assert report[3] == 0
    assert (label[:2].tolist(), pointer[:3].tolist()) == ([-np.inf, pytest.approx(np.nan, nan_ok=True)], [0, 4, 4])
    assert index[:4].tolist() == [8, 3, 8, 4]
    assert value[:4].tolist() == pytest.approx([1.0, np.nan, np.inf, -np.inf], nan_ok=True)


def test_the_normal_distribution_has_the_same_bits():
    x = np.concatenate([np.random.default_rng(1).normal(0, 12, 3000), [0.0, -0.0, np.inf, -np.inf, np.nan, -40.0]])
    ours, theirs = np.empty(len(x)), np.empty(len(x))
    compiled.normal_cdf(x, ours)
    twin.normal_cdf(x, theirs)
    assert ours.tobytes() == theirs.tobytes()
    for side in (compiled, twin):
        with pytest.raises(ValueError, match="fit"):
            side.normal_cdf(x, ours[1:])


def without(data: dict[str, np.ndarray], left_out: np.ndarray) -> dict[str, np.ndarray]:
    """The rows without some (n,) bool of them."""
    lengths = np.diff(data["pointer"])
    kept = np.repeat(~left_out, lengths)
    pointer = np.concatenate(([0], np.cumsum(lengths[~left_out]))).astype(np.int64)
    return {"pointer": pointer, "index": data["index"][kept], "value": data["value"][kept], "label": data["label"][~left_out]}


@pytest.mark.parametrize("side", [compiled, twin], ids=["compiled", "twin"])
@pytest.mark.parametrize("algorithm", range(10))
@pytest.mark.parametrize("classes", [1, 4])
def test_rows_of_weight_0_are_judged_and_change_nothing(side, algorithm, classes):
    data = rows(13, classes=max(2, classes))
    silent = np.random.default_rng(14).random(60) < 0.3
    rule, found = (algorithm, 1, 0, 0, 0.0, 1.2), []
    for given, weight in ((data, np.where(silent, 0.0, 1.0)), (without(data, silent), None)):
        weights, running = table(40, classes), np.zeros(2)
        score, variance = np.zeros((2, len(given["label"]), classes))
        if classes == 1:
            side.learn_binary(weights, *given.values(), weight, rule, running, score[:, 0], variance[:, 0])
        else:
            side.learn_multiclass(weights, *given.values(), weight, rule, True, running, score, variance)
        found.append((weights, running, score, variance))
    assert all(np.array_equal(one, other) for one, other in zip(found[0][:2], found[1][:2], strict=True))
    assert np.array_equal(found[0][2][~silent], found[1][2])
    assert (found[0][3][silent] > 0).any()


def test_numbers_are_learned_with_the_same_bits_and_as_least_squares():
    """Full AROW of squared loss is ridge regression; the diagonal form repeats the closed step."""
    random, data = np.random.default_rng(15), rows(15)
    target, weight, results = random.standard_normal(60) * 1e3, random.choice([0.0, 1.0, 2.5], 60), []
    for side in (compiled, twin):
        weights, running, outcome = table(40, 1), np.zeros(2), np.zeros((2, 60))
        for rule in ((1, 1, 2, 0, 0.7, 0.0), (0, 0, 2, 0, 0.7, 0.0), (0, 2, 2, 0, 0.0, 0.0)):
            side.learn_binary(weights, *data.values(), weight, rule, running, *outcome, target)
        results.append((weights, running, outcome))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*results, strict=True))
    mu, s, C = np.zeros(40), np.ones(40), 0.7
    weights, outcome = table(40, 1), np.zeros((2, 60))
    compiled.learn_binary(weights, *data.values(), weight, (1, 1, 2, 0, C, 0.0), np.zeros(2), *outcome, target)
    for row in range(60):
        part = slice(*data["pointer"][row : row + 2])
        x = np.zeros(40)
        x[data["index"][part]] = data["value"][part]
        assert outcome[0, row] == pytest.approx(mu @ x, rel=1e-9, abs=1e-9)
        c = C * weight[row]
        mu = mu + c * (target[row] - mu @ x) / (1 + c * (s * x) @ x) * s * x
        s = s / (1 + c * s * x**2)
    assert np.allclose(weights[:, 0, 0], mu, rtol=1e-9)
    assert np.allclose(weights[:, 1, 0], s, rtol=1e-12)


def test_frozen_values_are_scaled_and_add_nothing():
    data, random = rows(16), np.random.default_rng(17)
    still = random.random(len(data["value"])) < 0.4
    found = []
    for side in (compiled, twin):
        sizes, out = np.zeros((40, 2)), np.empty(len(still))
        side.rescale(sizes, data["index"], data["value"], out, still.astype(np.uint8))
        alone, kept = np.zeros((40, 2)), np.empty(int((~still).sum()))
        side.rescale(alone, data["index"][~still], data["value"][~still], kept)
        assert np.array_equal(sizes, alone)
        assert np.array_equal(out[~still], kept)
        found.append(out)
    assert np.array_equal(*found)
    first = [k for k in range(len(still)) if still[k] and not (data["index"][:k][~still[:k]] == data["index"][k]).any()]
    assert first
    assert np.array_equal(found[0][first], np.sign(data["value"][first]))


@pytest.mark.parametrize("first", [0, 7, 60])
def test_a_constant_feature_stands_in_front_of_each_row(first):
    """By its definition, with rows before those that are taken, with an empty one among them, and with none."""
    made = rows(4)
    pointer = made["pointer"][first:]
    for side in (compiled, twin):
        at, index, value = side.with_bias(pointer, made["index"], made["value"])
        assert (at.dtype, index.dtype, value.dtype) == (np.int64, np.int32, np.float64)
        assert np.array_equal(at, pointer - pointer[0] + np.arange(len(pointer)))
        for row, (begin, end) in enumerate(pairwise(pointer)):
            assert index[at[row] : at[row + 1]].tolist() == [0, *made["index"][begin:end].tolist()]
            assert value[at[row] : at[row + 1]].tolist() == [1.0, *made["value"][begin:end].tolist()]
        with pytest.raises(ValueError, match="do not fit each other"):
            side.with_bias(made["pointer"] + 1, made["index"], made["value"])
        nothing = side.with_bias(np.zeros(3, dtype=np.int64), made["index"][:0], made["value"][:0])
        assert [part.tolist() for part in nothing] == [[0, 1, 2], [0, 0], [1.0, 1.0]]


@pytest.mark.parametrize("bits", [3, 18, 30])
def test_products_are_the_same_bits(bits):
    """Rows with few products and many, of two sides and of one with itself, columns that meet, and a row of nothing."""
    mask = (1 << bits) - 1
    sides = []
    for seed in range(3):
        made = rows(seed, 20)
        sides.append((made["pointer"], (made["index"] * 7919 & mask).astype(np.int32) + 1, made["value"]))
    chosen = [(sides[0], sides[1], False), (sides[2], sides[2], True)]
    for first, last in ((0, 20), (3, 4), (7, 15), (20, 20)):
        ours, theirs = (side.with_products(sides[0], chosen, mask, first, last) for side in (compiled, twin))
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    wrong = (sides[0][0], sides[0][1] - 100, sides[0][2])
    for side in (compiled, twin):
        with pytest.raises(ValueError, match="do not fit each other"):
            side.with_products(wrong, chosen, mask, 0, 20)
        with pytest.raises(ValueError, match="do not fit each other"):
            side.with_products(sides[0], chosen, mask, 0, 21)


def test_murmur3_gives_the_published_values():
    known = {
        (b"", 0): 0,
        (b"", 1): 0x514E28B7,
        (b"test", 0): 0xBA6BD213,
        (b"Hello, world!", 0x9747B28C): 0x24884CBA,
        (b"aaa", 0x9747B28C): 0x283E0130,
    }
    for (text, seed), value in known.items():
        assert compiled.murmur3(text, seed) == twin.murmur3(text, seed) == value


def test_entries_of_one_slot_are_added_up():
    report, _, _, pointer, index, value = parsed(compiled, b"1 |a x x:2 y\n", vw=True, mask=(1 << 18) - 1)
    assert report[0] == 1
    assert pointer.tolist() == [0, 2]
    assert value.tolist() == [3.0, 1.0]
    assert index[0] == (twin.murmur3(b"x", twin.murmur3(b"a", 0)) & (1 << 18) - 1) + 1


def test_names_are_kept_on_request():
    names: dict[int, str] = {}
    parsed(compiled, b"1 |a x x:2 |b x\n", vw=True, mask=(1 << 18) - 1, names=names)
    assert sorted(names.values()) == ["a^x", "b^x"]


def test_scaled_features_are_the_same_bits_and_the_definition():
    data = rows(11)
    data["value"][::7] = 0.0
    found = []
    for side in (compiled, twin):
        sizes, out = np.zeros((40, 2)), np.empty(len(data["value"]))
        side.rescale(sizes, data["index"], data["value"], out)
        found.append((sizes, out.copy()))
        side.rescale(sizes, data["index"], data["value"], out)
        found[-1] += (sizes.copy(), out)
    for ours, theirs in zip(*found, strict=True):
        assert np.array_equal(ours, theirs)
    seen: dict[int, list[float]] = {}
    for at, x, scaled in zip(data["index"].tolist(), data["value"].tolist(), found[0][1].tolist(), strict=True):
        seen.setdefault(at, []).append(abs(x))
        sizes_so_far = [size for size in seen[at] if size > 0]
        assert scaled == pytest.approx(x / np.mean(sizes_so_far) if sizes_so_far else 0.0, rel=1e-12)


@pytest.mark.parametrize("side", [compiled, twin], ids=["compiled", "twin"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": 40}, "outside its table"),
        ({"index": -1}, "outside its table"),
        ({"label": 4}, "outside the classes"),
        ({"label": -1}, "outside the classes"),
        ({"pointer": 10**6}, "do not fit each other"),
        ({"pointer": -5}, "do not fit each other"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_at_the_door(side, change, message):
    data = rows(12, classes=4)
    for name, item in change.items():
        data[name][-1] = item
    with pytest.raises(ValueError, match=message):
        side.learn_multiclass(table(40, 4), *data.values(), None, RULES[0], True, np.zeros(2), np.zeros((60, 4)), np.zeros((60, 4)))
    with pytest.raises(ValueError, match=r"room for scores|fit each other|outside"):
        side.learn_multiclass(table(40, 4), *data.values(), None, RULES[0], True, np.zeros(2), np.zeros((60, 3)), np.zeros((60, 3)))


@pytest.mark.parametrize("bits", [1, 4, 20])
def test_words_of_documents_are_counted_alike(bits):
    random, mask = np.random.default_rng(bits), (1 << bits) - 1
    for _ in range(30):
        documents = [
            bytes(random.choice(list(b"abc\xc3  "), random.integers(0, 40)).astype(np.uint8)) for _ in range(random.integers(0, 5))
        ]
        ends, text = np.cumsum([len(each) for each in documents], dtype=np.int64), b"".join(documents)
        met = [np.zeros(1 << bits, dtype=np.uint8) for _ in range(2)]
        found = [side.count_hashed_words(text, ends, mask, known) for side, known in zip((compiled, twin), met, strict=True)]
        for ours, theirs in zip(*found, strict=True):
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)
        assert np.array_equal(*met)
        pointer, index, value, *_ = found[0]
        for k, words in enumerate(each.split() for each in documents):
            row = dict(zip(index[pointer[k] : pointer[k + 1]].tolist(), value[pointer[k] : pointer[k + 1]].tolist(), strict=True))
            columns = [twin.murmur3(word, 0) & mask for word in words]
            assert row == {column: columns.count(column) for column in columns}


def test_the_first_word_of_a_column_is_reported_once():
    known, ends = np.zeros(2, dtype=np.uint8), np.array([8, 16], dtype=np.int64)
    text = b"ab  ab ccd ab  e"
    for side in (compiled, twin):
        *_, column, start, length = side.count_hashed_words(text, ends, 1, known * 0)
        assert len(set(column.tolist())) == len(column) <= 2
        assert (column[0], text[start[0] : start[0] + length[0]]) == (twin.murmur3(b"ab", 0) & 1, b"ab")
        assert side.count_hashed_words(text, ends, 1, known + np.uint8(1))[3].size == 0
        assert side.count_hashed_words(text, ends, 1, None)[3].size == 0


@pytest.mark.parametrize("side", [compiled, twin], ids=["compiled", "twin"])
@pytest.mark.parametrize(
    ("ends", "known", "message"),
    [
        ([3, 2], None, "rise within the text"),
        ([-1, 2], None, "rise within the text"),
        ([2, 9], None, "rise within the text"),
        ([2], np.zeros(3, dtype=np.uint8), "a byte for each column"),
        ([2], np.zeros(4), "a byte for each column"),
    ],
)
def test_ends_of_documents_that_do_not_fit_are_refused(side, ends, known, message):
    with pytest.raises(ValueError, match=message):
        side.count_hashed_words(b"a b c", np.array(ends, dtype=np.int64), 3, known)
