"""A worker: claims units, runs functions for them in processes or threads, renews their leases, and stores the outcomes.

    worker = coordinate.Worker("http://127.0.0.1:5980", "shop", concurrency=4)

    @worker.task("resize")
    def resize(unit):
        return {"done": unit.data["width"]}

    if __name__ == "__main__":
        worker.run()

One thread for each slot claims a batch and runs it; the settler sends what all of them settle at about the same time in one
request; the keeper renews leases, ends what takes too long, and gives back units that wait behind a long one.
"""

import logging
import math
import os
import platform
import queue
import signal
import socket
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

from .child import load_tasks
from .client import connect
from .errors import CannotAnswer, CoordinateError, LostLease, NoSuchWorkSpec, ProgrammerError, error_of
from .arguments import Change
from .handles import Attempt, Client, Namespace, Sync, WorkUnit
from .rows import Settled
from .slot import Held, ProcessSlot, Slot, ThreadSlot
from .transport import Cancel, TransportError
from .work_unit import get

logger = logging.getLogger("coordinate.worker")

#: Work specs that name one of these, or none, are for this worker.
RUNTIMES = ("", "python", "python_3")


#: Between two looks at units whose tasks run long, in seconds.
_WATCH_EVERY = 2.0
#: What the change of an attempt is refused with that is not this worker's any more.
NOT_HELD = ("lost_lease", "not_pending", "gone", "no_such_attempt")
#: What data is refused with that will never be stored.
UNSTORABLE = ("bad_data", "bad_argument", "too_large")
_OUTCOMES = ("finish", "fail", "retry", "error")
#: After so many tries that end with `internal`, changes are sent one by one; alone, a change is given up after about 10 s.
_INTERNAL_TRIES, _INTERNAL_TRIES_ALONE = 2, 8
#: How long a worker that was told to stop at once waits for requests that are not answered, and every worker for its last one, in seconds.
_LAST_SECONDS = 5.0


class Task(NamedTuple):
    function: Callable[[Any], Any]
    #: The function is given all units of a claim, as a list.
    batch: bool
    #: Seconds that one call may take; None is as the worker says.
    timeout: Optional[float]


class Counts:
    """The counters of a worker."""

    def __init__(self) -> None:
        self.claimed = self.finished = self.failed = self.retried = self.released = self.refused = 0

    def __repr__(self) -> str:
        return "<Counts %s>" % " ".join("%s=%d" % pair for pair in vars(self).items())


