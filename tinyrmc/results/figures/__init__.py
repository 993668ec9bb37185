"""Pictures: learning curves, what tasks examine, what a memory's slots attend
to and what comes of it, and films of agents.

Each takes the path of the PNG file that it writes as its first argument, and returns
it. Beside this package only the course imports matplotlib, and nothing imports it
before there is something to draw. It uses figures as objects, never pyplot, whose
current figure and backend would belong to the caller's notebook as much as to us;
matplotlib's own defaults are put in place while we draw, so the same numbers give the
same bytes whatever a reader's matplotlibrc says.

Colours are Okabe and Ito's, which colour-blind eyes tell apart too.
"""

from ...errors import RunError

try:
    import matplotlib  # noqa: F401
except ValueError as error:  # a bad MPLBACKEND
    raise RunError(
        f"matplotlib refuses to start ({error}); unset the variable MPLBACKEND"
    ) from error

from .attention_maps import accuracies, attention, gates, shares
from .charts import examined, heat_maps
from .films import film
from .learning_curves import learning_curve

__all__ = [
    "accuracies",
    "attention",
    "examined",
    "film",
    "gates",
    "heat_maps",
    "learning_curve",
    "shares",
]
