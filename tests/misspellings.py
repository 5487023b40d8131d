"""Keys as people misspell them."""

from collections.abc import Iterator


def misspellings(key: str) -> Iterator[str]:
    """The key with a letter dropped, and with two neighbors swapped."""
    for i in range(len(key)):
        yield key[:i] + key[i + 1 :]
    for i in range(len(key) - 1):
        yield key[:i] + key[i + 1] + key[i] + key[i + 2 :]
