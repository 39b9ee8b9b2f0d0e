"""A child process that runs Python jobs for a Coordinate worker.

It speaks over file descriptor 3 only: whatever a job prints goes to the log. It holds no connection to a
coordinator; what a job wants done is said to the supervisor, which does it. It needs nothing but Python 3.7.

A job is a function of a module, called with a work unit:

    def run(work_unit):
        work_unit.data["output"] = {"next": {"size": len(work_unit.data["text"])}}

Returning finishes the unit, an exception fails it; changed data is saved either way.
"""
import importlib
import json
import logging
import math
import os
import signal
import socket
import struct
import sys
import threading
import traceback
import uuid


# ---- data: JSON text or CBOR bytes, in the encoding that the supervisor carries it in


class Unstorable(ValueError):
    """A value that data cannot hold."""


def decode_data(raw):
    if raw is None:
        return {}
    if 0xA0 <= raw[0] <= 0xBF:
        return CborReader(raw).item()
    return json.loads(raw.decode("utf-8"))


def encode_data(value, like_cbor):
    """JSON where it says everything and the unit's data came as JSON; else CBOR."""
    if not isinstance(value, dict):
        raise Unstorable("the data of a work unit is a dict, not %s" % type(value).__name__)
    if not like_cbor and is_plain(value):
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    out = []
    write_cbor(value, out)
    return b"".join(out)


def is_plain(value):
    """Whether JSON tells all there is to tell: no tuples, bytes, UUIDs, keys other than text, NaN or infinities."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if kind is list:
        return all(is_plain(item) for item in value)
    return False


TAG_BIG, TAG_NEGATIVE_BIG, TAG_UUID, TAG_TUPLE = 2, 3, 37, 128


def cbor_head(major, number):
    major <<= 5
    if number < 24:
        return bytes((major | number,))
    if number < 1 << 8:
        return struct.pack(">BB", major | 24, number)
    if number < 1 << 16:
        return struct.pack(">BH", major | 25, number)
    if number < 1 << 32:
        return struct.pack(">BI", major | 26, number)
    return struct.pack(">BQ", major | 27, number)


def write_cbor(value, out):
    if value is None:
        out.append(b"\xf6")
    elif value is True:
        out.append(b"\xf5")
    elif value is False:
        out.append(b"\xf4")
    elif isinstance(value, int):
        write_integer(int(value), out)
    elif isinstance(value, float):
        out.append(b"\xfb" + struct.pack(">d", value))
    elif isinstance(value, str):
        write_text(value, out)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        out.append(cbor_head(2, len(raw)))
        out.append(raw)
    elif isinstance(value, uuid.UUID):
        out.append(cbor_head(6, TAG_UUID) + cbor_head(2, 16) + value.bytes)
    elif isinstance(value, (list, tuple)):
        if isinstance(value, tuple):
            out.append(cbor_head(6, TAG_TUPLE))
        out.append(cbor_head(4, len(value)))
        for item in value:
            write_cbor(item, out)
    elif isinstance(value, dict):
        out.append(cbor_head(5, len(value)))
        for key, item in value.items():
            write_cbor(key, out)
            write_cbor(item, out)
    else:
        raise Unstorable("data cannot hold a value of type %s" % type(value).__name__)


def write_integer(value, out):
    magnitude = value if value >= 0 else -1 - value
    if magnitude < 1 << 64:
        out.append(cbor_head(0 if value >= 0 else 1, magnitude))
        return
    raw = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
    out.append(cbor_head(6, TAG_BIG if value >= 0 else TAG_NEGATIVE_BIG))
    out.append(cbor_head(2, len(raw)) + raw)


def write_text(value, out):
    try:
        raw = value.encode("utf-8")
        out.append(cbor_head(3, len(raw)))
    except UnicodeEncodeError:
        # Bytes that are not UTF-8 are carried in text as escapes; they go out as the bytes they are.
        raw = value.encode("utf-8", "surrogateescape")
        out.append(cbor_head(2, len(raw)))
    out.append(raw)


class CborReader:
    """Reads what the supervisor has checked to be well formed."""

    def __init__(self, raw):
        self.raw = raw
        self.at = 0

    def take(self, count):
        self.at += count
        return self.raw[self.at - count : self.at]

    def item(self):
        first = self.raw[self.at]
        major, short = first >> 5, first & 31
        self.at += 1
        if major == 7:
            return self.simple(short)
        if short == 31:
            return self.indefinite(major)
        number = short if short < 24 else int.from_bytes(self.take(1 << (short - 24)), "big")
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == 2:
            return self.take(number)
        if major == 3:
            return self.take(number).decode("utf-8", "surrogateescape")
        if major == 4:
            return [self.item() for _ in range(number)]
        if major == 5:
            return self.entries(number)
        return self.tagged(number)

    def entries(self, count):
        # Not a comprehension: Python 3.7 evaluates the value of one before its key.
        found = {}
        for _ in range(count):
            key = self.key()
            found[key] = self.item()
        return found

    def key(self):
        key = self.item()
        # an array may be a key; Python wants one that does not change
        return tuple(key) if isinstance(key, list) else key

    def tagged(self, tag):
        content = self.item()
        if tag == TAG_TUPLE:
            return tuple(content)
        if tag == TAG_UUID:
            return uuid.UUID(bytes=content)
        if tag == TAG_BIG:
            return int.from_bytes(content, "big")
        if tag == TAG_NEGATIVE_BIG:
            return -1 - int.from_bytes(content, "big")
        return content

    def simple(self, short):
        if short == 20:
            return False
        if short == 21:
            return True
        if short == 25:
            return struct.unpack(">e", self.take(2))[0]
        if short == 26:
            return struct.unpack(">f", self.take(4))[0]
        if short == 27:
            return struct.unpack(">d", self.take(8))[0]
        if short == 24:
            self.take(1)
        return None

    def indefinite(self, major):
        items = []
        while self.raw[self.at] != 0xFF:
            items.append(self.key() if major == 5 and len(items) % 2 == 0 else self.item())
        self.at += 1
        if major == 2:
            return b"".join(items)
        if major == 3:
            return "".join(items)
        return dict(zip(items[::2], items[1::2])) if major == 5 else items


# ---- the channel


class Channel:
    def __init__(self, fd):
        os.set_inheritable(fd, False)
        self.socket = socket.socket(fileno=fd)
        self.lock = threading.RLock()
        self.sending = False
        self.after_send = None

    def send(self, head, data=()):
        pieces = [piece for piece in data if piece is not None]
        head["sizes"] = [-1 if piece is None else len(piece) for piece in data]
        text = json.dumps(head).encode("ascii")
        frame = b"".join([struct.pack(">II", len(text), sum(map(len, pieces))), text] + pieces)
        is_main = threading.current_thread() is threading.main_thread()
        with self.lock:
            # Signals interrupt the main thread only: they must not begin another frame inside this one.
            self.sending = self.sending or is_main
            self.socket.sendall(frame)
            if is_main:
                self.sending = False
        if is_main and self.after_send is not None:
            after, self.after_send = self.after_send, None
            after()

    def receive(self):
        head_length, body_length = struct.unpack(">II", self.read(8))
        head = json.loads(self.read(head_length).decode("utf-8"))
        data = []
        for size in head.get("sizes", []):
            data.append(None if size < 0 else self.read(size))
        return head, data

    def read(self, count):
        chunks = []
        while count > 0:
            chunk = self.socket.recv(min(count, 1 << 20))
            if not chunk:
                leave(0)  # the supervisor is gone
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)


def leave(code):
    """Ends the process now: no job's clean-up may hold it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # nobody reads it any more
    os._exit(code)


