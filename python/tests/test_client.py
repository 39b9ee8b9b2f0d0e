"""Every verb through the handles, against a real daemon."""

import json
import math
import threading
import time
import urllib.request
import uuid

import pytest

import coordinate
from coordinate import Change
from coordinate.errors import codes
from coordinate.protocol import VERBS, kebab
from conftest import until


def openapi(daemon):
    with urllib.request.urlopen(daemon.url + "/openapi.json") as answer:
        return json.load(answer)


def test_the_table_of_verbs_is_that_of_the_server(daemon):
    paths = openapi(daemon)["paths"]
    start = "/v1/namespace/{namespace}/"
    served = {path[len(start) :] for path in paths if path.startswith(start) and "/" not in path[len(start) :]}
    served.discard("events")
    assert served - {kebab(verb) for verb in VERBS} == set(), "to be added to coordinate/protocol.py and to a handle"
    assert {kebab(verb) for verb in VERBS} - {"list-namespaces"} <= served


def test_there_is_a_class_for_every_code(daemon):
    found = set()

    def look(value):
        if isinstance(value, dict):
            if isinstance(value.get("enum"), list) and "lost_lease" in value["enum"]:
                found.update(value["enum"])
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    look(openapi(daemon))
    assert "bad_argument" in found
    assert found <= set(codes())


def test_the_example(ns):
    ns.set_work_spec({"name": "resize"})
    resize = ns.work_spec("resize")
    resize.add_work_units([("a.jpg", {"width": 100})])
    [attempt] = ns.worker("w1").request_attempts(number=1)
    assert attempt.data == {"width": 100}
    attempt.finish({"done": True})
    unit = resize.work_unit("a.jpg")
    assert (unit.status, unit.data, unit.attempt_count) == ("finished", {"done": True}, 1)


class TestWorkSpecs:
    def test_set_read_and_delete(self, ns):
        spec = ns.set_work_spec({"name": "a", "weight": 3, "interval": 0.5})
        assert spec.id is not None
        assert spec.data() == {"name": "a", "weight": 3, "interval": 0.5}
        assert spec.meta().weight == 3
        assert spec.meta().interval == 0.5
        assert spec.set_meta(weight=7, max_running=2).max_running == 2
        spec.pause()
        assert spec.meta().paused
        spec.resume()
        assert not spec.meta().paused
        spec.set_data({"name": "a", "desc": "x"}, keep_meta=True)
        assert spec.meta().weight == 7
        with pytest.raises(coordinate.errors.ChangedName):
            spec.set_data({"name": "b"})
        ns.set_work_specs([{"name": "c"}, {"name": "b"}])
        assert [each.name for each in ns.work_specs(page_size=2)] == ["a", "b", "c"]
        spec.delete()
        with pytest.raises(coordinate.Gone):
            spec.data()
        with pytest.raises(coordinate.NoSuchWorkSpec) as caught:
            ns.get_work_spec("a")
        assert (caught.value.code, caught.value.status, caught.value.value) == ("no_such_work_spec", 404, "a")
        with pytest.raises(coordinate.NoSuchWorkSpec):
            ns.work_spec("a").delete()

    def test_bad_ones_name_what_is_wrong(self, ns):
        with pytest.raises(coordinate.errors.NoWorkSpecName):
            ns.set_work_spec({})
        with pytest.raises(coordinate.BadWorkSpec, match="weight"):
            ns.set_work_spec({"name": "a", "weight": "heavy"})
        with pytest.raises(coordinate.BadData, match="object"):
            ns.set_work_spec({"name": "a", "value": object()})


