"""Many values of one test as one item, and values that are tried once a week."""

import functools
import inspect

import pytest

PARAM = type(pytest.param(None))


def in_turn(names, values):
    """Run the test for every value in turn; a failure says for which one.

    Like `pytest.mark.parametrize`, but fixtures are made once for all values; one that
    is a list, which collects something, is emptied before each.
    """
    names = names.replace(",", " ").split()

    def decorate(test):
        @functools.wraps(test)
        def run(**fixtures):
            for value in values:
                if isinstance(value, PARAM):
                    parts = value.values
                else:
                    parts = value if len(names) > 1 else [value]
                given = dict(zip(names, parts, strict=True))
                for fixture in fixtures.values():
                    if isinstance(fixture, list):
                        fixture.clear()
                try:
                    test(**fixtures, **given)
                except BaseException as error:
                    error.add_note(f"with {given}")
                    raise

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=kept)
        return run

    return decorate


def rarely(values):
    """Values of a slow test that are left to the weekly ones."""
    every = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*each, marks=pytest.mark.weekly) for each in every]
