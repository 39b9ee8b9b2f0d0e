"""The numbers and words of the Python 2 package."""

AVAILABLE = 1
BLOCKED = 2
PENDING = 3
FINISHED = 4
FAILED = 5

RUNNABLE = 1
PAUSED = 2

PRI_GENERATED = -1
PRI_STANDARD = 0
PRI_PRIORITY = 1

#: The statuses of this system by the number that stands for them. What is delayed becomes available by itself, and counts as that.
NUMBER_OF_STATUS = {
    "available": AVAILABLE,
    "delayed": AVAILABLE,
    "blocked": BLOCKED,
    "pending": PENDING,
    "finished": FINISHED,
    "failed": FAILED,
}
