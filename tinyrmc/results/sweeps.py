"""What a sweep has reached: its summary, its table and its pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..runs.run import Run
from ..text import Rows, aligned, duration, markdown_table, number, terminal_width
from ..training.checkpoints import is_over, relocated, require_own_data, task_of
from .groups import last_evaluation
from .tables import (
    Summary,
    best_batch_of,
    best_word,
    group_summary,
    machine,
    picture,
    steps,
    success,
    success_at,
    went_to_the_end,
    without_places,
    write,
)

if TYPE_CHECKING:
    from .figures import Reached

# Of more combinations than this, only those with a run begun are shown: a thousand that
# were not run would hide the others.
MANY = 24

# --- Combinations and cells -----------------------------------------------------------


class Combination(NamedTuple):
    """A value for every field of a grid."""

    values: dict[str, str]
    words: list[str]  # the train command's flags that make it
    refusal: str | None  # why it cannot be, or None
    idle: dict[str, str]  # field that makes no difference to it -> where that is so


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination with one of the seeds."""

    values: dict[str, str]
    """field -> the word for its value"""
    seed: int
    words: list[str]
    """the words that train it, but for where and how long"""
    path: Path
    """its run directory"""
    data_dir: str | None = None
    """where its data are, if that was said"""

    @property
    def name(self) -> str:
        """Its values and its seed in words."""
        return f"{_label(self.values)}, seed {self.seed}"

    @property
    def log(self) -> Path:
        """The file with what its training prints."""
        return self.path.with_name(f"{self.path.name}.log")

    def run(self) -> Run | None:
        """Its run, if the directory is whole."""
        if not (self.path / "config.json").exists():
            return None
        run = Run.open(self.path)
        return dataclasses.replace(run, config=relocated(run.config, self.data_dir))

    def failure(self) -> str | None:
        """Why its training failed, if it did: the last line that it printed."""
        if not self.log.exists():
            return None
        text = self.log.read_text(encoding="utf-8", errors="replace").strip()
        last = text.rpartition("\n")[2]
        return last.removeprefix("error: ") if last.startswith("error: ") else None


def _label(values: dict[str, str]) -> str:
    return ", ".join(f"{field} {value}" for field, value in values.items())


def finished(cell: Cell) -> bool:
    """Whether a cell was trained, and evaluated, to its end.

    CorpusError if it was on another text than the one that is here.
    """
    if (run := cell.run()) is None:
        return False
    task = task_of(run)
    last = last_evaluation(run, task)
    require_own_data(run, task)  # else others would be trained on another text
    if last is None or task.result not in last:
        return False
    return is_over(run, task, last["step"])


# --- The summary ----------------------------------------------------------------------


def summary(
    run: Run, combinations: Sequence[Combination], cells: Sequence[Cell]
) -> Summary:
    """What there is of a sweep by now, as JSON can hold it: its configuration, and
    `combinations` in the order of the grid.

    A combination has its "values", whether a run of it has "begun", "notes" on what is
    missing, in "idle" what makes no difference to it, and in "group" the
    `tables.group_summary` of its evaluated runs, or None.
    """
    of_values: dict[str, list[Cell]] = {}
    for cell in cells:
        of_values.setdefault(_label(cell.values), []).append(cell)
    found = []
    for values, _, refusal, idle in combinations:
        runs, begun = [], False
        notes = [f"cannot be: {refusal}"] if refusal else []
        for cell in of_values.get(_label(values), ()):
            begun = begun or cell.run() is not None or cell.failure() is not None
            runs += _evaluated(cell)
            notes += _missing(cell)
        group = group_summary(_label(values), runs) if runs else None
        about = {"values": values, "begun": begun, "notes": notes, "idle": idle}
        found.append(about | {"group": group})
    command = without_places(run.environment.get("command", ""))
    config = {key: run.config[key] for key in run.config if key != "places"}
    return {**config, "command": command, "combinations": found}


def _evaluated(cell: Cell) -> list[Run]:
    """The run of a cell, if it has an evaluation."""
    run = cell.run()
    if run and last_evaluation(run, task_of(run)):
        return [run]
    return []


def _missing(cell: Cell) -> list[str]:
    """What a cell lacks, in words."""
    if finished(cell):
        return []
    if failure := cell.failure():
        return [f"seed {cell.seed} failed: {failure}"]
    if _evaluated(cell):
        return []
    what = "not run" if cell.run() is None else "not evaluated yet"
    return [f"seed {cell.seed} {what}"]


def shown(found: Summary) -> list[Summary]:
    """The combinations that are shown: all or, of MANY, those with a run begun."""
    every = found["combinations"]
    return [each for each in every if len(every) <= MANY or each["begun"]]


