"""Commands that are gone: what serves now, by what follows ``fedct``. Help hides them; calling one ends with code 2."""

from typing import Final

GONE: Final[dict[str, str]] = {}
