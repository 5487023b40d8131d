"""In which words a report tells of kinds of answers: what is decided on, and how near silos come to it."""

from typing import Final, NamedTuple


class Decided(NamedTuple):
    """What is decided on, in words; ``agreement``, ``churn`` and ``balance`` say what the figures' shares are of.

    ``still`` is what does not change at a fixed point. ``beside_others`` is said where runs with other words are on
    the same page. ``may_abstain``: whether an example can be left without a decision.
    """

    ones: str
    title_of_churn: str
    title_of_balance: str
    lead_of_balance: str
    agreement: str
    churn: str
    balance: str
    still: str = "no label"
    beside_others: str = ""
    may_abstain: bool = True


LABELS: Final = Decided(
    "labels",
    "Label churn",
    "Class balance of the pseudo-labels",
    "Pseudo-labels",
    "The share of a silo's votes that equal the label decided upon.",
    "Of the examples asked about that had a label before: the share with another one, or none, after.",
    "Of all public examples that have a label.",
)
CLASSES: Final = Decided(
    "likeliest classes",
    "Churn of the likeliest classes",
    "Class balance of the consensus",
    "Likeliest classes",
    "The share of public examples for which a silo and the mean of all silos' targets find the same class likeliest.",
    "Of the examples asked about before: the share for which the mean of all silos' targets finds another class "
    "likeliest than it did.",
    "Of all public examples asked about so far, by the mean of all silos' targets.",
    still="nothing",
    beside_others="Where silos share probabilities, the label is the class that the mean of all silos' targets finds "
    "likeliest.",
    may_abstain=False,
)


class Near(NamedTuple):
    """How near a silo comes to the consensus: the column of the round log, a table's head, and a format.

    ``form`` is one of Python's format specifications.
    """

    column: str
    head: str
    form: str


AGREEMENT: Final = Near("agreement", "agreement", ".1%")
DISTANCE: Final = Near("distance", "off the consensus", ".4g")
