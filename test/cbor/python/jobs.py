"""What the worker runs."""


def count(key, data):
    """Chains one unit per word, in three forms of output."""
    words = data[b"text"].split()
    if key == b"broken":
        raise RuntimeError("this one fails")
    result = dict(data)
    if data[b"form"] == b"map":
        result[b"output"] = {key + b" " + word: {b"word": word, b"n": len(word)} for word in words}
    elif data[b"form"] == b"tuples":
        result[b"output"] = [(key + b" " + word, {b"word": word, b"n": len(word)}, None, 1) for word in words]
    else:
        result[b"output"] = [key + b" " + word for word in words]
    return result


def measure(key, data):
    result = dict(data)
    result["seen"] = (data.get(b"word"), data.get(b"n"))
    return result
