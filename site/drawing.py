"""Draws what the core is, for light pages and for dark ones: `python site/drawing.py`.

The drawing is the one of chapter 0: panel (a) of its figure 1, from the chapter's own
cells. On dark pages every colour has the lightness that it lacks on light ones, so
black becomes white, and pale tints become deep ones of the same hue.
"""

from __future__ import annotations

import colorsys
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

CHAPTER = HERE.parent / "chapters" / "source" / "00_first_look.py"
FIRST = "# Computes one step of a small core"  # in the first cell after the imports
LAST = "# Draws figure 1\n"  # begins the last cell that is needed
NAMES = {False: "core-light.svg", True: "core-dark.svg"}
DARKEST = 0.08  # lightness of what is white on a light page


def drawn(chapter: Path = CHAPTER) -> dict[str, Any]:
    """The chapter's names when figure 1 is drawn."""
    import matplotlib.pyplot as plt

    text = chapter.read_text(encoding="utf-8")
    imports = text[text.index("\nimport ") :].partition("\n# %%")[0]
    begin, found, rest = text[text.find(FIRST) :].partition(LAST)
    if not found:
        raise ValueError(f"{chapter} has no cell that begins with {LAST.strip()!r}")
    plt.close("all")
    names: dict[str, Any] = {"__name__": chapter.stem}
    code = (imports + begin + rest.partition("\n# %%")[0]).replace("plt.show()", "")
    exec(compile(code, str(chapter), "exec"), names)
    return names


def inverted(colour: Any) -> tuple[float, float, float, float]:
    """A colour of a light page as it is on a dark one."""
    from matplotlib.colors import to_rgba

    *rgb, alpha = to_rgba(colour)
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    lightness = DARKEST + (1 - lightness) * (1 - DARKEST)
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
    return red, green, blue, alpha


def darken(panel: Any) -> None:
    """Invert every colour of a panel's texts and shapes."""
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    for text in panel.findobj(Text):
        text.set_color(inverted(text.get_color()))
    for patch in panel.findobj(Patch):
        patch.set(
            facecolor=inverted(patch.get_facecolor()),
            edgecolor=inverted(patch.get_edgecolor()),
        )


def main(folder: Path = HERE / "static") -> None:
    """Write both pictures, without a background of their own."""
    import matplotlib as mpl

    for dark, name in NAMES.items():
        with mpl.rc_context({"svg.hashsalt": "tinyrmc", "svg.fonttype": "path"}):
            names = drawn()
            figure, panel = names["figure"], names["panels"]["a"]
            panel.set_title("")
            (attention,) = (text for text in panel.texts if text.get_text() == "A")
            attention.set(text="attention", fontsize=7.8)
            for other in names["panels"].values():
                other.set_visible(other is panel)
            if dark:
                darken(panel)
            figure.canvas.draw()
            box = panel.get_tightbbox().transformed(figure.dpi_scale_trans.inverted())
            figure.savefig(
                folder / name,
                bbox_inches=box.padded(0.05),
                transparent=True,
                metadata={"Date": None, "Creator": None},
            )


if __name__ == "__main__":
    main()
