"""Images changed at random while a network trains: how, how far, each for itself, and never when it predicts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedct_flwr.config import LearnerSettings  # noqa: E402
from fedct_flwr.learners.augment import KINDS, augmented  # noqa: E402
from fedct_flwr.learners.build import split_augment, untrained  # noqa: E402
from fedct_flwr.types import LearnerError  # noqa: E402

IMAGES = torch.rand(64, 3, 16, 24, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("kind", "axis"), [("flip", 3), ("flip-vertically", 2)])
def test_half_of_the_images_are_mirrored(kind: str, axis: int) -> None:
    found = augmented(IMAGES, [kind])
    mirrored = (found == IMAGES.flip(axis)).flatten(1).all(dim=1)
    same = (found == IMAGES).flatten(1).all(dim=1)
    assert bool((mirrored ^ same).all())
    assert 16 < int(mirrored.sum()) < 48


def test_each_image_moves_by_at_most_an_eighth_and_repeats_its_edge() -> None:
    ramp = torch.arange(24).expand(200, 3, 16, 24).float()
    found = augmented(ramp, ["shift"])
    by = found[:, 0, 0, 12] - 12
    assert by.min() == -3
    assert by.max() == 3
    expected = (torch.arange(24) + by[:, None]).clamp(0, 23)
    assert torch.equal(found, expected[:, None, None, :].expand_as(found))


def test_brightness_changes_by_a_fifth_and_stays_between_black_and_white() -> None:
    found = augmented(torch.full((500, 1, 2, 2), 0.9), ["brightness"])
    assert 0.72 <= float(found.min()) < 0.75
    assert float(found.max()) == 1.0
    assert len(found[:, 0, 0, 0].unique()) > 100


def test_all_kinds_keep_shape_and_follow_the_seed() -> None:
    first = augmented(IMAGES, KINDS)
    torch.manual_seed(0)
    assert torch.equal(first, augmented(IMAGES, KINDS))
    assert first.shape == IMAGES.shape
    assert not torch.equal(first, augmented(IMAGES, KINDS))
    assert augmented(IMAGES, []) is IMAGES


@pytest.mark.parametrize("given", ["flip,shift", ["flip", "shift"]])
def test_it_is_a_parameter_of_any_network(given: object) -> None:
    assert split_augment({"width": 4, "augment": given}) == ({"width": 4}, ("flip", "shift"))


def learner(augment: object, shape: tuple[int, ...], name: str = "small-cnn") -> object:
    settings = LearnerSettings(name=name, params={"augment": augment}, device="cpu")
    return untrained(settings, 0, 2, np.zeros((2, *shape), dtype=np.uint8), None)


@pytest.mark.parametrize(
    ("augment", "shape", "name", "word"),
    [
        ("flop", (1, 8, 8), "small-cnn", "'flip'"),
        (3, (1, 8, 8), "small-cnn", "'flip,shift'"),
        ("flip", (784,), "fashion-mnist-mlp", "images"),
        ("flip", (5,), "logistic-regression", "has no parameter 'augment'"),
    ],
)
def test_what_cannot_be_is_refused(augment: object, shape: tuple[int, ...], name: str, word: str) -> None:
    with pytest.raises(LearnerError, match=word):
        learner(augment, shape, name)


def test_a_network_is_trained_on_changed_images_and_predicts_from_those_that_are() -> None:
    X = np.zeros((40, 1, 28, 28), dtype=np.uint8)
    X[::2, ..., :8] = 255  # told apart by the side alone, which flips hide
    X[1::2, ..., -8:] = 255
    y = np.tile(np.array([0, 1], dtype=np.int16), 20)
    scores = []
    for params in ({}, {"augment": "flip"}):
        settings = LearnerSettings(name="fashion-mnist-mlp", params=params, device="cpu")
        learner = untrained(settings, 0, 2, X[:2], None, total_steps=60)
        scores.append((learner.fit(X, y).predict(X) == y).mean())
    assert scores[0] == 1.0
    assert scores[1] < 1.0