class TestWorkUnits:
    @pytest.fixture
    def spec(self, ns):
        return ns.set_work_spec({"name": "spec"})

    def test_all_the_ways_to_say_units(self, spec):
        assert spec.add_work_units(["a", ("b",), ("c", {"n": 1})]).created == 3
        assert spec.add_work_units({"c": {"n": 2}, "d": None}).created == 1
        spec.add_work_units([{"name": "e", "data": {"n": 3}, "priority": 5, "labels": ["l"], "queues": ["q"]}])
        assert [unit.name for unit in spec.work_units(page_size=2)] == ["a", "b", "c", "d", "e"]
        unit = spec.work_unit("e")
        assert (unit.priority, unit.labels, unit.queues, unit.data) == (5, ["l"], ["q"], {"n": 3})
        assert spec.work_unit("c").data == {"n": 2}
        for wrong in (b"x", 3, (), ("a", {}, 1)):
            with pytest.raises(coordinate.BadArgument, match="expected a work unit as"):
                spec.add_work_units([wrong])
        with pytest.raises(coordinate.BadArgument, match="did you mean 'priority'"):
            spec.add_work_units([{"name": "a", "prioriy": 1}])
        with pytest.raises(coordinate.BadArgument, match="list of names"):
            spec.get_work_units("abc")
        with pytest.raises(coordinate.NoSuchWorkUnit):
            spec.work_unit("none")

    def test_one_unit_with_everything(self, spec):
        spec.add_work_unit("first")
        soon = time.time() + 100
        unit = spec.add_work_unit("late", {"x": 1}, not_before=soon)
        assert unit.status == "delayed" and abs(unit.not_before - soon) < 0.01
        assert spec.add_work_unit("later", delay=50).status == "delayed"
        waiting = spec.add_work_unit("waits", dependencies=[{"work_unit": "first", "kind": "soft"}])
        assert waiting.status == "blocked"
        assert waiting.dependencies[0].work_unit == "first" and waiting.dependencies[0].kind == "soft"
        with pytest.raises(coordinate.errors.BadDependency):
            spec.add_work_unit("never", dependencies=[{"work_unit": "nobody"}])

    def test_thousands(self, spec):
        assert spec.add_work_units(("u%05d" % i, {"i": i}) for i in range(2500)).count == 2500
        assert sum(1 for _ in spec.work_units()) == 2500
        assert spec.counts()["available"] == 2500
        assert spec.count_work_units(prefix="u000")["available"] == 100

    def test_load_and_export(self, spec):
        added = spec.load_work_units(("l%05d" % i, {"i": i, "raw": b"\xff"}) for i in range(3000))
        assert (added.count, added.created) == (3000, 3000)
        again = spec.load_work_units([("l00000", {"i": 7})], request_id="once")
        assert (again.count, again.created) == (1, 0)
        found = list(spec.export_work_units(prefix="l0001"))
        assert [unit.name for unit in found] == ["l%05d" % i for i in range(10, 20)]
        assert found[0].data == {"i": 10, "raw": b"\xff"}
        assert len(list(spec.export_work_units(statuses=["available"]))) == 3000
        assert list(spec.export_work_units(statuses=["failed"])) == []
        assert [unit.name for unit in spec.export_work_units(previous="l02997")] == ["l02998", "l02999"]
        first = next(iter(spec.export_work_units()))  # a loop that is left early gives its connection back
        assert first.name == "l00000"

    def test_more_data_than_a_request_may_have(self, ns, spec):
        text = "x" * 2_000_000
        added = spec.add_work_units(("u%02d" % i, {"text": text}) for i in range(20))
        assert (added.count, added.created) == (20, 20)
        attempts = ns.worker("w").request_attempts(20)
        assert len(attempts) == 20
        changes = [coordinate.Change(attempt.id, "finish", {"text": text + "y"}) for attempt in attempts]
        assert [each.status for each in ns.settle_attempts(changes)] == ["finished"] * 20

    def test_a_load_that_is_refused_in_its_midst(self, ns, spec):
        units = [("ok%d" % i, {}) for i in range(10)] + [("x" * 5000, {})]
        with pytest.raises(coordinate.TooLarge, match="line"):
            spec.load_work_units(units + [("later%d" % i, {"pad": "x" * 1000}) for i in range(20000)])
        with pytest.raises(coordinate.NoSuchWorkSpec):
            ns.work_spec("none").load_work_units(["a"])
        with pytest.raises(coordinate.NoSuchWorkSpec):
            list(ns.work_spec("none").export_work_units())

    def test_many_at_once(self, ns, spec):
        spec.add_work_units(["a", "b", "c", "d"])
        assert spec.set_priorities(5, names=["a", "b"]) == 2
        assert spec.adjust_priorities(-1, names=["a"]) == 1
        assert spec.work_unit("a").priority == 4
        assert spec.set_delays(time.time() + 60, prefix="c") == 1
        assert spec.work_unit("c").status == "delayed"
        assert spec.set_delays(0, all=True) >= 1
        for attempt in ns.worker("w").request_attempts(number=4):
            attempt.fail(traceback="no")
        assert spec.work_unit("a").traceback == "no"
        assert spec.retry(names=["a"]) == 1
        assert spec.retry() == 3
        with pytest.raises(coordinate.errors.EmptyQuery):
            spec.delete_work_units()
        assert spec.delete_work_units(statuses=["available"], names=["a", "b"]) == 2
        assert spec.delete_work_units(all=True) == 2

    def test_one_at_a_time(self, ns, spec):
        unit = spec.add_work_unit("a", {"n": 1})
        unit.set_priority(3)
        unit.adjust_priority(2)
        assert unit.priority == 5
        unit.set_delay(time.time() + 60)
        assert unit.status == "delayed"
        unit.set_delay(0)
        [attempt] = ns.worker("w").request_attempts()
        attempt.renew(60, {"n": 2})
        unit.refresh()
        assert (unit.status, unit.data, unit.active_attempt.worker_name) == ("pending", {"n": 2}, "w")
        unit.clear_active_attempt()
        assert (unit.status, unit.data) == ("available", {"n": 1})
        assert len(unit.attempts()) == 1
        unit.delete()
        with pytest.raises(coordinate.Gone):
            unit.refresh()
        spec.add_work_unit("a")
        with pytest.raises(coordinate.Gone):
            unit.set_priority(1)

    def test_waiting_for_an_end(self, ns, spec):
        unit = spec.add_work_unit("a")
        assert unit.wait(0.05) == "available"
        timer = threading.Timer(0.2, lambda: ns.worker("w").request_attempts()[0].finish())
        timer.start()
        assert unit.wait(120) == "finished"
        timer.join()
        [found, none] = spec.wait(["a", "none"], 20)
        assert found.status == "finished" and none is None

    def test_lineage(self, ns, spec):
        ns.set_work_spec({"name": "first", "then": "spec"})
        ns.work_spec("first").add_work_unit("u")
        [attempt] = ns.worker("w").request_attempts()
        settled = attempt.finish({"output": [["made", {"k": 1}], 7]})
        assert settled.outputs == 1 and len(settled.chaining_errors) == 1
        assert attempt.chaining_errors == settled.chaining_errors
        [(by, of)] = spec.work_unit("made").lineage()
        assert (by.id, of.name) == (attempt.id, "u")


