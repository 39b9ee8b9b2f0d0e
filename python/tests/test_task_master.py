"""The names of the Python 2 package, over both wires. Written from the descriptions of that package and of its protocol."""

import re
import subprocess
import sys
import time
import uuid

import pytest

import coordinate
from coordinate import LostLease, NoSuchWorkSpecError, ProgrammerError, TaskMaster
from coordinate.constants import AVAILABLE, FAILED, FINISHED, PENDING
from conftest import CLI, open_daemon
from test_client import EVERYTHING, same
from test_worker import ENVIRONMENT, HERE


@pytest.fixture(params=["rest", "cborrpc"])
def config(daemon, request, namespace_name):
    if request.param == "rest":
        return {"address": daemon.url, "namespace": namespace_name}
    return {"address": daemon.cborrpc}


@pytest.fixture
def master(config):
    task_master = TaskMaster(config)
    task_master.clear()  # the old wire has one namespace for all
    yield task_master
    task_master.clear()
    task_master.close()


SPEC = {"name": "count", "min_gb": 0.1, "module": "old_jobs", "run_function": "count"}


class TestSpecs:
    def test_set_get_list_delete(self, master):
        assert master.set_work_spec(SPEC) is True
        assert master.get_work_spec("none") is None
        found = master.get_work_spec("count")
        assert (found["name"], found["min_gb"]) == ("count", 0.1)
        master.set_work_spec({**SPEC, "name": "b"})
        master.set_work_spec({**SPEC, "name": "a"})
        pairs, following = master.list_work_specs()
        assert [name for name, _ in pairs] == ["a", "b", "count"] and following is None
        pairs, following = master.list_work_specs(limit=2)
        assert [name for name, _ in pairs] == ["a", "b"] and following == "count"
        assert [name for name, _ in master.list_work_specs(start=following)[0]] == ["count"]
        assert [spec["name"] for spec in master.iter_work_specs()] == ["a", "b", "count"]
        assert master.del_work_spec("a") is True
        assert master.del_work_spec("a") is False
        assert master.clear() == 2
        assert master.list_work_specs() == ([], None)

    def test_what_a_spec_must_have(self, master):
        with pytest.raises(ProgrammerError, match="name"):
            master.set_work_spec({"min_gb": 1})
        for gb in (None, "1", True):
            with pytest.raises(ProgrammerError, match="min_gb"):
                master.set_work_spec({"name": "x", "min_gb": gb})

    def test_pause(self, master):
        master.update_bundle(SPEC, {"a": {"word": "x"}})
        master.pause_work_spec("count")
        assert master.get_work("w") is None
        master.pause_work_spec("count", paused=False)
        assert master.get_work("w").key == "a"
        master.pause_work_spec("unknown")  # silent, as it was