# ---- the work unit


class LostLease(Exception):
    """The unit belongs to somebody else now, or is settled. A job that lets it pass reports nothing."""


class ProgrammerError(Exception):
    """The work spec does not say what to run."""


class WorkUnit:
    """One unit, as its job sees it."""

    LostLease = LostLease

    def __init__(self, shim, head, raw, spec, spec_name):
        self._shim = shim
        self._attempt = head["id"]
        self._raw = raw
        self._sent = None
        self.key = head["workUnit"]
        self.data = decode_data(raw)
        self.spec = spec
        self.work_spec_name = self.spec_name = spec_name
        self.worker_id = head["worker"]
        self.expires = head["expirationTime"] / 1000.0
        self.attempt_number = head["number"]
        self.finished = False
        self.failed = False
        self._released = False

    @property
    def key_bytes(self):
        """The name as the bytes it is; names need not be text."""
        return self.key.encode("utf-8", "surrogateescape")

    @property
    def settled(self):
        return self.finished or self.failed or self._released

    def update(self, lease_time=None):
        """Saves changed data and renews the lease, in seconds from now; below zero the unit is given back at once."""
        if self.settled:
            raise LostLease("%s: already settled" % self.key)
        seconds = self._shim.default_lifetime if lease_time is None else lease_time
        data = self._changed()
        self._shim.ask(
            {"kind": "settle", "attempt": self._attempt, "action": "renew", "lifetimeMs": int(seconds * 1000)}, [data]
        )
        if data is not None:
            self._sent = data
        if seconds <= 0:
            self._released = True

    def finish(self):
        if self.settled:
            return
        self._settle("finish", self._changed())
        self.finished = True

    def fail(self, exc=None):
        """With an exception, its traceback is saved in the data."""
        if self.settled:
            return
        if exc is not None:
            self._note(exc)
        try:
            data = self._changed()
        except Exception as error:
            # What the job left in its data cannot be stored: the failure is what must not be lost.
            self.data = decode_data(self._raw)
            self._note("%s\nand its data was lost: %s" % (text_of(exc), error))
            data = self._changed()
        self._settle("fail", data)
        self.failed = True

    def _note(self, exc):
        if isinstance(self.data, dict):
            self.data["traceback"] = text_of(exc)

    def _settle(self, action, data):
        # Not waited for: the next unit can begin while this one is stored.
        self._shim.channel.send({"kind": "settle", "ref": 0, "attempt": self._attempt, "action": action}, [data])

    def _changed(self):
        """The data as it shall be stored; None when it is as it was."""
        like_cbor = self._raw is not None and 0xA0 <= self._raw[0] <= 0xBF
        data = encode_data(self.data, like_cbor)
        before = self._sent
        if before is None:
            before = encode_data(decode_data(self._raw), like_cbor)
        return None if data == before else data


