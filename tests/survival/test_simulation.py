"""A federation that learns time to an event, from tables to scores and a report."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner
from xgboost import XGBRegressor

from fedct_flwr import Drawn, Run, simulate
from fedct_flwr.algorithms.fedct import FedCT
from fedct_flwr.algorithms.targets import MedianGrade
from fedct_flwr.cli.main import app
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.learners.survival import ByFunction, LogHazard, SurvivalLearner, survival_learner
from fedct_flwr.survival.cox import RidgeCox
from fedct_flwr.survival.measures import Times, concordance
from fedct_flwr.survival.model import RiskModel
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, DataError, DataWarning, Examples, LearnerError, RunError
from tests.survival.made import federation, frame, records


def _run(**settings: Any) -> Run:
    tables, public = federation(size=30)
    options = {"time": "days", "event": "died", "progress": False, "baselines": "local", "public": public, **settings}
    return simulate(options.pop("silos", tables), **options)


@pytest.fixture(scope="module")
def run() -> Run:
    rng = np.random.default_rng(5)
    tests = {f"silo-{number}": frame(rng, 60) for number in range(4)}
    return _run(baselines="all", horizons=[50.0, 150.0], tests=tests)


def test_silos_gain_and_all_scores_have_intervals(run: Run) -> None:
    assert run.measure == "concordance"
    assert run.scores["pooled_federated"].mean() > run.scores["pooled_local"].mean()
    metrics = run.metrics
    assert set(metrics["metric"]) == {
        "concordance",
        *(f"{name}_at_{horizon}" for name in ("auc", "brier", "calibration") for horizon in (50, 150)),
    }
    known = metrics[metrics["test"] == "pooled"]
    assert known.groupby("method")["metric"].nunique().tolist() == [7, 7, 7], "alone, co-trained and pooled alike"
    assert ((known["low"] <= known["value"]) & (known["value"] <= known["high"])).all()
    assert set(run.consensus) == {1, 2, 3, 4, 5}
    # A label of 300 examples takes 19 bytes more than three bits each.
    assert run.records[0]["silos"]["silo-0"]["bytes_sent"] < 220


def test_models_rank_new_records_and_state_chances(run: Run, tmp_path: Path) -> None:
    fresh = frame(np.random.default_rng(8), 500)
    model = run.models["silo-0"]
    found = concordance(Times(fresh["days"].to_numpy(), fresh["died"].to_numpy() == 1), model.predict(fresh))
    assert model.score(fresh, (fresh["days"], fresh["died"])) == pytest.approx(found.value)
    assert found.value > 0.65
    chances = model.chances(fresh, [50.0, 150.0])
    assert ((chances[:, 0] <= chances[:, 1]) & (chances >= 0).all(axis=1) & (chances <= 1).all(axis=1)).all()
    assert np.array_equal(model.chances(fresh, 50), chances[:, :1])
    with pytest.raises(DataError, match="a pair"):
        model.score(fresh, fresh["days"])
    with pytest.raises(DataError, match="'events' of the list of outcomes"):
        model.score(fresh, (fresh["days"], fresh["died"] + 1))
    with pytest.raises(DataError, match="of time to an event"):
        run.by_group("a")
    page = run.report(tmp_path / "report.html").read_text("utf-8")
    assert all(words in page for words in ("Follow-up by predicted grade", "AUC at 50", "observed less stated at 150"))


def test_table_one_has_follow_up_and_events_and_finds_another_unit(run: Run) -> None:
    tables, _ = federation(size=30)
    rows = {row.column: row for row in run.dataset.table_one.rows}  # type: ignore[union-attr]
    assert rows["days"].sites[0].numbers[1] == pytest.approx(tables["silo-0"]["days"].median())  # type: ignore[index]
    assert rows["died"].sites[0].words == {
        "yes": tables["silo-0"]["died"].sum(),
        "no": 30 - tables["silo-0"]["died"].sum(),
    }
    tables = {**tables, "silo-2": tables["silo-2"].assign(days=tables["silo-2"]["days"] * 365)}
    with pytest.warns(DataWarning, match="'days' at silo silo-2 lies apart"):
        _run(silos=tables)


def test_sums_give_the_same_grades_and_a_median_others() -> None:
    plain, summed = _run(baselines="none"), _run(baselines="none", secure=True)
    assert plain.consensus.tolist() == summed.consensus.tolist()
    judged = [(path / "verdict.json").read_text() for path in (plain.path, summed.path)]
    assert judged[0] == judged[1]
    assert '"weight": 1.0' in judged[0]
    assert _run(baselines="none", algorithm=MedianGrade()).consensus.tolist() != plain.consensus.tolist()
    with pytest.raises(ConfigError, match="a median is not made of a sum"):
        _run(algorithm="fedct-median-grades", secure=True)


def test_any_ranking_takes_the_place_of_cox() -> None:
    def fit(X: Any, time: Any, event: Any) -> Any:
        trained = RidgeCox(0.05).fit(X, Times(time, event).signed)
        return lambda X: trained.predict(X)

    found = _run(learner=fit)
    assert found.scores["pooled_federated"].mean() > 0.7
    boosted = _run(learner="xgboost", learner_params={"n_estimators": 20, "max_depth": 2})
    assert boosted.scores["pooled_local"].mean() > 0.6
    cox = XGBRegressor(objective="survival:cox")
    voting = VotingRegressor([("cox", cox), ("blind", Ridge())])
    for blind in ("random-forest", RandomForestRegressor(), make_pipeline(StandardScaler(), Ridge()), voting):
        with pytest.raises(LearnerError, match="does not take censored times"):
            _run(learner=blind)
    with pytest.raises(LearnerError, match=r"_Object does not take censored times: .* a function fit"):
        _run(learner=_Object())
    with pytest.raises(LearnerError, match="penalty is its only one"):
        _run(learner="cox", learner_params={"alpha": 1})
    for penalty in (-1, "a", float("nan")):
        with pytest.raises(LearnerError, match="give a number of 0 or more"):
            survival_learner(LearnerSettings(name="cox", params={"penalty": penalty}), 0, "silo-0", None)


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: make_pipeline(StandardScaler(), each)])
def test_boosted_risks_are_log_hazards_and_an_event_at_once_is_one(wrap: Any, tmp_path: Path) -> None:
    """As ratios they spoiled chances, and XGBoost takes a time of 0 as censored."""
    X, times = records(np.random.default_rng(1), 200)
    time = np.where(X[:, 0] > 1.5, 0.0, times.time)
    signed = Times(time, times.event).signed
    settings = {"n_estimators": 20, "max_depth": 2, "random_state": 0}
    ours = LogHazard(wrap(XGBRegressor(objective="survival:cox", **settings))).fit(X, signed)
    least = time[time > 0].min() / 2
    theirs = XGBRegressor(objective="survival:cox", **settings)
    theirs.fit(StandardScaler().fit_transform(X), Times(np.maximum(time, least), times.event).signed)
    margin = theirs.predict(StandardScaler().fit_transform(X), output_margin=True)
    assert np.ptp(ours.predict(X) - margin) < 1e-4
    learner = survival_learner(LearnerSettings(name="xgboost"), 0, "silo-0", None).fit(X, signed)
    learner.save(tmp_path / "model.skops")
    again = survival_learner(LearnerSettings(name="xgboost"), 0, "silo-0", None).load(tmp_path / "model.skops")
    assert again.predict(X).tolist() == learner.predict(X).tolist()


def test_the_level_of_scores_changes_no_chance() -> None:
    """A mean of hazard ratios has another level in each fit, as a function of one's own may have."""
    levels = iter(range(1000))

    def fit(X: Any, time: Any, event: Any) -> Any:
        trained, level = RidgeCox(0.05).fit(X, Times(time, event).signed), next(levels)
        return lambda X: trained.predict(X) + level

    X, times = records(np.random.default_rng(2), 100)
    found = [RiskModel(own).fit(X, times.signed).chances(X, [0.4]) for own in (RidgeCox(0.05), ByFunction(fit))]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_after_a_silos_last_time_there_is_no_chance() -> None:
    """A silo that followed its records for 50 days gave its chance up to then for that of a year."""
    tables, public = federation()
    young = tables["silo-0"].assign(died=lambda table: table["died"] * (table["days"] < 50))
    tables = {**tables, "silo-0": young.assign(days=young["days"].clip(upper=50))}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = _run(silos=tables, public=public, horizons=[40, 100], rounds=1)
    (about,) = [str(each.message) for each in told if "follows no record" in str(each.message)]
    assert "'days' at silo silo-0 follows no record up to 100, a horizon of the study" in about
    with pytest.warns(DataWarning, match="own records end at 50, so there is no chance up to 100: ask for earlier"):
        found = run.models["silo-0"].chances(public, [40, 50, 100])
    assert np.isnan(found).all(axis=0).tolist() == [False, False, True]
    assert np.isfinite(run.models["silo-1"].chances(public, [100])).all()
    assert run.scores["pooled_federated_brier_at_100"].isna().tolist() == [True, False, False, False]
    for horizon in (float("nan"), -1):
        with pytest.raises(ConfigError, match="horizons are times of 0 or more"):
            run.models["silo-1"].chances(public, [horizon])


