"""Runs chapters cell by cell, here or in Pyodide, and says what each took:

    python chapter_seconds.py NUMBER ...

A line of JSON for each chapter: its number, the seconds that the processor worked on
its cells, and the errors, each with the number of its cell. Each cell's seconds are
also told on stderr at once, for a chapter that does not come to its end.
"""

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(path, cpu):
    """Time a chapter."""
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.pylabtools import select_figure_formats
    from matplotlib_inline.backend_inline import flush_figures

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.display_pub = CapturingDisplayPublisher(parent=shell)
    shell.history_manager.enabled = False
    shell.displayhook.write_output_prompt = lambda: None
    shell.showtraceback = lambda *_, **__: None
    select_figure_formats(shell, {"png"})
    seconds, errors = [], []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        start = cpu()
        with contextlib.redirect_stdout(io.StringIO()):
            done = shell.run_cell("".join(cell["source"]))
            flush_figures()
        seconds.append(round(cpu() - start, 2))
        if error := done.error_before_exec or done.error_in_exec:
            errors.append([len(seconds), f"{type(error).__name__}: {error}"[:300]])
        print(f"cell {len(seconds)}: {seconds[-1]} s", file=sys.stderr, flush=True)
    return {"chapter": path.name[:2], "seconds": seconds, "errors": errors}


def main(numbers):
    """A line for each chapter."""
    os.environ |= {"TINYRMC_PROGRESS": "", "MPLBACKEND": "module://matplotlib_inline"}
    os.environ["MPLBACKEND"] += ".backend_inline"
    sys.path.insert(0, str(ROOT))
    try:
        from hostcpu import cpu
    except ImportError:
        cpu = time.process_time
    for number in numbers:
        (path,) = (ROOT / "chapters").glob(f"{number}_*.ipynb")
        print(json.dumps(run(path, cpu)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
