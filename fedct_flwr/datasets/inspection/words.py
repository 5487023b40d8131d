"""How findings speak of cells: openly in a simulation, and without values and small counts at a real silo."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import SiloName

HIDDEN_BELOW: Final = 5
"""Smaller counts are hidden at a real silo, as they may identify a person."""
_FEW_VALUES: Final = 20


@dataclass(frozen=True)
class Words:
    """How findings speak.

    ``private``: at a real silo, whose findings may be e-mailed. ``settings``: where ``TableSettings`` are written, as
    sentences name it; empty where tables are in memory.

    Formal guarantee: with ``private``, what the methods return holds no value of a cell, and no count below
    ``HIDDEN_BELOW`` but zero. Percentages are whole, and stand only for counts that may be said.
    """

    private: bool = False
    settings: str = "data.toml"
    place: str = "of the public set"
    """Where a column is that is at no silo."""

    @property
    def elsewhere(self) -> str:
        """All tables that a table is compared with."""
        return "the public set" if self.private else "any other table"

    def number(self, amount: int, noun: str) -> str:
        """An amount of something, such as "fewer than 5 records"."""
        if self.private and 0 < amount < HIDDEN_BELOW:
            return f"fewer than {HIDDEN_BELOW} {noun}s"
        return count(amount, noun)

    def share(self, part: int, whole: int, noun: str = "cell") -> str:
        """A part of the whole.

        >>> Words().share(1, 400), Words(private=True).share(1, 400), Words(private=True).share(40, 400)
        ('1 of 400 cells', 'fewer than 5 of 400 cells', '10% of its cells')
        """
        if part == whole:
            return f"all {noun}s"
        if not self.private:
            return f"{part:,} of {whole:,} {noun}s"
        hidden = part < HIDDEN_BELOW
        return f"fewer than {HIDDEN_BELOW} of {whole:,} {noun}s" if hidden else f"{part / whole:.0%} of its {noun}s"

    def example(self, value: str | None, record: int) -> str:
        """Where one such cell is (records are counted from 1), and what it holds, if that may be quoted.

        >>> Words().example("<5", 12), Words(private=True).example("<5", 12)
        (", for example '<5' in record 12", ', for example in record 12')
        """
        quote = "" if self.private or value is None else f" {quoted(value)}"
        return f", for example{quote} in record {record:,}"

    def values(self, cells: Mapping[str, int], most: int = 3) -> str:
        """Those values in brackets that several cells hold: one that few do may be somebody's name or number.

        >>> Words().values({"m": 200, "f": 190, "Erika": 1}), Words(private=True).values({"m": 200})
        (" ('m', 'f')", '')
        """
        few = len(cells) <= _FEW_VALUES
        shown = [value for value, number in cells.items() if number >= HIDDEN_BELOW and few]
        return "" if self.private or not shown else f" ({listed(shown, most)})"

    def set(self, key: str, value: str) -> str:
        """Advice to write a setting, for the end of a sentence; empty where tables are in memory."""
        return f"set {key} = {value} in {self.settings}" if self.settings else ""

    def leave_out(self, column: str) -> str:
        """Advice not to use a column."""
        if self.private:
            return "ask the coordinator to take the column out of the study"
        own = f", or name it under leave-out in {self.settings}" if self.settings else ""
        return f"take the column out of all tables{own}"

    def column(self, column: str, silo: SiloName) -> str:
        """A column and where it is; an empty silo is the public set."""
        return f"column {quoted(column)} {self.at(silo)}"

    def at(self, silo: SiloName) -> str:
        """Where a table is; an empty silo is the public set."""
        return f"at silo {silo}" if silo else self.place
