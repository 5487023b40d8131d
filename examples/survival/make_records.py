"""Make up follow-up of four clinics' patients and public examples without it, in the folder ``clinics``."""

from pathlib import Path

import numpy as np
import pandas as pd

STAGES = ["I", "II", "III"]
folder = Path("clinics")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(1)
for name, number in {"public": 300, "aachen": 60, "berlin": 45, "celle": 30, "dresden": 30}.items():
    age, marker, stage = rng.normal(64, 9, number), rng.lognormal(1, 0.6, number), rng.integers(0, 3, number)
    risk = 0.04 * (age - 64) + 0.25 * (marker - 3) + 0.7 * (stage - 1)
    # Years until death, and until the clinic last saw the patient.
    death, seen = rng.exponential(4 * np.exp(-risk)), rng.uniform(1, 6, number)
    table = pd.DataFrame({"age": age.round(), "marker": marker.round(2), "stage": [STAGES[each] for each in stage]})
    if name != "public":
        table["days"], table["died"] = (365 * np.minimum(death, seen)).round(), (death <= seen).astype(int)
    table.to_csv(folder / f"{name}.csv", index=False)