class _Object:
    def fit(self, X: Any, time: Any, event: Any) -> None:
        """Of another library's form."""

    def predict(self, X: Any) -> Any:
        return X


def test_scores_that_are_times_are_said() -> None:
    """Their concordance was that of the wrong way round, and no silo gave a grade, in silence."""
    tables, _ = federation(size=80)
    learner = {name: _times if name == "silo-0" else "cox" for name in tables}
    with pytest.warns(DataWarning, match="silo-0 rank its records the wrong way round: scores must be larger") as said:
        _run(silos=tables, learner=learner, rounds=1)
    assert "silo-1" not in str([each.message for each in said])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RunError, match="no silo ranks its own records better than chance"):
            _run(silos=tables, learner=_times, rounds=1)


def _times(X: Any, time: Any, event: Any) -> Any:
    trained = RidgeCox(0.05).fit(X, Times(time, event).signed)
    return lambda X: np.exp(-trained.predict(X))


class _Backwards(RidgeCox):
    """Ranks by chance the wrong way round, as a built-in learner may with two events."""

    def predict(self, X: Any) -> Any:
        return -super().predict(X)


@pytest.mark.parametrize(("learner", "warned"), [(_Backwards(0.1), False), (ByFunction(_times), True)])
def test_only_a_function_of_ones_own_is_told_to_turn_its_scores(learner: Any, warned: bool) -> None:
    X, times = records(np.random.default_rng(0), 80)
    targets, positions = np.full(5, ABSTAIN, dtype=LABEL_DTYPE), np.arange(5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SurvivalLearner(learner, None, 0, "essen").grade(Examples(X, times.signed), X[:5], targets, positions)
    assert bool(said) == warned


def _fails(X: Any, time: Any, event: Any) -> Any:
    raise ValueError("no")


def _knows_nothing(X: Any, time: Any, event: Any) -> Any:
    return lambda X: np.full(len(X), np.nan)


@pytest.mark.parametrize(
    ("fails", "said"), [(_fails, "ByFunction could not rank records: ValueError"), (_knows_nothing, "not finite")]
)
def test_a_failing_ranking_is_named_and_the_others_go_on(fails: Any, said: str) -> None:
    tables, _ = federation(size=30)
    with pytest.warns(UserWarning, match=said):
        found = _run(learner={name: fails if name == "silo-0" else "cox" for name in tables})
    assert found.records[0]["absent"].keys() == {"silo-0"}


def test_a_silo_that_cannot_rank_gives_no_grade_and_learns_from_others() -> None:
    tables, _ = federation(size=30)
    rng = np.random.default_rng(0)
    noise = tables["silo-1"].assign(**{name: rng.permutation(tables["silo-1"][name]) for name in "abcd"})
    # One event, which the split puts into the records to train on or to test with.
    rare = tables["silo-2"].assign(died=[1] + [0] * 29)
    found = _run(silos={**tables, "silo-1": noise, "silo-2": rare}, inspect=False)
    silos = {name: each["agreement"] for name, each in found.records[-1]["silos"].items()}
    assert silos.pop("silo-2") == 0
    voting = [agreement for agreement in silos.values() if agreement]
    assert found.records[-1]["agreement"] == pytest.approx(np.mean(voting)), "those that abstain do not count"
    assert found.scores["pooled_federated"]["silo-2"] > 0.7


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"time": ""}, "time and event go together"),
        ({"label": "days"}, "leave one out"),
        ({"horizons": [-1]}, "times above 0"),
        ({"horizons": [50, 1e6]}, r"no record is followed up to horizon 1e\+06 without the event"),
        ({"algorithm": FedCT()}, "is not for time to an event"),
        ({"protection": "dp-linear"}, "needs classes"),
        ({"student": "ridge"}, "needs classes"),
        ({"report_scores": True}, "report-scores has no effect"),
        ({"pseudo_weight": 0.5}, "pseudo-weight has no effect"),
    ],
)
def test_what_is_not_built_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _run(**settings)


