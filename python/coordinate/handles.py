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
        """Selects units by conditions, all of which must hold. Without a condition, `all=True` is required to select every unit.

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
    """Marks a method that is written as a coroutine: asyncio handles return it, blocking handles run it to its end."""

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
    """The same for a method that yields rows."""

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
    """The state that all handles of a namespace share."""

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
        """Yields every row of a listing. Requests the next page after the last row of a page."""
        while True:
            page = await self.ask(verb, body)
            for row in page["rows"]:
                yield row
            if page["next"] is None:
                return
            body = {**body, "previous": page["next"]}


# ---- the handles


class Namespace(Handle[M]):
    """A namespace by its name. A handle creates nothing: the namespace exists once something is stored in it."""

    def __init__(self, scope: Scope[M]) -> None:
        self._scope = scope
        self.name = scope.namespace or ""

    def __repr__(self) -> str:
        return "<Namespace %r>" % self.name

    # ---- work specs

    def work_spec(self, name: str) -> WorkSpec[M]:
        """A handle by name. Does not check that the work spec exists."""
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
        """Creates the work spec with the `name` of the dict, or replaces its data. Returns a handle pinned to it."""
        [handle] = await self._set([spec], keep_meta)
        return handle

    @operation
    async def set_work_specs(self, specs: Iterable[Mapping[str, Any]], keep_meta: bool = False) -> List[WorkSpec[M]]:
        """Sets work specs, all or none. Replacing one resets its metadata to that derived from the data, unless `keep_meta`."""
        return await self._set(specs, keep_meta)

    async def _set(self, specs: Iterable[Mapping[str, Any]], keep_meta: bool) -> List[WorkSpec[M]]:
        body = {"specs": [{"data": to_wire(spec)} for spec in specs], "keepMeta": keep_meta}
        rows = await self._scope.ask("setWorkSpecs", body)
        return [WorkSpec(self._scope, row["name"], row["id"]) for row in rows]

    @listing
    async def work_specs(self, page_size: Optional[int] = None) -> AsyncIterator[WorkSpec[M]]:
        """Pinned handles of all work specs, in name order."""
        async for row in self._scope.each_row("listWorkSpecs", body_of(limit=page_size)):
            yield WorkSpec(self._scope, row["name"], row["id"])

    @listing
    async def work_spec_data(self, page_size: Optional[int] = None) -> AsyncIterator[Tuple[str, Data]]:
        """The names and the data of all work specs, in name order."""
        async for row in self._scope.each_row("listWorkSpecs", body_of(limit=page_size)):
            yield row["name"], from_wire(row["data"])

    # ---- workers and attempts

    def worker(self, name: str) -> Worker[M]:
        """A handle by name. Does not check that the worker exists."""
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
        """Settles attempts, each independently, in order. A refused change does not raise: its result has the `error`."""
        settled: List[Settled] = []
        for bodies in in_batches([change.body() for change in changes]):
            rows = await self._scope.ask("settleAttempts", {"changes": bodies})
            settled.extend(read(Settled, row) for row in rows)
        return settled

    @operation
    async def write_attempt_logs(self, logs: List[Dict[str, Any]]) -> List[bool]:
        """Stores log lines of tasks: `{"attempt": id, "lines": [{"text": …}]}` for each attempt. Returns which attempts exist."""
        return cast(List[bool], await self._scope.ask("writeAttemptLogs", {"logs": logs}))

    # ---- queues

    def queue(self, name: str) -> Queue[M]:
        """A handle by name. Does not check that the queue has messages."""
        return Queue(self._scope, name)

    @listing
    async def queues(self, page_size: Optional[int] = None) -> AsyncIterator[QueueSummary]:
        """The queues that have messages, in name order."""
        async for row in self._scope.each_row("listQueues", body_of(limit=page_size)):
            yield read(QueueSummary, row)

    # ---- batches

    def batch(self, name: str) -> Batch[M]:
        """A handle by name. Does not check that the batch exists."""
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
        Creates or replaces limits by name: `{"max_running": 5, "rate": {"limit": 100, "period": 60}}`; None deletes a limit.
        Other limits stay.
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
        """Stores records by key; returns which were new. An existing key with different data is refused."""
        body = {"actions": [{"key": key, "data": to_wire(data)} for key, data in actions.items()]}
        return cast(List[bool], await self._scope.ask("putActions", body))

    @operation
    async def get_actions(self, keys: Iterable[str]) -> List[Optional[Data]]:
        rows = await self._scope.ask("getActions", body_of(keys=keys))
        return [None if row is None else from_wire(row["data"]) for row in rows]

    @listing
    async def actions(self, page_size: Optional[int] = None) -> AsyncIterator[Action]:
        """All records, in key order."""
        async for row in self._scope.each_row("listActions", body_of(limit=page_size)):
            yield read(Action, row)

    @operation
    async def delete_actions(self, keys: Iterable[str]) -> List[bool]:
        """Deletes records. Returns for each key whether it existed."""
        return cast(List[bool], await self._scope.ask("deleteActions", body_of(keys=keys)))

    # ---- looking in

    @operation
    async def tally(self) -> List[Tally]:
        """Exact numbers of units by work spec and status."""
        return [read(Tally, row) for row in await self._scope.ask("tally", {})]

    @operation
    async def failures(self, work_spec: Optional[str] = None) -> List[FailureGroup]:
        """The failed units of one work spec, or of all, grouped by error."""
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
        """Statistics over time: of the `last` seconds, an hour when absent, or from `start` to `end`.

        One series for the whole namespace, or one for each of `work_specs`; `each` adds one for every work spec. About
        `points` points at most, 360 when absent.
        """
        body = body_of(last=last, work_specs=work_specs, each=each, points=points, **{"from": start, "to": end})
        return read(History, await self._scope.ask("history", body))

    @operation
    async def waiting_since(self) -> List[WaitingSince]:
        """Since when units have waited, for each work spec with available units."""
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
        """Explains for every work spec why such a request would or would not get work from it."""
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
        """Yields events from now on, or after the event with that id. Ends when the server stops, or with `cancel`."""
        async for event in self._scope.protocol.events(self.name, after, cancel):
            yield Event(event["id"], event["type"], event["data"])

    @operation
    async def settings(self) -> NamespaceSettings:
        return read(NamespaceSettings, (await self._scope.ask("getNamespace", {}))["settings"])

    @operation
    async def configure(
        self, policy: Optional[str] = None, desired: Optional[str] = None, share: Optional[str] = None
    ) -> NamespaceSettings:
        """Changes the given settings; returns the resulting settings."""
        body = body_of(policy=policy, desired=desired, share=share)
        row = await self._scope.ask("setNamespace", {"settings": body})
        return read(NamespaceSettings, row["settings"])

    @operation
    async def delete(self) -> None:
        """Deletes the namespace and everything in it."""
        await self._scope.ask("deleteNamespace", {})

    # ---- locks

    @operation
    async def lock(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> Optional[LockRefusal]:
        """Locks all paths or none; returns the refused path and its owner, or None."""
        return _refusal(await self._scope.ask("lock", lock_body(owner, paths, timeout)))

    @operation
    async def lock_some(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> List[bool]:
        """Locks each path independently, in order; returns which were granted."""
        return cast(List[bool], await self._scope.ask("lockSome", lock_body(owner, paths, timeout)))

    @operation
    async def renew_locks(
        self, owner: str, paths: Iterable[Sequence[str]], timeout: Optional[float] = None
    ) -> Optional[LockRefusal]:
        """Extends locks if the owner holds every path. Otherwise changes nothing and returns the first path not held."""
        return _refusal(await self._scope.ask("renewLocks", lock_body(owner, paths, timeout)))

    @operation
    async def unlock(self, owner: str, paths: Iterable[Sequence[str]]) -> Optional[LockRefusal]:
        """Releases locks, under the same condition as `renew_locks`."""
        return _refusal(await self._scope.ask("unlock", lock_body(owner, paths, None)))

    @operation
    async def read_locks(self, paths: Iterable[Sequence[str]]) -> List[Optional[str]]:
        """The owner of each path, not counting locks above or below it; None if it is not locked."""
        body = {"paths": [list(path) for path in paths]}
        return cast(List[Optional[str]], await self._scope.ask("readLocks", body))

    @listing
    async def locks(self, path: Sequence[str] = (), page_size: Optional[int] = None) -> AsyncIterator[Lock]:
        """The locks at and below a path, in the order of their labels."""
        async for row in self._scope.each_row("listLocks", body_of(path=list(path), limit=page_size)):
            yield read(Lock, row)

    @operation
    async def clear_locks(self, path: Sequence[str]) -> None:
        """Releases all locks at and below a path, whoever owns them."""
        await self._scope.ask("clearLocks", {"path": list(path)})


def _waiting(wait: float) -> Dict[str, Any]:
    return {"waitMs": to_ms(wait)} if wait > 0 else {}


def _name_of(batch: Any) -> Optional[str]:
    """The name of a batch, given by name or as a handle."""
    return cast(Optional[str], getattr(batch, "name", batch))


def _refusal(row: Any) -> Optional[LockRefusal]:
    return None if row is None else read(LockRefusal, row)


class WorkSpec(Handle[M]):
    """A work spec, by name or pinned to one work spec by its `id`.

    A handle by name refers to the work spec that has the name when a method is called; without one, the method raises
    NoSuchWorkSpec. A pinned handle refers to the work spec that was read: after that is deleted, every method raises Gone.
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
        """Replaces the data of an existing work spec, and resets its metadata unless `keep_meta`. The name cannot change."""
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
        """Changes the given fields; returns the metadata. `continuous` stays off unless the data has `continuous: true`."""
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
        """Starts no new attempts of its units; running ones continue."""
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
        """Deletes the work spec with its units and their attempts."""
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
        """Adds one unit, or updates the existing unit of that name, and returns it as stored.

        `on_conflict` says what happens to an existing unit: update, replace, data, ignore or refuse. `retry` is a policy in the
        format of a work spec. `wait` is how long to wait for room in a work spec with `max_waiting`.
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

        Each request adds all its units or none; after a refused request, the units of earlier requests stay. `on_conflict` and
        `batch` apply to units that do not set them; `wait` is how long to wait for room in a work spec with `max_waiting`.
        """
        return await self._add(units, on_conflict, _name_of(batch), wait)

    async def _add(self, units: NewUnits, on_conflict: Optional[str], batch: Optional[str], wait: float) -> Added:
        options = {**body_of(on_conflict=on_conflict), **_waiting(wait)}
        count = created = ignored = 0
        for bodies in in_batches(unit_body(unit, batch=batch) for unit in pairs(units)):
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
        """Adds any number of units in one request, in constant memory on both sides. Stops at the first refused unit.

        Does not retry. With a `request_id`, you can repeat the call with the same units within ten minutes: nothing is added
        twice. Refers to the work spec by name.
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
        """Units by name; None for each that does not exist."""
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
        """The units that match, in name order, read a page at a time. `error` is the fingerprint of a failure group.

        `as_added` returns the data that the units were added with, not as changed by attempts.
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
        """Like `work_units`, in one request and constant memory. Refers to the work spec by name."""
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
        """Waits up to `timeout` seconds for these units to end, and returns their current state. `any`: waits for one of them."""
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
        """The partitions that have units waiting, running or due for a retry, in name order, and what holds each back."""
        body = {"workSpec": self._ref, **body_of(limit=page_size)}
        async for row in self._scope.each_row("listPartitions", body):
            yield read(Partition, row)

    @operation
    async def failures(self) -> List[FailureGroup]:
        """The failed units, grouped by error."""
        rows = await self._scope.ask("listFailures", {"workSpec": self.name})
        return [read(FailureGroup, row) for row in rows]

    # Many units at once. Each method returns how many units it changed, and raises EmptyQuery for a selection without conditions.

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
        """Sets the earliest start of units that wait, in seconds since 1970; 0 is no delay."""
        body = {"selection": body_of(**selection), "notBefore": to_ms(not_before)}
        return cast(int, await self._ask("setWorkUnitDelays", body))

    @operation
    async def retry(self, **selection: Unpack[Selection]) -> int:
        """Makes units available again, the failed ones by default. Their tries are counted anew."""
        chosen = body_of(**selection) or {"statuses": ["failed"]}
        return cast(int, await self._ask("resetWorkUnits", {"selection": chosen}))

    @operation
    async def cancel(
        self, by: Optional[str] = None, why: Optional[str] = None, **selection: Unpack[Selection]
    ) -> int:
        """Cancels units that have not ended, running ones included: they fail. Their tracebacks say who cancelled them and why."""
        body = {"selection": body_of(**selection), **body_of(by=by, why=why)}
        return cast(int, await self._ask("cancelWorkUnits", body))

    @operation
    async def delete_work_units(self, **selection: Unpack[Selection]) -> int:
        """Deletes units with their attempts."""
        return cast(int, await self._ask("deleteWorkUnits", {"selection": body_of(**selection)}))


