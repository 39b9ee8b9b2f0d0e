"""Everything from the first spec to the last unit, by a parent and four workers. Prints what it found as JSON.

Usage: flow.py PORT
"""

import json
import os
import subprocess
import sys
import uuid

from coordinate_client import Client, Failed, either


def main():
    port = int(sys.argv[1])
    client = Client("127.0.0.1", port)
    here = os.path.dirname(os.path.abspath(__file__))
    for name, function, then in ((b"count", b"count", b"measure"), (b"measure", b"measure", None)):
        spec = {b"name": name, b"min_gb": 1, b"module": "jobs", b"run_function": function.decode("ascii")}
        if then is not None:
            spec[b"then"] = then
        assert client.call("set_work_spec", spec) == [True, None]
    assert [either(spec, "name") for spec in client.call("list_work_specs", {})[0]] == [b"count", b"measure"]

    forms = (b"map", b"tuples", b"names")
    units = [(b"unit %03d" % i, {b"text": b"one two three", b"form": forms[i % 3]}) for i in range(60)]
    units += [(b"\x80\xff", {b"text": b"x", b"form": b"map"}), (b"broken", {b"text": b"", b"form": b"map"})]
    assert client.call("add_work_units", b"count", units) == [True, None]

    # values come back as they went in
    rich = {b"b": b"\xff\x00", "t": "\u00e9", b"i": 1, b"f": 1.0, b"big": 1 << 70, b"u": uuid.UUID(int=5), b"n": None, b"x": (1, [()], {b"k": (2,)})}
    assert client.call("set_work_spec", {b"name": b"rich", b"min_gb": 1, b"disabled": True}) == [True, None]
    assert client.call("add_work_units", b"rich", [(b"r", rich)]) == [True, None]
    back = client.call("get_work_units", b"rich", {b"work_unit_keys": [b"r"]})
    assert back == [[(b"r", rich)], None], back
    assert type(back[0][0][1][b"f"]) is float and type(back[0][0][1][b"i"]) is int

    assert client.call("worker_heartbeat", b"parent", b"RUN", 60, {b"pid": os.getpid()}, None) == [True, None]
    workers = [
        subprocess.Popen([sys.executable, os.path.join(here, "worker.py"), str(port), "child%d" % i, "parent"], stdout=subprocess.PIPE, text=True)
        for i in range(4)
    ]
    ran = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    # a worker leaves when it finds nothing, and another may chain more after that
    last = subprocess.run([sys.executable, os.path.join(here, "worker.py"), str(port), "last", "parent"], capture_output=True, text=True, check=True)
    ran.append(int(last.stdout))

    try:
        client.call("no_such_thing")
        raise AssertionError("no error")
    except Failed as failed:
        message = str(failed)
    broken = client.call("get_work_unit_status", b"count", [b"broken", b"none"])[0]
    print(
        json.dumps(
            {
                "ran": sum(ran),
                "count": {str(k): v for k, v in client.call("count_work_units", b"count")[0].items()},
                "measure": {str(k): v for k, v in client.call("count_work_units", b"measure")[0].items()},
                "broken": [either(broken[0], "status"), b"this one fails" in either(broken[0], "traceback"), broken[1]],
                "modes": client.call("list_worker_modes")[0],
                "children": client.call("get_child_work_units", b"parent")[0],
                "error": message,
            }
        )
    )
    client.close()


if __name__ == "__main__":
    main()