class TestAttempts:
    @pytest.fixture
    def attempt(self, ns):
        ns.set_work_spec({"name": "spec"}).add_work_unit("u", {"n": 1})
        [attempt] = ns.worker("w").request_attempts(lifetime=60)
        return attempt

    def test_what_it_tells(self, attempt):
        assert (attempt.work_spec_name, attempt.work_unit_name, attempt.worker_name) == ("spec", "u", "w")
        assert (attempt.number, attempt.status, attempt.active, attempt.late) == (1, "pending", True, False)
        assert abs(attempt.start_time - time.time()) < 30
        assert abs(attempt.expiration_time - attempt.start_time - 60) < 0.1

    def test_retry_expire_release_renew(self, ns, attempt):
        attempt.retry(delay=100)
        assert attempt.status == "retryable"
        unit = attempt.work_unit()
        assert unit.status == "delayed"
        unit.set_delay(0)
        [second] = ns.worker("w").request_attempts()
        second.expire()
        assert second.status == "expired"
        [third] = ns.worker("w").request_attempts()
        third.release()
        assert unit.attempts()[2].status == "expired"
        [fourth] = ns.worker("w").request_attempts()
        assert fourth.renew(1000).expiration_time > time.time() + 900
        fourth.fail({"n": 4}, traceback="why")
        assert fourth.data == {"n": 4, "traceback": "why"}
        fourth.finish()  # finish wins over fail
        with pytest.raises(coordinate.NotPending):
            fourth.fail()

    def test_a_lease_that_was_lost(self, ns, attempt):
        other = ns.worker("v").make_attempt(attempt.work_unit())
        with pytest.raises(coordinate.LostLease):
            attempt.finish({})
        with pytest.raises(coordinate.LostLease):
            attempt.renew(10, {"late": True})
        attempt.refresh()
        assert attempt.data == {"late": True}
        assert ns.attempt(other.id).status == "pending"
        ns.work_spec("spec").delete()
        with pytest.raises(coordinate.Gone):
            other.refresh()
        with pytest.raises(coordinate.Gone):
            other.work_unit()
        with pytest.raises(coordinate.NoSuchAttempt):
            ns.attempt("999999.1")

    def test_many_in_one_request(self, ns, attempt):
        answers = ns.settle_attempts([Change(attempt.id, "finish", {"x": (1,)}), Change("999999.1", "fail")])
        assert [(one.error, one.status) for one in answers] == [(None, "finished"), ("no_such_attempt", None)]

    def test_waiting_for_work(self, ns):
        spec = ns.set_work_spec({"name": "spec"})
        threading.Timer(0.3, lambda: spec.add_work_unit("u")).start()
        start = time.monotonic()
        [attempt] = ns.worker("w").request_attempts(wait=120)
        assert 0.2 < time.monotonic() - start < 10
        attempt.finish()
        assert ns.worker("w").request_attempts(wait=0.1) == []

    def test_a_wait_that_another_thread_ends(self, ns):
        cancel = coordinate.Cancel()
        threading.Timer(0.3, cancel.cancel).start()
        start = time.monotonic()
        with pytest.raises(coordinate.transport.TransportError):
            ns.worker("w").request_attempts(wait=30, cancel=cancel)
        assert time.monotonic() - start < 10

    def test_a_repeated_request_gets_the_same(self, ns):
        ns.set_work_spec({"name": "spec"}).add_work_units(["a", "b"])
        [first] = ns.worker("w").request_attempts(number=1, request_id="r")
        [again] = ns.worker("w").request_attempts(number=1, request_id="r")
        assert again.id == first.id


