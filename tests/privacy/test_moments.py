"""FedKT's published epsilons (Tables 8 and 9), to as many digits as it prints."""

import pytest

from fedct_flwr.privacy.moments import fedkt_epsilon

COD_RNA = {0.5: 74, 1: 148, 1.5: 223, 2: 297}
"""Queries by their percentage of the holdout: a quarter of 59,535 examples."""
TABLE_9 = [
    (0.04, 0.5, 3.54),
    (0.04, 1, 5.14),
    (0.04, 2, 7.63),
    (0.05, 0.5, 4.51),
    (0.05, 1, 6.58),
    (0.05, 2, 9.78),
    (0.06, 0.5, 5.50),
    (0.06, 1, 8.10),
    (0.06, 2, 12.2),
    (0.03, 1, 3.78),
    (0.03, 2, 5.51),
]


@pytest.mark.parametrize(("gamma", "percent", "published"), TABLE_9)
def test_fedkts_table_9(gamma: float, percent: float, published: float) -> None:
    tolerance = 0.05 if published > 10 else 0.0051
    assert fedkt_epsilon(gamma, COD_RNA[percent]) == pytest.approx(published, abs=tolerance)


def test_s_students_of_a_party_count_s_times() -> None:
    assert fedkt_epsilon(0.04, 148, partitions=2) == pytest.approx(fedkt_epsilon(0.08, 148))
