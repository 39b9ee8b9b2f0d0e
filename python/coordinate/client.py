"""Clients with blocking calls. For asyncio, use `coordinate.aio`."""

import os
import ssl
from typing import Any, Optional, Sequence, Union

from .handles import Client, Scope, Sync
from .protocol import Options, Protocol
from .transport import connect_socket, drive, drive_each, sleep_thread

DEFAULT_ADDRESS = "http://127.0.0.1:5980"


def address_or_default(address: Union[str, Sequence[str], None]) -> Union[str, Sequence[str]]:
    if address is not None:
        return address
    return os.environ.get("COORDINATE_ADDRESS") or DEFAULT_ADDRESS


def options_of(token: Optional[str], ca: Optional[str], tls: Optional[ssl.SSLContext], **others: Any) -> Options:
    if tls is None and ca is not None:
        tls = ssl.create_default_context(cafile=ca)
    return Options(token=token or os.environ.get("COORDINATE_TOKEN") or None, tls=tls, **others)


def connect(
    address: Union[str, Sequence[str], None] = None,
    token: Optional[str] = None,
    *,
    ca: Optional[str] = None,
    tls: Optional[ssl.SSLContext] = None,
    timeout: float = 30,
    retries: int = 4,
    backoff: float = 0.05,
) -> Client[Sync]:
    """A client of a daemon: `http://host:port`, `https://host:port` or `unix:/path`, or several that share a store.

    Nothing is sent before the first call. Without an address it is COORDINATE_ADDRESS, else http://127.0.0.1:5980; without
    a token, COORDINATE_TOKEN. `ca` is a file of certificates that are trusted; `tls` a context of your own. A request has
    `timeout` seconds besides the time it asks to wait, and is sent again up to `retries` times where that is safe.
    """
    options = options_of(token, ca, tls, timeout=timeout, retries=retries, backoff=backoff)
    protocol = Protocol(address_or_default(address), options, connect_socket, sleep_thread)
    return Client(Scope(protocol, None, drive, drive_each))
