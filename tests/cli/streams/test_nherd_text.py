"""`herd nherd-train --text`: documents of tables and folders, what becomes of their words, and what is refused."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli import fast
from herdcli.artifacts import load
from herdcli.artifacts.text import documents
from herdcli.errors import DataError
from herdcli.online.text import compact_features
from herdcli.online.text.documents import DocumentConversion, count_words

SPORT, SPACE = ["ball", "goal", "team", "match", "referee", "coach"], ["orbit", "moon", "rocket", "launch", "Mars", "probe"]
COMMON = ["the", "a", "of", "and,", "it's", "in", "–", "naïve", "café"]


def corpus(count: int = 200, seed: int = 1):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    texts = []
    for label in labels:
        words = [*random.choice(COMMON, 12), *random.choice([SPORT, SPACE][label], 2)]
        texts.append(" ".join(random.permutation(words).tolist()).capitalize() + '.\nIt said, "so".')
    return texts, ["sport" if label == 0 else "space" for label in labels]


def write(folder, form: str, seed: int = 1) -> str:
    """A corpus as a file or folder; its name."""
    texts, labels = corpus(seed=seed)
    path = folder / f"docs{seed}.{form}"
    if form == "csv":
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([["text", "topic"], *zip(texts, labels, strict=True)])
    elif form == "parquet":
        parquet.write_table(pa.table({"text": texts, "topic": labels}), path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"text": text, "topic": label}) + "\n" for text, label in zip(texts, labels, strict=True)))
    else:
        for k, (text, label) in enumerate(zip(texts, labels, strict=True)):
            (path / label).mkdir(parents=True, exist_ok=True)
            (path / label / f"{k:04}.txt").write_text(text)
    return path.name


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "folder"])
def test_documents_are_learned_and_judged_from_every_form(herd, tmp_path, form):
    name, further = write(tmp_path, form), write(tmp_path, form, seed=2)
    asked = () if form == "folder" else ("--text", "text", "--label", "topic")
    done = herd("nherd-train", name, *asked, "-o", "m.h5")
    assert done.code == 0, done.err
    judged = herd("eval", "m.h5", "--data", further, "--format", "json") if form == "folder" else None
    model = load(str(tmp_path / "m.h5")).value
    assert model.classes == ["space", "sport"]
    assert herd("eval", "m.h5", "--require", "error<0.05").code == 0
    assert judged is None or json.loads(judged.out)[0]["error"] < 0.05
    applied = herd("apply", "m.h5", further, "-o", "p.h5")
    assert applied.code == 0, applied.err
    made = load(str(tmp_path / "p.h5")).value
    _, labels = corpus(seed=2)
    truth = sorted(labels) if form == "folder" else labels  # files of a folder come class by class
    assert np.mean([made.class_names[k] == label for k, label in zip(made.y, truth, strict=True)]) > 0.95


def test_words_are_shown_by_their_names(herd, tmp_path):
    assert herd("nherd-train", "-q", write(tmp_path, "csv"), "--text", "text", "--label", "topic", "-o", "m.h5").code == 0
    shown = herd("info", "m.h5", "--top", "10")
    assert shown.code == 0, shown.err
    assert sum(word.lower().encode() in shown.out for word in SPORT + SPACE) >= 8


def test_words_are_those_of_scikit_learn(tmp_path):
    """Counts and weights of CountVectorizer and TfidfVectorizer with words of any length, under the hash of Vowpal Wabbit."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    texts, _ = corpus()
    for lower, ngrams in ((True, 1), (False, 1), (True, 2)):
        how, names = DocumentConversion("text", 20, lower, ngrams), dict[int, str]()
        ours = count_words(texts, how, names)
        options = {"lowercase": lower, "ngram_range": (1, ngrams), "token_pattern": r"(?u)\b\w+\b"}
        found = text.CountVectorizer(**options)
        theirs = found.fit_transform(texts)
        place = [fast.murmur3(word.replace(" ", "_").encode(), 0) & ((1 << 20) - 1) for word in found.get_feature_names_out()]
        assert len(set(place)) == len(place)
        assert (ours[:, place] != theirs).nnz == 0
        assert ours.sum() == theirs.sum()
        assert sorted(names.values()) == sorted(word.replace(" ", "_") for word in found.get_feature_names_out())
        weighted = how.with_document_frequencies(ours).weight_counts(ours)[:, place]
        lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)))
        tfidf = text.TfidfVectorizer(**options).fit_transform(texts)
        assert np.allclose(
            (weighted / lengths).toarray() if not hasattr(weighted / lengths, "A") else (weighted / lengths).A, tfidf.toarray()
        )


