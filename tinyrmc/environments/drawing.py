"""Pictures of worlds as arrays: larger cells, film strips, coloured text."""

from collections.abc import Sequence

import numpy as np

from ..backend import Array, namespace


def enlarge(pictures: Array, size: int) -> Array:
    """Cells of size x size pixels: (..., h, w, 3) -> (..., h * size, w * size, 3)."""
    xp = namespace(pictures)
    return xp.repeat(xp.repeat(pictures, size, axis=-3), size, axis=-2)


def strip(
    pictures: Sequence[np.ndarray], columns: int, gap: int = 1, colour: int = 255
) -> np.ndarray:
    """A film strip: pictures (h, w, 3) of one size in rows of `columns`, with gaps."""
    height, width, channels = pictures[0].shape
    rows = -(-len(pictures) // columns)
    shape = rows * (height + gap) - gap, columns * (width + gap) - gap, channels
    whole = np.full(shape, colour, np.uint8)
    for k, picture in enumerate(pictures):
        top, left = k // columns * (height + gap), k % columns * (width + gap)
        whole[top : top + height, left : left + width] = picture
    return whole


def ansi(picture: np.ndarray, letters: Sequence[str]) -> str:
    """A picture (h, w, 3) for a terminal, two columns a cell.

    letters: h strings of w characters, one for each cell, so that it can be read
        without colours too.
    """
    lines = []
    for pixels, line in zip(picture.tolist(), letters, strict=True):
        cells = []
        for (r, g, b), letter in zip(pixels, line, strict=True):
            ink = 30 if 2 * r + 5 * g + b > 1000 else 97  # black on light, or white
            cells.append(f"\x1b[48;2;{r};{g};{b};{ink}m{letter} ")
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)
