"""Pictures: learning curves, what tasks examine, what a memory's slots attend to and
what comes of it.

Each takes the path of the PNG, PDF or SVG file that it writes as its first argument,
and returns it. Nothing imports matplotlib before there is something to draw. Figures
are objects, never pyplot's, which belong to the caller's notebook; and matplotlib's own
defaults are put in place while we draw, so the same numbers give the same bytes.

Colours are Okabe and Ito's, which colour-blind eyes tell apart too.
"""

from ...errors import RunError
from .. import matplotlib_words  # noqa: F401  # before it

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
