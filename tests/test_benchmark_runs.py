"""The benchmarks measure what a run without scores sends, and say by what command."""

import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    consensus_rules,
    duplicates,
    fedkt,
    fedkt_columns,
    fedkt_one_round,
    fedkt_rounds,
    fedkt_tables,
    privacy,
    privacy_text,
    progress,
    report,
    round_overhead,
    traffic,
)
from benchmarks.__main__ import EXPERIMENTS, main
from benchmarks.federation import Runs, measure
from benchmarks.privacy_averaging import dp_fedavg
from benchmarks.privacy_data import Setting, Sizes, load
from benchmarks.privacy_votes import MECHANISMS
from benchmarks.remembered import remembered_fits
from fedct_flwr import datasets
from fedct_flwr.baselines.references import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.scoring import accuracy, balanced_accuracy
from tests.patience import PATIENCE, eventually
from tests.processes.relay import Relay
from tests.terminal import Screen, errors_on_a_terminal

ROOT = Path(__file__).parents[1]


def test_bytes_are_those_of_replies_without_scores() -> None:
    runs = measure({"data": "heart-disease", "learner": "naive-bayes", "num-server-rounds": 2}, range(1))
    # 29 of labels, 72 of what was agreed upon, and round, the silo's name and framing.
    assert 29 + 72 + 8 <= runs.mean("bytes_per_silo_and_round") <= 29 + 72 + 21


def test_local_vote_and_centralized_are_those_of_the_baselines() -> None:
    settings = {"data": "heart-disease", "learner": "naive-bayes,decision-tree,naive-bayes,svm"}
    runs = measure({**settings, "num-server-rounds": 2}, [5])
    config = RunConfig.from_flower({"study": "s", "seed": 5, **settings})
    dataset = datasets.load(config)
    alone, together = ([train(config, dataset, i) for i in range(4)] for train in (local_only, centralized))
    for method, models in {"local": alone, "central": together}.items():
        expected = fmean(balanced_accuracy(model, dataset.test) for model in models)
        assert runs.values[f"{method}_balanced_pooled"] == [pytest.approx(expected)]
    votes = sum(model.predict(dataset.test.X) for model in alone)
    decided = votes != 2
    # Ties of two to two are broken at random.
    sure = ((votes > 2) == dataset.test.y)[decided].sum() / dataset.test.size
    assert sure <= runs.values["vote_accuracy_pooled"][0] <= sure + (~decided).mean()


def test_a_result_tells_the_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "a-name", "--fast", "--seeds", "3"])
    report.write("a-name", "a text\n", {"a setting": Runs({"a": [1.0, 2.0]})}, {}, 7.0)
    for file in ("a-name-fast.md", "a-name-fast.json"):
        assert "python -m benchmarks a-name --fast --seeds 3" in (tmp_path / file).read_text("utf-8")


@pytest.mark.parametrize("kept", sorted(report.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_tell_how_long_the_bar_is_for_the_command_that_made_them(kept: Path) -> None:
    content = json.loads(kept.read_text("utf-8"))
    numbers = [len(values) for run in content["values"].values() for values in run.values()]
    assert progress.expected(content["command"], kept) == sum(numbers) > 0
    assert progress.expected(f"{content['command']} --seeds 1000", kept) is None


def test_a_bar_goes_on_with_every_value_and_gets_out_of_the_tables_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {"a setting": Runs()}
    screens: list[Screen] = []

    def measure(seeds: int | None, fast: bool) -> None:
        for seed in range(4):
            # The second time its end is known.
            said = "a-name" if len(screens) == 1 else f"{25 * seed}%"
            eventually(lambda said=said: said in screens[-1].text, said)
            runs["a setting"].add(a=seed, b=seed)
        report.write("a-name", "a text", runs, {}, 7.0)

    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "a-name"])
    monkeypatch.setitem(EXPERIMENTS, "a-name", measure)
    # What experiments add to the data sets is not for other tests.
    monkeypatch.setattr("benchmarks.__main__.LOADERS", {})
    for _ in range(2):
        with errors_on_a_terminal(monkeypatch) as screen:
            screens.append(screen)
            main("a-name")
        runs["a setting"] = Runs()
        assert capsys.readouterr().out == "a text\n"
    assert "100%" in screens[-1].text


