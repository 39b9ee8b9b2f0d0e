import counting


def noop(data):
    counting.count()


def start(data):
    counting.started()
