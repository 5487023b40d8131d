"""Commands that are gone: what serves now, by what follows ``fedct``. Help hides them; calling one ends with code 2."""

from typing import Final

GONE: Final[dict[str, str]] = {
    "budget": "docs/privacy.md has the noise by mechanism and number of labels; try a protection with 'fedct simulate'",
    "coordinator start": "run the coordinator with docker/coordinator/compose.yaml or the units in docker/systemd",
    "watch": "'fedct simulate' serves the page while it runs; 'fedct report RUN' writes that of any run",
}
