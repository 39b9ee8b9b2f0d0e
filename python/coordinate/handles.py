"""Handles: the API that people write against. A client leads to a namespace, its work specs, their units, the attempts.

Handles are thin. They hold a name or the row that was read last, turn dicts into data and data into dicts, and loop over
pages and batches. Every method is written once, as a coroutine: a handle of a client that blocks runs it to its end
(`Sync`), a handle of an asyncio client gives it to be awaited (`Async`).
"""

from __future__ import annotations

import functools
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
    overload,
)

from .arguments import (
    BATCH,
    KEEP,
    Change,
    NewUnit,
    NewUnits,
    body_of,
    in_batches,
    limit_body,
    lock_body,
    pairs,
    unit_body,
    waits,
    worker_body,
)
from .data import Data, from_wire, name_to_url, to_wire
from .errors import (
    CoordinateError,
    Gone,
    NoSuchWorker,
    NoSuchWorkSpec,
    NoSuchWorkUnit,
    WorkUnitFailed,
    error_of,
)
from .log_lines import LogLines
from .protocol import LONGEST_WAIT, Protocol
from .rows import (
    Action,
    Added,
    AttemptLog,
    BatchState,
    Counts,
    Dependency,
    Event,
    Explained,
    FailureGroup,
    History,
    Lock,
    LockRefusal,
    Message,
    NamespaceSettings,
    Partition,
    Progress,
    QueueSummary,
    Settled,
    SharedLimit,
    Tally,
    WaitingSince,
    WorkerState,
    WorkSpecMeta,
    as_said,
    from_ms,
    read,
    to_ms,
)
from .transport import Cancel

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, TypedDict, Unpack

    P = ParamSpec("P")

    class Selection(TypedDict, total=False):
        """Which units. Conditions hold together; `all=True` means every unit, and must be said.

        `error` is the fingerprint of a failure group, `ended_since` a time in seconds since 1970.
        """

        names: Iterable[str]
        statuses: Iterable[str]
        prefix: str
        label: str
        error: str
        ended_since: float
        all: bool

else:
    P = TypeVar("P")

T = TypeVar("T")


class Sync:
    """Handles whose methods block."""


class Async:
    """Handles whose methods are awaited."""


M = TypeVar("M")


class Handle(Generic[M]):
    _scope: Scope[M]


class operation(Generic[P, T]):
    """A method written as a coroutine: called as it is by asyncio handles, and run to its end by those that block."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        functools.update_wrapper(cast(Callable[..., Any], self), function)

    @overload
    def __get__(self, handle: None, owner: Any) -> operation[P, T]: ...
    @overload
    def __get__(self, handle: Handle[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, handle: Handle[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, handle: Any, owner: Any) -> Any:
        return self if handle is None else _bound(self._function, handle, handle._scope.run)


class listing(Generic[P, T]):
    """The same for a method that gives one row after the other."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> None:
        self._function = function
        functools.update_wrapper(cast(Callable[..., Any], self), function)

    @overload
    def __get__(self, handle: None, owner: Any) -> listing[P, T]: ...
    @overload
    def __get__(self, handle: Handle[Sync], owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, handle: Handle[Async], owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, handle: Any, owner: Any) -> Any:
        return self if handle is None else _bound(self._function, handle, handle._scope.run_each)


