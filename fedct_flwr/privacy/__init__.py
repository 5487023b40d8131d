"""Differential privacy that holds: mechanisms, what they cost, and a ledger at the silo that says when it is enough."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.privacy.budget import PrivacyWarning, budget_of

__all__ = ["PrivacyWarning", "budget_of"]

__getattr__ = importing(__name__, {"budget": ("PrivacyWarning", "budget_of")})
