"""What units, batches and work specs may say besides their data, through the handles, against a real daemon."""

import json
import re
import threading
import time
import urllib.request
from pathlib import Path

import pytest

import coordinate
from coordinate.protocol import VERBS, kebab
from conftest import until

#: Said by the transport, or meant for those who speak the wire for others.
NOT_FOR_PEOPLE = {"requestId", "recordTaken", "lenient", "untried"}


def openapi(daemon):
    with urllib.request.urlopen(daemon.url + "/openapi.json") as answer:
        return json.load(answer)


def source():
    package = Path(coordinate.__file__).parent
    return "".join((package / name).read_text("utf-8") for name in ("handles.py", "arguments.py", "rows.py"))


@pytest.mark.one_backend
def test_handles_know_every_verb_and_all_that_a_verb_may_say(daemon):
    paths, text = openapi(daemon)["paths"], source()
    missing = []
    for verb in VERBS:
        if '"%s"' % verb not in text:
            missing.append(verb)
        path = "/v1/%s" if verb == "listNamespaces" else "/v1/namespace/{namespace}/%s"
        schema = paths[path % kebab(verb)]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for member in members(schema):
            plain = re.sub("Ms$", "", member)
            snake = re.sub("[A-Z]", lambda letter: "_" + letter.group().lower(), plain)
            known = re.search(r"\b(%s|%s|%s)\b" % (member, plain, snake), text)
            if known is None and member not in NOT_FOR_PEOPLE:
                missing.append("%s: %s" % (verb, member))
    assert missing == []


def members(schema):
    if isinstance(schema, list):
        return {name for each in schema for name in members(each)}
    if not isinstance(schema, dict):
        return set()
    found = set(schema.get("properties", {}))
    for value in schema.values():
        found |= members(value) if isinstance(value, (dict, list)) else set()
    return found


def test_partitions(ns):
    spec = ns.set_work_spec({"name": "crawl", "max_running_per_partition": 1})
    spec.add_work_unit("a1", partition="a")
    spec.add_work_unit("a2", partition="a")
    spec.add_work_unit("b1", partition="b")
    ns.worker("w").request_attempts(number=1)
    held, free = spec.partitions(page_size=1)
    assert (held.partition, held.waiting, held.running, held.first) == ("a", 1, 1, "a2")
    assert (held.held, held.until) == ("max_running_per_partition", 0)
    assert (free.partition, free.held, free.reason) == ("b", None, "ready to start")


def test_weights_of_partitions_are_units_a_turn(ns):
    spec = ns.set_work_spec({"name": "crawl", "fair": "partition", "partition_weights": {"a": 3, "c": 2}})
    for partition in "abc":
        for number in range(6):
            spec.add_work_unit("%s%d" % (partition, number), partition=partition)
    attempts = ns.worker("w").request_attempts(number=12)
    assert "".join(attempt.work_unit_name[0] for attempt in attempts) == "aaabcc" * 2


@pytest.fixture
def spec(ns):
    return ns.set_work_spec({"name": "spec"})


def claim(ns, number=1, **options):
    return ns.worker("w").request_attempts(number=number, **options)


