"""What a run is computed with."""

import sys
from importlib.metadata import version

import pytest

from fedct_flwr.runs.versions import versions


def test_the_version_of_torch_is_told_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in versions()
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert versions()["torch"] == version("torch")
