"""The coordinator's Flower app."""
