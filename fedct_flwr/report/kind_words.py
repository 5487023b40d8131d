"""Words for people of each kind of answer, by its name: data that leave, warnings, and names of the consensus."""

from typing import Final, NamedTuple

from fedct_flwr.wire.kinds import COUNTS, HARD, Kind
from fedct_flwr.wire.numbers import PROBABILITIES, SHARES, VALUES
from fedct_flwr.wire.sums import GRADIENTS, HISTOGRAMS, PATIENTS, SCORES, SUMS, SUMS_WITH_NOISE


class Decided(NamedTuple):
    """Words for the consensus; ``agreement``, ``churn`` and ``balance`` name what these figures are shares of.

    ``still`` names the part that does not change at a fixed point.
    """

    title_of_churn: str
    agreement: str
    churn: str
    balance: str
    still: str = "no label"


LABELS: Final = Decided(
    "Label churn",
    "The share of a silo's votes that equal the label decided upon.",
    "Of the examples asked about that had a label before: the share with another one, or none, after.",
    "Shares of classes are of all public examples that have a label.",
)
CLASSES: Final = Decided(
    "Churn of the likeliest classes",
    "The share of public examples for which a silo and the mean of all silos' targets find the same class likeliest.",
    "Of the examples asked about before: the share for which the mean of all silos' targets finds another class "
    "likeliest than it did.",
    "Shares of classes are of all public examples asked about so far, by the mean of all silos' targets.",
    still="nothing",
)


class Near(NamedTuple):
    """Measure of a silo's distance to the consensus: the column of the round log, a table's head, and a format.

    ``form`` is one of Python's format specifications.
    """

    column: str
    head: str
    form: str


AGREEMENT: Final = Near("agreement", "agreement", ".1%")
DISTANCE: Final = Near("distance", "off the consensus", ".4g")


class KindWords(NamedTuple):
    """Words for a kind: the data that leave in tables and reports (``shared``), an approval (``leaves``) and a status.

    ``beware`` warns a silo before it lets this kind out. ``decided`` names the consensus, ``near`` the silos' distance
    to it.
    """

    shared: str
    leaves: str
    in_short: str
    beware: str = ""
    decided: Decided = LABELS
    near: Near = AGREEMENT


_LIARS: Final = (
    "A partner that lies can add more than its one vote, and no sum shows it. Each number counts as a label towards "
    "the limits"
)
_OF_LABELS: Final = KindWords(
    shared="sums of votes on public examples, from which a single silo's cannot be read",
    leaves=(
        "masked numbers that look random: one for each class of each public example that is asked about. Only the sum "
        "over the silos that take part can be opened, never a single silo's part of it"
    ),
    in_short="parts of secure sums, each number counted as a label",
    beware=(
        "A sum says something of its parts: where all silos agree, each silo's vote is known. The fewer silos add, the "
        f"more it says. {_LIARS}"
    ),
)
_OF_COUNTS: Final = _OF_LABELS._replace(
    in_short="parts of secure sums of students' votes, each number counted as a label"
)
_NOISY_LABELS: Final = _OF_LABELS._replace(
    shared="sums of votes on public examples with noise, from which a single silo's cannot be read",
    leaves=(
        "masked numbers that look random: one for each class of each public example that is asked about. Only the sum "
        "over the silos that take part can be opened, and the silos together have added noise to it"
    ),
    in_short="parts of secure sums with noise, each number counted as a label",
    beware=_LIARS,
)
_OTHERS_NOISE: Final = (
    "The guarantee counts the noise of other honest silos. It needs partners that add theirs, and keys that are their "
    "own. A partner that lies can spoil the {}, and no sum shows it"
)


def _noisy_counts(counts: str, opened: str, in_short: str, spoiled: str) -> KindWords:
    """Words for sums of ``counts``: the contents that are ``opened``, and what a partner that lies can spoil."""
    return KindWords(
        shared=f"sums of {counts} with noise, from which a single silo's cannot be read",
        leaves=(
            "masked numbers that look random. Only their sum over the silos that take part can be opened: "
            f"{opened}, with noise that the silos together have added"
        ),
        in_short=in_short,
        beware=_OTHERS_NOISE.format(spoiled),
    )


WORDS: Final = {
    HARD.name: KindWords(
        shared="labels of public examples",
        leaves="hard labels: one class for each public example that is asked about",
        in_short="labels",
    ),
    SHARES.name: KindWords(
        shared="labels of public examples, of whose votes all silos learn the shares",
        leaves=(
            "hard labels: one class for each public example that is asked about. Every silo is told how many of "
            "the votes each class has"
        ),
        in_short="labels, whose votes are shared",
        beware=(
            "The share of the votes that each class has tells the other silos more than which class won. With two"
            " silos, each can read the other's labels from it; with few, much of them"
        ),
    ),
    COUNTS.name: KindWords(
        shared="its students' votes on public examples",
        leaves="votes: how many of the silo's students chose each class, for each public example that is asked about",
        in_short="votes, each counted as a label",
        beware=(
            "Votes tell more than labels: on which examples the silo's students disagree, and so where its "
            "records say little. Each vote counts as a label towards the limits"
        ),
    ),
    PROBABILITIES.name: KindWords(
        shared="probabilities of the classes of public examples",
        leaves="probabilities: one for each class of each public example that is asked about",
        in_short="probabilities or values, each counted as a label",
        beware=(
            "Probabilities tell more than labels: how sure the model is of each public example, and so how near "
            "to its records that is. The coordinator mixes them into what each other silo learns, and with few "
            "silos these can work out much of them, with two all. No protection under [privacy] covers them. Each"
            " class's probability counts as a label towards the limits"
        ),
        decided=CLASSES,
    ),
    VALUES.name: KindWords(
        shared="predicted values of public examples",
        leaves="values: one number for each public example asked about, rounded to the study's grid",
        in_short="probabilities or values, each counted as a label",
        beware=(
            "A value tells more than a class does: it is one of as many as the grid has, and can show how near an"
            " example is to a record. The coordinator mixes values into what each other silo learns. No "
            "protection under [privacy] covers them. Each counts as a label towards the limits"
        ),
        decided=CLASSES,
        near=DISTANCE,
    ),
    SUMS[HARD.name].name: _OF_LABELS,
    SUMS[COUNTS.name].name: _OF_COUNTS,
    SUMS_WITH_NOISE[HARD.name].name: _NOISY_LABELS,
    SUMS_WITH_NOISE[COUNTS.name].name: _NOISY_LABELS._replace(
        in_short="parts of secure sums of students' votes with noise, each number counted as a label",
    ),
    GRADIENTS.name: KindWords(
        shared="sums of gradients with noise, from which a single silo's cannot be read",
        leaves=(
            "masked numbers that look random. Only their sum over the silos that take part can be opened: a step of a "
            "linear model's training, to which the silos together have added noise"
        ),
        in_short="parts of secure sums of gradients with noise",
        beware=_OTHERS_NOISE.format("model"),
    ),
    HISTOGRAMS.name: _noisy_counts(
        "counts of values", "how many records of each class have each value of a column",
        "parts of secure sums of counts with noise", "public set",
    ),
    PATIENTS.name: _noisy_counts(
        "counts of patients", "how many patients meet a condition that the coordinator chooses",
        "parts of secure sums of counts of patients with noise", "count",
    ),
    SCORES.name: _noisy_counts(
        "counts for scores", "how many test records of each class a model of the public labels gives each class",
        "parts of secure sums of counts with noise, for scores", "scores",
    ),
}  # fmt: skip


def words_of(kind: Kind) -> KindWords:
    """The words for a kind of answer."""
    return WORDS[kind.name]
