"""``study.toml``, and a coordinator's ``coordinator.toml``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedct_flwr.config.settings import Address, ClassName, Name, OptionalVisiblePath, Settings, VisibleName, VisiblePath
from fedct_flwr.config.tables import ColumnForm, Side, StudyTables
from fedct_flwr.text.printable import suggest
from fedct_flwr.wire.content import MAX_VALUE, MOST_STEPS, Grid


class StudySums(Settings):
    """``[sums]``: the silos of secure sums, by their keys, and how many of them may collude."""

    # People compare keys by these names: none of them reads like a sentence, or looks like another name.
    keys: dict[Name, VisibleName] = Field(default_factory=dict)
    """Each silo's public key: the line of its egress.pub between the first and the last."""
    min_summands: int = Field(default=3, ge=3, le=100)
    """Fewest silos whose sum is opened."""
    may_collude: int = Field(default=1, ge=0, le=98)
    """Silos that may collude with the coordinator, and see no other silo's part."""


class _StudyPlan(Settings):
    """Plan of secure sums with noise, which protects records."""

    records: int = Field(ge=1, le=1 << 21)
    """Records of all silos together, roughly: it sets how fine the sums are, and no guarantee depends on it. The number
    is written here so that no silo has to tell how many records it has."""
    epsilon: float = Field(default=1.0, gt=0)
    """Epsilon for a record in total, over all sums of one training, or of one drawn set."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """The chance that epsilon does not hold, in total."""


class StudyJoint(_StudyPlan):
    """``[joint]``: the joint labeler (``fedct-joint``) that silos train by secure sums with noise."""

    labeler: Literal["linear", "additive"] = "linear"
    """A linear model on features of the public set, or one that adds up a curve for each column."""


class StudyDraw(_StudyPlan):
    """``[draw]``: the public set to draw from counts of silos' values, by a secure sum with noise."""


class StudyCount(Settings):
    """``[count]``: questions of how many patients meet a condition, each by a secure sum with noise."""

    epsilon: float = Field(default=1.0, gt=0)
    """Epsilon of one question for a record. Each silo's budget says how many questions it answers."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """The chance that epsilon does not hold, of one question."""


class StudyScores(StudyCount):
    """``[scores]``: scores of all silos together, from one sum of counts with noise at a run's end."""

    records: int = Field(ge=1, le=1 << 21)
    """Test records of all silos together, roughly."""

    @model_validator(mode="after")
    def _check_records(self) -> Self:
        if self.records < FEWEST_TEST_RECORDS:
            raise ValueError(
                f"{self.records} test records of all silos are fewer than {FEWEST_TEST_RECORDS}, so noise would move a "
                "score by .04 to .15: leave [scores] out, or wait for more"
            )
        return self


FEWEST_TEST_RECORDS: Final = 300
"""Test records of all silos below which noise hides what scores tell."""


class StudyGovernance(Settings):
    """``[governance]``: what a data protection officer asks first, in the coordinator's words."""

    controller: VisibleName = ""
    """The controller, who decides why and how the labels are used."""
    partners: VisibleName = ""
    """Which institutions take part."""
    retention: VisibleName = ""
    """How long the coordinator keeps labels."""
    withdrawal: VisibleName = ""
    """Consequences when a patient withdraws consent."""


class StudyNumber(Settings):
    """``[number]``: what silos predict instead of classes, in a range and on a grid that bound what a value can say."""

    name: VisibleName = Field(min_length=1)
    low: float = Field(ge=-MAX_VALUE, le=MAX_VALUE)
    high: float = Field(ge=-MAX_VALUE, le=MAX_VALUE)
    """No record may have a value below or above these two, and no model's answer has one."""
    step: float = Field(gt=0)
    """Answers are rounded to multiples of it, from ``low`` on: at most 65,536 of them."""

    @property
    def grid(self) -> Grid:
        """The same, for messages."""
        return Grid(self.low, self.high, self.step)

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        steps = (self.high - self.low) / self.step
        if not 1 <= steps < MOST_STEPS or abs(steps - round(steps)) > 1e-6:
            raise ValueError(f"from low to high there must be a whole number of steps, 1 to {MOST_STEPS - 1:,} of them")
        codes = np.arange(self.grid.last + 1)
        if (self.grid.codes(self.grid.values(codes)) != codes).any():
            raise ValueError("single precision cannot tell the steps apart: choose a larger step")
        return self


class StudySurvival(Settings):
    """``[survival]``: time to an event is what silos predict, and they give public examples grades of risk."""

    time: VisibleName = Field(min_length=1)
    """The times of follow-up; a silo names its own column of them as its label."""
    event: VisibleName = Field(min_length=1)
    """The column of all silos that is 1 where the event was seen, and 0 where a record is censored."""
    horizons: tuple[PositiveFloat, ...] = ()
    """Times at which chances of the event are scored."""


MAY_BE_MISSING: Final = "may-be-missing"


