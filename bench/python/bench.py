"""No-op tasks per second, and from adding to start: this package, Celery and RQ in turns. See README.md."""

import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

import counting  # noqa: E402


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("nothing serves port %d" % port)


def cpu_seconds(pids):
    """What these processes have used so far, with their descendants and those of them that have ended."""
    rows = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                # the name of the program, in parentheses, may contain blanks
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            rows[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])))
    known = set(pids)
    while True:
        more = {pid for pid, (parent, _) in rows.items() if parent in known} - known
        if not more:
            break
        known |= more
    return sum(rows[pid][1] for pid in known if pid in rows) / os.sysconf("SC_CLK_TCK")


class Subject:
    """A server, its workers, and how units are added."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.processes = []
        os.environ["PYTHONPATH"] = "%s:%s" % (ROOT / "python", HERE)
        self.log = open(os.path.join(directory, "log"), "w")
        self.serve()
        wait_for(self.port)

    def start(self, *command):
        process = subprocess.Popen(
            command, cwd=str(HERE), stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.processes.append(process)
        return process

    def stop(self, processes):
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.processes.remove(process)

    def close(self):
        self.stop(list(reversed(self.processes)))
        self.log.close()


class Coordinate(Subject):
    task = "plain"

    def serve(self):
        address = "127.0.0.1:%d" % self.port
        cli = str(ROOT / "dist" / "cli" / "coordinated.js")
        self.start("node", cli, "--data-dir", self.directory, "--http", address, "--log-level", "error")
        os.environ["BENCH_COORDINATE"] = "http://" + address

    def prepare(self):
        import coordinate

        namespace = coordinate.connect(os.environ["BENCH_COORDINATE"]).namespace("bench")
        self.specs = {name: namespace.set_work_spec({"name": name}) for name in ("plain", "batches", "start")}

    def add(self, number):
        self.specs[self.task].load_work_units(("u%07d" % i, {"n": i}) for i in range(number))

    def work(self):
        return [self.start(sys.executable, "-m", "coordinate", "worker", "--tasks", "coordinate_tasks", "-q")]

    def add_one(self, i):
        self.specs["start"].add_work_units([("s%d" % i, {"n": i})])


class CoordinateBatches(Coordinate):
    task = "batches"


class Redis(Subject):
    def serve(self):
        options = ["--port", str(self.port), "--dir", self.directory, "--appendonly", "no", "--save", ""]
        self.start("redis-server", *options)
        os.environ["BENCH_REDIS"] = "redis://127.0.0.1:%d/0" % self.port


class Celery(Redis):
    def prepare(self):
        import celery_tasks

        # the program's own Celery speaks to the Redis of this round
        celery_tasks.app.conf.broker_url = os.environ["BENCH_REDIS"]
        self.tasks = celery_tasks

    def add(self, number):
        app = self.tasks.app
        with app.connection_for_write(os.environ["BENCH_REDIS"]) as connection:
            producer = app.amqp.Producer(connection, auto_declare=False)
            for i in range(number):
                self.tasks.noop.apply_async(({"n": i},), producer=producer)

    def work(self):
        return [self.start(sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "2", "-l", "error")]

    def add_one(self, i):
        with self.tasks.app.connection_for_write(os.environ["BENCH_REDIS"]) as connection:
            self.tasks.start.apply_async(({"n": i},), connection=connection)


class Rq(Redis):
    worker = "rq.worker.SimpleWorker"

    def prepare(self):
        import redis
        import rq

        self.queue = rq.Queue(connection=redis.Redis(port=self.port))

    def add(self, number):
        import rq

        options = {"result_ttl": 0}
        for first in range(0, number, 1000):
            jobs = [
                rq.Queue.prepare_data("rq_tasks.noop", ({"n": i},), **options) for i in range(first, min(number, first + 1000))
            ]
            self.queue.enqueue_many(jobs)

    def work(self):
        command = [sys.executable, "-c", "from rq.cli import main; main()", "worker", "--quiet", "-w", self.worker]
        return [self.start(*command, "--url", os.environ["BENCH_REDIS"]) for _ in range(2)]

    def add_one(self, i):
        self.queue.enqueue("rq_tasks.start", {"n": i}, result_ttl=0)


class RqForking(Rq):
    worker = "rq.worker.Worker"


SUBJECTS = {
    "coordinate, batches": CoordinateBatches,
    "coordinate, one unit a call": Coordinate,
    "Celery": Celery,
    "RQ, SimpleWorker": Rq,
    "RQ, a fork a job": RqForking,
}


def measure_starts(subject, starts):
    """The median time from adding a unit to its start, with nothing else to do."""
    waits = []
    workers = subject.work()
    for i in range(starts + 1):
        time.sleep(0.05)
        at = time.time()
        subject.add_one(i)
        while counting.last_start() < at:
            time.sleep(0.0005)
        waits.append(counting.last_start() - at)
    subject.stop(workers)
    # the first one includes the start of the workers
    return statistics.median(waits[1:])


def measure_rate(subject, units):
    """Tasks per second from the first to the last, with all units added before; and processor seconds of a task."""
    workers = subject.work()
    until = time.monotonic() + 60
    while counting.total() == 0 and time.monotonic() < until:
        time.sleep(0.005)
    pids = [process.pid for process in subject.processes]
    first, begun, used = counting.total(), time.monotonic(), cpu_seconds(pids)
    # a slow subject is measured for twenty seconds
    while counting.total() < units and time.monotonic() - begun < 20:
        time.sleep(0.01)
    done, seconds = counting.total() - first, time.monotonic() - begun
    used = cpu_seconds(pids) - used
    subject.stop(workers)
    return done / seconds, used / done


def measure(kind, units, starts):
    directory = tempfile.mkdtemp(prefix="coordinate-bench-")
    os.environ["BENCH_COUNTS"] = os.path.join(directory, "counts")
    counting.create(os.environ["BENCH_COUNTS"])
    counting._files.clear()
    subject = kind(directory)
    try:
        subject.prepare()
        start = measure_starts(subject, starts)
        before = time.monotonic()
        subject.add(units)
        added = units / (time.monotonic() - before)
        return (added, *measure_rate(subject, units), start)
    finally:
        subject.close()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    chosen = {name: kind for name, kind in SUBJECTS.items() if not options.only or any(o in name for o in options.only)}
    found = {name: [] for name in chosen}
    print("load before: %.1f %.1f %.1f on %d processors" % (*os.getloadavg(), os.cpu_count()), flush=True)
    for turn in range(options.rounds):
        for name, kind in chosen.items():
            units = options.units // 10 if "fork" in name else options.units
            row = measure(kind, units, options.starts)
            found[name].append(row)
            text = "%d  %-28s added %7.0f/s  done %7.0f/s  cpu %5.0f us  start %.1f ms  load %.1f"
            added, done, used, start = row
            print(text % (turn + 1, name, added, done, used * 1e6, start * 1000, os.getloadavg()[0]), flush=True)
    rates = {name: statistics.median(row[1] for row in rows) for name, rows in found.items()}
    heads = ("median of %d" % options.rounds, "added/s", "done/s", "x Celery", "cpu a task", "to start")
    print("\n%-28s %10s %10s %10s %12s %12s" % heads)
    for name, rows in found.items():
        ratio = "%.1f" % (rates[name] / rates["Celery"]) if "Celery" in rates else "-"
        added, _, used, start = (statistics.median(column) for column in zip(*rows))
        print("%-28s %10.0f %10.0f %10s %9.0f us %9.1f ms" % (name, added, rates[name], ratio, used * 1e6, start * 1000))
    if "Celery" in rates and "coordinate, batches" in rates:
        ratios = sorted(a[1] / b[1] for a, b in zip(found["coordinate, batches"], found["Celery"]))
        print("batches beside Celery, turn by turn: %s" % ", ".join("%.1fx" % ratio for ratio in ratios))
        used = sorted(b[2] / a[2] for a, b in zip(found["coordinate, batches"], found["Celery"]))
        print("processor time of a task of Celery beside batches: %s" % ", ".join("%.1fx" % ratio for ratio in used))
    print("load after: %.1f %.1f %.1f" % os.getloadavg())


if __name__ == "__main__":
    main()
