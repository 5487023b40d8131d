"""Classes and columns that all silos of a study share."""

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import MAX_CLASSES, DataError

CLASSES = ("healthy", "diseased")


def test_a_numeric_table_has_no_categories() -> None:
    schema = Schema.numeric(CLASSES, ("age", "sex"))
    assert schema.columns == (Column("age"), Column("sex"))
    assert schema.categorical == ()


def test_categorical_columns_are_found_by_position() -> None:
    columns = (Column("ward", ("a", "b")), Column("age"), Column("sex", ("f", "m")))
    assert Schema(CLASSES, columns).categorical == (0, 2)


def test_a_column_with_an_empty_list_of_categories_is_categorical() -> None:
    assert Schema(CLASSES, (Column("ward", ()),)).categorical == (0,)


@pytest.mark.parametrize("classes", [(), ("healthy",)])
def test_fewer_than_two_classes_are_no_study(classes: tuple[str, ...], wording: SnapshotAssertion) -> None:
    with pytest.raises(DataError) as caught:
        Schema(classes)
    assert str(caught.value) == wording


def test_the_only_class_is_named() -> None:
    with pytest.raises(DataError, match="'healthy'"):
        Schema(("healthy",))


def test_as_many_classes_as_a_label_can_hold() -> None:
    assert len(Schema(tuple(map(str, range(MAX_CLASSES)))).classes) == MAX_CLASSES


def test_more_classes_than_a_label_can_hold_are_refused_in_a_short_sentence() -> None:
    with pytest.raises(DataError, match=f"between 2 and {MAX_CLASSES} classes, found {MAX_CLASSES + 1}") as caught:
        Schema(tuple(map(str, range(MAX_CLASSES + 1))))
    assert len(str(caught.value)) < 200


def test_class_names_must_not_repeat() -> None:
    with pytest.raises(DataError, match="class names repeat: 'a', 'b', 'a'"):
        Schema(("a", "b", "a"))


def test_equal_schemas_are_equal() -> None:
    assert Schema.numeric(CLASSES, ("age",)) == Schema(CLASSES, (Column("age"),))
    assert Schema.numeric(CLASSES, ("age",)) != Schema(CLASSES, (Column("age", ("young", "old")),))
