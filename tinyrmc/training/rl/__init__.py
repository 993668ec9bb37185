"""Agents: `actors.py` acts and learns, `vtrace.py` corrects, `policy.py` draws."""
