"""The door of `python -m tinyrmc.train`; `cli/train.py` is behind it."""

from .cli.commands import run_main
from .cli.train import main

if __name__ == "__main__":
    run_main(main)