def _bound(function: Callable[..., Any], handle: Any, run: Callable[[Any], Any]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return run(function(handle, *args, **kwargs))

    return call


class Scope(Generic[M]):
    """What all handles of a namespace share."""

    def __init__(
        self,
        protocol: Protocol,
        namespace: Optional[str],
        run: Callable[[Any], Any],
        run_each: Callable[[Any], Any],
    ) -> None:
        self.protocol = protocol
        self.namespace = namespace
        self.run = run
        self.run_each = run_each

    async def ask(self, verb: str, body: Dict[str, Any], wait: float = 0, cancel: Optional[Cancel] = None) -> Any:
        return await self.protocol.ask(verb, self.namespace, body, wait, cancel)

    async def each_row(self, verb: str, body: Dict[str, Any]) -> AsyncIterator[Dict[str, Any]]:
        """Every row of a listing: the next page is asked for when the last row of this one was taken."""
        while True:
            page = await self.ask(verb, body)
            for row in page["rows"]:
                yield row
            if page["next"] is None:
                return
            body = {**body, "previous": page["next"]}


# ---- the handles


class Namespace(Handle[M]):
    """A namespace by its name. It exists once something was put into it; a handle alone creates nothing."""

    def __init__(self, scope: Scope[M]) -> None:
        self._scope = scope
        self.name = scope.namespace or ""

    def __repr__(self) -> str:
        return "<Namespace %r>" % self.name

    # ---- work specs

    def work_spec(self, name: str) -> WorkSpec[M]:
        """A handle by name, without asking whether there is such a spec."""
        return WorkSpec(self._scope, name, None)

    @operation
    async def get_work_spec(self, name: str) -> WorkSpec[M]:
        """A handle pinned to the spec that has this name now. Raises NoSuchWorkSpec."""
        [row] = await self._scope.ask("getWorkSpecs", {"workSpecs": [name]})
        if row is None:
            raise NoSuchWorkSpec(name)
        return WorkSpec(self._scope, row["name"], row["id"])

    @operation
    async def set_work_spec(self, spec: Mapping[str, Any], keep_meta: bool = False) -> WorkSpec[M]:
        """Creates the spec that the dict's `name` says or replaces its data; the handle is pinned to it."""
        [handle] = await self._set([spec], keep_meta)
        return handle

    @operation
    async def set_work_specs(self, specs: Iterable[Mapping[str, Any]], keep_meta: bool = False) -> List[WorkSpec[M]]:
        """All or none. Replacing resets the metadata to what the data derives, unless `keep_meta`."""
        return await self._set(specs, keep_meta)

    async def _set(self, specs: Iterable[Mapping[str, Any]], keep_meta: bool) -> List[WorkSpec[M]]:
        body = {"specs": [{"data": to_wire(spec)} for spec in specs], "keepMeta": keep_meta}
        rows = await self._scope.ask("setWorkSpecs", body)
        return [WorkSpec(self._scope, row["name"], row["id"]) for row in rows]

    @listing
    async def work_specs(self, page_size: Optional[int] = None) -> AsyncIterator[WorkSpec[M]]:
        """In name order, each pinned."""
        async for row in self._scope.each_row("listWorkSpecs", body_of(limit=page_size)):
            yield WorkSpec(self._scope, row["name"], row["id"])

    @listing
    async def work_spec_data(self, page_size: Optional[int] = None) -> AsyncIterator[Tuple[str, Data]]:
        """The names and the data of all work specs, in name order."""
        async for row in self._scope.each_row("listWorkSpecs", body_of(limit=page_size)):
            yield row["name"], from_wire(row["data"])

    # ---- workers and attempts

    def worker(self, name: str) -> Worker[M]:
        """A handle by name, without asking whether there is such a worker."""
        return Worker(self._scope, name)

    @listing
    async def workers(
        self,
        names: Optional[Iterable[str]] = None,
        prefix: Optional[str] = None,
        active: Optional[bool] = None,
        root: Optional[bool] = None,
        parent: Optional[str] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[WorkerState]:
        """In name order."""
        body = body_of(names=names, prefix=prefix, active=active, root=root, parent=parent, limit=page_size)
        async for row in self._scope.each_row("listWorkers", body):
            yield read(WorkerState, row)

    @operation
    async def update_workers(self, changes: Iterable[Mapping[str, Any]]) -> List[WorkerState]:
        """Changes many workers, all or none: dicts of `name` and the arguments of `Worker.update`."""
        body = {"changes": [worker_body(**change) for change in changes]}
        return [read(WorkerState, row) for row in await self._scope.ask("updateWorkers", body)]

    @operation
    async def attempt(self, attempt_id: str) -> Attempt[M]:
        """Raises NoSuchAttempt."""
        [row] = await self._scope.ask("getAttempts", {"ids": [attempt_id]})
        if row is None:
            raise error_of("no_such_attempt", attempt_id)
        return Attempt(self._scope, row)

    @operation
    async def settle_attempts(self, changes: Iterable[Change]) -> List[Settled]:
        """Each change by itself, in order. Does not raise for one that is refused: its `error` says so."""
        all_changes = [change.body() for change in changes]
        settled: List[Settled] = []
        for start in range(0, len(all_changes), BATCH):
            rows = await self._scope.ask("settleAttempts", {"changes": all_changes[start : start + BATCH]})
            settled.extend(read(Settled, row) for row in rows)
        return settled

    @operation
    async def write_attempt_logs(self, logs: List[Dict[str, Any]]) -> List[bool]:
        """Keeps lines that tasks wrote: `{"attempt": id, "lines": [{"text": …}]}` for each attempt. Answers which of them exist."""
        return cast(List[bool], await self._scope.ask("writeAttemptLogs", {"logs": logs}))

    # ---- queues

    def queue(self, name: str) -> Queue[M]:
        """A handle by name, without asking whether there is anything in it."""
        return Queue(self._scope, name)

    @listing
    async def queues(self, page_size: Optional[int] = None) -> AsyncIterator[QueueSummary]:
        """Those that have messages, in name order."""
        async for row in self._scope.each_row("listQueues", body_of(limit=page_size)):
            yield read(QueueSummary, row)

    # ---- batches

    def batch(self, name: str) -> Batch[M]:
        """A handle by name, without asking whether there is such a batch."""
        return Batch(self._scope, name)

    @listing
    async def batches(self, page_size: Optional[int] = None) -> AsyncIterator[BatchState]:
        """In name order."""
        async for row in self._scope.each_row("listBatches", body_of(limit=page_size)):
            yield read(BatchState, row)

    # ---- limits

    @operation
    async def limits(self) -> List[SharedLimit]:
        """The limits that work specs share, in name order."""
        return [read(SharedLimit, row) for row in await self._scope.ask("listLimits", {})]

    @operation
    async def set_limits(self, limits: Mapping[str, Optional[Mapping[str, Any]]]) -> None:
        """
        Defines limits by name, or redefines them as a whole: `{"max_running": 5, "rate": {"limit": 100, "period": 60}}`; None deletes
        one. Others stay.
        """
        given = [limit_body(name, limit) for name, limit in limits.items() if limit is not None]
        gone = [name for name, limit in limits.items() if limit is None]
        if given:
            await self._scope.ask("setLimits", {"limits": given})
        if gone:
            await self._scope.ask("deleteLimits", {"names": gone})

    # ---- actions

    @operation
    async def put_actions(self, actions: Mapping[str, Mapping[str, Any]]) -> List[bool]:
        """Stores records by key; the same again is nothing, other data under a key is refused. Tells which were new."""
        body = {"actions": [{"key": key, "data": to_wire(data)} for key, data in actions.items()]}
        return cast(List[bool], await self._scope.ask("putActions", body))

    @operation
    async def get_actions(self, keys: Iterable[str]) -> List[Optional[Data]]:
        rows = await self._scope.ask("getActions", body_of(keys=keys))
        return [None if row is None else from_wire(row["data"]) for row in rows]

    @listing
    async def actions(self, page_size: Optional[int] = None) -> AsyncIterator[Action]:
        """Every record, in the order of keys."""
        async for row in self._scope.each_row("listActions", body_of(limit=page_size)):
            yield read(Action, row)

    @operation
    async def delete_actions(self, keys: Iterable[str]) -> List[bool]:
        """Tells per key whether it was there."""
        return cast(List[bool], await self._scope.ask("deleteActions", body_of(keys=keys)))

    # ---- looking in

    @operation
    async def tally(self) -> List[Tally]:
        """Exact numbers of units by work spec and status."""
        return [read(Tally, row) for row in await self._scope.ask("tally", {})]

    @operation
    async def failures(self, work_spec: Optional[str] = None) -> List[FailureGroup]:
        """Failed units in groups by what went wrong, of one work spec or of all."""
        rows = await self._scope.ask("listFailures", body_of(work_spec=work_spec))
        return [read(FailureGroup, row) for row in rows]

    @operation
    async def history(
        self,
        last: Optional[float] = None,
        start: Optional[float] = None,
        end: Optional[float] = None,
        work_specs: Optional[Iterable[str]] = None,
        each: Optional[bool] = None,
        points: Optional[int] = None,
    ) -> History:
        """What happened over time: in the `last` seconds, an hour when absent, or from `start` to `end`.

        One series for the namespace as a whole, or for each of `work_specs`; with `each`, for all of them besides. About
        `points` points at most, 360 when absent.
        """
        body = body_of(last=last, work_specs=work_specs, each=each, points=points, **{"from": start, "to": end})
        return read(History, await self._scope.ask("history", body))

    @operation
    async def waiting_since(self) -> List[WaitingSince]:
        """Per work spec with available units, since when one of them has waited."""
        return [read(WaitingSince, row) for row in await self._scope.ask("waitingSince", {})]

    @operation
    async def explain(
        self,
        work_specs: Optional[Iterable[str]] = None,
        runtimes: Optional[Iterable[str]] = None,
        available_gb: Optional[float] = None,
        tasks: Optional[Iterable[str]] = None,
        modules: Optional[bool] = None,
        labels: Optional[Iterable[str]] = None,
    ) -> List[Explained]:
        """For every work spec, why such a request would or would not be given work from it."""
        body = body_of(
            work_specs=work_specs,
            runtimes=runtimes,
            available_gb=available_gb,
            tasks=tasks,
            modules=modules,
            labels=labels,
        )
        return [read(Explained, row) for row in await self._scope.ask("explain", body)]

    @listing
    async def events(self, after: Optional[str] = None, cancel: Optional[Cancel] = None) -> AsyncIterator[Event]:
        """What happens from now on, or after the event of that id. Ends when the server stops, or with `cancel`."""
        async for event in self._scope.protocol.events(self.name, after, cancel):
            yield Event(event["id"], event["type"], event["data"])

    @operation
    async def settings(self) -> NamespaceSettings:
        return read(NamespaceSettings, (await self._scope.ask("getNamespace", {}))["settings"])

    @operation
    async def configure(
        self, policy: Optional[str] = None, desired: Optional[str] = None, share: Optional[str] = None
    ) -> NamespaceSettings:
        """Changes what is given; answers the resulting settings."""
        body = body_of(policy=policy, desired=desired, share=share)
        row = await self._scope.ask("setNamespace", {"settings": body})
        return read(NamespaceSettings, row["settings"])

    @operation
    async def delete(self) -> None:
        """Deletes all that is in it."""
        await self._scope.ask("deleteNamespace", {})

    # ---- locks

    @operation
    async def lock(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> Optional[LockRefusal]:
        """All paths or none; answers what was refused, or None."""
        return _refusal(await self._scope.ask("lock", lock_body(owner, paths, timeout)))

    @operation
    async def lock_some(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> List[bool]:
        """Each path by itself, in order; answers which were granted."""
        return cast(List[bool], await self._scope.ask("lockSome", lock_body(owner, paths, timeout)))

    @operation
    async def renew_locks(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> Optional[LockRefusal]:
        """Every path must be held by the owner, else nothing changes; answers the first that is not, or None."""
        return _refusal(await self._scope.ask("renewLocks", lock_body(owner, paths, timeout)))

    @operation
    async def unlock(self, owner: str, paths: Iterable[Sequence[str]]) -> Optional[LockRefusal]:
        """As `renew_locks`."""
        return _refusal(await self._scope.ask("unlock", lock_body(owner, paths, None)))

    @operation
    async def read_locks(self, paths: Iterable[Sequence[str]]) -> List[Optional[str]]:
        """The owner of exactly each path, or None."""
        body = {"paths": [list(path) for path in paths]}
        return cast(List[Optional[str]], await self._scope.ask("readLocks", body))

    @listing
    async def locks(self, path: Sequence[str] = (), page_size: Optional[int] = None) -> AsyncIterator[Lock]:
        """Those that are held at and below a path, in the order of their labels."""
        async for row in self._scope.each_row("listLocks", body_of(path=list(path), limit=page_size)):
            yield read(Lock, row)

    @operation
    async def clear_locks(self, path: Sequence[str]) -> None:
        """Releases everything at and below a path, whoever holds it."""
        await self._scope.ask("clearLocks", {"path": list(path)})


def _waiting(wait: float) -> Dict[str, Any]:
    return {"waitMs": to_ms(wait)} if wait > 0 else {}


def _name_of(batch: Any) -> Optional[str]:
    """Of a batch that is given by its name, or as a handle."""
    return cast(Optional[str], getattr(batch, "name", batch))


def _refusal(row: Any) -> Optional[LockRefusal]:
    return None if row is None else read(LockRefusal, row)


class WorkSpec(Handle[M]):
    """A work spec by its name, or pinned to the one that was seen.

    A handle by name means whatever has the name when a method is called, and raises NoSuchWorkSpec when nothing has. A pinned
    one, with an `id`, means the spec that was seen: once that was deleted every method raises Gone.
    """

    def __init__(self, scope: Scope[M], name: str, spec_id: Optional[int]) -> None:
        self._scope = scope
        self.name = name
        self.id = spec_id

    def __repr__(self) -> str:
        return "<WorkSpec %r>" % self.name

    @property
    def _ref(self) -> Any:
        return self.name if self.id is None else {"name": self.name, "id": self.id}

    def _missing(self) -> CoordinateError:
        return NoSuchWorkSpec(self.name) if self.id is None else Gone(self.name)

    async def _read(self) -> Dict[str, Any]:
        [row] = await self._scope.ask("getWorkSpecs", {"workSpecs": [self._ref]})
        if row is None:
            raise self._missing()
        return cast(Dict[str, Any], row)

    async def _ask(self, verb: str, body: Dict[str, Any], wait: float = 0) -> Any:
        return await self._scope.ask(verb, {"workSpec": self._ref, **body}, wait)

    # ---- the spec itself

    @operation
    async def data(self) -> Data:
        return from_wire((await self._read())["data"])

    @operation
    async def set_data(self, data: Mapping[str, Any], keep_meta: bool = False) -> None:
        """Replaces the data of a spec that exists, and resets its metadata unless `keep_meta`. The name cannot change."""
        await self._read()
        body = {"specs": [{"data": to_wire(data), "name": self.name}], "keepMeta": keep_meta}
        [row] = await self._scope.ask("setWorkSpecs", body)
        if self.id is not None and row["id"] != self.id:
            raise self._missing()

    @operation
    async def meta(self) -> WorkSpecMeta:
        return read(WorkSpecMeta, (await self._read())["meta"])

    @operation
    async def set_meta(
        self,
        priority: Optional[float] = None,
        weight: Optional[float] = None,
        paused: Optional[bool] = None,
        continuous: Optional[bool] = None,
        min_gb: Optional[float] = None,
        interval: Optional[float] = None,
        next_continuous: Optional[float] = None,
        max_running: Optional[int] = None,
        max_getwork: Optional[int] = None,
        max_retries: Optional[int] = None,
        max_waiting: Optional[int] = None,
        not_before: Optional[float] = None,
        max_running_per_partition: Optional[int] = None,
        aging: Optional[float] = None,
    ) -> WorkSpecMeta:
        """Changes what is given; answers the resulting metadata: `continuous` stays off for a spec that cannot be."""
        change = body_of(
            priority=priority,
            weight=weight,
            paused=paused,
            continuous=continuous,
            min_gb=min_gb,
            interval=interval,
            next_continuous=next_continuous,
            max_running=max_running,
            max_getwork=max_getwork,
            max_retries=max_retries,
            max_waiting=max_waiting,
            not_before=not_before,
            max_running_per_partition=max_running_per_partition,
            aging=aging,
        )
        return read(WorkSpecMeta, await self._ask("setWorkSpecMeta", {"change": change}))

    @operation
    async def pause(self) -> None:
        """No new attempts for its units; those that run go on."""
        await self._ask("setWorkSpecMeta", {"change": {"paused": True}})

    @operation
    async def resume(self) -> None:
        await self._ask("setWorkSpecMeta", {"change": {"paused": False}})

    @operation
    async def counts(self) -> Counts:
        """Exact numbers of units by status."""
        if self.id is not None:
            await self._read()
        for row in await self._scope.ask("tally", {}):
            if row["workSpec"] == self.name:
                return cast(Counts, row["counts"])
        raise self._missing()

    @operation
    async def delete(self) -> None:
        """With its units and their attempts."""
        [there] = await self._scope.ask("deleteWorkSpecs", {"workSpecs": [self._ref]})
        if not there:
            raise self._missing()

    # ---- its units

    @operation
    async def add_work_unit(
        self,
        name: str,
        data: Optional[Mapping[str, Any]] = None,
        priority: Optional[float] = None,
        delay: Optional[float] = None,
        not_before: Optional[float] = None,
        dependencies: Optional[Iterable[Mapping[str, str]]] = None,
        queues: Optional[Iterable[str]] = None,
        labels: Optional[Iterable[str]] = None,
        batch: Union[str, Batch[M], None] = None,
        max_retries: Optional[int] = None,
        retry: Optional[Mapping[str, Any]] = None,
        on_conflict: Optional[str] = None,
        debounce: Optional[float] = None,
        throttle: Optional[float] = None,
        wait: float = 0,
        partition: Optional[str] = None,
        deadline: Optional[float] = None,
        expires: Optional[float] = None,
    ) -> WorkUnit[M]:
        """Adds one unit, or writes over the one of its name, and reads it back.

        `on_conflict` says what becomes of a unit that exists: update, replace, data, ignore or refuse. `retry` is a policy as work
        specs have it. `wait` is how long to wait for room in a work spec with `max_waiting`.
        """
        unit: Dict[str, Any] = {"name": name, "data": data, "priority": priority, "delay": delay}
        unit.update(not_before=not_before, dependencies=dependencies, queues=queues, labels=labels)
        unit.update(deadline=deadline, expires=expires)
        unit.update(partition=partition, batch=_name_of(batch), max_retries=max_retries, retry=retry)
        unit.update(on_conflict=on_conflict, debounce=debounce, throttle=throttle)
        [added] = await self._ask("addWorkUnits", {"units": [unit_body(unit)], **_waiting(wait)}, wait)
        found = await self._find([name])
        if found[0] is None or found[0].id != added["id"]:
            raise Gone(name)
        return found[0]

    @operation
    async def add_work_units(
        self,
        units: NewUnits,
        on_conflict: Optional[str] = None,
        batch: Union[str, Batch[M], None] = None,
        wait: float = 0,
    ) -> Added:
        """Adds any number of units, a thousand in a request: names, pairs of name and data, dicts, or a dict of name to data.

        Each thousand is added whole or not at all; when one is refused, those before it stay. `on_conflict` and `batch` are for
        units that do not say it themselves; `wait` is how long to wait for room in a work spec with `max_waiting`.
        """
        return await self._add(units, on_conflict, _name_of(batch), wait)

    async def _add(self, units: NewUnits, on_conflict: Optional[str], batch: Optional[str], wait: float) -> Added:
        options = {**body_of(on_conflict=on_conflict), **_waiting(wait)}
        count = created = ignored = 0
        for bodies in in_batches(pairs(units), batch=batch):
            added = await self._ask("addWorkUnits", {"units": bodies, **options}, wait)
            count += len(added)
            created += sum(1 for row in added if row["created"])
            ignored += sum(1 for row in added if row.get("ignored"))
        return Added(count, created, ignored)

    @operation
    async def load_work_units(
        self,
        units: Union[NewUnits, AsyncIterable[NewUnit]],
        request_id: Optional[str] = None,
        on_conflict: Optional[str] = None,
        batch: Union[str, Batch[M], None] = None,
    ) -> Added:
        """Adds any number of units in one request, in constant memory here and there. Stops at the first that is refused.

        Not sent again by itself: with a `request_id`, calling it again with the same units within ten minutes adds nothing
        twice. The spec is meant by its name.
        """
        others = {"on_conflict": on_conflict, "batch": _name_of(batch)}
        if isinstance(units, AsyncIterable):
            bodies: Any = (unit_body(unit, **others) async for unit in units)
        else:
            bodies = (unit_body(unit, **others) for unit in pairs(units))
        row = await self._scope.protocol.load(self._scope.namespace or "", self.name, bodies, request_id)
        return Added(row["units"], row["created"])

    @operation
    async def work_unit(self, name: str) -> WorkUnit[M]:
        """Raises NoSuchWorkUnit."""
        [unit] = await self._find([name])
        if unit is None:
            raise NoSuchWorkUnit(name)
        return unit

    @operation
    async def get_work_units(self, names: Iterable[str]) -> List[Optional[WorkUnit[M]]]:
        """None where there is none."""
        return await self._find(names)

    async def _find(self, names: Iterable[str]) -> List[Optional[WorkUnit[M]]]:
        rows = await self._ask("getWorkUnits", body_of(names=names))
        return [None if row is None else WorkUnit(self, row) for row in rows]

    @listing
    async def work_units(
        self,
        names: Optional[Iterable[str]] = None,
        statuses: Optional[Iterable[str]] = None,
        prefix: Optional[str] = None,
        label: Optional[str] = None,
        error: Optional[str] = None,
        ended_since: Optional[float] = None,
        as_added: Optional[bool] = None,
        previous: Optional[str] = None,
        page_size: Optional[int] = None,
    ) -> AsyncIterator[WorkUnit[M]]:
        """Those that match, in name order, a page at a time. `error` is the fingerprint of a failure group.

        `as_added` gives the data that the units were added with, whatever their attempts wrote.
        """
        body = body_of(names=names, statuses=statuses, prefix=prefix, label=label, error=error)
        body.update(body_of(ended_since=ended_since, as_added=as_added, previous=previous, limit=page_size))
        async for row in self._scope.each_row("listWorkUnits", {"workSpec": self._ref, **body}):
            yield WorkUnit(self, row)

    @listing
    async def export_work_units(
        self,
        statuses: Optional[Iterable[str]] = None,
        prefix: Optional[str] = None,
        label: Optional[str] = None,
        previous: Optional[str] = None,
    ) -> AsyncIterator[WorkUnit[M]]:
        """As `work_units`, in one request of constant memory. The spec is meant by its name."""
        query: Dict[str, Any] = {} if statuses is None else {"status": list(statuses)}
        for key, value in (("prefix", prefix), ("label", label), ("previous", previous)):
            if value is not None:
                query[key] = name_to_url(value)
        async for row in self._scope.protocol.export(self._scope.namespace or "", self.name, query):
            yield WorkUnit(self, row)

    @operation
    async def wait(
        self, names: Iterable[str], timeout: float = LONGEST_WAIT, any: bool = False
    ) -> List[Optional[WorkUnit[M]]]:
        """Waits for these units to end, `timeout` seconds at most, and tells where they stand then. `any`: one is enough."""
        rows = await self._wait_for(body_of(names=names, any=any or None), timeout)
        return [None if row is None else WorkUnit(self, row) for row in rows]

    async def _wait_for(self, body: Dict[str, Any], timeout: float) -> List[Any]:
        rows: List[Any] = []
        for piece in waits(timeout):
            rows = await self._ask("awaitWorkUnits", {**body, "waitMs": to_ms(piece)}, piece)
            ended = [row is None or row["status"] in ("finished", "failed") for row in rows]
            if all(ended) or ("any" in body and True in ended):
                break
        return rows

    @listing
    async def partitions(self, page_size: Optional[int] = None) -> AsyncIterator[Partition]:
        """Its partitions with units that wait, run or are to be tried again, in name order, and what holds each back."""
        body = {"workSpec": self._ref, **body_of(limit=page_size)}
        async for row in self._scope.each_row("listPartitions", body):
            yield read(Partition, row)

    @operation
    async def failures(self) -> List[FailureGroup]:
        """Its failed units in groups by what went wrong."""
        rows = await self._scope.ask("listFailures", {"workSpec": self.name})
        return [read(FailureGroup, row) for row in rows]

    # Many units at once. Each tells how many units it touched, and refuses a selection that names nothing (EmptyQuery).

    @operation
    async def count_work_units(self, **selection: Unpack[Selection]) -> Counts:
        return cast(Counts, await self._ask("countWorkUnits", {"selection": body_of(**selection)}))

    @operation
    async def set_priorities(self, priority: float, **selection: Unpack[Selection]) -> int:
        body = {"selection": body_of(**selection), "change": {"set": priority}}
        return cast(int, await self._ask("setWorkUnitPriorities", body))

    @operation
    async def adjust_priorities(self, by: float, **selection: Unpack[Selection]) -> int:
        body = {"selection": body_of(**selection), "change": {"adjust": by}}
        return cast(int, await self._ask("setWorkUnitPriorities", body))

    @operation
    async def set_delays(self, not_before: float, **selection: Unpack[Selection]) -> int:
        """Not before this time, in seconds since 1970; 0 is at once."""
        body = {"selection": body_of(**selection), "notBefore": to_ms(not_before)}
        return cast(int, await self._ask("setWorkUnitDelays", body))

    @operation
    async def retry(self, **selection: Unpack[Selection]) -> int:
        """Lets units be tried again, the failed ones unless told otherwise; their retries are counted anew."""
        chosen = body_of(**selection) or {"statuses": ["failed"]}
        return cast(int, await self._ask("resetWorkUnits", {"selection": chosen}))

    @operation
    async def cancel(
        self, by: Optional[str] = None, why: Optional[str] = None, **selection: Unpack[Selection]
    ) -> int:
        """Fails units that have not ended, running ones included. Who cancels, and why, is kept in their tracebacks."""
        body = {"selection": body_of(**selection), **body_of(by=by, why=why)}
        return cast(int, await self._ask("cancelWorkUnits", body))

    @operation
    async def delete_work_units(self, **selection: Unpack[Selection]) -> int:
        """With their attempts."""
        return cast(int, await self._ask("deleteWorkUnits", {"selection": body_of(**selection)}))


class WorkUnit(Handle[M]):
    """A work unit as it was when it was read. Every method that changes it reads it again.

    Once it was deleted all methods raise Gone, also when another unit of its name was added since.
    """

    def __init__(self, spec: WorkSpec[M], row: Dict[str, Any]) -> None:
        self._spec = spec
        self._scope = spec._scope
        self._row = row
        self._data: Optional[Data] = None

    def __repr__(self) -> str:
        return "<WorkUnit %s/%s %s>" % (self.work_spec_name, self.name, self.status)

    @property
    def name(self) -> str:
        return cast(str, self._row["name"])

    @property
    def id(self) -> int:
        return cast(int, self._row["id"])

    @property
    def work_spec_name(self) -> str:
        return cast(str, self._row["workSpec"])

    @property
    def status(self) -> str:
        """available, delayed, blocked, pending, finished or failed."""
        return cast(str, self._row["status"])

    @property
    def reason(self) -> Optional[str]:
        """Why it failed: error, exhausted, dependency, expired, cancelled or late. None unless it has."""
        return cast(Optional[str], self._row.get("reason"))

    @property
    def data(self) -> Data:
        """The active attempt's data if it has any, else the unit's own. To change it changes nothing in the store."""
        if self._data is None:
            self._data = from_wire(self._row["data"])
        return self._data

    @property
    def traceback(self) -> Optional[str]:
        """Of a unit that failed: what went wrong, for a person."""
        return self.data.get("traceback")

    @property
    def priority(self) -> float:
        return cast(float, self._row["priority"])

    @property
    def not_before(self) -> float:
        """Seconds since 1970; 0 is no delay."""
        return from_ms(self._row["notBefore"])

    @property
    def created_time(self) -> float:
        return from_ms(self._row["createdTime"])

    @property
    def attempt_count(self) -> int:
        """How many attempts were ever made."""
        return cast(int, self._row["attempts"])

    @property
    def active_attempt(self) -> Optional[Attempt[M]]:
        """Pending, finished or failed; None while the unit waits."""
        row = self._row["activeAttempt"]
        return None if row is None else Attempt(self._scope, row)

    @property
    def progress(self) -> Optional[Progress]:
        """How far the running attempt has come, as its worker last said; None when it said nothing, or nothing runs."""
        row = (self._row["activeAttempt"] or {}).get("progress")
        return None if row is None else read(Progress, row)

    @property
    def max_retries(self) -> Optional[int]:
        """Its own; None where that of its work spec holds."""
        return cast(Optional[int], self._row.get("maxRetries"))

    @property
    def retry_policy(self) -> Optional[Dict[str, Any]]:
        """Its own, in the words of a work spec; None where that of its work spec holds."""
        return cast(Optional[Dict[str, Any]], as_said(self._row.get("retry")))

    @property
    def batch(self) -> Optional[str]:
        """The name of the batch that it belongs to."""
        for label in self.labels:
            if label.startswith("batch:"):
                return label[len("batch:") :]
        return None

    @property
    def origin(self) -> Optional[str]:
        """The id of the attempt whose `output` made this unit, or None."""
        return cast(Optional[str], self._row["origin"])

    @property
    def dependencies(self) -> List[Dependency]:
        return [read(Dependency, row) for row in self._row["dependencies"]]

    @property
    def queues(self) -> List[str]:
        """The queues that get a message when it ends."""
        return cast(List[str], self._row["queues"])

    @property
    def labels(self) -> List[str]:
        return cast(List[str], self._row["labels"])

    @property
    def deadline(self) -> Optional[float]:
        """When it is late and goes first, in seconds since 1970; None is never."""
        time = self._row.get("deadline")
        return None if time is None else from_ms(time)

    @property
    def expires(self) -> Optional[float]:
        """When it fails unless it has begun; None is never."""
        time = self._row.get("expires")
        return None if time is None else from_ms(time)

    @property
    def partition(self) -> str:
        """What it is counted under where its work spec has rules for each partition; empty for none."""
        return cast(str, self._row["partition"])

    async def _take(self, verb: str, body: Dict[str, Any], wait: float = 0) -> None:
        [row] = await self._seen(verb, {"names": [self.name], **body}, wait)
        if row is None or row["id"] != self.id:
            raise Gone(self.name)
        self._row = row
        self._data = None

    async def _seen(self, verb: str, body: Dict[str, Any], wait: float = 0) -> Any:
        try:
            return await self._spec._ask(verb, body, wait)
        except (NoSuchWorkSpec, NoSuchWorkUnit) as error:
            raise Gone(self.name) from error

    async def _change(self, verb: str, body: Dict[str, Any]) -> None:
        """A look first, so that a unit of the same name that came later is left alone."""
        await self._take("getWorkUnits", {})
        await self._seen(verb, {"selection": {"names": [self.name]}, **body})
        await self._take("getWorkUnits", {})

    @operation
    async def refresh(self) -> None:
        """Reads the unit again."""
        await self._take("getWorkUnits", {})

    @operation
    async def wait(self, timeout: float = LONGEST_WAIT) -> str:
        """Waits until it has ended, `timeout` seconds at most; tells its status."""
        return await self._wait(timeout)

    async def _wait(self, timeout: float) -> str:
        for piece in waits(timeout):
            await self._take("awaitWorkUnits", {"waitMs": to_ms(piece)}, piece)
            if self.status in ("finished", "failed"):
                break
        return self.status

    @operation
    async def result(self, timeout: Optional[float] = None) -> Data:
        """What its task returned. Waits until the unit has ended, for ever or for `timeout` seconds.

        Raises WorkUnitFailed when it failed, and TimeoutError when the time was over.
        """
        while await self._wait(LONGEST_WAIT if timeout is None else timeout) not in ("finished", "failed"):
            if timeout is not None:
                raise TimeoutError("%s/%s has not ended after %g s" % (self.work_spec_name, self.name, timeout))
        if self.status == "failed":
            raise WorkUnitFailed(self.work_spec_name, self.name, self.data)
        return self.data

    @operation
    async def attempts(self) -> List[Attempt[M]]:
        """Every attempt, in the order they were made."""
        await self._take("getWorkUnits", {})
        rows = await self._seen("listUnitAttempts", {"workUnit": self.name})
        return [Attempt(self._scope, row) for row in rows]

    @operation
    async def set_priority(self, priority: float) -> None:
        await self._change("setWorkUnitPriorities", {"change": {"set": priority}})

    @operation
    async def adjust_priority(self, by: float) -> None:
        await self._change("setWorkUnitPriorities", {"change": {"adjust": by}})

    @operation
    async def set_delay(self, not_before: float) -> None:
        """The unit may not be claimed before this time, in seconds since 1970; 0 is at once."""
        await self._change("setWorkUnitDelays", {"notBefore": to_ms(not_before)})

    @operation
    async def retry(self) -> None:
        """Has a unit that ended done again, with its own data; its retries are counted anew."""
        await self._change("resetWorkUnits", {})

    @operation
    async def cancel(self, by: Optional[str] = None, why: Optional[str] = None) -> None:
        """Fails the unit, whether it waits or runs. One that has ended is left as it is."""
        await self._change("cancelWorkUnits", body_of(by=by, why=why))

    @operation
    async def clear_active_attempt(self) -> None:
        """Takes the unit from its active attempt: it is available again with its own data, its history stays."""
        await self._change("resetWorkUnits", {})

    @operation
    async def delete(self) -> None:
        """With its attempts."""
        await self._take("getWorkUnits", {})
        if await self._seen("deleteWorkUnits", {"selection": {"names": [self.name]}}) == 0:
            raise Gone(self.name)

    @operation
    async def lineage(self) -> List[Tuple[Attempt[M], WorkUnit[M]]]:
        """What led here, nearest first: the attempt whose output made this unit and the unit it was for, and so on."""
        await self._take("getWorkUnits", {})
        steps: List[Tuple[Attempt[M], WorkUnit[M]]] = []
        seen = set()
        origin = self.origin
        while origin is not None and origin not in seen:
            seen.add(origin)
            [row] = await self._scope.ask("getAttempts", {"ids": [origin]})
            if row is None:
                break
            attempt = Attempt(self._scope, row)
            try:
                [unit] = await WorkSpec(self._scope, attempt.work_spec_name, None)._find([attempt.work_unit_name])
            except NoSuchWorkSpec:
                break
            if unit is None or unit.id != attempt._unit_id:
                break
            steps.append((attempt, unit))
            origin = unit.origin
        return steps


class Attempt(Handle[M]):
    """An attempt as its worker holds it: what it was given, and the ways to end it.

    A change that succeeds updates what the properties tell. One that is refused raises NotPending, LostLease, Gone or
    NoSuchAttempt.
    """

    def __init__(self, scope: Scope[M], row: Dict[str, Any]) -> None:
        self._scope = scope
        self._row = row
        self._data: Optional[Data] = None
        self._lifetime = from_ms(row["expirationTime"] - row["startTime"])
        self._log = LogLines()

    def __repr__(self) -> str:
        return "<Attempt %s of %s/%s %s>" % (self.id, self.work_spec_name, self.work_unit_name, self.status)

    @property
    def id(self) -> str:
        return cast(str, self._row["id"])

    @property
    def _unit_id(self) -> int:
        return int(self.id.partition(".")[0])

    @property
    def work_spec_name(self) -> str:
        return cast(str, self._row["workSpec"])

    @property
    def work_unit_name(self) -> str:
        return cast(str, self._row["workUnit"])

    @property
    def worker_name(self) -> str:
        return cast(str, self._row["worker"])

    @property
    def number(self) -> int:
        """1 for the unit's first attempt."""
        return cast(int, self._row["number"])

    @property
    def status(self) -> str:
        """pending, expired, finished, failed or retryable."""
        return cast(str, self._row["status"])

    @property
    def active(self) -> bool:
        return cast(bool, self._row["active"])

    @property
    def start_time(self) -> float:
        return from_ms(self._row["startTime"])

    @property
    def end_time(self) -> float:
        """0 while it runs."""
        return from_ms(self._row["endTime"])

    @property
    def expiration_time(self) -> float:
        return from_ms(self._row["expirationTime"])

    @property
    def late(self) -> bool:
        """It was settled after its lease had passed."""
        return cast(bool, self._row["late"])

    @property
    def reported(self) -> Optional[Progress]:
        """How far it has come, as its worker last said; None when it said nothing, or does not run."""
        row = self._row.get("progress")
        return None if row is None else read(Progress, row)

    @property
    def chaining_errors(self) -> List[str]:
        """What could not be read in its `output`."""
        return cast(List[str], self._row["chainingErrors"])

    @property
    def data(self) -> Data:
        """What the attempt wrote, else what it was given. To change it changes nothing until it is given to `finish`."""
        if self._data is None:
            self._data = from_wire(self._row["data"])
        return self._data

    @operation
    async def work_unit(self) -> WorkUnit[M]:
        """The unit as it stands now. Raises Gone when it was deleted."""
        spec = WorkSpec(self._scope, self.work_spec_name, None)
        try:
            [unit] = await spec._find([self.work_unit_name])
        except NoSuchWorkSpec as error:
            raise Gone(self.work_unit_name) from error
        if unit is None or unit.id != self._unit_id:
            raise Gone(self.work_unit_name)
        return unit

    @operation
    async def refresh(self) -> None:
        """Reads the attempt again. Raises Gone when its unit was deleted."""
        [row] = await self._scope.ask("getAttempts", {"ids": [self.id]})
        if row is None:
            raise Gone(self.id)
        self._row = row
        self._data = None

    @operation
    async def finish(self, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Ends it well. With `data`, that is the result; its `output` makes units of the next work spec in the same step."""
        return await self._settle(Change(self.id, "finish", data))

    @operation
    async def fail(self, data: Optional[Mapping[str, Any]] = None, traceback: Optional[str] = None) -> Settled:
        """Ends it badly. `traceback` is what went wrong, for a person; it is added to the data."""
        if traceback is not None:
            data = {**(self.data if data is None else data), "traceback": traceback}
        return await self._settle(Change(self.id, "fail", data))

    @operation
    async def error(self, traceback: str, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Ends it in an error. The retry policy says what follows: the unit is tried again, and `retry` of the answer says
        when, or it fails."""
        return await self._settle(Change(self.id, "error", data, error=traceback))

    @operation
    async def snooze(self, delay: float) -> Settled:
        """Puts the unit off for `delay` seconds: as `retry`, but it does not count as a try."""
        return await self._settle(Change(self.id, "retry", delay=delay, untried=True))

    @operation
    async def retry(self, delay: float = 0, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Gives the unit back to be tried again, `delay` seconds later."""
        return await self._settle(Change(self.id, "retry", data, delay=delay))

    @operation
    async def expire(self, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Gives the lease back: the unit is available at once."""
        return await self._settle(Change(self.id, "expire", data))

    @operation
    async def release(self) -> Settled:
        """Gives back a unit that was not begun: as `expire`, but it does not count against `max_retries`."""
        return await self._settle(Change(self.id, "expire", untried=True))

    @operation
    async def renew(self, lifetime: Optional[float] = None, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """The lease ends `lifetime` seconds from now, 15 minutes when absent. Data that comes too late is still stored."""
        return await self._settle(Change(self.id, "renew", data, lifetime=lifetime))

    @operation
    async def progress(self, done: float, note: str = "") -> Settled:
        """Says how far it has come, from 0 to 1, with a few words for people. The lease begins anew, as long as it was."""
        lifetime = self._lifetime if self._lifetime > 0 else None
        return await self._settle(Change(self.id, "renew", lifetime=lifetime, progress=(done, note)))

    def log(self, text: str, level: str = "info") -> None:
        """Writes a line for people, which is kept with the attempt: debug, info, warn or error. It is sent with the next change, or by
        `flush_log`. Lines are numbered by this handle: it is for whoever runs the attempt."""
        self._log.add(text, level)

    @operation
    async def flush_log(self) -> None:
        """Sends what `log` has written since the last change."""
        lines = self._log.unstored()
        if lines is None:
            return
        [exists] = await self._scope.ask("writeAttemptLogs", {"logs": [{"attempt": self.id, **lines}]})
        if not exists:
            raise Gone(self.id)
        self._log.stored(lines)

    @operation
    async def read_log(self, after: int = 0) -> AttemptLog:
        """What its task wrote, as far as it is kept; lines with a number above `after`."""
        [row] = await self._scope.ask("getAttemptLogs", {"ids": [self.id], "after": after})
        if row is None:
            raise Gone(self.id)
        return read(AttemptLog, row)

    async def _settle(self, change: Change) -> Settled:
        lines = self._log.unstored()
        if lines is not None:
            change = change._replace(log=lines)
        body = change.body()
        [row] = await self._scope.ask("settleAttempts", {"changes": [body]})
        settled = read(Settled, row)
        if lines is not None:
            self._log.stored(lines)
        if settled.status is not None:
            wrote = settled.changed or (settled.error == "lost_lease" and change.action == "renew")
            self._row = {**self._row, "status": settled.status, "expirationTime": row["expirationTime"]}
            if wrote and "data" in body:
                self._row["data"] = body["data"]
                self._data = None
            if settled.changed:
                self._row["chainingErrors"] = settled.chaining_errors
            if settled.status != "pending":
                self._row["progress"] = None
            elif settled.changed and "progress" in body:
                self._row["progress"] = body["progress"]
            may_be_active = settled.status in ("pending", "finished", "failed")
            self._row["active"] = may_be_active and (settled.changed or self._row["active"])
        if settled.error is not None:
            raise error_of(settled.error, self.work_unit_name)
        return settled


class Worker(Handle[M]):
    """A worker by its name. It comes to be when it first asks for work or checks in; a handle alone creates nothing."""

    def __init__(self, scope: Scope[M], name: str) -> None:
        self._scope = scope
        self.name = name

    def __repr__(self) -> str:
        return "<Worker %r>" % self.name

    @operation
    async def state(self) -> WorkerState:
        """Raises NoSuchWorker when it is not known."""
        row = await self._read()
        if row is None:
            raise NoSuchWorker(self.name)
        return read(WorkerState, row)

    @operation
    async def request_attempts(
        self,
        number: Optional[int] = None,
        wait: float = 0,
        lifetime: Optional[float] = None,
        work_specs: Optional[Iterable[str]] = None,
        runtimes: Optional[Iterable[str]] = None,
        available_gb: Optional[float] = None,
        tasks: Optional[Iterable[str]] = None,
        modules: Optional[bool] = None,
        labels: Optional[Iterable[str]] = None,
        request_id: Optional[str] = None,
        cancel: Optional[Cancel] = None,
    ) -> List[Attempt[M]]:
        """Asks for work: attempts of one work spec, or none. Waits `wait` seconds for work to come.

        `number` is how many at most, `lifetime` how long the leases are. An id of your own makes it possible to ask again
        after a crash and be given the same. `tasks` asks for work specs of these tasks only; `modules`, of those without a
        runtime, for the ones that name a module. `labels` are those of the worker, such as `gpu` or `version=2.3.1`, for
        work specs that require some.
        """
        body = body_of(
            worker=self.name,
            number=number,
            lifetime=lifetime,
            work_specs=work_specs,
            runtimes=runtimes,
            available_gb=available_gb,
            tasks=tasks,
            modules=modules,
            labels=labels,
            request_id=request_id,
        )
        for piece in waits(wait):
            waiting = {**body, "waitMs": to_ms(piece)} if piece > 0 else body
            rows = await self._scope.ask("requestAttempts", waiting, piece, cancel)
            if rows:
                return [Attempt(self._scope, row) for row in rows]
        return []

    @operation
    async def make_attempt(self, unit: WorkUnit[M], lifetime: Optional[float] = None) -> Attempt[M]:
        """Makes an attempt for this unit, wherever it stands; what was its active attempt loses its lease."""
        await unit._take("getWorkUnits", {})
        asked = body_of(work_spec=unit.work_spec_name, work_unit=unit.name, worker=self.name, lifetime=lifetime)
        try:
            [row] = await self._scope.ask("makeAttempts", {"requests": [asked]})
        except (NoSuchWorkSpec, NoSuchWorkUnit) as error:
            raise Gone(unit.name) from error
        return Attempt(self._scope, row)

    @operation
    async def update(
        self,
        parent: Optional[str] = KEEP,
        active: Optional[bool] = None,
        mode: Optional[str] = None,
        data: Optional[Mapping[str, Any]] = None,
        last_update: Optional[float] = None,
        expiration: Optional[float] = None,
        desired: Optional[str] = KEEP,
    ) -> WorkerState:
        """Changes what is given; `active=True` makes it a check-in. None as parent, or as what is desired, clears it."""
        return await self._update(
            parent=parent,
            active=active,
            mode=mode,
            data=data,
            last_update=last_update,
            expiration=expiration,
            desired=desired,
        )

    async def _update(self, **change: Any) -> WorkerState:
        [row] = await self._scope.ask("updateWorkers", {"changes": [worker_body(self.name, **change)]})
        return read(WorkerState, row)

    @operation
    async def check_in(
        self, mode: Optional[str] = None, data: Optional[Mapping[str, Any]] = None, expiration: Optional[float] = None
    ) -> WorkerState:
        """Says that it is alive: active for another 15 minutes, or until `expiration`."""
        return await self._update(active=True, mode=mode, data=data, expiration=expiration)

    @operation
    async def deactivate(self) -> WorkerState:
        """Says that it has stopped."""
        return await self._update(active=False)

    @operation
    async def desired(self) -> str:
        """What it should do: its own setting, else its namespace's. `run`, `idle` or `terminate`."""
        row = await self._read() or (await self._scope.ask("getNamespace", {}))["settings"]
        return cast(str, row["desired"])

    @listing
    async def children(self, page_size: Optional[int] = None) -> AsyncIterator[WorkerState]:
        """In name order."""
        async for row in self._scope.each_row("listWorkers", body_of(parent=self.name, limit=page_size)):
            yield read(WorkerState, row)

    @listing
    async def attempts(self, which: str = "active", page_size: Optional[int] = None) -> AsyncIterator[Attempt[M]]:
        """`active`: those it holds now. `all`: every one it ever made, newest first. `children`: active ones of its children."""
        body = body_of(worker=self.name, which=which, limit=page_size)
        async for row in self._scope.each_row("listWorkerAttempts", body):
            yield Attempt(self._scope, row)

    async def _read(self) -> Optional[Dict[str, Any]]:
        [row] = await self._scope.ask("getWorkers", {"names": [self.name]})
        return cast(Optional[Dict[str, Any]], row)


class Queue(Handle[M]):
    """A queue of outcomes, by its name."""

    def __init__(self, scope: Scope[M], name: str) -> None:
        self._scope = scope
        self.name = name

    def __repr__(self) -> str:
        return "<Queue %r>" % self.name

    async def _take(self, max: Optional[int], wait: float, request_id: Optional[str] = None) -> List[Message]:
        body = body_of(queue=self.name, max=max, request_id=request_id)
        for piece in waits(wait):
            waiting = {**body, "waitMs": to_ms(piece)} if piece > 0 else body
            rows = await self._scope.ask("takeMessages", waiting, piece)
            if rows:
                return [read(Message, row) for row in rows]
        return []

    @operation
    async def take(
        self, max: Optional[int] = None, wait: float = 0, request_id: Optional[str] = None
    ) -> List[Message]:
        """Takes messages out of the queue, in order; none when there are none, or none came within `wait` seconds."""
        return await self._take(max, wait, request_id)

    @listing
    async def messages(self, batch: int = 100, wait: float = 30) -> AsyncIterator[Message]:
        """Every message as it comes. What was taken with one request and not yet looped over when the loop is left is lost."""
        while True:
            for message in await self._take(batch, wait):
                yield message

    @operation
    async def count(self) -> int:
        [count] = await self._scope.ask("countMessages", {"queues": [self.name]})
        return cast(int, count)

    @operation
    async def clear(self) -> int:
        """Removes all messages; answers how many."""
        return cast(int, await self._scope.ask("clearQueue", {"queue": self.name}))


class Batch(Handle[M]):
    """A batch by its name: units of any work specs that belong together. It counts how they end."""

    def __init__(self, scope: Scope[M], name: str) -> None:
        self._scope = scope
        self.name = name

    def __repr__(self) -> str:
        return "<Batch %r>" % self.name

    async def _set(self, **change: Any) -> BatchState:
        [row] = await self._scope.ask("setBatches", {"batches": [{"name": self.name, **change}]})
        return read(BatchState, row)

    @operation
    async def set(
        self, then: Union[str, Mapping[str, str], None] = KEEP, sealed: Optional[bool] = None, parent: Optional[str] = None
    ) -> BatchState:
        """Makes the batch, or changes what is given.

        `then` is the unit that is made once when the batch ends: the name of its work spec, or a dict of `work_spec`, `work_unit`
        and `on` (`ended` or `finished`); None takes it away. `parent` is the batch that this one belongs to.
        """
        change = body_of(sealed=sealed, parent=parent)
        if then is not KEEP:
            change["then"] = {"workSpec": then} if isinstance(then, str) else then and body_of(**then)
        return await self._set(**change)

    @operation
    async def add_work_units(
        self, work_spec: Union[str, WorkSpec[M]], units: NewUnits, on_conflict: Optional[str] = None, wait: float = 0
    ) -> Added:
        """Adds units of a work spec to the batch, as `WorkSpec.add_work_units` does."""
        spec = WorkSpec(self._scope, work_spec, None) if isinstance(work_spec, str) else work_spec
        return await spec._add(units, on_conflict, self.name, wait)

    @operation
    async def seal(self) -> BatchState:
        """Says that nothing more will be added: from now on the batch may end."""
        return await self._set(sealed=True)

    @operation
    async def get(self) -> Optional[BatchState]:
        """Its counts and how far it has come; None when there is no such batch."""
        [row] = await self._scope.ask("getBatches", {"names": [self.name]})
        return None if row is None else read(BatchState, row)

    @operation
    async def cancel(self) -> int:
        """Cancels the units that have not ended; answers how many."""
        return cast(int, await self._scope.ask("changeBatch", {"batch": self.name, "action": "cancel"}))

    @operation
    async def retry(self) -> int:
        """Has the units that failed done again; answers how many."""
        return cast(int, await self._scope.ask("changeBatch", {"batch": self.name, "action": "retry"}))

    @operation
    async def delete(self) -> bool:
        """Forgets the batch; its units stay. False when there was none."""
        [there] = await self._scope.ask("deleteBatches", {"names": [self.name]})
        return cast(bool, there)


class Client(Handle[M]):
    """The way in. Several threads, or tasks, may use one client at once."""

    def __init__(self, scope: Scope[M]) -> None:
        self._scope = scope

    def namespace(self, name: str = "") -> Namespace[M]:
        """A handle by name; the default namespace has the empty name."""
        scope: Scope[M] = Scope(self._scope.protocol, name, self._scope.run, self._scope.run_each)
        return Namespace(scope)

    @operation
    async def namespaces(self) -> List[str]:
        """The names of those that exist and that the token may read, in order."""
        return [row["name"] for row in await self._scope.ask("listNamespaces", {})]

    @operation
    async def tally(self) -> List[Tally]:
        """Exact numbers of units by namespace, work spec and status."""
        return [read(Tally, row) for row in await self._scope.ask("tally", {})]

    @operation
    async def waiting_since(self) -> List[WaitingSince]:
        return [read(WaitingSince, row) for row in await self._scope.ask("waitingSince", {})]

    @operation
    async def call(self, verb: str, namespace: Optional[str], body: Dict[str, Any], wait: float = 0) -> Any:
        """Any verb, in the words of the wire: `call("getWorkUnits", "shop", {"workSpec": "resize", "names": ["a"]})`."""
        return await self._scope.protocol.ask(verb, namespace, body, wait)

    def close(self) -> None:
        """Later calls are refused with Closed."""
        self._scope.protocol.close()

    def __enter__(self) -> Client[M]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Client[M]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
