"""Write the drawn pictures of the documentation: ``python docs/pictures``. A test compares them with the code."""

from pathlib import Path
from typing import Final

# Python puts this folder first in its path.
from layers import layers
from sees import sees
from travels import travels

DRAWN: Final = {"layers.svg": layers, "who_sees_what.svg": sees, "what_travels.svg": travels}

if __name__ == "__main__":
    for name, draw in DRAWN.items():
        Path(__file__).parents[1].joinpath(name).write_text(draw(), encoding="utf-8")
