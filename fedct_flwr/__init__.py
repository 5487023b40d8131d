"""Federated co-training on Flower: silos share class labels on a public set, never their data or models."""

__version__ = "0.1.0"