def text_of(exc):
    if isinstance(exc, BaseException):
        return "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    return str(exc)


# ---- the child


class Shim:
    def __init__(self):
        self.channel = Channel(3)
        self.default_lifetime = 900
        self.refs = 0
        self.asking = threading.RLock()
        self.unit = None
        self.terminate = None

    def main(self):
        signal.signal(signal.SIGTERM, self.on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            head, data = self.channel.receive()
            if head["kind"] == "start":
                self.start(head)
            elif head["kind"] == "run":
                self.run(head, data)

    def start(self, head):
        self.default_lifetime = head.get("defaultLifetime", 900)
        # The modules of the user, not those beside this file; and data may be nested 512 deep.
        sys.path[0] = os.getcwd()
        sys.setrecursionlimit(20000)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        logging.getLogger().addHandler(LogHandler(self.channel))
        logging.getLogger().setLevel(logging.INFO)
        self.channel.send({"kind": "ready", "taskNames": []})

    def run(self, head, data):
        spec = decode_data(data[0])
        error = None
        function = None
        try:
            function = load(spec, "run_function")
            self.terminate = load(spec, "terminate_function") if get(spec, "terminate_function") else None
        except Exception:
            error = {"text": traceback.format_exc(), "retryMs": None}
        if error is None:
            for unit, raw in zip(head["units"], data[1:]):
                self.run_unit(WorkUnit(self, unit, raw, spec, head["workSpec"]), function)
        self.channel.send({"kind": "done", "error": error})

    def run_unit(self, unit, function):
        self.channel.send({"kind": "begin", "attempt": unit._attempt})
        self.unit = unit
        try:
            params = get(unit.spec, "run_params")
            if isinstance(params, dict):
                function(unit, **{text(key): value for key, value in params.items()})
            else:
                function(unit, *(params or ()))
            unit.finish()
        except BaseException as error:  # a job that calls sys.exit() has failed like any other
            if any(kind.__name__ == "LostLease" for kind in type(error).__mro__):
                logging.warning("%s: lost its lease", unit.key)
            else:
                unit.fail(error)
        self.unit = None

    def ask(self, head, data):
        with self.asking:
            return self.ask_alone(head, data)

    def ask_alone(self, head, data):
        self.refs += 1
        head["ref"] = self.refs
        self.channel.send(head, data)
        while True:
            answer, _ = self.channel.receive()
            if answer["kind"] != "answer" or answer["ref"] != head["ref"]:
                continue
            error = answer.get("error")
            if error is None:
                return answer
            if error["code"] in ("lost_lease", "not_pending", "gone", "no_such_attempt"):
                raise LostLease("%s: %s" % (error["code"], error["value"]))
            raise RuntimeError("%s: %s" % (error["code"], error["value"]))

    def on_terminate(self, _signum, _frame):
        if self.channel.sending:
            self.channel.after_send = self.end
        else:
            self.end()

    def end(self):
        """The time of the unit is up: its module may clean up. The supervisor kills what takes too long."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        unit, self.unit = self.unit, None
        if unit is not None and self.terminate is not None:
            try:
                self.terminate(unit)
            except BaseException:
                traceback.print_exc()
        leave(143)


class LogHandler(logging.Handler):
    def __init__(self, channel):
        super().__init__()
        self.channel = channel

    def emit(self, record):
        level = "debug"
        for name, number in (("info", logging.INFO), ("warn", logging.WARNING), ("error", logging.ERROR)):
            if record.levelno >= number:
                level = name
        try:
            self.channel.send({"kind": "log", "level": level, "text": self.format(record), "details": {"logger": record.name}})
        except Exception:
            self.handleError(record)


def text(value):
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def get(spec, key):
    """A key of a work spec: Python sends text and bytes for the same."""
    return text(spec.get(key, spec.get(key.encode("ascii"))))


def load(spec, key):
    module, name = get(spec, "module"), get(spec, key)
    if not module or not name:
        raise ProgrammerError("the work spec has no module or no %s" % key)
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    Shim().main()
