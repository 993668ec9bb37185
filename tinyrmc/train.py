"""The door of `python -m tinyrmc.train`; `cli/train.py` is behind it."""

import importlib

from .cli.commands import run_main

if __name__ == "__main__":
    run_main(lambda: importlib.import_module("tinyrmc.cli.train").main())
