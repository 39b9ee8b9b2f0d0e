"""Log lines of a task that may not be stored yet, numbered from 1. Only the newest are kept, up to the limits of a log."""

import threading
import time
from typing import Any, Dict, List, Optional

from .errors import BadArgument

LEVELS = ("debug", "info", "warn", "error")

#: The server's limits for one attempt.
_MOST_LINES = 1000
_MOST_BYTES = 64 * 1024


class LogLines:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: List[Dict[str, Any]] = []
        self._first = 1
        self._bytes = 0

    def add(self, text: str, level: str = "info", at: Optional[float] = None) -> None:
        if not isinstance(text, str):
            raise BadArgument("log: expected a string, got %r" % (text,))
        if level not in LEVELS:
            raise BadArgument("log: expected one of the levels %s, got %r" % (", ".join(LEVELS), level))
        seconds = time.time() if at is None else at
        with self._lock:
            self._lines.append({"text": text, "level": level, "time": round(seconds * 1000)})
            self._bytes += _bytes_of(text)
            while len(self._lines) > _MOST_LINES or (self._bytes > _MOST_BYTES and len(self._lines) > 1):
                self._drop(1)

    def unstored(self) -> Optional[Dict[str, Any]]:
        """The lines in the format of the server; None when there are none."""
        with self._lock:
            return {"first": self._first, "lines": list(self._lines)} if self._lines else None

    def stored(self, lines: Dict[str, Any]) -> None:
        """Drops lines that have been stored."""
        with self._lock:
            self._drop(min(len(self._lines), lines["first"] + len(lines["lines"]) - self._first))

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        for line in self._lines[:count]:
            self._bytes -= _bytes_of(line["text"])
        del self._lines[:count]
        self._first += count


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
