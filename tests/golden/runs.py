"""The runs that are kept: every algorithm and kind of answer, small enough that all take seconds.

A name says what a run is about; settings have underscores for hyphens and are added to ``COMMON``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.hospitals import HOSPITALS, colluding

COMMON: Final[dict[str, Any]] = {
    "study": "golden",
    "data": "heart-disease",
    "learner": "decision-tree",
    "learner-params": '{"max_depth": 3}',
    "num-server-rounds": 2,
    "save-models": False,
    "roster-deadline": 0.5,
}
"""Trees, as they turn records into the same labels on every CPU."""

FIVE: Final = tuple(f"silo-{number}" for number in range(1, 6))
WARDS: Final = ("east", "north", "west")
"""Silos of a data set that is split, and of the made one with three classes."""


@dataclass(frozen=True)
class Golden:
    """One run. ``silos`` are its names by position.

    ``interrupted``: the round that fails because two silos are away, after which the run is resumed; 0: none.
    ``then``: settings with which the run is resumed once it is complete; empty: it is not.
    ``whole``: messages are kept themselves, not as digests.
    ``hospital``: tables of each silo's ``silo.toml``, if these have files and a gate each; None: simulated.
    ``floats``: rounding decides about labels or bytes here, so another CPU may have others.
    ``noisy``: noise comes from the operating system, so that contents of answers differ each time.
    """

    settings: Mapping[str, Any]
    silos: tuple[str, ...] = HOSPITALS
    interrupted: int = 0
    then: Mapping[str, Any] = field(default_factory=dict)
    hospital: Mapping[str, Mapping[str, Any]] | None = None
    floats: bool = False
    noisy: bool = False
    whole: bool = False


def _run(
    silos: tuple[str, ...] = HOSPITALS,
    interrupted: int = 0,
    then: Mapping[str, Any] | None = None,
    whole: bool = False,
    **settings: Any,
) -> Golden:
    return Golden(settings, silos, interrupted, then or {}, whole=whole)


def _rounding(**options: Any) -> Golden:
    return replace(_run(**options), floats=True)


def _hospital(tables: Mapping[str, Mapping[str, Any]], *, noisy: bool = False, **settings: Any) -> Golden:
    learner = {"name": "decision-tree", "params": {"max_depth": 3}}
    tables = {**tables, "learner": {**learner, **tables.get("learner", {})}}
    return Golden(settings, HOSPITALS, hospital=tables, noisy=noisy)


def plain_trust(golden: Golden) -> dict[str, Any]:
    """Pseudo-labels that count in full, in simulated runs that learn such: most are older than the guard."""
    algorithm = str(golden.settings.get("algorithm", "fedct"))
    older = (algorithm.startswith("fedct") and not algorithm.endswith("-grades")) or algorithm in (
        "prediction-consensus",
        "dd",
    )
    return {"pseudo-weight": 1.0} if older and golden.hospital is None else {}


NETWORK: Final[dict[str, Any]] = {
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "batch_size": 16,
    "learning_rate": 0.02,
    "device": "cpu",
}
DP_SGD: Final[dict[str, Any]] = {
    **NETWORK, "protection": "dp-sgd", "epsilon": 2.0, "num_server_rounds": 2, "warm_up_rounds": 1,
    "preprocessing": "standard",
}  # fmt: skip
RESUMED: Final[dict[str, Any]] = {"min_silos": 3, "interrupted": 2}
WARD: Final[dict[str, Any]] = {"data": "files", "label_column": "colour", "min_silos": 2, "silos": WARDS}

HARD: Final[dict[str, Golden]] = {
    "fedct": _run(algorithm="fedct", num_server_rounds=3, whole=True),
    "fedct-linear": _rounding(algorithm="fedct", learner="logistic-regression", learner_params="{}"),
    "fedct-mixed-learners": _rounding(
        algorithm="fedct",
        learner="decision-tree,random-forest,logistic-regression,naive-bayes",
        learner_params='[{"max_depth": 2}, {"n_estimators": 5}, {}, {}]',
    ),
    "fedct-balanced": _run(algorithm="fedct", class_weight="balanced", pseudo_weight=0.5),
    "fedct-subsets": _run(algorithm="fedct", query_size=50, stop_at_fixed_point=False),
    "fedct-scores": _run(algorithm="fedct", report_scores=True),
    "fedct-student": _run(algorithm="fedct", student="decision-tree", student_params='{"max_depth": 3}'),
    "fedct-three-classes": _run(algorithm="fedct", query_size=21, **WARD),
    "fedct-colluders": _run(algorithm="fedct", **colluding("budapest", "zurich"), report_scores=True, min_silos=2),
    "fedct-a-silo-fails": _run(
        algorithm="fedct",
        learner="decision-tree,tests.federation.learners.Raising,decision-tree,decision-tree",
        learner_params="{}",
    ),
    "fedct-resumed": _run(algorithm="fedct", stop_at_fixed_point=False, **RESUMED),
    "fedct-gone-on-with": _run(algorithm="fedct", stop_at_fixed_point=False, then={"num_server_rounds": 3}),
    "fedct-networks-resumed": _rounding(algorithm="fedct", warm_up_rounds=1, save_models=True, **NETWORK, **RESUMED),
    "fedct-qualified": _run(algorithm="fedct-qualified", quorum=0.9),
    "fedct-qualified-three-classes": _run(algorithm="fedct-qualified", quorum=0.6, whole=True, **WARD),
    "fedct-dawid-skene": _run(num_server_rounds=3),
    "fedct-dawid-skene-three-classes": _run(**WARD),
    "fedct-dawid-skene-label-flip": _run(data="zurich-flipped"),
    "fedct-dawid-skene-resumed": _run(stop_at_fixed_point=False, **RESUMED),
    "fedct-shares": _run(algorithm="fedct-shares"),
    "fedct-shares-three-classes": _run(algorithm="fedct-shares", **WARD),
    "fedct-shares-networks-resumed": _rounding(
        algorithm="fedct-shares", warm_up_rounds=1, save_models=True, **NETWORK, **RESUMED
    ),
    "fedct-guarded": _run(pseudo_weight="auto", num_server_rounds=3),
    "fedct-guarded-against-colluders": _run(
        algorithm="fedct",
        pseudo_weight="auto",
        **colluding("budapest", "zurich", "long-beach"),
        report_scores=True,
    ),
    "fedct-guarded-resumed": _run(pseudo_weight="auto", stop_at_fixed_point=False, **RESUMED),
    "fedct-automatic": _rounding(learner="auto", learner_params="{}", pseudo_weight="auto", report_scores=True),
    "hospitals-automatic": Golden(
        {"report_scores": True},
        hospital={"learner": {"name": "auto", "pseudo-weight": "auto"}, "policy": {"metrics": True}},
        floats=True,
    ),
    "pate": _run(algorithm="pate", num_server_rounds=1),
    "pate-resumed": _run(algorithm="pate", num_server_rounds=1, then={"student": "decision-tree"}),
    "dp-pate": _run(algorithm="dp-pate", num_server_rounds=1, gamma=2.0),
    "dp-pate-laplace": _run(algorithm="dp-pate", num_server_rounds=1, gamma=2.0, mechanism="laplace"),
    "dp-pate-gumbel": _run(algorithm="dp-pate", num_server_rounds=1, gamma=2.0, mechanism="gumbel"),
    "dp-pate-by-epsilon": _run(algorithm="dp-pate", num_server_rounds=1, epsilon=50.0),
    "hospitals": _hospital({}, algorithm="fedct"),
    "hospitals-scores": _hospital({"policy": {"metrics": True}}, algorithm="fedct", report_scores=True),
    "hospitals-over-their-limits": _hospital({"policy": {"max-rounds": 1}}, stop_at_fixed_point=False),
}

PROTECTED: Final[dict[str, Golden]] = {
    "dp-linear": _rounding(protection="dp-linear", epsilon=2.0),
    "randomized-response": _run(protection="randomized-response", epsilon=200.0),
    "randomized-response-scores": _run(
        protection="randomized-response", epsilon=200.0, algorithm="fedct", report_scores=True
    ),
    "randomized-response-resumed": _run(
        protection="randomized-response", epsilon=200.0, stop_at_fixed_point=False, **RESUMED
    ),
    "dp-sgd": _rounding(**DP_SGD),
    "dp-sgd-resumed": _rounding(save_models=True, **DP_SGD, **RESUMED),
    "hospitals-randomized-response": _hospital(
        {"privacy": {"protection": "randomized-response", "epsilon": 200.0, "rounds": 3}},
        noisy=True,
        algorithm="fedct",
        stop_at_fixed_point=False,
    ),
}

FEDKT: Final[dict[str, Any]] = {"algorithm": "fedkt", "num_server_rounds": 1}
L2: Final[dict[str, Any]] = {**FEDKT, "privacy_level": "L2", "gamma": 0.5, "teachers": 10, "epsilon": 1000.0}

COUNTS: Final[dict[str, Golden]] = {
    "fedkt": _run(whole=True, **FEDKT),
    "fedkt-student": _run(**FEDKT, student="decision-tree"),
    "fedkt-three-classes": _run(**FEDKT, partitions=3, teachers=2, **WARD),
    "fedkt-resumed": _run(**FEDKT, then={"student": "decision-tree"}),
    "fedkt-l1": _run(**FEDKT, privacy_level="L1", gamma=2.0),
    "fedkt-l1-gumbel": _run(**FEDKT, privacy_level="L1", gamma=2.0, mechanism="gumbel", partitions=2),
    "fedkt-l2": _run(**L2),
    "fedkt-l2-gumbel": _run(**L2, mechanism="gumbel", partitions=2),
    "fedkt-l2-gaussian": _run(**L2, mechanism="gaussian"),
    "fedkt-l2-lessons": _run(**L2, lessons=40, query_size=60),
    "fedkt-l2-resumed": _run(**L2, then={"student": "decision-tree"}),
    "hospitals-counts": _hospital({"policy": {"kinds": ["counts"]}, "transfer": {"partitions": 2}}, **FEDKT),
}

CONSENSUS: Final[dict[str, Any]] = {"algorithm": "prediction-consensus", "query_size": 60}

PROBABILITIES: Final[dict[str, Golden]] = {
    "prediction-consensus": _rounding(**CONSENSUS, num_server_rounds=3),
    "prediction-consensus-dynamic": _rounding(**CONSENSUS, trust="dynamic", consensus_weight=1.0, report_scores=True),
    "prediction-consensus-whole-set": _rounding(algorithm="prediction-consensus", trust="naive"),
    "prediction-consensus-three-classes": _rounding(algorithm="prediction-consensus", whole=True, **WARD),
    "prediction-consensus-networks": _rounding(**CONSENSUS, warm_up_rounds=2, **NETWORK),
    "prediction-consensus-resumed": _rounding(**CONSENSUS, trust="dynamic", stop_at_fixed_point=False, **RESUMED),
    "prediction-consensus-networks-resumed": _rounding(
        **CONSENSUS, warm_up_rounds=2, save_models=True, **NETWORK, **RESUMED
    ),
    "dd": _rounding(algorithm="dd", query_size=60),
    "dd-student": _rounding(algorithm="dd", query_size=60, student="decision-tree"),
    "fedmd": _rounding(algorithm="fedmd", query_size=60, warm_up_rounds=2, **NETWORK),
    "hospitals-probabilities": Golden(
        CONSENSUS,
        hospital={
            "policy": {"kinds": ["soft"]},
            "learner": {"name": "decision-tree", "params": {"max_depth": 3}},
        },
        floats=True,
    ),
}

DIABETES: Final[dict[str, Any]] = {
    "silos": FIVE,
    "data": "diabetes",
    "algorithm": "prediction-consensus",
    "learner": "ridge",
    "learner_params": "{}",
    "query_size": 40,
}

VALUES: Final[dict[str, Golden]] = {
    "values": _rounding(**{**DIABETES, "query_size": 8}, whole=True),
    "values-dynamic": _rounding(**DIABETES, trust="dynamic", report_scores=True),
    "values-whole-set": _rounding(**{**DIABETES, "query_size": 0}, trust="naive"),
    "values-trees": _rounding(**{**DIABETES, "learner": "decision-tree", "learner_params": '{"max_depth": 2}'}),
    "values-mixed-learners": _rounding(
        **{
            **DIABETES,
            "learner": "ridge,random-forest,decision-tree,svm,linear-regression",
            "learner_params": '[{}, {"n_estimators": 5}, {"max_depth": 2}, {}, {}]',
        }
    ),
    "values-resumed": _rounding(**DIABETES, stop_at_fixed_point=False, min_silos=4, interrupted=2),
    "values-dd": _rounding(**{**DIABETES, "algorithm": "dd"}),
}

TIMES: Final[dict[str, Any]] = {
    **WARD, "label_column": "days", "event_column": "died", "outcome": "survival", "learner": "cox",
    "learner_params": "{}",
}  # fmt: skip

GRADES: Final[dict[str, Golden]] = {
    "grades": _rounding(algorithm="fedct-grades", **TIMES),
    "grades-median": _rounding(algorithm="fedct-median-grades", **TIMES, query_size=30),
}

AVERAGED: Final[dict[str, Any]] = {**NETWORK, "num_server_rounds": 2}

WEIGHTS: Final[dict[str, Golden]] = {
    "fedavg": _rounding(algorithm="fedavg", report_scores=True, **AVERAGED),
    "fedprox": _rounding(algorithm="fedprox", proximal_mu=0.5, **AVERAGED),
    "scaffold": _rounding(algorithm="scaffold", **{**AVERAGED, "optimizer": "sgd"}),
    "feddyn": _rounding(algorithm="feddyn", **{**AVERAGED, "optimizer": "sgd"}),
    "feddf": _rounding(algorithm="feddf", distillation_steps=5, **AVERAGED),
    "dp-fedavg": _rounding(algorithm="dp-fedavg", **AVERAGED),
}

ALL: Final[dict[str, Golden]] = {**HARD, **PROTECTED, **COUNTS, **PROBABILITIES, **VALUES, **GRADES, **WEIGHTS}
