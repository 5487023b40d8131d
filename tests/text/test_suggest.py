"""Help with misspelled names."""

import pytest

from fedct_flwr.text.suggest import suggest

KNOWN = ("heart-disease", "breast-cancer", "files")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("hart-disease", "heart-disease"),
        ("heart_disease", "heart-disease"),
        ("Heart-Disease", "heart-disease"),
        ("disease-heart", "heart-disease"),
        ("brest-cancer", "breast-cancer"),
        ("file", "files"),
    ],
)
def test_the_nearest_name_is_asked_for(wrong: str, meant: str) -> None:
    assert suggest(wrong, KNOWN) == f"did you mean {meant!r}?"


@pytest.mark.parametrize("wrong", ["xyz", "", "0"])
def test_a_name_like_no_other_is_answered_with_all_there_are(wrong: str) -> None:
    assert suggest(wrong, KNOWN) == "there are heart-disease, breast-cancer, files"


def test_no_names_at_all() -> None:
    assert suggest("xyz", []) == "there are none"


def test_names_may_come_from_a_generator() -> None:
    assert suggest("xyz", (name for name in KNOWN)).endswith("breast-cancer, files")