@pytest.mark.parametrize("options", [(), ("--algorithm", "arow", "--passes", "2"), ("--multiclass", "top-1")], ids=str)
def test_columns_without_words_are_left_out_of_learning_and_of_the_file(herd, tmp_path, monkeypatch, options):
    asked = ("-q", write(tmp_path, "csv"), "--text", "text", "--label", "topic", "--bits", "17", *options)
    assert herd("nherd-train", *asked, "-o", "few.h5").code == 0
    monkeypatch.setattr(compact_features, "LEAST", 1 << 20)
    assert herd("nherd-train", *asked, "-o", "all.h5").code == 0
    few, all_columns = (load(str(tmp_path / name)).value for name in ("few.h5", "all.h5"))
    assert few.mean.shape == (1, (1 << 17) + 1)
    for name in ("mean", "variance", "hash_index"):
        assert np.array_equal(getattr(few, name), getattr(all_columns, name))
    assert np.array_equal(few.holdout.score, all_columns.holdout.score)
    assert few.holdout.score.size
    assert (tmp_path / "few.h5").stat().st_size < 2_000_000
    further = write(tmp_path, "csv", seed=2)
    for name in ("few", "all"):
        assert herd("apply", f"{name}.h5", further, "-o", f"{name}.npz").code == 0
    assert np.array_equal(*(np.load(tmp_path / f"{name}.npz")["X"] for name in ("few", "all")))


