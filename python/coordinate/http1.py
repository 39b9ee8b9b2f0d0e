"""The client side of HTTP/1.1 without input or output: makes the bytes to send, and parses received bytes."""

from typing import Dict, Mapping, Optional


class Malformed(Exception):
    """The peer does not speak HTTP/1.1."""


_LONGEST_HEAD = 65536


def request_head(method: str, path: str, headers: Mapping[str, str], length: Optional[int]) -> bytes:
    """`length` of the body, or None for one that is sent in chunks."""
    lines = ["%s %s HTTP/1.1" % (method, path)]
    lines.extend("%s: %s" % pair for pair in headers.items())
    if length is None:
        lines.append("transfer-encoding: chunked")
    elif length > 0 or method != "GET":
        lines.append("content-length: %d" % length)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(piece: bytes) -> bytes:
    """A chunk of the body. An empty piece ends the body."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


class Response:
    """Parses one response incrementally.

    `feed` takes received bytes, or b"" when the connection has ended; `take` returns the body received since the last call;
    `done` is true when the response is complete.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.done = False
        self.keep_alive = True
        self._buffer = b""
        self._body = b""
        #: Remaining bytes of the body or of the chunk; None when the body lasts until the connection ends.
        self._left: Optional[int] = 0
        self._chunked = False
        self._trailer = False

    def feed(self, received: bytes) -> None:
        if self.done:
            raise Malformed("more than one response")
        if received == b"":
            self._end()
            return
        if self.status != 0 and not self._chunked:
            self._plain(received)
            return
        self._buffer += received
        if self.status == 0 and not self._head():
            return
        if self._chunked:
            self._chunks()
        elif self._buffer or self._left == 0:
            received, self._buffer = self._buffer, b""
            self._plain(received)

    def take(self) -> bytes:
        body, self._body = self._body, b""
        return body

    def _end(self) -> None:
        if self.status == 0 or self._left is not None or self._chunked:
            raise Malformed("the connection ended in the middle of a response")
        self.done = True

    def _head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _LONGEST_HEAD:
                    raise Malformed("the head of the response is too long")
                return False
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            self._buffer = self._buffer[end + 4 :]
            version, _, rest = lines[0].partition(" ")
            status = rest[:3]
            if not version.startswith("HTTP/1.") or not status.isdigit():
                raise Malformed("not an HTTP/1.1 response")
            # 100 Continue and the like come before the response
            if status[0] != "1":
                break
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = int(status)
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked = True
        elif self.status in (204, 304):
            self._left = 0
        elif "content-length" in self.headers:
            length = self.headers["content-length"]
            if not length.isdigit():
                raise Malformed("content-length: %s" % length)
            self._left = int(length)
        else:
            self._left = None
            self.keep_alive = False
        return True

    def _plain(self, received: bytes) -> None:
        if self._left is not None:
            if len(received) > self._left:
                raise Malformed("more than one response")
            self._left -= len(received)
            self.done = self._left == 0
        self._body += received

    def _chunks(self) -> None:
        pieces = []
        buffer, at = self._buffer, 0
        while True:
            if self._left:
                piece = buffer[at : at + self._left]
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            line = buffer[at:end]
            at = end + 2
            if self._trailer:
                if line == b"":
                    self.done = True
                    break
            elif line != b"":  # an empty one ends the chunk before
                try:
                    self._left = int(line.split(b";")[0], 16)
                except ValueError:
                    raise Malformed("a chunk without a length") from None
                self._trailer = self._left == 0
        if self.done and at < len(buffer):
            raise Malformed("more than one response")
        self._buffer = buffer[at:]
        self._body += b"".join(pieces)
