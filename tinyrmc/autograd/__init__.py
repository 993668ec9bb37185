"""Automatic differentiation: the tape, the table of operations, the check.

`engine.py` records and walks back, `calls.py` binds the arguments of an operation and
finds its dtype, `gradients.py` adds up what flows back, `guards.py` refuses;
`primitives.py` is the table, and `gradcheck.py` holds all against the complex step.
"""