def left_out(found: Summary) -> str:
    """How many combinations are not shown, in words; empty if all are."""
    every = found["combinations"]
    if not (count := len(every) - len(shown(found))):
        return ""
    refused = sum(note.startswith("cannot be") for c in every for note in c["notes"])
    among = f"; {refused:,} of them cannot be" if refused else ""
    return f"{count:,} of {len(every):,} combinations not run{among}"


def _drawn(found: Summary) -> Summary:
    """What pictures show of a sweep: the grid of those values that are shown."""
    grid: dict[str, dict[str, None]] = {field: {} for field in found["grid"]}
    for combination in shown(found):
        for field, value in combination["values"].items():
            grid[field][value] = None
    inside = [
        each
        for each in found["combinations"]
        if all(value in grid[field] for field, value in each["values"].items())
    ]
    values = {field: [*of_field] for field, of_field in grid.items()}
    return {**found, "grid": values, "combinations": inside}


def varied(found: Summary) -> list[str]:
    """The fields that have several values in a sweep's grid."""
    return [field for field, values in found["grid"].items() if len(values) > 1]


def caption(found: Summary) -> str:
    """What all runs of a sweep have in common."""
    words = [f"{found['task']} {found['preset']}"]
    for field, values in found["grid"].items():
        if len(values) == 1:
            words.append(f"{field} {values[0]}")
    if found["words"]:
        words.append(" ".join(found["words"]))
    seeds = found["seeds"]
    noun = "seed" if len(seeds) == 1 else "seeds"
    return ", ".join([*words, f"{noun} {', '.join(map(str, seeds))}"])


def _groups(found: Summary) -> list[Summary]:
    """The groups of those combinations that have an evaluated run."""
    each = (combination["group"] for combination in found["combinations"])
    return [group for group in each if group]


def _references(groups: Sequence[Summary]) -> dict[str, float]:
    """The headline's floors and published numbers, if all groups have the same."""
    first, *others = [
        group["references"].get(group["curve_of"], {}) for group in groups
    ]
    return first if all(other == first for other in others) else {}


# --- The table ------------------------------------------------------------------------


def table(found: Summary) -> Rows:
    """A row for each of `shown`: the fields that vary, and what they led to."""
    groups, fields = _groups(found), varied(found)
    headline = groups[0]["curve_of"] if groups else "result"
    lower = bool(groups) and groups[0]["lower"]
    head = [
        *fields,
        f"{headline.replace('_', ' ')}, mean",
        "highest" if lower else "lowest",
        best_word(groups),
        "parameters",
        "best batch",
        success_at(groups[0], headline) if groups else "success",
        "steps",
        "time",
        "notes",
    ]
    rows = [head]
    for combination in shown(found):
        values, group = combination["values"], combination["group"]
        row = [values[field] for field in fields]
        row += _reached(group) if group else ["" if combination["begun"] else "not run"]
        row += [""] * (len(head) - 1 - len(row))
        notes = [*combination["notes"], *(group or {}).get("notes", ())]
        idle = combination.get("idle", {}).items()
        notes += [f"{field} is without effect {where}" for field, where in idle]
        rows.append([*row, "; ".join(notes)])
    return rows


def _reached(group: Summary) -> list[str]:
    """The cells of a row from the mean to the time."""
    name, runs = group["curve_of"], group["runs"]
    worst = max if group["lower"] else min
    values = [run[name] for run in runs if run[name] is not None]
    return [
        number(name, group["mean"].get(name)) or "not finite",  # a run diverged
        number(name, worst(values, default=None)),
        number(name, group["top"].get(name)),
        f"{group['parameters']:,}",
        number(name, group["top"].get(best_batch_of(group))),
        success(group, name),
        steps(group),
        duration(sum(run["seconds"] for run in runs) / len(runs)),
    ]


def markdown(found: Summary) -> str:
    """The `table` in Markdown."""
    return markdown_table(table(found))


# --- The pictures ---------------------------------------------------------------------


def _places(found: Summary) -> tuple[str | None, str, list[str]]:
    """The first field that varies, the second, and the others; a single one counts as
    the second.
    """
    fields = varied(found) or [*found["grid"]][:1]
    if len(fields) == 1:
        return None, fields[0], []
    first, second, *others = fields
    return first, second, others


def draw(found: Summary, path: Path) -> Path:
    """What the combinations of a sweep's `summary` reached: lines for the first field
    that varies, over the second, panels for others.

    With a single field that varies there is one line, over its values. Each line says
    how many parameters its networks have.
    """
    from . import figures

    line, over, others = _places(found)
    cells: dict[str, dict[str, list[Summary]]] = {}  # panel -> line -> combinations
    for combination in found["combinations"]:
        of_panel = cells.setdefault(_short(combination["values"], others), {})
        label = _short(combination["values"], [line] if line else [])
        of_panel.setdefault(label, []).append(combination)
    panels = {
        panel: {
            _with_parameters(label, combinations): {
                each["values"][over]: _in_the_end(each) for each in combinations
            }
            for label, combinations in lines.items()
        }
        for panel, lines in cells.items()
    }
    groups = _groups(found)
    return figures.value_grid(
        panels,
        _references(groups),
        groups[0]["curve_of"],
        over.rpartition(".")[2],
        path,
        caption(found),
        _cores(found, line),
    )


