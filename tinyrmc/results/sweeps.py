"""What a sweep has reached: its summary, its table and its pictures."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from ..runs.run import Run
from ..training.checkpoints import task_from_dict
from .groups import last_evaluation
from .tables import group_summary, machine, picture, steps, success, write
from .text import duration, markdown_table, number


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination under a seed."""

    values: dict[str, str]  # field -> the word for its value
    seed: int
    words: list[str]  # that train it, without where and for how long
    path: Path

    @property
    def name(self) -> str:
        """Its values and its seed in words."""
        return ", ".join(
            [
                *(f"{field} {value}" for field, value in self.values.items()),
                f"seed {self.seed}",
            ]
        )

    @property
    def log(self) -> Path:
        """The file with what its training prints."""
        return self.path.with_name(f"{self.path.name}.log")

    def run(self) -> Run | None:
        """Its run directory, if it is whole."""
        return Run.open(self.path) if (self.path / "config.json").exists() else None

    def failure(self) -> str | None:
        """Why its training failed, if it did: the last line that it printed."""
        last = (
            self.log.read_text(encoding="utf-8", errors="replace")
            .strip()
            .splitlines()[-1:]
            if self.log.exists()
            else []
        )
        return (
            last[0].removeprefix("error: ")
            if last and last[0].startswith("error: ")
            else None
        )


def finished(cell: Cell) -> bool:
    run = cell.run()
    if run is None:
        return False
    task = task_from_dict(run.config)
    last = last_evaluation(run, task)
    return last is not None and last["step"] >= task.config.train.steps


# --- The table and the pictures -------------------------------------------------------


def summary(run: Run, found: list, cells: list[Cell]) -> dict:
    """What there is of a sweep, as JSON can hold it: its configuration, and
    `combinations` in the order of the grid.

    A combination has its "values", "notes" on what is missing, and in "group" the
    summary of its evaluated runs (see report.py) or None.
    """
    combined = []
    for values, _, refusal in found:
        members = [cell for cell in cells if cell.values == values]
        runs = {cell.seed: of_cell for cell in members if (of_cell := _evaluated(cell))}
        notes = [f"cannot be: {refusal}"] if refusal else []
        for cell in members:
            if not finished(cell) and (failure := cell.failure()):
                notes.append(f"seed {cell.seed} failed: {failure}")
            elif cell.seed not in runs:
                notes.append(
                    f"seed {cell.seed} not run"
                    if cell.run() is None
                    else f"seed {cell.seed} not evaluated yet"
                )
        label = ", ".join(f"{field} {value}" for field, value in values.items())
        group = group_summary(label, list(runs.values())) if runs else None
        combined.append({"values": values, "notes": notes, "group": group})
    return {
        **run.config,
        "command": run.environment["command"],
        "combinations": combined,
    }


def _evaluated(cell):
    run = cell.run()
    return run if run and last_evaluation(run, task_from_dict(run.config)) else None


def varied(found: dict) -> list[str]:
    """The fields of which a sweep's grid has several values."""
    return [field for field, values in found["grid"].items() if len(values) > 1]


def caption(found: dict) -> str:
    """What all runs of a sweep have in common, in words."""
    same = [
        f"{field} {values[0]}"
        for field, values in found["grid"].items()
        if len(values) == 1
    ]
    more = [" ".join(found["words"])] if found["words"] else []
    seeds = (
        f"{'seed' if len(found['seeds']) == 1 else 'seeds'} "
        f"{', '.join(map(str, found['seeds']))}"
    )
    return ", ".join([f"{found['task']} {found['preset']}", *same, *more, seeds])


def markdown(found: dict) -> str:
    """The table of a sweep's `summary`, in Markdown: a row for each combination."""
    groups = _evaluated_groups(found)
    headline = groups[0]["curve_of"] if groups else "result"
    threshold = (
        f"success: {number(headline, groups[0]['success'])}" if groups else "success"
    )
    columns = [
        "mean",
        "lowest",
        "top",
        "parameters",
        "best batch",
        threshold,
        "steps",
        "time",
        "notes",
    ]
    rows = [
        [*varied(found), f"{headline.replace('_', ' ')}, {columns[0]}", *columns[1:]]
    ]
    for combination in found["combinations"]:
        group, values = (
            combination["group"],
            [combination["values"][field] for field in varied(found)],
        )
        reached = _reached(group) if group else ["not run", *[""] * (len(columns) - 2)]
        rows.append([*values, *reached, "; ".join(combination["notes"])])
    return markdown_table(rows)


def _reached(group):
    name, runs = group["curve_of"], group["runs"]
    lowest = min((run[name] for run in runs if run[name] is not None), default=None)
    best = number(name, group["top"].get(name.replace("test_", "best_batch_")))
    shown = [
        number(name, value)
        for value in (group["mean"].get(name), lowest, group["top"].get(name))
    ]
    seconds = sum(run["seconds"] for run in runs) / len(runs)
    return [
        *shown,
        f"{group['parameters']:,}",
        best,
        success(group),
        steps(group),
        duration(seconds),
    ]


