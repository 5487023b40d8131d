"""Labels: one class however a file spells it, the silo's own mapping, and nobody's record in any message."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedct_flwr.datasets.labels import all_classes, class_name, class_names, encode_labels, map_labels
from fedct_flwr.types import DataError

FILE = Path("/data/records.csv")
CLASSES = ("healthy", "diseased")
SECRET = "Erika-4711"


def said(names: list[str], mapping: dict[str, str], classes: tuple[str, ...] = CLASSES) -> str:
    with pytest.raises(DataError) as caught:
        map_labels(names, mapping, classes, FILE)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" yes ", "yes"),
        ("1.0", "1"),
        ("01", "1"),
        ("-0", "0"),
        ("1.5", "1.5"),
        ("True", "true"),
        ("FALSE", "false"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("fru\u0308h", "fr\u00fch"),
        ("Yes", "Yes"),
    ],
)
def test_one_name_for_all_spellings(text: str, name: str) -> None:
    assert class_name(text) == name


@pytest.mark.parametrize("values", [[1, 0], [1.0, 0.0], ["1", "0"], ["1.0", " 0 "]])
def test_numbers_are_the_same_labels_whatever_the_column_holds(values: list[object]) -> None:
    assert class_names(pa.chunked_array([values]), "y", FILE) == ["1", "0"]


def test_classes_are_sorted_numbers_by_value_and_text_by_alphabet() -> None:
    assert all_classes({"10", "9", "-1"}) == ("-1", "9", "10")
    assert all_classes({"b", "10", "9"}) == ("10", "9", "b")


def test_labels_are_positions_among_the_classes() -> None:
    y = encode_labels(["diseased", "healthy", "diseased"], CLASSES)
    assert y.dtype == np.int16
    assert y.tolist() == [1, 0, 1]


def test_without_a_mapping_the_file_uses_the_studys_names() -> None:
    assert map_labels(["healthy", "diseased"], {}, CLASSES, FILE).tolist() == [0, 1]


def test_a_class_of_the_study_may_be_spelled_in_any_way() -> None:
    assert map_labels(["1", "0"], {}, ("0.0", "1.0"), FILE).tolist() == [1, 0]


def test_a_mapping_says_what_each_label_means_and_several_may_mean_the_same() -> None:
    mapping = {"0": "healthy", "1.0": "diseased", "2": "diseased", "True": "diseased"}
    assert map_labels(["2", "0", "1", "true"], mapping, CLASSES, FILE).tolist() == [1, 0, 1, 1]


def test_no_records_have_no_labels() -> None:
    y = map_labels([], {}, CLASSES, FILE)
    assert (y.shape, y.dtype) == ((0,), np.int16)


def test_a_mapping_replaces_the_studys_names() -> None:
    # Else a label that the hospital's mapping forgot could mean what the study happens to call so.
    assert "1 record whose label is not in mapping" in said(["healthy"], {"0": "healthy", "1": "diseased"})


def test_a_mapping_to_no_class_is_named_with_the_classes_that_there_are() -> None:
    text = said(["0"], {"0": "well", "1": "diseased"})
    assert text == "mapping leads to 'well', which is no class of the study: it has 'healthy', 'diseased'"


def test_two_spellings_of_one_label_cannot_mean_different_classes() -> None:
    assert "mapping has '1' in two spellings" in said(["1"], {"1": "healthy", "1.0": "diseased"})
    assert map_labels(["1"], {"1": "diseased", "1.0": "diseased"}, CLASSES, FILE).tolist() == [1]


def test_a_study_cannot_spell_one_class_in_two_ways() -> None:
    assert "the study has '1' in two spellings" in said(["1"], {}, ("1", "1.0"))


@pytest.mark.parametrize("mapping", [{}, {"0": "healthy"}])
def test_unknown_labels_are_counted_and_not_quoted(mapping: dict[str, str]) -> None:
    text = said([SECRET, SECRET + "2", *mapping], mapping)
    assert text.startswith(f"{FILE} has 2 records whose label is not ")
    assert SECRET not in text


def test_missing_labels_are_counted_and_nothing_is_quoted() -> None:
    with pytest.raises(DataError, match=f"^{FILE} has 2 records without a label: ") as caught:
        class_names(pa.chunked_array([[SECRET, None, None]]), "y", FILE)
    assert SECRET not in str(caught.value)


def test_not_a_number_is_no_label() -> None:
    with pytest.raises(DataError, match="1 record without a label"):
        class_names(pa.chunked_array([[1.0, float("nan")]]), "y", FILE)


@pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [b"x"]], ids=["list", "struct", "bytes"])
def test_labels_that_are_neither_numbers_nor_text_are_refused_by_kind(values: list[object]) -> None:
    with pytest.raises(DataError, match=f"column 'y' of {FILE} holds .*: labels must be numbers or text"):
        class_names(pa.chunked_array([values]), "y", FILE)
