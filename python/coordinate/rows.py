"""What a server answers, as rows. Times are seconds since 1970 and spans are seconds, as Python has them; 0 is "none"."""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

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


def as_said(value: Any) -> Any:
    """A policy as the data of a work spec says it: `{"delayMs": 500}` is `{"delay": 0.5}`."""
    if not isinstance(value, dict):
        return value
    said: Dict[str, Any] = {}
    for key, item in value.items():
        name = re.sub("[A-Z]", lambda letter: "_" + letter.group().lower(), key)
        if name.endswith("_ms"):
            said[name[: -len("_ms")]] = from_ms(item)
        elif name in ("start", "end", "since", "until", "from"):
            said[name] = from_ms(item)
        else:
            said[name] = [from_ms(each) for each in item] if name == "at" else as_said(item)
    return said


def _policy() -> Any:
    return field(default_factory=dict, metadata={"read": as_said})


def read(kind: Type[Row], row: Mapping[str, Any]) -> Row:
    """Ignores members that this version does not know."""
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
    #: What weights are shares of: "choices" or "time".
    share: str = "choices"


@dataclass(frozen=True)
class WorkSpecMeta:
    priority: float
    weight: float
    paused: bool
    continuous: bool
    min_gb: float
    interval: float = _seconds("intervalMs")
    next_continuous: float = _seconds("nextContinuous")
    #: No unit is handed out before this time.
    not_before: float = _seconds("notBefore")
    #: When the schedule makes its next unit, and the time of the last one that it made.
    next_run: float = _seconds("nextRun")
    last_run: float = _seconds("lastRun")
    max_running: int = 0
    max_getwork: int = 0
    max_retries: int = 0
    can_be_continuous: bool = False
    next_work_spec_name: str = ""
    then_preempts: bool = True
    runtime: str = ""
    #: Labels that a worker must have.
    requires: List[str] = field(default_factory=list)
    #: The task that runs its units: the key `task`, else its name.
    task_name: str = ""
    runs_module: bool = False
    #: Units that may wait at once; 0 is unlimited.
    max_waiting: int = 0
    #: Units of one partition that may be pending at once; 0 is unlimited.
    max_running_per_partition: int = 0
    #: Priority that a unit gains in a minute of waiting.
    aging: float = 0
    #: "partition" where the next unit of a partition begins only when the one before has ended.
    order: str = ""
    #: "partition" where partitions take turns.
    fair: str = ""
    #: With `fair`, how many units a turn of a partition is, by its name; 1 for those that are not named.
    partition_weights: Mapping[str, int] = field(default_factory=dict)
    #: The limits of the namespace that its units come under.
    limits: Sequence[str] = ()
    #: In the words of the work spec's data, as are the next ones: spans are seconds.
    rate: Mapping[str, Any] = _policy()
    rate_per_partition: Mapping[str, Any] = _policy()
    retry: Mapping[str, Any] = _policy()
    breaker: Mapping[str, Any] = _policy()
    #: What the breaker does now; `since` is there while it is tripped.
    breaker_state: Mapping[str, Any] = _policy()
    retention: Mapping[str, Any] = _policy()
    schedule: Mapping[str, Any] = _policy()


@dataclass(frozen=True)
class Added:
    """How many units were written, and how many of them had not been there."""

    count: int
    created: int
    #: Left as they were, because `on_conflict` or `throttle` said so.
    ignored: int = 0


@dataclass(frozen=True)
class Dependency:
    work_spec: str
    work_unit: str
    kind: str
    status: Optional[str]


@dataclass(frozen=True)
class Settled:
    """The result of one change of an attempt. `error` is the code of a refusal, or None."""

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
class Progress:
    """The last progress that the worker of a running attempt reported."""

    #: From 0 to 1.
    done: float
    note: str


@dataclass(frozen=True)
class LogLine:
    #: Seconds since 1970.
    time: float = _seconds("time")
    #: debug, info, warn or error.
    level: str = "info"
    text: str = ""


@dataclass(frozen=True)
class AttemptLog:
    """The log of a task: its newest lines."""

    attempt: str
    #: The number of the first of `lines`; requested lines below it are no longer stored.
    first: int
    #: How many lines the task has written.
    total: int
    lines: List[LogLine] = field(metadata={"read": lambda rows: [read(LogLine, row) for row in rows]})


@dataclass(frozen=True)
class BatchThen:
    """The unit that is made when the batch ends: `on` is `ended` or `finished`."""

    work_spec: str
    work_unit: str
    on: str


def _then(row: Any) -> Optional[BatchThen]:
    return None if row is None else read(BatchThen, row)


