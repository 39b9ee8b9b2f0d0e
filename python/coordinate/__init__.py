"""Client and worker for Coordinate.

    import coordinate
    shop = coordinate.connect("http://127.0.0.1:5980").namespace("shop")
"""

from .client import connect
from .errors import (
    BadArgument,
    BadData,
    BadName,
    BadRequest,
    BadWorkSpec,
    Closed,
    Conflict,
    CoordinateError,
    CoordinateException,
    Forbidden,
    Gone,
    LostLease,
    NoSuchAttempt,
    NoSuchWorker,
    NoSuchWorkSpec,
    NoSuchWorkSpecError,
    NoSuchWorkUnit,
    NoSuchWorkUnitError,
    NotFound,
    NotPending,
    ProgrammerError,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownOutcome,
    WorkUnitFailed,
)
from .arguments import Change
from .task_master import TaskMaster, run_one
from .transport import Cancel
from .work_unit import Fail, Retry, Snooze, WorkUnit
from .worker import Worker

__version__ = "0.2.0"

__all__ = [
    "BadArgument",
    "BadData",
    "BadName",
    "BadRequest",
    "BadWorkSpec",
    "Cancel",
    "Change",
    "Closed",
    "Conflict",
    "CoordinateError",
    "CoordinateException",
    "Fail",
    "Forbidden",
    "Gone",
    "LostLease",
    "NoSuchAttempt",
    "NoSuchWorkSpec",
    "NoSuchWorkSpecError",
    "NoSuchWorkUnit",
    "NoSuchWorkUnitError",
    "NoSuchWorker",
    "NotFound",
    "NotPending",
    "ProgrammerError",
    "Retry",
    "Snooze",
    "TaskMaster",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnknownOutcome",
    "WorkUnit",
    "WorkUnitFailed",
    "Worker",
    "connect",
    "run_one",
]