class TestBatches:
    def test_from_its_first_unit_to_its_end(self, ns, spec):
        report = ns.set_work_spec({"name": "report"})
        other = ns.set_work_spec({"name": "other"})
        batch = ns.batch("import-17")
        assert batch.get() is None
        state = batch.set(then={"work_spec": "report", "work_unit": "r17", "on": "ended"})
        assert (state.then.work_spec, state.then.work_unit, state.then.on) == ("report", "r17", "ended")
        assert (state.sealed, state.progress, state.done_time) == (False, 0.0, 0)
        assert batch.add_work_units("spec", ["a", ("b", {"n": 1})]).created == 2
        assert batch.add_work_units(other, {"c": {"n": 2}}).created == 1
        spec.add_work_units(["d"], batch="import-17")
        spec.add_work_unit("e", batch=batch)
        spec.load_work_units(["f"], batch=batch)
        spec.add_work_units([{"name": "g", "batch": "import-17"}, {"name": "h", "batch": "import-18"}], batch="import-19")
        assert spec.work_unit("e").batch == "import-17"
        assert spec.work_unit("h").batch == "import-18"
        assert len(list(spec.work_units(label="batch:import-17"))) == 6
        state = batch.seal()
        assert (state.sealed, state.total, state.finished, state.failed) == (True, 7, 0, 0)
        for attempt in claim(ns, 10, work_specs=["other"]):
            attempt.finish()
        assert batch.get().progress == pytest.approx(1 / 7)
        for attempt in claim(ns, 10, work_specs=["spec"]):
            attempt.fail(traceback="no") if attempt.work_unit_name == "a" else attempt.finish()
        state = batch.get()
        assert (state.total, state.finished, state.failed, state.progress) == (7, 6, 1, 1.0)
        assert abs(state.done_time - time.time()) < 3600
        assert report.work_unit("r17").data == {"batch": "import-17", "total": 7, "finished": 6, "failed": 1}
        assert [each.name for each in ns.batches(page_size=1)] == ["import-17", "import-18"]

    def test_cancel_retry_and_delete(self, ns, spec):
        batch = ns.batch("b")
        batch.add_work_units(spec, ["a", "b", "c"])
        [attempt] = claim(ns)
        attempt.finish()
        assert batch.cancel() == 2
        assert (batch.get().finished, batch.get().failed) == (1, 2)
        assert spec.work_unit("b").reason == "cancelled"
        assert batch.retry() == 2
        assert spec.counts()["available"] == 2
        assert batch.delete() is True
        assert batch.delete() is False
        assert batch.get() is None
        assert spec.counts()["available"] == 2

    def test_a_batch_in_a_batch_and_what_is_refused(self, ns, spec):
        ns.batch("outer").set(then="spec")
        inner = ns.batch("inner").set(parent="outer", sealed=True)
        assert (inner.parent, inner.progress) == ("outer", 1.0)
        outer = ns.batch("outer").seal()
        assert (outer.total, outer.finished) == (1, 1)
        assert spec.work_unit("outer").data["finished"] == 1
        assert ns.batch("other").set(then="spec").then is not None
        assert ns.batch("other").set(then=None).then is None
        with pytest.raises(coordinate.BadArgument, match="own parent"):
            ns.batch("x").set(parent="x")
        with pytest.raises(coordinate.BadArgument, match="on"):
            ns.batch("x").set(then={"work_spec": "spec", "on": "sometimes"})
        assert ns.batch("x").get() is None


class TestLimits:
    def test_limits_that_work_specs_share(self, ns):
        for name in ("a", "b"):
            ns.set_work_spec({"name": name, "limits": ["api"]}).add_work_units(["u", "v"])
        ns.set_limits({"api": {"max_running": 1, "rate": {"limit": 5, "period": 60, "burst": 2}}, "other": {}})
        [attempt] = claim(ns)
        [api, other] = ns.limits()
        assert (api.name, api.max_running, api.running, api.work_specs) == ("api", 1, 1, ["a", "b"])
        assert api.rate == {"limit": 5, "period": 60, "burst": 2}
        assert (other.max_running, other.rate, other.next_time, other.work_specs) == (0, {}, 0, [])
        assert claim(ns) == []
        ns.set_limits({"api": None, "other": None})
        assert ns.limits() == []
        assert len(claim(ns)) > 0
        with pytest.raises(coordinate.CoordinateError):
            ns.set_limits({"api": {"max_runnning": 1}})


