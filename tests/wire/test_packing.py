"""Labels to bits and back: one encoding, in the fewest bytes, and no other is accepted."""

import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.types import ABSTAIN, MAX_CLASSES, Refusal, Refused
from fedct_flwr.wire.packing import pack, packed_size, unpack


@st.composite
def labelings(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Labels, with and without abstentions, and the number of classes."""
    num_classes = draw(st.one_of(st.integers(2, 300), st.sampled_from([32766, MAX_CLASSES])))
    lowest = draw(st.sampled_from([ABSTAIN, 0]))
    labels = draw(st.lists(st.integers(lowest, num_classes - 1), max_size=50))
    return np.array(labels, dtype=np.int16), num_classes


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


@pytest.mark.parametrize("label", [3, 32767, -2, -32768])
def test_a_label_outside_the_label_space_is_not_packed(label: int):
    with pytest.raises(Refused) as refused:
        pack(np.int16([0, label, 1]), num_classes=3)
    assert refused.value.reason is Refusal.UNKNOWN_CLASS


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
    with pytest.raises(Refused) as refused:
        unpack(packed, count, num_classes, abstentions)
    assert refused.value.reason is reason


@given(st.binary(max_size=8), st.integers(0, 40), st.integers(2, 20), st.booleans())
def test_what_is_accepted_packs_to_the_same_bytes(packed: bytes, count: int, num_classes: int, abstentions: bool):
    try:
        labels = unpack(packed, count, num_classes, abstentions)
    except Refused:
        return
    assert pack(labels, num_classes) == (packed, abstentions)


def test_all_bytes_of_a_small_code_are_either_one_labeling_or_refused():
    """Three classes, four codes to a byte: 81 of 256 bytes are labelings, by counting."""
    accepted = 0
    for byte in range(256):
        with suppress(Refused):
            unpack(bytes([byte]), 4, 3, abstentions=False)
            accepted += 1
    assert accepted == 3**4
