"""Data dictionaries and names, as the wires carry them.

Data is JSON where JSON says everything, and CBOR where it does not (bytes, tuples, UUIDs, NaN, keys that are not text).
A JSON wire has CBOR data as a string of base64; a dictionary is always an object, so the two cannot be confused.
"""

import base64
import binascii
import json
import math
import re
from typing import Any, Dict, Mapping, Optional, Union

from . import cbor
from .errors import BadData, BadName

Data = Dict[str, Any]
#: What stands for data in JSON.
WireData = Union[Dict[str, Any], str, None]

#: Larger integers are exact in JSON as well, but Python refuses to read decimals of many thousand digits.
_JSON_INTEGER_BITS = 1024


def to_wire(data: Union[Mapping[str, Any], bytes, None]) -> WireData:
    """Of a dict, or of data that is encoded already. Raises BadData for what data cannot hold."""
    if data is None:
        return None
    if isinstance(data, bytes):
        return base64.b64encode(data).decode("ascii") if is_cbor(data) else as_dict(json.loads(data))
    if not isinstance(data, dict):
        if not isinstance(data, Mapping):
            raise BadData("data: expected a dict, got %s" % type(data).__name__)
        data = dict(data)
    try:
        return data if is_plain(data) else base64.b64encode(cbor.dumps(data)).decode("ascii")
    except RecursionError:
        raise BadData("nested too deep, or contains itself") from None


def from_wire(data: WireData) -> Data:
    """`{}` where there is none."""
    if data is None:
        return {}
    if isinstance(data, str):
        try:
            return as_dict(cbor.loads(base64.b64decode(data, validate=True)))
        except binascii.Error as error:
            raise BadData("illegal base64") from error
    return data


def encoded(data: WireData) -> Optional[bytes]:
    """What stands for data in JSON, as `encode` has it."""
    if data is None:
        return None
    return base64.b64decode(data) if isinstance(data, str) else dump_json(data)


def encode(data: Any, as_cbor: bool = False) -> bytes:
    """JSON text where that says everything, unless `as_cbor`; else CBOR. The two are told apart by the first byte."""
    if not isinstance(data, dict):
        raise BadData("the data of a work unit: expected a dict, got %s" % type(data).__name__)
    if not as_cbor and is_plain(data):
        return dump_json(data)
    return cbor.dumps(data)


def decode(raw: Optional[bytes]) -> Data:
    if raw is None:
        return {}
    return as_dict(cbor.loads(raw) if is_cbor(raw) else json.loads(raw))


def is_cbor(raw: bytes) -> bool:
    """A CBOR map; JSON text starts with a brace or white space."""
    return 0xA0 <= raw[0] <= 0xBF


def dump_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def as_dict(value: Any) -> Data:
    if not isinstance(value, dict):
        raise BadData("data: expected a dict, got %s" % type(value).__name__)
    return value


def is_plain(value: Any) -> bool:
    """Whether JSON can represent the value without loss."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(value.bit_length() <= _JSON_INTEGER_BITS)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not is_plain(item):
                return False
        return True
    if kind is list:
        for item in value:
            if not is_plain(item):
                return False
        return True
    return False


# ---- names


_PLAIN_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:][A-Za-z0-9._:-]*")


def name_to_url(name: str) -> str:
    """A name as a segment of a path: itself where every character is harmless, else `-` and base64url of its bytes."""
    if not isinstance(name, str):
        raise BadName("expected a string as a name, got %s" % type(name).__name__)
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "-" + base64.urlsafe_b64encode(name_to_bytes(name)).decode("ascii").rstrip("=")


def name_to_bytes(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadName("a lone surrogate other than U+DC80 to U+DCFF") from error


def name_from_bytes(raw: Union[bytes, str]) -> str:
    """Bytes that are not UTF-8 become lone surrogates, as in file names of Python (surrogateescape)."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
