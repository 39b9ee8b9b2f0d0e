"""Clients for asyncio: the same handles, whose methods are awaited and whose listings are looped over with `async for`."""

import asyncio
import ssl
from typing import Any, Optional, Sequence, Union

from .client import address_or_default, options_of
from .handles import Async, Client, Scope
from .protocol import Protocol
from .transport import Address, Connection


class StreamConnection(Connection):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def write(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()

    async def read(self, timeout: Optional[float]) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.read(262144), timeout)
        except asyncio.TimeoutError as error:
            raise TimeoutError() from error

    def has_input(self) -> bool:
        # the reader of the next response finds and refuses bytes that the server sent without a request
        return self._reader.at_eof()

    def interrupt(self) -> None:
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


async def connect_stream(address: Address, tls: Optional[ssl.SSLContext], timeout: float) -> Connection:
    if address.path:
        opening = asyncio.open_unix_connection(address.path)
    else:
        opening = asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        return StreamConnection(*await asyncio.wait_for(opening, timeout))
    except asyncio.TimeoutError as error:
        raise TimeoutError("not connected within %g s" % timeout) from error


def _as_it_is(steps: Any) -> Any:
    return steps


def connect(
    address: Union[str, Sequence[str], None] = None,
    token: Optional[str] = None,
    *,
    ca: Optional[str] = None,
    tls: Optional[ssl.SSLContext] = None,
    timeout: float = 30,
    retries: int = 4,
    backoff: float = 0.05,
) -> Client[Async]:
    """As `coordinate.connect`. The client belongs to the event loop in which it is first used."""
    options = options_of(token, ca, tls, timeout=timeout, retries=retries, backoff=backoff)
    protocol = Protocol(address_or_default(address), options, connect_stream, asyncio.sleep)
    return Client(Scope(protocol, None, _as_it_is, _as_it_is))
