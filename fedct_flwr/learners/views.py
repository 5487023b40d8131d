"""Images and text as ``learner = "auto"`` takes them: views, each a fitted transformer, for candidates of their own.

Of images: typical patches, and pixels. Of tables with text: the table without it, and all columns with the TF-IDF of
words. What is chosen of them, ``automatic`` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.automatic import BOOSTED, Automatic, Candidate
from fedct_flwr.learners.catalog import TFIDF
from fedct_flwr.learners.image_features import Pixels, patches_of
from fedct_flwr.types import Features, LearnerError

PATCHES: Final = "patches"
PIXELS: Final = "pixels"
TABLE: Final = "the other columns"
WORDS: Final = "all columns"

_IMAGES: Final = 4
"""Axes of images."""

_OF_IMAGES: Final = (
    # Features are many and correlated: stronger than the default, which is best at no size of silo.
    Candidate("logistic-regression", strength=0.1, view=PATCHES),
    Candidate("random-forest", leaf=3, view=PATCHES),
    Candidate("random-forest", leaf=3, view=PIXELS),
)
_OF_TABLES: Final = (
    Candidate("logistic-regression", view=TABLE),
    Candidate("random-forest", leaf=3, view=TABLE),
    Candidate(BOOSTED, view=TABLE),
)
_OF_TEXT: Final = Candidate(TFIDF, view=WORDS)


@dataclass(frozen=True)
class Views:
    """Fitted transformers by name, and what may be chosen on them, from simple to complex.

    ``safe`` is for silos of few records. ``plain`` is the view for models that choose nothing (teachers, students);
    empty where they cannot learn such examples.
    """

    transformers: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    safe: Candidate
    plain: str

    def transform(self, X: Features) -> Any:
        """Examples as models that choose nothing take them. Raises LearnerError where they hold text alone."""
        return preprocessing.apply(self.for_parts, X)

    @property
    def for_parts(self) -> Any:
        """The transformer of models that choose nothing. Raises LearnerError where there is text alone."""
        if not self.plain:
            raise LearnerError(
                "teachers and students learn from numbers and categories, and all columns hold text: choose an "
                f"algorithm such as 'fedct' without a protection, where 'auto' takes {TFIDF!r}"
            )
        return self.transformers[self.plain]


def views_for(schema: Schema, *references: Features) -> Views | None:
    """The views of examples like these, fitted to them; None where a table is all there is. Raises DataError.

    ``references`` are as for ``preprocessing.standard``; what is learned of images is learned from the first alone,
    the public set.
    """
    if references[0].ndim == _IMAGES:
        return Views({PATCHES: patches_of(references[0]), PIXELS: Pixels()}, _OF_IMAGES, _OF_IMAGES[0], PATCHES)
    if not schema.texts:
        return None
    words = preprocessing.fitted("standard", schema, *references, texts=preprocessing.Words())
    if not schema.without_texts:
        return Views({WORDS: words}, (_OF_TEXT,), _OF_TEXT, "")
    table = preprocessing.fitted("standard", schema, *references)
    linear, *trees = _OF_TABLES
    return Views({TABLE: table, WORDS: words}, (linear, _OF_TEXT, *trees), _OF_TEXT, TABLE)


class AutomaticViews(Automatic):
    """Whichever candidate suits the records, each of which learns from one of the views."""

    def __init__(self, num_classes: int, seed: int, random_state: int, views: Views, *, balanced: bool = False) -> None:
        super().__init__(num_classes, seed, random_state, balanced=balanced)
        self._seen = views
        self._become(views.safe)

    def _become(self, candidate: Candidate) -> None:
        super()._become(candidate)
        self._transformer = self._seen.transformers[candidate.view]

    @property
    def _safe(self) -> Candidate:
        return self._seen.safe

    @property
    def _tiny(self) -> Candidate:
        return self._seen.safe

    @property
    def _candidates(self) -> tuple[Candidate, ...]:
        return self._seen.candidates

    def _views(self, X: Features) -> Mapping[str, Any]:
        return {name: _in_order(preprocessing.apply(step, X)) for name, step in self._seen.transformers.items()}


def _in_order(rows: Any) -> Any:
    """Rows one after the other, as learners take them; sparse ones are."""
    return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows
