"""`python -m coordinate worker` runs tasks; `python -m coordinate run_one` fetches work once and runs it in this process."""

import argparse
import importlib
import logging
import os
import sys
from typing import List, Optional

from .client import address_or_default
from .errors import CoordinateError, ProgrammerError
from .task_master import run_one
from .worker import Worker


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m coordinate", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--address", help="http://host:port, https://host:port or unix:/path; default: COORDINATE_ADDRESS")
        command.add_argument("--namespace", help="the namespace; default: COORDINATE_NAMESPACE, else the default namespace")
        command.add_argument("-v", "--verbose", action="count", default=0, help="log more")
        command.add_argument("-q", "--quiet", action="count", default=0, help="log less")
        return command

    worker = add("worker", "Runs tasks until it gets SIGTERM or SIGINT. Reads the token from COORDINATE_TOKEN.")
    worker.add_argument("--tasks", metavar="MODULE[:NAME]", help="the module with the worker, and the name of its global")
    worker.add_argument("--modules", action="store_true", help="run work specs with module and run_function as well")
    worker.add_argument("--concurrency", type=int, metavar="N", help="units to run in parallel; default: one per processor")
    worker.add_argument("--threads", action="store_true", help="run units in threads instead of processes")
    worker.add_argument("--max-attempts", type=int, metavar="N", help="maximum number of units per claim")
    worker.add_argument("--lease", type=float, metavar="SECONDS", help="length of a lease; leases are renewed while a task runs")
    worker.add_argument("--timeout", type=float, metavar="SECONDS", help="maximum run time of a unit")
    worker.add_argument("--grace", type=float, metavar="SECONDS", help="time for running tasks to finish when the worker stops")
    worker.add_argument("--name", help="name of the worker")
    worker.add_argument("--work-spec", action="append", dest="work_specs", metavar="NAME", help="only this work spec; repeatable")
    worker.add_argument("--burst", action="store_true", help="stop when there is no work")

    one = add("run_one", "Fetches and runs one unit; exits with code 2 if there was no work.")
    one.add_argument("--from-work-spec", action="append", metavar="NAME", help="only this work spec; repeatable")
    one.add_argument("--limit-seconds", type=float, metavar="N", help="repeat for N seconds")
    one.add_argument("--limit-count", type=int, metavar="N", help="repeat for N fetches")
    one.add_argument("--max-jobs", type=int, metavar="N", help="maximum number of units per fetch")
    return top


def find_worker(text: str) -> Worker:
    module_name, _, attribute = text.partition(":")
    module = importlib.import_module(module_name)
    found = [name for name, value in vars(module).items() if isinstance(value, Worker)]
    if attribute:
        if not isinstance(getattr(module, attribute, None), Worker):
            raise ProgrammerError("--tasks %s: %s is not a coordinate.Worker" % (text, attribute))
        return getattr(module, attribute)  # type: ignore[no-any-return]
    if len(found) != 1:
        which = "no coordinate.Worker" if not found else "several: " + ", ".join("%s:%s" % (module_name, n) for n in found)
        raise ProgrammerError("--tasks %s: the module has %s" % (text, which))
    return getattr(module, found[0])  # type: ignore[no-any-return]


def run_worker(options: argparse.Namespace) -> int:
    worker = Worker() if options.tasks is None else find_worker(options.tasks)
    worker.modules = worker.modules or options.modules or options.tasks is None
    worker.processes = worker.processes and not options.threads
    for name in ("address", "namespace", "concurrency", "max_attempts", "lease", "timeout", "grace", "name", "work_specs"):
        if getattr(options, name) is not None:
            setattr(worker, name, getattr(options, name))
    worker.run(burst=options.burst)
    return 0


def run_one_unit(options: argparse.Namespace) -> int:
    namespace = options.namespace if options.namespace is not None else os.environ.get("COORDINATE_NAMESPACE", "")
    config = {"address": address_or_default(options.address), "namespace": namespace}
    had_work = run_one(
        config,
        work_spec_names=options.from_work_spec,
        max_jobs=options.max_jobs,
        limit_count=options.limit_count,
        limit_seconds=options.limit_seconds,
    )
    return 0 if had_work else 2


def main(arguments: Optional[List[str]] = None) -> int:
    options = parser().parse_args(arguments)
    level = logging.INFO + 10 * (options.quiet - options.verbose)
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    # the modules of the user, as for a program in the current directory
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return (run_worker if options.command == "worker" else run_one_unit)(options)
    except (CoordinateError, ImportError) as error:
        print("python -m coordinate: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
