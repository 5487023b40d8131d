"""Normal forms of Unicode are Python's, where a text is one that people write."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.text.printable import normalized


@given(st.text(max_size=30))
def test_texts_that_people_write_come_out_as_pythons(text: str) -> None:
    assert normalized("NFKD", text) == unicodedata.normalize("NFKD", text)


@pytest.mark.parametrize("marks", [30, 31])
def test_more_marks_than_any_language_has_are_left_as_they_are(marks: int) -> None:
    text = "a\u0301" + "\u0323" * (marks - 1)
    assert (normalized("NFC", text) == text) == (marks == 31)


def test_a_flood_of_marks_takes_no_longer_than_other_text() -> None:
    text = "a" + "\u0301\u0323" * 1_000_000
    began = time.process_time()
    assert normalized("NFC", text) == text
    # It was hours.
    assert time.process_time() - began < 10