class TestUnits:
    @pytest.fixture(autouse=True)
    def spec(self, master):
        master.set_work_spec({"name": "spec", "min_gb": 1})

    def test_add_count_status(self, master):
        assert master.add_work_units("spec", {"a": {"n": 1}, "b": {}}) is True
        assert master.add_work_units("spec", [("c", {"n": 3}), ("d", {}, {"priority": 5})]) is True
        assert master.add_work_units("none", {"a": {}}) is False
        assert master.count_work_units("spec") == {AVAILABLE: 4}
        status = {"num_available": 4, "num_pending": 0, "num_finished": 0, "num_failed": 0, "num_blocked": 0}
        assert master.status("spec") == {**status, "num_tasks": 4}
        assert master.count_work_units("none") is None
        with pytest.raises(NoSuchWorkSpecError):
            master.status("none")
        assert master.get_work("w").key == "d"  # by its priority
        assert master.count_work_units("spec") == {AVAILABLE: 3, PENDING: 1}
        row = master.get_work_unit_status("spec", "d")
        assert row["status"] == PENDING and row["worker_id"] == "w" and row["expiration"] > time.time()
        assert master.get_work_unit_status("spec", ["a", "none"]) == [{"status": AVAILABLE, "expiration": None}, None]
        assert master.get_work_unit_status("spec", "none") is None

    def test_get_and_list(self, master):
        master.add_work_units("spec", {"u%d" % i: {"i": i} for i in range(5)})
        unit = master.get_work("w")
        unit.finish()
        assert master.get_work_units("spec") == [("u%d" % i, {"i": i}) for i in range(5)]
        assert master.get_work_units("spec", state=FINISHED) == [("u0", {"i": 0})]
        assert [key for key, _ in master.get_work_units("spec", state=[AVAILABLE, FINISHED], limit=2)] == ["u0", "u1"]
        assert [key for key, _ in master.get_work_units("spec", start="u2")] == ["u3", "u4"]
        assert master.get_work_units("spec", work_unit_keys=["u3", "none"]) == [("u3", {"i": 3})]
        assert master.get_work_units("spec", state=77) == []
        assert master.get_work_units("none") == []
        assert list(master.list_work_units("spec", start=1, limit=2)) == ["u2", "u3"]
        assert master.list_finished_work_units("spec") == {"u0": {"i": 0}}

    def test_delete(self, master):
        master.add_work_units("spec", {"u%d" % i: {} for i in range(6)})
        master.get_work("w").finish()
        assert master.del_work_units("spec") == 0
        assert master.del_work_units("spec", work_unit_keys=[]) == 0
        assert master.del_work_units("spec", work_unit_keys=["u0", "u1"], state=AVAILABLE) == 1
        assert master.del_work_units("spec", state=FINISHED) == 1
        assert master.del_work_units("spec", work_unit_keys=["u2", "none"]) == 1
        assert master.del_work_units("spec", all=True) == 3
        assert master.del_work_units("none", all=True) == 0

    def test_priorities(self, master):
        master.add_work_units("spec", {"a": {}, "b": {}, "c": {}})
        assert master.prioritize_work_units("spec", ["b"]) is True
        assert master.prioritize_work_units("spec", ["c"], priority=3) is True
        assert master.prioritize_work_units("spec", ["b"], adjustment=-0.5) is True
        assert [master.get_work("w").key for _ in range(3)] == ["c", "b", "a"]

    def test_keys_are_any_bytes_and_data_any_type(self, master):
        data = {key: value for key, value in EVERYTHING.items() if key != "__proto__"}
        master.add_work_units("spec", [(b"\xffraw", data), ("ünï", {"x": b"\x00"})])
        assert [key for key, _ in master.get_work_units("spec")] == ["ünï", "\udcffraw"]
        unit = master.get_work("w", work_spec_names=["spec"])
        assert unit.key == "ünï" and unit.data == {"x": b"\x00"}
        unit = master.get_work("w")
        assert unit.key_bytes == b"\xffraw" and same(unit.data, data)
        unit.data["more"] = (1, uuid.UUID(int=1))
        unit.finish()
        [(_, stored)] = master.get_work_units("spec", work_unit_keys=["\udcffraw"])
        assert same(stored, unit.data)


