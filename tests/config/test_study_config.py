"""``study.toml``: what coordinator and silos agree upon."""

from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("study", "../elsewhere"),
        ("classes", ["healthy"]),
        ("classes", "healthy,diseased"),
        ("image-size", "large"),
        ("image-mode", "sepia"),
    ],
)
def test_a_value_out_of_range_is_one_sentence_with_key_and_value(key: str, value: object) -> None:
    assert message(**{key: value}).startswith(f"{key} = {value!r} in it: ")


@pytest.mark.parametrize("size", [[0, 28], [28, -1], [28, 100_000]])
def test_images_have_a_size_that_fits_into_memory(size: list[int]) -> None:
    assert "image-size" in message(image_size=size)
