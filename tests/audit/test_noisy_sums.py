"""Runs whose silos add noise to secure sums: the coordinator's seat reads opened sums alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.audit.audit import How
from fedct_flwr.audit.rerun import Transcript
from tests.audit.test_audit import audited


def test_what_the_coordinators_seat_reads_is_the_sum_that_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refits' secure sums give the coordinator exactly what the silos' kept numbers add up to."""
    from fedct_flwr.coordinator.summing import Sums

    opened: list[NDArray[np.uint64]] = []
    heard: list[Transcript] = []
    begin, sum_ = Transcript.__init__, Sums.sum

    def listening(self: Transcript, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        heard.append(self)

    def kept(self: Sums, *arguments: object) -> object:
        total, added = sum_(self, *arguments)  # type: ignore[arg-type]
        opened.append(total)
        return total, added

    monkeypatch.setattr(Transcript, "__init__", listening)
    monkeypatch.setattr(Sums, "sum", kept)
    found = audited(How(refits=2, candidates=60), secure=True, epsilon=3.0, algorithm="dp-pate")
    assert found.about.epsilon == 3.0
    assert found.about.noisy_sums
    assert found.lower_epsilon is not None
    assert found.lower_epsilon <= 3.0
    assert len(opened) == len(heard) == 2
    for total, transcript in zip(opened, heard, strict=True):
        added = np.sum([of.in_sums[0].vector for of in transcript.silos.values()], axis=0, dtype=np.uint64)
        np.testing.assert_array_equal(total, added % 2**32)
