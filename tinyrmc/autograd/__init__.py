"""Automatic differentiation: the tape, the table of operations, the check.

`engine.py` records and walks back, `primitives.py` is the table, and `gradcheck.py`
holds both against the complex step.
"""