class WorkUnit(Handle[M]):
    """A work unit in the state in which it was last read. Every method that changes it reads it again.

    After it is deleted all methods raise Gone, even if a new unit of that name exists.
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
        """Why it failed: error, exhausted, dependency, expired, cancelled or late. None if it has not failed."""
        return cast(Optional[str], self._row.get("reason"))

    @property
    def data(self) -> Data:
        """The data of the active attempt if it has any, else that of the unit. Changing the dict does not change the store."""
        if self._data is None:
            self._data = from_wire(self._row["data"])
        return self._data

    @property
    def traceback(self) -> Optional[str]:
        """The error of a failed unit, for people to read."""
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
        """The total number of attempts."""
        return cast(int, self._row["attempts"])

    @property
    def active_attempt(self) -> Optional[Attempt[M]]:
        """The attempt that is pending, finished or failed; None while the unit waits."""
        row = self._row["activeAttempt"]
        return None if row is None else Attempt(self._scope, row)

    @property
    def progress(self) -> Optional[Progress]:
        """The last progress that the worker reported for the running attempt; None without a report or a running attempt."""
        row = (self._row["activeAttempt"] or {}).get("progress")
        return None if row is None else read(Progress, row)

    @property
    def max_retries(self) -> Optional[int]:
        """The unit's own setting; None when that of its work spec applies."""
        return cast(Optional[int], self._row.get("maxRetries"))

    @property
    def retry_policy(self) -> Optional[Dict[str, Any]]:
        """The unit's own policy, in the format of a work spec; None when that of its work spec applies."""
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
        """The deadline after which it goes first, in seconds since 1970; None is never."""
        time = self._row.get("deadline")
        return None if time is None else from_ms(time)

    @property
    def expires(self) -> Optional[float]:
        """When it fails if it has not started, in seconds since 1970; None is never."""
        time = self._row.get("expires")
        return None if time is None else from_ms(time)

    @property
    def partition(self) -> str:
        """The partition that the rules of its work spec count it in; empty for none."""
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
        """Reads the unit first, so that a newer unit of the same name is not changed."""
        await self._take("getWorkUnits", {})
        await self._seen(verb, {"selection": {"names": [self.name]}, **body})
        await self._take("getWorkUnits", {})

    @operation
    async def refresh(self) -> None:
        """Reads the unit again."""
        await self._take("getWorkUnits", {})

    @operation
    async def wait(self, timeout: float = LONGEST_WAIT) -> str:
        """Waits up to `timeout` seconds until the unit has ended; returns its status."""
        return await self._wait(timeout)

    async def _wait(self, timeout: float) -> str:
        for piece in waits(timeout):
            await self._take("awaitWorkUnits", {"waitMs": to_ms(piece)}, piece)
            if self.status in ("finished", "failed"):
                break
        return self.status

    @operation
    async def result(self, timeout: Optional[float] = None) -> Data:
        """Returns the result of its task. Waits until the unit has ended, for ever or for `timeout` seconds.

        Raises WorkUnitFailed if the unit failed, and TimeoutError after `timeout` seconds.
        """
        while await self._wait(LONGEST_WAIT if timeout is None else timeout) not in ("finished", "failed"):
            if timeout is not None:
                raise TimeoutError("%s/%s has not ended after %g s" % (self.work_spec_name, self.name, timeout))
        if self.status == "failed":
            raise WorkUnitFailed(self.work_spec_name, self.name, self.data)
        return self.data

    @operation
    async def attempts(self) -> List[Attempt[M]]:
        """All attempts, in the order they were made."""
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
        """Sets the earliest time at which the unit may be claimed, in seconds since 1970; 0 is no delay."""
        await self._change("setWorkUnitDelays", {"notBefore": to_ms(not_before)})

    @operation
    async def retry(self) -> None:
        """Makes a unit that has ended available again, with the data it was added with. Its tries are counted anew."""
        await self._change("resetWorkUnits", {})

    @operation
    async def cancel(self, by: Optional[str] = None, why: Optional[str] = None) -> None:
        """Cancels the unit, whether it waits or runs: it fails. A unit that has ended does not change."""
        await self._change("cancelWorkUnits", body_of(by=by, why=why))

    @operation
    async def clear_active_attempt(self) -> None:
        """Clears the active attempt: the unit is available again with the data it was added with, and keeps its history."""
        await self._change("resetWorkUnits", {})

    @operation
    async def delete(self) -> None:
        """Deletes the unit with its attempts."""
        await self._take("getWorkUnits", {})
        if await self._seen("deleteWorkUnits", {"selection": {"names": [self.name]}}) == 0:
            raise Gone(self.name)

    @operation
    async def lineage(self) -> List[Tuple[Attempt[M], WorkUnit[M]]]:
        """The lineage, nearest first: the attempt whose output made this unit and the unit of that attempt, and so on."""
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
    """An attempt of a worker: its data, and the methods to settle it.

    A successful change updates the properties. A refused change raises NotPending, LostLease, Gone or NoSuchAttempt.
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
        """Whether it was settled after its lease had expired."""
        return cast(bool, self._row["late"])

    @property
    def reported(self) -> Optional[Progress]:
        """The last progress that its worker reported; None without a report, or when it does not run."""
        row = self._row.get("progress")
        return None if row is None else read(Progress, row)

    @property
    def chaining_errors(self) -> List[str]:
        """The errors in its `output`."""
        return cast(List[str], self._row["chainingErrors"])

    @property
    def data(self) -> Data:
        """The data that the attempt stored, else the data it started with. To store changes, pass the dict to `finish`."""
        if self._data is None:
            self._data = from_wire(self._row["data"])
        return self._data

    @operation
    async def work_unit(self) -> WorkUnit[M]:
        """The unit in its current state. Raises Gone if it was deleted."""
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
        """Finishes the attempt. `data` is the result; its `output` makes units of the next work spec in the same step."""
        return await self._settle(Change(self.id, "finish", data))

    @operation
    async def fail(self, data: Optional[Mapping[str, Any]] = None, traceback: Optional[str] = None) -> Settled:
        """Fails the attempt. `traceback` is the error, for people to read; it is added to the data."""
        if traceback is not None:
            data = {**(self.data if data is None else data), "traceback": traceback}
        return await self._settle(Change(self.id, "fail", data))

    @operation
    async def error(self, traceback: str, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Ends the attempt with an error. By the retry policy, the unit is tried again, and `retry` of the result says when, or
        it fails."""
        return await self._settle(Change(self.id, "error", data, error=traceback))

    @operation
    async def snooze(self, delay: float) -> Settled:
        """Postpones the unit by `delay` seconds: like `retry`, but the attempt does not count as a try."""
        return await self._settle(Change(self.id, "retry", delay=delay, untried=True))

    @operation
    async def retry(self, delay: float = 0, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Releases the unit, to be tried again after `delay` seconds."""
        return await self._settle(Change(self.id, "retry", data, delay=delay))

    @operation
    async def expire(self, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Ends the lease: the unit is available at once."""
        return await self._settle(Change(self.id, "expire", data))

    @operation
    async def release(self) -> Settled:
        """Releases a unit that was not started: like `expire`, but the attempt does not count against `max_retries`."""
        return await self._settle(Change(self.id, "expire", untried=True))

    @operation
    async def renew(self, lifetime: Optional[float] = None, data: Optional[Mapping[str, Any]] = None) -> Settled:
        """Renews the lease: `lifetime` seconds from now, 15 minutes when absent. Stores data even if the lease has expired."""
        return await self._settle(Change(self.id, "renew", data, lifetime=lifetime))

    @operation
    async def progress(self, done: float, note: str = "") -> Settled:
        """Reports progress from 0 to 1, with a note for people. Renews the lease for its original length."""
        lifetime = self._lifetime if self._lifetime > 0 else None
        return await self._settle(Change(self.id, "renew", lifetime=lifetime, progress=(done, note)))

    def log(self, text: str, level: str = "info") -> None:
        """Writes a log line, which is stored with the attempt: debug, info, warn or error. It is sent with the next change, or by
        `flush_log`. This handle numbers the lines: only the worker of the attempt should use it."""
        self._log.add(text, level)

    @operation
    async def flush_log(self) -> None:
        """Sends the lines that `log` has written since the last change."""
        lines = self._log.unstored()
        if lines is None:
            return
        [exists] = await self._scope.ask("writeAttemptLogs", {"logs": [{"attempt": self.id, **lines}]})
        if not exists:
            raise Gone(self.id)
        self._log.stored(lines)

    @operation
    async def read_log(self, after: int = 0) -> AttemptLog:
        """The stored log lines of its task; only those with a number above `after`."""
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
    """A worker by its name. A handle creates nothing: the worker exists once it requests work or checks in."""

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
        """Claims work: returns attempts of one work spec, or none. Waits up to `wait` seconds for work.

        `number` is the maximum number of attempts, `lifetime` the length of their leases. With your own request id, you can
        repeat the request after a crash and get the same attempts. `tasks` restricts the request to work specs of these
        tasks; `modules` adds those that name a module, of the work specs without a runtime. `labels` are the labels of the
        worker, such as `gpu` or `version=2.3.1`, for work specs that require some.
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
        """Makes an attempt for this unit, whatever its status. Its active attempt, if any, loses its lease."""
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
        """Changes the given fields; `active=True` is a check-in. None clears the parent or the desired state."""
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
        """Checks in: the worker is active for another 15 minutes, or until `expiration`."""
        return await self._update(active=True, mode=mode, data=data, expiration=expiration)

    @operation
    async def deactivate(self) -> WorkerState:
        """Marks the worker as stopped."""
        return await self._update(active=False)

    @operation
    async def desired(self) -> str:
        """The desired state, `run`, `idle` or `terminate`: its own, else that of its namespace."""
        row = await self._read() or (await self._scope.ask("getNamespace", {}))["settings"]
        return cast(str, row["desired"])

    @listing
    async def children(self, page_size: Optional[int] = None) -> AsyncIterator[WorkerState]:
        """In name order."""
        async for row in self._scope.each_row("listWorkers", body_of(parent=self.name, limit=page_size)):
            yield read(WorkerState, row)

    @listing
    async def attempts(self, which: str = "active", page_size: Optional[int] = None) -> AsyncIterator[Attempt[M]]:
        """`active`: its active attempts. `all`: all its attempts, newest first. `children`: the active attempts of its children."""
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
        """Removes messages from the queue and returns them in order. Waits up to `wait` seconds for the first one."""
        return await self._take(max, wait, request_id)

    @listing
    async def messages(self, batch: int = 100, wait: float = 30) -> AsyncIterator[Message]:
        """Yields messages as they arrive. Leaving the loop loses messages that were taken and not yielded yet."""
        while True:
            for message in await self._take(batch, wait):
                yield message

    @operation
    async def count(self) -> int:
        [count] = await self._scope.ask("countMessages", {"queues": [self.name]})
        return cast(int, count)

    @operation
    async def clear(self) -> int:
        """Removes all messages; returns how many."""
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
        """Creates the batch, or changes the given fields.

        `then` is the unit to make once, when the batch ends: the name of its work spec, or a dict of `work_spec`, `work_unit`
        and `on` (`ended` or `finished`); None removes it. `parent` is the batch that this one belongs to.
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
        """Seals the batch: no more units will be added, and it ends when all its units have ended."""
        return await self._set(sealed=True)

    @operation
    async def get(self) -> Optional[BatchState]:
        """Its counts and progress; None if the batch does not exist."""
        [row] = await self._scope.ask("getBatches", {"names": [self.name]})
        return None if row is None else read(BatchState, row)

    @operation
    async def cancel(self) -> int:
        """Cancels the units that have not ended; returns how many."""
        return cast(int, await self._scope.ask("changeBatch", {"batch": self.name, "action": "cancel"}))

    @operation
    async def retry(self) -> int:
        """Retries the failed units; returns how many."""
        return cast(int, await self._scope.ask("changeBatch", {"batch": self.name, "action": "retry"}))

    @operation
    async def delete(self) -> bool:
        """Deletes the batch; its units stay. Returns False if it did not exist."""
        [there] = await self._scope.ask("deleteBatches", {"names": [self.name]})
        return cast(bool, there)


class Client(Handle[M]):
    """A client of a daemon. Several threads, or asyncio tasks, may use one client at the same time."""

    def __init__(self, scope: Scope[M]) -> None:
        self._scope = scope

    def namespace(self, name: str = "") -> Namespace[M]:
        """A handle by name; the default namespace has the empty name."""
        scope: Scope[M] = Scope(self._scope.protocol, name, self._scope.run, self._scope.run_each)
        return Namespace(scope)

    @operation
    async def namespaces(self) -> List[str]:
        """The names of the namespaces that the token may read, in order."""
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
        """Calls any verb, named as in REST: `call("getWorkUnits", "shop", {"workSpec": "resize", "names": ["a"]})`."""
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
