"""Labels: one class however a file spells it, the silo's own mapping, and nobody's record in any message."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.tables import all_classes, class_name, class_names, map_labels
from fedct_flwr.types import DataError
from tests.sentences import sentence

FILE = Path("/data/records.csv")
CLASSES = ("healthy", "diseased")
SECRET = "Erika-4711"


def said(names: list[str], mapping: dict[str, str], classes: tuple[str, ...] = CLASSES) -> str:
    return sentence(DataError, map_labels, names, mapping, classes, FILE)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" yes ", "yes"),
        ("1.0", "1"),
        ("+1", "1"),
        ("-0", "0"),
        ("0.0", "0"),
        ("01", "01"),
        ("007", "007"),
        ("1E50", "1E50"),
        ("1,0", "1,0"),
        ("\u0661", "\u0661"),
        ("\uff11", "\uff11"),
        ("12345678901234567890.0", "12345678901234567890"),
        ("1.5", "1.5"),
        ("True", "true"),
        ("fru\u0308h", "fr\u00fch"),
    ],
)
def test_one_name_for_all_spellings(text: str, name: str) -> None:
    assert class_name(text) == name


def test_classes_are_sorted_numbers_by_value_and_text_by_alphabet() -> None:
    assert all_classes({"10", "9", "-1"}) == ("-1", "9", "10")
    assert all_classes({"b", "10", "9"}) == ("10", "9", "b")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([1, 0], pa.int8()), ["1", "0"]),
        (pa.array([2**63 - 1, 2**62]), [str(2**63 - 1), str(2**62)]),
        (pa.array([1.0, 0.5]), ["1", "0.5"]),
        (pa.array([1.0, 2.0], pa.float32()), ["1", "2"]),
        (pa.array([1.0, 2.0], pa.float16()), ["1", "2"]),
        (pa.array([Decimal("1.00"), Decimal("1E+2")], pa.decimal128(5, 2)), ["1", "100"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
        (pa.array([7, 8]).dictionary_encode(), ["7", "8"]),
        (pa.array(["b", "a"], pa.large_string()), ["b", "a"]),
        (pa.array(["b", "a"], pa.string_view()), ["b", "a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_label_is_what_a_csv_file_would_have(values: pa.Array, names: list[str]) -> None:
    assert class_names(pa.chunked_array([values, values[:1]]), "y", FILE) == [*names, names[0]]


@pytest.mark.parametrize("value", [1e300, float(2**53) * 2, float("inf"), float("-inf")])
def test_numbers_that_a_float_cannot_tell_apart_are_no_labels(value: float) -> None:
    with pytest.raises(DataError, match="too large to tell apart") as caught:
        class_names(pa.chunked_array([[1.0, value]]), "y", FILE)
    assert str(int(value) if abs(value) < 1e308 else value) not in str(caught.value)


def test_a_class_of_the_study_may_be_spelled_in_any_way() -> None:
    assert map_labels(["1", "0"], {}, ("0.0", "1.0"), FILE).tolist() == [1, 0]


def test_a_mapping_says_what_each_label_means_and_several_may_mean_the_same() -> None:
    mapping = {"0": "healthy", "1.0": "diseased", "2": "diseased", "True": "diseased"}
    assert map_labels(["2", "0", "1", "true"], mapping, CLASSES, FILE).tolist() == [1, 0, 1, 1]


def test_a_mapping_to_no_class_is_named_with_the_classes_that_there_are(wording: SnapshotAssertion) -> None:
    text = said(["0"], {"0": "well", "1": "diseased"})
    assert text == wording


def test_two_spellings_of_one_label_cannot_mean_different_classes() -> None:
    assert "mapping has '1' in two spellings" in said(["1"], {"1": "healthy", "1.0": "diseased"})
    assert map_labels(["1"], {"1": "diseased", "1.0": "diseased"}, CLASSES, FILE).tolist() == [1]


@pytest.mark.parametrize("mapping", [{}, {"0": "healthy"}])
def test_unknown_labels_are_counted_and_not_quoted(mapping: dict[str, str], wording: SnapshotAssertion) -> None:
    text = said([SECRET, SECRET + "2", *mapping], mapping)
    assert text == wording
    assert SECRET not in text
