"""Published about bAbI: test errors by task, and the commands that train them.

For the report of the task `babi`, whose file says which column a configuration belongs
to. The numbers are in `published_babi.txt`.
"""

from pathlib import Path

_PLAIN = (
    "quick --data.task all --recipe.linear-epochs 0 --train.learning-rate 0.01 "
    "--train.steps 2800 --recipe.random-memories 0"
)
_WITHOUT_RN = "--recipe.random-memories 0"
# Columns that no paper has.
UNPUBLISHED = ("RMC", "EntNet")
# The words that train a column: with 1,000 questions a task.
WORDS_1K = {
    "LSTM": "cores --data.task all --model.core lstm",
    "RMC": "cores --data.task all",
    "EntNet": "cores --data.task all --model.core entnet",
    "BoW": f"{_PLAIN} --model.encoding bag",
    "PE": _PLAIN,
    "PE LS": f"quick --data.task all {_WITHOUT_RN}",
    "PE LS RN": "quick --data.task all",
    "joint 1 hop": f"joint {_WITHOUT_RN} --model.hops 1",
    "joint 2 hops": f"joint {_WITHOUT_RN} --model.hops 2",
    "joint 3 hops": f"joint {_WITHOUT_RN}",
    "joint RN": "joint",
    "joint layerwise": f"joint {_WITHOUT_RN} --model.tying layerwise",
}
# With 10,000 questions, an epoch has ten times the steps; joint training has 20 epochs
# and a linear start.
_LARGE = "large --data.task all --model.embedding-size 20 --model.relu 0"
_PLAIN_LARGE = _PLAIN.replace("quick --data.task all", _LARGE).replace("2800", "28100")
_LONG = (
    "--data.variant en-10k --train.steps 140625 --recipe.linear-epochs 5 "
    "--recipe.halve-every 5"
)
WORDS_10K = {
    **{
        head: f"{WORDS_1K[head]} --data.variant en-10k --train.steps 28100"
        for head in ("LSTM", *UNPUBLISHED)
    },
    "BoW": f"{_PLAIN_LARGE} --model.encoding bag",
    "PE": _PLAIN_LARGE,
    "PE LS": f"{_LARGE} {_WITHOUT_RN}",
    "PE LS RN": _LARGE,
    "PE LS RN ReLU": "large --data.task all",
    **{
        head: f"{words} {_LONG}"
        for head, words in WORDS_1K.items()
        if head.startswith("joint")
    },
}


def row_of(size: str, task: str) -> str:
    """The row of a table of results: "1k, task 16", or "1k, mean"."""
    return f"{size}, mean" if task == "mean" else f"{size}, task {task}"


PUBLISHED: dict[str, tuple[str, str | None]] = {}
_, *_tables = Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n\n")
for _table in _tables:
    _head, *_lines = _table.strip().splitlines()
    _size, *_heads = _head.split(", ")
    _words = {"1k": WORDS_1K, "10k": WORDS_10K}[_size]
    for _line in _lines:
        _task, *_errors = _line.split()
        for _head, _error in zip(_heads, _errors, strict=True):
            _cell = f"{row_of(_size, _task)}, {_head}"
            PUBLISHED[_cell] = f"{_error} %", _words.get(_head)
        for _head in UNPUBLISHED:
            PUBLISHED[f"{row_of(_size, _task)}, {_head}"] = "", _words[_head]