def test_workers(client, ns):
    worker = ns.worker("w")
    with pytest.raises(coordinate.NoSuchWorker):
        worker.state()
    assert worker.desired() == "run"
    state = worker.check_in(mode="busy", data={"pid": 7, "t": (1, 2)})
    assert (state.active, state.mode, state.data) == (True, "busy", {"pid": 7, "t": (1, 2)})
    worker.update(parent="boss", desired="idle")
    assert (worker.state().parent, worker.desired()) == ("boss", "idle")
    assert [child.name for child in ns.worker("boss").children()] == ["w"]
    worker.update(parent=None, desired=None)
    assert (worker.state().parent, worker.state().data["pid"], worker.desired()) == (None, 7, "run")
    with pytest.raises(coordinate.errors.WorkerCycle):
        worker.update(parent="w")
    ns.update_workers([{"name": "x", "active": True}, {"name": "y", "active": True, "parent": "x"}])
    assert {each.name for each in ns.workers(active=True, root=True)} >= {"w", "x"}
    assert [each.name for each in ns.workers(prefix="y")] == ["y"]
    assert worker.deactivate().active is False
    ns.set_work_spec({"name": "spec"}).add_work_units(["a", "b"])
    held = ns.worker("y").request_attempts(number=2)
    assert {one.id for one in ns.worker("y").attempts(page_size=1)} == {one.id for one in held}
    assert {one.id for one in ns.worker("x").attempts("children")} == {one.id for one in held}
    held[0].finish()
    assert len(list(ns.worker("y").attempts("all"))) == 2


def test_queues(ns):
    spec = ns.set_work_spec({"name": "spec"})
    spec.add_work_units([{"name": "u%d" % i, "queues": ["q"]} for i in range(3)])
    for attempt in ns.worker("w").request_attempts(number=3):
        attempt.finish({"id": uuid.UUID(int=5)})
    queue = ns.queue("q")
    assert queue.count() == 3
    assert [(row.name, row.messages) for row in ns.queues()] == [("q", 3)]
    [message] = queue.take(max=1)
    assert (message.work_spec, message.work_unit, message.status) == ("spec", "u0", "finished")
    assert message.data == {"id": uuid.UUID(int=5)} and abs(message.at - time.time()) < 60
    assert next(iter(queue.messages(batch=1))).work_unit == "u1"
    assert queue.clear() == 1
    assert queue.take(wait=0.1) == []


def test_actions(ns):
    assert ns.put_actions({"a": {"x": 1}, "b": {"y": b"\0"}}) == [True, True]
    assert ns.put_actions({"a": {"x": 1}}) == [False]
    assert ns.get_actions(["b", "none"]) == [{"y": b"\0"}, None]
    assert [(row.key, row.data) for row in ns.actions(page_size=1)] == [("a", {"x": 1}), ("b", {"y": b"\0"})]
    assert ns.delete_actions(["a", "none"]) == [True, False]


def test_locks(ns):
    assert ns.lock("me", [["a", "b"]], timeout=60) is None
    refused = ns.lock("you", [["a"]])
    assert refused is not None and refused.path == ("a",)
    assert ns.lock_some("you", [["a"], ["c"]]) == [False, True]
    assert ns.read_locks([["a", "b"], ["c"], ["d"]]) == ["me", "you", None]
    assert [(lock.path, lock.owner) for lock in ns.locks(page_size=1)] == [(("a", "b"), "me"), (("c",), "you")]
    assert [lock.owner for lock in ns.locks(["c"])] == ["you"]
    assert ns.renew_locks("me", [["a", "b"]], timeout=5) is None
    assert ns.unlock("you", [["a", "b"]]).owner == "me"
    assert ns.unlock("me", [["a", "b"]]) is None
    ns.clear_locks(["c"])
    assert ns.read_locks([["c"]]) == [None]


