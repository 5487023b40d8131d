"""Runs that differ in their seed alone: what is run, what is kept, and the means."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr import ConfigError, RunError, repeat, simulate
from fedct_flwr.scoring.intervals import Verdict
from fedct_flwr.simulation import repeats as repeats_module
from fedct_flwr.simulation.repeats import Repeats, run_seeds
from fedct_flwr.simulation.run import Run


def tables() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(0)

    def records(n: int) -> tuple[Any, Any]:
        X = rng.normal(size=(n, 3))
        return X, (X[:, 0] + rng.normal(size=n)) > 0

    return {"a": records(60), "b": records(60)}, records(40)[0]


def repeated(number: int, **more: Any) -> Repeats:
    settings = {"learner": "naive-bayes", "rounds": 2, "progress": False, **more}
    return repeat(number, *tables(), **settings)


def test_each_seed_is_the_run_that_it_would_be_alone(tmp_path: Path) -> None:
    found = repeated(2, seed=5, run_dir=tmp_path / "r")
    alone = simulate(*tables(), learner="naive-bayes", rounds=2, seed=6, progress=False)
    assert found.seeds == (5, 6)
    assert [row.__dict__ for row in found.rows[1]] == [row.__dict__ for row in alone.rows]
    assert [run.config.seed for run in found.runs] == [5, 6]


def test_what_was_stopped_goes_on_and_what_has_ended_stays(tmp_path: Path) -> None:
    straight = repeated(4, run_dir=tmp_path / "straight")
    ended: list[int] = []

    class StopError(Exception):
        pass

    def stop(run: Run) -> None:
        ended.append(run.config.seed)
        if len(ended) == 2:
            raise StopError

    folder = tmp_path / "r"
    with pytest.raises(StopError):
        repeated(4, run_dir=folder, progress=stop)
    assert sorted(path.name for path in folder.glob("seed-*")) == ["seed-0", "seed-1"]
    # One that was stopped in its first round, one that has ended unscored, and one in its second round.
    (folder / "seed-1" / "scores.json").unlink()
    (folder / "seed-2").mkdir()
    (folder / "seed-2" / "config.json").write_text("{}")
    before = (folder / "seed-0" / "scores.json").stat().st_mtime_ns
    found = repeated(4, resume=folder)
    assert (folder / "seed-0" / "scores.json").stat().st_mtime_ns == before
    assert [[row.__dict__ for row in rows] for rows in found.rows] == [
        [row.__dict__ for row in rows] for rows in straight.rows
    ]
    assert repeated(5, resume=folder).seeds == (0, 1, 2, 3, 4)
    assert repeated(2, resume=folder).seeds == (0, 1, 2, 3, 4)


def test_runs_of_other_settings_are_not_averaged(tmp_path: Path) -> None:
    repeated(2, run_dir=tmp_path / "r")
    with pytest.raises(RunError, match="seed 2: the first seed's run has other settings \\(num-server-rounds\\)"):
        repeated(3, resume=tmp_path / "r", rounds=1)
    assert not (tmp_path / "r" / "seed-2").exists()


def test_other_seeds_have_the_settings_of_the_first(tmp_path: Path) -> None:
    repeated(2, run_dir=tmp_path / "r", pseudo_weight=0.5)
    found = repeat(3, *tables(), resume=tmp_path / "r", progress=False)
    assert [run.config.seed for run in found.runs] == [0, 1, 2]
    assert {(run.config.learner, run.config.pseudo_weight) for run in found.runs} == {(("naive-bayes",), 0.5)}
    silos, public = tables()
    with pytest.raises(RunError, match="other data"):
        repeat(4, {**silos, "b": silos["a"]}, public, resume=tmp_path / "r", progress=False)
    assert not (tmp_path / "r" / "seed-3").exists()


def test_a_seed_that_fails_is_named_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = repeats_module.simulate

    def fails(*arguments: Any, **more: Any) -> Run:
        if more.get("seed") == 1:
            raise RunError("no")
        return run(*arguments, **more)

    monkeypatch.setattr(repeats_module, "simulate", fails)
    with pytest.raises(RunError, match="seed 1"):
        repeated(3, run_dir=tmp_path / "r")
    monkeypatch.undo()
    assert Repeats(tmp_path / "r").seeds == (0,)
    assert repeated(3, resume=tmp_path / "r").seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("number", "more"), [(1, {}), (2, {"seed": -1}), (2, {"seed": 2**63 - 1}), (0, {}), (2, {"rounds": 0})]
)
def test_what_cannot_be_run_leaves_nothing(tmp_path: Path, number: int, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        repeated(number, run_dir=tmp_path / "r", **more)
    assert not (tmp_path / "r").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "note").write_text("mine")
    with pytest.raises(RunError, match="exists"):
        repeated(2, run_dir=tmp_path / "r")
    with pytest.raises(RunError, match="no folder of repeated runs"):
        repeated(2, resume=tmp_path / "r")
    with pytest.raises(RunError, match="no folder of repeated runs"):
        Repeats(tmp_path / "r")


def test_the_sentence_says_whether_silos_gain(tmp_path: Path) -> None:
    found = repeated(3, run_dir=tmp_path / "r")
    same = "all seeds gave the same difference (+0.060), as with own test files and a learner without chance"
    for gains, word in (
        ([0.06, 0.05, 0.07], "they gain (+0.060 ±0.006, ahead in 3 of 3 seeds)"),
        ([-0.06, -0.05, -0.07], "they lose (-0.060 ±0.006, ahead in 0 of 3 seeds)"),
        ([0.06, 0.06, 0.06], same),
        # More than two standard errors, of too few seeds.
        ([0.06, 0.02, 0.04], "the difference may be chance (+0.040 ±0.012, ahead in 3 of 3 seeds)"),
        ([0.06, -0.05, 0.01], "the difference may be chance (+0.007 ±0.032, ahead in 2 of 3 seeds)"),
    ):
        for rows, gain in zip(found.rows, gains, strict=True):
            for row in rows:
                row.own.update(local=0.7, federated=0.7 + gain)
                row.pooled.update(row.own)
        where = f"on all silos' test records {word}; on their own {word}"
        assert found.sentence == f"silos with FedCT (Dawid-Skene): {where}"
    for rows in found.rows[1:]:
        rows[0] = replace(rows[0], verdict=Verdict(-0.2, 1, 15, 0.001))
    assert found.sentence.endswith("these lost in some of 3 seeds: a in 2")


def test_the_table_has_the_worst_silo_and_ends_with_enough_splits(tmp_path: Path) -> None:
    found = repeated(2, run_dir=tmp_path / "r")
    worst = [min(row.pooled["federated"] for row in rows) for rows in found.rows]
    assert found.of_worst("pooled")["federated"].mean == pytest.approx(np.mean(worst))
    assert [name for name, _ in found.lines[0][1]] == ["a", "b", "mean", "worst silo", "mean AUC"]
    ended: list[Run] = []
    run_seeds(tmp_path / "r", (0, 1, 2), lambda *_: pytest.fail("enough"), ended.append, seconds=0)
    assert len(ended) == 1


def test_repeats_that_began_with_another_seed_are_refused() -> None:
    with pytest.raises(ConfigError, match="the repeats begin with seed 3 and not 5"):
        repeats_module.planned_seeds(4, 5, (3, 4, 5))


def test_test_tables_next_to_a_named_data_set_are_refused() -> None:
    with pytest.raises(ConfigError, match="tests has no effect"):
        simulate("heart-disease", tests={"cleveland": None})
