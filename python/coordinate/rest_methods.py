"""The methods of CBOR-RPC over REST, so that the old names work with either. Each answers as the server of that wire does."""

import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .constants import AVAILABLE, FAILED, FINISHED, NUMBER_OF_STATUS, PAUSED, PENDING, RUNNABLE
from .data import name_from_bytes
from .errors import CoordinateError, NoSuchWorkSpec, NoSuchWorkUnit, NotSupported
from .arguments import Change
from .handles import Attempt, Namespace, Sync, WorkUnit

Pair = Tuple[Any, Optional[str]]

_RENEWED_LEASE = 300.0
_LONGEST_LEASE = 86400.0


class RestMethods:
    """Remembers which attempts it was given: an update of a unit means that one, as on the old wire."""

    def __init__(self, namespace: Namespace[Sync]) -> None:
        self._namespace = namespace
        self._attempts: Dict[Tuple[str, str], str] = {}

    def call(self, method: str, *params: Any) -> Any:
        function = getattr(self, method, None)
        if function is None or method.startswith("_") or method in ("call", "close"):
            raise NotSupported("%s over REST" % method)
        try:
            return function(*params)
        except NoSuchWorkSpec as error:
            return _MISSING[method], str(error)

    def close(self) -> None:
        self._namespace._scope.protocol.close()

    # ---- work specs

    def set_work_spec(self, spec: Mapping[str, Any]) -> Pair:
        self._namespace.set_work_spec(spec)
        return True, None

    def get_work_spec(self, name: Any) -> Any:
        try:
            return self._namespace.work_spec(name_from_bytes(name)).data()
        except NoSuchWorkSpec:
            return None

    def list_work_specs(self, options: Mapping[str, Any]) -> Any:
        start, limit = name_from_bytes(options.get("start") or ""), options.get("limit")
        found = [pair for pair in self._namespace.work_spec_data() if pair[0] >= start]
        page = found if limit is None else found[:limit]
        return [data for _, data in page], found[len(page)][0] if len(page) < len(found) else None

    def control_work_spec(self, name: Any, options: Mapping[str, Any]) -> Pair:
        status = options.get("status")
        self._namespace.work_spec(name_from_bytes(name)).set_meta(
            paused=None if status is None else status == PAUSED,
            continuous=options.get("continuous"),
            weight=options.get("weight"),
            interval=options.get("interval"),
            max_running=options.get("max_running"),
        )
        return True, None

    def get_work_spec_meta(self, name: Any) -> Pair:
        meta = self._namespace.work_spec(name_from_bytes(name)).meta()
        row = {"status": PAUSED if meta.paused else RUNNABLE, "continuous": meta.continuous, "weight": meta.weight}
        return {**row, "interval": meta.interval, "max_running": meta.max_running}, None

    def del_work_spec(self, name: Any) -> Pair:
        self._namespace.work_spec(name_from_bytes(name)).delete()
        return True, None

    def clear(self) -> int:
        names = [name for name, _ in self._namespace.work_spec_data()]
        for name in names:
            self.del_work_spec(name)
        return len(names)

    # ---- work units

    def add_work_units(self, spec: Any, items: Iterable[Any]) -> Pair:
        self._namespace.work_spec(name_from_bytes(spec)).add_work_units([_new_unit(item) for item in items])
        return True, None

    def get_work_units(self, spec: Any, options: Mapping[str, Any]) -> Pair:
        handle = self._namespace.work_spec(name_from_bytes(spec))
        keys = _names(options.get("work_unit_keys"))
        if keys:
            return [(unit.name, unit.data) for unit in handle.get_work_units(keys) if unit is not None], None
        start, limit = options.get("start"), options.get("limit")
        limit = 1000 if limit is None else limit
        previous = None if start is None else name_from_bytes(start)
        statuses = _statuses(options.get("state"))
        found: List[Any] = []
        if statuses == []:
            return found, None
        page = min(limit, 1000) if limit > 0 else None
        for unit in handle.work_units(statuses=statuses, previous=previous, page_size=page):
            found.append((unit.name, unit.data))
            if len(found) == limit:
                break
        return found, None

    def get_work_unit_status(self, spec: Any, keys: Iterable[Any]) -> Pair:
        units = self._namespace.work_spec(name_from_bytes(spec)).get_work_units(_names(keys) or [])
        return [None if unit is None else _status_row(unit) for unit in units], None

    def count_work_units(self, spec: Any) -> Pair:
        counts: Dict[int, int] = {}
        for status, count in self._namespace.work_spec(name_from_bytes(spec)).counts().items():
            if count > 0:
                number = NUMBER_OF_STATUS[status]
                counts[number] = counts.get(number, 0) + count
        return counts, None

    def prioritize_work_units(self, spec: Any, options: Mapping[str, Any]) -> Pair:
        handle = self._namespace.work_spec(name_from_bytes(spec))
        keys, priority, adjustment = options.get("work_unit_keys"), options.get("priority"), options.get("adjustment")
        if keys is None:
            return False, "missing work_unit_keys"
        names = _names(keys) or []
        if priority is not None:
            handle.set_priorities(priority, names=names)
        elif adjustment is not None:
            handle.adjust_priorities(adjustment, names=names)
        return True, None

    def del_work_units(self, spec: Any, options: Mapping[str, Any]) -> Pair:
        handle = self._namespace.work_spec(name_from_bytes(spec))
        if options.get("all"):
            return handle.delete_work_units(all=True), None
        keys, state = options.get("work_unit_keys"), options.get("state")
        if keys is None and state is None:
            handle.counts()  # an unknown work spec is told first
            return 0, "no usable options to del_work_units"
        names, statuses = _names(keys), _statuses(state)
        if statuses == []:
            return 0, None
        if names is None:
            assert statuses is not None
            return handle.delete_work_units(statuses=statuses), None
        if statuses is None:
            return handle.delete_work_units(names=names), None
        return handle.delete_work_units(names=names, statuses=statuses), None

    # ---- doing work

    def get_work(self, worker_id: Any, options: Mapping[str, Any]) -> Pair:
        wanted = options.get("max_jobs")
        lease = options.get("lease_time")
        lease = 900.0 if lease is None else _RENEWED_LEASE if lease < 1 else min(lease, _LONGEST_LEASE)
        gb = options.get("available_gb")
        attempts = self._namespace.worker(name_from_bytes(worker_id or "")).request_attempts(
            number=max(1, int(1 if wanted is None else wanted)),
            lifetime=lease,
            work_specs=_names(options.get("work_spec_names")),
            runtimes=[""],
            available_gb=gb if gb else None,
        )
        for attempt in attempts:
            self._attempts[attempt.work_spec_name, attempt.work_unit_name] = attempt.id
        jobs = [(attempt.work_spec_name, attempt.work_unit_name, attempt.data) for attempt in attempts]
        if wanted is None or wanted == 1:
            return jobs[0] if jobs else (None, None, None), None
        return jobs, None

    def update_work_unit(self, spec: Any, key: Any, options: Mapping[str, Any]) -> Pair:
        spec, key = name_from_bytes(spec), name_from_bytes(key)
        status, data = options.get("status") or 0, options.get("data")
        lease = options.get("lease_time")
        lease = _RENEWED_LEASE if lease is None else min(lease, _LONGEST_LEASE)
        if status not in (0, AVAILABLE, PENDING, FINISHED, FAILED):
            raise CoordinateError(message="update_work_unit invalid status")
        handle = self._namespace.work_spec(spec)
        try:
            unit = handle.work_unit(key)
        except NoSuchWorkUnit:
            return False, "no such work unit key=%r" % key
        known = self._attempts.get((spec, key))
        if status == AVAILABLE and unit.status in ("finished", "failed"):
            self._attempts.pop((spec, key), None)
            return handle.retry(names=[key]) > 0, None
        if known is None:
            if unit.active_attempt is None:
                return self._update_waiting(unit, status, data, lease, options.get("worker_id"))
            if unit.status != "pending" and status != FINISHED:
                return False, None
            known = unit.active_attempt.id
        if status == FINISHED:
            return self._settle(Change(known, "finish", data))
        if status == FAILED:
            return self._settle(Change(known, "fail", data))
        if status == AVAILABLE or lease <= 0:
            self._attempts.pop((spec, key), None)
            return self._settle(Change(known, "expire", data))
        return self._settle(Change(known, "renew", data, lifetime=lease))

    def _update_waiting(self, unit: WorkUnit[Sync], status: int, data: Any, lease: float, worker: Any) -> Pair:
        """A unit that waits. To end it is to make an attempt that ends."""
        if status in (0, AVAILABLE):
            if data is None:
                return False, None
            row = {"name": unit.name, "data": data, "priority": unit.priority, "not_before": unit.not_before}
            unit._spec.add_work_units([row])
            return True, None
        holder = self._namespace.worker(name_from_bytes(worker or ""))
        made = holder.make_attempt(unit, lifetime=lease if lease > 0 else _RENEWED_LEASE)
        self._attempts[unit.work_spec_name, unit.name] = made.id
        action = {FINISHED: "finish", FAILED: "fail", PENDING: "renew"}[status]
        return self._settle(Change(made.id, action, data, lifetime=lease if action == "renew" else None))

    def _settle(self, change: Change) -> Pair:
        [answer] = self._namespace.settle_attempts([change])
        if answer.error is None:
            return answer.changed, None
        if answer.error in ("lost_lease", "gone", "no_such_attempt"):
            return False, "lost lease"
        return False, None

    # ---- workers

    def worker_heartbeat(self, worker_id: Any, mode: Any, seconds: float, data: Any, parent: Any) -> Pair:
        message = None
        if seconds < 0:
            seconds, message = 300, "negative expire time %s defaulted to 5 minutes" % seconds
        self._namespace.worker(name_from_bytes(worker_id)).update(
            active=True,
            mode=None if mode is None else name_from_bytes(mode),
            data=data,
            expiration=time.time() + seconds,
            parent=name_from_bytes(parent) if parent else None,
        )
        return True, message

    def worker_unregister(self, worker_id: Any) -> Pair:
        worker = self._namespace.worker(name_from_bytes(worker_id))
        if not any(state.active for state in self._namespace.workers(names=[worker.name])):
            return False, "no worker %r" % worker.name
        worker.deactivate()
        return True, None

    def list_worker_modes(self) -> Pair:
        return {state.name: state.mode for state in self._namespace.workers(active=True) if state.mode}, None

    def mode_counts(self) -> Pair:
        counts: Dict[str, int] = {}
        for mode in self.list_worker_modes()[0].values():
            counts[mode] = counts.get(mode, 0) + 1
        return counts, None

    def get_worker_info(self, worker_id: Any) -> Pair:
        for state in self._namespace.workers(names=[name_from_bytes(worker_id)], active=True):
            return state.data, None
        return None, None

    def worker_stats(self) -> Dict[str, int]:
        states = list(self._namespace.workers(active=True))
        children = sum(1 for state in states if state.parent is not None)
        return {"num_workers": len(states), "num_children": children, "num_expirable": len(states)}

    def get_child_work_units(self, worker_id: Any) -> Pair:
        worker = self._namespace.worker(name_from_bytes(worker_id))
        found: Dict[str, List[Any]] = {state.name: [] for state in worker.children()}
        for attempt in worker.attempts("children"):
            self._attempts[attempt.work_spec_name, attempt.work_unit_name] = attempt.id
            found.setdefault(attempt.worker_name, []).append(_child_row(attempt))
        return found, None