class TestWork:
    @pytest.fixture(autouse=True)
    def spec(self, master):
        master.update_bundle({"name": "spec", "min_gb": 1}, {"a": {"n": 1}, "b": {"n": 2}}, nice=5)

    def test_shapes_of_get_work(self, master):
        unit = master.get_work("w", available_gb=64, lease_time=60)
        assert isinstance(unit, coordinate.WorkUnit)
        assert (unit.work_spec_name, unit.key, unit.data, unit.worker_id) == ("spec", "a", {"n": 1}, "w")
        assert unit.spec["name"] == "spec" and unit.default_lease_time == 900
        assert [each.key for each in master.get_work("w", max_jobs=10)] == ["b"]
        assert master.get_work("w", max_jobs=10) == []
        assert master.get_work("w") is None

    def test_update_finish_and_twice(self, master):
        unit = master.get_work("w", lease_time=20)
        before = master.get_work_unit_status("spec", "a")["expiration"]
        unit.data["half"] = True
        unit.update(500)
        assert master.get_work_unit_status("spec", "a")["expiration"] > before + 100
        assert master.get_work_units("spec", work_unit_keys=["a"]) == [("a", {"n": 1, "half": True})]
        unit.finish()
        unit.finish()
        assert master.get_work_unit_status("spec", "a")["status"] == FINISHED
        # another object for the same unit: a second finish changes nothing, and a fail after it neither
        assert master.update_work_unit("spec", "a", status=FINISHED) is False
        assert master.update_work_unit("spec", "a", status=FAILED) is False

    def test_fail_retry_and_give_back(self, master):
        unit = master.get_work("w")
        try:
            raise ValueError("on purpose")
        except ValueError as error:
            unit.fail(error)
        row = master.get_work_unit_status("spec", "a")
        assert row["status"] == FAILED and "ValueError: on purpose" in row["traceback"]
        assert master.retry("spec", "a") is True
        assert master.retry("spec", "none") is False
        unit = master.get_work("w")
        assert unit.key == "a"
        unit.update(-1)
        assert master.get_work_unit_status("spec", "a")["status"] == AVAILABLE
        with pytest.raises(LostLease):
            unit.update()

    def test_failed_then_finished_is_finished(self, master):
        unit = master.get_work("w")
        unit.fail()
        assert master.update_work_unit("spec", unit.key, status=FINISHED, data={"won": True}) is True
        assert master.get_work_units("spec", state=FINISHED) == [("a", {"won": True})]

    def test_a_lease_that_ended_is_lost(self, master, config):
        late = master.get_work("w", lease_time=1)
        time.sleep(1.2)
        other = TaskMaster(config)
        taken = other.get_work("v", lease_time=60)
        assert taken.key == late.key
        for step in (late.update, late.finish):
            with pytest.raises(LostLease):
                step()
        taken.finish()
        assert other.get_work_unit_status("spec", "a")["status"] == FINISHED
        other.close()

    def test_units_that_wait_may_be_ended_by_hand(self, master):
        assert master.update_work_unit("spec", "b", status=FINISHED, data={"by": "hand"}) is True
        assert master.get_work_units("spec", state=FINISHED) == [("b", {"by": "hand"})]
        assert master.update_work_unit("spec", "none", status=FINISHED) is False
        assert master.update_work_unit("none", "a", status=FINISHED) is False


class TestWorkers:
    def test_register_and_unregister(self, master):
        name, child = "parent-" + uuid.uuid4().hex, "child-" + uuid.uuid4().hex
        master.worker_register(name, environment={"pid": 7, "aliases": ("a",)})
        master.worker_heartbeat(child, mode=master.RUN, lifetime=60, environment={"pid": 8}, parent=name)
        assert master.workers()[name] == "RUN" and child in master.workers()
        assert master.get_heartbeat(name)["pid"] == 7
        assert master.get_heartbeat("nobody-" + name) == {}
        assert master.mode_counts()["RUN"] >= 2
        assert master.worker_stats()["num_workers"] >= 2
        assert master.get_mode() == "RUN"
        master.set_mode(master.IDLE)
        assert master.get_mode() == "RUN"
        master.update_bundle({"name": "spec", "min_gb": 1}, {"a": {"n": 1}})
        assert master.get_child_work_units(name) == {}
        master.get_work(child)
        [[unit]] = master.get_child_work_units(name).values()
        assert (unit.key, unit.worker_id, unit.data) == ("a", child, {"n": 1}) and unit.expires > time.time()
        unit.data["traceback"] = "job expired"
        unit.fail()
        row = master.get_work_unit_status("spec", "a")
        assert (row["status"], row["worker_id"], row["traceback"]) == (FAILED, child, "job expired")
        assert abs(row["expiration"] - time.time()) < 60
        assert master.get_child_work_units(name) == {}
        master.worker_unregister(name)
        assert name not in master.workers()