def test_the_list_has_a_line_for_each() -> None:
    command = [sys.executable, "-m", "benchmarks", "LIST"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert {"heart-disease", "fedct-trees", "fedct-fashion-mnist"} <= set(names)
    assert all(len(line.split()) > 3 for line in listed.splitlines())


def test_an_agents_share_memory_and_idle_time_are_measured_on_a_real_one() -> None:
    found: dict[str, list[float]] = {}
    for measured in round_overhead._alone(10, 0):
        for name, value in measured.items():
            found.setdefault(name, []).append(value)
    assert len(found["share"]) == 9
    assert all(0 < share < 60 for share in found["share"])
    assert 10 < found["early"][0] <= found["late"][0] * 1.5
    assert found["idle"][0] >= 0


def test_the_overhead_is_what_remains_of_a_round_and_stands_beside_the_stock_supernodes() -> None:
    runs = {
        "agent": Runs(
            {
                "seconds": [3.0, 3.2],
                "training": [1.0, 1.0],
                "overhead": [2.0, 2.2],
                "up": [1700.0] * 2,
                "down": [1200.0] * 2,
            }
        ),
        "stock SuperNode": Runs(
            {"seconds": [9.4, 9.4], "training": [1.0, 1.0], "overhead": [8.4, 8.4], "up": [9e3] * 2, "down": [8e3] * 2}
        ),
        "one agent": Runs({"share": [0.05] * 20, "early": [100.0], "late": [101.0], "idle": [0.005]}),
    }
    text = round_overhead._text(runs)
    assert "| agent | 3.10 | 1.00 | 2.10 | 1.7 kB | 1.2 kB |" in text
    assert "4.0 times lower" in text
    assert "0.50% of a core" in text


TABLE = Setting(
    "a table",
    "breast-cancer",
    3,
    300,
    150,
    0,
    privacy.WITHOUT_NETWORKS,
    {"dp-linear": {8.0: ".91"}, "local only": {math.inf: ".92"}},
)


def test_label_quality_is_measured_by_mechanism_beside_local_training_and_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A run for each: the next test has some.
    monkeypatch.setattr(privacy, "dp_fedavg", lambda federation, epsilon, seed: (0.25, 0.75)[seed])
    epsilons = (0.01, 8.0, math.inf)
    found = privacy.measure(TABLE, epsilons, Sizes(public=120, paid=60, models=1), range(2))
    values = {name: runs.mean("consensus") for name, runs in found.items() if "consensus" in runs.values}
    assert len(values) == len(epsilons) * len(privacy.WITHOUT_NETWORKS) + 1
    for name in privacy.WITHOUT_NETWORKS:
        without, with_noise = values[f"epsilon inf, {name}"], values[f"epsilon 0.01, {name}"]
        assert without > 0.85
        assert with_noise < without - 0.1
    assert values["epsilon 8, dp-linear"] > values["epsilon 8, xor"] + 0.1
    assert 0.3 < values["paper's xor"] < 0.7
    assert found["baselines"].mean("local") > 0.85
    assert 0.5 < found["baselines"].mean("majority") < 0.8
    # Who learns from noise has less than alone; who learns from good labels does not.
    assert found["epsilon 0.01, xor"].mean("personal") < found["epsilon inf, xor"].mean("personal") - 0.02
    table = privacy_text.table(TABLE, epsilons, found)
    row = next(line for line in table.splitlines() if line.startswith("| 8 | dp-linear |"))
    assert row.split(" | ")[3] == ".91"
    assert "(reference .92)" in table
    # It protects silos, and shares no labels.
    assert "| 8 | dp-fedavg, per silo | – | – | 0.500 ± 0.250 |" in table


def test_the_table_that_is_kept_says_what_the_values_beside_it_do() -> None:
    kept = json.loads((report.RESULTS / "privacy.json").read_text("utf-8"))
    runs = {name: Runs(values) for name, values in kept["values"].items()}
    told = privacy.text(runs, privacy.EPSILONS, Sizes(**kept["settings"]["sizes"]))
    assert (report.RESULTS / "privacy.md").read_text("utf-8").partition("\nMeasured by")[0] == told
    # The paper's setting was measured before on FashionMNIST with 5 silos alone.
    papers = [line for line in told.splitlines() if "xor, the paper's" in line]
    assert [line.split(" | ")[3] for line in papers] == [".10", "–", "–"]


def test_dp_fedavg_is_measured_in_a_run_of_its_own() -> None:
    federation = load(TABLE, Sizes(public=120, paid=60, models=1), 0)
    assert dp_fedavg(federation, math.inf, 0) > 0.9
    assert dp_fedavg(federation, 0.01, 1) < 0.75


def test_a_network_by_dp_sgd_is_measured_too() -> None:
    sizes = Sizes(public=120, paid=60, models=1)
    federation = load(TABLE, sizes, 0)
    counts = MECHANISMS["dp-sgd"](federation, 1e5, sizes, 0)
    assert (counts.sum(axis=1) == 3).all()
    assert (counts.argmax(axis=1) == federation.public.y).mean() > 0.85


def test_private_records_public_examples_and_test_set_share_no_record() -> None:
    federation = load(TABLE, Sizes(public=120, paid=60, models=1), 0)
    assert [silo.size for silo in federation.raw_silos] == [100, 100, 100]
    rows = [tuple(row) for part in (*federation.raw_silos, federation.raw_public) for row in part.X]
    assert len(set(rows)) == len(rows) == 420


def test_the_papers_xor_setting_is_told_with_its_price() -> None:
    # theta = .1 / 3000: 2 x 50,000 bits a release, 400 releases.
    notes = privacy_text.notes()
    assert "costs epsilon 3.33 in the worst case, all of them 1,333" in notes
    assert "probability 0.4999917" in notes


RULES = {"data": "breast-cancer", "private-size": 150, "public-size": 250, "learner": "naive-bayes"}


def test_rules_are_measured_beside_local_training_true_labels_and_pooled_data() -> None:
    runs = consensus_rules.measure(RULES, [3])
    config = RunConfig.from_flower({"study": "s", "seed": 3, **RULES})
    dataset = datasets.load(config)
    for method, train in {"local": local_only, "central": centralized}.items():
        expected = fmean(balanced_accuracy(train(config, dataset, n), dataset.test) for n in range(5))
        assert runs.values[method] == [pytest.approx(expected)]
    assert {method for method in runs.values if not method.startswith("public ")} == set(consensus_rules.METHODS)


def test_bad_silos_vote_but_are_neither_scored_nor_pooled() -> None:
    bad = {**RULES, "bad-silos": "silo-1,silo-2", "corruption": "label-flip"}
    clean, poisoned = (consensus_rules.measure(settings, [3]) for settings in (RULES, bad))
    config = RunConfig.from_flower({"study": "s", "seed": 3, **RULES})
    dataset = datasets.load(config)
    alone = fmean(balanced_accuracy(local_only(config, dataset, n), dataset.test) for n in (2, 3, 4))
    assert poisoned.values["local"] == [pytest.approx(alone)]
    # A model of flipped labels too would be far below.
    assert poisoned.mean("central") > 0.9
    assert poisoned.mean("public majority") != clean.mean("public majority")


def test_hospitals_are_split_as_they_are_and_other_data_by_dirichlet_too() -> None:
    for data in consensus_rules.DATA:
        scenarios = consensus_rules._scenarios(data)
        for settings in scenarios.values():
            RunConfig.from_flower({"study": "s", **data.settings, **settings})
        hospitals = data.settings["data"] == "heart-disease"
        assert len(scenarios) == (3 if hospitals else 5)
        assert not (hospitals and any("partition" in settings for settings in scenarios.values()))


def test_the_share_recovered_is_that_of_the_plain_learners_distance() -> None:
    values = {"local": 0.7, "majority": 0.75, "qualified": 0.7, "agreement": 0.78, "Dawid-Skene": 0.8, "truth": 0.81}
    runs = {
        f"{name}, class-weight {weight}": Runs(
            {key: [value + extra] for key, value in (values | {"central": 0.9}).items()}
        )
        for name in consensus_rules.HOSPITALS
        for weight, extra in (("none", 0.0), ("balanced", 0.05))
    }
    table = consensus_rules._recovered(runs)
    assert "| random forest | none | 25% | 0% | 40% | 50% | 55% |" in table
    assert "| random forest | balanced | 50% | 25% | 65% | 75% | 80% |" in table


SMALL: dict[str, Any] = {
    **fedkt.adult(3),
    "data": "breast-cancer",
    "num-silos": 4,
    "private-size": 300,
    "public-size": 150,
    "query-size": 150,
}


def test_own_patients_are_looked_for_in_every_disguise() -> None:
    split = next(duplicates.hospitals(0))
    measured = dict(duplicates.alarms(split, np.random.default_rng(0)))
    assert set(duplicates.ATTACKS) < set(measured)
    assert measured["exact copies"]
    assert measured["exact, and an outlier of 10,000 sd"]
    assert not measured["honest, the same people: near ones alone"]


def test_fedkts_rows_are_measured_beside_the_majority_class_and_the_papers_figures() -> None:
    rows = [
        fedkt_tables.Row("L0", {"partition": "iid"}, "82.2"),
        fedkt_tables.Row("L1", {"privacy-level": "L1", "gamma": 0.04, "query-size": 148}, "80.2", "4.73"),
    ]
    runs = fedkt_tables.measure(rows, SMALL, 1, fewest=25)
    assert runs["L0"].mean("accuracy") > 0.85 > runs["L0"].mean("majority") > 0.5
    # The golden number of the paper's accountant.
    assert runs["L1"].mean("paper") == pytest.approx(5.144, abs=0.001)
    assert runs["L1"].mean("gumbel") < runs["L1"].mean("tightest") < 5.144
    twice = {name: Runs({key: values * 2 for key, values in found.values.items()}) for name, found in runs.items()}
    line = fedkt_tables.as_table(rows, twice).splitlines()[3]
    assert line.startswith("| L1 | ")
    assert " | 80.2 | " in line
    assert " | 4.73 | 5.14 | 4.1" in line


def test_each_way_to_grow_trees_is_another_federation_on_the_same_data() -> None:
    found = [RunConfig.from_flower({"seed": 0, **settings}) for settings in fedkt_columns.variants(3).values()]
    assert len({(config.learner, config.learner_params, config.preprocessing) for config in found}) == 5
    assert {(config.data, config.public_size, config.student) for config in found} == {("adult", 4070, "random-forest")}


def test_what_is_remembered_is_what_a_fit_would_give() -> None:
    settings = {**SMALL, "partitions": 2, "seed": 3}
    config = RunConfig.from_flower(settings)
    expected = fedkt.fedkt(config)
    with remembered_fits():
        assert [fedkt.fedkt(config) for _ in range(2)] == [expected] * 2


def test_fedkts_splits_leave_every_silo_enough_records() -> None:
    assert [config.seed for config in fedkt.configs(SMALL, 3)] == [0, 1, 2]
    enough = fedkt.configs(SMALL, 2, fewest=30)
    assert [config.seed for config in enough] != [0, 1]
    assert all(silo.private.size >= 30 for config in enough for silo in datasets.load(config).silos)


def test_fedkts_baselines_are_alone_pooled_and_constant() -> None:
    config = fedkt.configs(SMALL, 1)[0]
    dataset = datasets.load(config)
    alone = fmean(accuracy(local_only(config, dataset, n), dataset.test) for n in range(4))
    assert fedkt.solo(config)["accuracy"] == pytest.approx(alone)
    share = (dataset.test.y == 1).mean()
    assert fedkt.majority(config)["accuracy"] == max(share, 1 - share)
    assert fedkt.pate(config)["accuracy"] > 0.85


NETWORK = {
    "learner": "tests.federation.learners.network", "student": "tests.federation.learners.network",
    "learner-params": "{}", "student-params": "{}", "epochs": 20, "batch-size": 16, "learning-rate": 0.01,
}  # fmt: skip


def test_fedkts_student_goes_on_as_the_first_model_of_fedprox() -> None:
    runs = fedkt_rounds.measure({**SMALL, **NETWORK}, 1, 3)
    assert list(runs) == ["1", "2", "3"]
    # FedKT is trained to the end before the others begin.
    assert runs["1"].mean("FedKT-Prox") > 0.85
    assert runs["2"].mean("FedKT-Prox") > runs["1"].mean("FedKT-Prox") - 0.1
    assert all(set(found.values) == set(fedkt_rounds.METHODS) for found in runs.values())


def test_one_round_of_fedkt_stands_beside_one_of_what_shares_weights() -> None:
    found = fedkt_one_round.measure({**SMALL, **NETWORK}, 1)
    assert set(found.values) == set(fedkt_one_round.METHODS) > set(fedkt_one_round.PAPER)
    # Control variates begin at zero, so nothing is corrected yet.
    assert found.mean("SCAFFOLD, SGD") == found.mean("FedAvg, SGD")
    assert found.mean("FedKT") > 0.85
    assert found.mean("PATE") > 0.85


def test_the_traffic_of_a_link_is_told_for_a_round_and_a_day() -> None:
    runs = {
        "silos": Runs(
            {
                "round_up": [3000.0, 3200.0],
                "round_down": [900.0, 1100.0],
                "start": [50_000.0, 52_000.0],
                "idle_up": [2e6, 2e6],
                "idle_down": [4e5, 4e5],
            }
        ),
        "coordinator": Runs({"seconds": [0.9, 1.1]}),
    }
    text = traffic._text(runs)
    assert "| a round | 3.1 kB | 1.0 kB |" in text
    assert "| a day without a study | 2.0 MB | 0.4 MB |" in text
    assert "carry 51 kB more" in text
    assert "takes 1.00 s in the median of 2 rounds" in text


def test_a_relay_counts_what_it_carries_each_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target, Relay(target.getsockname()[1]) as relay:
        before = traffic.Carried.of(relay)
        with socket.create_connection(("127.0.0.1", relay.port)) as caller:
            caller.sendall(b"twelve bytes")
            server, _ = target.accept()
            with server:
                assert server.recv(100) == b"twelve bytes"
                server.sendall(b"five!")
                assert caller.recv(100) == b"five!"
        assert traffic.Carried.of(relay).since(before) == (12, 5)
