"""``study.toml``: what coordinator and silos agree upon."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import StudyConfig
from fedct_flwr.types import ConfigError

REQUIRED: dict[str, Any] = {"study": "heart", "classes": ["healthy", "diseased"]}


def read(**settings: Any) -> StudyConfig:
    """Settings (underscores for hyphens) beside the required ones."""
    return StudyConfig.read({**REQUIRED, **{key.replace("_", "-"): value for key, value in settings.items()}}, "it")


def message(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**settings)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_study_needs_a_name_and_classes_alone() -> None:
    config = read()
    assert (config.study, config.classes) == ("heart", ("healthy", "diseased"))
    assert (config.public, config.test_file, config.image_size) == (Path("public.csv"), None, None)


@pytest.mark.parametrize("key", sorted(REQUIRED))
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is missing in it"):
        StudyConfig.read({name: value for name, value in REQUIRED.items() if name != key}, "it")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("study", ""),
        ("study", "../elsewhere"),
        ("study", "line\n"),
        ("classes", []),
        ("classes", ["healthy"]),
        ("classes", "healthy,diseased"),
        ("image-size", "large"),
        ("image-mode", "sepia"),
    ],
)
def test_a_value_out_of_range_is_one_sentence_with_key_and_value(key: str, value: object) -> None:
    assert message(**{key: value}).startswith(f"{key} = {value!r} in it: ")


def test_a_size_has_two_numbers(wording: SnapshotAssertion) -> None:
    assert message(image_size=[28]) == wording
    assert "image-size" in message(image_size=[28, 28, 3])


@pytest.mark.parametrize("size", [[0, 28], [28, -1], [28, 100_000]])
def test_images_have_a_size_that_fits_into_memory(size: list[int]) -> None:
    assert "image-size" in message(image_size=size)


@pytest.mark.parametrize("settings", [{"test_file": "test.csv"}, {"test_label": "class"}])
def test_a_test_file_and_its_label_belong_together(settings: dict[str, Any]) -> None:
    said = message(**settings)
    assert "test-file" in said
    assert "test-label" in said


def test_classes_do_not_repeat() -> None:
    assert "classes repeat" in message(classes=["a", "b", "a"])


def test_an_empty_test_file_is_none() -> None:
    assert read(test_file="").test_file is None


def test_a_study_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read().study = "another"  # type: ignore[misc]
