"""The paper's experiments with networks, as declarations (Abourayya et al., arXiv:2310.05696), all on FashionMNIST.

Figures of the paper are from its text and tables; those that it only plots are not read off. The paper trains for
20,000 steps with all of the public set; here it is fewer steps and 5,000 public examples a round (``query-size``).
"""

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks.harness import COSTS, Column, Grid, Row, Settings, Table, Words, by_method
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo, run_federation
from benchmarks.variants import CONCENTRATIONS, NUM_DIGITS, change, halves
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners.base import Resumable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.scoring import accuracy
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE


def config_of(settings: Settings) -> RunConfig:
    """The settings of a run; ``steps`` in all give its rounds."""
    given = {key: value for key, value in settings.items() if key != "steps"}
    if "steps" in settings:
        given["num-server-rounds"] = max(1, settings["steps"] // settings.get("local-steps", 50))
    return RunConfig.from_flower(given)


def _with(method: str, settings: Settings) -> Mapping[str, float]:
    one_thread_per_silo()
    return METHODS[method](config_of(settings))._asdict()


SMOKE: Final[Settings] = {"steps": 2, "local-steps": 2, "private-size": 400, "public-size": 120, "query-size": 120}
"""The smallest sizes of a run."""
_AGREED: Final[Settings] = {**SMOKE, "steps": 30, "local-steps": 30, "private-size": 1000}
"""The smallest at which nine of ten silos agree on a label."""


def on_fashion_mnist(
    title: str,
    about: str,
    rows: tuple[Row, ...],
    *,
    steps: int,
    fast_steps: int,
    seeds: int,
    smoke: Settings | None = None,
    **more: Any,
) -> Table:
    """A table of networks on images: accuracy and cost of each row's methods. All rows train for the same steps."""
    names = [name for name in METHODS if any(name in row.methods for row in rows)]
    costs = [Grid(title.capitalize(), by_method(names, key, ",.0f")) for title, key in COSTS.items()]
    return Table(
        f"FedCT on FashionMNIST: {title}, {{steps}} steps",
        about,
        rows,
        {name: partial(_with, name) for name in names},
        [Grid("Test accuracy", by_method(names)), *costs],
        seeds,
        settings={**SETTINGS, "steps": steps},
        fast={"steps": fast_steps},
        smoke=smoke or SMOKE,
        **more,
    )


_SHARING: Final = ("FedAvg", "FedProx .1", "FedProx 1", "SCAFFOLD", "FedDyn", "FedDF")
_BESIDE: Final = ("local only", "FedCT", "centralized")
_SKEWS: Final[dict[str, dict[str, Any]]] = {
    "iid": {},
    "Dirichlet(.5)": {"partition": "dirichlet", "dirichlet-concentration": 0.5},
    "Dirichlet(.1)": {"partition": "dirichlet", "dirichlet-concentration": 0.1},
}
_ADAM: Final[dict[str, Any]] = {"learner-params": '{"width": 128}'}
_SGD: Final[dict[str, Any]] = {**_ADAM, "optimizer": "sgd", "learning-rate": 0.1}

_RULES: Final = ("FedCT", "FedCT (QM)", "FedCT (DS)")
_WITHOUT_PUBLIC: Final = ("local only", "FedAvg", "centralized")

_DIGITS: Final = "digits, another data set entirely"
_FALLING: Final = {"learning-rate": 2e-3, "decay-steps": 3000}
_PAPER_EVERY_50: Final = {"FedCT": "0.84 ± 0.004", "FedAvg": "0.83 ± 0.024"}
_PAPER_NON_IID: Final = (
    {"FedCT": "0.7975", "FedCT (QM)": "0.7968", "FedAvg": "0.8150"},
    {"FedCT": "0.7905", "FedCT (QM)": "0.7808", "FedAvg": "0.7950"},
    {"FedCT": "0.6252", "FedCT (QM)": "0.7358", "FedAvg": "0.7346"},
)


def _split_twice(methods: tuple[str, ...], **settings: Any) -> tuple[Row, ...]:
    """Table 2's rows, with the paper's figures for those of the methods that it has."""
    return tuple(
        Row(
            f"alpha1 = {both[0]:g}, alpha2 = {both[1]:g}",
            {"data": halves(both), "num-silos": 10, **settings},
            methods,
            {method: figure for method, figure in paper.items() if method in methods},
        )
        for both, paper in zip(CONCENTRATIONS, _PAPER_NON_IID, strict=True)
    )


TABLES: Final[dict[str, Table]] = {
    "fedct-fashion-mnist": on_fashion_mnist(
        title="5 silos with 2,000 images each, a period of 50 steps",
        about=(
            "Paper: Table 1 (FashionMNIST) and Table 10. Falling rate: from 0.002 along a cosine over 3,000 steps. "
            "Shares: silos send labels, and learn the shares of the votes as soft targets; a minibatch then has four "
            "times as many public images."
        ),
        rows=(
            Row("rate 0.001", {}, (*_BESIDE, "FedAvg"), {**_PAPER_EVERY_50, "local only": "0.79 ± 0.005"}),
            Row("falling rate", _FALLING, (*_BESIDE, "FedCT (shares)", "FedAvg"), {}),
        ),
        steps=3000,
        fast_steps=1000,
        seeds=3,
        fast_rows=("rate 0.001",),
        paper="FedCT, Table 1",
    ),
    "fedct-non-iid": on_fashion_mnist(
        title="silos whose classes differ, 10 silos",
        about=(
            "Paper: Table 2. Half of the private records is split over the silos by Dirichlet(alpha1) for each class, "
            "the other half by Dirichlet(alpha2); how exactly the paper splits is our reading of one sentence. QM: "
            "quorum 0.9."
        ),
        rows=_split_twice(("local only", "FedCT", "FedCT (QM)", "FedAvg")),
        smoke=_AGREED,
        smoke_rows=("alpha1 = 100, alpha2 = 2",),
        steps=600,
        fast_steps=150,
        seeds=2,
        paper="FedCT, Table 2",
    ),
    "fedct-non-iid-rules": on_fashion_mnist(
        title="silos whose classes differ, by every consensus rule, 10 silos",
        about=(
            "Paper: Table 2, with a network of 784-512-512-10; here 784-128-128-10, as three rules take three times "
            "the time. FedCT: plurality; QM: quorum 0.9; DS: Dawid-Skene, which is not the paper's."
        ),
        rows=_split_twice(("local only", *_RULES), **_ADAM),
        smoke=_AGREED,
        smoke_rows=("alpha1 = 100, alpha2 = 2",),
        steps=600,
        fast_steps=150,
        seeds=3,
    ),
    "fedct-communication": on_fashion_mnist(
        title="how often silos communicate, 5 silos",
        about="Paper: Table 10 (no communication; b = 50). Other periods are ours; all rows train for the same steps.",
        rows=(
            Row("no communication", {}, ("local only", "centralized"), {"local only": "0.79 ± 0.005"}),
            Row("every 200 steps", {"local-steps": 200}, ("FedCT", "FedAvg"), {}),
            Row("every 50 steps", {"local-steps": 50}, ("FedCT", "FedAvg"), _PAPER_EVERY_50),
            Row("every 10 steps", {"local-steps": 10}, ("FedCT", "FedAvg"), {}),
        ),
        steps=1000,
        fast_steps=400,
        seeds=3,
        paper="FedCT, Table 10",
    ),
    "fedct-public-size": on_fashion_mnist(
        title="the size of the public set, 5 silos with 100 images each",
        about=(
            "Paper: Figure 12, on Pneumonia with 100 private images per silo, no figures in the text: with 100 public "
            "images comparable to FedAvg, with 1,000 nearly centralized, with too few worse."
        ),
        rows=(
            Row("no public set", {"private-size": 500}, _WITHOUT_PUBLIC),
            *(
                Row(f"{size:,} public images", {"private-size": 500, "public-size": size}, ("FedCT",))
                for size in (10, 100, 1000, 10_000, 50_000)
            ),
        ),
        steps=1000,
        fast_steps=300,
        seeds=2,
        smoke_rows=("no public set", "10 public images", "100 public images"),
        paper="FedCT, Figure 12",
        other_data="FashionMNIST",
        words=(
            Words("more public images help", ("10,000 public images", "FedCT"), ("10 public images", "FedCT")),
            Words(
                "with 100 public images comparable to FedAvg",
                ("100 public images", "FedCT"),
                ("no public set", "FedAvg"),
            ),
        ),
    ),
    "fedct-scale": on_fashion_mnist(
        title="from 5 to 100 silos that share 10,000 images",
        about=(
            "Paper: Table 8 (m = 100) and D.5, whose Figure 9 has no figures in the text: accuracy falls moderately "
            "with m, FedAvg slightly above FedCT."
        ),
        rows=tuple(
            Row(
                f"m = {silos}",
                {"num-silos": silos},
                ("local only", "FedCT", "FedAvg"),
                {"FedCT": paper} if paper else {},
            )
            for silos, paper in {5: "", 10: "", 20: "", 40: "", 80: "", 100: "0.7154"}.items()
        ),
        steps=250,
        fast_steps=100,
        seeds=2,
        fast_rows=("m = 5", "m = 100"),
        smoke_rows=("m = 5", "m = 10"),
        paper="FedCT, Table 8",
        words=(
            Words("accuracy falls with m", ("m = 5", "FedCT"), ("m = 100", "FedCT")),
            Words("FedAvg is slightly above FedCT", ("m = 100", "FedAvg"), ("m = 100", "FedCT")),
        ),
    ),
    "fedct-public-shift": on_fashion_mnist(
        title="a public set from elsewhere, 5 silos",
        about=(
            f"Paper: Table 4, on CIFAR10 with 8,500 public images. Here {NUM_DIGITS:,} in each row, as many as "
            "scikit-learn has digits (8 x 8, enlarged to 28 x 28), which take the place of CIFAR100. Skewed: shares of "
            "the classes drawn from Dirichlet(alpha)."
        ),
        rows=(
            Row("no public set", {"data": "fashion-mnist-public-iid"}, _WITHOUT_PUBLIC, {}),
            Row("iid", {"data": "fashion-mnist-public-iid"}, ("FedCT",), {"FedCT": "0.77"}),
            Row("skewed, alpha = 1", {"data": "fashion-mnist-public-1"}, ("FedCT",), {"FedCT": "0.74"}),
            Row("skewed, alpha = 0.5", {"data": "fashion-mnist-public-0.5"}, ("FedCT",), {"FedCT": "0.72"}),
            Row(_DIGITS, {"data": "fashion-mnist-public-digits"}, ("FedCT",), {"FedCT": "0.65"}),
        ),
        steps=1000,
        fast_steps=300,
        seeds=3,
        smoke_rows=("no public set", "skewed, alpha = 0.5", _DIGITS),
        paper="FedCT, Table 4",
        other_data="FashionMNIST",
        words=(
            Words("skew costs", ("iid", "FedCT"), ("skewed, alpha = 0.5", "FedCT")),
            Words("another data set costs more", ("skewed, alpha = 0.5", "FedCT"), (_DIGITS, "FedCT")),
        ),
    ),
    "pfnm": on_fashion_mnist(
        title="neurons that do the same are matched and averaged once, 5 silos",
        about="Yurochkin et al., ICML 2019 (PFNM), in one round; the network is 784-128-128-10.",
        rows=tuple(
            Row(name, {**_SGD, **skew, "local-steps": 500}, ("local only", "FedAvg", "PFNM"), {})
            for name, skew in _SKEWS.items()
        ),
        steps=500,
        fast_steps=500,
        seeds=3,
    ),
    "weight-sharing": on_fashion_mnist(
        title="FedCT beside what shares weights, 5 silos",
        about=(
            "Paper: FedKT's (Li, He, Song, IJCAI 2021), Table 1, one round on MNIST, 10 silos, Dirichlet(.5): alone "
            ".690, FedAvg .628, FedProx .443, SCAFFOLD .517, FedDF .838. Here the network is 784-128-128-10. All rows "
            "but the last descend by plain SGD with rate .1, which SCAFFOLD needs. FedDyn has alpha = .1, FedDF takes "
            "50 steps after each round, FedProx has the mu that stands after it. In one round SCAFFOLD is FedAvg, as "
            "control variates begin at zero."
        ),
        rows=(
            *(Row(name, {**_SGD, **skew}, _BESIDE + _SHARING, {}) for name, skew in _SKEWS.items()),
            *(
                Row(f"{name}, one round", {**_SGD, **skew, "local-steps": 500}, _SHARING, {})
                for name, skew in _SKEWS.items()
            ),
            Row(
                "Dirichlet(.1), Adam",
                {**_ADAM, **_SKEWS["Dirichlet(.1)"]},
                tuple(method for method in _BESIDE + _SHARING if method != "SCAFFOLD"),
                {},
            ),
        ),
        steps=500,
        fast_steps=100,
        seeds=2,
        fast_rows=("iid", "Dirichlet(.1)", "Dirichlet(.1), one round"),
    ),
}
_CURVES: Final = ("local only", "FedCT", "spread of FedCT", "churn", "FedAvg")
_SHOWN: Final = ("1", "2", "7", "12", "18", "23", "29", "34", "40")


def _log(config: RunConfig) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        rounds, _ = run_federation(change(config, run_dir=f"{temporary}/run"))
    simulated_site.cache_clear()
    return rounds


def _alone(config: RunConfig) -> Iterator[float]:
    """Mean accuracy after each round's steps where silos never communicate."""
    dataset = datasets.load(config)
    learners = [build_learner(config, dataset, n, silo.private.X) for n, silo in enumerate(dataset.silos)]
    unlabeled = np.full(len(dataset.public), ABSTAIN, dtype=LABEL_DTYPE)
    for _ in range(config.num_server_rounds):
        for learner, silo in zip(learners, dataset.silos, strict=True):
            assert isinstance(learner, Resumable)
            learner.advance(silo.private, dataset.public.X, unlabeled, 1.0)
        yield fmean(accuracy(learner, dataset.test) for learner in learners)


def _curves(settings: Settings) -> dict[str, float]:
    """Accuracy of silos' models in FedCT and their spread, of FedAvg's, and alone, after each round."""
    one_thread_per_silo()
    config = config_of({**settings, "report-scores": True})
    log = _log(config)
    averaged = change(config, algorithm="fedavg", warm_up_rounds="auto", query_size=0)
    curves = {
        "local only": list(_alone(config)),
        "FedCT": [fmean(silo["scores"]["pooled_accuracy"] for silo in entry["silos"].values()) for entry in log],
        "spread of FedCT": [entry["accuracy_spread"] for entry in log],
        # Before anything was labeled there is none to change.
        "churn": [entry["churn"] or 0.0 for entry in log],
        "FedAvg": [entry["scores"]["accuracy"] for entry in _log(averaged)],
    }
    return {f"{name}, {number}": value for name, curve in curves.items() for number, value in enumerate(curve, 1)}


_LAST: Final = "iid, 5 silos, 40"
TABLES["fedct-convergence"] = Table(
    "Convergence of FedCT on FashionMNIST, 50 steps a round",
    "Paper: Figures 2 (CIFAR10, iid) and 3 (FashionMNIST, Dirichlet 100 and 2) are plots; its text says that FedCT "
    "converges slightly faster than FedAvg, which ends slightly higher, that the silos agree after about 700 steps on "
    "CIFAR10, and that the spread is larger where classes differ. Lines by round. Test accuracy; spread: standard "
    "deviation between the silos' models; churn: share of the public examples asked about again whose consensus label "
    "is another one than before.",
    [Row("iid, 5 silos"), Row("Dirichlet 100 and 2, 10 silos", {"data": halves((100.0, 2.0)), "num-silos": 10})],
    {"": _curves},
    [Grid("Split, round", [Column(name, f"{name}, {{}}") for name in _CURVES], each=_SHOWN)],
    2,
    settings={**SETTINGS, "steps": 2000},
    fast={"steps": 300},
    smoke={**SMOKE, "steps": 4},
    smoke_rows=("iid, 5 silos",),
    paper="FedCT, Figures 2 and 3",
    words=(
        Words("FedCT converges faster than FedAvg", ("iid, 5 silos, 7", "FedCT"), ("iid, 5 silos, 7", "FedAvg")),
        Words("FedAvg ends slightly higher", (_LAST, "FedAvg"), (_LAST, "FedCT")),
    ),
)
