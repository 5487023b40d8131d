"""The coordinator: rounds, the exchange with silos, the roster, the global model."""
