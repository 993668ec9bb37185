"""The chapters' exercises: one module for each chapter, one object for each exercise.

    from tinyrmc.course.exercises import attention as ex

    ex.attention_weights.check(mine)     does my function give what the solution gives?
    ex.attention_weights.yours(mine)     my function if it is right, else the solution
    ex.attention_weights.hint()          a hint; the next call gives the next one
    ex.attention_weights.solution()      the text of the solution
    ex.attention_weights(Q, K)           calls the solution, so that you can read on

`exercise.py` says how to write a new one.
"""

import sys

from ...errors import NO_DOCSTRINGS, UserError

if sys.flags.optimize > 1:
    raise UserError(NO_DOCSTRINGS)