class TestAdding:
    def test_a_name_that_exists(self, ns, spec):
        spec.add_work_unit("a", {"n": 1}, priority=5)
        added = spec.add_work_units([("a", {"n": 2}), ("b", {})], on_conflict="ignore")
        assert (added.count, added.created, added.ignored) == (2, 1, 1)
        assert spec.work_unit("a").data == {"n": 1}
        with pytest.raises(coordinate.errors.NameExists):
            spec.add_work_units(["c", "a"], on_conflict="refuse")
        assert spec.get_work_units(["c"]) == [None]
        unit = spec.add_work_unit("a", {"n": 3}, on_conflict="data")
        assert (unit.data, unit.priority) == ({"n": 3}, 5)
        [attempt] = claim(ns)
        assert attempt.work_unit_name == "a"
        assert spec.add_work_unit("a", {"n": 4}).status == "pending"
        assert spec.add_work_unit("a", {"n": 5}, on_conflict="replace").status == "available"
        with pytest.raises(coordinate.LostLease):
            attempt.finish()
        spec.add_work_units([{"name": "a", "data": {"n": 6}, "on_conflict": "ignore"}], on_conflict="replace")
        assert spec.load_work_units([("a", {"n": 7}), "z"], on_conflict="ignore").created == 1
        assert spec.work_unit("a").data == {"n": 5}
        with pytest.raises(coordinate.BadArgument):
            spec.add_work_unit("a", on_conflict="whatever")

    def test_debounce_and_throttle(self, spec):
        spec.add_work_unit("d", {"n": 1}, debounce=1000)
        unit = spec.add_work_unit("d", {"n": 2}, debounce=2000)
        assert (unit.status, unit.data) == ("delayed", {"n": 2})
        assert unit.not_before > time.time() + 1500
        spec.add_work_unit("t", {"n": 1}, throttle=1000)
        assert spec.add_work_units([{"name": "t", "data": {"n": 2}, "throttle": 1000}]).ignored == 1
        assert spec.work_unit("t").data == {"n": 1}

    def test_retries_of_its_own(self, ns, spec):
        """The work spec has no policy; the units have."""
        policy = {"attempts": 2, "backoff": {"kind": "fixed", "delay": 1000, "max": 2000, "jitter": 0}}
        unit = spec.add_work_unit("a", retry=policy)
        assert (unit.retry_policy, unit.max_retries) == (policy, None)
        [attempt] = claim(ns)
        answer = attempt.error("first")
        assert answer.retry == {"delayMs": 1_000_000, "left": 1}
        unit.refresh()
        assert (unit.status, unit.reason) == ("delayed", None)
        unit.set_delay(0)
        [attempt] = claim(ns)
        attempt.error("second")
        unit.refresh()
        assert (unit.status, unit.reason, unit.data["last_error"]) == ("failed", "exhausted", "second")
        once = spec.add_work_unit("b", max_retries=1)
        assert (once.max_retries, once.retry_policy) == (1, None)
        [attempt] = claim(ns)
        attempt.error("only")
        once.refresh()
        assert (once.status, once.reason) == ("failed", "exhausted")
        with pytest.raises(coordinate.BadArgument, match="backoff"):
            spec.add_work_unit("c", retry={"backoff": {"kind": "sometimes"}})

    def test_no_room(self, ns):
        spec = ns.set_work_spec({"name": "small", "max_waiting": 2})
        assert spec.meta().max_waiting == 2
        spec.add_work_units(["a", "b"])
        with pytest.raises(coordinate.errors.QueueFull):
            spec.add_work_units(["c"])
        timer = threading.Timer(0.2, lambda: claim(ns)[0].finish())
        timer.start()
        assert spec.add_work_unit("c", wait=60).status == "available"
        timer.join()
        assert spec.set_meta(max_waiting=0).max_waiting == 0
        assert spec.add_work_units(["d", "e"], wait=1).created == 2


