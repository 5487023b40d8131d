"""Limits for one set of records, over all studies that a house takes part in with it."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from fedct_flwr.config.settings import MAX_INT, OptionalRelativePath, Settings


class RecordsSettings(Settings):
    """Limits over all studies about the same records. Each study's ``silo.toml`` names the same folder.

    The folder is on one machine, and all agents that name it run as the same user. Without a folder, no limit holds
    over several studies. The limits count as those under ``[policy]`` do, with all that left before the folder was
    named.
    """

    folder: OptionalRelativePath = None
    """Where the studies write down together what has left about these records."""
    max_rounds: int = Field(default=100, ge=1, le=MAX_INT)
    """In total over all studies: replies with labels."""
    max_queries: int = Field(default=1_000_000, ge=1, le=MAX_INT)
    """In total over all studies: labels of public examples."""
    max_bytes: int = Field(default=10_000_000, ge=1, le=MAX_INT)
    """In total over all studies: bytes of all replies, of refusals too."""

    epsilon: float = Field(default=0.0, ge=0)
    """What all studies together may tell about a record, each of them with a protection; 0: no limit over studies."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The delta of that epsilon."""

    @property
    def decides(self) -> Mapping[str, Any]:
        """What is approved of it, as JSON takes it: the folder too, as another one would count from the beginning."""
        return self.model_dump(mode="json")

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if self.folder is None and self.given:
            raise ValueError(f"{self.given[0]} has no effect without a folder: name the one that all studies share")
        return self
