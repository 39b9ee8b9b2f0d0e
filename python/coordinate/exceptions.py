"""The exceptions where the Python 2 package had them."""

from .errors import CoordinateException, LostLease, NoSuchWorkSpecError, NoSuchWorkUnitError, ProgrammerError

__all__ = ["CoordinateException", "LostLease", "NoSuchWorkSpecError", "NoSuchWorkUnitError", "ProgrammerError"]
