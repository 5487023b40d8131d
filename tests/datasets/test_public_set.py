"""The public set's fingerprint and the queries on it: pinned, because every silo must derive the same."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.datasets import federated
from fedct_flwr.datasets.federated import PublicSet, scaled
from fedct_flwr.types import DataError
from fedct_flwr.wire.content import Query

X = np.float64([[1.5, -2.0], [0.0, np.nan], [3.0, 4.0]])
X_FINGERPRINT = "d9108c1eb4a90b4389f0356353f23e831b92cbc2902b4f05c5de4c37a68b92b9"
"""sha256 of b"fedct public set 1 <f8 (3, 2)" and the six doubles, little-endian."""


def fingerprint(X: np.ndarray) -> str:
    return PublicSet(X).fingerprint.hex()


def padded(X: np.ndarray) -> np.ndarray:
    """A view on every other row and column of a larger array."""
    large = np.full([2 * n for n in X.shape], 7.0)
    large[::2, ::2] = X
    return large[::2, ::2]


def with_nan_payload(X: np.ndarray) -> np.ndarray:
    copy = X.copy()
    copy.view(np.uint64)[np.isnan(X)] = 0xFFF8_0000_DEAD_BEEF
    return copy


def replaced(position: tuple[int, ...], value: float) -> np.ndarray:
    copy = X.copy()
    copy[position] = value
    return copy


class TestFingerprint:
    def test_is_pinned(self):
        assert fingerprint(X) == X_FINGERPRINT

    @pytest.mark.parametrize(
        "variant",
        [
            np.asfortranarray,
            lambda X: X.astype(">f8"),
            padded,
            lambda X: X[::-1].copy()[::-1],
            with_nan_payload,
            lambda X: np.where(X == 0.0, -0.0, X),
        ],
        ids=["fortran-order", "big-endian", "strided-view", "negative-strides", "nan-payload", "minus-zero"],
    )
    def test_same_for(self, variant: Callable[[np.ndarray], np.ndarray]):
        assert fingerprint(variant(X)) == X_FINGERPRINT

    @pytest.mark.parametrize(
        "other",
        [
            X.astype(np.float32),
            X.reshape(2, 3),
            X[..., np.newaxis],
            X[:2],
            X[::-1],
            np.vstack([X, X[:1]]),
            replaced((0, 0), np.nextafter(1.5, 2)),
            replaced((2, 1), np.nan),
            replaced((1, 1), 0.0),
        ],
        ids=["dtype", "shape", "dimensions", "fewer", "order", "more", "one-ulp", "value-to-nan", "nan-to-value"],
    )
    def test_differs_for_another(self, other: np.ndarray):
        assert fingerprint(other) != X_FINGERPRINT

    def test_images_of_bytes_count_as_the_numbers_that_they_stand_for(self, monkeypatch: pytest.MonkeyPatch):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 2), dtype=np.uint8)
        assert fingerprint(pixels) == fingerprint(scaled(pixels))
        monkeypatch.setattr(federated, "_BLOCK_BYTES", 100)
        assert fingerprint(pixels) == fingerprint(scaled(pixels))
        assert fingerprint(pixels) != fingerprint(pixels[::-1])

    @pytest.mark.parametrize("block_bytes", [1, 8, 16, 17, 100, 1 << 30])
    def test_does_not_depend_on_the_block_size(self, block_bytes: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(federated, "_BLOCK_BYTES", block_bytes)
        assert fingerprint(X) == X_FINGERPRINT


class TestPublicSet:
    @pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "c16"])
    def test_anything_but_numbers_is_refused(self, dtype: str):
        with pytest.raises(DataError, match="must hold numbers"):
            PublicSet(np.zeros((2, 2), dtype=dtype))

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
    def test_an_empty_set_is_refused(self, shape: tuple[int, ...]):
        with pytest.raises(DataError, match="at least one example and one feature"):
            PublicSet(np.zeros(shape))


class TestQuery:
    @pytest.mark.parametrize(
        ("query", "num_public", "positions"),
        [
            (Query(seed=7, size=5), 20, [1, 4, 6, 8, 16]),
            (Query(seed=0, size=3), 10, [0, 2, 9]),
            (Query(seed=2**64 - 1, size=4), 10, [0, 7, 8, 9]),
        ],
    )
    def test_positions_are_pinned(self, query: Query, num_public: int, positions: list[int]):
        assert query.positions(num_public).tolist() == positions

    @given(st.integers(0, 2**64 - 1), st.integers(1, 300), st.data())
    def test_positions_are_sorted_unique_and_as_many_as_asked_for(self, seed: int, num_public: int, data):
        size = data.draw(st.integers(1, num_public))
        positions = Query(seed, size).positions(num_public)
        assert positions.tolist() == sorted(set(positions.tolist()))
        assert len(positions) == size
        assert positions[0] >= 0
        assert positions[-1] < num_public

    def test_every_example_is_asked_about_equally_often(self):
        asked = np.bincount(np.concatenate([Query(seed, 5).positions(20) for seed in range(2000)]), minlength=20)
        # Below 1e-6 outside (20 binomials, n = 2000, p = 1/4, fixed seeds).
        assert asked.min() >= 390
        assert asked.max() <= 612
