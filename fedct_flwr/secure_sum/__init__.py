"""Secure sums: silos' vectors are added, and no party reads a summand."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.secure_sum.coordinator import SumCoordinator, begin_session, sum_securely
    from fedct_flwr.secure_sum.silo import SumClient, refusal, remind, summand, to_bytes
    from fedct_flwr.secure_sum.terms import (
        BITS,
        Fault,
        SumRefused,
        SumTerms,
        shape_of_records,
        shape_of_votes,
        simulated_key,
        simulated_terms,
        sum_modulo,
    )

__all__ = [
    "BITS", "Fault", "SumClient", "SumCoordinator", "SumRefused", "SumTerms", "begin_session", "refusal",
    "remind", "shape_of_records", "shape_of_votes", "simulated_key", "simulated_terms", "sum_modulo", "sum_securely",
    "summand", "to_bytes",
]  # fmt: skip

__getattr__ = importing(__name__)