def test_grades_are_refused_without_times() -> None:
    tables, public = federation(size=30)
    tables = {name: table.drop(columns="days") for name, table in tables.items()}
    with pytest.raises(ConfigError, match="is for time to an event"):
        simulate(tables, public, label="died", algorithm="fedct-grades", progress=False, inspect=False)


def test_a_table_without_an_event_is_refused_by_its_name() -> None:
    tables, _ = federation(size=30)
    with pytest.raises(DataError, match="silo 'silo-3' has no event"):
        _run(silos={**tables, "silo-3": tables["silo-3"].assign(died=0)})


@pytest.mark.parametrize("event", [[True, False], [1.0, 0.0]])
def test_events_may_be_truth_values(event: list[Any]) -> None:
    tables, _ = federation(size=30)
    given = {name: table.assign(died=np.where(table["died"] == 1, *event)) for name, table in tables.items()}
    assert _run(silos=given, baselines="none").status == "completed"


def test_words_for_events_are_refused_by_what_to_write() -> None:
    tables, _ = federation(size=30)
    given = {name: table.assign(died=np.where(table["died"] == 1, "yes", "no")) for name, table in tables.items()}
    with pytest.raises(DataError, match=r"'died' of .* holds 'large_string': write 1 where the event was seen"):
        _run(silos=given)


