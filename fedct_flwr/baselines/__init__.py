"""Baselines: what co-training is measured against, a file each."""
