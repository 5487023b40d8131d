"""Streams are the same everywhere and different for every scope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import seed_words

scopes = st.lists(st.one_of(st.text(max_size=5), st.integers(-5, 5)), max_size=3).map(tuple)


def test_words_are_pinned():
    """sha256(repr((1, 'ties', 2))), little-endian."""
    assert seed_words(1, "ties", 2) == [
        3413220370,
        357415249,
        1962665239,
        869079742,
        2475737667,
        737435669,
        621341700,
        1728021224,
    ]


@given(st.integers(0, 3), scopes, st.integers(0, 3), scopes)
def test_words_differ_for_every_seed_and_scope(seed: int, scope: tuple, other_seed: int, other_scope: tuple):
    same = (seed, scope) == (other_seed, other_scope)
    assert (seed_words(seed, *scope) == seed_words(other_seed, *other_scope)) == same


@pytest.mark.parametrize("pair", [((1, "1"), (1, 1)), ((1, "a", "b"), (1, "a, b")), ((1,), (1, ""))])
def test_scopes_that_read_alike_are_told_apart(pair: tuple[tuple, tuple]):
    assert seed_words(*pair[0]) != seed_words(*pair[1])
