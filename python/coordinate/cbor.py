"""CBOR (RFC 8949), as far as Coordinate uses it: JSON's values, byte strings, integers of any size, tuples and UUIDs.

Text that is not valid UTF-8 is carried in Python as `surrogateescape` has it, and goes out as a byte string of
those bytes. Tags other than the four below are dropped and their content is kept.
"""

import struct
import uuid
from typing import Any, List, Tuple

from .errors import BadData

TAG_BIG, TAG_NEGATIVE_BIG, TAG_EMBEDDED, TAG_UUID, TAG_TUPLE = 2, 3, 24, 37, 128

#: Objects and lists inside one another. The server has the same limit.
MAX_DEPTH = 512


class Truncated(ValueError):
    """The bytes end before the end of the item."""


def dumps(value: Any) -> bytes:
    """Encodes a value. Raises BadData for a value that data cannot hold."""
    out: List[bytes] = []
    _write(value, out, MAX_DEPTH)
    return b"".join(out)


def loads(raw: bytes) -> Any:
    """The one item of `raw`. Raises BadData for bytes that are malformed, truncated or more than one item."""
    try:
        value, end = decode(raw, 0)
    except Truncated as error:
        raise BadData("CBOR: ends unexpectedly") from error
    if end != len(raw):
        raise BadData("CBOR: %d bytes after the item" % (len(raw) - end))
    return value


def decode(raw: bytes, at: int) -> Tuple[Any, int]:
    """The item that starts at `at`, and where it ends. Raises Truncated when its end is not there yet."""
    try:
        return _read(raw, at, MAX_DEPTH)
    except (IndexError, struct.error) as error:
        raise Truncated() from error


def head(major: int, number: int) -> bytes:
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


def _write(value: Any, out: List[bytes], depth: int) -> None:
    if value is None:
        out.append(b"\xf6")
    elif value is True:
        out.append(b"\xf5")
    elif value is False:
        out.append(b"\xf4")
    elif isinstance(value, str):
        _write_text(value, out)
    elif isinstance(value, int):
        _write_integer(int(value), out)
    elif isinstance(value, float):
        out.append(struct.pack(">Bd", 0xFB, value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        out.append(head(2, len(raw)))
        out.append(raw)
    elif isinstance(value, uuid.UUID):
        out.append(head(6, TAG_UUID) + head(2, 16) + value.bytes)
    elif depth == 0:
        raise BadData("nested more than %d deep" % MAX_DEPTH)
    elif isinstance(value, (list, tuple)):
        if isinstance(value, tuple):
            out.append(head(6, TAG_TUPLE))
        out.append(head(4, len(value)))
        for item in value:
            _write(item, out, depth - 1)
    elif isinstance(value, dict):
        out.append(head(5, len(value)))
        for key, item in value.items():
            _write(key, out, depth - 1)
            _write(item, out, depth - 1)
    else:
        raise BadData("data cannot hold a value of type %s" % type(value).__name__)


def _write_integer(value: int, out: List[bytes]) -> None:
    magnitude = value if value >= 0 else -1 - value
    if magnitude < 1 << 64:
        out.append(head(0 if value >= 0 else 1, magnitude))
        return
    raw = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
    out.append(head(6, TAG_BIG if value >= 0 else TAG_NEGATIVE_BIG))
    out.append(head(2, len(raw)) + raw)


def _write_text(value: str, out: List[bytes]) -> None:
    try:
        raw = value.encode("utf-8")
        out.append(head(3, len(raw)))
    except UnicodeEncodeError:
        try:
            raw = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadData("text with a lone surrogate other than U+DC80 to U+DCFF") from error
        out.append(head(2, len(raw)))
    out.append(raw)


def _slice(raw: bytes, at: int, count: int) -> bytes:
    if at + count > len(raw):
        raise Truncated()
    return raw[at : at + count]


def _read(raw: bytes, at: int, depth: int) -> Tuple[Any, int]:
    first = raw[at]
    major, short = first >> 5, first & 31
    at += 1
    if major == 7:
        return _read_simple(raw, at, short)
    if short < 24:
        number = short
    elif short < 28:
        width = 1 << (short - 24)
        number = int.from_bytes(_slice(raw, at, width), "big")
        at += width
    elif short == 31 and 2 <= major <= 5:
        return _read_indefinite(raw, at, major, depth)
    else:
        raise BadData("CBOR: malformed at byte %d" % (at - 1))
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if major == 2:
        return _slice(raw, at, number), at + number
    if major == 3:
        return _slice(raw, at, number).decode("utf-8", "surrogateescape"), at + number
    if depth == 0:
        raise BadData("nested more than %d deep" % MAX_DEPTH)
    # An item takes a byte at least: a length that cannot be true is refused before anything is made for it.
    if major != 6 and number > len(raw) - at:
        raise Truncated()
    if major == 4:
        items = []
        for _ in range(number):
            item, at = _read(raw, at, depth - 1)
            items.append(item)
        return items, at
    if major == 5:
        found = {}
        for _ in range(number):
            key, at = _read(raw, at, depth - 1)
            found[_as_key(key)], at = _read(raw, at, depth - 1)
        return found, at
    content, at = _read(raw, at, depth - 1)
    return _untag(number, content), at


def _as_key(key: Any) -> Any:
    """An array may be a key in CBOR. Python wants one that does not change."""
    if isinstance(key, list):
        return tuple(map(_as_key, key))
    if isinstance(key, dict):
        raise BadData("CBOR: a map as a key")
    return key


def _untag(tag: int, content: Any) -> Any:
    if tag == TAG_TUPLE and isinstance(content, list):
        return tuple(content)
    if tag == TAG_UUID and isinstance(content, bytes) and len(content) == 16:
        return uuid.UUID(bytes=content)
    if tag == TAG_BIG and isinstance(content, bytes):
        return int.from_bytes(content, "big")
    if tag == TAG_NEGATIVE_BIG and isinstance(content, bytes):
        return -1 - int.from_bytes(content, "big")
    if tag == TAG_EMBEDDED and isinstance(content, bytes):
        return loads(content)
    return content


def _read_simple(raw: bytes, at: int, short: int) -> Tuple[Any, int]:
    if short == 20:
        return False, at
    if short == 21:
        return True, at
    if short == 25:
        return struct.unpack_from(">e", raw, at)[0], at + 2
    if short == 26:
        return struct.unpack_from(">f", raw, at)[0], at + 4
    if short == 27:
        return struct.unpack_from(">d", raw, at)[0], at + 8
    if short == 24:
        _slice(raw, at, 1)
        return None, at + 1
    if short > 24:
        raise BadData("CBOR: malformed at byte %d" % (at - 1))
    return None, at


def _read_indefinite(raw: bytes, at: int, major: int, depth: int) -> Tuple[Any, int]:
    if depth == 0:
        raise BadData("nested more than %d deep" % MAX_DEPTH)
    items: List[Any] = []
    while raw[at] != 0xFF:
        if major in (2, 3) and raw[at] >> 5 != major:
            raise BadData("CBOR: malformed at byte %d" % at)
        item, at = _read(raw, at, depth - 1)
        items.append(item)
    at += 1
    if major == 2:
        return b"".join(items), at
    if major == 3:
        return "".join(items), at
    if major == 4:
        return items, at
    if len(items) % 2 == 1:
        raise BadData("CBOR: a key without a value")
    return {_as_key(key): value for key, value in zip(items[::2], items[1::2])}, at
