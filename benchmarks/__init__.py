"""Experiments whose results are committed, and speed measurements. ``python -m benchmarks --help``."""