#: What a method answers, with a message, for a work spec that does not exist.
_MISSING: Dict[str, Any] = {
    "get_work_spec_meta": None,
    "count_work_units": None,
    "get_work_unit_status": None,
    "get_work_units": [],
    "del_work_units": 0,
    "control_work_spec": False,
    "del_work_spec": False,
    "add_work_units": False,
    "prioritize_work_units": False,
    "update_work_unit": False,
}


def _names(names: Optional[Iterable[Any]]) -> Optional[List[str]]:
    return None if names is None else [name_from_bytes(name) for name in names]


def _statuses(state: Any) -> Optional[List[str]]:
    """None is any; an empty list matches nothing."""
    if state is None or state in ([], ()):
        return None
    numbers = state if isinstance(state, (list, tuple)) else [state]
    return [status for status, number in NUMBER_OF_STATUS.items() if number in numbers]


def _new_unit(item: Any) -> Dict[str, Any]:
    if isinstance(item, (str, bytes)):
        return {"name": name_from_bytes(item)}
    key, data, *more = item
    meta = more[0] if more and more[0] is not None else {}
    priority = more[1] if len(more) > 1 and more[1] is not None else meta.get("priority")
    return {"name": name_from_bytes(key), "data": data, "priority": priority, "delay": meta.get("delay")}


def _status_row(unit: WorkUnit[Sync]) -> Dict[str, Any]:
    """`expiration` is when the lease of a pending unit ends, or when a unit has ended."""
    row: Dict[str, Any] = {"status": NUMBER_OF_STATUS[unit.status], "expiration": None}
    attempt = unit.active_attempt
    if attempt is not None:
        row["worker_id"] = attempt.worker_name
        row["expiration"] = attempt.expiration_time if unit.status == "pending" else attempt.end_time
    if unit.status == "failed" and "traceback" in unit.data:
        row["traceback"] = unit.data["traceback"]
    return row


def _child_row(attempt: Attempt[Sync]) -> Dict[str, Any]:
    return {
        "work_spec_name": attempt.work_spec_name,
        "work_unit_key": attempt.work_unit_name,
        "work_unit_data": attempt.data,
        "worker_id": attempt.worker_name,
        "expires": attempt.expiration_time,
    }