def draw(found: dict, path: Path) -> Path:
    """What the combinations of a sweep's `summary` reached: lines for the first field
    that varies, over the second, panels for others.

    With a single field that varies there is one line, over its values. Each line says
    how many parameters its networks have.
    """
    from .. import figures

    fields = varied(found)
    line, over, *rest = (
        fields if len(fields) > 1 else [None, *(fields or list(found["grid"])[:1])]
    )
    panels: dict = {}
    for combination in found["combinations"]:
        values, group = combination["values"], combination["group"]
        of_line = panels.setdefault(_short(values, rest), {}).setdefault(
            _short(values, [line] if line else []), []
        )
        of_line.append((values[over], group, not combination["notes"]))
    panels = {
        panel: {
            _with_parameters(name, of_line): {
                value: _in_the_end(*cell) for value, *cell in of_line
            }
            for name, of_line in lines.items()
        }
        for panel, lines in panels.items()
    }
    groups = _evaluated_groups(found)
    axis = over.rpartition(".")[2]
    return figures.value_grid(
        panels,
        _references(groups),
        groups[0]["curve_of"],
        axis,
        path,
        caption(found),
        _cores(found, line),
    )


def _with_parameters(name, cells):
    counts = sorted({group["parameters"] for _, group, _ in cells if group})
    says = " to ".join(
        f"{count:,}" for count in dict.fromkeys(counts[:1] + counts[-1:])
    )
    return ": ".join(filter(None, [name, f"{says} parameters" if says else "not run"]))


def _in_the_end(group, whole):
    from .. import figures

    values = [run[group["curve_of"]] for run in group["runs"]] if group else []
    values = [value for value in values if value is not None]
    done = group and all(
        run["step"] >= group["config"]["train"]["steps"] for run in group["runs"]
    )
    return figures.Reached(values, bool(whole and done)) if values else None


def _cores(found, field):
    """The values of a field that is the core, for their colours."""
    return found["grid"][field] if field == "model.core" else None


def _evaluated_groups(found):
    return [
        combination["group"]
        for combination in found["combinations"]
        if combination["group"]
    ]


def draw_curves(found: dict, path: Path, against: str = "steps") -> Path:
    """The learning curves of a sweep's `summary`: columns of panels for the first field
    that varies, lines for the second, rows for others.

    With a single field that varies its values are lines.
    """
    from .. import figures

    fields = varied(found)
    column, line, *rows = (
        fields if len(fields) > 1 else [None, *(fields or list(found["grid"])[:1])]
    )
    panels: dict = {}
    for combination in found["combinations"]:
        label = [
            _short(combination["values"], of)
            for of in ([column] if column else [], [line], rows)
        ]
        panels.setdefault(label[2], {}).setdefault(label[0], {})[label[1]] = _lines(
            combination["group"]
        )
    groups = _evaluated_groups(found)
    headline, cores = groups[0]["curve_of"], _cores(found, line)
    return figures.curve_grid(
        panels, _references(groups), headline, path, caption(found), against, cores
    )


def _references(groups):
    """The headline's floors and published numbers, if all combinations have the same."""
    each = [group["references"].get(group["curve_of"], {}) for group in groups]
    return each[0] if all(references == each[0] for references in each) else {}


def _short(values, fields):
    return ", ".join(f"{field.rpartition('.')[2]} {values[field]}" for field in fields)


def _lines(group):
    """A group's curves as lines of metrics.jsonl."""
    batch = group["config"]["train"]["batch_size"] if group else 0
    return [
        [
            {
                "step": step,
                "samples": step * batch,
                "seconds": seconds,
                group["curve_of"]: value,
            }
            for step, seconds, _, value in run["curve"]
        ]
        for run in (group["runs"] if group else [])
    ]


def show(
    run: Run, found: list, cells: list[Cell], out: Path, against: str = "steps"
) -> list[Path]:
    """Print the table of what there is of a sweep; write it, its JSON and its pictures.

    Returns their paths.
    """
    told = summary(run, found, cells)
    print(f"\n{markdown(told)}")
    groups = _evaluated_groups(told)
    if not groups:
        write(out, f"{caption(told)}.\n\n{markdown(told)}", told)
        return [out, out.with_suffix(".json")]
    known = ", ".join(
        f"{label} {number(groups[0]['curve_of'], value)}"
        for label, value in _references(groups).items()
    )
    machines = "; ".join(
        dict.fromkeys(machine(of_run) for group in groups for of_run in group["runs"])
    )
    command = re.sub(r" --run[ =]\S+", "", told["command"])
    beside = f"; beside it: {known}" if known else ""
    write(
        out,
        f"{caption(told)}{beside}.\n\n{markdown(told)}\n`{command}` on {machines}.\n",
        told,
    )
    curves = out.with_name(f"{out.stem}_curves.md")
    pictures = [
        picture(out, lambda path: draw(told, path)),
        picture(curves, lambda path: draw_curves(told, path, against)),
    ]
    return [out, out.with_suffix(".json"), *pictures]
