"""The tools that the chapters import.

from tinyrmc import course
from tinyrmc.course.exercises import attention as ex

course.setup()                       pictures in the project's style
course.show(equations.attention)     the package's own code, in the notebook
course.fast(2000, 200)               fewer steps when a chapter is only tried
course.assets()                      the folder of the trained networks
course.summary("language_modeling")  committed results, an empty dict if there are none
course.measured(9, "forget_bias")    what a chapter's conclusion rests on
course.book()                        the text of Alice's Adventures in Wonderland
course.pieces(9)                     the core in pieces, yours where you wrote them
course.vjps(9)                       the derivatives of chapters 3 to 9, likewise
course.little_tape()                 the tape of chapter 3, likewise
course.kept("learning", "clip")      any answers of a chapter, likewise
course.least(5, f=f, g=g)            the least seconds that each function takes
course.held(tape)                    bytes that a tape keeps for backward
course.draw_tape(loss)               a recorded expression as a graph
course.draw_matrix(panel, 0, 0, M)   a matrix as a grid of cells
course.progress()                    the exercises that you have solved
course.hand_in("Anna")               a small file of that, to hand in
course.forget()                      delete what is kept of that
"""

from ..results import matplotlib_words  # noqa: F401  # before matplotlib is imported
from .assembly import kept, little_tape, pieces, vjps
from .chapter import assets, book, fast, held, least, setup, show, summary
from .evidence import measured
from .overview import progress
from .pictures import draw_matrix, draw_tape
from .proof import hand_in
from .record import forget

__all__ = [
    "assets",
    "book",
    "draw_matrix",
    "draw_tape",
    "fast",
    "forget",
    "hand_in",
    "held",
    "kept",
    "least",
    "little_tape",
    "measured",
    "pieces",
    "progress",
    "setup",
    "show",
    "summary",
    "vjps",
]
