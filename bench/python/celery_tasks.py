import os

import celery

import counting

app = celery.Celery(broker=os.environ.get("BENCH_REDIS"))
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True)


@app.task
def noop(data):
    counting.count()


@app.task
def start(data):
    counting.started()
