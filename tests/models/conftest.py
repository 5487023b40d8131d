"""Model files that tests have forged must not change what other tests train."""

from collections.abc import Iterator

import pytest

from fedct_flwr.learners import preprocessing


@pytest.fixture(autouse=True)
def own_encodings() -> Iterator[None]:
    """Transformers of the same columns share their parts, which forging changes."""
    preprocessing._encoding.cache_clear()
    yield
    preprocessing._encoding.cache_clear()
