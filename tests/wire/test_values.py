"""Values to bytes and back: four bytes each, one encoding, and nothing that is no finite number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire.packing import MAX_VALUE, pack_values, unpack_values

singles = st.floats(-(2.0**99), 2.0**99, width=32)
finite = arrays(np.float32, st.tuples(st.integers(0, 50), st.just(1)), elements=singles)


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
    with pytest.raises(Refused) as caught:
        unpack_values(bits.to_bytes(4, "little"), 1)
    assert caught.value.reason is Refusal.VALUES