@dataclass(frozen=True)
class BatchState:
    """The counts of a batch: units and batches that belong to it, and those of them that have ended."""

    name: str
    sealed: bool
    total: int
    finished: int
    failed: int
    then: Optional[BatchThen] = field(metadata={"read": _then})
    parent: Optional[str]
    created_time: float = _seconds("createdTime")
    #: When it ended; 0 before that.
    done_time: float = _seconds("doneTime")

    @property
    def progress(self) -> float:
        """The share of its units that have ended, from 0 to 1; 0 while it is empty and has not ended."""
        if self.total == 0:
            return 1.0 if self.done_time > 0 else 0.0
        return (self.finished + self.failed) / self.total


@dataclass(frozen=True)
class SharedLimit:
    """A limit that work specs share: what it allows, and how many units run under it."""

    name: str
    #: 0 is unlimited.
    max_running: int
    running: int
    #: Those that refer to it.
    work_specs: List[str]
    #: `{"limit": 100, "period": 60, "burst": 10}`, or empty.
    rate: Dict[str, Any] = _policy()
    #: When its rate allows the next unit; 0 when it does so now, or has none.
    next_time: float = field(default=0, metadata={"wire": "nextTime", "read": from_ms})


@dataclass(frozen=True)
class FailureGroup:
    """Failed units of a work spec with the same kind of error. `error` shows `…` for what differs between them."""

    work_spec: str
    #: Selects the units of the group: `spec.retry(error=group.fingerprint)`.
    fingerprint: str
    error: str
    count: int
    #: The name of one of the units.
    example: str
    #: The most tries that one of them took.
    tries: int
    first_time: float = _seconds("firstTime")
    last_time: float = _seconds("lastTime")
    #: How many failed so in each hour, whatever became of them: pairs of when it begins and the count.
    trend: List[Tuple[float, int]] = field(
        default_factory=list, metadata={"read": lambda rows: [(from_ms(row["time"]), row["count"]) for row in rows or []]}
    )


@dataclass(frozen=True)
class Spread:
    """Percentiles in seconds, to within a tenth of their value."""

    count: int
    p50: float = _seconds("p50")
    p90: float = _seconds("p90")
    p99: float = _seconds("p99")


def _spread(row: Any) -> Optional[Spread]:
    return None if row is None else read(Spread, row)


@dataclass(frozen=True)
class HistoryChange:
    """A change of the metadata of a work spec."""

    work_spec: str
    what: str
    time: float = _seconds("time")


def _changes(rows: Any) -> List[HistoryChange]:
    return [read(HistoryChange, row) for row in rows]


@dataclass(frozen=True)
class HistoryPoint:
    """One step: how many units were added and attempts began and ended, how many units ran and waited on average."""

    added: int
    started: int
    finished: int
    failed: int
    retried: int
    late: int
    expired: int
    #: None when no daemon looked in this step; the same for the next three.
    running: Optional[float]
    waiting: Optional[float]
    delayed: Optional[float]
    blocked: Optional[float]
    #: When the step begins.
    time: float = _seconds("time")
    #: How long the unit had waited that had waited longest.
    oldest: float = _seconds("oldestMs")
    #: How long attempts took that finished or failed; None when none did.
    duration: Optional[Spread] = field(default=None, metadata={"read": _spread})
    #: How long units had waited when their attempts began.
    wait: Optional[Spread] = field(default=None, metadata={"read": _spread})
    changes: List[HistoryChange] = field(default_factory=list, metadata={"read": _changes})


def _points(rows: Any) -> List[HistoryPoint]:
    return [read(HistoryPoint, row) for row in rows]


@dataclass(frozen=True)
class HistorySeries:
    #: None for the namespace as a whole.
    work_spec: Optional[str]
    points: List[HistoryPoint] = field(metadata={"read": _points})


def _series(rows: Any) -> List[HistorySeries]:
    return [read(HistorySeries, row) for row in rows]


@dataclass(frozen=True)
class History:
    start: float = field(metadata={"wire": "from", "read": from_ms})
    end: float = field(metadata={"wire": "to", "read": from_ms})
    #: Seconds between two points.
    step: float = field(metadata={"wire": "stepMs", "read": from_ms})
    #: The namespace as a whole first, then work specs.
    series: List[HistorySeries] = field(metadata={"read": _series})


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
class Partition:
    """A partition of a work spec. Its name is empty for units without one; of waiting and running units 1,000 are counted."""

    partition: str
    waiting: int
    running: int
    first: Optional[str]
    held: Optional[str]
    until: float = _seconds("until")
    reason: str = ""


@dataclass(frozen=True)
class WaitingSince:
    namespace: str
    work_spec: str
    since: float = _seconds("since")
    exact: bool = True


@dataclass(frozen=True)
class Explained:
    """Why a request would or would not get work from a work spec."""

    work_spec: str
    excluded: Optional[str]
    reason: str
    priority: float
    weight: float
    available: int
    pending: int
    score: float
    chance: float
    #: What weights are shares of ("choices" or "time"), its share by its weight, and the one it had lately.
    share: str = "choices"
    target_share: float = 0
    measured_share: Optional[float] = None
    #: How long its attempts took on average lately.
    mean: float = field(default=0, metadata={"wire": "meanMs", "read": from_ms})


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
