"""Draws what stays at a silo, what travels, and what comes back."""

from svg import arrow, box, picture, text

_TITLE = "Records and models stay at the silo. Labels travel to the coordinator. The consensus comes back."


def travels() -> str:
    """The first page's picture."""
    return picture(
        860,
        300,
        _TITLE,
        [
            *_side(20, "Each silo", ["private records", "its own model", "approval, limits, signed log"], "stays here"),
            *_side(
                590,
                "Coordinator",
                ["all silos' labels", "tally of the votes", "a label for each example"],
                "sees no records",
            ),
            text(430, 66, "public set: the same examples on both sides", "quiet", "middle"),
            arrow(280, 128, 580, 128),
            text(430, 118, "travels: labels of public examples", "strong", "middle"),
            text(430, 148, "a class each, a few hundred bytes or kilobytes", "quiet", "middle"),
            arrow(580, 208, 280, 208),
            text(430, 198, "comes back: the consensus labels", "strong", "middle"),
            text(430, 228, "with the next question", "quiet", "middle"),
            text(
                430,
                280,
                "No records, models or weights leave a silo. Probabilities leave only if its policy allows them.",
                "",
                "middle",
            ),
        ],
    )


def _side(x: int, name: str, contents: list[str], note: str) -> list[str]:
    """A panel with a box for each of its contents."""
    drawn = [
        box(x, 20, 250, 236),
        text(x + 125, 48, name, "strong", "middle"),
        text(x + 125, 68, note, "quiet", "middle"),
    ]
    for number, content in enumerate(contents):
        y = 84 + 56 * number
        drawn += [box(x + 15, y, 220, 44, "marked"), text(x + 125, y + 27, content, "", "middle")]
    return drawn
