"""One test for each thing that can be wrong, by the finding's name, column and silo; and none where nothing is."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.random import Generator

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.inspection import CODES, Finding, Redaction, Severity, gathered
from fedct_flwr.datasets.inspection.data_set import shared_records
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspections import inspect_folder
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.types import ConfigError, DataError
from tests.messy.patients import LABEL, PUBLIC, REFUSED, SAID, SILOS, Case, load, patients


def findings(folder: Path, **settings: object) -> tuple[Finding, ...]:
    given = {key.replace("_", "-"): value for key, value in settings.items()}
    config = {"study": "messy", "data": "files", "data-dir": str(folder), "label-column": LABEL, **given}
    return inspect_folder(RunConfig.from_flower(config)).inspection.findings


def has(found: tuple[Finding, ...], case: Case, severity: Severity) -> bool:
    wanted = (case.code, case.column, case.silo, severity)
    return any((each.code, each.column, each.silo, each.severity) == wanted for each in found)


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_results_meaningless_is_refused(tmp_path: Path, what: str) -> None:
    case, spoiled = REFUSED[what], patients()
    case.spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    found = findings(folder)
    assert has(found, case, Severity.REFUSED), found
    assert {each.code for each in found if each.severity is Severity.REFUSED} == {case.code}
    lifted = any(each.lifted for each in found if each.severity is Severity.REFUSED)
    with pytest.raises(DataError, match=f"accept '{case.code}" if lifted else "leave-out"):
        load(folder)


@pytest.mark.parametrize("what", SAID)
def test_what_is_suspicious_is_said_and_the_run_goes_on(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    found = findings(spoiled.write(tmp_path / "wards"))
    assert has(found, case, Severity.SAID), found
    assert not [each for each in found if each.severity is Severity.REFUSED]


@pytest.mark.parametrize(("records", "seeds"), [(20, 10), (60, 5), (400, 2)])
def test_nothing_is_said_of_healthy_patients(tmp_path: Path, records: int, seeds: int) -> None:
    for seed in range(seeds):
        folder = patients(seed, records, max(20, records)).write(tmp_path / str(seed))
        assert not findings(folder)


@pytest.mark.parametrize("what", ["decimal comma in public", "another unit at a silo", "names"])
def test_a_finding_is_accepted_by_name(tmp_path: Path, what: str) -> None:
    case, spoiled = (REFUSED | SAID)[what], patients()
    case.spoil(spoiled)
    folder = spoiled.write(tmp_path / "wards")
    for name in (case.code, f"{case.code}:{case.column}"):
        assert has(findings(folder, accept=name), case, Severity.ACCEPTED)
    assert not has(findings(folder, accept=f"{case.code}:height"), case, Severity.ACCEPTED)


def test_names_that_no_finding_has_are_errors_that_name_another(tmp_path: Path) -> None:
    folder = patients().write(tmp_path / "wards")
    with pytest.raises(ConfigError, match="did you mean 'one-per-record'"):
        load(folder, accept="one-per-recrod:name")
    with pytest.raises(ConfigError, match="'tells-the-label': Table 1 shows it now"):
        load(folder, accept="tells-the-label:icd")


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_class_of_one_or_two_records_is_refused_unless_accepted(tmp_path: Path, number: int) -> None:
    folder = patients().some("koeln", LABEL, range(number), "maybe").write(tmp_path)
    (found,) = [each for each in findings(folder) if each.code == "few-of-class"]
    assert found.severity is (Severity.REFUSED if number < 3 else Severity.SAID)
    assert "maybe" not in found.sentence
    assert load(folder, accept="few-of-class").silos


def test_each_spelling_of_a_class_is_said_with_its_silos() -> None:
    silos = {silo: pa.table({"ill": [word, "no"] * 20}) for silo, word in {"a": "YES", "b": "yes", "c": "yes"}.items()}
    found = inspect_tables(pa.table({"x": np.arange(50.0) % 7}), silos, "ill").findings
    (said,) = [each.message for each in found if each.code == "label-spellings"]
    assert said.endswith("('YES', 'yes'), one at 'a', the other at 'b', 'c'")


@pytest.mark.parametrize(
    ("cells", "helps"),
    [
        (["7,4", "8,1"], True),
        (["18,000.0", "9,500.5"], False),
        (["1,819", "12,345,678", "532"], False),
        (["1,819", "0,532"], True),
        (["1,819", "532,5"], True),
    ],
)
def test_a_decimal_comma_is_not_advised_where_commas_mark_thousands(cells: list[str], helps: bool) -> None:
    own = {"a": pa.table({"platelets": (cells * 20)[:40], LABEL: ["yes", "no"] * 20})}
    found = inspect_tables(pa.table({"platelets": np.arange(40.0) % 7}), own, LABEL).findings
    assert ['decimal = ","' in each.fix for each in found if each.code == "number-as-text"] == [helps]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("unknown", True),
        ("?", True),
        ("-9", True),
        ("[not completed]", True),
        ("keine Angabe", True),
        ("maybe", False),
        ("(x)", False),
    ],
)
def test_a_class_that_stands_for_a_missing_label_is_said(tmp_path: Path, label: str, said: bool) -> None:
    folder = patients().some("koeln", LABEL, range(9), label).write(tmp_path)
    found = [each for each in findings(folder) if each.column == LABEL and each.code == "missing-as-number"]
    assert bool(found) is said
    assert not found or "take its 9 records out" in found[0].sentence


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("019", "9"),
        ("01234567899", ""),
        ("12345", ""),
        (["0", "1", "-9"], "-9"),
        (["-1", "1"], ""),
        (["0", "1", "-1"], "-1"),
    ],
)
def test_a_code_is_a_missing_label_where_it_is_far_from_other_classes(classes: Sequence[str], said: str) -> None:
    labels = pa.table({"ill": [*classes] * 20})
    found = inspect_tables(pa.table({"x": np.arange(50.0) % 7}), {"a": labels}, "ill").findings
    assert [each.message for each in found if each.code == "missing-as-number"] == (
        [f"the class '{said}' in the label column 'ill' looks like a missing label"] if said else []
    )


def test_cells_of_blanks_are_missing(tmp_path: Path) -> None:
    folder = patients().some("essen", "sex", range(0, 400, 2), "  ").write(tmp_path)
    assert not findings(folder)
    essen = load(folder).silos[1]
    sex = [column.name for column in load(folder).schema.columns].index("sex")
    assert np.isnan(np.concatenate([essen.private.X, essen.test.X])[:, sex]).sum() == 200


def test_the_reference_has_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == [*CODES]


def test_findings_are_said_as_one_only_if_they_say_the_same_of_places() -> None:
    def shared(message: str, fix: str, silo: str = "") -> Finding:
        return Finding("shared-records", Severity.SAID, message, fix, silo=silo)

    given = [shared(f"tested on own groups at {silo}", "remove them", silo) for silo in "ab"]
    given += [shared("copies at c", "remove copies", "c"), shared("groups at several silos", "number them apart")]
    expected = ["tested on own groups at a (the same: 'b')", "copies at c", "groups at several silos"]
    assert [each.message for each in gathered(given)] == expected


def test_equal_findings_of_other_codes_stay_apart() -> None:
    codes = {"age": 99, "size": 99, "stage": 9}
    given = [Finding("missing-as-number", Severity.SAID, f"{at} {code}", f"set {at} = {code}", at)
             for at, code in codes.items()]  # fmt: skip
    assert [each.message for each in gathered(given)] == ["age 99 (the same: 'size')", "stage 9"]


@pytest.mark.parametrize(("known", "said"), [(50, True), (1, False)])
def test_a_table_may_lack_what_others_hardly_have(known: int, said: bool) -> None:
    """Of a value in one of a hundred records, thirty may have none."""
    public = pa.table({"x": pa.array([7.0] * known + [None] * (100 - known))})
    found = inspect_tables(public, {"a": pa.table({"x": pa.nulls(30), "ill": ["yes", "no"] * 15})}, "ill").findings
    assert [each.name for each in found if each.code == "column-missing"] == (["column-missing:x"] if said else [])


@pytest.mark.parametrize("spoil", [lambda row: row, lambda row: row - row % 2, lambda row: (row * 7) % 100])
def test_amounts_that_one_table_has_in_another_order_or_twice_are_no_index(spoil: Callable[[int], int]) -> None:
    amounts = pa.table({"cost": [100 + 3 * row for row in range(50)]})
    silo = pa.table(
        {"cost": [200 + 3 * (spoil(row) if row < 49 else 1) for row in range(50)], "ill": ["yes", "no"] * 25}
    )
    assert "index-column" not in [each.code for each in inspect_tables(amounts, {"a": silo}, "ill").findings]


@pytest.mark.parametrize(("word", "said"), [("NA", True), ("nan", True), ("Na", False)])
def test_a_word_that_a_file_cannot_hold_is_said_where_cells_are_missing(word: str, said: bool) -> None:
    public = pa.table({"salt": [word, "K", "Cl"] * 20})
    silo = pa.table({"salt": pa.array([None, "K", "Cl"] * 20), "ill": ["yes", "no"] * 30})
    for words in (Redaction(), Redaction(private=True)):
        found = inspect_tables(public, {"a": silo}, "ill", words=words).findings
        assert [each.silo for each in found if each.code == "missing-as-number"] == (["a"] if said else [])


@pytest.mark.parametrize(("unit", "said"), [(30.4, ["essen"]), (365.0, ["essen"]), (-30.4, []), (0.0, [])], ids=str)
def test_a_follow_up_among_the_features_is_said(unit: float, said: Sequence[str]) -> None:
    """Ranks alone count: an entry date falls with the follow-up, and a constant has no ranks."""
    rng = np.random.default_rng(0)
    days = {silo: rng.exponential(900, 40).round() + 1 for silo in ("essen", "bonn")}
    months = {"essen": (days["essen"] / (unit or np.inf)).round(1), "bonn": rng.permutation(days["bonn"])}
    silos = {silo: pa.table({"months": months[silo], "days": np.where(days[silo] < 900, 1, -1) * days[silo]})
             for silo in days}  # fmt: skip
    public = pa.table({"months": rng.exponential(900 / abs(unit or 1), 60)})
    for words in (Redaction(), Redaction(private=True)):
        found = inspect_tables(public, silos, "days", number=True, event="died", words=words).findings
        about = [each for each in found if each.code == "follow-up-as-feature"]
        assert [each.silo for each in about] == said
        assert all(each.column == "months" and "'days'" in each.message for each in about)


HEALTHY_COLUMNS = {
    "grades as words and numbers": ["1", "2", "3", "4a", "4b"],
    "codes of diseases": [f"{letter}{number:02}" for letter in "IJK" for number in range(12)],
    "grades": ["0", "1", "2"],
    "years": [str(year) for year in range(2008, 2024)],
    "percentages up to 99": ["95", "96", "97", "98", "99", "99"],
    "cigarettes a day": ["0"] * 9 + [str(number) for number in range(3, 41)],
}


@pytest.mark.parametrize("what", HEALTHY_COLUMNS)
def test_nothing_is_said_of_a_healthy_column(tmp_path: Path, what: str) -> None:
    values, rng = HEALTHY_COLUMNS[what], np.random.default_rng(8)
    assert not findings(patients().add("extra", lambda name, row: str(rng.choice(values))).write(tmp_path))


@pytest.mark.parametrize(("silos", "code"), [(SILOS, "missing-as-number"), (["essen"], "far-number")])
def test_a_code_in_one_cell_of_each_table_stands_for_a_missing_value(
    tmp_path: Path, silos: Sequence[str], code: str
) -> None:
    spoiled = patients()
    for silo in silos:
        spoiled.some(silo, "age", [7], "999")
    found = findings(spoiled.write(tmp_path))
    assert [(each.code, each.column, each.silo) for each in found] == [(code, "age", silo) for silo in silos]


NUMBERS = {
    "other-scale": lambda silo, row, value: value * (18 if silo == "essen" else 1),
    "missing-as-number": lambda silo, row, value: 999 if silo == "essen" and not row % 20 else value,
    "far-number": lambda silo, row, value: 1e6 if (silo, row) == ("essen", 9) else value,
    "reversed-labels": lambda silo, row, value: 120 - value if silo == "essen" else value,
    "labels-do-not-fit": lambda silo, row, value: 40 + 0.3 * (row * 7 % 61 + 20) if silo == "essen" else value,
}


@pytest.mark.parametrize("code", NUMBERS)
def test_numbers_to_predict_are_compared_too(tmp_path: Path, code: str) -> None:
    spoiled = patients()
    noise = np.random.default_rng(0).normal(0, 5, (3, 400))
    ages = {silo: np.array(spoiled.tables[silo]["age"], dtype=float) for silo in SILOS}
    values = {silo: 40 + 0.3 * ages[silo] + noise[at] for at, silo in enumerate(SILOS)}
    spoiled.relabel(lambda silo, row: str(NUMBERS[code](silo, row, float(values[silo][row]))))
    found = findings(spoiled.write(tmp_path), outcome="number")
    assert [(each.code, each.silo) for each in found] == [(code, "essen")]
    # An outcome that is not known is no empty cell, with which nothing would run.
    assert found[0].fix.startswith("take the records out" if code == "missing-as-number" else found[0].fix)


def test_no_finding_quotes_a_name(tmp_path: Path) -> None:
    spoiled = patients().some("essen", "age", [4], "Erika-4711").some("koeln", "ward", [3], "Erika-4711")
    spoiled.some("koeln", LABEL, [3], "Erika-4711").add("name", lambda name, row: f"Erika-4711-{row}")
    for found in findings(spoiled.write(tmp_path)):
        assert "Erika" not in found.sentence


@pytest.mark.parametrize("what", ["other words at a silo", "decimal comma at a silo"])
def test_new_records_of_other_columns_than_the_models_are_refused(tmp_path: Path, what: str) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    case, spoiled = REFUSED[what], patients(1)
    healthy = spoiled.write(tmp_path / "new") / f"{case.silo}.csv"
    assert not read_unlabeled(model.schema, healthy).findings
    case.spoil(spoiled)
    path = spoiled.write(tmp_path / "new") / f"{case.silo}.csv"
    with pytest.raises(DataError, match=f"{case.code}:{case.column}"):
        read_unlabeled(model.schema, path)
    if case.code == "unknown-values":
        accepted = read_unlabeled(model.schema, path, accept=[case.code])
        assert accepted.unknown == {case.column: 400}


@pytest.mark.parametrize("where", [PUBLIC, "essen"])
@pytest.mark.parametrize(("cells", "empty"), [(["<0.3", "BDL"], False), (["≤0,3", "pending"], True)])
def test_a_value_beyond_a_limit_is_no_missing_one(tmp_path: Path, where: str, cells: list[str], empty: bool) -> None:
    spoiled = patients()
    for row, cell in enumerate(cells):
        spoiled.some(where, "crp", [row], cell)
    found = next(each for each in findings(spoiled.write(tmp_path)) if each.code == "number-as-text")
    assert (found.column, " 2 of " in found.message) == ("crp", True)
    assert ("the limit itself" in found.fix, "leave the cells empty" in found.fix) == (True, empty)
    assert not any(f'"{cell}"' in found.fix for cell in cells if cell != "pending")


@pytest.mark.parametrize(
    ("cells", "more"),
    [
        (["\u22121", "2"], ", with a hyphen as the minus sign"),
        (["1+", "2+", "0"], ""),
        (["1+", "n.d."], ', or leave the cells empty, or set missing.stix = ["n.d."] in data.toml'),
    ],
)
def test_a_cell_that_holds_a_number_is_not_advised_to_be_missing(cells: list[str], more: str) -> None:
    own = {"a": pa.table({"stix": (cells * 20)[:40], LABEL: ["yes", "no"] * 20})}
    (found,) = inspect_tables(pa.table({"stix": np.arange(40.0) % 4}), own, LABEL).findings
    assert found.fix == f"write only numbers there{more}"


def test_times_of_day_are_not_advised_a_form_of_dates() -> None:
    times, numbers = (pa.table({"at": values}) for values in (pa.array([*range(30)], pa.time32("s")), [1.5] * 30))
    (public,) = inspect_tables(times, {}, "").findings
    assert (public.code, public.severity, "dates =" in public.fix) == ("dates-as-text", Severity.REFUSED, False)
    own = inspect_tables(numbers, {"essen": times.append_column(LABEL, [["yes", "no"] * 15])}, LABEL).findings
    assert ("dates-as-text", "essen") in {(each.code, each.silo) for each in own}


def test_dates_at_a_silo_are_advised_their_form() -> None:
    days = pa.table({"at": pa.array([*range(30)], pa.date32()), LABEL: ["yes", "no"] * 15})
    found = inspect_tables(pa.table({"at": [1.5] * 30}), {"essen": days}, LABEL).findings
    (fix,) = [each.fix for each in found if each.code == "dates-as-text"]
    assert 'set dates = "%Y-%m-%d" in data.toml' in fix


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("first", ["1935", "2015"])
@pytest.mark.parametrize("written", [("1970-01-01",), ("1900-01-01", "9999-12-31")])
def test_placeholders_of_dates_are_said_as_dates_and_go_as_advised(
    tmp_path: Path, ending: str, first: str, written: tuple[str, ...]
) -> None:
    spread = 25_000 if first == "1935" else 3000
    days = np.datetime64(first) + np.random.default_rng(0).integers(0, spread, 400).astype("timedelta64[D]")
    spoiled = patients().add("day", lambda name, row: str(days[row]))
    for number, day in enumerate(written):
        spoiled.some("essen", "day", range(20 * number, 20 * number + 20), day)
    folder = spoiled.write(tmp_path / "wards")
    for path in [*folder.glob("*.csv")] if ending == "parquet" else []:
        # As dates by type.
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), path.with_suffix(".parquet"))
        path.unlink()
    toml = folder / "data.toml"
    toml.write_text('dates = "%Y-%m-%d"\n', "utf-8")
    (found,) = findings(folder)
    assert (found.code, found.column, found.silo) == ("missing-as-number", "day", "essen")
    assert " has " + ", ".join(written) + " where" in found.message
    (advised,) = re.findall(r"missing.day = \[.*\]", found.fix)
    toml.write_text(f'dates = "%Y-%m-%d"\n{advised}\n', "utf-8")
    assert not findings(folder)
    dataset = load(folder)
    at = [column.name for column in dataset.schema.columns].index("day")
    essen = dataset.silos[SILOS.index("essen")]
    assert np.isnan(np.concatenate([essen.private.X, essen.test.X])[:, at]).sum() == 20 * len(written)


@pytest.mark.parametrize(
    "codes",
    [
        (7777,),
        (7777, 9999),
        (5555,),
        (999.99,),
        (65535,),
        (-9,),
        (-9, -8),
        (-9, -8, -1),
        (-888.88,),
        (-2147483648,),
        (),
    ],
    ids=str,
)
def test_a_code_that_all_tables_use_alike_is_said(codes: Sequence[float]) -> None:
    """The smallest number elsewhere was the same code, so none stood out."""
    minutes = [10.0 * each for each in range(1, 48)] * 2
    column, labels = pa.array([*minutes, *codes, *codes]), pa.array(["yes", "no"] * (len(minutes) // 2 + len(codes)))
    silos = {silo: pa.table({"active": column, LABEL: labels}) for silo in SILOS}
    found = inspect_tables(pa.table({"active": column}), silos, LABEL).findings
    advised = ", ".join(f'"{code}"' for code in codes)
    assert [each.silo for each in found] == (["", *SILOS] if codes else [])
    assert all(f"set missing.active = [{advised}] in" in each.fix for each in found)


def test_a_negative_number_that_is_the_smallest_of_several_is_no_code() -> None:
    change = pa.array([float(each) for each in range(-7, 30)] * 2)
    silos = {silo: pa.table({"change": change, LABEL: ["yes", "no"] * 37}) for silo in SILOS}
    assert not inspect_tables(pa.table({"change": change}), silos, LABEL).findings


@pytest.mark.parametrize("name", ["crp", "CRP, max."])
def test_a_code_goes_as_advised_from_its_own_column_alone(tmp_path: Path, name: str) -> None:
    """As a list, the advice emptied the zeros of each column of 0 and 1."""
    spoiled = patients().add("smokes", lambda silo, row: str(row % 2)).some("essen", "glucose", range(40), "0")
    for table in spoiled.tables.values():
        table[name] = table.pop("glucose")
    folder = spoiled.write(tmp_path / "wards")
    (found,) = findings(folder)
    (advised,) = re.findall(r"missing\..* = \[.*\]", found.fix)
    (folder / "data.toml").write_text(advised, "utf-8")
    assert not findings(folder)
    dataset = load(folder)
    essen, names = dataset.silos[SILOS.index("essen")], [column.name for column in dataset.schema.columns]
    emptied = np.isnan(np.concatenate([essen.private.X, essen.test.X])).sum(axis=0)
    assert dict(zip(names, emptied.tolist(), strict=True)) == {each: 40 * (each == name) for each in names}


# --- tables with nothing wrong in them


SEEDS = range(2)
SIZES = {"berlin": 1200, "essen": 500, "koeln": 250, "mainz": 120, "ulm": 60}

Columns = dict[str, Any]


def with_scales(rng: Generator, count: int) -> Columns:
    """Two questionnaires with their totals, and columns that have nothing to do with them: more columns than tell."""
    mood, fear = rng.normal(size=(2, count))
    items = {f"mood-{at}": 0.9 * mood + 0.7 * rng.normal(size=count) for at in range(9)}
    items |= {f"fear-{at}": 0.6 * mood + 0.7 * fear + 0.7 * rng.normal(size=count) for at in range(7)}
    answers: Columns = {name: np.clip(np.floor(1 + value), 0, 3).astype(int) for name, value in items.items()}
    answers["total"] = np.sum([*answers.values()], axis=0)
    answers |= {"age": rng.integers(18, 80, count), "satisfied": rng.choice(["no", "rather", "yes"], count)}
    return {**answers, LABEL: np.where(mood + 0.5 * rng.normal(size=count) > 0.4, "ill", "healthy")}


def with_signs_of_one_word(rng: Generator, count: int) -> Columns:
    """Wards, blood groups and diagnoses as a zero or one for each word: records agree more often than columns tell."""
    found: Columns = {}
    latent = rng.normal(size=count)
    for name, shares in (("ward", (4, 3, 1, 1, 1)), ("blood", (43, 41, 11, 5)), ("group", (30, 20, 15, *(5,) * 7))):
        which = rng.choice(len(shares), count, p=np.array(shares) / sum(shares))
        found |= {f"{name}-{at}": (which == at).astype(int) for at in range(len(shares))}
        latent = latent + 0.3 * (which == 0)
    found |= {"age": np.round(58 + 11 * latent + 8 * rng.normal(size=count)).clip(18, 99).astype(int)}
    found["days"] = 1 + rng.poisson(np.exp(1.2 + 0.2 * latent))
    return {**found, LABEL: np.where(latent + 0.5 * rng.normal(size=count) > 1, "ill", "healthy")}


def with_costs(rng: Generator, count: int) -> Columns:
    """Costs, most of which are zero, and the others amounts with a long tail; and what is asked of few patients."""
    latent = rng.normal(size=count)
    shares = {"surgery": 0.7, "icu": 0.85, "imaging": 0.5, "drugs": 0.3}
    found: Columns = {
        name: np.where(rng.random(count) < share, 0, np.round(np.exp(5 + latent + rng.normal(size=count)), 2))
        for name, share in shares.items()
    }
    # No other patient is asked when it began.
    found["begun"] = np.where(rng.random(count) < 0.8, np.nan, np.round(rng.gamma(2, 8, count)))
    found |= {
        "total": np.sum([found[name] for name in shares], axis=0).round(2),
        "days": 1 + rng.geometric(0.25, count),
    }
    return {**found, LABEL: np.where(latent + 0.5 * rng.normal(size=count) > 0.5, "ill", "healthy")}


KINDS: dict[str, Callable[[Generator, int], Columns]] = {
    "scales": with_scales,
    "signs of one word": with_signs_of_one_word,
    "costs": with_costs,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_sound_tables(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    public = pa.table(KINDS[kind](rng, 600)).drop_columns([LABEL])
    tables = {silo: pa.table(KINDS[kind](rng, size)) for silo, size in SIZES.items()}
    assert not inspect_tables(public, tables, LABEL).findings
    arrays = {name: encode(table.drop_columns([LABEL]), columns_of(public, ""), "") for name, table in tables.items()}
    arrays[""] = encode(public, columns_of(public, ""), "")
    assert not list(shared_records(arrays, {}, Redaction()))


@pytest.mark.parametrize("classes", [("False", "True"), ("0.0", "1.0")])
def test_a_real_silo_may_write_classes_as_its_study_does(classes: tuple[str, str]) -> None:
    """Though they are read alike however they are written: the study's own way is not to be another one."""
    rng = np.random.default_rng(0)
    public = pa.table(with_costs(rng, 300)).drop_columns([LABEL])
    table = with_costs(rng, 300)
    table[LABEL] = np.where(table[LABEL] == "ill", classes[1], classes[0])
    say = Redaction(private=True, settings="silo.toml")
    found = inspect_tables(public, {"essen": pa.table(table)}, LABEL, agreed=classes, words=say).findings
    assert not [each.message for each in found if each.silo]
