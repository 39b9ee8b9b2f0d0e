"""A work unit as its job sees it: in a task of a worker, in a job of the Node worker, and from a TaskMaster.

A job is a function that is called with a unit. Returning finishes the unit, an exception fails it; changed data is saved either way.
"""

import importlib
import logging
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional

from . import data as codec
from .errors import BadArgument, LostLease, ProgrammerError
from .log_lines import LEVELS

logger = logging.getLogger("coordinate")


class Retry(Exception):
    """`raise Retry(60)`: the unit is tried again after this many seconds. `data` is stored with the attempt."""

    def __init__(self, delay: float = 0, data: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__("retry in %g s" % delay)
        self.delay = delay
        self.data = data


class Snooze(Exception):
    """`raise Snooze(60)`: the unit runs again after this many seconds, and the attempt does not count as a try."""

    def __init__(self, delay: float) -> None:
        super().__init__("snooze for %g s" % delay)
        self.delay = delay


class Fail(Exception):
    """`raise Fail("no such file")`: the unit fails and is not tried again. `data` is stored with the attempt."""

    def __init__(self, text: str, data: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(text)
        self.text = text
        self.data = data


class Port:
    """How a unit reaches its coordinator. `data` is encoded, and None when it is as it was."""

    #: Seconds of the lease that `update()` asks for.
    default_lifetime: float = 900

    def end(self, unit: "WorkUnit", action: str, data: Optional[bytes], delay: float = 0) -> None:
        """finish, fail, error, retry or snooze."""
        raise NotImplementedError

    def renew(self, unit: "WorkUnit", seconds: float, data: Optional[bytes]) -> None:
        """Zero or less gives the unit back. Raises LostLease."""
        raise NotImplementedError

    def progress(self, unit: "WorkUnit", data: bytes) -> None:
        """Stores data and leaves the lease as it is. Raises LostLease."""
        raise NotImplementedError

    def report(self, unit: "WorkUnit", done: float, note: str) -> None:
        """How far the unit has come; of reports that follow each other within a second, the last is stored."""
        raise NotImplementedError

    def log(self, unit: "WorkUnit", text: str, level: str) -> None:
        """Keeps a line with the attempt. A port that has no place for it leaves it to the log of the process."""
        logger.log({"debug": 10, "info": 20, "warn": 30, "error": 40}[level], "%s", text)

    def spec(self, unit: "WorkUnit") -> Dict[Any, Any]:
        raise NotImplementedError


class WorkUnit:
    """One unit. `data` may be changed; what was changed is saved with the next call, and when the unit ends."""

    LostLease = LostLease

    def __init__(
        self,
        port: Port,
        work_spec_name: str,
        key: str,
        raw: Optional[bytes],
        worker_id: str = "",
        expires: Optional[float] = None,
        attempt: str = "",
        attempt_number: int = 0,
    ) -> None:
        self._port = port
        self._raw = raw
        self._data: Optional[Dict[str, Any]] = None
        self._sent: Optional[bytes] = None
        self._spec: Optional[Dict[Any, Any]] = None
        self._released = False
        self._attempt = attempt
        self.work_spec_name = work_spec_name
        #: The name: text, with bytes that are not UTF-8 as `surrogateescape` has them.
        self.key = key
        self.worker_id = worker_id
        #: When the lease ends, in seconds since 1970; None where that is not known.
        self.expires = expires
        #: 1 for the unit's first attempt; 0 where that is not known.
        self.attempt_number = attempt_number
        self.finished = False
        self.failed = False

    def __repr__(self) -> str:
        return "<WorkUnit %s/%s>" % (self.work_spec_name, self.key)

    @property
    def name(self) -> str:
        return self.key

    @property
    def spec_name(self) -> str:
        return self.work_spec_name

    @property
    def key_bytes(self) -> bytes:
        """The name as the bytes it is; names need not be text."""
        return codec.name_to_bytes(self.key)

    @property
    def data(self) -> Dict[str, Any]:
        if self._data is None:
            self._data = codec.decode(self._raw)
        return self._data

    @data.setter
    def data(self, data: Dict[str, Any]) -> None:
        self._data = data

    @property
    def spec(self) -> Dict[Any, Any]:
        """The data of the work spec."""
        if self._spec is None:
            self._spec = self._port.spec(self)
        return self._spec

    @property
    def default_lease_time(self) -> float:
        return self._port.default_lifetime

    @property
    def settled(self) -> bool:
        return self.finished or self.failed or self._released

    def update(self, lease_time: Optional[float] = None) -> None:
        """Saves changed data and renews the lease, in seconds from now; below zero, releases the unit at once."""
        self._check_held()
        seconds = self._port.default_lifetime if lease_time is None else lease_time
        data = self._changed()
        self._port.renew(self, seconds, data)
        self._sent = data or self._sent
        if seconds <= 0:
            self._released = True
        else:
            self.expires = time.time() + seconds

    renew = update

    def progress(self, done: Optional[float] = None, note: str = "", /, **data: Any) -> None:
        """`progress(0.4, "page 4 of 10")` says how far the unit has come, from 0 to 1. Of reports that follow each other within
        a second, the last is stored. `progress(rows=17)` adds to the data and stores it for others to see.

        Raises LostLease when the unit is another worker's by now.
        """
        self._check_held()
        if done is not None:
            self._port.report(self, *_checked_report(done, note))
        if not data:
            return
        self.data.update(data)
        changed = self._changed()
        if changed is not None:
            self._port.progress(self, changed)
            self._sent = changed

    def log(self, text: str, level: str = "info") -> None:
        """Writes a log line, which is stored with the attempt within about a second: debug, info, warn or error. Each attempt keeps
        its newest 1,000 lines, at most 64 KiB."""
        if level not in LEVELS:
            raise BadArgument("log: expected one of the levels %s, got %r" % (", ".join(LEVELS), level))
        self._port.log(self, str(text), level)

    def finish(self, data: Optional[Dict[str, Any]] = None) -> None:
        """With `data`, that is the result; its `output` makes units of the next work spec in the same step."""
        if self.settled:
            return
        if data is not None:
            self._data = data
        self._port.end(self, "finish", self._changed())
        self.finished = True

    def fail(self, exc: Any = None) -> None:
        """Fails the unit for good. With an exception or text, saves the traceback in the data."""
        self._end_badly("fail", exc)

    def error(self, exc: Any) -> None:
        """Ends the attempt with an error: the retry policy decides whether the unit is tried again; without one it fails."""
        self._end_badly("error", exc)

    def retry(self, delay: float = 0, data: Optional[Mapping[str, Any]] = None) -> None:
        """Releases the unit, to be tried again after `delay` seconds."""
        self._check_held()
        if data is not None:
            self._data = dict(data)
        self._port.end(self, "retry", self._changed(), delay)
        self._released = True

    def snooze(self, delay: float) -> None:
        """Postpones the unit by `delay` seconds; the attempt does not count as a try."""
        self._check_held()
        self._port.end(self, "snooze", None, delay)
        self._released = True

    def _fail_with(self, failure: Fail) -> None:
        if failure.data is not None:
            self._data = dict(failure.data)
        self.fail(failure.text)

    def _end_badly(self, action: str, exc: Any) -> None:
        if self.settled:
            return
        try:
            if exc is not None:
                self.data["traceback"] = text_of(exc)
            changed = self._changed()
        except Exception as problem:
            # What the job left in its data cannot be stored: the failure is what must not be lost.
            self._data = codec.decode(self._raw)
            self._data["traceback"] = "%s\nand its data was lost: %s" % (text_of(exc), problem)
            changed = self._changed()
        self._port.end(self, action, changed)
        self.failed = True

    def _check_held(self) -> None:
        if self.settled:
            raise LostLease("%s: already settled" % self.key)

    def _changed(self) -> Optional[bytes]:
        """The data as it shall be stored; None when it is as it was."""
        if self._data is None:
            return None
        as_cbor = self._raw is not None and codec.is_cbor(self._raw)
        encoded = codec.encode(self._data, as_cbor)
        before = self._sent
        if before is None:
            before = codec.encode(codec.decode(self._raw), as_cbor)
        return None if encoded == before else encoded

    # ---- running it

    def run(self) -> None:
        """Runs the function that the work spec names, and finishes the unit. Raises what the function raises."""
        run_module(self)
        self.finish()

    def terminate(self) -> None:
        """Calls the work spec's `terminate_function`, if there is one."""
        if get(self.spec, "terminate_function"):
            load(self.spec, "terminate_function")(self)


#: Characters of a note, as the server has it.
_LONGEST_NOTE = 1000


def _checked_report(done: Any, note: Any) -> "tuple[float, str]":
    if isinstance(done, bool) or not isinstance(done, (int, float)) or not 0 <= done <= 1:
        raise BadArgument("progress: expected a number from 0 to 1, got %r" % (done,))
    if not isinstance(note, str) or len(note) > _LONGEST_NOTE:
        raise BadArgument("progress: expected a note of at most %d characters" % _LONGEST_NOTE)
    return done, note


def text_of(exc: Any) -> str:
    if isinstance(exc, BaseException):
        return "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    return str(exc)


# ---- jobs that the work spec names


def run_module(unit: WorkUnit) -> None:
    function = load(unit.spec, "run_function")
    params = get(unit.spec, "run_params")
    if isinstance(params, dict):
        function(unit, **{text(key): value for key, value in params.items()})
    else:
        function(unit, *(params or ()))


def load(spec: Mapping[Any, Any], key: str) -> Callable[..., Any]:
    module, name = get(spec, "module"), get(spec, key)
    if not module or not name:
        raise ProgrammerError("the work spec has no module or no %s" % key)
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def text(value: Any) -> Any:
    return codec.name_from_bytes(value) if isinstance(value, bytes) else value


def get(spec: Mapping[Any, Any], key: str) -> Any:
    """A key of a work spec, which Python 2 may have written as text or as bytes."""
    return text(spec.get(key, spec.get(key.encode("ascii"))))


def attempt_unit(unit: WorkUnit, function: Callable[[WorkUnit], Any], expects_result: bool) -> None:
    """Runs one unit to its end, whatever the function does. What it returns is the data when `expects_result`."""
    try:
        result = function(unit)
        unit.finish(result if expects_result and result is not None else None)
    except Retry as again:
        _quietly(unit, lambda: unit.retry(again.delay, again.data))
    except Snooze as later:
        _quietly(unit, lambda: unit.snooze(later.delay))
    except Fail as failure:
        _quietly(unit, lambda: unit._fail_with(failure))
    except BaseException as error:  # a job that calls sys.exit() has failed like any other
        if any(kind.__name__ == "LostLease" for kind in type(error).__mro__):
            logger.warning("%s/%s: lost its lease", unit.work_spec_name, unit.key)
        else:
            _quietly(unit, lambda: unit.error(error))


def attempt_batch(units: List[WorkUnit], function: Callable[[List[WorkUnit]], Any]) -> None:
    """All units of a claim at once. The function may settle some itself; it returns None, or a result for each unit."""
    try:
        results = function(units)
        if results is None:
            results = [None] * len(units)
        if len(results) != len(units):
            raise ProgrammerError("%d results for %d units" % (len(results), len(units)))
        for unit, result in zip(units, results):
            attempt_unit(unit, lambda _, result=result: result, True)  # type: ignore[misc]
    except Retry as again:
        for unit in units:
            if not unit.settled:
                _quietly(unit, lambda unit=unit: unit.retry(again.delay, again.data))  # type: ignore[misc]
    except Snooze as later:
        for unit in units:
            if not unit.settled:
                _quietly(unit, lambda unit=unit: unit.snooze(later.delay))  # type: ignore[misc]
    except Fail as failure:
        for unit in units:
            if not unit.settled:
                _quietly(unit, lambda unit=unit: unit._fail_with(failure))  # type: ignore[misc]
    except BaseException as error:
        for unit in units:
            _quietly(unit, lambda unit=unit: unit.error(error))  # type: ignore[misc]


def _quietly(unit: WorkUnit, settle: Callable[[], None]) -> None:
    try:
        settle()
    except LostLease:
        logger.warning("%s/%s: lost its lease", unit.work_spec_name, unit.key)
