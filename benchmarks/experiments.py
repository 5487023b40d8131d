"""The paper's experiments with networks as a table (Abourayya et al., arXiv:2310.05696), all on FashionMNIST.

Figures of the paper are from its text and tables; those that it only plots are not read off. The paper trains for
20,000 steps with all of the public set; here it is fewer steps and 5,000 public examples a round (``query-size``).
"""

from typing import Any, Final, NamedTuple

from benchmarks.variants import CONCENTRATIONS, NUM_DIGITS, halves


class Row(NamedTuple):
    """One line of a table: settings beside those that all share, methods to compare, the paper's figure for each."""

    name: str
    settings: dict[str, Any]
    methods: tuple[str, ...]
    paper: dict[str, str]


class Experiment(NamedTuple):
    """``steps`` of a full run and of a fast one; a fast one leaves out the rows of ``slow``."""

    title: str
    about: str
    rows: tuple[Row, ...]
    steps: int
    fast_steps: int
    seeds: int
    slow: frozenset[str] = frozenset()


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


EXPERIMENTS: Final[dict[str, Experiment]] = {
    "fedct-fashion-mnist": Experiment(
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
        slow=frozenset({"falling rate"}),
    ),
    "fedct-non-iid": Experiment(
        title="silos whose classes differ, 10 silos",
        about=(
            "Paper: Table 2. Half of the private records is split over the silos by Dirichlet(alpha1) for each class, "
            "the other half by Dirichlet(alpha2); how exactly the paper splits is our reading of one sentence. QM: "
            "quorum 0.9."
        ),
        rows=_split_twice(("local only", "FedCT", "FedCT (QM)", "FedAvg")),
        steps=600,
        fast_steps=150,
        seeds=2,
    ),
    "fedct-non-iid-rules": Experiment(
        title="silos whose classes differ, by every consensus rule, 10 silos",
        about=(
            "Paper: Table 2, with a network of 784-512-512-10; here 784-128-128-10, as three rules take three times "
            "the time. FedCT: plurality; QM: quorum 0.9; DS: Dawid-Skene, which is not the paper's."
        ),
        rows=_split_twice(("local only", *_RULES), **_ADAM),
        steps=600,
        fast_steps=150,
        seeds=3,
    ),
    "fedct-communication": Experiment(
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
    ),
    "fedct-public-shift": Experiment(
        title="a public set from elsewhere, 5 silos",
        about=(
            f"Paper: Table 4, on CIFAR10 with 8,500 public images. Here {NUM_DIGITS:,} in each row, as many as "
            "scikit-learn has digits (8 x 8, enlarged to 28 x 28), which take the place of CIFAR100. Skewed: shares of "
            "the classes drawn from Dirichlet(alpha)."
        ),
        rows=(
            Row("no public set", {"data": "fashion-mnist-public-iid"}, _WITHOUT_PUBLIC, {}),
            Row("iid", {"data": "fashion-mnist-public-iid"}, ("FedCT",), {"FedCT": "CIFAR10: 0.77"}),
            Row("skewed, alpha = 1", {"data": "fashion-mnist-public-1"}, ("FedCT",), {"FedCT": "CIFAR10: 0.74"}),
            Row("skewed, alpha = 0.5", {"data": "fashion-mnist-public-0.5"}, ("FedCT",), {"FedCT": "CIFAR10: 0.72"}),
            Row(
                "digits, another data set entirely",
                {"data": "fashion-mnist-public-digits"},
                ("FedCT",),
                {"FedCT": "CIFAR100 for CIFAR10: 0.65"},
            ),
        ),
        steps=1000,
        fast_steps=300,
        seeds=3,
    ),
    "pfnm": Experiment(
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
    "weight-sharing": Experiment(
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
        slow=frozenset({"Dirichlet(.5)", "Dirichlet(.5), one round", "iid, one round", "Dirichlet(.1), Adam"}),
    ),
}
