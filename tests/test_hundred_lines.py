"""The example of a hundred lines decides as the product does: it is the idea, not another algorithm."""

import runpy
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import AT_RANDOM
from fedct_flwr import FedCT, datasets, simulate
from fedct_flwr.algorithms.fedct import DawidSkene, Plurality
from fedct_flwr.config.run import RunConfig
from tests.datasets.test_load import RAW
from tests.readme import ROOT

IDEA = runpy.run_path(str(ROOT / "examples" / "fedct_in_100_lines.py"))
LINEAR = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), LogisticRegression(max_iter=500))


@pytest.mark.filterwarnings("ignore::fedct_flwr.types.DataWarning")  # of the data sets as they are
@pytest.mark.parametrize(("rule", "own"), [(Plurality(), "majority"), (DawidSkene(), "dawid_skene")])
@pytest.mark.parametrize("data", ["breast-cancer", "heart-disease", "adult"])
def test_labels_and_accuracies_are_those_of_the_product(
    data: str, rule: Any, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (RAW / "adult.csv.gz").is_file() and data == "adult":
        pytest.skip(f"the data set is not in {RAW}")
    monkeypatch.setenv("FEDCT_DATA", str(RAW))
    monkeypatch.setitem(datasets.LOADERS, "adult", AT_RANDOM["adult"])
    dataset = datasets.load(RunConfig.from_flower({"study": "idea", "data": data}))
    # An odd number of silos: lots that decide a tie are the product's own.
    silos = {silo.name: (silo.private.X[:300], silo.private.y[:300].astype(int)) for silo in dataset.silos[:3]}
    public, test = dataset.public.X[:500], dataset.test
    run = simulate(
        silos, public, algorithm=FedCT(rule), learner=LINEAR, rounds=3, pseudo_weight=1.0, preprocessing="none",
        test_fraction=0.0, progress=False,
    )  # fmt: skip
    models, labels = IDEA["cotrain"](silos, public, LINEAR, rule=IDEA[own], rounds=3, guard=False)
    np.testing.assert_array_equal(run.consensus, labels)
    for name, model in models.items():
        right = [float((each.predict(test.X) == test.y).mean()) for each in (run.models[name], model)]
        assert right[0] == pytest.approx(right[1], abs=5e-4)


def test_the_guard_refuses_labels_that_own_records_speak_against() -> None:
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    right = (public[:, 0] > 0).astype(int)
    trusts = IDEA["trusts"]
    assert trusts(LINEAR, X, (X[:, 0] > 0).astype(int), public, right)
    assert not trusts(LINEAR, X, (X[:, 0] > 0).astype(int), public, 1 - right)
