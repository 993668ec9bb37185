"""`python -m tinyrmc` says what can be run: the same as `python -m tinyrmc.train`
without a task.
"""

from .commands import run_main
from .train import main

if __name__ == "__main__":
    run_main(lambda: main([]))
