"""A real daemon for the tests, on a SQLite file or on PostgreSQL.

TEST_DAEMON is the command that serves (default: the one of this repository, built), TEST_BACKENDS the
backends, separated by blanks; a PostgreSQL one is the address of a server in which databases may be made.
"""

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional

import pytest

import coordinate

ROOT = Path(__file__).resolve().parents[2]
DAEMON = shlex.split(os.environ.get("TEST_DAEMON", "node %s" % (ROOT / "dist" / "cli" / "coordinated.js")))
CLI = DAEMON[:-1] + [str(Path(DAEMON[-1]).with_name("main.js"))]
BACKENDS = os.environ.get("TEST_BACKENDS", "sqlite").split()


class Daemon:
    def __init__(self, backend: str, *arguments: str) -> None:
        self.directory = tempfile.mkdtemp(prefix="coordinate-daemon-")
        self.socket = os.path.join(self.directory, "socket")
        self.arguments = ["--data-dir", self.directory, "--socket", self.socket, *arguments]
        if backend != "sqlite":
            self.arguments += ["--backend", backend]
        self.http = "127.0.0.1:0"
        self.cborrpc = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = DAEMON + self.arguments + ["--http", self.http, "--cborrpc", self.cborrpc]
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory}
        self.log = open(os.path.join(self.directory, "log"), "a+")
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)
        served: List[str] = []
        until = time.monotonic() + 180
        while len(served) < 3:
            with open(self.log.name) as log:
                text = log.read()[getattr(self, "read", 0) :]
            served = re.findall(r"serves (\S+)", text)
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the daemon does not serve: " + text)
            time.sleep(0.02)
        self.read = os.path.getsize(self.log.name)
        [self.url] = [address for address in served if address.startswith("http")]
        [rpc] = [address for address in served if "cbor" in address]
        self.http = self.url.split("//")[1].rstrip("/").rstrip(",")
        self.cborrpc = rpc.split("//")[1].rstrip("/")
        self.url = "http://" + self.http

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)
        self.log.close()


def new_database(server: str) -> str:
    """A database of its own: made with a program, as Python has no client without a package."""
    name = "python_%d_%d" % (os.getpid(), time.time_ns())
    script = (
        "const {default: pg} = await import('pg');"
        "const c = new pg.Client({connectionString: %s}); await c.connect();"
        "await c.query('CREATE DATABASE \"%s\"'); await c.end();" % (json.dumps(server), name)
    )
    subprocess.run(["node", "--input-type=module", "-e", script], cwd=str(ROOT), check=True)
    return re.sub(r"/[^/?]*(\?|$)", "/%s\\1" % name, server)


def open_daemon(backend: str, *arguments: str) -> Daemon:
    return Daemon(new_database(backend) if backend.startswith("postgres") else backend, *arguments)


@pytest.fixture(scope="session", params=BACKENDS, ids=lambda backend: backend.partition(":")[0])
def daemon(request: Any) -> Iterator[Daemon]:
    running = open_daemon(request.param)
    yield running
    running.stop()


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "one_backend: does not depend on the store, and runs on the first only")


def pytest_collection_modifyitems(config: Any, items: List[Any]) -> None:
    others = {backend.partition(":")[0] for backend in BACKENDS[1:]}
    items[:] = [
        item
        for item in items
        if item.get_closest_marker("one_backend") is None
        or not others & set(item.nodeid.rpartition("[")[2].rstrip("]").split("-"))
    ]


numbers = itertools.count()


@pytest.fixture
def namespace_name() -> str:
    return "test-%d-%d" % (os.getpid(), next(numbers))


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Any]:
    with coordinate.connect(daemon.url) as connected:
        yield connected


@pytest.fixture
def ns(client: Any, namespace_name: str) -> Any:
    return client.namespace(namespace_name)


def until(what: str, check: Callable[[], Any], seconds: float = 120) -> Any:
    """Waits for a condition; says which when it does not come about."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("waited %g s for: %s" % (seconds, what))
        time.sleep(0.02)
