"""Jobs for the tests of the Python runtime. Each does one thing."""
import logging
import os
import subprocess
import sys
import time
import uuid


def double(unit):
    unit.data["twice"] = unit.data["n"] * 2


def untouched(unit):
    unit.data["n"]


def chain(unit):
    unit.data["output"] = {unit.key + "-next": {"from": unit.key}}


def described(unit):
    unit.data["seen"] = [unit.key, unit.work_spec_name, unit.spec_name, unit.spec["config"]["depth"], unit.attempt_number]
    unit.data["key_bytes"] = unit.key_bytes


def params(unit, first, second=None):
    unit.data["params"] = [first, second]


def kinds(unit):
    data = unit.data
    data["types"] = {key: type(value).__name__ for key, value in data.items()}
    data["made"] = {
        "bytes": b"\x00\xff",
        "tuple": (1, 2.0, "x"),
        "uuid": uuid.UUID("12345678-1234-1234-1234-123456789abc"),
        "float": 1.0,
        "big": 2 ** 80,
        "negative": -(2 ** 70),
        "nan": float("inf"),
        "keys": {1: "one", b"b": 2},
    }


def raises(unit):
    unit.data["before"] = True
    raise ValueError("raised on purpose")


def leaves(unit):
    sys.exit(3)


def dies(unit):
    if unit.data.get("die"):
        print("about to die", file=sys.stderr)
        os._exit(7)
    unit.data["ran"] = True


def unstorable(unit):
    unit.data["bad"] = object()


def too_large(unit):
    unit.data["much"] = "x" * (17 * 1024 * 1024)


def not_a_dict(unit):
    unit.data = 5


def finishes_itself(unit):
    unit.data["a"] = 1
    unit.finish()
    unit.data["b"] = 2


def fails_itself(unit):
    unit.fail(ValueError("not today"))


def renews(unit):
    before = unit.expires
    unit.data["half"] = True
    unit.update()
    unit.data["renewed"] = True


def gives_back(unit):
    if unit.attempt_number == 1:
        unit.update(-1)
        return
    unit.data["attempts"] = unit.attempt_number


def loses(unit):
    unit.update(-1)
    unit.update(10)  # raises LostLease


def prints(unit):
    print("printed by", unit.key)
    print("to stderr by", unit.key, file=sys.stderr)
    logging.getLogger("jobs").info("logged by %s", unit.key)
    os.write(1, b"raw bytes \xff\n")


def sleeps(unit):
    open(unit.data["file"], "w").write("began")
    time.sleep(600)


def spawns(unit):
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    open(unit.data["file"], "w").write(str(child.pid))
    time.sleep(600)


def cleans_up(unit):
    open(unit.data["file"], "w").write("cleaned " + unit.key)


def grows(unit):
    kept = []
    while True:
        kept.append(bytearray(8 * 1024 * 1024))
        time.sleep(0.005)


def pid(unit):
    unit.data["pid"] = os.getpid()


def imports(unit):
    import coordinate
    from coordinate.errors import LostLease

    unit.data["same"] = [coordinate.WorkUnit is type(unit), LostLease is unit.LostLease, coordinate.LostLease is LostLease]
