"""What ``--json`` prints of scores: one model on one test set, and a silo's against its model alone."""

from typing import TypedDict


class Scores(TypedDict):
    """Balanced accuracy (or R², see ``measure``) by method, of a silo or on average: null where there is none.

    ``local``: every silo alone; ``federated``: as it ended the run; ``centralized``: all data in one place.
    """

    local: float | None
    federated: float | None
    centralized: float | None


class Metric(TypedDict):
    """A number and its 95% interval: null where there is none."""

    value: float | None
    low: float | None
    high: float | None


class Bin(TypedDict):
    """Predictions with a probability between ``low`` and ``high``: their mean, and the observed share with its 95%."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float
    observed_low: float
    observed_high: float


class Model(TypedDict):
    """One model on one test set.

    ``metrics`` has, where it applies, ``balanced_accuracy``, ``accuracy``, ``auc``, ``sensitivity``, ``specificity``,
    ``brier``; or ``r_squared``, ``mae``, ``rmse``. ``confusion`` counts records by true class (rows) and predicted
    class, in the order of the test set's ``classes``; ``calibration`` is empty without probabilities.
    """

    metrics: dict[str, Metric]
    confusion: list[list[int]]
    calibration: list[Bin]


class OnTest(TypedDict):
    """A test set of ``n`` records, how many of each class, and the ``models`` by method.

    ``positive`` is the class that sensitivity is about, empty unless there are two.
    """

    n: int
    classes: dict[str, int]
    positive: str
    models: dict[str, Model]


class OwnTest(TypedDict):
    """The model that a silo ended with against its model alone, on its own test records.

    ``gain`` is the difference of balanced accuracies, ``better`` and ``worse`` the records that it alone gets right and
    wrong, ``p`` how often chance alone makes a difference as large (exact test, by class).
    """

    gain: float
    better: int
    worse: int
    p: float


class SiloScores(TypedDict):
    """One silo: its scores on its ``own`` test records and on the ``pooled`` ones of all, and bytes that it sent.

    ``tests`` has all numbers by test set (``own``, ``pooled``), for simulations and baselines.
    """

    silo: str
    own: Scores
    pooled: Scores
    bytes_sent: int
    tests: dict[str, OnTest]
    verdict: OwnTest | None


class MeanScores(TypedDict):
    """The mean over silos that have a score for every method that any has; ``bytes_sent`` over all silos.

    ``own_silos`` counts them on own test sets, ``silos`` on the pooled one, or on own ones where there is none.
    """

    own: Scores
    pooled: Scores
    bytes_sent: float
    silos: int
    own_silos: int
