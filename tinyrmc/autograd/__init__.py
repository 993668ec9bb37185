"""Automatic differentiation: the tape, the table of operations, the check.

`engine.py` records and walks back, `gradients.py` adds up what flows back, `guards.py`
refuses; `primitives.py` is the table, and `gradcheck.py` holds all against the complex
step.
"""
