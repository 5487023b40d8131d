"""``[app]`` in ``silo.toml``: a Flower app that the silo's own people installed, and the replies that may leave."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fedct_flwr.config.settings import MAX_INT, Settings, VisibleName, kebab
from fedct_flwr.text.printable import suggest

MOST_BYTES: Final = 1 << 30
"""Most bytes of one message."""
NUMBER_BYTES: Final = 8


def _of_form(pattern: str, words: str) -> AfterValidator:
    def check(name: str) -> str:
        if not re.fullmatch(pattern, name, re.ASCII):
            raise ValueError(words)
        return name

    return AfterValidator(check)


_CLIENT: Final = _of_form(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "write 'module:attribute', such as 'hospital.client_app:app'"
)
_TYPE: Final = _of_form(
    r"(train|evaluate|query)(\.[A-Za-z_]\w*)?",
    "a type of Flower's messages is 'train', 'evaluate' or 'query', perhaps with '.action' behind",
)


class _Form(Settings):
    """Names the nearest key instead of one that is unknown, as deep in tables as forms are."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, raw: Any) -> Any:
        known = [kebab(name) for name in cls.model_fields]
        for key in raw if isinstance(raw, Mapping) else ():
            if key not in known:
                raise ValueError(f"unknown key {key!r}: {suggest(str(key), known)}")
        return raw


class ArrayForm(_Form):
    """One array of a reply."""

    dtype: Literal[
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
        "float64",
    ]  # fmt: skip
    """Its numbers, as NumPy calls them."""
    shape: tuple[Annotated[int, Field(ge=1)], ...]
    """The length of each axis."""

    @property
    def num_bytes(self) -> int:
        """Bytes of its numbers."""
        bits = int("".join(filter(str.isdigit, self.dtype)) or 8)
        return math.prod(self.shape) * bits // 8

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if self.num_bytes > MOST_BYTES:
            raise ValueError(f"an array of this shape has more than {MOST_BYTES:,} bytes: correct shape")
        return self


class RecordForm(_Form):
    """One record of a reply, by exactly one of these keys."""

    arrays: dict[VisibleName, ArrayForm] = Field(default_factory=dict)
    """The dtype and the shape of each array. They leave in this order."""
    most_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    """Arrays of numbers with any names and shapes: most bytes of all, with names, and 8 for each array and axis."""
    metrics: dict[VisibleName, tuple[int | float, int | float]] = Field(default_factory=dict)
    """The lowest and the highest value of each metric. With two whole numbers it has to be a whole number."""
    config: dict[VisibleName, Annotated[int, Field(ge=1, le=MOST_BYTES)]] = Field(default_factory=dict)
    """Most bytes of each value: a text, bytes, or a number (8 bytes)."""

    @property
    def num_bytes(self) -> int:
        """Most bytes of its values."""
        arrays = sum(array.num_bytes for array in self.arrays.values())
        return arrays + self.most_bytes + NUMBER_BYTES * len(self.metrics) + sum(self.config.values())

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.given) != 1:
            raise ValueError("give a record exactly one of arrays, most-bytes, metrics and config")
        if any(low > high for low, high in self.metrics.values()):
            raise ValueError("a range of metrics ends before it begins: write [lowest, highest]")
        return self


class AppSettings(Settings):
    """A Flower app instead of co-training. It is imported by name, and runs with all rights of the agent."""

    client: Annotated[str, _CLIENT]
    """The ClientApp as 'module:attribute', installed where the agent runs."""
    messages_a_run: int = Field(ge=1, le=MAX_INT)
    """Most messages of one run that are answered. One counts as soon as it is let in."""
    runs_a_day: int = Field(ge=1, le=MAX_INT)
    """Most runs that begin on one day (UTC)."""
    data: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """The app's node config (``context.node_config``), such as where the records are."""
    replies: dict[Annotated[str, _TYPE], dict[VisibleName, RecordForm]]
    """For each type of message that is answered: the records of its reply, by name."""

    @model_validator(mode="after")
    def _check_replies(self) -> Self:
        if not self.replies or not all(self.replies.values()):
            raise ValueError("each type of message under [app.replies] needs a record, and there is at least one type")
        return self

    @property
    def most_bytes(self) -> int:
        """Bytes of values in the longest reply."""
        return max(sum(form.num_bytes for form in forms.values()) for forms in self.replies.values())
