"""What leaves a silo, in plain words: labels, votes of students or probabilities, under each protection and none."""

from dataclasses import dataclass

from fedct_flwr.config import PrivacySettings, SiloConfig


@dataclass(frozen=True)
class Answers:
    """What may be asked of a silo: its ``labels``, votes of up to ``students`` students, ``probabilities``, or all."""

    labels: bool = True
    students: int = 0
    lessons: int = 0
    """Public examples that students learn from under noise; 0: those that they are asked about."""
    probabilities: bool = False
    values: bool = False
    """Of a quantity, instead of probabilities."""
    summed: bool = False
    """Whether only sums over silos can be read, not each silo's labels or votes."""

    @classmethod
    def of(cls, config: SiloConfig) -> "Answers":
        """What a real silo's policy lets out. Votes leave without a protection, or under teachers' noise."""
        counted = config.privacy.chosen.covers_votes and config.policy.teaches
        students = config.transfer.most_students(noisy=config.privacy.enabled) if counted else 0
        # No protection covers these, so settings that let them out under one are refused.
        kinds = set(config.policy.kinds)
        probabilities = bool(kinds & {"soft", "soft-sum"})
        labels = bool(kinds & {"hard", "shares", "sum"}) or not (students or probabilities)
        summed = kinds <= set(config.policy.adds)
        return cls(labels, students, config.transfer.lessons, probabilities, summed=summed)

    def words(self, privacy: PrivacySettings) -> str:
        """What leaves under this protection."""
        parts = [privacy.chosen.leaves] if self.labels else []
        sums = "; only sums of them over all silos can be read" if self.summed else ""
        return "; or, where votes are asked for, ".join([*parts, *self._votes()]) + sums

    def bare(self) -> str:
        """What leaves without any noise."""
        if self.summed:
            return "parts of sums over all silos, from which a single silo's part cannot be read"
        parts = ["the labels of the models themselves"] if self.labels else []
        students = ["the votes of students, which learned from the labels of models trained on the records"]
        sure = ["the probabilities of classes that the models themselves give"]
        sure = ["the values that the models themselves predict"] if self.values else sure
        return " and ".join(parts + (students if self.students else []) + (sure if self.probabilities else []))

    def planned(self, privacy: PrivacySettings, num_public: int) -> str:
        """How many answers noise is measured for. Students are asked once, about the public set at most."""
        queries = privacy.planned_queries(num_public)
        rounds = "one round" if privacy.rounds == 1 else f"{privacy.rounds:,} rounds"
        labels = [f"{rounds} and {queries:,} labels"] if self.labels else []
        taught = f"teachers' labels for {min(self.lessons, num_public):,} public examples, however many votes leave"
        votes = [taught if self.lessons else f"votes on {min(queries, num_public):,} public examples"]
        return ", or ".join(labels + votes if self.students else labels)

    def _votes(self) -> list[str]:
        if not self.students:
            return []
        seen = (
            "each record was seen by one of its teachers alone"
            if self.students == 1
            else f"each record was seen by one teacher of each student, {self.students} at most, and all of "
            "them are charged"
        )
        what = (
            "the class that the silo's student chose, as a vote"
            if self.students == 1
            else f"how many of the silo's students, {self.students} at most, chose each class"
        )
        lesson = f"of {self.lessons:,} public examples" if self.lessons else "public example"
        return [
            f"for each public example {what}; a student saw no record: it learned for each {lesson} the class that "
            f"most of its teachers voted for, with noise on these votes; {seen}"
        ]