def test_n_grams_learn_what_words_alone_cannot(herd, tmp_path):
    random = np.random.default_rng(3)
    rows = [["text", "y"]]
    for _ in range(300):
        one, other = random.permutation(["alpha", "beta"]).tolist()
        rows.append([f"{one} {other}", one])
    with open(tmp_path / "d.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    for ngrams, bound in ((1, "error>0.3"), (2, "error<0.01")):
        assert herd("nherd-train", "-q", "d.csv", "--text", "text", "--ngrams", ngrams, "-o", "m.h5").code == 0
        assert herd("eval", "m.h5", "--require", bound).code == 0


def test_learning_goes_on_with_further_documents(herd, tmp_path):
    first, second = write(tmp_path, "jsonl"), write(tmp_path, "jsonl", seed=2)
    asked = ("--text", "text", "--label", "topic", "--split", "1,0,0")
    assert herd("nherd-train", "-q", first, *asked, "-o", "a.h5").code == 0
    done = herd("nherd-train", "-q", "--continue", "a.h5", second, "--label", "topic", "--split", "1,0,0", "-o", "b.h5")
    assert done.code == 0, done.err
    a, b = (load(str(tmp_path / name)).value.documents for name in ("a.h5", "b.h5"))
    assert (a.seen, b.seen) == (200, 400)
    assert b.frequency.sum() > a.frequency.sum()


@pytest.mark.parametrize(
    ("content", "options", "code", "says"),
    [
        ("text,y\nhello there,a\n", ("--text", "body"), 2, "d.csv: --text body: there is no such column"),
        ("text,y\nhello there,a\n", ("--text", "text", "--label", "z"), 2, "d.csv: --label z: there is no such column"),
        ("text\nhello there\n", ("--text", "text"), 65, "d.csv: has no column of labels"),
        ('text,y\n"hello there,a\nand so,b\n', ("--text", "text"), 65, "d.csv: line 3: unexpected end of data"),
        ("text,y\nhello there,a\nwell,b,c\n", ("--text", "text"), 65, "d.csv: line 3 has 3 fields, but the header has 2"),
        ("text,y\nhello there,a\nwell,\n", ("--text", "text"), 65, "d.csv: document 2 has no label"),
        ("text,y\nhello there,a\n", ("--text", "text", "--task", "regression"), 2, "--text learns classes, not --task regression"),
    ],
)
def test_what_is_no_table_of_documents_is_refused_in_a_line(herd, tmp_path, content, options, code, says):
    (tmp_path / "d.csv").write_text(content)
    refused = herd("nherd-train", "d.csv", *options, "-o", "m.h5")
    assert (refused.code, refused.err.splitlines()[0]) == (code, f"herd nherd-train: {says}")


def put(path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_every_file_of_a_folder_is_accounted_for(tmp_path):
    """As in the corpus of film reviews: lists of addresses lie beside the folders of the classes."""
    for part in ("train", "test"):
        for label in ("neg", "pos"):
            put(tmp_path / part / label / "0.txt", f"{part} {label} na\u00efve".encode())
    put(tmp_path / "train" / "urls.txt", b"http")
    put(tmp_path / "readme.txt", b"about")
    put(tmp_path / "train" / "pos" / "1.txt", "\ufeffcaf\u00e9 noir".encode("utf-16"))
    put(tmp_path / "train" / "pos" / "2.txt", "caf\u00e9 au lait".encode("latin-1"))
    put(tmp_path / "train" / "pos" / "3.txt", b"\xef\xbb\xbfmarked")
    put(tmp_path / "train" / "pos" / "4.txt", b"")
    found = documents.read(str(tmp_path), "text", None, labelled=True)
    assert found.texts == [
        "test neg na\u00efve",
        "test pos na\u00efve",
        "train neg na\u00efve",
        "train pos na\u00efve",
        "caf\u00e9 noir",
        "caf\u00e9 au lait",
        "marked",
        "",
    ]
    assert found.labels == ["neg", "pos", "neg", *["pos"] * 5]
    assert found.split.tolist() == [2, 2, *[0] * 6]
    assert found.notes == (
        "left out 2 .txt files outside the folders of classes: readme.txt, train/urls.txt",
        "read 1 file as latin-1, not UTF-8 (--encoding declares another)",
        "read 1 file as utf-16, not UTF-8 (--encoding declares another)",
        "no text in 1 of 8 documents",
    )
    put(tmp_path / "more" / "pos" / "0.txt", b"beside")
    with pytest.raises(DataError, match=r"more/pos/0\.txt is outside the folders of the splits"):
        documents.read(str(tmp_path), "text", None, labelled=True)


def test_a_class_may_be_called_test(tmp_path):
    put(tmp_path / "test" / "0.txt", b"one")
    put(tmp_path / "ham" / "0.txt", b"two")
    found = documents.read(str(tmp_path), "text", None, labelled=True)
    assert (found.labels, found.split, found.notes) == (["ham", "test"], None, ())


def test_columns_and_documents_without_a_use_are_reported(tmp_path):
    put(tmp_path / "d.csv", "text,title,part,y\ncaf\u00e9,a,train,u\n,b,rest,v\n".encode("latin-1"))
    found = documents.read(str(tmp_path / "d.csv"), "text", None, labelled=True)
    assert (found.texts, found.split) == (["caf\u00e9", ""], None)
    assert found.notes == (
        "read as latin-1, since it is not UTF-8 (--encoding declares another)",
        "no text in 1 of 2 documents",
        "column 'part' is not used as split: it has values other than train, valid, test or 0, 1, 2",
        "2 documents, 4 columns; not used: title, part",
    )


def test_eval_finds_the_labels_of_other_documents_by_the_column_of_the_training_rows(herd, tmp_path):
    for name, header in (("train.csv", "text,folder"), ("later.csv", "text,folder"), ("renamed.csv", "text,kept")):
        texts, labels = corpus(60)
        with open(tmp_path / name, "w", newline="") as file:
            csv.writer(file).writerows([header.split(","), *zip(texts, labels, strict=True)])
    assert herd("nherd-train", "train.csv", "--text", "text", "--label", "folder", "-q", "-o", "m.h5").code == 0
    ended = herd("eval", "m.h5", "--data", "later.csv", "--format", "json")
    assert (ended.code, json.loads(ended.out)[0]["rows"]) == (0, 60), ended.err
    ended = herd("eval", "m.h5", "--data", "renamed.csv")
    says = "herd eval: renamed.csv: has no column of labels\nhint: name that column folder, as in the training data\n"
    assert (ended.code, ended.err[-len(says) :]) == (65, says)
