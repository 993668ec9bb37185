"""Other processes in tests: whether they live, and waiting until they do not."""

import time
from pathlib import Path


def alive(pid):
    """Whether a process still runs.

    One that has ended, but that nobody has waited for (a zombie), does not.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def soon(condition, seconds=20.0):
    """Whether `condition()` becomes true within some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
