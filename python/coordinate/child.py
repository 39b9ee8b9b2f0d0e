"""A child process that runs jobs and tasks for a worker: the one of this package, or the one of Node.

It holds no connection to a coordinator; what a job wants done is said to the supervisor over a file descriptor, and whatever
a job prints goes where the supervisor's own output goes.
"""

import os
import sys

if __name__ == "__main__":
    # Started by its path, which is inside the package: its neighbours are no modules of their own.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    import coordinate.child

    coordinate.child.main([int(argument) for argument in sys.argv[1:]])
    sys.exit()

import importlib
import logging
import runpy
import signal
import socket
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Set, Tuple

from . import data as codec
from .channel import Channel, Ended, Head, Pieces
from .errors import LostLease, error_of
from .work_unit import Port, WorkUnit, attempt_batch, attempt_unit, get, load, run_module

#: Data may be nested 512 deep, and jobs have frames of their own.
_RECURSION = 20000


def leave(code: int) -> NoReturn:
    """Ends the process at once, without clean-up of jobs, which could delay it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # the reader is gone
    os._exit(code)


class Child(Port):
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        #: Guards the messages below. Tasks may ask from threads, even after they have returned: one thread at a time reads, for all.
        self.turn = threading.Condition()
        self.reader: Optional[int] = None
        self.refs = 0
        self.answers: Dict[int, Head] = {}
        self.runs: Deque[Tuple[Head, Pieces]] = deque()
        self.current: Optional[WorkUnit] = None
        self.terminate: Optional[Callable[..., Any]] = None
        self.tasks: Dict[str, Any] = {}
        self.specs: Dict[str, Dict[Any, Any]] = {}
        self.skipped: Set[str] = set()
        #: The job has returned: what is settled now may wait for the next message.
        self.returned = False

    def main(self) -> None:
        signal.signal(signal.SIGTERM, self.on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            try:
                self.read_until(lambda: bool(self.runs))
                head, data = self.runs.popleft()
                if head["kind"] == "start":
                    self.start(head)
                elif head["kind"] == "run":
                    self.run(head, data)
            except Ended:
                leave(0)

    # ---- what the supervisor says

    def start(self, head: Head) -> None:
        self.default_lifetime = head.get("defaultLifetime", 900)
        sys.path[0] = os.getcwd()
        sys.path[:] = head.get("path", sys.path)
        sys.setrecursionlimit(_RECURSION)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
        logging.getLogger().addHandler(LogHandler(self))
        logging.getLogger().setLevel(head.get("logLevel", logging.INFO))
        try:
            if head.get("tasks") is not None:
                self.tasks = load_tasks(**head["tasks"])
        except BaseException:
            self.channel.send({"kind": "failed", "text": traceback.format_exc()})
            leave(1)
        self.channel.send({"kind": "ready", "taskNames": list(self.tasks)})

    def run(self, head: Head, data: Pieces) -> None:
        task = self.tasks.get(head.get("task", ""))
        spec = codec.decode(data[0])
        self.specs = {head["workSpec"]: spec}
        error = None
        try:
            if task is None:
                load(spec, "run_function")
            has_end = task is None and get(spec, "terminate_function")
            self.terminate = load(spec, "terminate_function") if has_end else None
        except Exception:
            error = {"text": traceback.format_exc(), "retryMs": None}
        if error is None:
            units = [
                WorkUnit(
                    self,
                    head["workSpec"],
                    row["workUnit"],
                    raw,
                    worker_id=row["worker"],
                    expires=row["expirationTime"] / 1000.0,
                    attempt=row["id"],
                    attempt_number=row["number"],
                )
                for row, raw in zip(head["units"], data[1:])
            ]
            if task is not None and task.batch:
                for unit in units:
                    self.channel.send({"kind": "begin", "attempt": unit._attempt}, flush=unit is units[-1])
                attempt_batch(units, self.until_returned(task.function))
            else:
                self.run_each(units, run_module if task is None else task.function, task is not None)
        self.channel.send({"kind": "done", "error": error})

    def run_each(self, units: List[WorkUnit], function: Callable[[WorkUnit], Any], expects_result: bool) -> None:
        for unit in units:
            self.read_waiting()
            if unit._attempt in self.skipped:
                self.skipped.discard(unit._attempt)
                continue
            self.channel.send({"kind": "begin", "attempt": unit._attempt})
            self.current = unit
            attempt_unit(unit, self.until_returned(function), expects_result)
            self.current = None

    def until_returned(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(argument: Any) -> Any:
            self.returned = False
            try:
                return function(argument)
            finally:
                self.returned = True

        return call

    def read_until(self, found: Callable[[], bool]) -> None:
        """Reads messages, or waits while another thread does, until the caller has what it waits for."""
        own = threading.get_ident()
        while True:
            with self.turn:
                # the handler of a signal may ask while its own thread is reading
                while not found() and self.reader not in (None, own):
                    self.turn.wait()
                if found():
                    return
                before, self.reader = self.reader, own
            try:
                self.hear(*self.channel.receive())
            finally:
                with self.turn:
                    self.reader = before
                    self.turn.notify_all()

    def read_waiting(self) -> None:
        """Reads messages that have arrived while a batch runs."""
        with self.turn:
            while self.reader is None and self.channel.has_message():
                self.hear(*self.channel.receive())

    def hear(self, head: Head, data: Pieces) -> None:
        with self.turn:
            if head["kind"] == "skip":
                # released units are not started
                self.skipped.update(head["attempts"])
            elif head["kind"] == "answer":
                self.answers[head["ref"]] = head
            else:
                self.runs.append((head, data))
            self.turn.notify_all()

    # ---- what units want done

    def end(self, unit: WorkUnit, action: str, data: Optional[bytes], delay: float = 0) -> None:
        # Not waited for: the next unit can begin while this one is stored.
        head = {"kind": "settle", "ref": 0, "attempt": unit._attempt, "action": action}
        if action in ("retry", "snooze"):
            head["delayMs"] = round(delay * 1000)
        if action == "snooze":
            head.update(action="retry", untried=True)
        self.channel.send(head, [data], flush=not self.returned)

    def renew(self, unit: WorkUnit, seconds: float, data: Optional[bytes]) -> None:
        head = {"kind": "settle", "attempt": unit._attempt, "action": "renew", "lifetimeMs": round(seconds * 1000)}
        self.ask(head, [data])

    def progress(self, unit: WorkUnit, data: bytes) -> None:
        self.ask({"kind": "progress", "attempt": unit._attempt}, [data])

    def report(self, unit: WorkUnit, done: float, note: str) -> None:
        self.ask({"kind": "progress", "attempt": unit._attempt, "done": done, "note": note}, [])

    def log(self, unit: WorkUnit, text: str, level: str) -> None:
        lines = [{"text": text, "level": level, "time": round(time.time() * 1000)}]
        self.channel.send({"kind": "lines", "attempt": unit._attempt, "lines": lines})

    def spec(self, unit: WorkUnit) -> Dict[Any, Any]:
        return self.specs[unit.work_spec_name]

    def ask(self, head: Head, data: Pieces) -> None:
        with self.turn:
            self.refs += 1
            ref = head["ref"] = self.refs
        self.channel.send(head, data)
        self.read_until(lambda: ref in self.answers)
        error = self.answers.pop(ref).get("error")
        if error is None:
            return
        if error["code"] in ("lost_lease", "not_pending", "gone", "no_such_attempt"):
            raise LostLease("%s: %s" % (error["code"], error["value"]))
        raise error_of(error["code"], error["value"])

    # ---- the end

    def on_terminate(self, _signum: int, _frame: Any) -> None:
        if self.channel.sending:
            self.channel.after_send = self.stop
        else:
            self.stop()

    def stop(self) -> None:
        """The time of the unit is up: calls the clean-up of its module. The supervisor kills the child if that takes too long."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        unit, self.current = self.current, None
        if unit is not None and self.terminate is not None:
            try:
                self.terminate(unit)
            except BaseException:
                traceback.print_exc()
        leave(143)