@pytest.mark.one_backend
def test_a_token_over_cborrpc():
    daemon = open_daemon("sqlite", "--cborrpc-tokens")
    try:
        command = CLI + ["token", "create", "--name", "a", "--scope", "admin", "--data-dir", daemon.directory]
        made = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        [token] = re.findall(r"cjt_\w+_[\w-]+", made)[:1]
        until = time.monotonic() + 60
        while True:
            try:
                TaskMaster({"address": daemon.cborrpc}).list_work_specs()
            except coordinate.cborrpc.RpcError as error:
                assert "required by this server" in str(error)
                break
            assert time.monotonic() < until
        with pytest.raises(coordinate.cborrpc.RpcError):
            TaskMaster({"address": daemon.cborrpc, "token": "wrong"}).list_work_specs()
        assert TaskMaster({"address": daemon.cborrpc, "token": token}).list_work_specs() == ([], None)
    finally:
        daemon.stop()


@pytest.mark.one_backend
def test_the_configuration_of_the_server(tmp_path):
    (tmp_path / "config.yaml").write_text("coordinate:\n  job_dir: /jobs\n  password: hidden\n")
    daemon = open_daemon("sqlite", "--cborrpc-config", str(tmp_path / "config.yaml"))
    try:
        assert TaskMaster({"address": daemon.cborrpc}).get_server_config() == {"coordinate": {"job_dir": "/jobs"}}
        with pytest.raises(coordinate.errors.NotSupported):
            TaskMaster({"address": daemon.url}).get_server_config()
    finally:
        daemon.stop()


class TestRunOne:
    @pytest.fixture(autouse=True)
    def path(self, monkeypatch):
        monkeypatch.syspath_prepend(str(HERE))

    def test_one_fetch(self, master):
        master.set_work_spec({**SPEC, "then": "next"})
        master.set_work_spec({"name": "next", "min_gb": 1})
        master.pause_work_spec("next")
        assert coordinate.run_one(master) is False
        master.add_work_units("count", {"a": {"word": "abc"}, "b": {"word": "x"}})
        assert coordinate.run_one(master) is True
        assert master.count_work_units("count") == {AVAILABLE: 1, FINISHED: 1}
        assert dict(master.get_work_units("count", state=FINISHED))["a"]["letters"] == 3
        assert master.get_work_units("next") == [("a", {"letters": 3})]
        assert coordinate.run_one(master, limit_count=5) is False  # the last fetch had none

    def test_what_goes_wrong(self, master):
        master.update_bundle({**SPEC, "run_function": "fails"}, {"a": {}})
        assert coordinate.run_one(master) is True
        [(_, data)] = master.get_work_units("count", state=FAILED)
        assert data["before"] == 1 and "RuntimeError: broken on purpose" in data["traceback"]
        master.update_bundle({"name": "none", "min_gb": 1}, {"a": {}})
        assert coordinate.run_one(master, work_spec_names=["none"]) is True
        assert "ProgrammerError" in master.get_work_unit_status("none", "a")["traceback"]
        master.update_bundle({**SPEC, "name": "back", "run_function": "gives_back"}, {"a": {}})
        assert coordinate.run_one(master, work_spec_names=["back"]) is True
        assert master.get_work_unit_status("back", "a")["status"] == AVAILABLE

    def test_params_and_several(self, master, config):
        master.update_bundle({**SPEC, "run_function": "with_params", "run_params": [1]}, {k: {} for k in "abc"})
        assert coordinate.run_one(config, max_jobs=2) is True
        assert master.count_work_units("count") == {FINISHED: 2, AVAILABLE: 1}
        assert coordinate.run_one({**config, "worker_job_fetch": 5}) is True
        master.update_bundle({**SPEC, "run_function": "with_params", "run_params": {"first": 0, "second": 9}}, {"d": {}})
        coordinate.run_one(config)
        assert dict(master.get_work_units("count"))["d"] == {"params": [0, 9]}
        assert dict(master.get_work_units("count"))["a"] == {"params": [1, 2]}


