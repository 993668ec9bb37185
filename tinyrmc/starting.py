"""Ctrl-C while a command of ours is still being imported: an end without a traceback.

Nothing has been begun by then. `commands.run_main` gives Ctrl-C back to Python. In a
program that imports tinyrmc, Ctrl-C stays as it was.
"""

import os
import re
import signal
import sys


def is_command(words: list[str]) -> bool:
    """Whether these words of a command line start one of ours: `-m tinyrmc.train`, or
    the program `tinyrmc`.
    """
    started = re.search(r" -m ?tinyrmc(\.\w+)?( |$)", " ".join(words))
    return bool(started) or any(
        os.path.basename(word) == "tinyrmc" for word in words[:2]
    )


def end_at_ctrl_c() -> None:
    """From now on Ctrl-C ends the process at once, with exit code 130."""
    with_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if with_default and is_command(sys.orig_argv):
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def give_ctrl_c_back() -> None:
    """Ctrl-C raises KeyboardInterrupt again."""
    handler = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__module__", None) == __name__:
        signal.signal(signal.SIGINT, signal.default_int_handler)


end_at_ctrl_c()
