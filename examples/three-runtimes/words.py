"""A job in Python: the return value is not looked at, the unit's data is."""


def count_letters(work_unit):
    word = work_unit.data["word"]
    work_unit.data["output"] = {work_unit.key: {"word": word, "letters": len(word)}}
