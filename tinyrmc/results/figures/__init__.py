"""Pictures: learning curves, sweeps, tables, what a memory's slots attend to and what
comes of it, what the hops of a memory network look at, levels of BoxWorld, what agents
do there, and answers character by character.

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

from .answers import answers
from .attention_maps import accuracies, attention, gates, glance, shares
from .charts import examined, heat_maps, tables
from .films import film, film_strip
from .grids import Reached, value_grid
from .hop_maps import hops
from .learning_curves import learning_curve
from .levels import draw_level

__all__ = [
    "Reached",
    "accuracies",
    "answers",
    "attention",
    "draw_level",
    "examined",
    "film",
    "film_strip",
    "gates",
    "glance",
    "heat_maps",
    "hops",
    "learning_curve",
    "shares",
    "tables",
    "value_grid",
]