def _with_parameters(label: str, combinations: Sequence[Summary]) -> str:
    groups = [each["group"] for each in combinations if each["group"]]
    counts = sorted({group["parameters"] for group in groups})
    ends = dict.fromkeys(counts[:1] + counts[-1:])
    says = " to ".join(f"{count:,}" for count in ends)
    says = f"{says} parameters" if says else "not run"
    return f"{label}: {says}" if label else says


def _in_the_end(combination: Summary) -> Reached | None:
    """What the runs of a combination reached."""
    from .figures import Reached

    if (group := combination["group"]) is None:
        return None
    name = group["curve_of"]
    values = [run[name] for run in group["runs"] if run[name] is not None]
    whole = went_to_the_end(group) and not combination["notes"]
    return Reached(values, whole) if values else None


def draw_curves(found: Summary, path: Path, against: str = "steps") -> Path:
    """The learning curves of a sweep's `summary`: columns of panels for the first field
    that varies, lines for the second, rows for others.

    With a single field that varies its values are lines.
    """
    from . import figures

    column, line, others = _places(found)
    panels: dict[str, dict[str, dict[str, list[list[dict[str, Any]]]]]] = {}
    for combination in found["combinations"]:
        values = combination["values"]
        of_row = panels.setdefault(_short(values, others), {})
        of_panel = of_row.setdefault(_short(values, [column] if column else []), {})
        of_panel[_short(values, [line])] = _lines(combination["group"])
    groups = _groups(found)
    return figures.curve_grid(
        panels,
        _references(groups),
        groups[0]["curve_of"],
        path,
        caption(found),
        against,
        _cores(found, line),
    )


def _lines(group: Summary | None) -> list[list[dict[str, Any]]]:
    """A group's curves as lines of metrics.jsonl."""
    if group is None:
        return []
    name, batch = group["curve_of"], group["config"]["train"]["batch_size"]
    return [
        [
            {"step": step, "samples": step * batch, "seconds": seconds, name: value}
            for step, seconds, _, value in run["curve"]
        ]
        for run in group["runs"]
    ]


def _short(values: dict[str, str], fields: Sequence[str]) -> str:
    return ", ".join(f"{field.rpartition('.')[2]} {values[field]}" for field in fields)


def _cores(found: Summary, field: str | None) -> list[str] | None:
    """The values of the field if it is the core, for their colours."""
    return found["grid"][field] if field == "model.core" else None


# --- Files ----------------------------------------------------------------------------


def save(found: Summary, out: Path, against: str = "steps") -> list[Path]:
    """Write a sweep's `summary`: the table to `out`, and beside it what it was made of
    and, if there is an evaluated run, pictures. Returns their paths.

    What stands in `out` above the caption stays.
    """
    groups = _groups(found)
    above, below = caption(found), ""
    if without := left_out(found):
        below = f"\n{without}.\n"
    if groups:
        references = ", ".join(
            f"{label} {number(groups[0]['curve_of'], value)}"
            for label, value in _references(groups).items()
        )
        above += f"; beside it: {references}" if references else ""
        below += f"\n{_origin(found, groups)}\n"
    words = f"{above}.\n\n{markdown(found)}{below}"
    write(out, words, found, begins=caption(found))
    paths = [out, out.with_suffix(".json")]
    if groups:
        curves, drawn = out.with_name(f"{out.stem}_curves.md"), _drawn(found)
        paths.append(picture(out, lambda path: draw(drawn, path)))
        paths.append(picture(curves, lambda path: draw_curves(drawn, path, against)))
    return paths


def _origin(found: Summary, groups: Sequence[Summary]) -> str:
    """The command, but for where the sweep lies, and the machines."""
    runs = [run for group in groups for run in group["runs"]]
    return f"`{found['command']}` on {'; '.join(dict.fromkeys(map(machine, runs)))}."


def show(
    run: Run,
    combinations: Sequence[Combination],
    cells: Sequence[Cell],
    out: Path,
    against: str = "steps",
) -> list[Path]:
    """Print the table of what there is of a sweep by now, and `save` it all."""
    found = summary(run, combinations, cells)
    if shown(found):
        print(f"\n{aligned(table(found), terminal_width(), len(varied(found)))}")
    if without := left_out(found):
        print(f"\n{without}")
    print()
    return save(found, out, against)
