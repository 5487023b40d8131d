"""Memory that is free goes back to the system."""

import ctypes

import pyarrow as pa
import pytest

from fedct_flwr.datasets import freed_memory


def test_arrow_and_c_are_both_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(freed_memory, "_trim", lambda: asked.append)
    table = pa.table({"a": range(100_000)})
    held = pa.total_allocated_bytes()
    freed_memory.give_back()
    assert asked == [0]
    assert pa.total_allocated_bytes() == held
    assert table.num_rows == 100_000


def test_another_c_library_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    freed_memory._trim.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    try:
        assert freed_memory._trim() is None
        freed_memory.give_back()
    finally:
        freed_memory._trim.cache_clear()