class StudyConfig(Settings):
    """A study's folder holds this file and the public set. Relative paths start at its folder.

    All of it comes from the coordinator, and silos approve what they read of it: names and paths that hide something
    are refused.
    """

    study: Name
    """Name of the study; messages of another study are refused."""
    classes: tuple[ClassName, ...] = ()
    """Names of the classes, two or more, in the order that messages number them."""
    number: StudyNumber | None = None
    """The number that is predicted, where there are no classes."""
    survival: StudySurvival | None = None
    """Columns of follow-up, where time to an event is predicted instead."""
    public: VisiblePath = Path("public.csv")
    """The public set: a table in a file, without labels, or a folder of images."""
    test_file: OptionalVisiblePath = None
    """Labeled records that all silos score their models with, if any (a table, for experiments)."""
    test_label: VisibleName = ""
    """The label column of ``test-file``."""
    image_size: tuple[Side, Side] | None = None
    """For a folder of images: height and width that all images are scaled to."""
    image_mode: Literal["gray", "color"] = "color"
    sums: StudySums = StudySums()
    """Silos that take part in secure sums, if there are any."""
    joint: StudyJoint | None = None
    """The joint labeler that silos may train, if there is one."""
    draw: StudyDraw | None = None
    """The public set that silos' counts lead to, if one is to be drawn."""
    count: StudyCount | None = None
    """How many patients meet a condition, if the coordinator may ask that."""
    scores: StudyScores | None = None
    """Scores of all silos together, where silos promise something."""
    governance: StudyGovernance = StudyGovernance()
    """Responsible people, and the use of the labels."""
    columns: dict[VisibleName, ColumnForm] = Field(default_factory=dict)
    """The data dictionary: what each column of the tables may hold, without the label. Next to these tables,
    may-be-missing = ['crp'] names columns that a silo may lack: all its values count as missing."""
    may_be_missing: tuple[VisibleName, ...] = ()
    tables: StudyTables = StudyTables()
    """The form of the public set and the test file, where they are tables."""

    @property
    def draw_epsilon(self) -> float:
        """Cost of a drawn set in each silo's budget."""
        return self.draw.epsilon if self.draw else 0.0

    @model_validator(mode="before")
    @classmethod
    def _take_columns_apart(cls, raw: Any) -> Any:
        columns = raw.get("columns") if isinstance(raw, Mapping) else None
        if isinstance(columns, Mapping) and isinstance(columns.get(MAY_BE_MISSING), list | tuple):
            rest = {name: form for name, form in columns.items() if name != MAY_BE_MISSING}
            return {**raw, "columns": rest, MAY_BE_MISSING: columns[MAY_BE_MISSING]}
        return raw

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if bool(self.test_file) != bool(self.test_label):
            raise ValueError("test-file and test-label belong together: give both or neither")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes repeat")
        if unknown := next((name for name in self.tables.class_shares if name not in self.classes), ""):
            raise ValueError(f"class-shares names {unknown!r}, which is no class: {suggest(unknown, self.classes)}")
        others = [self.number, self.survival, self.image_size, self.joint, self.draw]
        if self.classes if self.number or self.survival else len(self.classes) < 2:
            raise ValueError("name two classes or more; or [number] or [survival], without classes")
        if (self.number or self.survival) and sum(map(bool, others)) > 1:
            raise ValueError("[number] and [survival] exclude each other, images, [joint] and [draw]: leave these out")
        if self.image_size and (self.tables.given or self.may_be_missing):
            raise ValueError(
                "tables and may-be-missing are for tables, and image-size for images: leave one of them out"
            )
        if self.joint and not self.sums.keys:
            raise ValueError("joint needs secure sums: add the silos' keys under [sums.keys], or leave [joint] out")
        if self.count and (not self.sums.keys or self.image_size):
            raise ValueError(
                "count needs secure sums of tables: add the silos' keys under [sums.keys], or leave [count] out"
            )
        if self.scores and (not self.sums.keys or self.number or self.survival):
            raise ValueError(
                "scores counts classes in secure sums: add the silos' keys under [sums.keys], or leave [scores] out, "
                "which is not for numbers and times"
            )
        if self.draw and not (self.sums.keys and self.columns):
            raise ValueError(
                "draw needs secure sums and a data dictionary: add the silos' keys under [sums.keys], and what each "
                "column may hold under [columns], or leave [draw] out"
            )
        return self


LONGEST_MESSAGE = 2_000_000
"""Bytes. The longest body that a SuperNode posts is one reply: its 3 objects cross one by one, and Flower splits no
record of ours. By their encoding, 50,000 public examples of 10 classes make 25 kB of labels or 450 kB of
probabilities; all other bodies are below 1 kB."""


class CoordinatorConfig(Settings):
    """``coordinator.toml``, in the coordinator's folder."""

    gateway: Address | Literal[""] = ""
    """Where silos find the gateway, as ``host:port``: their invitations say so."""
    max_message: int = Field(default=LONGEST_MESSAGE, ge=100_000, le=1_000_000_000)
    """Bytes of the longest message that the gateway takes."""
