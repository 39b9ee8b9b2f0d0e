"""The names of the Python 2 package: programs written for it move to Python 3 without a change of their own.

    task_master = coordinate.TaskMaster({"address": "127.0.0.1:5932"})
    task_master.update_bundle({"name": "count", "min_gb": 1, "module": "words", "run_function": "count"}, {"a": {}})

An address `host:port` is CBOR-RPC, `http://…`, `https://…` and `unix:…` are REST.
"""

import logging
import os
import platform
import random
import socket
import time
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union, overload

from . import cbor, constants
from .cborrpc import CborRpc, parse_address
from .client import connect
from .data import Data, name_from_bytes
from .errors import LostLease, NoSuchWorkSpec, ProgrammerError
from .rest_methods import RestMethods
from .work_unit import Port, WorkUnit

logger = logging.getLogger("coordinate")

Units = Union[Mapping[Any, Any], Iterable[Any]]
Key = Union[str, bytes]


class TaskMaster(Port):
    """`config` has `address`, or `addresses` of which one is taken, and may have `token`, `namespace` (REST), `retries`,
    `base_retry_seconds`, `default_lifetime` and `worker_job_fetch`."""

    RUN = "RUN"
    IDLE = "IDLE"
    TERMINATE = "TERMINATE"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        address = config.get("address") or (random.choice(config["addresses"]) if config.get("addresses") else None)
        if address is None:
            raise ProgrammerError("the configuration has neither address nor addresses")
        self.default_lifetime = config.get("default_lifetime", 900)
        retries, base = config.get("retries", 5), config.get("base_retry_seconds", 0.5)
        self._wire: Union[CborRpc, RestMethods]
        if isinstance(address, str) and address.startswith(("http://", "https://", "unix:")):
            client = connect(address, config.get("token"), retries=retries, backoff=base)
            self._wire = RestMethods(client.namespace(config.get("namespace") or ""))
        else:
            self._wire = CborRpc(
                *parse_address(address), retries=retries, base_retry_seconds=base, token=config.get("token")
            )

    def close(self) -> None:
        self._wire.close()

    def _first(self, method: str, *params: Any) -> Any:
        """The result of a method that answers with a message beside it, which is logged."""
        result, message = self._wire.call(method, *params)
        if message is not None:
            logger.debug("%s: %s", method, message)
        return result

    # ---- work specs

    def set_work_spec(self, work_spec: Mapping[str, Any]) -> bool:
        if not work_spec.get("name"):
            raise ProgrammerError("the work spec has no name")
        gb = work_spec.get("min_gb")
        if not isinstance(gb, (int, float)) or isinstance(gb, bool):
            raise ProgrammerError("min_gb of a work spec must be a number, not %r" % (gb,))
        return bool(self._first("set_work_spec", dict(work_spec)))

    def get_work_spec(self, work_spec_name: Key) -> Optional[Dict[str, Any]]:
        """None when there is none."""
        found = self._wire.call("get_work_spec", work_spec_name)
        return None if found is None else _text_keys(found)

    def pause_work_spec(self, work_spec_name: Key, paused: bool = True) -> None:
        status = constants.PAUSED if paused else constants.RUNNABLE
        self._first("control_work_spec", work_spec_name, {"status": status})

    def list_work_specs(
        self, limit: Optional[int] = None, start: Optional[Key] = None
    ) -> Tuple[List[Tuple[str, Dict[str, Any]]], Optional[str]]:
        """Pairs of name and spec, and the `start` of the following page, or None."""
        specs, following = self._wire.call("list_work_specs", _given(limit=limit, start=start))
        rows = [_text_keys(spec) for spec in specs]
        return [(name_from_bytes(spec["name"]), spec) for spec in rows], following and name_from_bytes(following)

    def iter_work_specs(self, limit: Optional[int] = None, start: Optional[Key] = None) -> Iterator[Dict[str, Any]]:
        count = 0
        while True:
            page, start = self.list_work_specs(limit, start)
            for _, spec in page:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield spec
            if not start:
                return

    def clear(self) -> int:
        """Deletes all work specs; tells how many."""
        return int(self._wire.call("clear"))

    def del_work_spec(self, work_spec_name: Key) -> bool:
        return bool(self._first("del_work_spec", work_spec_name))

    # ---- work units

    def add_work_units(self, work_spec_name: Key, key_data_pairs: Units) -> bool:
        """A dict of key to data, or tuples of key, data and optionally a dict that may say `priority` and `delay`."""
        pairs = key_data_pairs.items() if isinstance(key_data_pairs, Mapping) else key_data_pairs
        items = [item if isinstance(item, (str, bytes)) else tuple(item) for item in pairs]
        return bool(self._first("add_work_units", work_spec_name, items))

    def update_bundle(self, work_spec: Mapping[str, Any], work_units: Units, nice: Optional[int] = None) -> None:
        if nice is not None:
            logger.warning("update_bundle: nice is ignored; say it in the work spec")
        self.set_work_spec(work_spec)
        self.add_work_units(work_spec["name"], work_units)

    def count_work_units(self, work_spec_name: Key) -> Optional[Dict[int, int]]:
        """By the number of the status; None when there is no such work spec."""
        counts = self._first("count_work_units", work_spec_name)
        return counts if isinstance(counts, dict) else None

    def status(self, work_spec_name: Key) -> Dict[str, int]:
        """Raises NoSuchWorkSpecError."""
        counts = self.count_work_units(work_spec_name)
        if counts is None:
            raise NoSuchWorkSpec(name_from_bytes(work_spec_name))
        names = {"available": 1, "blocked": 2, "pending": 3, "finished": 4, "failed": 5}
        found = {"num_" + name: counts.get(number, 0) for name, number in names.items()}
        return {**found, "num_tasks": sum(counts.values())}

    def prioritize_work_units(
        self,
        work_spec_name: Key,
        work_unit_keys: Iterable[Key],
        priority: Optional[float] = None,
        adjustment: Optional[float] = None,
    ) -> bool:
        """With neither, the priority becomes 1."""
        if priority is None and adjustment is None:
            priority = constants.PRI_PRIORITY
        options = {"work_unit_keys": list(work_unit_keys), "priority": priority, "adjustment": adjustment}
        return bool(self._first("prioritize_work_units", work_spec_name, options))

    def get_work_units(
        self,
        work_spec_name: Key,
        work_unit_keys: Optional[Iterable[Key]] = None,
        state: Union[int, List[int], None] = None,
        limit: Optional[int] = None,
        start: Optional[Key] = None,
    ) -> List[Tuple[str, Data]]:
        """Pairs of key and data, in the order of keys; 1,000 unless told otherwise."""
        keys = None if work_unit_keys is None else list(work_unit_keys)
        options = _given(work_unit_keys=keys, state=state, limit=limit, start=start)
        found = self._first("get_work_units", work_spec_name, options)
        return [(name_from_bytes(key), data) for key, data in found or ()]

    def list_work_units(self, work_spec_name: Key, start: int = 0, limit: Optional[int] = None) -> Dict[str, Data]:
        """Those that have not ended: `limit` of them from the one with number `start` on."""
        states = [constants.AVAILABLE, constants.BLOCKED, constants.PENDING]
        return self._window(work_spec_name, states, start, limit)

    def list_finished_work_units(
        self, work_spec_name: Key, start: int = 0, limit: Optional[int] = None
    ) -> Dict[str, Data]:
        return self._window(work_spec_name, [constants.FINISHED], start, limit)

    def _window(self, name: Key, states: List[int], start: int, limit: Optional[int]) -> Dict[str, Data]:
        found = self.get_work_units(name, state=states, limit=None if limit is None else start + limit)
        return dict(found[start:])

    def del_work_units(
        self,
        work_spec_name: Key,
        work_unit_keys: Optional[Iterable[Key]] = None,
        state: Optional[int] = None,
        all: bool = False,
    ) -> int:
        """Keys and state together mean both; nothing means nothing. Tells how many were deleted."""
        keys = None if work_unit_keys is None else list(work_unit_keys)
        options = _given(work_unit_keys=keys, state=state, all=all or None)
        return int(self._first("del_work_units", work_spec_name, options))

    def get_work_unit_status(self, work_spec_name: Key, work_unit_key: Any) -> Any:
        """Of one key or of a list: `status`, and where they apply `expiration`, `worker_id`, `traceback`; None if unknown."""
        single = isinstance(work_unit_key, (str, bytes))
        keys = [work_unit_key] if single else list(work_unit_key)
        rows = self._first("get_work_unit_status", work_spec_name, keys) or [None] * len(keys)
        found = [None if row is None else _text_keys(row) for row in rows]
        return found[0] if single else found

    def update_work_unit(
        self,
        work_spec_name: Key,
        work_unit_key: Key,
        lease_time: Optional[float] = None,
        status: Optional[int] = None,
        data: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        options = _given(lease_time=lease_time, status=status, data=data)
        return bool(self._first("update_work_unit", work_spec_name, work_unit_key, options))

    def retry(self, work_spec_name: Key, *work_unit_keys: Key) -> bool:
        """Makes units available again. False when one of them was not there, or could not be."""
        done = True
        for key in work_unit_keys:
            if not self.update_work_unit(work_spec_name, key, lease_time=0, status=constants.AVAILABLE):
                logger.warning("%r of %r was not retried", key, work_spec_name)
                done = False
        return done

    # ---- doing work

    @overload
    def get_work(
        self,
        worker_id: Key,
        available_gb: Optional[float] = None,
        lease_time: Optional[float] = None,
        work_spec_names: Optional[Iterable[Key]] = None,
        max_jobs: None = None,
    ) -> Optional[WorkUnit]: ...
    @overload
    def get_work(
        self,
        worker_id: Key,
        available_gb: Optional[float] = None,
        lease_time: Optional[float] = None,
        work_spec_names: Optional[Iterable[Key]] = None,
        max_jobs: int = 1,
    ) -> Any: ...
    def get_work(
        self,
        worker_id: Key,
        available_gb: Optional[float] = None,
        lease_time: Optional[float] = None,
        work_spec_names: Optional[Iterable[Key]] = None,
        max_jobs: Optional[int] = None,
    ) -> Any:
        """A WorkUnit or None; for any `max_jobs` but 1 a list of them."""
        lease = self.default_lifetime if lease_time is None else lease_time
        if lease < 10:
            logger.warning("get_work: a lease of %g s is short", lease)
        names = None if work_spec_names is None else list(work_spec_names)
        single = max_jobs is None or max_jobs == 1
        options = _given(available_gb=available_gb, lease_time=lease, work_spec_names=names, max_jobs=max_jobs or 1)
        found = self._first("get_work", worker_id, options)
        jobs = ([] if found[0] is None else [found]) if single else found
        until = time.time() + lease
        units = [self._unit(spec, key, data, worker_id, until) for spec, key, data in jobs]
        return (units[0] if units else None) if single else units

    def _unit(self, spec: Any, key: Any, data: Any, worker_id: Any, expires: Optional[float]) -> WorkUnit:
        raw = cbor.dumps(data or {})
        return WorkUnit(self, name_from_bytes(spec), name_from_bytes(key), raw, name_from_bytes(worker_id), expires)

    def get_child_work_units(self, worker_id: Key) -> Dict[str, List[WorkUnit]]:
        """What the children of a worker hold; those that hold nothing are left out."""
        found = {}
        for child, rows in self._first("get_child_work_units", worker_id).items():
            fields = [_text_keys(row) for row in rows]
            if fields:
                found[name_from_bytes(child)] = [
                    self._unit(
                        row["work_spec_name"],
                        row["work_unit_key"],
                        row["work_unit_data"],
                        row["worker_id"],
                        row["expires"],
                    )
                    for row in fields
                ]
        return found

    # How a unit reaches its coordinator.

    def end(self, unit: WorkUnit, action: str, data: Optional[bytes], delay: float = 0) -> None:
        if action == "retry":
            self._update(unit, {"lease_time": 0, "status": constants.AVAILABLE}, data)
        else:
            status = constants.FINISHED if action == "finish" else constants.FAILED
            self._update(unit, {"status": status}, data)

    def renew(self, unit: WorkUnit, seconds: float, data: Optional[bytes]) -> None:
        self._update(unit, {"lease_time": seconds}, data)

    def progress(self, unit: WorkUnit, data: bytes) -> None:
        self._update(unit, {"lease_time": self.default_lifetime}, data)

    def report(self, unit: WorkUnit, done: float, note: str) -> None:
        """The old protocol has no place for it; the lease is renewed as it would be."""
        self._update(unit, {"lease_time": self.default_lifetime}, None)

    def spec(self, unit: WorkUnit) -> Dict[Any, Any]:
        found = self.get_work_spec(unit.work_spec_name)
        if found is None:
            raise NoSuchWorkSpec(unit.work_spec_name)
        return found

    def _update(self, unit: WorkUnit, options: Dict[str, Any], data: Optional[bytes]) -> None:
        if data is not None:
            options["data"] = unit.data
        _, message = self._wire.call("update_work_unit", unit.work_spec_name, unit.key, options)
        if message is not None and name_from_bytes(message) == "lost lease":
            raise LostLease(unit.key)
        if message is not None:
            logger.debug("update_work_unit: %s", message)

    # ---- workers

    def set_mode(self, mode: str) -> None:
        """Nothing: workers are stopped by their desired state."""

    def get_mode(self) -> str:
        return self.RUN

    def worker_heartbeat(
        self,
        worker_id: Key,
        mode: Optional[str] = None,
        lifetime: float = 6000,
        environment: Optional[Mapping[str, Any]] = None,
        parent: Optional[Key] = None,
    ) -> None:
        environment = None if environment is None else dict(environment)
        self._first("worker_heartbeat", worker_id, mode or self.get_mode(), lifetime, environment, parent)

    worker_register = worker_heartbeat

    def worker_unregister(self, worker_id: Key) -> None:
        self._first("worker_unregister", worker_id)

    def workers(self, alive: bool = True) -> Dict[str, str]:
        """The modes of those that are alive, by id."""
        modes = self._first("list_worker_modes")
        return {name_from_bytes(worker): name_from_bytes(mode or "") for worker, mode in modes.items()}

    def get_heartbeat(self, worker_id: Key) -> Dict[str, Any]:
        """What it said last; nothing when it is not known."""
        return _text_keys(self._first("get_worker_info", worker_id) or {})

    def mode_counts(self) -> Dict[str, int]:
        return {name_from_bytes(mode or ""): count for mode, count in self._first("mode_counts").items()}

    def worker_stats(self) -> Dict[str, int]:
        return _text_keys(self._wire.call("worker_stats"))

    def get_server_config(self) -> Dict[str, Any]:
        return _text_keys(self._first("get_config"))

    # ---- flows

    def add_flow(self, flows: Mapping[str, Any], config: Optional[Mapping[str, Any]] = None) -> None:
        """Sets the work specs of a flow. What has a `min_gb` is a work spec; anything else a group, whose name goes before.

        `config` is what the specs are given as theirs, with what each says itself laid over it. `then` must name a work
        spec of the flow. Nothing is sent before all of it was checked.
        """
        specs = dict(_flatten(flows, ""))
        for name, spec in specs.items():
            if spec.get("then") is not None and spec["then"] not in specs:
                raise ProgrammerError("work spec %s chained to invalid work spec %s" % (name, spec["then"]))
            if config is not None:
                spec["config"] = _overlay(config, spec["config"]) if spec.get("config") else config
        for spec in specs.values():
            self.set_work_spec(spec)


def _given(**options: Any) -> Dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _text_keys(row: Mapping[Any, Any]) -> Dict[str, Any]:
    """Keys that the wire may have as bytes."""
    return {name_from_bytes(key): value for key, value in row.items()}


def _flatten(flows: Mapping[str, Any], prefix: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for name, body in flows.items():
        if not isinstance(body, Mapping):
            raise ProgrammerError("invalid work spec flow definition: %s%s has no min_gb, and is no group" % (prefix, name))
        if "min_gb" in body:
            yield prefix + name, {**body, "name": prefix + name}
        else:
            yield from _flatten(body, prefix + name + ".")


def _overlay(base: Any, over: Any) -> Any:
    """Maps are merged, None takes a key away, anything else replaces."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _overlay(merged[key], value) if key in merged else value
    return merged


# ---- running work in this process


def environment(worker_id: str, parent: Optional[str] = None) -> Dict[str, Any]:
    """What a worker says of itself."""
    hostname = socket.gethostname()
    return {
        "worker_id": worker_id,
        "parent": parent,
        "hostname": hostname,
        "fqdn": hostname,
        "aliases": (),
        "ipaddrs": (),
        "version": platform.python_version(),
        "working_set": [],
        "memory": None,
        "pid": os.getpid(),
    }


def run_one(
    task_master: Union[TaskMaster, Mapping[str, Any]],
    work_spec_names: Optional[Iterable[Key]] = None,
    max_jobs: Optional[int] = None,
    limit_count: Optional[int] = None,
    limit_seconds: Optional[float] = None,
) -> bool:
    """Fetches work and runs it here, once; with a limit, again and again until there is none, or the limit is reached.

    Whether the last fetch had work. A job that fails has failed its unit, and is no error here.
    """
    master = task_master if isinstance(task_master, TaskMaster) else TaskMaster(task_master)
    worker_id = uuid.uuid4().hex
    names = None if work_spec_names is None else list(work_spec_names)
    jobs = master.config.get("worker_job_fetch") or max_jobs or 1
    master.worker_register(worker_id, environment=environment(worker_id))
    start, fetches = time.monotonic(), 0
    try:
        while True:
            found = master.get_work(worker_id, work_spec_names=names, max_jobs=jobs)
            units = found if isinstance(found, list) else [] if found is None else [found]
            for unit in units:
                run_unit(unit)
            fetches += bool(units)
            if not units or (limit_count is None and limit_seconds is None):
                return bool(units)
            if limit_count is not None and fetches >= limit_count:
                return True
            if limit_seconds is not None and time.monotonic() - start >= limit_seconds:
                return True
    finally:
        master.worker_unregister(worker_id)


def run_unit(unit: WorkUnit) -> None:
    try:
        unit.run()
    except LostLease:
        logger.warning("%s/%s: lost its lease", unit.work_spec_name, unit.key)
    except Exception as error:
        try:
            unit.fail(error)
        except LostLease:
            logger.warning("%s/%s: lost its lease", unit.work_spec_name, unit.key)