class TestEnds:
    def test_results(self, ns, spec):
        unit = spec.add_work_unit("a", {"n": 1})
        with pytest.raises(TimeoutError, match="spec/a has not ended"):
            unit.result(0.05)
        timer = threading.Timer(0.2, lambda: claim(ns)[0].finish({"size": 7}))
        timer.start()
        assert unit.result() == {"size": 7}
        assert [unit.data for unit in spec.work_units(as_added=True)] == [{"n": 1}]
        timer.join()
        bad = spec.add_work_unit("b")
        [attempt] = claim(ns)
        attempt.fail(traceback="Traceback\nValueError: no")
        with pytest.raises(coordinate.WorkUnitFailed, match="work unit b of spec failed: ValueError: no") as raised:
            bad.result(60)
        assert (raised.value.work_unit_name, raised.value.traceback) == ("b", "Traceback\nValueError: no")

    def test_waiting_for_any(self, ns, spec):
        spec.add_work_units(["a", "b"])
        [attempt] = claim(ns)
        attempt.finish()
        [a, b] = spec.wait(["a", "b"], 60, any=True)
        assert (a.status, b.status) == ("finished", "available")

    def test_one_is_cancelled_and_retried(self, ns, spec):
        unit = spec.add_work_unit("a")
        [attempt] = claim(ns)
        unit.cancel(by="ann", why="wrong file")
        assert (unit.status, unit.reason) == ("failed", "cancelled")
        assert "ann" in unit.traceback and "wrong file" in unit.traceback
        with pytest.raises((coordinate.LostLease, coordinate.NotPending)):
            attempt.finish()
        unit.retry()
        assert (unit.status, unit.reason) == ("available", None)
        spec.add_work_units(["b", "c"])
        assert spec.cancel(by="ann", names=["b"]) == 1
        assert "ann" in spec.work_unit("b").traceback
        assert spec.cancel(all=True) == 2

    def test_progress(self, ns, spec):
        unit = spec.add_work_unit("a")
        assert unit.progress is None
        [attempt] = claim(ns, lifetime=60)
        assert attempt.reported is None
        attempt.progress(0.4, "page 4 of 10")
        assert (attempt.reported.done, attempt.reported.note, attempt.status) == (0.4, "page 4 of 10", "pending")
        assert attempt.expiration_time < time.time() + 600
        unit.refresh()
        assert (unit.progress.done, unit.progress.note) == (0.4, "page 4 of 10")
        with pytest.raises(coordinate.BadArgument, match="from 0 to 1"):
            attempt.progress(40)
        attempt.finish()
        unit.refresh()
        assert unit.progress is None and attempt.reported is None

    def test_failures_in_groups(self, ns, spec):
        other = ns.set_work_spec({"name": "other"})
        spec.add_work_units(["u%d" % i for i in range(5)])
        other.add_work_unit("x")
        for attempt in claim(ns, 10, work_specs=["spec"]):
            number = int(attempt.work_unit_name[1:])
            attempt.fail(traceback="ValueError: bad row %d" % number if number < 3 else "OSError: disk full")
        for attempt in claim(ns):
            attempt.fail(traceback="KeyError: 'x'")
        assert len(ns.failures()) == 3
        groups = {group.count: group for group in spec.failures()}
        assert set(groups) == {2, 3} and "ValueError" in groups[3].error and "OSError" in groups[2].error
        assert (groups[3].work_spec, groups[3].tries) == ("spec", 1)
        assert groups[3].example in ("u0", "u1", "u2")
        assert abs(groups[3].last_time - time.time()) < 3600 and groups[3].first_time <= groups[3].last_time
        fingerprint = groups[3].fingerprint
        assert [unit.name for unit in spec.work_units(error=fingerprint)] == ["u0", "u1", "u2"]
        assert spec.count_work_units(error=fingerprint)["failed"] == 3
        assert spec.retry(error=fingerprint) == 3
        assert [group.count for group in ns.failures("spec")] == [2]
        assert len(list(spec.work_units(ended_since=time.time() - 3600))) == 2
        assert list(spec.work_units(ended_since=time.time() + 3600)) == []


def test_schedules(ns):
    soon, future = time.time() + 2, time.time() + 7 * 86400
    spec = ns.set_work_spec({"name": "daily", "schedule": {"at": [soon, future], "start": soon - 10, "catch_up": "one"}})
    meta = spec.meta()
    assert meta.schedule["at"] == [pytest.approx(soon, abs=0.01), pytest.approx(future, abs=0.01)]
    assert meta.schedule["start"] == pytest.approx(soon - 10, abs=0.01)
    [attempt] = until("the run that is due", lambda: claim(ns, work_specs=["daily"]))
    attempt.finish()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", attempt.work_unit_name)
    meta = spec.meta()
    assert meta.last_run == pytest.approx(soon, abs=0.01)
    assert meta.next_run == pytest.approx(future, abs=0.01)
    nightly = ns.set_work_spec({"name": "nightly", "schedule": {"cron": "0 3 * * *", "jitter": 60, "overlap": "skip"}})
    assert nightly.meta().schedule == {"cron": "0 3 * * *", "jitter": 60, "overlap": "skip"}
    assert nightly.meta().next_run > time.time()
    with pytest.raises(coordinate.BadWorkSpec, match="cron"):
        ns.set_work_spec({"name": "x", "schedule": {"cron": "never"}})


