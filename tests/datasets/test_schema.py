"""Classes and columns that all silos of a study share."""

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import MAX_CLASSES, DataError


@pytest.mark.parametrize("classes", [(), ("healthy",)])
def test_fewer_than_two_classes_are_no_study(classes: tuple[str, ...], wording: SnapshotAssertion) -> None:
    with pytest.raises(DataError) as caught:
        Schema(classes)
    assert str(caught.value) == wording


def test_more_classes_than_a_label_can_hold_are_refused_in_a_short_sentence() -> None:
    with pytest.raises(DataError, match=f"between 2 and {MAX_CLASSES} classes, found {MAX_CLASSES + 1}") as caught:
        Schema(tuple(map(str, range(MAX_CLASSES + 1))))
    assert len(str(caught.value)) < 200


def test_class_names_must_not_repeat() -> None:
    with pytest.raises(DataError, match="class names repeat: 'a', 'b', 'a'"):
        Schema(("a", "b", "a"))
