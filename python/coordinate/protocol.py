"""The complete REST interface, written once for both kinds of connections.

`Protocol.ask` is every verb: it names requests so that they may be repeated, sends those again whose answer was lost and
that may be, and turns refusals into errors. Nothing here knows whether its transport blocks or suspends.
"""

import json
import random
import re
import ssl
import urllib.parse
import uuid
from typing import (
    Any,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from .data import dump_json, name_to_url
from .errors import BadArgument, Closed, CoordinateError, NotCoordinate, Unavailable, UnknownOutcome, error_of
from .transport import Address, Answer, Cancel, Connect, Request, Transport, TransportError


class Verb(NamedTuple):
    #: `same`: doing it twice is doing it once. `id`: it is when both carry one request id. `never`: the second would
    #: do more, and a lost answer is an unknown outcome.
    repeat: str
    #: It may go through millions of units: the answer takes longer than others.
    slow: bool = False


VERBS: Dict[str, Verb] = {
    "listNamespaces": Verb("same"),
    "getNamespace": Verb("same"),
    "setNamespace": Verb("same"),
    "deleteNamespace": Verb("same"),
    "setWorkSpecs": Verb("same"),
    "getWorkSpecs": Verb("same"),
    "listWorkSpecs": Verb("same"),
    "setWorkSpecMeta": Verb("same"),
    "deleteWorkSpecs": Verb("never"),
    "addWorkUnits": Verb("id"),
    "getWorkUnits": Verb("same"),
    "listWorkUnits": Verb("same"),
    "countWorkUnits": Verb("same", slow=True),
    "awaitWorkUnits": Verb("same"),
    "setWorkUnitPriorities": Verb("never", slow=True),
    "setWorkUnitDelays": Verb("same", slow=True),
    "resetWorkUnits": Verb("never", slow=True),
    "deleteWorkUnits": Verb("never", slow=True),
    "cancelWorkUnits": Verb("never", slow=True),
    "requestAttempts": Verb("id"),
    "makeAttempts": Verb("never"),
    "settleAttempts": Verb("same"),
    "getAttempts": Verb("same"),
    "listUnitAttempts": Verb("same"),
    "writeAttemptLogs": Verb("never"),
    "getAttemptLogs": Verb("same"),
    "listWorkerAttempts": Verb("same"),
    "updateWorkers": Verb("same"),
    "getWorkers": Verb("same"),
    "listWorkers": Verb("same"),
    "takeMessages": Verb("id"),
    "countMessages": Verb("same"),
    "listQueues": Verb("same"),
    "clearQueue": Verb("never", slow=True),
    "putActions": Verb("same"),
    "getActions": Verb("same"),
    "listActions": Verb("same"),
    "deleteActions": Verb("never"),
    "setBatches": Verb("same"),
    "getBatches": Verb("same"),
    "listBatches": Verb("same"),
    "deleteBatches": Verb("never"),
    "changeBatch": Verb("same", slow=True),
    "setLimits": Verb("same"),
    "listLimits": Verb("same"),
    "deleteLimits": Verb("never"),
    "tally": Verb("same"),
    "listFailures": Verb("same"),
    "listPartitions": Verb("same"),
    "waitingSince": Verb("same"),
    "history": Verb("same"),
    "explain": Verb("same"),
    "lock": Verb("never"),
    "lockSome": Verb("never"),
    "renewLocks": Verb("same"),
    "unlock": Verb("never"),
    "readLocks": Verb("same"),
    "listLocks": Verb("same"),
    "clearLocks": Verb("same"),
}

#: How much longer than others a request may take that goes through a whole work spec.
_SLOW_TIMES = 40
#: Longer waits are asked for in pieces, in seconds.
LONGEST_WAIT = 600.0
_LONGEST_PAUSE = 5.0

Body = Dict[str, Any]
Units = Union[Iterable[Body], AsyncIterable[Body]]


class Options(NamedTuple):
    #: A bearer token, where the server wants one.
    token: Optional[str] = None
    #: Seconds to answer, besides the time that a request asks to wait.
    timeout: float = 30
    #: How often a request is sent again, where that is safe.
    retries: int = 4
    #: Seconds before the second time; doubled each time, at most 5, with chance.
    backoff: float = 0.05
    tls: Optional[ssl.SSLContext] = None


def kebab(verb: str) -> str:
    return re.sub("[A-Z]", lambda letter: "-" + letter.group().lower(), verb)


class Protocol:
    def __init__(
        self,
        addresses: Union[str, Sequence[str]],
        options: Options,
        connect: Connect,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        texts = [addresses] if isinstance(addresses, str) else list(addresses)
        if not texts:
            raise BadArgument("address: expected at least one")
        self._transports = [Transport(Address(text), connect, options.tls) for text in texts]
        self._at = 0
        self._options = options
        self._sleep = sleep
        self._headers = {} if options.token is None else {"authorization": "Bearer " + options.token}
        self._closed = False

    async def ask(
        self, verb: str, namespace: Optional[str], body: Body, wait: float = 0, cancel: Optional[Cancel] = None
    ) -> Any:
        """`body` as the wire has it. Without a namespace, the verb is asked of all of them."""
        row = VERBS.get(verb)
        if row is None:
            raise BadArgument("no such verb: %s" % verb)
        if row.repeat == "id" and body.get("requestId") is None:
            body = {**body, "requestId": uuid.uuid4().hex}
        path = "/v1/%s" % kebab(verb)
        if namespace is not None:
            path = "/v1/namespace/%s/%s" % (name_to_url(namespace), kebab(verb))
        try:
            text = dump_json(body)
        except (TypeError, ValueError) as error:
            raise BadArgument("%s: %s" % (verb, error)) from error
        timeout = self._options.timeout * (_SLOW_TIMES if row.slow else 1) + wait
        headers = {**self._headers, "content-type": "application/json"}
        return await self._repeat(Request("POST", path, headers, text, timeout, cancel), row.repeat)

    async def load(self, namespace: str, work_spec: str, units: Units, request_id: Optional[str]) -> Any:
        """Any number of units in one request. Not sent again by itself; with the same id, it may be."""
        query = "" if request_id is None else "?" + urllib.parse.urlencode({"requestId": request_id})
        headers = {**self._headers, "content-type": "application/x-ndjson"}
        request = Request("POST", _units_path(namespace, work_spec) + query, headers, _lines(units))
        self._check_open()
        try:
            return read_answer(await self._transports[self._at].send(request))
        except TransportError as error:
            raise (UnknownOutcome if error.sent else Unavailable)(str(error)) from error

    async def export(self, namespace: str, work_spec: str, query: Mapping[str, Any]) -> AsyncIterator[Any]:
        """All units that match, a row each, in constant memory."""
        text = urllib.parse.urlencode(query, doseq=True)
        path = _units_path(namespace, work_spec) + ("?" + text if text else "")
        async for line in self._text_lines(Request("GET", path, self._headers)):
            yield json.loads(line)

    async def events(self, namespace: str, after: Optional[str], cancel: Optional[Cancel]) -> AsyncIterator[Body]:
        headers = {**self._headers, "accept": "text/event-stream"}
        if after is not None:
            headers["last-event-id"] = after
        path = "/v1/namespace/%s/events" % name_to_url(namespace)
        event: Dict[str, str] = {}
        async for line in self._text_lines(Request("GET", path, headers, cancel=cancel), empty=True):
            if line == b"":
                if "data" in event:
                    yield {"id": event.get("id"), "type": event.get("event", "message"), "data": json.loads(event["data"])}
                event = {}
            elif not line.startswith(b":"):
                name, _, value = line.decode("utf-8").partition(":")
                value = value[1:] if value.startswith(" ") else value
                event[name] = event[name] + "\n" + value if name == "data" and name in event else value

    def close(self) -> None:
        self._closed = True
        for transport in self._transports:
            transport.close()

    async def _repeat(self, request: Request, repeat: str) -> Any:
        tries = 0
        while True:
            self._check_open()
            at = self._at
            try:
                answer = await self._transports[at].send(request)
                if _is_outage_of_proxy(answer):
                    raise TransportError("a proxy answered with HTTP status %d" % answer.status, True)
                if tries < self._options.retries and _may_repeat(answer, repeat):
                    raise TransportError("status %d" % answer.status, False)
                return read_answer(answer)
            except TransportError as error:
                if request.cancel is not None and request.cancel.cancelled:
                    raise
                self._check_open()
                if error.sent and repeat == "never":
                    raise UnknownOutcome(str(error)) from error
                if tries >= self._options.retries:
                    raise Unavailable(str(error)) from error
                # another caller may have moved on to the next address already
                if self._at == at:
                    self._at = (at + 1) % len(self._transports)
                pause = min(_LONGEST_PAUSE, self._options.backoff * 2.0**tries)
                await self._sleep(pause * (0.5 + random.random() / 2))
                tries += 1

    async def _text_lines(self, request: Request, empty: bool = False) -> AsyncIterator[bytes]:
        self._check_open()
        try:
            answer, pieces = await self._transports[self._at].stream(request)
            if answer.status != 200:
                read_answer(Answer(answer.status, answer.headers, b"".join([piece async for piece in pieces])))
            rest = b""
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line or empty:
                        yield line
            if rest:
                yield rest
        except TransportError as error:
            if request.cancel is not None and request.cancel.cancelled:
                return
            raise Unavailable(str(error)) from error

    def _check_open(self) -> None:
        if self._closed:
            raise Closed()


def _units_path(namespace: str, work_spec: str) -> str:
    return "/v1/namespace/%s/work-spec/%s/work-units" % (name_to_url(namespace), name_to_url(work_spec))


async def _lines(units: Units) -> AsyncIterator[bytes]:
    """About 64 kB a piece: a write for every unit would cost more than the unit."""
    piece: List[bytes] = []
    size = 0
    async for unit in _each(units):
        line = dump_json(unit) + b"\n"
        piece.append(line)
        size += len(line)
        if size >= 65536:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


async def _each(units: Units) -> AsyncIterator[Body]:
    if isinstance(units, AsyncIterable):
        async for unit in units:
            yield unit
    else:
        for unit in units:
            yield unit


def _is_outage_of_proxy(answer: Answer) -> bool:
    """The server behind it restarts, or its answer was lost. Coordinate itself answers only 503, with a document."""
    return answer.status in (502, 503, 504) and read_error(answer).code == NotCoordinate.code


def _may_repeat(answer: Answer, repeat: str) -> bool:
    """A server that is about to stop has done nothing; of any other failure of a store that is not known."""
    if answer.status not in (429, 503):
        return False
    code = read_error(answer).code
    return code in ("stopping", "closed", "too_many_requests") or (code == "unavailable" and repeat != "never")


def read_answer(answer: Answer) -> Any:
    if not 200 <= answer.status < 300:
        raise read_error(answer)
    try:
        return json.loads(answer.body) if answer.body else None
    except ValueError as error:
        raise error_of(NotCoordinate.code, message="the answer is not JSON: %s" % error) from error


def read_error(answer: Answer) -> CoordinateError:
    try:
        document = json.loads(answer.body)
        return error_of(document["code"], document.get("value", ""), document["message"], answer.status)
    except (ValueError, KeyError, TypeError):
        if answer.status == 413:
            # a proxy may allow less than the server
            return error_of("too_large", message="the request is too large: a proxy refused it with HTTP status 413")
        return error_of(NotCoordinate.code, message="HTTP status %d" % answer.status, status=answer.status)
