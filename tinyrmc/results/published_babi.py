"""Published about bAbI: test errors by task, and the commands that train them.

For the report of the task `babi`, whose file says which column a configuration belongs
to. They are here because so many lines of numbers would hide the experiment there.
"""

from __future__ import annotations

# Test errors in percent, by task: supervised memory networks and LSTM of Weston et al.
# 2015, the weakly supervised ones (WSH), and the End-To-End Memory Networks: a bag of
# words, position encoding (PE), linear start (LS), random memories (RN), ReLUs; jointly
# trained ones of 1 to 3 hops with PE and LS, with RN too, and with layerwise tying.
HEADS = (
    "supervised", "LSTM", "WSH", "BoW", "PE", "PE LS", "PE LS RN", "PE LS RN ReLU",
    "joint 1 hop", "joint 2 hops", "joint 3 hops", "joint RN", "joint layerwise",
)  # fmt: skip
ERRORS = {
    # without the column of the ReLU
    "1k": """
        1     0    50   0.1   0.6   0.1   0.2   0.0   0.8   0.0   0.1   0.0   0.1
        2     0    80  42.8  17.6  21.6  12.8   8.3  62.0  15.6  14.0  11.4  18.8
        3     0    80  76.4  71.0  64.2  58.8  40.3  76.9  31.6  33.1  21.9  31.7
        4     0    39  40.3  32.0   3.8  11.6   2.8  22.8   2.2   5.7  13.4  17.5
        5     2    30  16.3  18.3  14.1  15.7  13.1  11.0  13.4  14.8  14.4  12.9
        6     0    52  51.0   8.7   7.9   8.7   7.6   7.2   2.3   3.3   2.8   2.0
        7    15    51  36.1  23.5  21.6  20.3  17.3  15.9  25.4  17.9  18.3  10.1
        8     9    55  37.8  11.4  12.6  12.7  10.0  13.2  11.7  10.1   9.3   6.1
        9     0    36  35.9  21.1  23.3  17.0  13.2   5.1   2.0   3.1   1.9   1.5
       10     2    56  68.7  22.8  17.4  18.6  15.1  10.6   5.0   6.6   6.5   2.6
       11     0    38  30.0   4.1   4.3   0.0   0.9   8.4   1.2   0.9   0.3   3.3
       12     0    26  10.1   0.3   0.3   0.1   0.2   0.4   0.0   0.3   0.1   0.0
       13     0     6  19.7  10.5   9.9   0.3   0.4   6.3   0.2   1.4   0.2   0.5
       14     1    73  18.3   1.3   1.8   2.0   1.7  36.9   8.1   8.2   6.9   2.0
       15     0    79  64.8  24.3   0.0   0.0   0.0  46.4   0.5   0.0   0.0   1.8
       16     0    77  50.5  52.0  52.1   1.6   1.3  47.4  51.3   3.5   2.7  51.0
       17    35    49  50.9  45.4  50.1  49.0  51.0  44.4  41.2  44.5  40.4  42.6
       18     5    48  51.3  48.1  13.6  10.1  11.1   9.6  10.3   9.2   9.4   9.2
       19    64    92   100  89.7  87.4  85.6  82.8  90.7  89.9  90.2  88.0  90.6
       20     0     9   3.6   0.1   0.0   0.0   0.0   0.0   0.1   0.0   0.0   0.2
     mean   6.7  51.3  40.2  25.1  20.3  16.3  13.9  25.8  15.6  13.3  12.4  15.2
    """,
    # and without tasks 1, 12 and 20, where every memory network is at 0 to 0.1
    "10k": """
        2     0  81.9  39.6   0.6   0.4   0.5   0.3   0.3  62.0   1.3   2.3   1.0   0.8
        3     0  83.1  79.5  17.8  12.6  15.0   9.3   2.1  80.0  15.8  14.0   6.8  18.3
        4     0   0.2  36.6  31.8     0     0     0     0  21.4     0     0     0     0
        5   0.3   1.2  21.1  14.2   0.8   0.6   0.8   0.8   8.7   7.2   7.5   6.1   0.8
        6     0  51.8  49.9   0.1   0.2   0.1     0   0.1   6.1   0.7   0.2   0.1   0.1
        7   3.3  24.9  35.1  10.7   5.7   3.2   3.7   2.0  14.8  10.5   6.1   6.6   8.4
        8   1.0  34.1  42.7   1.4   2.4   2.2   0.8   0.9   8.9   4.7   4.0   2.7   1.4
        9     0  20.2  36.4   1.8   1.3   2.0   0.8   0.3   3.7   0.4     0     0   0.2
       10     0  30.1  76.0   1.9   1.7   3.3   2.4     0  10.3   0.6   0.4   0.5     0
       11     0  10.3  25.3     0     0     0     0   0.1   8.3     0     0     0   0.4
       13     0   6.1  12.3     0   0.1     0     0     0   5.6     0     0     0     0
       14     0  81.0   8.7     0   0.2     0     0   0.1  30.9   0.2   0.2     0   1.7
       15     0  78.7  68.8  12.5     0     0     0     0  42.6     0     0   0.2     0
       16     0  51.9  50.9  50.9  48.6   0.1   0.4  51.8  47.3  46.4   0.4   0.2  49.2
       17  24.6  50.1  51.1  47.4  40.3  41.1  40.7  18.6  40.0  39.7  41.7  41.8  40.0
       18   2.1   6.8  45.8  41.3   7.4   8.6   6.7   5.3   9.2  10.1   8.6   8.0   8.4
       19  31.9  90.3   100  75.4  66.6  66.7  66.5   2.3  91.0  80.8  73.3  75.7  89.5
     mean   3.2  36.4  39.2  15.4   9.4   7.2   6.6   4.2  24.5  10.9   7.9   7.5  11.0
    """,
}

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
for _size, _words in {"1k": WORDS_1K, "10k": WORDS_10K}.items():
    _heads = [head for head in HEADS if _size == "10k" or head != "PE LS RN ReLU"]
    for _line in ERRORS[_size].strip().splitlines():
        _task, *_errors = _line.split()
        for _head, _error in zip(_heads, _errors, strict=True):
            _cell = f"{row_of(_size, _task)}, {_head}"
            PUBLISHED[_cell] = f"{_error} %", _words.get(_head)
        for _head in UNPUBLISHED:
            PUBLISHED[f"{row_of(_size, _task)}, {_head}"] = "", _words[_head]

# The claims of section 4.4 of the paper about its table of 1,000 questions.
CLAIMS: dict[str, tuple[str, str]] = {}
for _says, _task, _better, _worse in (
    *(("position encoding helps", k, "PE", "BoW") for k in ("4", "5", "15", "18")),
    ("linear start helps", "16", "PE LS", "PE"),
    ("random memories help", "mean", "PE LS RN", "PE LS"),
    ("joint training helps", "mean", "joint 3 hops", "PE LS"),
    ("joint training helps, with random memories", "mean", "joint RN", "PE LS RN"),
    ("two hops are better than one", "mean", "joint 2 hops", "joint 1 hop"),
    ("three hops are better than two", "mean", "joint 3 hops", "joint 2 hops"),
):
    _row = row_of("1k", _task)
    CLAIMS[f"{_says}: {_row}"] = f"{_row}, {_better}", f"{_row}, {_worse}"
