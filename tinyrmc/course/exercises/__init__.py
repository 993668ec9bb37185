"""The chapters' exercises: one module for each chapter, one object for each exercise.

    from ..exercises import attention as ex

    ex.attention_weights.check(my_function)     compares it with the solution on seeded cases, extreme ones among them
    ex.attention_weights.hint()                 a hint; the next call gives the next
    ex.attention_weights.solution()             the solution's text
    ex.attention_weights(Q, K)                  the solution at work, for whoever wants to read on first

`exercise.py` says how a new one is written.
"""
