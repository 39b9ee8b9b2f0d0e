"""A slot of a worker: one batch at a time, run in a thread or in a child process.

The thread of the slot runs units. The keeper of the worker calls `keep` regularly from another thread: it renews leases,
releases units that wait behind a long one, and ends units that take too long.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from . import child as child_program
from . import data as codec
from .channel import Channel, Ended, Head, Pieces
from .errors import CoordinateError, LostLease, ProgrammerError
from .arguments import Change
from .handles import Attempt, Sync
from .log_lines import LogLines
from .work_unit import Port, WorkUnit, attempt_batch, attempt_unit, get, run_module

if TYPE_CHECKING:
    from .worker import Run, Settling, Worker

logger = logging.getLogger("coordinate.worker")

#: Units that wait behind one that has run for so long are given back, in seconds.
_BEHIND = 1.0
#: Between two reports of the progress of a unit, in seconds.
_REPORT_EVERY = 1.0
#: From SIGTERM to SIGKILL.
_KILL_AFTER = 5.0
#: A child is sent as many units at once as it does in about this time.
_CHUNK_SECONDS = 0.05

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class Held:
    """An attempt that the worker holds, from its claim to its end."""

    def __init__(self, attempt: Attempt[Sync], lease: float) -> None:
        self.attempt = attempt
        self.lease_until = time.monotonic() + lease
        self.begun_at: Optional[float] = None
        self.deadline: Optional[float] = None
        #: When a report of its progress was last sent, and one that waits to be.
        self.reported_at = 0.0
        self.report: Optional[Tuple[float, str]] = None
        #: What its task wrote.
        self.log = LogLines()
        #: The worker has nothing to do with it any more: it was settled, or given back.
        self.over = False
        #: Another worker has the unit, or it is gone.
        self.lost = False

    def begin(self, timeout: Optional[float]) -> None:
        self.begun_at = time.monotonic()
        self.deadline = None if timeout is None else self.begun_at + timeout


class Batch:
    def __init__(self, run: "Run", attempts: List[Attempt[Sync]]) -> None:
        self.spec_name = attempts[0].work_spec_name
        self.spec = run.spec(self.spec_name)
        self.task = run.task_of(self.spec_name, self.spec)
        self.timeout = run.timeout_of(self.task)
        self.whole = self.task is not None and run.worker.tasks[self.task].batch
        #: A child has died of this batch: its units run one at a time, so that the one is found.
        self.suspect = False
        self.held = {attempt.id: Held(attempt, run.worker.lease) for attempt in attempts}

    @property
    def too_late(self) -> str:
        return "job expired" if self.task is None else "timed out after %g s" % (self.timeout or 0)


class Slot(threading.Thread):
    def __init__(self, run: "Run", worker_name: str) -> None:
        super().__init__(name=worker_name, daemon=True)
        self._worker_run = run
        self.worker_name = worker_name
        self.failure: Optional[BaseException] = None
        #: Its task does not end, and is not waited for.
        self.abandoned = False
        self._lock = threading.RLock()
        self._batch: Optional[Batch] = None

    def run(self) -> None:
        run = self._worker_run
        try:
            self.prepare()
            while True:
                attempts = run.claim(self)
                if not attempts:
                    break
                start = time.monotonic()
                try:
                    batch = Batch(run, attempts)
                except CoordinateError as error:
                    # Its work spec cannot be read, or was deleted: the units are not lost, and the worker goes on.
                    run.trouble(error)
                    for attempt in attempts:
                        run.settler.settle(Change(attempt.id, "expire", untried=True))
                    run.done(0, 0)
                    continue
                with self._lock:
                    self._batch = batch
                self.execute(batch)
                with self._lock:
                    self._batch = None
                run.done(len(attempts), time.monotonic() - start)
        except BaseException as error:
            self.failure = error
            run.end()

    def prepare(self) -> None:
        """Called before the first claim."""

    def execute(self, batch: Batch) -> None:
        raise NotImplementedError

    def end_running(self, batch: Batch, running: List[Held], reason: str) -> None:
        """`late`: the unit timed out. `stopped`: the worker has to stop. `lost`: the unit no longer belongs to this worker."""
        raise NotImplementedError

    def close(self) -> None:
        """Called when the thread has ended."""

    # ---- settling

    def settle(
        self,
        batch: Batch,
        held: Held,
        action: str,
        data: Any = None,
        delay: float = 0,
        reason: Optional[str] = None,
    ) -> None:
        """The coordinator applies the retry policy to an error. `snooze` is a retry that does not count as a try."""
        with self._lock:
            held.over = True
        untried = action == "snooze"
        if untried:
            action = "retry"
        self._worker_run.settler.settle(
            Change(held.attempt.id, action, data, delay=delay if action == "retry" else None, untried=untried, reason=reason),
            held,
        )

    def blame(self, batch: Batch, held: Held, text: str, reason: Optional[str] = None) -> None:
        self.settle(batch, held, "error", {**held.attempt.data, "traceback": text}, reason=reason)

    def release(self, held: Held) -> None:
        """Releases the unit without counting a try."""
        with self._lock:
            if held.over or held.begun_at is not None:
                return
            held.over = True
        self._worker_run.settler.settle(Change(held.attempt.id, "expire", untried=True), held)

    def renew_held(self, held: Held, seconds: float, data: Optional[bytes]) -> None:
        """Renews a lease at the request of the job. Raises LostLease."""
        lease = self._worker_run.worker.lease
        if seconds <= 0:
            with self._lock:
                held.over = True
            self._worker_run.settler.settle(Change(held.attempt.id, "expire", data), held).wait()
            return
        change = Change(held.attempt.id, "renew", data, lifetime=min(seconds, lease))
        self._worker_run.settler.settle(change, held).wait()
        with self._lock:
            held.lease_until = time.monotonic() + min(seconds, lease)
            held.deadline = time.monotonic() + seconds

    def progress_held(self, held: Held, data: bytes) -> None:
        left = max(1.0, held.lease_until - time.monotonic())
        self._worker_run.settler.settle(Change(held.attempt.id, "renew", data, lifetime=left), held).wait()

    def report_held(self, held: Held, done: float, note: str) -> None:
        """Stores the report and waits for it; within a second of the last report, leaves it to the keeper."""
        with self._lock:
            held.report = (done, note)
            sending = self._send_report(held, time.monotonic())
        if sending is not None:
            sending.wait()

    def _send_report(self, held: Held, now: float) -> "Optional[Settling]":
        """Call it with the lock held. Renews the lease."""
        if held.report is None or held.over or held.lost or now - held.reported_at < _REPORT_EVERY:
            return None
        lease = self._worker_run.worker.lease
        change = Change(held.attempt.id, "renew", lifetime=lease, progress=held.report)
        held.report = None
        held.reported_at = now
        held.lease_until = now + lease
        return self._worker_run.settler.settle(change, held)

    # ---- what depends on time

    def long_running(self, now: float) -> List[Held]:
        """Units that started a while ago and still run."""
        with self._lock:
            held = [] if self._batch is None else list(self._batch.held.values())
        return [each for each in held if not each.over and not each.lost and now - (each.begun_at or now) > _BEHIND]

    def writing(self) -> List[Held]:
        """Units with log lines that are not stored yet."""
        with self._lock:
            held = [] if self._batch is None else list(self._batch.held.values())
        return [each for each in held if not each.over and each.log.unstored() is not None]

    def keep(self, now: float, ended: bool) -> None:
        """`ended`: the worker stops, and the grace time of tasks is over."""
        run = self._worker_run
        with self._lock:
            batch = self._batch
            if batch is None:
                return
            held = [each for each in batch.held.values() if not each.over]
            running = [each for each in held if each.begun_at is not None]
            waiting = [each for each in held if each.begun_at is None]
            behind = any(now - (each.begun_at or now) > _BEHIND for each in running)
            if waiting and (behind or run.stopping.is_set()):
                self.skip(waiting)
                for each in waiting:
                    self.release(each)
            late = [each for each in running if each.deadline is not None and now >= each.deadline]
            if ended:
                self.end_running(batch, running, "stopped")
            elif late:
                self.end_running(batch, late, "late")
            elif running and all(each.lost for each in running):
                self.end_running(batch, running, "lost")
            lease = run.worker.lease
            for each in running:
                self._send_report(each, now)
            for each in held:
                if not each.over and not each.lost and each.lease_until - now < lease / 2:
                    each.lease_until = now + lease
                    run.settler.settle(Change(each.attempt.id, "renew", lifetime=lease), each)

    def skip(self, waiting: List[Held]) -> None:
        """Called for units that will not be started."""


# ---- in threads


class ThreadSlot(Slot, Port):
    """Runs tasks in its own thread. A task that takes too long fails its unit, and keeps the slot busy until it returns."""

    def __init__(self, run: "Run", worker_name: str) -> None:
        super().__init__(run, worker_name)
        self.default_lifetime = run.worker.timeout or 900

    def execute(self, batch: Batch) -> None:
        tasks = self._worker_run.worker.tasks
        units = [self._unit(batch, held) for held in batch.held.values()]
        if batch.whole:
            assert batch.task is not None
            for unit in units:
                self._begin(batch, unit)
            attempt_batch(units, tasks[batch.task].function)
            return
        for unit in units:
            if not self._begin(batch, unit):
                continue
            if batch.task is None:
                attempt_unit(unit, run_module, False)
            else:
                attempt_unit(unit, tasks[batch.task].function, True)
            with self._lock:
                batch.held[unit._attempt].over = True

    def _unit(self, batch: Batch, held: Held) -> WorkUnit:
        attempt = held.attempt
        return WorkUnit(
            self,
            batch.spec_name,
            attempt.work_unit_name,
            codec.encoded(attempt._row["data"]),
            worker_id=self.worker_name,
            expires=attempt.expiration_time,
            attempt=attempt.id,
            attempt_number=attempt.number,
        )

    def _begin(self, batch: Batch, unit: WorkUnit) -> bool:
        held = batch.held[unit._attempt]
        with self._lock:
            if held.over or self._worker_run.stopping.is_set():
                self.release(held)
                return False
            held.begin(batch.timeout)
            return True

    def _held(self, unit: WorkUnit) -> Tuple[Batch, Held]:
        batch = self._batch
        held = None if batch is None else batch.held.get(unit._attempt)
        if batch is None or held is None:
            # a thread that goes on after its task has returned
            raise LostLease("%s: already settled" % unit.key)
        return batch, held

    def end(self, unit: WorkUnit, action: str, data: Optional[bytes], delay: float = 0) -> None:
        batch, held = self._held(unit)
        if held.over and action == "error":
            return  # its time was up before it failed
        self.settle(batch, held, action, data, delay)

    def renew(self, unit: WorkUnit, seconds: float, data: Optional[bytes]) -> None:
        self.renew_held(self._held(unit)[1], seconds, data)

    def progress(self, unit: WorkUnit, data: bytes) -> None:
        self.progress_held(self._held(unit)[1], data)

    def report(self, unit: WorkUnit, done: float, note: str) -> None:
        self.report_held(self._held(unit)[1], done, note)

    def log(self, unit: WorkUnit, text: str, level: str) -> None:
        try:
            self._held(unit)[1].log.add(text, level)
        except LostLease:
            pass  # the unit has ended, and its log with it

    def spec(self, unit: WorkUnit) -> Dict[Any, Any]:
        return self._held(unit)[0].spec

    def end_running(self, batch: Batch, running: List[Held], reason: str) -> None:
        for held in running:
            if reason == "late":
                self.blame(batch, held, batch.too_late, "expired")
            elif reason == "stopped":
                held.over = True
                self.abandoned = True
                self._worker_run.settler.settle(Change(held.attempt.id, "expire", untried=True), held)


# ---- in child processes


class ProcessSlot(Slot):
    """Runs tasks in a child process, which is reused. When the child dies, only the unit that it was running is affected."""

    def __init__(self, run: "Run", worker_name: str) -> None:
        super().__init__(run, worker_name)
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._channel: Optional[Channel] = None
        self._life = -1
        #: Why the child is being ended, and when it is killed.
        self._ending: Optional[Tuple[str, float]] = None
        self._chunk = 1
        self._tasks: Optional[Dict[str, str]] = None

    def prepare(self) -> None:
        worker = self._worker_run.worker
        self._tasks = locate(worker) if worker.tasks else None
        try:
            self._start()
        except Ended:
            pass  # the worker stops

    def execute(self, batch: Batch) -> None:
        while True:
            with self._lock:
                left = [held for held in batch.held.values() if not held.over and held.begun_at is None]
                if left and self._worker_run.stopping.is_set():
                    for held in left:
                        self.release(held)
                    left = []
            if not left:
                return
            chunk = left[:1] if batch.suspect else left if batch.whole else left[: self._chunk]
            start = time.monotonic()
            try:
                self._run_chunk(batch, chunk)
            except Ended:
                if self._process is not None:
                    self._after_death(batch)
            seconds = time.monotonic() - start
            if seconds < _CHUNK_SECONDS:
                self._chunk = min(1000, max(self._chunk, len(chunk)) * 2)
            else:
                self._chunk = max(1, int(len(chunk) * _CHUNK_SECONDS / seconds))

    def _run_chunk(self, batch: Batch, chunk: List[Held]) -> None:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        rows = [{key: value for key, value in held.attempt._row.items() if key != "data"} for held in chunk]
        head = {"kind": "run", "task": batch.task or "", "workSpec": batch.spec_name, "worker": self.worker_name}
        data = [codec.encode(batch.spec)] + [codec.encoded(held.attempt._row["data"]) for held in chunk]
        self._channel.send({**head, "units": rows}, data)
        while True:
            message, pieces = self._channel.receive()
            if message["kind"] == "done":
                if message["error"] is not None:
                    for held in chunk:
                        self.blame(batch, held, message["error"]["text"])
                return
            self._hear(batch, message, pieces)

    def _hear(self, batch: Batch, head: Head, pieces: Pieces) -> None:
        kind = head["kind"]
        if kind == "log":
            name = head["details"].get("logger", "coordinate.tasks")
            logging.getLogger(name).log(_LEVELS[head["level"]], "%s", head["text"])
            own = batch.held.get(head.get("attempt", ""))
            if own is not None and head["level"] != "debug":
                own.log.add(head["text"], head["level"])
            return
        held = batch.held.get(head["attempt"])
        if held is None:
            # a thread that goes on after its task has returned: the unit has ended
            self._reply(head, {"code": "not_pending", "value": head["attempt"]})
        elif kind == "lines":
            for line in head["lines"]:
                held.log.add(line["text"], line["level"], line["time"] / 1000)
        elif kind == "begin":
            with self._lock:
                held.begin(batch.timeout)
        elif kind == "settle" and head["ref"] == 0:
            action = "snooze" if head.get("untried") else head["action"]
            self.settle(batch, held, action, pieces[0], head.get("delayMs", 0) / 1000)
        else:
            self._answer(held, head, pieces[0] if pieces else None)

    def _answer(self, held: Held, head: Head, data: Optional[bytes]) -> None:
        """The job waits for this."""
        error = None
        try:
            if "done" in head:
                self.report_held(held, head["done"], head["note"])
            elif head["kind"] == "progress":
                assert data is not None
                self.progress_held(held, data)
            else:
                self.renew_held(held, head["lifetimeMs"] / 1000, data)
        except CoordinateError as refused:
            error = {"code": refused.code, "value": refused.value}
        self._reply(head, error)

    def _reply(self, head: Head, error: Optional[Dict[str, Any]]) -> None:
        assert self._channel is not None
        if head.get("ref", 0) != 0:
            self._channel.send({"kind": "answer", "ref": head["ref"], "error": error})

    def _after_death(self, batch: Batch) -> None:
        text = self._reap()
        with self._lock:
            reason = None if self._ending is None else self._ending[0]
            self._ending = None
            running = [held for held in batch.held.values() if held.begun_at is not None and not held.over]
        if reason is None:
            logger.warning("%s: %s", self.worker_name, text)
        now = time.monotonic()
        for held in running:
            if held.lost:
                held.over = True
            elif reason == "late" and held.deadline is not None and now >= held.deadline:
                self.blame(batch, held, batch.too_late, "expired")
            elif reason == "stopped":
                held.over = True
                self._worker_run.settler.settle(Change(held.attempt.id, "expire", untried=True), held)
            elif reason is None and len(running) == 1:
                self.blame(batch, held, text)
            else:
                # It died of another unit, or had begun this one at the moment when it was ended.
                held.begun_at = None
                batch.suspect = batch.suspect or reason is None

    def skip(self, waiting: List[Held]) -> None:
        if self._channel is not None and self._batch is not None and not self._batch.whole:
            try:
                self._channel.send({"kind": "skip", "attempts": [held.attempt.id for held in waiting]})
            except Ended:
                pass  # the slot's own thread notices

    def end_running(self, batch: Batch, running: List[Held], reason: str) -> None:
        if not running or self._process is None:
            return
        if self._ending is None:
            self._ending = (reason, time.monotonic() + (0 if reason == "lost" else _KILL_AFTER))
            self._signal(signal.SIGTERM)
        elif self._worker_run.given_up or time.monotonic() >= self._ending[1]:
            self._signal(signal.SIGKILL)

    # ---- the process

    def _start(self) -> None:
        """Raises ProgrammerError for tasks that cannot be loaded. A child that dies before is started again, later each time."""
        pause = 0.5
        while True:
            self._spawn()
            try:
                answer = self._first_message()
                break
            except Ended:
                logger.error("%s: %s before it was ready; again in %g s", self.worker_name, self._reap(), pause)
                if self._worker_run.stopping.wait(pause):
                    raise
                pause = min(30.0, pause * 2)
        if answer["kind"] == "failed":
            self._reap()
            raise ProgrammerError("the tasks could not be loaded:\n" + answer["text"])

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, child_program.__file__, str(theirs.fileno()), str(life)],
                pass_fds=(theirs.fileno(), life),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(life)
        self._channel = Channel(ours)

    def _first_message(self) -> Head:
        assert self._channel is not None
        head: Dict[str, Any] = {
            "kind": "start",
            "defaultLifetime": self._worker_run.worker.timeout or 900,
            "path": sys.path,
            "tasks": self._tasks,
            "knowsErrors": True,
            "logLevel": logging.getLogger().getEffectiveLevel(),
        }
        self._channel.send(head)
        while True:
            answer, _ = self._channel.receive()
            if answer["kind"] != "log":
                return answer

    def _signal(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass  # it has ended by itself

    def _reap(self) -> str:
        """Of a child that has ended, or is about to: how."""
        with self._lock:
            process, self._process = self._process, None
            channel, self._channel = self._channel, None
        assert process is not None and channel is not None
        channel.close()
        os.close(self._life)
        try:
            code = process.wait(_KILL_AFTER)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it has started
        except (ProcessLookupError, PermissionError):
            pass  # nothing is left of it
        if code < 0:
            return "the child process was killed by %s" % signal.Signals(-code).name
        return "the child process exited with code %d" % code

    def close(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self._reap()


def locate(worker: "Worker") -> Dict[str, str]:
    """Where another process finds the worker: a global of a module, or of the program's own file."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if value is not worker:
                continue
            if name != "__main__":
                return {"module": name, "attribute": attribute}
            spec = getattr(module, "__spec__", None)
            if spec is not None:
                return {"module": spec.name, "attribute": attribute}
            file = getattr(module, "__file__", None)
            if file is not None and os.path.exists(file):
                return {"file": os.path.abspath(file), "attribute": attribute}
    raise ProgrammerError(
        "tasks run in processes must belong to a worker that is a global of a module or of a program's file; "
        "elsewhere, as in a notebook, set processes=False"
    )
