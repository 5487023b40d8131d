"""Numbers with what they count."""


def count(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> count(1, "silo"), count(1000, "round")
    ('1 silo', '1,000 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
