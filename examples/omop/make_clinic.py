"""Make up a clinic: three tables of the OMOP Common Data Model 5.4 in a SQLite database. No patient in them exists.

``python make_clinic.py FILE [SEED]``
"""

import random
import sqlite3
import sys
from collections.abc import Iterator
from datetime import date, timedelta

DIABETES, HYPERTENSION, KIDNEY_DISEASE, ASTHMA = 201826, 320128, 46271022, 317009
HBA1C, SYSTOLIC, CREATININE, HEART_RATE = 3004410, 3004249, 3016723, 3027018
FEMALE, MALE = 8532, 8507
TABLES = (
    "CREATE TABLE person (person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER NOT NULL, "
    "year_of_birth INTEGER NOT NULL, race_concept_id INTEGER NOT NULL, ethnicity_concept_id INTEGER NOT NULL)",
    "CREATE TABLE condition_occurrence (condition_occurrence_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL, "
    "condition_concept_id INTEGER NOT NULL, condition_start_date DATE NOT NULL, condition_type_concept_id INTEGER)",
    "CREATE TABLE measurement (measurement_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL, "
    "measurement_concept_id INTEGER NOT NULL, measurement_date DATE NOT NULL, value_as_number NUMERIC(10, 2))",
)
EHR = 32817


def rows(seed: int, persons: int = 400) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Each row of each table, with the table's name."""
    rng = random.Random(seed)  # noqa: S311
    conditions = measurements = 0

    def day(first: int, last: int) -> str:
        start = date(first, 1, 1)
        return (start + timedelta(rng.randrange((date(last, 12, 31) - start).days))).isoformat()

    for person in range(1, persons + 1):
        born, gender = rng.randrange(1935, 2004), rng.choice((FEMALE, MALE))
        diabetic, tense = rng.random() < 0.7, rng.random() < 0.4
        creatinine = rng.gauss(0.8 + 0.15 * (gender == MALE), 0.2) + 0.004 * (2023 - born)
        hba1c, systolic = rng.gauss(5.6 + 1.4 * diabetic, 0.8), rng.gauss(124 + 16 * tense, 10)
        risk = 4 * (creatinine - 1.1) + 0.6 * (hba1c - 7) + 0.03 * (systolic - 130) + rng.gauss(0, 0.7)
        yield "person", (person, gender, born, 0, 0)
        before = [(DIABETES, diabetic, 2010, 2022), (HYPERTENSION, tense, 2010, 2022)]
        others = [(KIDNEY_DISEASE, risk > 0.2, 2023, 2025), (ASTHMA, rng.random() < 0.1, 2000, 2025)]
        for concept, has, first, last in [*before, *others]:
            if has:
                conditions += 1
                yield "condition_occurrence", (conditions, person, concept, day(first, last), EHR)
        levels = [(HBA1C, hba1c, 0.2), (SYSTOLIC, systolic, 5), (CREATININE, creatinine, 0.05), (HEART_RATE, 75, 8)]
        for concept, level, spread in levels:
            # Some were never measured, and some not before 2023.
            for _ in range(rng.choice((0, 1, 2, 4))):
                measurements += 1
                value = round(rng.gauss(level, spread), 2)
                yield "measurement", (measurements, person, concept, day(2019, 2024), value)


if __name__ == "__main__":
    path, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with sqlite3.connect(path) as connection:
        for table in TABLES:
            connection.execute(table)
        for name, row in rows(seed):
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    connection.close()
    print(f"{path} has made-up patients in the tables of OMOP CDM 5.4")
