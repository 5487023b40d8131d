"""Images changed at random while a network trains: how, how far, each for itself, and never when it predicts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedct_flwr.config.learner import LearnerSettings  # noqa: E402
from fedct_flwr.learners.build import untrained  # noqa: E402
from fedct_flwr.learners.networks import AUGMENTATIONS, augmented  # noqa: E402

IMAGES = torch.rand(64, 3, 16, 24, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_all_kinds_keep_shape_and_follow_the_seed() -> None:
    first = augmented(IMAGES, AUGMENTATIONS)
    torch.manual_seed(0)
    assert torch.equal(first, augmented(IMAGES, AUGMENTATIONS))
    assert first.shape == IMAGES.shape
    assert not torch.equal(first, augmented(IMAGES, AUGMENTATIONS))
    assert augmented(IMAGES, []) is IMAGES


def test_a_network_is_trained_on_changed_images_and_predicts_from_those_that_are() -> None:
    X = np.zeros((40, 1, 28, 28), dtype=np.uint8)
    X[::2, ..., :8] = 255  # told apart by the side alone, which flips hide
    X[1::2, ..., -8:] = 255
    y = np.tile(np.array([0, 1], dtype=np.int16), 20)
    scores = []
    for params in ({}, {"augment": "flip"}):
        settings = LearnerSettings(name="fashion-mnist-mlp", params=params, device="cpu")
        learner = untrained(settings, 0, ("a", "b"), X[:2], None, total_steps=60)
        scores.append((learner.fit(X, y).predict(X) == y).mean())
    assert scores[0] == 1.0
    assert scores[1] < 1.0