def test_policies_are_told_in_the_words_of_work_specs(ns):
    said = {
        "retry": {"attempts": 3, "backoff": {"kind": "linear", "delay": 0.5, "max": 60, "jitter": 0.25}},
        "retention": {"finished": {"max_age": 3600, "max_count": 10}},
    }
    later = time.time() + 100
    spec = ns.set_work_spec({"name": "spec", "task": "resize", "not_before": later, **said})
    meta = spec.meta()
    assert {"retry": meta.retry, "retention": meta.retention} == said
    assert (meta.task_name, meta.runs_module, meta.schedule) == ("resize", False, {})
    assert meta.not_before == pytest.approx(later, abs=0.01)
    spec.add_work_unit("a")
    assert claim(ns) == []
    assert spec.set_meta(not_before=0).not_before == 0
    assert claim(ns, tasks=["other"]) == []
    assert [row.excluded is None for row in ns.explain(tasks=["other"])] == [False]
    assert [row.excluded is None for row in ns.explain(tasks=["resize"])] == [True]
    [attempt] = claim(ns, tasks=["resize"])
    attempt.finish()
    ns.set_work_spec({"name": "old", "module": "m", "run_function": "f"}).add_work_unit("a")
    assert claim(ns, tasks=["old"]) == []
    assert [row.work_spec for row in ns.explain(modules=True) if row.excluded is None] == ["old"]
    assert [each.work_spec_name for each in claim(ns, modules=True)] == ["old"]


def test_a_breaker(ns):
    said = {"failures": 0.5, "min": 2, "window": 600, "pause": 0.5, "probes": 1, "by": "error", "action": "pause"}
    spec = ns.set_work_spec({"name": "spec", "breaker": said})
    assert spec.meta().breaker == said
    assert spec.meta().breaker_state == {}
    spec.add_work_units(["a", "b", "c", "d"])
    for attempt in claim(ns, 2):
        attempt.fail({"traceback": "no route to host"})
    state = spec.meta().breaker_state
    assert (state["failed"], state["ended"], state["error"]) == (2, 2, "no route to host")
    assert state["until"] == pytest.approx(state["since"] + 0.5)
    assert spec.set_meta(paused=False).breaker_state.keys() == {"from"}
    [attempt] = claim(ns)
    attempt.finish()


def test_labels_of_workers(ns):
    spec = ns.set_work_spec({"name": "spec", "requires": ["gpu", "version>=2.3"]})
    assert spec.meta().requires == ["gpu", "version>=2.3"]
    spec.add_work_unit("a")
    assert claim(ns) == []
    assert claim(ns, labels=["gpu", "version=2.2.9"]) == []
    [row] = ns.explain(labels=["gpu", "version=2.2.9"])
    assert (row.excluded, row.reason) == ("needs_labels", "requires version>=2.3; the worker has version=2.2.9")
    [attempt] = claim(ns, labels=["gpu", "version=2.10"])
    attempt.finish()


def test_history(ns, spec):
    spec.add_work_units(["a", "b"])
    for attempt in claim(ns, 2):
        attempt.fail(traceback="no") if attempt.work_unit_name == "a" else attempt.finish()
    spec.pause()

    def recorded():
        found = ns.history(last=3600, each=True)
        return found if any(point.failed for point in found.series[0].points) else None

    history = until("the records are written", recorded)
    assert (history.step > 0, history.start < time.time() < history.end + 60) == (True, True)
    assert [series.work_spec for series in history.series] == [None, "spec"]
    whole = history.series[0].points
    assert [sum(getattr(point, name) for point in whole) for name in ("added", "started", "finished", "failed")] == [2, 2, 1, 1]
    spread = next(point.duration for point in whole if point.duration is not None)
    assert spread.count == 2 and 0 <= spread.p50 <= spread.p99 < 3600
    changes = [change for point in whole for change in point.changes]
    assert {change.work_spec for change in changes} == {"spec"} and abs(changes[0].time - time.time()) < 3600
    [one] = ns.history(work_specs=["spec"], start=time.time() - 600, end=time.time() + 60, points=10).series
    assert one.work_spec == "spec" and len(one.points) <= 11
