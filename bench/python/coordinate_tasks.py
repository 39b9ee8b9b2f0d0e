import os

import coordinate
import counting

worker = coordinate.Worker(os.environ.get("BENCH_COORDINATE"), "bench", concurrency=2, max_attempts=1000)


@worker.task("plain")
def plain(unit):
    counting.count()


@worker.task("batches", batch=True)
def batches(units):
    counting.count(len(units))


@worker.task("start")
def start(unit):
    counting.started()
