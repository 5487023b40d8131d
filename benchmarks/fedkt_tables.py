"""The tables of FedKT's paper (Li, He, Song, IJCAI 2021), ours beside theirs; on Adult, but for Table 1's last row.

Teachers and students on Adult are single trees on plain columns, as in the paper's published code. Its text says
forests, which name the frequent class alone on dummy columns (``fedkt-columns``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks import progress, report
from benchmarks.federation import Runs
from benchmarks.fedkt import METHODS, adult_by_trees, clothes, configs, fedkt, majority
from benchmarks.methods import one_thread_per_silo
from benchmarks.variants import change

TREES: Final = 100
FAST_TREES: Final = 5
"""Of the final model, a forest."""
SEEDS: Final = 5

_PAPER_1: Final[dict[str, dict[str, str]]] = {
    "Adult": {"FedKT": "82.2", "SOLO": "68.6", "PATE": "83.5"},
    "FashionMNIST": {"FedKT": "MNIST 90.5", "SOLO": "69.0", "FedAvg": "62.8", "PATE": "92.7"},
}


def table_1(seeds: int | None, fast: bool) -> None:
    """FedKT, Table 1: Adult with 50 parties, FashionMNIST with 10; about eight minutes of one core."""
    one_thread_per_silo()
    seeds = seeds or 2
    rows = {
        "Adult": adult_by_trees(FAST_TREES if fast else TREES),
        "FashionMNIST": clothes(10_000, 1_000, 5) if fast else clothes(50_000, 5_000, 20),
    }
    runs = {name: Runs() for name in rows}
    for name, settings in rows.items():
        for config in configs(settings, seeds):
            for method in _methods(name):
                runs[name].add(**{method: METHODS[method](config)["accuracy"]})
    cells = []
    for name in rows:
        shown = [_beside(runs[name], method, _PAPER_1[name].get(method, "")) for method in METHODS]
        cells.append([name, *shown])
    text = (
        f"# FedKT in one round, Table 1: {seeds} seeds\n\nAccuracy on the pooled test set, mean ± standard error "
        f"(the paper's in percent). Adult: {rows['Adult']['num-silos']} parties; teachers and students are single "
        f"trees of depth 6 on plain columns, the final model is a forest of {FAST_TREES if fast else TREES} of them. "
        "FashionMNIST in the place of MNIST: 10 parties, "
        f"{rows['FashionMNIST']['private-size']:,} private and {rows['FashionMNIST']['public-size']:,} public images, "
        f"a network of two hidden layers of 100, {rows['FashionMNIST']['epochs']} epochs (paper: 100), FedAvg 10. "
        "Parties by Dirichlet(.5), s = 2, t = 5. The paper has 5 trials. SOLO: each party alone, mean. PATE: one party "
        "with all records and as many teachers as there are parties, without noise.\n\n"
    )
    report.write("fedkt-table1", text + report.table(["", *METHODS], cells), runs, rows)


def _methods(row: str) -> list[str]:
    # A forest has no weights to average.
    return [method for method in METHODS if not (row == "Adult" and method == "FedAvg")]


def _beside(runs: Runs, method: str, paper: str) -> str:
    if method not in runs.values:
        return "-"
    return report.cell(runs, method) + (f" (paper {paper})" if paper else "")


class Row(NamedTuple):
    """One line of a table: what changes beside the table's settings, and the paper's figures."""

    name: str
    settings: dict[str, Any]
    accuracy: str
    epsilon: str = ""


class Table(NamedTuple):
    """``fewest``: only splits that leave every silo so many records, as s * t models need one each."""

    title: str
    about: str
    settings: Mapping[str, Any]
    rows: Sequence[Row]
    fewest: int = 0


def _noisy(level: str, splits: dict[str, tuple[dict[float, tuple[str, ...]], str]]) -> list[Row]:
    """Rows of Table 8 or 9. The paper's figures: for each gamma epsilon and accuracy of each number of queries."""
    rows = []
    for partition, (gammas, without) in splits.items():
        split = {"partition": partition}
        rows.append(Row(f"{partition}, L0", split, without))
        for gamma, figures in gammas.items():
            for queries, paper in zip(_QUERIES[partition, level], figures, strict=True):
                epsilon, accuracy = paper.split()
                own = {"privacy-level": level, "gamma": gamma}
                # At L2 the silos' ledgers have a budget, which gamma must keep.
                at_silos = {"teachers": 25, "lessons": queries, "epsilon": 1000.0}
                asked = at_silos if level == "L2" else {"query-size": queries}
                name = f"{partition}, gamma {gamma:g}, {queries} queries"
                rows.append(Row(name, {**split, **own, **asked}, accuracy, epsilon))
    return rows


# Of the paper's 8,140 test and public records 0.1 %, 0.3 %, 0.5 % and 1 %.
_QUERIES: Final = {
    ("dirichlet", "L1"): (8, 41, 81),
    ("iid", "L1"): (8, 41, 81),
    ("dirichlet", "L2"): (8, 41, 81),
    ("iid", "L2"): (24, 41, 81),
}


def _noised(best: Mapping[str, str], text: str) -> dict[str, tuple[dict[float, tuple[str, ...]], str]]:
    """By partition, the cells (epsilon and accuracy) of each gamma, and the best without noise."""
    found: dict[str, tuple[dict[float, tuple[str, ...]], str]] = {name: ({}, most) for name, most in best.items()}
    for line in text.strip().splitlines():
        partition, gamma, *cells = line.split(" | ")
        found[partition][0][float(gamma)] = tuple(cells)
    return found


