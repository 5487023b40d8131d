"""What ``--json`` prints of runs, of several with other seeds, of comparisons and of predictions."""

from typing import Any, TypedDict

from fedct_flwr.cli.documents.data import DataFinding
from fedct_flwr.cli.documents.scores import MeanScores, SiloScores


class Verdict(TypedDict):
    """Who has ``gained`` and ``lost`` beyond chance, the same in words, and what should worry who reads the scores.

    ``judgments`` are what simulated silos make of the consensus: the ``learner`` that they chose, the ``weight`` of
    pseudo-labels, the round in which they decided on it (``weighed_in``), whether only those of examples unlike their
    records count (``foreign_only``), the ``model`` that they use (``own`` or ``co-trained``) and ``why``. Real silos
    keep theirs to themselves.
    """

    gained: list[str]
    lost: list[str]
    after_first_round: str
    at_the_end: str
    warnings: list[str]
    judgments: dict[str, dict[str, Any]]


class Run(TypedDict):
    """``fedct simulate`` and ``fedct coordinator run``: how a run ended. With real silos, scores are those reported.

    ``measure`` is what scores are: ``balanced accuracy``, or ``R²`` where a number is predicted (1 at most, may be
    negative).
    ``findings`` is what the inspection of the silos' own files said.
    ``fixed_point`` is the round in which the consensus stopped changing. ``global_models`` has the balanced accuracy on
    the pooled test set of models that are no silo's. ``leaves`` says what left the silos, in words. ``notes`` are
    sentences on scores that are missing, or that mislead.
    """

    study: str
    algorithm: str
    run_folder: str
    seconds: float
    rounds: int
    fixed_point: int | None
    leaves: str
    measure: str
    silos: list[SiloScores]
    mean: MeanScores
    global_models: dict[str, float]
    findings: list[DataFinding]
    notes: list[str]
    verdict: Verdict


class Repeats(TypedDict):
    """``fedct simulate --repeats``: means over ``seeds``, of each silo and over the silos.

    Below ``own`` and ``pooled`` each method has ``mean``, ``error`` (the standard error) and ``n`` (seeds); ``gain`` is
    the paired difference of ``federated`` and ``local``. Methods that were not trained are missing.
    """

    study: str
    algorithm: str
    folder: str
    seeds: list[int]
    measure: str
    silos: list[dict[str, Any]]
    mean: dict[str, Any]


class Comparison(TypedDict):
    """``fedct compare``: ``methods`` from the best mean to the worst.

    Each has ``name``, ``mean``, ``seeds``, ``difference`` to the best with its 95% interval (``low``, ``high``), ``p``
    adjusted for all comparisons, and ``differs``: whether it is worse than the best beyond chance. ``left_out`` has
    ``name`` and ``reason``.
    """

    measure: str
    test: str
    seeds: list[int]
    methods: list[dict[str, Any]]
    left_out: list[dict[str, str]]
    verdict: str


class Predictions(TypedDict):
    """``fedct predict`` and ``fedct silo predict``. ``unknown`` counts values that are no category of the study's."""

    columns: list[str]
    records: list[dict[str, Any]]
    unknown: dict[str, int]
