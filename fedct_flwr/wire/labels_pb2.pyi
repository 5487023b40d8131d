from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Refusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_UNSPECIFIED: _ClassVar[Refusal]
    REFUSAL_MALFORMED: _ClassVar[Refusal]
    REFUSAL_VERSION: _ClassVar[Refusal]
    REFUSAL_STUDY: _ClassVar[Refusal]
    REFUSAL_FINGERPRINT: _ClassVar[Refusal]
    REFUSAL_CLASSES: _ClassVar[Refusal]
    REFUSAL_ROUND: _ClassVar[Refusal]
    REFUSAL_QUERY: _ClassVar[Refusal]
    REFUSAL_LENGTH: _ClassVar[Refusal]
    REFUSAL_UNKNOWN_CLASS: _ClassVar[Refusal]
    REFUSAL_SILO: _ClassVar[Refusal]
    REFUSAL_NO_DATA: _ClassVar[Refusal]
    REFUSAL_TRAINING_FAILED: _ClassVar[Refusal]
    REFUSAL_CONFIG: _ClassVar[Refusal]
    REFUSAL_INTERNAL: _ClassVar[Refusal]
    REFUSAL_WEIGHTS: _ClassVar[Refusal]
    REFUSAL_NOT_APPROVED: _ClassVar[Refusal]
    REFUSAL_LIMIT: _ClassVar[Refusal]
    REFUSAL_NOT_LOGGED: _ClassVar[Refusal]
    REFUSAL_STOPPING: _ClassVar[Refusal]
    REFUSAL_POLICY: _ClassVar[Refusal]
    REFUSAL_NOT_AWAITED: _ClassVar[Refusal]
    REFUSAL_PRIVACY_BUDGET: _ClassVar[Refusal]
    REFUSAL_LEDGER: _ClassVar[Refusal]
    REFUSAL_PROBABILITIES: _ClassVar[Refusal]
    REFUSAL_VALUES: _ClassVar[Refusal]
REFUSAL_UNSPECIFIED: Refusal
REFUSAL_MALFORMED: Refusal
REFUSAL_VERSION: Refusal
REFUSAL_STUDY: Refusal
REFUSAL_FINGERPRINT: Refusal
REFUSAL_CLASSES: Refusal
REFUSAL_ROUND: Refusal
REFUSAL_QUERY: Refusal
REFUSAL_LENGTH: Refusal
REFUSAL_UNKNOWN_CLASS: Refusal
REFUSAL_SILO: Refusal
REFUSAL_NO_DATA: Refusal
REFUSAL_TRAINING_FAILED: Refusal
REFUSAL_CONFIG: Refusal
REFUSAL_INTERNAL: Refusal
REFUSAL_WEIGHTS: Refusal
REFUSAL_NOT_APPROVED: Refusal
REFUSAL_LIMIT: Refusal
REFUSAL_NOT_LOGGED: Refusal
REFUSAL_STOPPING: Refusal
REFUSAL_POLICY: Refusal
REFUSAL_NOT_AWAITED: Refusal
REFUSAL_PRIVACY_BUDGET: Refusal
REFUSAL_LEDGER: Refusal
REFUSAL_PROBABILITIES: Refusal
REFUSAL_VALUES: Refusal

class Terms(_message.Message):
    __slots__ = ("version", "study", "public_fingerprint", "classes", "quantity", "grid")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STUDY_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    version: int
    study: str
    public_fingerprint: bytes
    classes: _containers.RepeatedScalarFieldContainer[str]
    quantity: str
    grid: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, version: _Optional[int] = ..., study: _Optional[str] = ..., public_fingerprint: _Optional[bytes] = ..., classes: _Optional[_Iterable[str]] = ..., quantity: _Optional[str] = ..., grid: _Optional[_Iterable[float]] = ...) -> None: ...