_PAPER_8: Final = _noised({"dirichlet": "82.2", "iid": "82.4"}, """
dirichlet | 0.04 | 0.64 71.3 | 2.56 76.8 | 4.73 80.2
dirichlet | 0.06 | 0.96 75.7 | 3.64 77.6 | 5.78 80.2
dirichlet | 0.08 | 1.23 76.0 | 4.25 76.3 | 7 80.3
iid | 0.02 | 0.32 72.2 | 1.25 76.1 | 1.79 80.1
iid | 0.04 | 0.6 76.0 | 1.9 80.4 | 3.32 81.5
iid | 0.06 | 0.75 76.1 | 2.03 81.7 | 3.36 82.1
""")  # fmt: skip
_PAPER_9: Final = _noised({"dirichlet": "82.4", "iid": "82.6"}, """
dirichlet | 0.04 | 1.13 76.1 | 2.56 76.5 | 3.72 78.5
dirichlet | 0.05 | 1.32 76.1 | 3.24 79.0 | 4.76 79.2
dirichlet | 0.06 | 1.96 76.2 | 3.93 78.5 | 5.79 79.4
iid | 0.04 | 2.13 76.1 | 2.59 78.7 | 3.72 81.7
iid | 0.06 | 2.97 76.3 | 3.93 79.9 | 5.79 81.8
iid | 0.08 | 3.77 76.3 | 5.04 80.4 | 7.89 82.0
""")  # fmt: skip

TABLES: Final[dict[str, Table]] = {
    "fedkt-table3": Table(
        "the size of the public set, Table 3",
        "A share of the 4,070 public examples is there at all; no other examples are labeled or learned from.",
        {},
        [
            Row(f"{share}%", {"public-size": 4070 * share // 100, "query-size": 4070 * share // 100}, paper)
            for share, paper in ((20, "82.1"), (40, "82.1"), (60, "82.1"), (80, "82.3"), (100, "82.2"))
        ],
    ),
    "fedkt-table6": Table(
        "students of each party, Table 6",
        "s = 1 to 5 partitions with 5 teachers each. Splits are those that leave every silo s * t = 25 records.",
        {},
        [
            Row(f"s = {number}", {"partitions": number, "teachers": 5}, paper)
            for number, paper in enumerate(("80.8 ± 1.4", "82.2 ± 0.6", "81.5 ± 0.6", "81.2 ± 0.5", "81.1 ± 0.1"), 1)
        ],
        fewest=25,
    ),
    "fedkt-table7": Table(
        "teachers of each student, Table 7",
        "t = 5 to 20 with s = 2. Splits are those that leave every silo s * t = 40 records; the paper's has a party "
        "with fewer than 15, and no figures for t = 15 and t = 20.",
        {},
        [
            Row(f"t = {number}", {"teachers": number}, paper)
            for number, paper in ((5, "82.0 ± 0.6"), (10, "81.1 ± 0.7"), (15, ""), (20, ""))
        ],
        fewest=40,
    ),
    "fedkt-table8": Table(
        "noise at the coordinator for parties, L1, Table 8",
        "50 parties, s = 1, t = 5, delta = 1e-5; L0 with s = 2. Epsilon is in total and for a party as a whole, not "
        "from the coordinator. The paper's depends on the votes and is as private as they are; ours do not.",
        {"num-silos": 50},
        _noisy("L1", _PAPER_8),
    ),
    "fedkt-table9": Table(
        "noise at the silos for their examples, L2, Table 9",
        "20 parties, s = 1, t = 25, delta = 1e-5; L0 with s = 2, t = 5. Epsilon is in total and for an example. Splits "
        "are those that leave every silo 25 records. Queries are what the silos' teachers label; students then label "
        "all 4,070 public examples, from which the final model learns.",
        {"num-silos": 20},
        _noisy("L2", _PAPER_9),
        fewest=25,
    ),
}


def run(name: str, seeds: int | None, fast: bool) -> None:
    """One of the tables on Adult."""
    one_thread_per_silo()
    table, seeds = TABLES[name], seeds or SEEDS
    trees = FAST_TREES if fast else TREES
    rows = table.rows[:4] if fast else table.rows
    settings = {**adult_by_trees(trees), **table.settings}
    runs = measure(rows, settings, seeds, table.fewest)
    text = (
        f"# FedKT on Adult: {table.title}, {seeds} seeds\n\n{table.about} Teachers and students are single trees of "
        f"depth 6 on plain columns, the final model is a forest of {trees} of them. Mean ± standard error, the paper's "
        "in percent.\n\n"
    )
    about = {**settings, "rows": {row.name: row.settings for row in rows}}
    report.write(name, text + as_table(rows, runs), runs, about)


def measure(rows: Sequence[Row], settings: dict[str, Any], seeds: int, fewest: int = 0) -> dict[str, Runs]:
    """Every row for each seed whose split leaves every silo ``fewest`` records; the majority class beside it."""
    runs = {row.name: Runs() for row in rows}
    for config in configs(settings, seeds, fewest):
        for row in rows:
            own = change(config, **row.settings)
            key = f"{row.name}, {config.seed}"
            found = progress.once(key, lambda: {**fedkt(own), "majority": majority(own)["accuracy"]})  # noqa: B023
            runs[row.name].add(**found)
    return runs


def as_table(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    """Accuracies and epsilons beside the paper's."""
    header, priced = ["", "accuracy", "paper", "majority class"], any(row.epsilon for row in rows)
    if priced:
        header += ["epsilon, paper", "by its accountant", "tightest"]
    lines = []
    for row in rows:
        own = runs[row.name]
        line = [row.name, report.cell(own, "accuracy"), row.accuracy or "–", report.cell(own, "majority")]
        if priced:
            names = ("paper", "tightest")
            line += [row.epsilon or "–", *(f"{own.mean(name):.2f}" if name in own.values else "–" for name in names)]
        lines.append(line)
    return report.table(header, lines)
