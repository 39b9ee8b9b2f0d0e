def double(work_unit):
    work_unit.data["output"] = {work_unit.key: {"n": work_unit.data["n"] * 2}}
