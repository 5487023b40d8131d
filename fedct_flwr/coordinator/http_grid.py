"""Tell Flower's grid to a real SuperLink from others without importing it.

With it come SQLAlchemy, Alembic and FastAPI, a fifth of the start of ``fedct simulate``, which needs none of them. In
a process that has such a grid, Flower has imported its module.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

from flwr.serverapp import Grid

if TYPE_CHECKING:
    from flwr.superlink.grid import HttpGrid


def is_http(grid: Grid) -> "TypeGuard[HttpGrid]":
    """Whether the grid's calls go to a SuperLink."""
    module = sys.modules.get("flwr.superlink.grid")
    return module is not None and isinstance(grid, module.HttpGrid)
