"""The coordinator: rounds, the exchange with silos, the roster, the global model."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.coordinator.summing import NOT_IN_SUM, Sums, real_terms, sum_terms

__all__ = ["NOT_IN_SUM", "Sums", "real_terms", "sum_terms"]

__getattr__ = importing(__name__, {"summing": ("NOT_IN_SUM", "Sums", "real_terms", "sum_terms")})
