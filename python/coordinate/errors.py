"""Errors: one class for each code that a server may answer.

The code is the name of the class in snake case, so the class statements below are the table of codes. Every class is a
`CoordinateError`; codes that this version does not know arrive as that class itself.
"""

import re
from typing import Any, ClassVar, Dict, Mapping, Type


class CoordinateError(Exception):
    """The base class of expected errors. `value` is what the error is about: the missing name, or the invalid field."""

    #: The code of the class; of an instance, the code that the server answered.
    code: str = "error"
    #: The HTTP status that belongs to it.
    status: int = 500

    _by_code: ClassVar[Dict[str, Type["CoordinateError"]]] = {}

    def __init__(self, value: str = "", message: str = "") -> None:
        self.value = value
        self.message = message or _message(self, value)
        super().__init__(self.message)

    def __init_subclass__(cls, code: bool = True, status: int = 0) -> None:
        if status:
            cls.status = status
        if code:
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
            CoordinateError._by_code[cls.code] = cls

    def __reduce__(self) -> "tuple[object, ...]":
        return (error_of, (self.code, self.value, self.message, self.status))


def _message(error: CoordinateError, value: str) -> str:
    text = (type(error).__doc__ or "").split("\n")[0].rstrip(".")
    return "%s: %s" % (text, value) if value else text


def error_of(code: str, value: str = "", message: str = "", status: int = 0) -> CoordinateError:
    """The error of a code, as a server answered it."""
    error = CoordinateError._by_code.get(code, CoordinateError)(value, message)
    error.code = code
    if status:
        error.status = status
    return error


def codes() -> "tuple[str, ...]":
    return tuple(CoordinateError._by_code)


# ---- the request is invalid: nothing was changed


class BadRequest(CoordinateError, ValueError, status=400):
    """The request is invalid"""


class BadArgument(BadRequest):
    """Bad argument"""


class BadName(BadRequest):
    """Bad name"""


class BadData(BadRequest):
    """Bad data"""


class EmptyQuery(BadRequest):
    """The query has no conditions; to select every work unit, set all=True"""


class NoWorkSpecName(BadRequest):
    """No 'name' key in work spec"""


class BadWorkSpecName(BadRequest):
    """Work spec 'name' must be a string"""


class ChangedName(BadRequest, status=409):
    """Cannot change work spec 'name'"""


class BadWorkSpec(BadRequest, status=422):
    """Bad work spec"""


class BadDependency(BadRequest, status=422):
    """Bad dependency"""


class DependencyCycle(BadRequest, status=422):
    """Dependencies form a cycle"""


class WorkerCycle(BadRequest, status=422):
    """Worker parents form a cycle"""


class TooLarge(BadRequest, status=413):
    """Too large"""


class MethodNotAllowed(BadRequest, status=405):
    """The server does not know this method"""


class NotAcceptable(BadRequest, status=406):
    """The server cannot answer with this content type"""


class UnsupportedMediaType(BadRequest, status=415):
    """The server cannot read this content type"""


class WrongHost(BadRequest, status=421):
    """The server does not accept requests for this host name"""


# ---- the requested object does not exist


class NotFound(CoordinateError, LookupError, status=404):
    """Not found"""


class NoSuchNamespace(NotFound):
    """No such namespace"""


class NoSuchWorkSpec(NotFound):
    """No such work spec"""


class NoSuchWorkUnit(NotFound):
    """No such work unit"""


class NoSuchAttempt(NotFound):
    """No such attempt"""


class NoSuchWorker(NotFound):
    """No such worker"""


class Gone(NotFound, status=410):
    """Object no longer exists"""


# ---- the request conflicts with the current state


class Conflict(CoordinateError, code=False, status=409):
    """The request conflicts with the current state"""


class NotPending(Conflict):
    """Attempt is not pending"""


class LostLease(Conflict):
    """No longer the active attempt"""


class NameExists(Conflict):
    """Name already exists"""


# ---- who may do what


class Unauthorized(CoordinateError, status=401):
    """The server requires a valid token"""


class Forbidden(CoordinateError, status=403):
    """The token does not allow this"""


# ---- the system cannot answer


class CannotAnswer(CoordinateError, code=False, status=503):
    """The system cannot answer now"""


class Unavailable(CannotAnswer):
    """Not available"""


class UnknownOutcome(CannotAnswer):
    """The outcome is not known"""


class NoSpace(CannotAnswer, status=507):
    """No space left"""


class Closed(CannotAnswer):
    """Closed"""


class Stopping(CannotAnswer):
    """The server is about to stop"""


class Timeout(CannotAnswer, status=408):
    """The request took too long to arrive"""


class NotCoordinate(CannotAnswer):
    """The answer is not one of Coordinate"""


class QueueFull(CoordinateError, status=429):
    """Queue is full"""


class TooManyRequests(CannotAnswer, status=429):
    """Too many requests"""


class NotSupported(CoordinateError, status=501):
    """Not supported"""


class Internal(CoordinateError, status=500):
    """Internal error"""


# ---- the names of the Python 2 package


class ProgrammerError(CoordinateError, code=False):
    """The work spec does not say what to run"""


CoordinateException = CoordinateError
NoSuchWorkSpecError = NoSuchWorkSpec
NoSuchWorkUnitError = NoSuchWorkUnit


# ---- not an answer of a server


class WorkUnitFailed(Exception):
    """Raised by `result` when the unit failed. The message contains the last line of its traceback."""

    def __init__(self, work_spec_name: str, work_unit_name: str, data: Mapping[str, Any]) -> None:
        traceback = data.get("traceback")
        self.work_spec_name = work_spec_name
        self.work_unit_name = work_unit_name
        #: The error, for people to read.
        self.traceback: str = traceback if isinstance(traceback, str) else ""
        #: The data of the last attempt.
        self.data = data
        lines = self.traceback.strip().splitlines()
        why = lines[-1] if lines else "no reason given"
        super().__init__("work unit %s of %s failed: %s" % (work_unit_name, work_spec_name, why))

    def __reduce__(self) -> "tuple[object, ...]":
        return (WorkUnitFailed, (self.work_spec_name, self.work_unit_name, self.data))
