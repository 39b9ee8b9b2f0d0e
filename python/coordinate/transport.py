"""How requests reach a server: one exchange on a connection that is kept for the next.

The exchange is written once, for connections that block (`SocketConnection`, below) and for those of asyncio (in
`aio`). A connection that blocks never suspends the coroutine it is used in, which is therefore run to its end by `drive`.
"""

import os
import select
import socket
import ssl
import threading
import time
import urllib.parse
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
    Union,
)

from .errors import BadArgument
from .http1 import Malformed, Response, chunk, request_head

T = TypeVar("T")

_CHUNK = 262144


class TransportError(Exception):
    """The request was not answered. `sent` is False when it cannot have reached the server, so that repeating it is safe."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Address:
    """`http://host:port`, `https://host:port` or `unix:/path`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.path = ""
        self.prefix = ""
        self.tls = False
        self.port = 0
        if text.startswith("unix:") and len(text) > 5:
            self.path = text[5:]
            self.host = "localhost"
            self.authority = "localhost"
            return
        parts = urllib.parse.urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadArgument("address: expected http://host:port, https://host:port or unix:/path, got %r" % text)
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        try:
            self.port = parts.port or (443 if self.tls else 80)
        except ValueError as error:
            raise BadArgument("address: %s in %r" % (error, text)) from None
        self.authority = parts.netloc.rpartition("@")[2]
        self.prefix = parts.path.rstrip("/")


class Connection:
    """What a transport needs of a connection. `read` gives b"" at the end; failures are OSErrors."""

    async def write(self, raw: bytes) -> None:
        raise NotImplementedError

    async def read(self, timeout: Optional[float]) -> bytes:
        raise NotImplementedError

    def has_input(self) -> bool:
        """Bytes, or the end of the connection, wait to be read."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Ends a `read` that another thread is in."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class SocketConnection(Connection):
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    async def write(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    async def read(self, timeout: Optional[float]) -> bytes:
        self._socket.settimeout(timeout)
        return self._socket.recv(_CHUNK)

    def has_input(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def interrupt(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already

    def close(self) -> None:
        self._socket.close()


async def connect_socket(address: Address, tls: Optional[ssl.SSLContext], timeout: float) -> Connection:
    if address.path:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(timeout)
        try:
            connected.connect(address.path)
        except OSError:
            connected.close()
            raise
        return SocketConnection(connected)
    connected = socket.create_connection((address.host, address.port), timeout)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is not None:
        try:
            connected = tls.wrap_socket(connected, server_hostname=address.host)
        except BaseException:
            connected.close()
            raise
    return SocketConnection(connected)


async def sleep_thread(seconds: float) -> None:
    time.sleep(seconds)


Connect = Callable[[Address, Optional[ssl.SSLContext], float], Awaitable[Connection]]


class Cancel:
    """Cancels a request from another thread. The request then raises TransportError."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Optional[Connection] = None
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            if self._connection is not None:
                self._connection.interrupt()

    def watch(self, connection: Optional[Connection]) -> None:
        with self._lock:
            self._connection = connection
            if self.cancelled and connection is not None:
                connection.interrupt()


