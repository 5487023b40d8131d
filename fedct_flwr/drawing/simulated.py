"""Drawn public sets in simulations, as a user asks for them: of the records that the silos of a run train with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config.study import StudyDraw
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, first_of
from fedct_flwr.drawing.cells import Form
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.types import Answers, ConfigError, DataError, generator

if TYPE_CHECKING:
    # Needs the extra privacy.
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.drawing.counts import DrawingPlan


@dataclass(frozen=True)
class Drawn:
    """A public set to draw, as ``public`` of ``simulate()``, where no real one exists.

    Its ``rows`` examples are drawn from counts of each column's values in the silos' records, with noise. At real silos
    these counts are ``(epsilon, delta)``-DP for a record, or for a patient with a group column, apart from what labels
    cost; with ``epsilon`` 0 none are used, and values spread evenly. ``dictionary`` is a file (TOML, a frictionless
    Table Schema, REDCap's CSV) or a mapping of columns to their form: ``{"age": {"kind": "integer", "range": [18,
    100]}}``. Without one, ranges and categories come from all tables, with a PrivacyWarning.
    """

    epsilon: float = 1.0
    dictionary: Path | str | Mapping[str, Mapping[str, Any]] | None = None
    rows: int = 2000
    delta: float = 1e-5

    def settings(self) -> dict[str, Any]:
        """The values of the run config that lead to it."""
        given = self.dictionary or ""
        return {
            "public": "drawn",
            "draw-epsilon": float(self.epsilon),
            "draw-rows": self.rows,
            "draw-dictionary": json.dumps({"columns": given}) if isinstance(given, Mapping) else str(given),
            **({"draw-delta": self.delta} if self.epsilon else {}),
        }


def with_drawn(dataset: FederatedDataset, config: "RunConfig") -> FederatedDataset:
    """The data set with a drawn public set, of the silos' training records, as the run config says.

    Formal guarantees:
        Those of ``DrawingPlan.noise``, for one record of any silo (one patient, with a group column), if noise came
        from a secure source; that of a simulation follows from the seed. Ranges and categories that are taken from
        tables have no guarantee.

    Raises DataError for a data set that is no table of numbers and categories, ConfigError for a dictionary that says
    something else.
    """
    schema = dataset.schema
    if not schema.columns or schema.texts:
        raise DataError(
            f"{dataset.name!r} has images or free text, and public sets are drawn of numbers, dates and categories: "
            "leave public = 'drawn' out, or take any public corpus as public set"
        )
    plan, rng = plan_of(dataset, config) if config.draw_epsilon else None, generator(config.seed, "drawn set")
    form = plan.form if plan else Form(_dictionary(dataset, config), schema.columns)
    cells, y, notes = placed(form, dataset.silos)
    if plan:
        X, note = _counts().draw(plan, sum_of(plan, cells, y, config.seed), config.draw_rows, rng)
        notes += [note] if note else []
    else:
        X = form.uniform(config.draw_rows, rng)
    return replace(dataset, public=PublicSet(X), truth=None, table_one=None, notes=(*dataset.notes, *notes))


def plan_of(dataset: FederatedDataset, config: "RunConfig") -> "DrawingPlan":
    """Plan of a simulation's counts. Raises ConfigError, or DataError for patients that cannot be told apart."""
    counts = _counts()
    dataset.check_protected()
    records = sum(silo.units for silo in dataset.silos)
    agreed = StudyDraw.model_construct(records=records, epsilon=config.draw_epsilon, delta=config.draw_delta)
    plan: DrawingPlan = counts.DrawingPlan.of(_dictionary(dataset, config), dataset.schema, agreed)
    return plan


def _dictionary(dataset: FederatedDataset, config: "RunConfig") -> "Dictionary":
    return Dictionary.of_setting(config.draw_dictionary) if config.draw_dictionary else derived(dataset)


def placed(form: Form, silos: Sequence[SiloData]) -> tuple[NDArray[np.intp], Answers, list[str]]:
    """The cells of all silos' records ``(records, columns)``, labels, and a sentence for each with values outside.

    A patient counts by one record, the first: then that is the unit, and no count needs more noise.
    """
    found = {silo.name: form.place(silo.private.X[first_of(silo.groups)]) for silo in silos}
    notes = [f"silo {silo!r} has {outside}" for silo, (_, outside) in found.items() if outside]
    y = np.concatenate([silo.private.y[first_of(silo.groups)] for silo in silos])
    return np.concatenate([cells for cells, _ in found.values()]), y, notes


def sum_of(plan: "DrawingPlan", cells: NDArray[np.intp], y: Answers, seed: int) -> NDArray[np.int64]:
    """A simulation's sum of counts, with noise that follows from the seed."""
    counts: NDArray[np.int64] = plan.counts(cells, y)
    return counts + plan.noise.share(SimulatedNoise(generator(seed, "noise of the drawn set")))


def _counts() -> ModuleType:
    try:
        return import_module("fedct_flwr.drawing.counts")
    except ImportError:
        raise ConfigError(
            "a public set drawn from counts needs more packages: pip install -c constraints.txt -e '.[privacy]', or "
            "set draw-epsilon to 0"
        ) from None


def derived(dataset: FederatedDataset) -> "Dictionary":
    """Ranges, categories and shares of missing values as all tables together have them."""
    X = np.concatenate([dataset.public.X, *(silo.private.X for silo in dataset.silos)]).astype(np.float64)
    columns: dict[str, Any] = {}
    for column, values in zip(dataset.schema.columns, X.T, strict=True):
        known = values[~np.isnan(values)]
        form: dict[str, Any] = {"missing": 1 - len(known) / len(values)}
        if column.categories is not None:
            form |= {"kind": "category", "categories": column.categories}
        else:
            least, most = (known.min(), known.max()) if len(known) else (0.0, 1.0)
            kind = "integer" if (known == np.rint(known)).all() else "number"
            form |= {"kind": kind, "range": [least, most if most > least else least + 1]}
        columns[column.name] = form
    return Dictionary.read({"columns": columns}, f"what {dataset.name!r} has")


WITHOUT_DICTIONARY: Final = (
    "the drawn public set takes ranges and categories from the silos' tables, which no epsilon covers: a real study "
    "needs a data dictionary, so give draw-dictionary"
)
"""A warning."""
