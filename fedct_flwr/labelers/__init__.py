"""Labelers: whose labels leave a silo under a protection."""
