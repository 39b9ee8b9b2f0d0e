"""A client of the CBOR-RPC protocol, written from its description with the standard library alone.

It does what the old Python 2 client did, in Python 3: bytes are byte strings, str is text, tuples are tag 128, and an
answer's key may come as either. Frames are tag 24 around a byte string; one request at a time on one connection; a
connection that is reset is made anew and the same bytes are sent again.
"""

import socket
import struct
import time
import uuid


class Failed(Exception):
    """The server answered with an error."""


def _head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    for info, size, form in ((24, 1 << 8, ">B"), (25, 1 << 16, ">H"), (26, 1 << 32, ">I"), (27, 1 << 64, ">Q")):
        if value < size:
            return bytes([major << 5 | info]) + struct.pack(form, value)
    raise ValueError(value)


def encode(value):
    if value is None:
        return b"\xf6"
    if value is True:
        return b"\xf5"
    if value is False:
        return b"\xf4"
    if isinstance(value, int):
        if 0 <= value < 1 << 63:
            return _head(0, value)
        if -(1 << 63) <= value < 0:
            return _head(1, -1 - value)
        magnitude = value if value >= 0 else -1 - value
        content = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
        return _head(6, 2 if value >= 0 else 3) + encode(content)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        content = value.encode("utf-8")
        return _head(3, len(content)) + content
    if isinstance(value, tuple):
        return _head(6, 128) + _head(4, len(value)) + b"".join(map(encode, value))
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        return _head(5, len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())
    if isinstance(value, uuid.UUID):
        return _head(6, 37) + encode(value.bytes)
    raise ValueError(type(value))


class _Reader:
    def __init__(self, read):
        self.read = read

    def item(self):
        first = self.read(1)[0]
        major, info = first >> 5, first & 31
        if major == 7:
            return self._simple(first)
        if info < 24:
            value = info
        elif info <= 27:
            size = 1 << (info - 24)
            value = int.from_bytes(self.read(size), "big")
        else:
            raise ValueError("unexpected head %#x" % first)
        if major == 0:
            return value
        if major == 1:
            return -1 - value
        if major == 2:
            return self.read(value)
        if major == 3:
            return self.read(value).decode("utf-8")
        if major == 4:
            return [self.item() for _ in range(value)]
        if major == 5:
            result = {}
            for _ in range(value):
                key = self.item()
                result[key] = self.item()
            return result
        return self._tagged(value, self.item())

    @staticmethod
    def _tagged(tag, value):
        if tag == 24:
            return decode(value)
        if tag == 128:
            return tuple(value)
        if tag == 37:
            return uuid.UUID(bytes=value)
        if tag == 2:
            return int.from_bytes(value, "big")
        if tag == 3:
            return -1 - int.from_bytes(value, "big")
        raise ValueError("unknown tag %d" % tag)

    def _simple(self, first):
        if first == 0xFB:
            return struct.unpack(">d", self.read(8))[0]
        return {0xF4: False, 0xF5: True, 0xF6: None, 0xF7: None}[first]


def decode(data):
    at = 0

    def read(size):
        nonlocal at
        if at + size > len(data):
            raise EOFError
        at += size
        return data[at - size : at]

    return _Reader(read).item()


def either(mapping, name):
    """The value of a key that may be text or bytes."""
    return mapping[name] if name in mapping else mapping[name.encode("ascii")]


class Client:
    def __init__(self, host, port, retries=5, pause=0.05):
        self.address = (host, port)
        self.retries = retries
        self.pause = pause
        self.sock = None
        self.stream = None
        self.id = 0
        self.reconnects = 0

    def call(self, method, *params):
        self.id += 1
        message = encode({b"params": list(params), b"id": self.id, b"method": method.encode("ascii")})
        frame = _head(6, 24) + encode(message)
        for attempt in range(self.retries + 1):
            try:
                if self.sock is None:
                    self.sock = socket.create_connection(self.address)
                    self.stream = self.sock.makefile("rb")
                self.sock.sendall(frame)
                answer = _Reader(self._read).item()
                break
            except OSError:
                self.close()
                self.reconnects += 1
                if attempt == self.retries:
                    raise
                time.sleep(self.pause * 2**attempt)
        assert either(answer, "id") == self.id, answer
        if b"result" in answer:
            return answer[b"result"]
        raise Failed(either(either(answer, "error"), "message"))

    def _read(self, size):
        data = self.stream.read(size)
        if len(data) < size:
            # an orderly end: the old client fails here, and so does this one
            raise EOFError("the server said goodbye")
        return data

    def close(self):
        if self.sock is not None:
            self.stream.close()
            self.sock.close()
            self.sock = None
