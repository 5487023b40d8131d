"""Flower, and all that depends on its insides: its programs, the loopback, and the patches that close a hole."""
