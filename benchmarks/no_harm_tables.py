"""Real sites from tables of R packages: schools, villages, districts, hospitals and provinces, with few records each.

The tables are not part of this repository. In R,
``write.csv(mlmRev::Hsb82, gzfile("hsb82.csv.gz"), row.names = FALSE)`` writes one; it belongs in ``r-tables`` in the
folder that ``FEDCT_DATA`` names. ``NO_HARM_ROWS`` then chooses the rows, for example ``table-hsb82,table-chile``. By
those in ``HELD`` nothing was chosen: use them to confirm.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from benchmarks.natural_silos import Source, load_source
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, pool
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples

_FOLDER: Final = "r-tables"
_MOST_SILOS: Final = 12
_FEWEST: Final = 8
_MOST: Final = 400
_TESTED: Final = 200
_FEWEST_PUBLIC: Final = 60


def _source(name: str, by: str, label: str, positive: str | int, unused: str = "") -> Source:
    return Source(_FOLDER, f"{name}.csv.gz", by, label, positive, ("no", "yes"), unused.split())


CHOSEN_ON: Final = {
    "hsb82": _source("hsb82", "school", "mAch", 13, "cses"),
    "bdf": _source("bdf", "schoolNR", "langPOST", 42, "aritPOST pupilNR classNR IQ.ver.cen avg.IQ.ver.cen grpSiz.cen"),
    "guprenat": _source("guprenat", "cluster", "prenat", "Modern", "kid mom"),
    "contraception": _source("contraception", "district", "use", "Y", "woman"),
    "chile": _source("chile", "region", "vote", "Y"),
    "ces11": _source("ces11", "province", "abortion", "Yes", "id population weight"),
    "scotssec": _source("scotssec", "second", "attain", 6, "primary"),
    "azpro": _source("azpro", "hospital", "los", 8),
}
"""mlmRev (Hsb82, guPrenat, Contraception, ScotsSec), nlme (bdf), carData (Chile, CES11) and COUNT (azpro)."""
HELD: Final = {
    "exam": _source("exam", "school", "normexam", 0, "student schgend schavg intake"),
    "guimmun": _source("guimmun", "comm", "immun", "Y", "kid mom"),
    "aids2": _source("aids2", "state", "status", "D", "death"),
    "medpar": _source("medpar", "provnum", "died", 1, "los"),
    "nmes": _source("nmes", "region", "insurance", "yes", "medicaid"),
}
"""mlmRev (Exam, guImmun), MASS (Aids2), COUNT (medpar) and AER (NMES1988)."""


def load(name: str, source: Source, config: RunConfig) -> FederatedDataset:
    """Up to twelve sites at random, of 8 to 400 records to train on, and a third as many public examples.

    Raises DataError if the table is not there.
    """
    whole = load_source(name, source, config)
    rng = generator(config.seed, "tables", name)
    large = [silo for silo in whole.silos if silo.private.size >= _FEWEST]
    kept = [large[place] for place in np.sort(rng.permutation(len(large))[:_MOST_SILOS])]
    silos = tuple(
        SiloData(
            silo.name,
            Examples(silo.private.X[:_MOST], silo.private.y[:_MOST]),
            Examples(silo.test.X[:_TESTED], silo.test.y[:_TESTED]),
        )
        for silo in kept
    )
    most = max(_FEWEST_PUBLIC, sum(silo.private.size for silo in silos) // 3)
    some = rng.permutation(len(whole.public))[:most]
    return FederatedDataset(
        name=name,
        schema=whole.schema,
        public=PublicSet(whole.public.X[some]),
        silos=silos,
        test=pool([silo.test for silo in silos]),
    )


ROWS: Final[Mapping[str, Callable[[RunConfig], FederatedDataset]]] = {
    f"table-{name}": partial(load, f"table-{name}", source) for name, source in {**CHOSEN_ON, **HELD}.items()
}
"""Loaders by name."""
