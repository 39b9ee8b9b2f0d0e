"""What tasks of all subjects do: count, in a file that all processes share."""

import mmap
import os
import struct
import time

_SLOTS = 65536
_files = {}


def _shared():
    pid = os.getpid()
    if pid not in _files:
        with open(os.environ["BENCH_COUNTS"], "r+b") as file:
            _files[pid] = mmap.mmap(file.fileno(), 0)
    return _files[pid]


def create(path):
    with open(path, "wb") as file:
        file.truncate(_SLOTS * 8 + 8)


def count(number=1):
    shared, at = _shared(), os.getpid() % _SLOTS * 8
    struct.pack_into("<q", shared, at, struct.unpack_from("<q", shared, at)[0] + number)


def total():
    shared = _shared()
    return sum(struct.unpack_from("<%dq" % _SLOTS, shared, 0))


def started():
    """The time at which a task started."""
    struct.pack_into("<d", _shared(), _SLOTS * 8, time.time())


def last_start():
    return struct.unpack_from("<d", _shared(), _SLOTS * 8)[0]
