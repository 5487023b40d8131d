"""Where all of this program logs: below Flower's own logger, whose lines and form it has."""

import logging
from typing import Final

logger: Final = logging.getLogger("flwr.fedct")