class LogHandler(logging.Handler):
    def __init__(self, child: Child) -> None:
        super().__init__()
        self.child = child

    def emit(self, record: logging.LogRecord) -> None:
        level = "debug"
        for name, number in (("info", logging.INFO), ("warn", logging.WARNING), ("error", logging.ERROR)):
            if record.levelno >= number:
                level = name
        try:
            head = {"kind": "log", "level": level, "text": self.format(record), "details": {"logger": record.name}}
            if self.child.current is not None:
                head["attempt"] = self.child.current._attempt
            self.child.channel.send(head)
        except Exception:
            self.handleError(record)


def load_tasks(attribute: str, module: Optional[str] = None, file: Optional[str] = None) -> Dict[str, Any]:
    """The tasks of the worker that is this global of a module, or of a program's own file."""
    if module is not None:
        names = vars(importlib.import_module(module))
    else:
        assert file is not None
        names = runpy.run_path(file, run_name="__coordinate__")
    found = names[attribute].tasks
    assert isinstance(found, dict)
    return found


def end_with_supervisor(life: int) -> None:
    """A supervisor that was killed cannot end its children: they notice that its end of the pipe is closed."""
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def main(descriptors: List[int]) -> None:
    """The descriptor of the channel, 3 when not given; and of a pipe whose end means that the supervisor is gone."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if len(descriptors) > 1:
        threading.Thread(target=end_with_supervisor, args=(descriptors[1],), daemon=True).start()
    channel = descriptors[0] if descriptors else 3
    os.set_inheritable(channel, False)
    Child(Channel(socket.socket(fileno=channel))).main()
