"""How a silo teaches its students, where it is asked for their votes: ``[transfer]`` in ``silo.toml``."""

from typing import Final

from pydantic import Field

from fedct_flwr.config.mechanisms import TransferNoise
from fedct_flwr.config.protections import MAX_TEACHERS
from fedct_flwr.config.settings import MAX_INT, Settings

MAX_PARTITIONS: Final = 100
"""More students than anybody trains on one silo's records."""

_STUDENTS: Final = 2
_TEACHERS: Final = 5
_TEACHERS_UNDER_NOISE: Final = 25


class TransferSettings(Settings):
    """FedKT at a silo (Li, He, Song, IJCAI 2021): a student for each partition, which its own teachers label for.

    Whether there is noise on the teachers' votes (FedKT-L2) is said by ``[privacy]``: protection = "teachers".
    """

    partitions: int = Field(default=0, ge=0, le=MAX_PARTITIONS)
    """Students at most, the paper's s; 0: 2, or one with a protection. Questions for more votes are refused."""
    teachers: int = Field(default=0, ge=0, le=MAX_TEACHERS)
    """Teachers of each student, the paper's t; 0: 5, or 25 with a protection, if there are so many records."""
    noise: TransferNoise = "laplace"
    """On the teachers' votes, with a protection."""
    gamma: float = Field(default=0.0, ge=0)
    """The noise has the scale 1 / gamma in votes; 0: what keeps the budget under ``[privacy]``."""

    lessons: int = Field(default=0, ge=0, le=MAX_INT)
    """With a protection: public examples, drawn at random, that teachers label under noise and students learn from,
    whatever they are asked about then; 0: those that they are asked about. Only lessons cost privacy."""

    @property
    def as_before_lessons(self) -> dict[str, object] | None:
        """These settings as they were written before there were lessons, as JSON takes it; None if they have some."""
        return None if self.lessons else self.model_dump(mode="json", exclude={"lessons"})

    def lessons_for(self, asked: int, num_public: int) -> int:
        """Public examples that teachers label under noise where students are asked about so many."""
        return min(self.lessons or asked, num_public)

    def most_students(self, *, noisy: bool) -> int:
        """Most votes on an example that a question may ask for."""
        return self.partitions or (1 if noisy else _STUDENTS)

    def fitting_teachers(self, partitions: int, num_records: int, *, noisy: bool) -> int:
        """Teachers of each student: as many as are set, or by default no more than the records allow, 0 if none."""
        default = _TEACHERS_UNDER_NOISE if noisy else _TEACHERS
        return self.teachers or min(default, num_records // partitions)
