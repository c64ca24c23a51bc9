"""Recognition: the model and its four rivals on the same images, by test sets."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import gallery
from herdcli.evaluation.plots import gallery_plots, plot_list
from herdcli.faces import face_similarities
from herdcli.faces.rank_errors import count_wrong_before_match, rank_errors
from herdcli.rbm import pair_similarity, pairs
from herdcli.rbm.learning import parallel_fits

PERSONS, EACH, SHAPE = 6, 5, (4, 5)


@pytest.fixture(scope="module")
def judged():
    """A model of pairs of 6 persons' 3 images of 4 × 5, and their other two images as probes of two sets."""
    random = np.random.default_rng(5)
    persons = np.repeat(np.arange(PERSONS), EACH)
    images = np.clip(random.random((PERSONS, 20))[persons] + 0.15 * random.normal(size=(len(persons), 20)), 0, 1) * 255
    units = (images / 255 * 10).astype(np.float32)
    train, test = np.flatnonzero(np.arange(30) % 5 < 3), np.flatnonzero(np.arange(30) % 5 >= 3)
    index = pairs.same_person_pairs(persons, train, [str(p) for p in range(PERSONS)])
    settings = parallel_fits.Settings(
        **vars(pairs.DEFAULTS) | {"hidden": 8, "epochs": 150, "batch_size": 12, "learning_rate": 0.02, "bias_rate": 0.02, "momentum": 0.5}
    )
    problem, varies = pairs.make_pair_problem(units, index, settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    model = pairs.assemble_pair_rbm(problem, state, varies, units, index, np.zeros(30, dtype=np.uint8))
    model = type(model)(**vars(model) | {"image_shape": np.array(SHAPE)})
    names = np.array(list("abcdef"))[persons]
    return gallery.RecognitionTask(model, units, images, names, train, train, test, np.where(test % 5 == 3, "day", "night"))


def test_rows_are_the_errors_of_each_method_on_each_set(judged):
    rows = gallery.recognition_rows(judged)
    assert [row["set"] for row in rows[::5]] == ["day", "night", "all"]
    assert [row["method"] for row in rows[:5]] == ["rbm-pairs", "correlation", "eigenfaces", "fisherfaces", "dppca"]
    assert all(row["gallery"] == 18 for row in rows)
    assert [row["probes"] for row in rows[::5]] == [6, 6, 12]
    train, probes = judged.images[judged.gallery], judged.images[judged.probes]
    expected = {
        "rbm-pairs": pair_similarity.pair_similarity(
            judged.model,
            *(pair_similarity.compute_hidden_input_totals(judged.model, judged.units[rows]) for rows in (judged.probes, judged.gallery)),
        ),
        "correlation": face_similarities.cosine_similarity(probes, train),
        "eigenfaces": face_similarities.fit_eigenfaces(train, components=199, drop=0)(probes, train),
        "fisherfaces": face_similarities.fit_fisherfaces(train, judged.persons[judged.gallery])(probes, train),
        "dppca": face_similarities.fit_delta_ppca(train, judged.persons[judged.gallery])(probes, train),
    }
    for row in rows:
        inside = np.ones(12, dtype=bool) if row["set"] == "all" else judged.sets == row["set"]
        ahead = count_wrong_before_match(expected[row["method"]], judged.persons[judged.probes], judged.persons[judged.gallery])[inside]
        assert {f"rank_{n}": error for n, error in rank_errors(ahead).items()}.items() <= row.items()


def test_a_learned_model_recognises_far_better_than_chance(judged):
    own = next(row for row in gallery.recognition_rows(judged) if row["set"] == "all" and row["method"] == "rbm-pairs")
    assert own["rank_1"] <= 0.25  # chance is 5/6


def test_rivals_have_the_sizes_that_are_asked_for(judged):
    small = gallery.RecognitionTask(**vars(judged) | {"dimensions": gallery.SubspaceDimensions(2, 3, 2, 1, 1)})
    found = gallery.method_similarities(small)
    train, probes = judged.images[judged.gallery], judged.images[judged.probes]
    np.testing.assert_allclose(found["eigenfaces"], face_similarities.fit_eigenfaces(train, components=3, drop=2)(probes, train))
    persons = judged.persons[judged.gallery]
    np.testing.assert_allclose(found["fisherfaces"], face_similarities.fit_fisherfaces(train, persons, components=2)(probes, train))
    np.testing.assert_allclose(found["dppca"], face_similarities.fit_delta_ppca(train, persons, within=1, between=1)(probes, train))


def test_a_smaller_gallery_leaves_the_rivals_as_they_are(judged):
    few = judged.train[::3]
    small, whole = (
        gallery.method_similarities(gallery.RecognitionTask(**vars(judged) | {"gallery": few})),
        gallery.method_similarities(judged),
    )
    for name in whole:
        np.testing.assert_allclose(small[name], whole[name][:, ::3], rtol=1e-9)


def test_what_the_model_says_of_itself(judged):
    found = gallery.metrics(judged.model, EvaluationSettings())
    assert found["pairs"] == PERSONS * 6
    assert found["reconstruction"] == judged.model.trace[-1]
    assert found["largest_weight"] == pytest.approx(max(np.abs(judged.model.W1).max(), np.abs(judged.model.W2).max()))


def test_with_images_it_says_how_often_it_recognises(judged):
    assert gallery.metrics(judged, EvaluationSettings()) == gallery.recognition_rows(judged)


def test_every_picture_can_be_drawn_and_two_of_them_need_images(judged, tmp_path):
    for name in plot_list.plot_names("rbm-pairs"):
        draw = plot_list.import_plot_function("rbm-pairs", name)
        plot_list.write_figure(draw(judged, EvaluationSettings()), tmp_path / f"{name}.png", ".png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        if name in ("errors", "nearest"):
            with pytest.raises(BadUsage, match=rf"^--plot {name} needs images to compare$"):
                draw(judged.model, EvaluationSettings())
        else:
            draw(judged.model, EvaluationSettings())


def test_pairs_of_filters_stand_side_by_side(judged):
    model = judged.model
    shown = np.ma.filled(gallery_plots.filters(model, EvaluationSettings()).axes[0].images[0].get_array(), np.nan)
    strongest = int((model.W1**2 + model.W2**2).sum(axis=0).argmax())
    np.testing.assert_allclose(shown[:4, :5].ravel(), model.W1[:, strongest], rtol=1e-6)
    np.testing.assert_allclose(shown[:4, 6:11].ravel(), model.W2[:, strongest], rtol=1e-6)
    assert np.isnan(shown[:4, 5]).all()
    assert np.isnan(shown[:4, 11:14]).all()  # the gap to the next pair is wider
