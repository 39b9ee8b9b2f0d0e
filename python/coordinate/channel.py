"""Messages between a supervisor and a child process, over a socket.

    frame    two lengths (32 bits each, most significant byte first), a head, a body
    head     JSON: the kind of the message, its fields, and the size of each piece of data
    body     the pieces of data one after the other, JSON text or CBOR bytes

The supervisor is the Python worker, or the worker of Node: both say `start`, `run`, `answer` and `skip`, and hear `ready`,
`failed`, `begin`, `settle`, `progress`, `log`, `lines` and `done`.
"""

import json
import select
import socket
import struct
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

Head = Dict[str, Any]
Pieces = List[Optional[bytes]]


class Ended(Exception):
    """The peer has closed the connection."""


class Channel:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lock = threading.RLock()
        self._received = bytearray()
        self._waiting: List[bytes] = []
        #: The main thread is writing. A signal must not begin another frame inside this one; it sets `after_send`.
        self.sending = False
        self.after_send: Optional[Callable[[], None]] = None

    def send(self, head: Head, data: Sequence[Optional[bytes]] = (), flush: bool = True) -> None:
        """Without `flush` the message goes out with the next one that has it."""
        pieces = [piece for piece in data if piece is not None]
        head["sizes"] = [-1 if piece is None else len(piece) for piece in data]
        text = json.dumps(head).encode("ascii")
        frame = b"".join([struct.pack(">II", len(text), sum(map(len, pieces))), text, *pieces])
        is_main = threading.current_thread() is threading.main_thread()
        with self._lock:
            self.sending = self.sending or is_main
            self._waiting.append(frame)
            if flush:
                frames, self._waiting = b"".join(self._waiting), []
                try:
                    self._socket.sendall(frames)
                except OSError as error:
                    raise Ended(str(error)) from error
            if is_main:
                self.sending = False
        if is_main and self.after_send is not None:
            after, self.after_send = self.after_send, None
            after()

    def receive(self) -> Tuple[Head, Pieces]:
        head_length, body_length = struct.unpack(">II", self._take(8))
        head = json.loads(self._take(head_length))
        pieces: Pieces = [None if size < 0 else self._take(size) for size in head.get("sizes", ())]
        return head, pieces

    def has_message(self) -> bool:
        return bool(self._received) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                chunk = self._socket.recv(1 << 18)
            except OSError as error:
                raise Ended(str(error)) from error
            if not chunk:
                raise Ended("end of the connection")
            self._received += chunk
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken
