"""What people say to handles, in the words of the wire: seconds become milliseconds, names of Python those of the wire."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .data import dump_json, to_wire
from .errors import BadArgument
from .protocol import LONGEST_WAIT
from .rows import camel, to_ms

#: A unit to add: its name, a pair of name and data, or a dict of `name`, `data`, `priority`, `delay`, `not_before`,
#: `deadline`, `expires` (in seconds from now on), `dependencies`, `queues`, `labels`, `partition`, `batch`, `max_retries`, `retry`, `on_conflict`, `debounce`
#: and `throttle`.
NewUnit = Union[str, Sequence[Any], Mapping[str, Any]]
NewUnits = Union[Mapping[str, Optional[Mapping[str, Any]]], Iterable[NewUnit]]

KEEP: Any = object()

#: The most items of a request, and the most characters of their data and log lines. A daemon accepts 32 MiB.
_ITEMS = 1000
_LENGTH = 16 * 1024 * 1024

_SPANS = {"wait", "lifetime", "delay", "deadline", "expires", "timeout", "interval", "debounce", "throttle", "last"}
_TIMES = {"not_before", "next_continuous", "last_update", "expiration", "ended_since", "from", "to"}
_LISTS = {"names", "statuses", "work_specs", "runtimes", "tasks", "queues", "labels", "keys"}


def body_of(**members: Any) -> Dict[str, Any]:
    """The members of a request by their names on the wire, without None and fields to keep."""
    body: Dict[str, Any] = {}
    for name, value in members.items():
        if value is None or value is KEEP:
            continue
        if name in _SPANS:
            body[name + "Ms"] = to_ms(value)
        elif name in _TIMES:
            body[camel(name)] = to_ms(value)
        elif name in _LISTS:
            if isinstance(value, str):
                raise BadArgument("%s: expected a list of names, got one name" % name)
            body[camel(name)] = list(value)
        else:
            body[camel(name)] = value
    return body


_UNIT_KEYS = (
    "name",
    "data",
    "priority",
    "delay",
    "not_before",
    "deadline",
    "expires",
    "dependencies",
    "queues",
    "labels",
    "partition",
    "batch",
    "max_retries",
    "retry",
    "on_conflict",
    "debounce",
    "throttle",
)


def unit_body(unit: NewUnit, **others: Optional[str]) -> Dict[str, Any]:
    """`others` has the values of fields that the unit does not set."""
    body = _unit_body(unit)
    for name, value in others.items():
        if value is not None:
            body.setdefault(camel(name), value)
    return body


def _unit_body(unit: NewUnit) -> Dict[str, Any]:
    if isinstance(unit, str):
        return {"name": unit}
    if isinstance(unit, Mapping):
        for key in unit:
            if key not in _UNIT_KEYS:
                close = difflib.get_close_matches(str(key), _UNIT_KEYS, 1)
                hint = "; did you mean %r?" % close[0] if close else ""
                raise BadArgument("%r is not a field of a work unit%s" % (key, hint))
        own = ("data", "dependencies", "retry")
        body = body_of(**{str(key): value for key, value in unit.items() if key not in own})
        if unit.get("data") is not None:
            body["data"] = to_wire(unit["data"])
        if unit.get("dependencies") is not None:
            body["dependencies"] = [body_of(**dependency) for dependency in unit["dependencies"]]
        if unit.get("retry") is not None:
            body["retry"] = retry_body(unit["retry"])
        return body
    if not isinstance(unit, (tuple, list)) or not 1 <= len(unit) <= 2:
        raise BadArgument("expected a work unit as a name, a pair of name and data, or a dict, got %r" % (unit,))
    data = unit[1] if len(unit) == 2 else None
    return {"name": unit[0]} if data is None else {"name": unit[0], "data": to_wire(data)}


def retry_body(policy: Mapping[str, Any]) -> Dict[str, Any]:
    """`{"attempts": 5, "backoff": {"kind": "linear", "delay": 2, "max": 60, "jitter": 0.5}}`, as a work spec has it."""
    body = dict(policy)
    if isinstance(policy.get("backoff"), Mapping):
        names = {"delay": "delayMs", "max": "maxMs"}
        body["backoff"] = {
            names.get(key, key): to_ms(value) if key in names else value for key, value in policy["backoff"].items()
        }
    return body


def limit_body(name: str, limit: Mapping[str, Any]) -> Dict[str, Any]:
    """`{"max_running": 5, "rate": {"limit": 100, "period": 60, "burst": 10}}`, as a flow file has it."""
    body: Dict[str, Any] = {"name": name}
    for key, value in limit.items():
        if key == "max_running":
            body["maxRunning"] = value
        elif key == "rate":
            body["rate"] = {
                "periodMs" if each == "period" else each: to_ms(item) if each == "period" else item
                for each, item in value.items()
            }
        else:
            body[key] = value
    return body


def pairs(units: NewUnits) -> Iterable[NewUnit]:
    return units.items() if isinstance(units, Mapping) else units


def in_batches(bodies: Iterable[Dict[str, Any]]) -> Iterator[List[Dict[str, Any]]]:
    """The units or changes of each request: small enough for the daemon, unless the data of one is too long by itself."""
    batch: List[Dict[str, Any]] = []
    length = 0
    for body in bodies:
        data = body.get("data")
        own = 0 if data is None else len(data) if isinstance(data, str) else len(dump_json(data))
        own += sum(len(line["text"]) for line in body.get("log", {}).get("lines", ()))
        if batch and length + own > _LENGTH:
            yield batch
            batch, length = [], 0
        batch.append(body)
        length += own
        if len(batch) == _ITEMS:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def waits(wait: float) -> Iterator[float]:
    """Splits a long wait into pieces; a single piece of 0 without a wait."""
    left = wait
    while True:
        piece = min(left, LONGEST_WAIT)
        yield piece
        left -= piece
        if left <= 0:
            return


class Change(NamedTuple):
    """One change for `settle_attempts`: finish, fail, error, retry, expire or renew. Spans are in seconds."""

    attempt: str
    action: str
    data: Union[Mapping[str, Any], bytes, None] = None
    delay: Optional[float] = None
    lifetime: Optional[float] = None
    untried: bool = False
    #: Of an error: what went wrong, for a person. It becomes the traceback of the data.
    error: Optional[str] = None
    #: Of a fail or an error: expired, cancelled or late.
    reason: Optional[str] = None
    #: Of a renew: how far the attempt has come, from 0 to 1, and a few words for people.
    progress: Optional[Tuple[float, str]] = None
    #: Lines that the task wrote, as `LogLines` has them.
    log: Optional[Mapping[str, Any]] = None

    def body(self) -> Dict[str, Any]:
        body = body_of(attempt=self.attempt, action=self.action, delay=self.delay, lifetime=self.lifetime)
        if self.data is not None:
            body["data"] = to_wire(self.data)
        if self.untried:
            body["untried"] = True
        if self.error is not None:
            body["error"] = self.error
        if self.reason is not None:
            body["reason"] = self.reason
        if self.progress is not None:
            body["progress"] = {"done": self.progress[0], "note": self.progress[1]}
        if self.log is not None:
            body["log"] = dict(self.log)
        return body


def worker_body(name: str, **change: Any) -> Dict[str, Any]:
    body = body_of(name=name, **{key: value for key, value in change.items() if value is not None})
    if change.get("data") is not None and change["data"] is not KEEP:
        body["data"] = to_wire(change["data"])
    for key in ("parent", "desired"):
        if key in change and change[key] is None:
            body[key] = None
    return body


def lock_body(owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float]) -> Dict[str, Any]:
    return body_of(owner=owner, paths=[list(path) for path in paths], timeout=timeout)
