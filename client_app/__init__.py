"""The silo's Flower app."""