class Request:
    def __init__(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Union[bytes, AsyncIterator[bytes]] = b"",
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        #: Silence of this long is a failure; None is never.
        self.timeout = timeout
        self.cancel = cancel


class Answer:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Transport:
    """The connections to one address. Several threads, or tasks, may send at once: each has a connection of its own."""

    def __init__(
        self, address: Address, connect: Connect, tls: Optional[ssl.SSLContext] = None, connect_timeout: float = 10
    ) -> None:
        self._address = address
        self._connect = connect
        self._tls = tls if tls is not None or not address.tls else ssl.create_default_context()
        if not address.tls:
            self._tls = None
        self._connect_timeout = connect_timeout
        self._lock = threading.Lock()
        #: Connections that are not in use, and until when the server keeps them.
        self._idle: List[Tuple[Connection, float]] = []
        self._pid = os.getpid()
        self._closed = False

    async def send(self, request: Request) -> Answer:
        connection, response, body = await self._exchange(request)
        pieces = [body]
        try:
            while not response.done:
                await self._receive(connection, response, request.timeout)
                pieces.append(response.take())
        except BaseException:
            connection.close()
            raise
        finally:
            if request.cancel is not None:
                request.cancel.watch(None)
        self._keep(connection, response)
        return Answer(response.status, response.headers, b"".join(pieces))

    async def stream(self, request: Request) -> "Tuple[Answer, AsyncIterator[bytes]]":
        """The answer comes without its body, which is what the iterator gives. The connection ends with the iterator."""
        connection, response, body = await self._exchange(request)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield body
                while not response.done:
                    await self._receive(connection, response, request.timeout)
                    yield response.take()
            finally:
                if request.cancel is not None:
                    request.cancel.watch(None)
                connection.close()

        return Answer(response.status, response.headers, b""), pieces()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    async def _exchange(self, request: Request) -> Tuple[Connection, Response, bytes]:
        """Up to the head of the response, and what came of the body with it."""
        connection = self._take() or await self._open()
        if request.cancel is not None:
            request.cancel.watch(connection)
        response = Response()
        try:
            early = await self._write(connection, request)
            while response.status == 0:
                await self._receive(connection, response, request.timeout)
            if early:
                response.keep_alive = False
            return connection, response, response.take()
        except BaseException:
            if request.cancel is not None:
                request.cancel.watch(None)
            connection.close()
            raise

    async def _write(self, connection: Connection, request: Request) -> bool:
        """True when the server answered before it had read everything."""
        headers: Dict[str, str] = {"host": self._address.authority, **request.headers}
        path = self._address.prefix + request.path
        try:
            if isinstance(request.body, bytes):
                await connection.write(request_head(request.method, path, headers, len(request.body)) + request.body)
                return False
            await connection.write(request_head(request.method, path, headers, None))
            async for piece in request.body:
                # A load that is refused in its midst is answered there; to go on would be in vain.
                if connection.has_input():
                    return True
                await connection.write(chunk(piece))
            await connection.write(chunk(b""))
            return False
        except OSError as error:
            raise TransportError("the connection failed: %s" % error, True) from error

    async def _receive(self, connection: Connection, response: Response, timeout: Optional[float]) -> None:
        try:
            response.feed(await connection.read(timeout))
        except (OSError, EOFError, Malformed) as error:
            silent = isinstance(error, (TimeoutError, socket.timeout))
            reason = "no answer for %g s" % (timeout or 0) if silent else str(error)
            raise TransportError("the connection failed: %s" % reason, True) from error

    async def _open(self) -> Connection:
        if self._closed:
            raise TransportError("closed", False)
        try:
            return await self._connect(self._address, self._tls, self._connect_timeout)
        except OSError as error:
            raise TransportError("%s: %s" % (self._address.text, error), False) from error

    def _take(self) -> Optional[Connection]:
        if self._pid != os.getpid():
            # After a fork the connections are the parent's: they are dropped, and not ended.
            self._lock = threading.Lock()
            self._idle = []
            self._pid = os.getpid()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, until = self._idle.pop()
            if time.monotonic() < until and not connection.has_input():
                return connection
            connection.close()

    def _keep(self, connection: Connection, response: Response) -> None:
        seconds = 5.0
        for part in response.headers.get("keep-alive", "").split(","):
            name, _, value = part.strip().partition("=")
            if name == "timeout" and value.isdigit():
                seconds = float(value)
        with self._lock:
            if response.keep_alive and not self._closed:
                # A second less than the server: it must not close what is about to be used.
                self._idle.append((connection, time.monotonic() + max(0.5, seconds - 1)))
                return
        connection.close()


# ---- coroutines that never suspend


def drive(steps: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine over connections that block, without an event loop."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    steps.close()
    raise RuntimeError("a connection that blocks has suspended")


def drive_each(steps: AsyncIterator[T]) -> Iterator[T]:
    try:
        while True:
            try:
                item: T = drive(steps.__anext__())  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(steps, "aclose", None)
        if close is not None:
            drive(close())
