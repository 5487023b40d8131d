"""Labels to bits and back: one encoding, in the fewest bytes, and no other is accepted."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import MAX_CLASSES, UNITS, Refusal, Refused
from fedct_flwr.wire.content import MAX_VALUE
from fedct_flwr.wire.kinds import MAX_VOTES, can_count, num_ways, pack, pack_counts, packed_size, unpack, unpack_counts
from fedct_flwr.wire.numbers import pack_probabilities, pack_values, quantized, unpack_probabilities, unpack_values


@given(st.integers(0, 2000), st.integers(2, MAX_CLASSES), st.booleans())
def test_size_is_the_least_whole_number_of_bytes(count: int, num_classes: int, abstentions: bool):
    bits = math.ceil(math.log2(num_classes + abstentions))
    assert packed_size(count, num_classes, abstentions) == math.ceil(count * bits / 8)


@pytest.mark.parametrize(
    ("labels", "num_classes", "packed"),
    [
        ([1, 0, 1, 1], 2, "0d"),  # 1 bit each:            1101
        ([0, 1, 2], 3, "24"),  # 2 bits each:        10 01 00
        ([0, -1, 1], 2, "21"),  # 0, 1, -1 as 1, 2, 0: 10 00 01
        ([-1, -1, -1], 3, "00"),
        ([2, -1, 0], 3, "13"),  # 2 bits each:        01 00 11
        ([9, 0, 5], 10, "0905"),  # 4 bits each:      0101 0000 1001
        ([299, 0, 256], 300, "2b010004"),  # 9 bits each, least significant bit first
        ([0] * 8 + [1], 2, "0001"),
        ([], 2, ""),
    ],
)
def test_bits_are_pinned(labels: list[int], num_classes: int, packed: str):
    assert pack(np.array(labels, dtype=np.int16), num_classes) == (bytes.fromhex(packed), -1 in labels)


def refusal(call: Callable[[], object]) -> Refusal:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.reason


@pytest.mark.parametrize("label", [3, 32767, -2, -32768])
def test_a_label_outside_the_label_space_is_not_packed(label: int):
    assert refusal(lambda: pack(np.int16([0, label, 1]), num_classes=3)) is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize(
    ("packed", "count", "num_classes", "abstentions", "reason"),
    [
        (b"", 1, 2, False, Refusal.LENGTH),
        (b"\0\0", 8, 2, False, Refusal.LENGTH),
        (b"\0", 0, 2, False, Refusal.LENGTH),
        (b"\0", 8, 2, True, Refusal.LENGTH),
        (b"\x03", 1, 3, False, Refusal.UNKNOWN_CLASS),
        (b"\x03", 1, 2, True, Refusal.UNKNOWN_CLASS),
        (b"\x02", 1, 2, False, Refusal.MALFORMED),
        (b"\x80", 7, 2, False, Refusal.MALFORMED),
        (b"\x01", 1, 2, True, Refusal.MALFORMED),
        (b"", 0, 2, True, Refusal.MALFORMED),
    ],
    ids=["short", "long", "some-for-none", "narrow", "no-class", "no-class-beside-abstentions", "unused-bit",
         "last-unused-bit", "needless-flag", "needless-flag-on-nothing"],
)  # fmt: skip
def test_another_encoding_is_refused(packed: bytes, count: int, num_classes: int, abstentions: bool, reason: Refusal):
    assert refusal(lambda: unpack(packed, count, num_classes, abstentions)) is reason


@given(st.binary(max_size=8), st.integers(0, 40), st.integers(2, 20), st.booleans())
def test_what_is_accepted_packs_to_the_same_bytes(packed: bytes, count: int, num_classes: int, abstentions: bool):
    try:
        labels = unpack(packed, count, num_classes, abstentions)
    except Refused:
        return
    assert pack(labels, num_classes) == (packed, abstentions)


# --- counts of votes


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


@pytest.mark.parametrize("counts", [[[2, 0], [1, 0]], [[3, -1], [1, 1]], [[0, 2], [2, 1]]])
def test_rows_that_do_not_give_as_many_votes_are_not_packed(counts: list[list[int]]):
    assert refusal(lambda: pack_counts(np.int32(counts))) is Refusal.UNKNOWN_CLASS


@pytest.mark.parametrize(("num_classes", "votes"), [(2, 0), (2, MAX_VOTES + 1), (99, 99), (32_767, 5), (2, 2**32 - 1)])
def test_votes_that_no_code_holds_are_refused(num_classes: int, votes: int):
    assert not can_count(num_classes, votes)
    assert refusal(lambda: unpack_counts(b"\0", 1, num_classes, votes)) is Refusal.QUERY


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
def test_another_encoding_of_counts_is_refused(packed: bytes, count: int, reason: Refusal):
    assert refusal(lambda: unpack_counts(packed, count, num_classes=2, votes=2)) is reason


@given(st.binary(max_size=8), st.integers(1, 20), st.integers(2, 8), st.integers(1, 6))
def test_counts_that_are_accepted_pack_to_the_same_bytes(packed: bytes, count: int, num_classes: int, votes: int):
    try:
        counts = unpack_counts(packed, count, num_classes, votes)
    except Refused:
        return
    assert (counts.sum(axis=1) == votes).all()
    assert pack_counts(counts) == packed


# --- probabilities


seeds = st.integers(0, 2**32 - 1)


def some(count: int, num_classes: int, seed: int, concentration: float = 0.5) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet(np.full(num_classes, concentration), count)
    return rows.astype(np.float32)


@given(st.integers(1, 40), st.integers(2, 300), st.sampled_from([0.05, 0.5, 50.0]), seeds)
def test_no_probability_moves_by_a_unit_and_rows_sum_to_one(
    count: int, num_classes: int, concentration: float, seed: int
) -> None:
    probabilities = some(count, num_classes, seed, concentration)
    codes = quantized(probabilities)
    assert (codes.sum(axis=1, dtype=int) == UNITS).all()
    assert np.abs(codes / UNITS - probabilities / probabilities.sum(axis=1, keepdims=True)).max() < 1 / UNITS


def test_the_likeliest_class_stays_unless_another_is_as_likely_within_a_unit() -> None:
    probabilities = some(10_000, 10, seed=0)
    read = unpack_probabilities(pack_probabilities(probabilities), 10_000, 10)
    moved = read.argmax(axis=1) != probabilities.argmax(axis=1)
    best = np.sort(probabilities, axis=1)
    assert (best[moved, -1] - best[moved, -2] < 1 / UNITS).all()
    assert moved.mean() < 0.01


@pytest.mark.parametrize(
    "row", [[0.5, 0.6], [0.2, 0.2], [1.1, -0.1], [np.nan, 1.0], [np.inf, 0.0], [np.nan] * 2, [0.0, 0.0], [1.002, 0.0]]
)
def test_rows_that_are_no_probabilities_are_refused(row: list[float]) -> None:
    assert refusal(lambda: pack_probabilities(np.float32([[0.5, 0.5], row]))) is Refusal.PROBABILITIES


@pytest.mark.parametrize(
    ("packed", "reason"),
    [(b"\x80\x80", Refusal.PROBABILITIES), (b"\x80", Refusal.LENGTH), (b"\0\0\0", Refusal.LENGTH)],
)
def test_bytes_that_are_none_are_refused(packed: bytes, reason: Refusal) -> None:
    assert refusal(lambda: unpack_probabilities(packed, 1, 3)) is reason


# --- values


@given(st.lists(st.integers(0, 2**32 - 1), max_size=10))
def test_what_is_read_is_finite_and_written_as_it_was_but_for_a_zeros_sign(bits: list[int]) -> None:
    packed = np.array(bits, "<u4").tobytes()
    if not (np.abs(np.frombuffer(packed, "<f4")) <= MAX_VALUE).all():
        with pytest.raises(Refused):
            unpack_values(packed, len(bits))
        return
    again = np.frombuffer(pack_values(unpack_values(packed, len(bits))), "<u4")
    assert again.tolist() == [0 if word == 0x80000000 else word for word in bits]


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00001, 0x7F800000, 0xFF800000, 0x7F7FFFFF])
def test_what_is_no_finite_number_is_not_read(bits: int) -> None:
    assert refusal(lambda: unpack_values(bits.to_bytes(4, "little"), 1)) is Refusal.VALUES
