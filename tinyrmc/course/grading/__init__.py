"""Grading: answers of others, run where they can do no harm, and judged elsewhere.

A hand-in's notebook runs in a process of its own (`bench.py`), behind a fence
(`fence.py`): little time and memory, no network, no writing outside its own folder. Of
the notebook only those statements run that an answer needs (`statements.py`). There
`check` finds the words, on cases drawn from the teacher's seed. But what counts are the
results themselves: they come back as plain numbers (`wire.py`), and this side compares
them with the solution's. So a notebook may edit its own judge as it likes.
"""