class Worker:
    """
    Runs up to `concurrency` units at the same time, by default one per processor: each in its own process, or with
    `processes=False` in a thread. A claim takes up to `max_attempts` units of one work spec, fewer if they take long.
    Leases of `lease` seconds are renewed while a task runs, until its `timeout`; then its process is killed and the unit fails.
    `modules=True` also runs work specs that name a `module` and a `run_function`. At a stop, running tasks get `grace` seconds.
    """

    def __init__(
        self,
        address: Union[str, Sequence[str], None] = None,
        namespace: Optional[str] = None,
        *,
        token: Optional[str] = None,
        ca: Optional[str] = None,
        name: Optional[str] = None,
        concurrency: Optional[int] = None,
        processes: bool = True,
        max_attempts: int = 100,
        lease: float = 60,
        timeout: Optional[float] = 900,
        grace: float = 10,
        heartbeat: float = 15,
        modules: bool = False,
        work_specs: Optional[Iterable[str]] = None,
        available_gb: Optional[float] = None,
        labels: Optional[Iterable[str]] = None,
    ) -> None:
        self.address = address
        self.namespace = namespace
        self.token = token
        self.ca = ca
        self.name = name
        self.concurrency = concurrency
        self.processes = processes
        self.max_attempts = max_attempts
        self.lease = lease
        self.timeout = timeout
        self.grace = grace
        self.heartbeat = heartbeat
        self.modules = modules
        self.work_specs = None if work_specs is None else list(work_specs)
        self.available_gb = available_gb
        #: What work specs may require: `gpu`, `zone=eu`, `version=2.3.1`.
        self.labels = None if labels is None else list(labels)
        self.tasks: Dict[str, Task] = {}
        self.counts = Counts()
        self._run: Optional["Run"] = None

    def task(
        self, name: Optional[str] = None, *, batch: bool = False, timeout: Optional[float] = None
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Registers a function as a task. It runs the work specs whose `task` key, or else whose name, is the name of the task.

        The function gets a unit. A returned dict becomes the data of the unit; None keeps the data as the function changed it.
        With `batch`, it gets the list of all units of a claim and returns None or a list of results.
        """
        if callable(name):
            raise ProgrammerError("write @worker.task(), with parentheses")

        def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self.tasks[name or function.__name__] = Task(function, batch, timeout)
            return function

        return register

    def run(self, burst: bool = False) -> None:
        """Runs until it is stopped by `stop`, SIGTERM, SIGINT or an operator. With `burst`, until there is no work.

        The first signal lets running tasks finish; a second one releases all units at once.
        """
        if not self.tasks and not self.modules:
            raise ProgrammerError("the worker has no tasks; add one with @worker.task(), or set modules=True")
        if _is_child():
            raise ProgrammerError("worker.run() was called while its tasks are loaded: put it below  if __name__ == '__main__':")
        self._run = Run(self, burst)
        try:
            self._run.work()
        finally:
            self._run = None

    def stop(self) -> None:
        """Stops the worker. Call it from any thread; `run` returns when everything is settled."""
        if self._run is not None:
            self._run.stop()


def _is_child() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is load_tasks.__code__:
            return True
    return False


class Settler(threading.Thread):
    """Sends changes of attempts, of all slots in one request, and retries until they are stored."""

    def __init__(self, run: "Run") -> None:
        super().__init__(name="coordinate-settler", daemon=True)
        self._run = run
        self._queue: "queue.SimpleQueue[Optional[Settling]]" = queue.SimpleQueue()
        self._space = threading.Semaphore(10_000)
        self._lock = threading.Lock()
        self._outstanding = 0

    def settle(self, change: Change, held: Optional[Held] = None) -> "Settling":
        """Queues a change without waiting for it. Blocks while very many changes are queued."""
        self._space.acquire()
        log = None if held is None else held.log.unstored()
        settling = Settling(change if log is None else change._replace(log=log), held)
        with self._lock:
            self._outstanding += 1
        self._queue.put(settling)
        return settling

    @property
    def idle(self) -> bool:
        """Whether all settlements are stored."""
        with self._lock:
            return self._outstanding == 0

    def close(self) -> None:
        """Its thread ends when all settlements are stored."""
        self._queue.put(None)

    def run(self) -> None:
        closing = False
        while not closing:
            batch: List[Settling] = []
            item = self._queue.get()
            while True:
                if item is None:
                    closing = True
                else:
                    batch.append(item)
                if len(batch) == 1000 or (self._queue.empty()):
                    break
                item = self._queue.get()
            if batch:
                self._send(batch)

    def _send(self, batch: List["Settling"]) -> None:
        pause = 0.1
        internal = 0
        is_reduced = False
        while True:
            try:
                answers = self._run.namespace.settle_attempts([each.change for each in batch])
                break
            except CoordinateError as error:
                internal += error.code == "internal"
                tries = _INTERNAL_TRIES_ALONE if len(batch) == 1 else _INTERNAL_TRIES
                if isinstance(error, CannotAnswer) or (error.code == "internal" and internal < tries):
                    self._run.trouble(error)
                    if self._run.given_up:
                        answers = [Settled(each.change.attempt, "unavailable", False, None, 0.0) for each in batch]
                        break
                    time.sleep(pause)
                    pause = min(5.0, pause * 2)
                elif len(batch) > 1:
                    # One change that cannot be stored must not take the others with it.
                    for each in batch:
                        self._send([each])
                    return
                elif error.code in UNSTORABLE and batch[0].change.action in _OUTCOMES and not is_reduced:
                    is_reduced = True
                    change = batch[0].change
                    logger.error("%s: its data cannot be stored: %s", change.attempt, error)
                    data = {"traceback": "the result cannot be stored: %s" % error}
                    batch[0].change = Change(change.attempt, "fail", data)
                else:
                    answers = [Settled(batch[0].change.attempt, error.code, False, None, 0.0)]
                    break
        for settling, answer in zip(batch, answers):
            self._space.release()
            if settling.held is not None and settling.change.log is not None:
                settling.held.log.stored(dict(settling.change.log))
            self._run.settled(settling, answer)
            settling.answer = answer
            settling.done.set()
        with self._lock:
            self._outstanding -= len(batch)


class Settling:
    def __init__(self, change: Change, held: Optional[Held]) -> None:
        self.change = change
        self.held = held
        self.done = threading.Event()
        self.answer: Optional[Settled] = None

    def wait(self) -> Settled:
        """Waits for the answer. Raises LostLease, or the error of the refusal."""
        self.done.wait()
        assert self.answer is not None
        error = self.answer.error
        if error in NOT_HELD:
            raise LostLease("%s: %s" % (error, self.change.attempt))
        if error is not None:
            raise error_of(error, self.change.attempt)
        return self.answer


class Heart(threading.Thread):
    """Checks in and out, sends log lines and reads work specs: a daemon that is slow to answer delays no lease and no stop."""

    def __init__(self, run: "Run") -> None:
        super().__init__(name="coordinate-heart", daemon=True)
        self._run = run
        self._ended = threading.Event()
        self.failure: Optional[BaseException] = None

    def close(self) -> None:
        self._ended.set()

    def run(self) -> None:
        try:
            self._beat()
        except BaseException as error:
            self.failure = error
            self._run.end()

    def _beat(self) -> None:
        run = self._run
        steps = [(run.worker.heartbeat, run.check_in), (1.0, run.send_logs), (5.0, run.read_specs)]
        due = [time.monotonic() + seconds for seconds, _ in steps]
        while not self._ended.wait(0.2):
            for number, (seconds, step) in enumerate(steps):
                now = time.monotonic()
                if now >= due[number] and not self._ended.is_set():
                    due[number] = now + seconds
                    run.tolerant(step)
        # after the last check-in, which would undo it
        run.tolerant(run.check_out)


class CancelWatch(threading.Thread):
    """Watches units that run long: the worker drops a cancelled or deleted unit now, not when its lease is renewed."""

    def __init__(self, run: "Run") -> None:
        super().__init__(name="coordinate-watch", daemon=True)
        self._run = run
        self._ended = threading.Event()

    def close(self) -> None:
        self._ended.set()

    def run(self) -> None:
        while not self._ended.wait(_WATCH_EVERY):
            now = time.monotonic()
            by_spec: Dict[str, List[Held]] = {}
            for held in (held for slot in self._run.slots for held in slot.long_running(now)):
                by_spec.setdefault(held.attempt.work_spec_name, []).append(held)
            try:
                for name, running in by_spec.items():
                    self._look(name, running)
            except CoordinateError:
                pass  # the daemon does not answer, which others log; it is asked again

    def _look(self, spec_name: str, running: List[Held]) -> None:
        """Counts first, because reading units also reads their data, which may be large."""
        spec = self._run.namespace.work_spec(spec_name)
        names = [held.attempt.work_unit_name for held in running]
        try:
            if spec.count_work_units(names=names)["pending"] == len(running):
                return
            units = spec.get_work_units(names)
        except NoSuchWorkSpec:
            units = [None] * len(running)
        for held, unit in zip(running, units):
            if not held.over and (unit is None or _ended_by_others(unit, held.attempt)):
                held.lost = True


def _ended_by_others(unit: WorkUnit[Sync], attempt: Attempt[Sync]) -> bool:
    """Whether the unit was cancelled, or deleted and added again. An expired lease alone may still be renewed."""
    if unit.id != attempt._unit_id:
        return True
    last = unit.active_attempt
    return unit.status in ("finished", "failed") and last is not None and last.id != attempt.id


class Run:
    """One run of a worker, from its start to its stop."""

    def __init__(self, worker: Worker, burst: bool) -> None:
        self.worker = worker
        self.burst = burst
        self.client: Client[Sync] = connect(worker.address, worker.token, ca=worker.ca)
        namespace = worker.namespace
        if namespace is None:
            namespace = os.environ.get("COORDINATE_NAMESPACE", "")
        self.namespace: Namespace[Sync] = self.client.namespace(namespace)
        self.name = worker.name or "%s-%d-%s" % (socket.gethostname(), os.getpid(), uuid.uuid4().hex[:6])
        self.concurrency = worker.concurrency or os.cpu_count() or 1
        self.stopping = threading.Event()
        self.given_up = False
        self._forced_at = math.inf
        self._stop_was_called = False
        self.settler = Settler(self)
        self.claiming = threading.Lock()
        self.poll: Optional[Cancel] = None
        self.idle = False
        self.specs: Dict[str, Dict[Any, Any]] = {}
        self.asked_specs: List[str] = []
        self._number = 1
        self._told_trouble = False
        #: Whether the wish to terminate was for an earlier process of the same name; None before the first check-in.
        self._meant_before: Optional[bool] = None
        self._busy = 0
        self.slots: List[Slot] = []

    # ---- the run as a whole

    def work(self) -> None:
        kind = ProcessSlot if self.worker.processes else ThreadSlot
        restore = self._watch_signals()
        try:
            self._enter([kind(self, "%s/%d" % (self.name, i + 1)) for i in range(self.concurrency)])
        except BaseException:
            self._restore(restore)
            raise
        self.settler.start()
        watch, heart = CancelWatch(self), Heart(self)
        watch.start()
        heart.start()
        logger.info("%s started: %d %s", self.name, self.concurrency, "processes" if self.worker.processes else "threads")
        try:
            for slot in self.slots:
                slot.start()
            self._keep()
        finally:
            self.stopping.set()
            for slot in self.slots:
                if not slot.abandoned:
                    self._join(slot)
            self.settler.close()
            self._join(self.settler)
            watch.close()
            heart.close()
            for slot in self.slots:
                slot.close()
            heart.join(_LAST_SECONDS)
            self.client.close()
            self._restore(restore)
            logger.info("%s stopped: %r", self.name, self.worker.counts)
        for failure in [heart.failure, *(slot.failure for slot in self.slots)]:
            # threads that were not waited for may have failed because what they use was closed
            if failure is not None and not self._is_forced():
                raise failure

    def _enter(self, slots: List[Slot]) -> None:
        """The first check-in. Waits for a daemon that does not serve yet, except with `burst`."""
        pause = 0.1
        while not self.stopping.is_set():
            try:
                self.read_specs()
                self.slots = slots
                self.check_in()
                return
            except CannotAnswer as error:
                if self.burst:
                    raise
                self.trouble(error)
                self.stopping.wait(pause)
                pause = min(5.0, pause * 2)

    @staticmethod
    def _restore(handlers: Dict[int, Any]) -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def stop(self) -> None:
        """The first call lets tasks finish, a second one ends them."""
        if self._stop_was_called:
            self.given_up = True
            self._forced_at = min(self._forced_at, time.monotonic() + _LAST_SECONDS)
        self._stop_was_called = True
        self.end()

    def end(self) -> None:
        """Claims no more, and lets tasks finish."""
        self.stopping.set()
        self._end_poll()

    def _join(self, thread: threading.Thread) -> None:
        while thread.is_alive() and not self._is_forced():
            thread.join(0.1)

    def _is_forced(self) -> bool:
        """It was told to stop at once, and has waited for what is not answered."""
        return time.monotonic() >= self._forced_at

    def _end_poll(self) -> None:
        poll = self.poll
        if poll is not None:
            poll.cancel()

    def _watch_signals(self) -> Dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {
            number: signal.signal(number, lambda *_: self.stop()) for number in (signal.SIGTERM, signal.SIGINT)
        }

    def _keep(self) -> None:
        """Until all slots have ended: leases and time limits. Sends nothing itself."""
        grace_until: Optional[float] = None
        while any(slot.is_alive() and not slot.abandoned for slot in self.slots) and not self._is_forced():
            now = time.monotonic()
            if self.stopping.is_set() and grace_until is None:
                grace_until = now + self.worker.grace
            ended = self.given_up or (grace_until is not None and now >= grace_until)
            for slot in self.slots:
                slot.keep(now, ended)
            self.stopping.wait(0.05 if self.stopping.is_set() else 0.2)
            if self.stopping.is_set():
                time.sleep(0.05)

    def tolerant(self, step: Callable[[], None]) -> None:
        try:
            step()
        except CoordinateError as error:
            self.trouble(error)

    def trouble(self, error: Exception) -> None:
        """Logs an outage once, until the coordinator answers again."""
        if not self._told_trouble:
            logger.warning("the coordinator does not answer; retrying until it does: %s", error)
        self._told_trouble = True

    def check_in(self) -> None:
        environment: Dict[str, Any] = {
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "tasks": sorted(self.worker.tasks),
            "concurrency": self.concurrency,
        }
        if self.worker.labels is not None:
            # so that others can say which work it can take
            asked = {"runtimes": RUNTIMES, "labels": self.worker.labels}
            environment["asks"] = [asked if self.worker.work_specs is None else {**asked, "workSpecs": self.worker.work_specs}]
        changes: List[Dict[str, Any]] = [{"name": self.name, "active": True, "mode": "run", "data": environment}]
        changes += [{"name": slot.worker_name, "active": True, "parent": self.name} for slot in self.slots]
        desired = self.namespace.update_workers(changes)[0].desired
        if desired == "terminate" and self._meant_before is None:
            self._meant_before = self.namespace.settings().desired != "terminate"
        elif desired != "terminate":
            self._meant_before = False
        self.idle = desired == "idle"
        if self.idle:
            self._end_poll()
        if desired == "terminate" and not self._meant_before and not self.stopping.is_set():
            logger.info("%s: asked to terminate", self.name)
            self.end()

    def check_out(self) -> None:
        names = [self.name] + [slot.worker_name for slot in self.slots]
        self.namespace.update_workers([{"name": name, "active": False} for name in names])

    # ---- work specs

    def send_logs(self) -> None:
        """Sends log lines of running tasks. Later lines are sent with the settlement."""
        writing = [held for slot in self.slots for held in slot.writing()]
        for at in range(0, len(writing), 50):
            some = [(held, held.log.unstored()) for held in writing[at : at + 50]]
            logs = [(held, lines) for held, lines in some if lines is not None]
            body = [{"attempt": held.attempt.id, **lines} for held, lines in logs]
            self.namespace.write_attempt_logs(body)
            for held, lines in logs:
                held.log.stored(lines)

    def read_specs(self) -> None:
        """Which work specs there are for this worker. One of a task's name is asked for before it exists."""
        found = dict(self.namespace.work_spec_data())
        self.specs = found
        asked = {name for name, data in found.items() if self.runs(name, data)}
        asked.update(name for name in self.worker.tasks if name not in found)
        if self.worker.work_specs is not None:
            asked &= set(self.worker.work_specs)
        if sorted(asked) != self.asked_specs:
            self.asked_specs = sorted(asked)
            self._end_poll()

    def spec(self, name: str) -> Dict[Any, Any]:
        """A few seconds old at most, unless it came since."""
        if name not in self.specs:
            self.specs[name] = self.namespace.work_spec(name).data()
        return self.specs[name]

    def runs(self, name: str, spec: Dict[Any, Any]) -> bool:
        if self.task_of(name, spec) is not None:
            return True
        return self.worker.modules and bool(get(spec, "module")) and bool(get(spec, "run_function"))

    def task_of(self, name: str, spec: Dict[Any, Any]) -> Optional[str]:
        task = get(spec, "task") or name
        return task if task in self.worker.tasks else None

    def timeout_of(self, task: Optional[str]) -> Optional[float]:
        own = self.worker.tasks[task].timeout if task is not None else None
        return self.worker.timeout if own is None else own

    # ---- claims

    def claim(self, slot: Slot) -> List[Attempt[Sync]]:
        """Work for a slot. One slot at a time asks, and waits for all; none when the worker stops."""
        pause = 0.1
        while not self.stopping.is_set():
            with self.claiming:
                if self.stopping.is_set():
                    break
                # what runs, or is about to be stored, may make more
                quiet = self._busy == 0 and self.settler.idle
                if self.idle or not self.asked_specs:
                    attempts: List[Attempt[Sync]] = []
                    if not self.burst:
                        self.stopping.wait(0.2)
                        continue
                else:
                    try:
                        attempts = self._ask(slot)
                        self._told_trouble = False
                        pause = 0.1
                    except CoordinateError as error:
                        if not isinstance(error, CannotAnswer) and error.code != "internal":
                            raise
                        self.trouble(error)
                        self.stopping.wait(pause)
                        pause = min(5.0, pause * 2)
                        continue
                if attempts:
                    self._busy += 1
                    self.worker.counts.claimed += len(attempts)
                    return attempts
                if self.burst and quiet:
                    self.stopping.set()
            if self.burst:
                self.stopping.wait(0.05)
        return []

    def _ask(self, slot: Slot) -> List[Attempt[Sync]]:
        """None when the wait was ended, because the worker stops or asks for other work specs."""
        worker = self.namespace.worker(slot.worker_name)
        self.poll = poll = Cancel()
        if self.stopping.is_set():
            return []
        asked: Dict[str, Any] = {
            "number": self._number,
            "lifetime": self.worker.lease,
            "work_specs": self.asked_specs,
            "runtimes": RUNTIMES,
            "available_gb": self.worker.available_gb,
            "labels": self.worker.labels,
            "request_id": uuid.uuid4().hex,
        }
        try:
            return worker.request_attempts(wait=0 if self.burst else 30, cancel=poll, **asked)
        except TransportError:
            # What was given at that moment was not heard. The same request is told of it, and gives it back.
            given = worker.request_attempts(**asked)
            self.namespace.settle_attempts([Change(attempt.id, "expire", untried=True) for attempt in given])
            return []
        finally:
            self.poll = None

    def done(self, units: int, seconds: float) -> None:
        """A batch has ended. Short ones make the next claims larger, long ones smaller."""
        with self.claiming:
            self._busy -= 1
            if seconds < 0.1 and units >= self._number:
                self._number = min(self.worker.max_attempts, self._number * 2)
            elif seconds > 0.5:
                self._number = max(1, self._number // 4)

    def settled(self, settling: Settling, answer: Settled) -> None:
        counts, action = self.worker.counts, settling.change.action
        if answer.error is not None:
            if settling.held is not None and answer.error in NOT_HELD:
                settling.held.lost = True
            if action != "renew":
                counts.refused += 1
                logger.warning("%s: %s was refused: %s", settling.change.attempt, action, answer.error)
        elif action == "finish":
            counts.finished += 1
        elif answer.status == "failed" or (action == "error" and answer.retry is None):
            counts.failed += 1
        elif action in ("retry", "error"):
            counts.retried += 1
        elif action == "expire":
            counts.released += 1
