"""Jobs as they were written for the Python 2 package."""

import coordinate
from coordinate.exceptions import LostLease


def count(work_unit):
    work_unit.data["letters"] = len(work_unit.data["word"])
    work_unit.data["output"] = {work_unit.key: {"letters": work_unit.data["letters"]}}


def fails(work_unit):
    work_unit.data["before"] = 1
    raise RuntimeError("broken on purpose")


def gives_back(work_unit):
    work_unit.update(-1)
    raise LostLease("given back")


def with_params(work_unit, first, second=2):
    work_unit.data["params"] = [first, second]
