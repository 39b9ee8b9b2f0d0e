"""One flow through TypeScript, this package and programs; and what becomes of it when its parts are killed."""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import coordinate
from conftest import CLI, open_daemon, until
from test_client import same
from test_worker import ENVIRONMENT, HERE, Program, add

UNITS = int(os.environ.get("FLOW_UNITS", "300"))

NODE_TASKS = """
export const make = ({ name, data }) => ({ ...data, output: { [name]: { n: data.n, by: "node" } } });
export const echo = ({ data }) => data;
"""


class NodeWorker:
    """`coordinate worker` of this repository, with the three runtimes."""

    def __init__(self, daemon, ns, directory, runtimes="node,python,command"):
        tasks = Path(directory) / "tasks.mjs"
        tasks.write_text(NODE_TASKS)
        options = ["worker", "--tasks", str(tasks), "--runtime", runtimes, "--processes", "2", "--python", sys.executable]
        self.log = open(os.path.join(directory, "node.log"), "a")
        environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(HERE)}
        self.process = subprocess.Popen(
            CLI + options + ["--address", daemon.url, "--namespace", ns.name],
            env=environment,
            stdout=self.log,
            stderr=self.log,
        )

    def check(self):
        assert self.process.poll() is None, Path(self.log.name).read_text()

    def end(self):
        self.process.terminate()
        self.process.wait(300)
        self.log.close()


@pytest.mark.one_backend
def test_types_through_typescript_and_the_python_runtime(daemon, ns, tmp_path):
    data = {
        "text": "ünï \U0001f600",
        "bytes": b"\x00\xff",
        "tuple": (1, ("x", [2])),
        "uuid": uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
        "big": 2**80,
        "negative": -(2**70),
        "ratio": 1.5,
        "null": None,
        "__proto__": {"constructor": [True]},
    }
    echo = add(ns, "echo", [("u", data)], runtime="node")
    old = add(ns, "old", [("u", {**data, "one": 1.0})], module="tasks", run_function="old_job", run_params=[1])
    worker = NodeWorker(daemon, ns, str(tmp_path))
    try:
        def both():
            worker.check()
            return echo.counts()["finished"] == 1 and old.counts()["finished"] == 1

        until("both ended", both)
        assert same(echo.work_unit("u").data, data)
        found = old.work_unit("u").data
        assert found.pop("seen") == ["u", "tasks", 1, None, True]
        del found["output"]
        assert same(found, {**data, "one": 1.0})
        far = add(ns, "far", [("u", {"file": str(tmp_path / "go")})], module="tasks", run_function="old_reports")
        unit = until("how far it has come", lambda: [u for u in far.work_units() if u.progress and "rows" in u.data])[0]
        assert (unit.progress.done, unit.progress.note, unit.data["rows"]) == (0.25, "a quarter", 3)
        (tmp_path / "go").touch()
        assert far.wait(["u"], 120)[0].status == "finished"
    finally:
        worker.end()


@pytest.mark.one_backend
def test_a_flow_of_three_languages(daemon, ns, tmp_path):
    """TypeScript, then this package, then a program for each unit; workers are killed meanwhile."""
    last = add(ns, "text", [], runtime="command", command=["cat"])
    add(ns, "chain", [], then="text", max_retries=20)
    first = add(ns, "make", [], runtime="node", then="chain", max_retries=20)
    first.load_work_units(("u%06d" % i, {"n": i}) for i in range(UNITS))
    node = NodeWorker(daemon, ns, str(tmp_path), "node,command")
    python = Program(daemon, ns)
    try:
        for _ in range(2):
            time.sleep(1)
            python.process.kill()
            python.end()
            python = Program(daemon, ns)

        def all_through():
            node.check()
            return last.counts()["finished"] == UNITS

        until("all units have come through", all_through, 300 + UNITS / 10)
        # the units may come through before the last worker has started, and it would not notice a signal yet
        name = "-%d-" % python.process.pid
        until("the last worker runs", lambda: any(name in worker.name for worker in ns.workers(active=True)))
    finally:
        python.process.terminate()
        python.end()
        node.end()
    assert python.process.returncode == 0
    for spec in ("make", "chain", "text"):
        counts = ns.work_spec(spec).counts()
        assert counts["finished"] == UNITS and sum(counts.values()) == UNITS, (spec, counts)
    unit = last.work_unit("u%06d-next" % (UNITS - 1))
    assert unit.data["from"] == "u%06d" % (UNITS - 1)
    assert [step.work_spec_name for step, _ in unit.lineage()] == ["chain", "make"]


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_a_daemon_that_is_killed_is_ridden_out(kind, tmp_path):
    """No unit is lost and no result: what was settled while the daemon was away is stored when it is back."""
    daemon = open_daemon("sqlite")
    try:
        ns = coordinate.connect(daemon.url, retries=40).namespace("ns")
        spec = add(ns, "double", [("u%04d" % i, {"n": i}) for i in range(1000)], max_retries=20)
        worker = Program(daemon, ns, kind)
        try:
            for _ in range(3):
                finished = ns.work_spec("double").counts()["finished"]
                until("some progress", lambda: spec.counts()["finished"] > finished or finished == 1000)
                daemon.kill()
                time.sleep(random.random() / 2)
                daemon.start()
            until("all are done", lambda: spec.counts()["finished"] == 1000)
            worker.process.terminate()
            assert worker.end() == 0
        finally:
            worker.process.kill()
            worker.end()
        assert {unit.name: unit.data["twice"] for unit in spec.work_units()} == {"u%04d" % i: 2 * i for i in range(1000)}
    finally:
        daemon.stop()


@pytest.mark.one_backend
def test_children_that_are_killed_at_random(daemon, ns):
    spec = add(ns, "double", [("u%04d" % i, {"n": i}) for i in range(2000)], max_retries=50)
    worker = Program(daemon, ns)
    killed = 0
    try:
        while spec.counts()["finished"] < 2000 and killed < 10:
            assert worker.process.poll() is None, worker.output
            children = subprocess.run(
                ["pgrep", "-P", str(worker.process.pid)], capture_output=True, text=True
            ).stdout.split()
            if children:
                try:
                    os.kill(int(random.choice(children)), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
        until("all are done", lambda: spec.counts()["finished"] == 2000)
    finally:
        worker.process.terminate()
        assert worker.end() == 0
    assert killed > 0
