"""Runs ``fedct`` in this process, as the command line's own tests do."""

from tests.cli.conftest import fedct, here

__all__ = ["fedct", "here"]
