"""The judge of an experiment that a learner builds whole, from its data to its picture.

Nobody knows the task. The check looks at what makes its result worth anything: nothing
that is tested was trained on, the number reported is that of the network handed in, a
guess is known and drawn, and examples that the check draws itself come out as well. A
learner's function returns a dict:

    draw        draw(rng, count) -> inputs (count, ...), targets (count,), integers
    trained     inputs and targets of all examples that it was trained on
    tested      those of at least 200 held-out examples
    predict     predict(inputs) -> an answer for each
    right       the share of right answers to those held out
    floor       the share that the same answer to all of them gets, at its best
    control     (with a memory) the share where all inputs but the last are another
                example's: those of the one before, np.roll(inputs[:, :-1], 1, axis=0)
    losses      the loss of each step of training, of 20 steps or more
    conclusion  "learns" or "cannot tell"
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import panels
from ..compare import Wrong

FEWEST = 200
SOUND = "the experiment is sound"
CLAIMS = ("learns", "cannot tell")
NEVER = "does not learn"  # that takes several rates and seeds
KEYS = "draw trained tested predict right floor losses conclusion"


def whole(memory: bool = False) -> Callable[..., Any]:
    """run(answer, seed), for `used`. memory: the control is asked for as well."""

    def run(answer: Any, seed: int) -> Any:
        panel = panels.new_panel()
        found = answer(seed, panel)
        if found is None:
            return None
        keys = {*KEYS.split()} | ({"control"} if memory else set())
        if not isinstance(found, dict) or {*found} != keys:
            raise Wrong(
                f"it should return a dict with the keys {', '.join(sorted(keys))}"
            )
        _check_draw(found["draw"], memory)
        trained, tested = (
            _examples(found[name], name, found["draw"])
            for name in ("trained", "tested")
        )
        _check_held_out(trained, tested)
        right = _check_right(found, trained, tested)
        count = len(tested[1])
        error = _error(right, count)
        beside = [("a guess", _check_floor(found, tested[1]), error)]
        if memory:
            control = _check_control(found, tested)
            both = math.hypot(error, _error(control, count))  # of a difference
            beside.append(("the control", control, both))
        _check_conclusion(found["conclusion"], right, beside)
        _check_picture(panel, np.asarray(found["losses"], float))
        if seed == 0:  # once is enough
            again, other = (
                np.asarray(answer(k, panels.new_panel())["trained"][0]) for k in (0, 1)
            )
            if not np.array_equal(trained[0], again):
                raise Wrong(
                    "it trains on other examples when it runs again: use the seed"
                )
            if np.array_equal(trained[0], other):
                raise Wrong("it trains on the same examples with every seed")
        return SOUND

    return run


def _check_draw(draw: Any, memory: bool) -> None:
    """A memory may be asked for a number that it saw: there the control judges."""
    one, again, other = (draw(np.random.default_rng(k), 50) for k in (1, 1, 2))
    if not np.array_equal(one[0], again[0]):
        raise Wrong("draw gives other inputs with the same rng: draw all with rng")
    if np.array_equal(one[0], other[0]):
        raise Wrong("draw gives the same inputs with another rng")
    columns, targets = np.reshape(one[0], (50, -1)).T, np.asarray(one[1])
    if (targets == targets[0]).all():
        return
    tells = np.array_equal if memory else _tells
    for k, column in enumerate(columns):
        if tells(column, targets):
            raise Wrong(f"the answer is among the inputs, as number {k} of each")
    if not memory and all(
        any(_tells(column, targets == each) for column in columns)
        for each in np.unique(targets)
    ):
        raise Wrong(
            "the answer is among the inputs: each answer has a number of its own"
        )


def _tells(column: np.ndarray, targets: np.ndarray) -> bool:
    """Whether each value of a column goes with one answer, and each answer with one."""
    one, other = column.tolist(), targets.tolist()
    return len({*zip(one, other, strict=True)}) == len({*one}) == len({*other})


def _examples(found: Any, name: str, draw: Any) -> tuple[np.ndarray, np.ndarray]:
    like = np.asarray(draw(np.random.default_rng(0), 2)[0])
    try:
        inputs, targets = (np.asarray(each) for each in found)
    except (TypeError, ValueError):
        raise Wrong(f"{name} should be a pair, inputs and targets") from None
    if inputs.shape[1:] != like.shape[1:] or targets.shape != inputs.shape[:1]:
        raise Wrong(
            f"{name} has inputs of shape {inputs.shape} and targets of shape "
            f"{targets.shape}; draw gives inputs (count, *{like.shape[1:]})"
        )
    if targets.dtype.kind not in "iub":
        raise Wrong(f"the targets in {name} should be integers")
    return inputs, targets


def _check_held_out(trained: Any, tested: Any) -> None:
    if len(tested[1]) < FEWEST:
        raise Wrong(
            f"a share of {len(tested[1])} examples is too uncertain: test on {FEWEST} "
            "or more"
        )
    known = {np.ascontiguousarray(each, float).tobytes() for each in trained[0]}
    seen = sum(
        np.ascontiguousarray(each, float).tobytes() in known for each in tested[0]
    )
    if seen:
        raise Wrong(
            f"{seen} of the {len(tested[1])} examples that you test on are among those "
            "that you trained on"
        )


def _answers(predict: Any, inputs: np.ndarray) -> np.ndarray:
    found = np.asarray(predict(inputs))
    if found.shape != inputs.shape[:1]:
        raise Wrong(
            f"predict gives the shape {found.shape} for {len(inputs)} examples; it "
            "should give one answer for each"
        )
    return found


def _check_right(found: Any, trained: Any, tested: Any) -> float:
    """The share of right answers; also of examples that nobody has seen."""
    predict, (inputs, targets) = found["predict"], tested
    answers = _answers(predict, inputs)
    if not np.array_equal(_answers(predict, inputs[:7]), answers[:7]):
        raise Wrong(
            "an answer depends on the other examples that are asked with it: predict "
            "must see each alone"
        )
    right = float(np.mean(answers == targets))
    if not math.isclose(found["right"], right, abs_tol=1e-6):
        seen = float(np.mean(_answers(predict, trained[0]) == trained[1]))
        says = (
            f"you report {found['right']:.1%} right; of those held out {right:.1%} are"
        )
        if math.isclose(found["right"], seen, abs_tol=1e-6):
            says += ", and yours is the share of those that it was trained on"
        raise Wrong(says)
    fresh, wanted = found["draw"](np.random.default_rng([2018, len(targets)]), 1000)
    share = float(np.mean(_answers(predict, fresh) == wanted))
    if abs(share - right) > 4 * (_error(right, len(targets)) + _error(right, 1000)):
        raise Wrong(
            f"of examples that the check has drawn with your draw {share:.1%} are "
            f"right, of yours {right:.1%}: do yours come from elsewhere?"
        )
    return right


def _error(share: float, count: int) -> float:
    """The standard error of a share, and not 0 where all are right."""
    share = (share * count + 1) / (count + 2)
    return math.sqrt(share * (1 - share) / count)


def _check_floor(found: Any, targets: np.ndarray) -> float:
    values, counts = np.unique(targets, return_counts=True)
    best = counts.max() / len(targets)
    if found["floor"] < best - 1e-6:
        raise Wrong(
            f"the floor is higher: always to answer {values[counts.argmax()]} is right "
            f"in {best:.1%} of those held out, and you report {found['floor']:.1%}"
        )
    return float(found["floor"])


def _check_control(found: Any, tested: Any) -> float:
    inputs, targets = tested
    if inputs.ndim < 3:
        raise Wrong("inputs should be sequences, (count, T, D)")
    others = inputs.copy()
    others[:, :-1] = np.roll(inputs[:, :-1], 1, axis=0)
    share = float(np.mean(_answers(found["predict"], others) == targets))
    if not math.isclose(found["control"], share, abs_tol=1e-6):
        raise Wrong(
            f"you report a control of {found['control']:.1%}; with the earlier inputs "
            f"of the example before, {share:.1%} are right"
        )
    return share


def _check_conclusion(claim: Any, right: float, beside: list[Any]) -> None:
    """beside: (name, share, standard error of the distance to it) of each baseline."""
    errors, name, share = min(
        ((right - share) / error, name, share) for name, share, error in beside
    )
    if claim not in (*CLAIMS, NEVER):
        raise Wrong(f"the conclusion should be {' or '.join(CLAIMS)}")
    if claim == NEVER and errors <= 4:
        raise Wrong(
            f'you conclude "{NEVER}" from one training at one rate; at another it may, '
            'so all that you can say is "cannot tell"'
        )
    if (claim == "learns" and errors < 2) or (claim != "learns" and errors > 4):
        raise Wrong(
            f'you conclude "{claim}", with {right:.1%} right, and {name} has '
            f"{share:.1%}: that is {errors:.1f} standard errors apart"
        )


def _check_picture(panel: Any, losses: np.ndarray) -> None:
    if losses.ndim != 1 or len(losses) < 20 or not np.isfinite(losses).all():
        raise Wrong(
            "losses should be a list of finite numbers, one for each step, and of 20 "
            f"steps or more; yours has the shape {losses.shape}"
        )
    panels.check_names(panel)
    panels.check_order(panel)
    lines = [each for each in panels.drawn(panel) if len(each.x) >= 10]
    if not lines:
        raise Wrong("the picture has no line of ten points or more: draw the training")
    if not panels.levels(panel):
        raise Wrong(
            "nobody can see in the picture what a guess gets: draw it as a level, "
            "panel.axhline(...)"
        )
