"""Flower strategies."""
