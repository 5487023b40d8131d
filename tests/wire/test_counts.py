"""Counts of votes to bits and back: one encoding, no longer than labels where there is one vote, and no other."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire.packing import MAX_VOTES, can_count, num_ways, pack, pack_counts, unpack_counts


def all_ways(num_classes: int, votes: int) -> np.ndarray:
    """All rows with so many votes, those first that have most of them on earlier classes."""
    rows = [row for row in itertools.product(range(votes + 1), repeat=num_classes) if sum(row) == votes]
    return np.array(sorted(rows, reverse=True), dtype=np.int32)


@pytest.mark.parametrize("num_classes", [2, 3, 5])
@pytest.mark.parametrize("votes", [1, 2, 3, 7])
def test_every_way_to_vote_survives_and_has_its_own_number(num_classes: int, votes: int):
    rows = all_ways(num_classes, votes)
    assert len(rows) == num_ways(num_classes, votes)
    packed = pack_counts(rows)
    unpacked = unpack_counts(packed, len(rows), num_classes, votes)
    assert unpacked.dtype == np.int32
    assert (unpacked == rows).all()
    width = (len(rows) - 1).bit_length()
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: len(rows) * width]
    codes = bits.reshape(-1, width) @ (1 << np.arange(width))
    assert codes.tolist() == list(range(len(rows)))


@given(st.lists(st.integers(0, 299), min_size=1, max_size=50), st.integers(300, 400))
def test_one_vote_costs_what_a_label_costs_to_the_byte(labels: list[int], num_classes: int):
    counts = np.eye(num_classes, dtype=np.int32)[labels]
    assert pack_counts(counts) == pack(np.array(labels, dtype=np.int16), num_classes)[0]


@pytest.mark.parametrize("counts", [[[2, 0], [1, 0]], [[3, -1], [1, 1]], [[0, 2], [2, 1]]])
def test_rows_that_do_not_give_as_many_votes_are_not_packed(counts: list[list[int]]):
    with pytest.raises(Refused) as refused:
        pack_counts(np.int32(counts))
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize(("num_classes", "votes"), [(2, 0), (2, MAX_VOTES + 1), (99, 99), (32_767, 5), (2, 2**32 - 1)])
def test_votes_that_no_code_holds_are_refused(num_classes: int, votes: int):
    assert not can_count(num_classes, votes)
    with pytest.raises(Refused) as refused:
        unpack_counts(b"\0", 1, num_classes, votes)
    assert refused.value.reason is Refusal.QUERY


@pytest.mark.parametrize(
    ("packed", "count", "reason"),
    [
        (b"", 1, Refusal.LENGTH),
        (b"\0\0", 4, Refusal.LENGTH),
        (b"\0", 0, Refusal.LENGTH),
        (b"\x03", 1, Refusal.UNKNOWN_CLASS),
        (b"\x04", 1, Refusal.MALFORMED),
    ],
    ids=["short", "long", "some-for-none", "no-way", "unused-bit"],
)
def test_another_encoding_is_refused(packed: bytes, count: int, reason: Refusal):
    with pytest.raises(Refused) as refused:
        unpack_counts(packed, count, num_classes=2, votes=2)
    assert refused.value.reason is reason


@given(st.binary(max_size=8), st.integers(1, 20), st.integers(2, 8), st.integers(1, 6))
def test_what_is_accepted_packs_to_the_same_bytes(packed: bytes, count: int, num_classes: int, votes: int):
    try:
        counts = unpack_counts(packed, count, num_classes, votes)
    except Refused:
        return
    assert (counts.sum(axis=1) == votes).all()
    assert pack_counts(counts) == packed


def test_bytes_of_another_number_are_refused_before_room_is_made_for_them():
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            unpack_counts(b"\xff" * 5, 2**32 - 1, 10, 2)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
