"""The nearest known name, for messages about misspelled ones."""

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """A half sentence that helps with an unknown name.

    >>> suggest("hart-disease", ["heart-disease", "breast-cancer"])
    "did you mean 'heart-disease'?"
    >>> suggest("xyz", ["heart-disease", "breast-cancer"])
    'there are heart-disease, breast-cancer'
    """
    names = list(known)
    folded = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[near[0]]!r}?" if near else f"there are {', '.join(names) or 'none'}"
