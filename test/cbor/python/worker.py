"""A small worker: registers, asks for work, runs the function that the work spec names, says what became of it.

As the old worker did, it finishes every unit twice, fails a unit whose function raises, and leaves when there is no
work. Usage: worker.py PORT WORKER_ID PARENT_ID
"""

import importlib
import os
import sys
import traceback

from coordinate_client import Client, either

FINISHED, FAILED = 4, 5


def run_one(client, worker_id):
    (spec_name, key, data), message = client.call("get_work", worker_id, {b"available_gb": 4.0, b"lease_time": 900, b"max_jobs": 1})
    assert message is None, message
    if spec_name is None:
        return False
    assert isinstance(spec_name, str) and isinstance(key, bytes) and isinstance(data, dict), (spec_name, key, data)
    spec = client.call("get_work_spec", spec_name)
    module, function = either(spec, "module"), either(spec, "run_function")
    assert isinstance(module, bytes) and isinstance(function, bytes), spec
    run = getattr(importlib.import_module(module.decode("ascii")), function.decode("ascii"))
    try:
        data = run(key, data)
        client.call("update_work_unit", spec_name, key, {b"status": FINISHED, b"data": data})
        client.call("update_work_unit", spec_name, key, {b"status": FINISHED})
    except Exception:
        data = dict(data)
        data[b"traceback"] = traceback.format_exc().encode("utf-8")
        client.call("update_work_unit", spec_name, key, {b"status": FAILED, b"data": data})
    return True


def main():
    port, worker_id, parent_id = int(sys.argv[1]), sys.argv[2].encode("ascii"), sys.argv[3].encode("ascii")
    client = Client("127.0.0.1", port)
    environment = {b"worker_id": worker_id, b"parent": parent_id, b"pid": os.getpid(), b"memory": (1, 2, 0.5)}
    assert client.call("worker_heartbeat", worker_id, b"RUN", 6000, environment, parent_id) == [True, None]
    done = 0
    while run_one(client, worker_id):
        done += 1
    assert client.call("worker_unregister", worker_id) == [True, None]
    client.close()
    print(done)


if __name__ == "__main__":
    main()
