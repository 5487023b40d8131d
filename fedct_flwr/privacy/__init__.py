"""Differential privacy that holds: mechanisms, what they cost, and a ledger at the silo that says when it is enough."""