class Labels(_message.Message):
    __slots__ = ("count", "abstentions", "packed")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ABSTENTIONS_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    count: int
    abstentions: bool
    packed: bytes
    def __init__(self, count: _Optional[int] = ..., abstentions: bool = ..., packed: _Optional[bytes] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("count", "packed")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    count: int
    packed: bytes
    def __init__(self, count: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...

class Probabilities(_message.Message):
    __slots__ = ("count", "packed")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    count: int
    packed: bytes
    def __init__(self, count: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...

class Values(_message.Message):
    __slots__ = ("count", "packed")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    count: int
    packed: bytes
    def __init__(self, count: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("seed", "size")
    SEED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    seed: int
    size: int
    def __init__(self, seed: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Soft(_message.Message):
    __slots__ = ("weight", "targeted", "targets", "values")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TARGETED_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    weight: float
    targeted: Query
    targets: Probabilities
    values: Values
    def __init__(self, weight: _Optional[float] = ..., targeted: _Optional[_Union[Query, _Mapping]] = ..., targets: _Optional[_Union[Probabilities, _Mapping]] = ..., values: _Optional[_Union[Values, _Mapping]] = ...) -> None: ...

class Joint(_message.Message):
    __slots__ = ("records", "steps", "epsilon", "delta", "honest", "columns", "seed", "weights")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    HONEST_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    records: int
    steps: int
    epsilon: float
    delta: float
    honest: int
    columns: int
    seed: int
    weights: bytes
    def __init__(self, records: _Optional[int] = ..., steps: _Optional[int] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., honest: _Optional[int] = ..., columns: _Optional[int] = ..., seed: _Optional[int] = ..., weights: _Optional[bytes] = ...) -> None: ...

class Histograms(_message.Message):
    __slots__ = ("study", "numbers", "where", "by", "scores")
    STUDY_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    study: bytes
    numbers: int
    where: str
    by: str
    scores: bool
    def __init__(self, study: _Optional[bytes] = ..., numbers: _Optional[int] = ..., where: _Optional[str] = ..., by: _Optional[str] = ..., scores: bool = ...) -> None: ...

class Instruction(_message.Message):
    __slots__ = ("terms", "round", "query", "targets", "votes", "soft", "joint", "histograms", "answer", "summed", "noise")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    JOINT_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAMS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    SUMMED_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    terms: Terms
    round: int
    query: Query
    targets: Labels
    votes: int
    soft: Soft
    joint: Joint
    histograms: Histograms
    answer: str
    summed: bool
    noise: float
    def __init__(self, terms: _Optional[_Union[Terms, _Mapping]] = ..., round: _Optional[int] = ..., query: _Optional[_Union[Query, _Mapping]] = ..., targets: _Optional[_Union[Labels, _Mapping]] = ..., votes: _Optional[int] = ..., soft: _Optional[_Union[Soft, _Mapping]] = ..., joint: _Optional[_Union[Joint, _Mapping]] = ..., histograms: _Optional[_Union[Histograms, _Mapping]] = ..., answer: _Optional[str] = ..., summed: bool = ..., noise: _Optional[float] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("terms", "round", "silo", "votes", "refusal", "counts", "probabilities", "values", "ready", "scores", "fit")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SILO_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    terms: Terms
    round: int
    silo: str
    votes: Labels
    refusal: Refusal
    counts: Counts
    probabilities: Probabilities
    values: Values
    ready: Ready
    scores: Scores
    fit: Fit
    def __init__(self, terms: _Optional[_Union[Terms, _Mapping]] = ..., round: _Optional[int] = ..., silo: _Optional[str] = ..., votes: _Optional[_Union[Labels, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, str]] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., probabilities: _Optional[_Union[Probabilities, _Mapping]] = ..., values: _Optional[_Union[Values, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., scores: _Optional[_Union[Scores, _Mapping]] = ..., fit: _Optional[_Union[Fit, _Mapping]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Scores(_message.Message):
    __slots__ = ("own_accuracy", "own_balanced_accuracy", "pooled_accuracy", "pooled_balanced_accuracy")
    OWN_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    OWN_BALANCED_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    POOLED_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    POOLED_BALANCED_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    own_accuracy: float
    own_balanced_accuracy: float
    pooled_accuracy: float
    pooled_balanced_accuracy: float
    def __init__(self, own_accuracy: _Optional[float] = ..., own_balanced_accuracy: _Optional[float] = ..., pooled_accuracy: _Optional[float] = ..., pooled_balanced_accuracy: _Optional[float] = ...) -> None: ...

class Fit(_message.Message):
    __slots__ = ("own_r_squared", "pooled_r_squared")
    OWN_R_SQUARED_FIELD_NUMBER: _ClassVar[int]
    POOLED_R_SQUARED_FIELD_NUMBER: _ClassVar[int]
    own_r_squared: float
    pooled_r_squared: float
    def __init__(self, own_r_squared: _Optional[float] = ..., pooled_r_squared: _Optional[float] = ...) -> None: ...
