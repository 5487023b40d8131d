"""Algorithms: how each is put together, and what is wrong with the settings of a run."""
