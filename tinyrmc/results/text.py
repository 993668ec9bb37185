"""Numbers and tables as people read them."""

from __future__ import annotations


def percent(value: float | None) -> str:
    """A fraction as people read it."""
    return "" if value is None or value != value else f"{100 * value:.1f} %"


def number(metric: str, value: float | None) -> str:
    """The value of a metric as people read it: in percent what is called accuracy."""
    return (
        percent(value)
        if "accuracy" in metric
        else ""
        if value is None
        else f"{value:.4f}"
    )


def counted(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def markdown_table(rows: list[list[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    rows = [
        [cell.replace("|", "\\|") for cell in row]
        for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def results_table(metrics: dict, references: dict[str, dict[str, float]]) -> str:
    """The held-out metrics, each beside its floors and published numbers."""
    labels = list(
        dict.fromkeys(label for values in references.values() for label in values)
    )
    rows = [["", "this run", *labels]]
    for name in (n for n in metrics if n.startswith("test_")):
        known = references.get(name, {})
        rows.append(
            [
                name.replace("_", " "),
                *(
                    number(name, value)
                    for value in (metrics[name], *map(known.get, labels))
                ),
            ]
        )
    return aligned(rows)


def aligned(rows: list[list[str]]) -> str:
    """Rows of equally many cells as lines: the first column to the left, the others to
    the right.
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    )


def duration(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    )