def test_no_public_set_is_needed_and_noise_on_grades_is_charged(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = _run(public=Drawn(0), draw_rows=400, run_dir=tmp_path / "drawn")
        noisy = _run(protection="randomized-response", epsilon=8.0, query_size=40, rounds=2, run_dir=tmp_path / "noisy")
    assert drawn.scores["pooled_federated"].mean() > drawn.scores["pooled_local"].mean()
    assert (tmp_path / "noisy" / "privacy" / "silo-0").is_dir()
    # Grades under this noise teach nothing: the set's epsilon is not that of the labels.
    assert noisy.scores["pooled_federated"].mean() < drawn.scores["pooled_federated"].mean()


def test_the_command_line_takes_a_folder(tmp_path: Path) -> None:
    tables, public = federation(size=30)
    for name, table in {**tables, "public": public}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    inspected = CliRunner().invoke(app, ["inspect", str(tmp_path), "--label", "days", "--event", "died", "--json"])
    assert inspected.exit_code == 0
    assert '"column": "died"' in inspected.output
    settings = ("outcome=survival", "event-column=died", "baselines=local", "save-models=true")
    of_times = [f"--set={each}" for each in settings]
    done = CliRunner().invoke(
        app,
        ["simulate", "--data-dir", str(tmp_path), "--label", "days", "--algorithm", "fedct-grades", *of_times,
         "--seed", "0", "--in-process", "--run-dir", str(tmp_path / "run")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "concordance" in done.output
    models = [path for path in (tmp_path / "run" / "models").iterdir() if path.suffix == ".skops"]
    scored = ["evaluate", str(tmp_path / "silo-0.csv"), "--label", "days", "--model", str(models[0])]
    predicted = CliRunner().invoke(app, ["predict", str(tmp_path / "public.csv"), "--model", str(models[0])])
    assert predicted.stdout.splitlines()[0].endswith(",risk")
    refused = CliRunner().invoke(app, scored)
    assert "ranks risks of the time 'days'" in str(refused.exception)
