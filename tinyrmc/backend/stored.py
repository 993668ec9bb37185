"""Stored arrays that take the place of others, as those of a checkpoint do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import Array, namespace


def matching(
    what: str, arrays: Mapping[str, Array], own: Mapping[str, Array]
) -> dict[str, Array]:
    """Stored arrays, by name, in the precision of those that they will replace.

    ValueError names all that are missing, unknown, of another shape or kind, or that
    hold a number too large for their dtype.
    """
    wrong = []
    found = {}
    for name in {**own, **arrays}:
        array = arrays.get(name)
        mine = own.get(name)
        says = ""
        if array is None or mine is None:
            says = "is unknown" if mine is None else "is missing from the arrays"
        elif array.shape != mine.shape:
            says = f"has shape {mine.shape}, the array {array.shape}"
        elif array.dtype.kind not in mine.dtype.kind.replace("c", "fc"):
            says = f"is {mine.dtype}, the array {array.dtype}"
        else:
            isinf = namespace(array).isinf  # and a TypeError for masked arrays
            with np.errstate(over="ignore"):  # WebAssembly has no flag for an overflow
                found[name] = array.astype(mine.dtype)
            if array.dtype.kind in "fc" and array.dtype != mine.dtype:
                if bool((isinf(found[name]) & ~isinf(array)).any()):
                    says = f"is {mine.dtype}, too small for a number"
        if says:
            wrong.append(f"{name!r} {says}")
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ValueError(f"{what} {'; '.join(wrong[:8])}{more}")
    return found
