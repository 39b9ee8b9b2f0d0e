"""What a server answers, as rows. Times are seconds since 1970 and spans are seconds, as Python has them; 0 is "none"."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from .data import Data, from_wire

Row = TypeVar("Row")

#: Numbers of units by status: available, delayed, blocked, pending, finished, failed.
Counts = Dict[str, int]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def to_ms(seconds: float) -> int:
    return round(seconds * 1000)


def from_ms(milliseconds: Optional[float]) -> float:
    return (milliseconds or 0) / 1000


def _seconds(wire: str) -> Any:
    return field(metadata={"wire": wire, "read": from_ms})


def _data() -> Any:
    return field(metadata={"read": from_wire})


def read(kind: Type[Row], row: Mapping[str, Any]) -> Row:
    """Members that this version does not know are left out."""
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]
        value = row.get(each.metadata.get("wire") or camel(each.name))
        reader = each.metadata.get("read")
        values[each.name] = value if reader is None else reader(value)
    return kind(**values)


@dataclass(frozen=True)
class NamespaceSettings:
    policy: str
    desired: str


@dataclass(frozen=True)
class WorkSpecMeta:
    priority: float
    weight: float
    paused: bool
    continuous: bool
    min_gb: float
    interval: float = _seconds("intervalMs")
    next_continuous: float = _seconds("nextContinuous")
    max_running: int = 0
    max_getwork: int = 0
    max_retries: int = 0
    can_be_continuous: bool = False
    next_work_spec_name: str = ""
    then_preempts: bool = True
    runtime: str = ""
    retention: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Added:
    """How many units were written, and how many of them had not been there."""

    count: int
    created: int


@dataclass(frozen=True)
class Dependency:
    work_spec: str
    work_unit: str
    kind: str
    status: Optional[str]


@dataclass(frozen=True)
class Settled:
    """What became of one change of an attempt. `error` is the code of a refusal, or None."""

    attempt: str
    error: Optional[str]
    changed: bool
    status: Optional[str]
    expiration_time: float = _seconds("expirationTime")
    outputs: int = 0
    chaining_errors: List[str] = field(default_factory=list)
    #: After an error of a unit that is tried again: `delayMs`, and how many tries are `left`, None for unlimited.
    retry: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class WorkerState:
    name: str
    parent: Optional[str]
    active: bool
    mode: str
    data: Data = _data()
    last_update: float = _seconds("lastUpdate")
    expiration: float = _seconds("expiration")
    desired: str = "run"


@dataclass(frozen=True)
class Message:
    """One unit has ended."""

    seq: int
    queue: str
    work_spec: str
    work_unit: str
    attempt: Optional[str]
    status: str
    data: Data = _data()
    at: float = _seconds("at")


@dataclass(frozen=True)
class QueueSummary:
    name: str
    messages: int
    oldest: float = _seconds("oldest")


@dataclass(frozen=True)
class Action:
    key: str
    data: Data = _data()
    created_time: float = _seconds("createdTime")


@dataclass(frozen=True)
class Tally:
    namespace: str
    work_spec: str
    counts: Counts
    #: Units that retention has removed, by status; they are not in `counts`.
    removed: Counts


@dataclass(frozen=True)
class WaitingSince:
    namespace: str
    work_spec: str
    since: float = _seconds("since")
    exact: bool = True


@dataclass(frozen=True)
class Explained:
    """Why a work spec would or would not be given to a request."""

    work_spec: str
    excluded: Optional[str]
    reason: str
    priority: float
    weight: float
    available: int
    pending: int
    score: float
    chance: float


def _path(path: Any) -> Tuple[str, ...]:
    return tuple(path)


@dataclass(frozen=True)
class LockRefusal:
    path: Tuple[str, ...] = field(metadata={"read": _path})
    owner: Optional[str] = None


@dataclass(frozen=True)
class Lock:
    path: Tuple[str, ...] = field(metadata={"read": _path})
    owner: str
    deadline: float = _seconds("deadline")


@dataclass(frozen=True)
class Event:
    """One request that changed something: its verb, how many things, the first hundred by name. `reset`: some were missed."""

    id: Optional[str]
    type: str
    data: Mapping[str, Any]
