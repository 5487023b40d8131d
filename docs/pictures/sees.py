"""Draws who sees what while silos train the joint labeler by secure sums with noise."""

from svg import arrow, box, picture, text

_TITLE = "Each silo masks its gradient and its noise. The coordinator opens the noisy sum of all, and nothing else."


def sees() -> str:
    """The joint labeler's picture."""
    return picture(
        860,
        300,
        _TITLE,
        [
            *_panel(
                20, 240, "Each silo", "sees", ["its own records", "its gradient and its noise", "its ledger, its log"]
            ),
            *_panel(340, 180, "Coordinator", "sees", ["masked numbers", "the sum, noise in it", "the labeler"]),
            *_panel(
                600, 240, "Everybody", "may see", ["the labeler", "labels of public examples", "names of the silos"]
            ),
            arrow(262, 150, 336, 150),
            text(299, 140, "masked", "quiet", "middle"),
            arrow(522, 150, 596, 150),
            text(559, 140, "opened", "quiet", "middle"),
            text(
                430,
                280,
                "The guarantee holds for what the coordinator sees. The noise of the honest silos alone is counted.",
                "",
                "middle",
            ),
        ],
    )


def _panel(x: int, width: int, name: str, note: str, contents: list[str]) -> list[str]:
    """A panel with a box for each of its contents."""
    drawn = [
        box(x, 20, width, 236),
        text(x + width // 2, 48, name, "strong", "middle"),
        text(x + width // 2, 68, note, "quiet", "middle"),
    ]
    for number, content in enumerate(contents):
        y = 84 + 56 * number
        drawn += [
            box(x + 10, y, width - 20, 44, "marked"),
            text(x + width // 2, y + 27, content, "", "middle"),
        ]
    return drawn
