"""CBOR-RPC: the wire of the Python 2 package, one call after the other on one connection."""

import logging
import socket
import threading
import time
from typing import Any, List, Optional, Tuple

from . import cbor
from .errors import CoordinateError, ProgrammerError

logger = logging.getLogger("coordinate")


class RpcError(CoordinateError, code=False):
    """The server refused the call"""


class CborRpc:
    """Calls methods of a server. A call whose connection failed is sent again, later each time."""

    def __init__(
        self, host: str, port: int, retries: int = 5, base_retry_seconds: float = 0.5, token: Optional[str] = None
    ) -> None:
        self._address = (host, port)
        self._token = token
        self._retries = retries
        self._base = base_retry_seconds
        self._socket: Optional[socket.socket] = None
        self._received = b""
        self._lock = threading.Lock()
        self._id = 0

    def call(self, method: str, *params: Any) -> Any:
        with self._lock:
            for tries in range(self._retries + 1):
                try:
                    if self._socket is None:
                        self._connect()
                    return self._ask(method, list(params))
                except OSError as error:
                    self._drop()
                    if tries == self._retries:
                        raise
                    pause = self._base * 2.0**tries
                    logger.debug("%s: %s; again in %g s", method, error, pause)
                    time.sleep(pause)
        raise AssertionError("not reached")

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        if self._token is None:
            return
        try:
            self._ask("coordinate.authenticate", [self._token])
        except RpcError as error:
            # A server that does not know the method wants no token.
            if "no such method" not in str(error):
                self._drop()
                raise

    def _ask(self, method: str, params: List[Any]) -> Any:
        self._id += 1
        request = cbor.dumps({"id": self._id, "method": method.encode("ascii"), "params": params})
        return self._result(self._exchange(cbor.head(6, cbor.TAG_EMBEDDED) + cbor.head(2, len(request)) + request))

    def _exchange(self, frame: bytes) -> Any:
        assert self._socket is not None
        self._socket.sendall(frame)
        pieces = [self._received] if self._received else []
        while True:
            chunk = self._socket.recv(1 << 20)
            if not chunk:
                raise ConnectionResetError("the server closed the connection")
            pieces.append(chunk)
            received = b"".join(pieces)
            pieces = [received]
            # The head of the frame says how long it is: a long answer is read once, and not at each piece.
            if len(received) < _frame_length(received):
                continue
            try:
                response, end = cbor.decode(received, 0)
            except cbor.Truncated:
                continue
            self._received = received[end:]
            return response

    def _result(self, response: Any) -> Any:
        answer = {_text(key): value for key, value in response.items()}
        if answer.get("id") != self._id:
            self._drop()
            raise RpcError("the answer is for call %r, not %d" % (answer.get("id"), self._id))
        if "result" in answer:
            return answer["result"]
        error = answer.get("error")
        message = {_text(key): value for key, value in error.items()}.get("message") if isinstance(error, dict) else None
        raise RpcError(message=_text(message) if message else repr(answer))

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _frame_length(received: bytes) -> int:
    """Of tag 24 around bytes, as every server writes it; 0 where that cannot be told."""
    if received[:2] != b"\xd8\x18" or len(received) < 3:
        return 0
    short = received[2] & 31
    if short < 24:
        return 3 + short
    width = 1 << (short - 24)
    return 3 + width + int.from_bytes(received[3 : 3 + width], "big") if short < 28 else 0


def parse_address(address: Any) -> Tuple[str, int]:
    """`"host:port"`, or a list or tuple of both."""
    if isinstance(address, str):
        host, _, port = address.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
    else:
        try:
            host, port = address
        except (TypeError, ValueError):
            host, port = "", ""
    try:
        number = int(port)
    except (TypeError, ValueError):
        number = 0
    if not host or not 0 < number < 65536:
        raise ProgrammerError("address: expected host:port, got %r" % (address,))
    return host, number
