"""Drawing of the next word from a language model's expectations."""

import numpy as np

from ..backend import to_host
from ..errors import check_number, check_sizes


def draw(
    logits, rng: np.random.Generator, temperature: float = 1.0, top_k: int = 0
) -> int:
    """The index of one of the logits (V,), drawn with probability softmax(logits / t).

    Uses one number of `rng`, whatever it draws. Waits for the device.

    temperature: t. Below 1 likely words become likelier; 0 takes the likeliest.
    top_k: draw among the k largest logits, and those equal to the last of them; 0:
        among all.

    ValueError for logits of another shape, or without a finite maximum.
    """
    logits = np.asarray(to_host(logits), np.float64)
    if logits.ndim != 1 or not np.isfinite(logits.max(initial=-np.inf)):
        raise ValueError(
            f"draw: logits must be a vector with a finite maximum, not {logits!r}"
        )
    check_number("draw", "temperature", temperature, "[0, inf)")
    check_sizes("draw", least=0, top_k=top_k)
    place = rng.random()
    if temperature == 0:
        return int(logits.argmax())
    chances = np.exp((logits - logits.max()) / temperature)
    if 0 < top_k < len(logits):
        chances[logits < np.partition(logits, -top_k)[-top_k]] = 0
    bounds = chances.cumsum()
    # less than the last bound, which is 1 or more: place is at most 1 - 2^-53
    return int(np.searchsorted(bounds, place * bounds[-1], side="right"))
