"""The sentence of an error, in one line."""

from collections.abc import Callable
from typing import Any

import pytest


def sentence(
    kind: type[BaseException] | tuple[type[BaseException], ...],
    call: Callable[..., object],
    /,
    *arguments: Any,
    **settings: Any,
) -> str:
    """The one line that a call ends with, as an error of this kind."""
    with pytest.raises(kind) as caught:
        call(*arguments, **settings)
    text = str(caught.value)
    assert "\n" not in text
    return text
