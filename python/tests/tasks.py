"""Tasks for the tests, each of which does one thing. Run as a program, it works until it is stopped."""

import logging
import os
import subprocess
import sys
import threading
import time

import coordinate

worker = coordinate.Worker(concurrency=2, lease=3, grace=5, heartbeat=1)


def wait_for_file(unit):
    until = time.monotonic() + 120
    while not os.path.exists(unit.data["file"]) and time.monotonic() < until:
        time.sleep(0.02)


@worker.task("double")
def double(unit):
    return {"twice": unit.data["n"] * 2, "pid": os.getpid()}


@worker.task("chain")
def chain(unit):
    return {**unit.data, "output": {unit.name + "-next": {"from": unit.name}}}


@worker.task("changes")
def changes(unit):
    unit.data["changed"] = (unit.name, unit.attempt_number, unit.spec["name"], unit.worker_id.rpartition("/")[2])


@worker.task("raises")
def raises(unit):
    unit.data["before"] = True
    time.sleep(unit.data.get("seconds", 0))
    raise ValueError("raised on purpose")


@worker.task("again")
def again(unit):
    if unit.attempt_number < 3:
        raise coordinate.Retry(0.1, {"try": unit.attempt_number})
    return {"tries": unit.attempt_number}


@worker.task("later")
def later(unit):
    if unit.attempt_number < 3:
        raise coordinate.Snooze(0.1)


@worker.task("leaves")
def leaves(unit):
    sys.exit(3)


@worker.task("dies")
def dies(unit):
    if unit.data.get("die"):
        os._exit(7)
    return {"ran": True}


@worker.task("slow")
def slow(unit):
    with open(unit.data["file"], "a") as file:
        file.write("%s %d\n" % (unit.name, os.getpid()))
    time.sleep(unit.data.get("seconds", 600))
    return {"slept": True}


@worker.task("short", timeout=1)
def short(unit):
    subprocess.Popen(["sleep", "613"])
    time.sleep(600)


@worker.task("extends", timeout=1)
def extends(unit):
    unit.update(30)
    time.sleep(2.5)
    return {"extended": True}


@worker.task("progress")
def progress(unit):
    for percent in (50, 100):
        unit.progress(percent=percent)
    wait_for_file(unit)


@worker.task("reports")
def reports(unit):
    for done in range(50):
        unit.progress(done / 100, "row %d" % done)
    unit.progress(0.5, "half", rows=(1, 2))
    wait_for_file(unit)
    try:
        unit.progress(40)
    except coordinate.BadArgument as error:
        return {"refused": str(error)}


@worker.task("hopeless")
def hopeless(unit):
    raise coordinate.Fail("no such file", unit.data.get("left"))


@worker.task("hopeless_batch", batch=True)
def hopeless_batch(units):
    units[0].finish({"first": True})
    raise coordinate.Fail("the rest is bad")


@worker.task("logs")
def logs(unit):
    logging.getLogger("mine").warning("said by %s", unit.name)
    print("printed by", unit.name)


@worker.task("writes")
def writes(unit):
    unit.log("begin")
    unit.log("hm", level="warn")
    wait_for_file(unit)
    unit.log("end")


@worker.task("lingers")
def lingers(unit):
    """Leaves a thread behind that goes on as if the unit were still its own."""

    def go_on():
        try:
            for row in range(100):
                unit.log("row %d" % row)
                unit.progress(row=row)
        except coordinate.LostLease:
            time.sleep(0.01)
            unit.log("too late")

    threading.Thread(target=go_on, daemon=True).start()
    time.sleep(0.01)


@worker.task("unstorable")
def unstorable(unit):
    return {"bad": object()}


@worker.task("too_large")
def too_large(unit):
    return {"much": "x" * (17 * 1024 * 1024)}


@worker.task("oversteps")
def oversteps(unit):
    unit.data["much"] = "x" * (17 * 1024 * 1024)
    try:
        unit.update()
    except coordinate.TooLarge as error:
        time.sleep(1)
        return {"refused": error.code}


@worker.task("together", batch=True)
def together(units):
    with open(units[0].data["file"] + "-begun", "a") as file:
        file.writelines(unit.name + "\n" for unit in units)
    wait_for_file(units[0])


@worker.task("sums", batch=True)
def sums(units):
    total = sum(unit.data["n"] for unit in units)
    return [{"n": unit.data["n"], "total": total, "of": len(units)} for unit in units]


@worker.task("half", batch=True)
def half(units):
    units[0].finish({"first": True})
    raise ValueError("no more than that")


@worker.task("batch_dies", batch=True)
def batch_dies(units):
    if any(unit.data.get("die") for unit in units):
        os._exit(9)


@worker.task("gives_up")
def gives_up(unit):
    unit.fail("not today")


def old_job(unit, least, most=None):
    unit.data["seen"] = [unit.key, unit.spec["module"], least, most, coordinate.WorkUnit is type(unit)]
    unit.data["output"] = {unit.key: {"from": "old"}}


def old_reports(unit):
    unit.progress(0.25, "a quarter", rows=3)
    wait_for_file(unit)


def old_slow(unit):
    open(unit.data["file"], "w").write("began")
    time.sleep(600)


def old_end(unit):
    open(unit.data["file"], "w").write("cleaned " + unit.key)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.address, worker.namespace = sys.argv[1:3]
    worker.processes = "threads" not in sys.argv
    worker.modules = True
    worker.run()
