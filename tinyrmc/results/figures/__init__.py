"""Pictures: learning curves, what tasks examine, what a memory's slots attend to and
what comes of it.

Each takes the path of the PNG file that it writes as its first argument, and returns
it. Nothing imports matplotlib before there is something to draw. Figures are objects,
never pyplot's, which belong to the caller's notebook; and matplotlib's own defaults are
put in place while we draw, so the same numbers give the same bytes.

Colours are Okabe and Ito's, which colour-blind eyes tell apart too.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator

from ...errors import RunError


class _OneLine(logging.Handler):
    """In place of what matplotlib says of folders that it cannot write."""

    told = False

    def emit(self, record: logging.LogRecord) -> None:
        says = record.getMessage()
        if "mkdir" not in says and "cache directory" not in says:
            logging.getLogger().callHandlers(record)  # as usual
        elif not self.told:
            self.told = True
            print(
                "note: matplotlib cannot keep its list of fonts, and makes it anew "
                "each time; name a folder in MPLCONFIGDIR that you may write to",
                file=sys.stderr,
            )


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """While matplotlib is imported."""
    logger = logging.getLogger("matplotlib")
    handler = _OneLine()
    through = logger.propagate
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = through


with _one_line():
    try:
        import matplotlib  # noqa: F401
    except ValueError as error:  # a bad MPLBACKEND
        raise RunError(
            f"matplotlib refuses to start ({error}); unset the variable MPLBACKEND"
        ) from error

    from .attention_maps import accuracies, attention
    from .charts import examined, heat_maps
    from .learning_curves import learning_curve

__all__ = ["accuracies", "attention", "examined", "heat_maps", "learning_curve"]