def test_flows(master):
    flows = {
        "first": {"min_gb": 1, "then": "group.second", "config": {"db": {"port": 2}, "tmp": None, "x": 1}},
        "group": {"second": {"min_gb": 1, "name": "ignored"}, "empty": {}},
    }
    master.add_flow(flows, {"db": {"host": "h", "port": 1}, "tmp": "/t"})
    assert master.get_work_spec("first")["config"] == {"db": {"host": "h", "port": 2}, "x": 1}
    assert master.get_work_spec("group.second")["name"] == "group.second"
    assert master.get_work_spec("group.second")["config"]["tmp"] == "/t"
    with pytest.raises(ProgrammerError, match="chained to invalid work spec nobody"):
        master.add_flow({"a": {"min_gb": 1, "then": "nobody"}})
    with pytest.raises(ProgrammerError, match="invalid work spec flow definition: a.b"):
        master.add_flow({"a": {"b": 3}})


def test_configurations():
    with pytest.raises(ProgrammerError, match="neither address nor addresses"):
        TaskMaster({})
    for wrong in ("nowhere", "host:x", ["a"], "host:0"):
        with pytest.raises(ProgrammerError, match="address"):
            TaskMaster({"address": wrong})
    assert TaskMaster({"addresses": ["127.0.0.1:1"]}).default_lifetime == 900
    assert TaskMaster({"address": ["localhost", 5932], "default_lifetime": 60}).default_lifetime == 60
    with pytest.raises(OSError):
        TaskMaster({"address": "127.0.0.1:9", "retries": 1, "base_retry_seconds": 0.01}).clear()
    assert coordinate.exceptions.NoSuchWorkUnitError is coordinate.NoSuchWorkUnit
    assert issubclass(LostLease, coordinate.CoordinateException)


@pytest.mark.one_backend
def test_a_daemon_that_is_killed_and_comes_back(daemon):
    running = open_daemon("sqlite")
    try:
        masters = [TaskMaster({"address": address}) for address in (running.cborrpc, running.url)]
        for master in masters:
            master.update_bundle({"name": "spec", "min_gb": 1}, {"a": {}})
        running.kill()
        running.start()
        for master in masters:
            assert master.count_work_units("spec") == {AVAILABLE: 1}
    finally:
        running.stop()


@pytest.mark.one_backend
class TestCommandLine:
    def run(self, *arguments, **environment):
        command = [sys.executable, "-m", "coordinate", *arguments]
        return subprocess.run(
            command, env={**ENVIRONMENT, **environment}, cwd=str(HERE), capture_output=True, text=True, timeout=300
        )

    def test_run_one(self, daemon, ns):
        options = ["run_one", "--address", daemon.url, "--namespace", ns.name]
        assert self.run(*options).returncode == 2
        ns.set_work_spec(SPEC).add_work_units([("a", {"word": "abc"}), ("b", {"word": "x"})])
        assert self.run(*options).returncode == 0
        done = self.run(*options, "--limit-count", "5", "--from-work-spec", "count")
        assert done.returncode == 2, done.stderr
        assert ns.work_spec("count").counts()["finished"] == 2

    def test_worker(self, daemon, ns):
        ns.set_work_spec(SPEC).add_work_units([("a", {"word": "abc"})])
        ns.set_work_spec({"name": "double"}).add_work_units([("u%d" % i, {"n": i}) for i in range(20)])
        environment = {"COORDINATE_ADDRESS": daemon.url, "COORDINATE_NAMESPACE": ns.name}
        done = self.run("worker", "--tasks", "tasks", "--burst", **environment)
        assert done.returncode == 0, done.stderr
        assert ns.work_spec("double").counts()["finished"] == 20
        assert ns.work_spec("count").counts()["available"] == 1
        done = self.run("worker", "--burst", "--concurrency", "1", **environment)  # the old way: modules only
        assert done.returncode == 0, done.stderr
        assert ns.work_spec("count").work_unit("a").data["letters"] == 3

    @pytest.mark.parametrize(
        "arguments, text",
        [
            (["--tasks", "nowhere"], "No module named 'nowhere'"),
            (["--tasks", "old_jobs"], "the module has no coordinate.Worker"),
            (["--tasks", "tasks:double"], "double is not a coordinate.Worker"),
        ],
    )
    def test_mistakes(self, arguments, text):
        done = self.run("worker", *arguments)
        assert done.returncode == 1 and text in done.stderr
