"""The worker against a real daemon: in processes and in threads, and as a program that is stopped and killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import coordinate
import tasks
from conftest import ROOT, open_daemon, until

HERE = Path(__file__).parent


@pytest.fixture(params=["processes", "threads"])
def kind(request):
    return request.param


@pytest.fixture
def burst(daemon, ns, kind):
    """Runs the tasks of the file until there is no work."""

    def run(**options):
        worker = tasks.worker
        worker.address, worker.namespace = daemon.url, ns.name
        worker.counts = coordinate.worker.Counts()
        before = dict(vars(worker))
        vars(worker).update(processes=kind == "processes", **options)
        try:
            worker.run(burst=True)
        finally:
            counts = worker.counts
            vars(worker).update(before)
        return counts

    return run


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def add(ns, name, units, **spec):
    handle = ns.set_work_spec({"name": name, **spec})
    handle.add_work_units(units)
    return handle


class TestOnEveryStore:
    def test_run(self, ns, burst, kind):
        double = add(ns, "double", [("u%d" % i, {"n": i}) for i in range(50)])
        other = add(ns, "other", ["x"], task="changes")
        foreign = add(ns, "changes", ["y"], runtime="node")
        counts = burst()
        assert {unit.name: unit.data["twice"] for unit in double.work_units()} == {"u%d" % i: 2 * i for i in range(50)}
        pids = {unit.data["pid"] for unit in double.work_units()}
        assert (os.getpid() in pids) == (kind == "threads")
        data = other.work_unit("x").data["changed"]
        assert data[:3] == ("x", 1, "other") and data[3] in ("1", "2")
        assert foreign.work_unit("y").status == "available"
        assert (counts.claimed, counts.finished, counts.failed) == (51, 51, 0)

    def test_chain(self, ns, burst):
        last = add(ns, "changes", [])
        add(ns, "chain", ["a", "b"], then="changes")
        burst()
        assert [(unit.name, unit.status) for unit in last.work_units()] == [("a-next", "finished"), ("b-next", "finished")]


@pytest.mark.one_backend
class TestTasks:
    def test_go_wrong(self, ns, burst):
        add(ns, "raises", ["a"])
        add(ns, "leaves", ["a"])
        add(ns, "gives_up", ["a"], max_retries=5)
        add(ns, "unstorable", ["a"])
        counts = burst()
        unit = ns.work_spec("raises").work_unit("a")
        assert (unit.status, unit.data["before"]) == ("failed", True)
        assert "ValueError: raised on purpose" in unit.traceback and "tasks.py" in unit.traceback
        assert "SystemExit: 3" in ns.work_spec("leaves").work_unit("a").traceback
        assert ns.work_spec("gives_up").work_unit("a").traceback == "not today"
        assert "cannot hold a value of type object" in ns.work_spec("unstorable").work_unit("a").traceback
        assert counts.failed == 4

    def test_what_is_too_large_fails(self, ns, burst):
        add(ns, "too_large", ["a"])
        burst()
        unit = ns.work_spec("too_large").work_unit("a")
        assert unit.status == "failed" and "cannot be stored" in unit.traceback

    def test_a_renewal_that_is_refused_is_no_lost_lease(self, ns, burst):
        add(ns, "oversteps", ["a"])
        burst()
        unit = ns.work_spec("oversteps").work_unit("a")
        assert (unit.status, unit.data) == ("finished", {"refused": "too_large"})

    def test_a_thread_that_outlives_its_task_harms_no_other_unit(self, ns, burst):
        spec = add(ns, "lingers", ["u%02d" % i for i in range(40)])
        counts = burst(concurrency=1)
        assert spec.counts()["finished"] == counts.finished == 40

    def test_retry(self, ns, burst):
        again = add(ns, "again", ["a"])
        raises = add(ns, "raises", ["a"], max_retries=2, retry={"attempts": 3, "backoff": {"kind": "fixed", "delay": 0.05}})
        later = add(ns, "later", ["a"], max_retries=1)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            burst()
            if again.work_unit("a").status == "finished" and raises.work_unit("a").status == "failed":
                if later.work_unit("a").status == "finished":
                    break
            time.sleep(0.1)
        assert again.work_unit("a").data == {"tries": 3}
        assert [attempt.status for attempt in again.work_unit("a").attempts()] == ["retryable"] * 2 + ["finished"]
        assert again.work_unit("a").attempts()[0].data == {"try": 1}
        assert len(raises.work_unit("a").attempts()) == 2
        failed = raises.work_unit("a")
        assert (failed.reason, failed.traceback, failed.data["tries"]) == ("exhausted", "too many retries", 2)
        assert "ValueError: raised on purpose" in failed.data["last_error"]
        # put off twice, which does not count
        assert [attempt.status for attempt in later.work_unit("a").attempts()] == ["retryable"] * 2 + ["finished"]

    def test_batches(self, ns, burst):
        sums = add(ns, "sums", [("u%02d" % i, {"n": i}) for i in range(40)])
        half = add(ns, "half", ["a", "b"])
        burst(concurrency=1)
        assert all(unit.status == "finished" for unit in sums.work_units())
        assert max(unit.data["of"] for unit in sums.work_units()) > 1
        statuses = sorted(unit.status for unit in half.work_units())
        assert statuses in (["failed", "finished"], ["finished", "finished"])

    def test_logs(self, ns, burst, caplog):
        add(ns, "logs", ["a"])
        burst()
        assert ("mine", "said by a") in [(record.name, record.getMessage()) for record in caplog.records]

    def test_what_a_task_writes_is_kept_with_its_attempt(self, ns, burst, tmp_path):
        spec = add(ns, "writes", [("a", {"file": str(tmp_path / "go")})])
        thread = threading.Thread(target=burst)
        thread.start()

        def log():
            attempts = list(spec.work_unit("a").attempts())
            return [(line.level, line.text) for line in attempts[-1].read_log().lines] if attempts else []

        until("the lines of a running task", lambda: log() == [("info", "begin"), ("warn", "hm")])
        (tmp_path / "go").touch()
        thread.join(120)
        assert log() == [("info", "begin"), ("warn", "hm"), ("info", "end")]

    def test_progress_is_seen(self, ns, burst, tmp_path):
        spec = add(ns, "progress", [("a", {"file": str(tmp_path / "go")})])
        thread = threading.Thread(target=burst)
        thread.start()
        until("the progress", lambda: spec.work_unit("a").data.get("percent") == 100)
        assert spec.work_unit("a").status == "pending"
        (tmp_path / "go").touch()
        thread.join(120)
        assert spec.work_unit("a").status == "finished"

    def test_how_far_a_task_has_come(self, ns, burst, tmp_path):
        """Many reports, of which the last is stored."""
        spec = add(ns, "reports", [("a", {"file": str(tmp_path / "go")})])
        thread = threading.Thread(target=burst)
        thread.start()

        def half():
            progress = spec.work_unit("a").progress
            return progress is not None and (progress.done, progress.note) == (0.5, "half")

        until("the last report", half)
        assert spec.work_unit("a").data["rows"] == (1, 2)
        (tmp_path / "go").touch()
        thread.join(120)
        unit = spec.work_unit("a")
        assert (unit.status, unit.data["refused"]) == ("finished", "Bad argument: progress: expected a number from 0 to 1, got 40")
        assert unit.attempt_count == 1

    def test_decisions(self, ns, burst):
        """A failure that is final, although the policy would try again."""
        policy = {"attempts": 5, "backoff": {"delay": 0}}
        spec = add(ns, "hopeless", ["a", ("b", {"left": {"n": 1}})], retry=policy)
        batch = add(ns, "hopeless_batch", ["a", "b", "c"], retry=policy)
        burst(concurrency=1)
        a, b = spec.get_work_units(["a", "b"])
        assert (a.status, a.reason, a.traceback, a.attempt_count) == ("failed", "error", "no such file", 1)
        assert b.data == {"n": 1, "traceback": "no such file"}
        assert batch.counts()["failed"] + batch.counts()["finished"] == 3
        assert {unit.traceback for unit in batch.work_units(statuses=["failed"])} <= {"the rest is bad"}
        assert all(unit.attempt_count == 1 for unit in batch.work_units())

    def test_a_unit_with_retries_of_its_own(self, ns, burst):
        spec = add(ns, "raises", [{"name": "a", "retry": {"attempts": 3, "backoff": {"delay": 0}}}, "b"])
        until("both have failed", lambda: burst() and spec.counts()["failed"] == 2)
        a, b = spec.get_work_units(["a", "b"])
        assert (a.attempt_count, a.reason, b.attempt_count, b.reason) == (3, "exhausted", 1, "error")

    def test_an_error_after_the_unit_has_expired_is_a_failure(self, ns, burst):
        spec = add(ns, "raises", [{"name": "a", "data": {"seconds": 4}, "expires": 3, "retry": {"attempts": 3}}])
        counts = burst()
        assert (counts.failed, counts.retried, spec.work_unit("a").reason) == (1, 0, "late")

    def test_old_specs_run_unchanged(self, ns, burst):
        last = add(ns, "last", [])
        spec = add(ns, "old", ["a"], module="tasks", run_function="old_job", run_params=[3], then="last")
        named = add(ns, "named", ["b"], module="tasks", run_function="old_job", run_params={"least": 1, "most": 2})
        lacking = add(ns, "lacking", ["c"], module="tasks", run_function="nobody")
        burst(modules=True)
        assert spec.work_unit("a").data["seen"] == ["a", "tasks", 3, None, True]
        assert named.work_unit("b").data["seen"][2:4] == [1, 2]
        assert last.work_unit("a").data == {"from": "old"}
        assert "nobody" in lacking.work_unit("c").traceback

    def test_a_lease_is_renewed_while_a_task_runs(self, ns, burst, tmp_path):
        spec = add(ns, "slow", [("a", {"file": str(tmp_path / "f"), "seconds": 6})])
        burst(lease=4)
        [attempt] = spec.work_unit("a").attempts()
        assert (attempt.status, attempt.late) == ("finished", False)

    def test_units_behind_a_long_one_are_given_back(self, ns, burst, tmp_path):
        """Two slots; a claim of four, of which the first takes long. The other slot has the rest meanwhile."""
        file = str(tmp_path / "f")
        units = [("a", {"file": file, "seconds": 4})] + [(name, {"file": file, "seconds": 0.01}) for name in "bcd"]
        spec = add(ns, "slow", units)
        start = time.monotonic()
        thread = threading.Thread(target=lambda: burst(max_attempts=4))
        original = coordinate.worker.Run.__init__

        def eager(self, *args):
            original(self, *args)
            self._number = 4

        coordinate.worker.Run.__init__ = eager
        try:
            thread.start()
            until("the others", lambda: spec.counts()["finished"] == 3)
            assert time.monotonic() - start < 3.9
            assert spec.work_unit("a").status == "pending"
            thread.join(120)
        finally:
            coordinate.worker.Run.__init__ = original
        assert spec.counts()["finished"] == 4


@pytest.mark.one_backend
def test_a_task_may_take_more_time(ns, burst):
    spec = add(ns, "extends", ["a"])
    burst()
    assert spec.work_unit("a").data == {"extended": True}


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", ["processes"], indirect=True)
class TestProcesses:
    def test_a_child_that_dies_costs_its_unit_only(self, ns, burst):
        spec = add(ns, "dies", [("u%02d" % i, {"die": i == 5}) for i in range(30)])
        burst()
        assert spec.counts()["finished"] == 29
        assert "exited with code 7" in spec.work_unit("u05").traceback

    def test_of_a_batch_the_culprit_is_found(self, ns, burst):
        spec = add(ns, "batch_dies", [("u%02d" % i, {"die": i == 17}) for i in range(30)])
        burst()
        assert spec.counts()["finished"] == 29
        assert spec.work_unit("u17").status == "failed"

    def test_what_takes_too_long_is_killed_with_what_it_started(self, ns, burst):
        spec = add(ns, "short", ["a"])
        start = time.monotonic()
        burst()
        assert time.monotonic() - start < 15
        assert spec.work_unit("a").traceback == "timed out after 1 s"
        assert subprocess.run(["pgrep", "-f", "^sleep 613"]).returncode == 1

    def test_an_old_job_may_clean_up(self, ns, burst, tmp_path):
        file = str(tmp_path / "f")
        names = {"run_function": "old_slow", "terminate_function": "old_end"}
        spec = add(ns, "old", [("a", {"file": file})], module="tasks", **names)
        burst(modules=True, timeout=1)
        assert spec.work_unit("a").traceback == "job expired"
        assert Path(file).read_text() == "cleaned a"

    def test_a_child_that_is_killed(self, ns, burst, tmp_path):
        file = tmp_path / "f"
        spec = add(ns, "slow", [("a", {"file": str(file)}), ("b", {"file": str(file), "seconds": 0})], max_retries=1)
        thread = threading.Thread(target=burst)
        thread.start()
        until("it began", file.exists)
        pid = until("the pid", lambda: [line for line in file.read_text().splitlines() if line.startswith("a ")])[0]
        os.kill(int(pid.split()[1]), signal.SIGKILL)
        thread.join(120)
        a = spec.work_unit("a")
        assert a.traceback == "too many retries"
        assert "killed by SIGKILL" in a.data["last_error"]
        assert spec.work_unit("b").status == "finished"

    def test_a_unit_that_is_cancelled_is_stopped(self, ns, burst, tmp_path):
        """Long before its lease would be renewed; another unit goes on."""
        spec = add(ns, "slow", [("a", {"file": str(tmp_path / "a")}), ("b", {"file": str(tmp_path / "b"), "seconds": 6})])
        thread = threading.Thread(target=lambda: burst(lease=3600), daemon=True)
        thread.start()
        until("both run", lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
        pid = int((tmp_path / "a").read_text().split()[1])
        spec.work_unit("a").cancel(by="ann")
        until("its process has ended", lambda: not alive(pid))
        thread.join(120)
        assert not thread.is_alive()
        assert [unit.status for unit in spec.work_units()] == ["failed", "finished"]
        assert spec.work_unit("a").reason == "cancelled"
        assert spec.work_unit("b").attempt_count == 1

    def test_others_of_a_batch_go_on(self, ns, burst, tmp_path):
        """One unit of a running batch is cancelled. What the batch does for the others is stored."""
        file = tmp_path / "go"
        spec = add(ns, "together", [(name, {"file": str(file)}) for name in "abc"])
        # first many short units, so that claims grow
        add(ns, "double", [("u%d" % i, {"n": i}) for i in range(200)], priority=1)
        thread = threading.Thread(target=lambda: burst(concurrency=1, lease=3600), daemon=True)
        thread.start()
        until("it runs", lambda: (tmp_path / "go-begun").exists())
        running = [unit.name for unit in spec.work_units(statuses=["pending"])]
        spec.work_unit(running[0]).cancel()
        time.sleep(3)  # the worker looks every two seconds
        file.touch()
        thread.join(120)
        assert not thread.is_alive()
        assert spec.work_unit(running[0]).reason == "cancelled"
        assert spec.counts()["finished"] == 2
        assert sorted((tmp_path / "go-begun").read_text().split()) == ["a", "b", "c"]

    def test_tasks_that_cannot_be_loaded(self, daemon, ns, kind, tmp_path):
        (tmp_path / "broken.py").write_text(
            "import coordinate, sys\nworker = coordinate.Worker(sys.argv[1], sys.argv[2])\n"
            "worker.task('x')(print)\nif __name__ != '__main__': raise ImportError('not here')\nworker.run()\n"
        )
        done = run_program(tmp_path / "broken.py", daemon.url, ns.name)
        assert done.returncode == 1 and "ImportError: not here" in done.stderr

    def test_a_program_without_its_guard_is_told(self, daemon, ns, kind, tmp_path):
        (tmp_path / "bare.py").write_text(
            "import coordinate, sys\nworker = coordinate.Worker('%s', '%s')\n"
            "worker.task('x')(print)\nworker.run()\n" % (daemon.url, ns.name)
        )
        done = run_program(tmp_path / "bare.py")
        assert done.returncode == 1 and "if __name__ == '__main__'" in done.stderr

    def test_a_worker_that_is_nowhere_to_be_found(self, daemon, ns, kind):
        worker = coordinate.Worker(daemon.url, ns.name)
        worker.task("x")(print)
        with pytest.raises(coordinate.ProgrammerError, match="processes=False"):
            worker.run()


def test_mistakes():
    with pytest.raises(coordinate.ProgrammerError, match="no tasks"):
        coordinate.Worker().run()
    with pytest.raises(coordinate.ProgrammerError, match="parentheses"):
        coordinate.Worker().task(print)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python")}


def run_program(*arguments):
    command = [sys.executable] + [str(argument) for argument in arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


class Program:
    """The worker as a program of its own."""

    def __init__(self, daemon, ns, *arguments):
        command = [sys.executable, str(HERE / "tasks.py"), daemon.url, ns.name, *arguments]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        self.output = ""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.output += line

    def end(self, seconds=120):
        code = self.process.wait(seconds)
        self.reader.join(10)
        return code


@pytest.fixture
def program(daemon, ns):
    programs = []

    def start(*arguments):
        programs.append(Program(daemon, ns, *arguments))
        return programs[-1]

    yield start
    for each in programs:
        each.process.kill()
        each.end()


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", ["processes", "threads"])
class TestProgram:
    def test_a_stop_lets_tasks_finish(self, ns, program, kind, tmp_path):
        file = tmp_path / "f"
        spec = add(ns, "slow", [(name, {"file": str(file), "seconds": 1.5}) for name in "abcdefgh"])
        worker = program(kind)
        until("it began", file.exists)
        worker.process.terminate()
        assert worker.end() == 0
        counts = spec.counts()
        assert counts["pending"] == 0 and 1 <= counts["finished"] <= 4
        assert counts["available"] == 8 - counts["finished"]
        assert all(not state.active for state in ns.workers())

    def test_a_second_signal_gives_everything_back(self, ns, program, kind, tmp_path):
        file = tmp_path / "f"
        spec = add(ns, "slow", [("a", {"file": str(file)})], max_retries=1)
        worker = program(kind)
        until("it began", file.exists)
        worker.process.terminate()
        time.sleep(0.3)
        start = time.monotonic()
        worker.process.terminate()
        worker.end()
        assert time.monotonic() - start < 8
        assert spec.work_unit("a").status == "available"
        assert len(ns.worker("next").request_attempts()) == 1, "the only try is used up"

    def test_a_signal_lets_tasks_finish_also_after_an_operator_stopped_it(self, ns, program, kind, tmp_path):
        file = tmp_path / "f"
        spec = add(ns, "slow", [("a", {"file": str(file), "seconds": 4})])
        worker = program(kind)
        until("it began", file.exists)
        [state] = [each for each in ns.workers(active=True) if each.data]
        ns.worker(state.name).update(desired="terminate")
        until("it stops", lambda: "asked to terminate" in worker.output)
        worker.process.terminate()
        assert worker.end() == 0
        assert spec.work_unit("a").status == "finished"

    def test_an_operator_stops_it(self, ns, program, kind):
        worker = program(kind)
        [state, *_] = until("it checks in", lambda: [each for each in ns.workers(active=True) if each.data])
        assert state.data["pid"] == worker.process.pid and "double" in state.data["tasks"]
        ns.worker(state.name).update(desired="idle")
        time.sleep(1.5)
        spec = add(ns, "double", [("a", {"n": 1})])
        time.sleep(1)
        assert spec.work_unit("a").status == "available"
        ns.worker(state.name).update(desired="run")
        until("it works again", lambda: spec.work_unit("a").status == "finished")
        ns.worker(state.name).update(desired="terminate")
        assert worker.end() == 0


@pytest.mark.one_backend
def test_a_stop_at_any_moment_leaves_nothing_pending(daemon, ns):
    """Also when it comes while the answer to a claim is on its way."""
    spec = add(ns, "double", ["u%05d" % i for i in range(5000)])
    for turn in range(30):
        worker = coordinate.Worker(daemon.url, ns.name, processes=False, concurrency=3, max_attempts=4)
        worker.task("double")(lambda unit: {"done": True})
        thread = threading.Thread(target=worker.run)
        thread.start()
        until("it works", lambda: worker.counts.claimed > 0)
        time.sleep(turn % 10 / 300)
        worker.stop()
        thread.join(120)
        assert not thread.is_alive()
        assert spec.counts()["pending"] == 0, turn


def test_log_lines_count_for_the_length_of_a_request():
    log = {"first": 1, "lines": [{"text": "x" * 65536, "level": "info", "time": 1}]}
    bodies = [coordinate.arguments.Change("a%d" % n, "finish", log=log).body() for n in range(600)]
    assert [len(batch) for batch in coordinate.arguments.in_batches(bodies)] == [256, 256, 88]


class Refusing:
    """Answers the next requests of a verb with errors, instead of the daemon."""

    def __init__(self, monkeypatch):
        ask, self.codes = coordinate.protocol.Protocol.ask, {}

        async def refuse(protocol, verb, *others, **options):
            if self.codes.get(verb):
                raise coordinate.errors.error_of(self.codes[verb].pop(0))
            return await ask(protocol, verb, *others, **options)

        monkeypatch.setattr(coordinate.protocol.Protocol, "ask", refuse)


@pytest.fixture
def refusing(monkeypatch):
    return Refusing(monkeypatch)


def run_in_thread(worker, **options):
    thread = threading.Thread(target=worker.run, kwargs=options, daemon=True)
    thread.start()
    return thread


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "codes, status",
    [
        (["internal"] * 3, "finished"),
        (["not_coordinate"] * 2, "finished"),
        (["too_large", "unavailable"], "failed"),
        (["unauthorized"], "pending"),
    ],
)
def test_only_data_that_cannot_be_stored_fails_a_unit(daemon, ns, refusing, codes, status):
    worker = coordinate.Worker(daemon.url, ns.name, processes=False, concurrency=1)
    worker.task("double")(lambda unit: {"done": True})
    spec = add(ns, "double", ["a"])
    refusing.codes["settleAttempts"] = list(codes)
    thread = run_in_thread(worker, burst=True)
    thread.join(30)
    assert not thread.is_alive()
    assert refusing.codes["settleAttempts"] == []
    assert spec.work_unit("a").status == status


@pytest.mark.one_backend
def test_a_failure_with_data_that_cannot_be_stored(daemon, ns, refusing):
    worker = coordinate.Worker(daemon.url, ns.name, processes=False, concurrency=1)
    worker.task("double")(lambda unit: unit.fail("why"))
    spec = add(ns, "double", ["a"])
    refusing.codes["settleAttempts"] = ["too_large"]
    worker.run(burst=True)
    assert spec.work_unit("a").status == "failed"


@pytest.mark.one_backend
def test_a_work_spec_that_cannot_be_read_after_the_claim(daemon, ns, refusing):
    worker = coordinate.Worker(daemon.url, ns.name, processes=False, concurrency=1)
    worker.task("double")(lambda unit: {"done": True})
    thread = run_in_thread(worker)
    until("it waits", lambda: list(ns.workers(active=True)))
    refusing.codes["getWorkSpecs"] = ["unavailable", "internal"]
    refusing.codes["listWorkSpecs"] = ["unavailable"] * 3  # so that the work spec is read by itself
    spec = add(ns, "double", ["a"], max_retries=1)
    until("it works", lambda: list(spec.work_units(statuses=["finished"])), 30)
    assert thread.is_alive()
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.one_backend
def test_a_wish_for_an_earlier_process_is_not_obeyed(daemon, ns):
    worker = coordinate.Worker(daemon.url, ns.name, processes=False, name="w", concurrency=1, heartbeat=0.2)
    worker.task("double")(lambda unit: {"done": True})
    ns.worker("w").update(active=False, desired="terminate")
    spec = add(ns, "double", ["a"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    until("it works", lambda: spec.work_unit("a").status == "finished")
    time.sleep(0.5)
    assert thread.is_alive()
    ns.worker("w").update(desired="run")
    time.sleep(0.5)
    ns.worker("w").update(desired="terminate")
    thread.join(120)
    assert not thread.is_alive()


@pytest.mark.one_backend
def test_a_daemon_that_serves_later_is_waited_for(ns, tmp_path):
    later = open_daemon("sqlite")
    later.kill()
    worker = coordinate.Worker(later.url, "ns", processes=False, concurrency=1)
    worker.task("double")(lambda unit: {"done": True})
    with pytest.raises(coordinate.Unavailable):
        worker.run(burst=True)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(0.5)
    try:
        later.start()
        spec = add(coordinate.connect(later.url).namespace("ns"), "double", ["a"])
        until("it works", lambda: spec.work_unit("a").status == "finished")
        worker.stop()
        thread.join(120)
        assert not thread.is_alive()
    finally:
        later.stop()


@pytest.mark.one_backend
def test_a_daemon_that_is_silent_delays_no_stop(tmp_path):
    """A process that was stopped takes requests, and answers none."""
    silent = open_daemon("sqlite")
    file = tmp_path / "f"
    with coordinate.connect(silent.url) as client:
        ns = client.namespace("silent")
        add(ns, "slow", [("a", {"file": str(file)})])
        worker = Program(silent, ns)
        try:
            until("it began", file.exists)
            pid = int(until("the pid", file.read_text).split()[1])
            silent.process.send_signal(signal.SIGSTOP)
            time.sleep(2)  # now a check-in is under way
            worker.process.terminate()
            until("its task is ended after the grace time of 5 s", lambda: not alive(pid), 20)
            worker.process.terminate()
            worker.end(20)
        finally:
            worker.process.kill()
            worker.end()
            silent.process.send_signal(signal.SIGCONT)
            silent.stop()


@pytest.mark.one_backend
def test_a_worker_that_is_killed_leaves_nothing_behind(ns, program, tmp_path):
    file = tmp_path / "f"
    spec = add(ns, "slow", [("a", {"file": str(file)})])
    worker = program()
    until("it began", file.exists)
    [line] = until("the pid", lambda: file.read_text().splitlines())
    pid = int(line.split()[1])
    assert pid != worker.process.pid
    worker.process.kill()
    worker.end()

    def is_gone():
        try:
            with open("/proc/%d/stat" % pid) as stat:
                return stat.read().split()[2] == "Z"
        except FileNotFoundError:
            return True

    until("its child is gone", is_gone)
    until("the lease is over", lambda: spec.work_unit("a").status == "available")
    program("threads")
    until("another runs it", lambda: len(file.read_text().splitlines()) == 2)