def test_looking_in(client, ns):
    spec = ns.set_work_spec({"name": "spec", "min_gb": 64})
    spec.add_work_unit("u")
    [row] = ns.tally()
    assert (row.namespace, row.work_spec, row.counts["available"]) == (ns.name, "spec", 1)
    assert row in client.tally()
    [waiting] = ns.waiting_since()
    assert waiting.work_spec == "spec" and waiting.since > 0
    assert waiting in client.waiting_since()
    [explained] = ns.explain(available_gb=1)
    assert explained.excluded is not None and explained.available == 1
    assert ns.settings().desired == "run"
    assert ns.configure(desired="idle", policy="python").policy == "python"
    assert ns.configure(share="time").share == "time"
    [explained] = ns.explain()
    assert (explained.share, explained.target_share, explained.measured_share) == ("time", 1, None)
    assert ns.settings().desired == "idle"
    assert ns.name in client.namespaces()
    [raw] = client.call("getWorkUnits", ns.name, {"workSpec": "spec", "names": ["u"]})
    assert raw["status"] == "available"
    with pytest.raises(coordinate.BadArgument, match="no such verb"):
        client.call("nonsense", None, {})
    with pytest.raises(coordinate.BadArgument):
        client.call("tally", ns.name, {"unknown": 1})
    ns.delete()
    assert ns.name not in client.namespaces()


def test_events(ns):
    ns.set_work_spec({"name": "spec"})
    cancel = coordinate.Cancel()
    seen = []

    def watch():
        for event in ns.events(cancel=cancel):
            seen.append(event)

    thread = threading.Thread(target=watch)
    thread.start()

    def more():
        ns.work_spec("spec").add_work_unit("u")
        return any(event.type != "reset" for event in seen)

    until("an event", more)
    cancel.cancel()
    thread.join(120)
    assert not thread.is_alive()
    assert "addWorkUnits" in json.dumps([[event.type, event.data] for event in seen])


# ---- types


EVERYTHING = {
    "text": "ünïcödé \U0001f600",
    "bytes": b"\x00\xff",
    "tuple": (1, (2, "x"), []),
    "uuid": uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
    "big": 2**200,
    "negative": -(2**70),
    "int": 1,
    "float": 1.0,
    "infinite": -math.inf,
    "null": None,
    "nested": {"list": [True, False, {"k": [1.5]}]},
    "__proto__": {"constructor": 1},
}


def same(a, b):
    """Equal, and of the same types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("key", list(EVERYTHING))
def test_types_round_trip(ns, key):
    data = {key: EVERYTHING[key], "z": 1.0, "a": 10**18}
    spec = ns.set_work_spec({"name": "spec"})
    spec.add_work_units([("u", data)])
    assert same(spec.work_unit("u").data, data)
    [attempt] = ns.worker("w").request_attempts()
    assert same(attempt.data, data)
    attempt.finish(data)
    assert same(next(iter(spec.export_work_units())).data, data)


def test_keys_that_are_not_text_and_deep_data(ns):
    deep = []
    for _ in range(500):
        deep = [deep]
    spec = ns.set_work_spec({"name": "spec"})
    for data in ({"deep": deep}, {"deep": deep, "bytes": b""}, {1: "a", (2, 3): b"", "x": None}):
        spec.add_work_units([("u", data)])
        assert spec.work_unit("u").data == data
    loop = {}
    loop["self"] = loop
    with pytest.raises(coordinate.BadData, match="deep"):
        spec.add_work_units([("u", loop)])


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "-x", "ü ", "a\udcff", "\U0001f600\uffff", "x" * 4000, "%2f?#"])
def test_names_are_any_bytes(client, namespace_name, name):
    namespace = client.namespace(namespace_name + name[:200])
    spec_name = (name or "empty")[:300]
    spec = namespace.set_work_spec({"name": spec_name}) if "\udcff" not in name else None
    if spec is None:
        spec = namespace.set_work_spec({"name": "plain"})
    spec.add_work_units([(name, {"n": name.replace("\udcff", "")})])
    assert spec.work_unit(name).name == name
    assert [unit.name for unit in spec.export_work_units(prefix=name)] == [name]
    [attempt] = namespace.worker(name[:300]).request_attempts()
    assert attempt.work_unit_name == name and attempt.worker_name == name[:300]
    attempt.finish()
    assert namespace.name in client.namespaces()
    namespace.delete()


def test_a_lone_surrogate_that_stands_for_no_byte(client):
    with pytest.raises(coordinate.BadName):
        client.namespace("\ud800").tally()
