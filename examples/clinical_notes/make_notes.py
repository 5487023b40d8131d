"""Make up notes of three hospitals and public ones, in the folder ``notes``."""

import csv
from pathlib import Path

import numpy as np

ILL = ["chest pain at night", "short of breath at rest", "fever since monday", "pain at rest", "breath short at night"]
WELL = ["no complaint", "walks well", "sleeps well", "fine since monday", "no pain at rest", "fine at night"]
folder = Path("notes")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)
for name, number in {"public": 80, "nord": 40, "west": 40, "sued": 40}.items():
    with (folder / f"{name}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "note", *([] if name == "public" else ["admitted"])])
        for _ in range(number):
            ill = rng.random() < 0.5
            note = f"{rng.choice(ILL if ill else WELL)}, visit {rng.integers(1, 10)}"
            rows.writerow([rng.integers(40, 91), note, *([] if name == "public" else ["yes" if ill else "no"])])
(folder / "data.toml").write_text('text = ["note"]\n')
