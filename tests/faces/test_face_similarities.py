"""The four similarities against definitions written out: angles, generalised eigenvectors, dense Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from herdcli.errors import DataError
from herdcli.faces import face_similarities

PERSONS, EACH, PIXELS = 6, 4, 30


@pytest.fixture
def faces():
    """(images (24, 30), persons (24,), probes (6, 30)): persons differ, images of one differ less."""
    random = np.random.default_rng(4)
    mean = random.normal(size=(PERSONS, PIXELS)) * np.linspace(3, 0.3, PIXELS)
    persons = np.repeat(np.arange(PERSONS), EACH)
    images = mean[persons] + random.normal(size=(len(persons), PIXELS)) * np.linspace(0.3, 1.5, PIXELS) + 5
    return images, persons, mean + 0.3 * random.normal(size=mean.shape) + 5


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_correlation_is_the_cosine_of_the_angle(faces):
    images, _, probes = faces
    expected = [[cosine(p, g) for g in images] for p in probes]
    np.testing.assert_allclose(face_similarities.cosine_similarity(probes, images), expected)


def test_an_image_of_zeros_is_like_nobody():
    assert face_similarities.cosine_similarity(np.zeros((1, 3)), np.ones((2, 3))).tolist() == [[0, 0]]


@pytest.mark.parametrize("drop", [0, 1, 3])
def test_eigenfaces_are_angles_in_the_subspace_of_right_singular_vectors(faces, drop):
    images, _, probes = faces
    _, _, right = np.linalg.svd(images - images.mean(axis=0), full_matrices=False)
    basis = right[drop : drop + 5]
    expected = [[cosine(basis @ (p - images.mean(axis=0)), basis @ (g - images.mean(axis=0))) for g in images] for p in probes]
    np.testing.assert_allclose(face_similarities.fit_eigenfaces(images, components=5, drop=drop)(probes, images), expected, atol=1e-10)


def test_eigenfaces_are_fewer_where_the_images_span_fewer_and_none_is_refused(faces):
    images, _, _ = faces
    assert len(face_similarities.fit_eigenfaces(images).basis) == len(images) - 2
    with pytest.raises(DataError, match=r"^the training images span 1 directions, so none is left when the first 1 are dropped$"):
        face_similarities.fit_eigenfaces(images[:2])


def test_fisherfaces_span_the_best_generalised_eigenvectors(faces):
    images, persons, _ = faces
    _, _, right = np.linalg.svd(images - images.mean(axis=0), full_matrices=False)
    space = right[: len(images) - PERSONS]
    Z = (images - images.mean(axis=0)) @ space.T
    within = sum(np.cov(Z[persons == p].T, bias=True) * EACH for p in range(PERSONS))
    between = Z.T @ Z - within
    _, vectors = scipy.linalg.eigh(between, within)
    for count in (3, 200):
        found = face_similarities.fit_fisherfaces(images, persons, components=count).basis
        kept = min(count, PERSONS - 1)
        wanted = vectors[:, ::-1][:, :kept].T @ space
        assert found.shape == (kept, PIXELS)
        np.testing.assert_allclose(found @ found.T, np.eye(kept), atol=1e-10)
        np.testing.assert_allclose(scipy.linalg.subspace_angles(found.T, wanted.T), 0, atol=1e-6)


def differences(images, persons, same):
    pairs = [(i, j) for i in range(len(images)) for j in range(len(images)) if i != j and (persons[i] == persons[j]) == same]
    return np.array([images[i] - images[j] for i, j in pairs])


def test_delta_ppca_is_the_ratio_of_two_dense_gaussians_of_all_pairs(faces):
    images, persons, probes = faces
    found = face_similarities.fit_delta_ppca(images, persons, within=3, between=5)(probes, images)
    expected = np.zeros((len(probes), len(images)))
    for same, count, sign in ((True, 3, 1), (False, 5, -1)):
        d = differences(images, persons, same)
        eigenvalues, vectors = np.linalg.eigh(d.T @ d / len(d))
        noise = eigenvalues[:-count].mean()
        U = vectors[:, -count:]
        C = U @ np.diag(eigenvalues[-count:] - noise) @ U.T + noise * np.eye(PIXELS)
        _, volume = np.linalg.slogdet(2 * np.pi * C)
        quadratic = np.array([[(p - g) @ np.linalg.solve(C, p - g) for g in images] for p in probes])
        expected += sign * -0.5 * (volume + quadratic)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-8)


def test_pixels_that_never_vary_change_no_similarity(faces):
    images, persons, probes = faces
    wide = [np.hstack([part, np.zeros((len(part), 7))]) for part in (images, probes)]
    for method in (
        lambda x: face_similarities.cosine_similarity,
        face_similarities.fit_eigenfaces,
        lambda x: face_similarities.fit_fisherfaces(x, persons),
    ):
        np.testing.assert_allclose(method(wide[0])(wide[1], wide[0]), method(images)(probes, images), atol=1e-9)
    ratio = [face_similarities.fit_delta_ppca(x, persons)(p, x) for x, p in (wide, (images, probes))]
    np.testing.assert_allclose(*ratio, atol=1e-7)


def test_bytes_are_taken_as_numbers(faces):
    images, persons, _ = faces
    pixels = np.clip(images * 20, 0, 255).astype(np.uint8)
    for method in (
        lambda x: face_similarities.cosine_similarity,
        face_similarities.fit_eigenfaces,
        lambda x: face_similarities.fit_fisherfaces(x, persons),
        lambda x: face_similarities.fit_delta_ppca(x, persons),
    ):
        np.testing.assert_allclose(
            method(pixels)(pixels, pixels), method(pixels.astype(float))(pixels.astype(float), pixels.astype(float)), rtol=1e-6
        )


@pytest.mark.parametrize(
    ("method", "name"), [(face_similarities.fit_fisherfaces, "fisherfaces need"), (face_similarities.fit_delta_ppca, "δppca needs")]
)
@pytest.mark.parametrize("persons", [[0, 1, 2], [0, 0, 0]])
def test_what_cannot_tell_persons_apart_is_refused(method, name, persons):
    with pytest.raises(
        DataError,
        match=rf"^{name} at least two persons, one of them with at least two images, but there are 3 images of {len(set(persons))} "
        rf"persons$",
    ):
        method(np.eye(3), np.array(persons))


def test_differences_along_one_direction_are_refused():
    images = np.arange(8.0)[:, None] * np.ones(5)
    with pytest.raises(DataError, match=r"^δppca needs differences that vary in two directions at least$"):
        face_similarities.fit_delta_ppca(images, np.arange(8) // 2)
