# %% [markdown]
# # 26. The engine, a tour
#
# **Appendix B of the course.** About 215 minutes, in four sittings. You need chapter 3
# (an engine of your own).
#
# `autograd/engine.py` is your tape with more in it. Come here when you want to know
# what happens inside, or before you change something there. You predict what it does,
# you add two operations to it, you mend its walk, and you write the part that finds a
# network's parameters. Its text is [engine.py](../tinyrmc/autograd/engine.py); open it
# beside this page.

# %%
import textwrap
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import (
    Parameter,
    RelationalMemory,
    Tape,
    Tensor,
    course,
    gradcheck,
    primitives,
)
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import engine_tour as ex

course.setup()
rng = np.random.default_rng(3)

# %% [markdown]
# ## What is recorded
#
# Your little tape recorded every operation. The engine's rule is narrower:
#
# - A `Tensor` is an array with a number on a tape. The number 0 means a constant.
# - A `Parameter` is a Tensor that is learnt. Its number is negative and stays the same,
#   because it appears on many tapes. It has an array `grad`, to which every walk back
#   *adds*.
# - An operation enters the tape only if at least one of its inputs has a number that is
#   not 0. Then its result gets the next number. Otherwise the result is a constant, and
#   the tape knows nothing of it.
# - On the way back the walk takes the newest entry first. If the loss does not depend
#   on an entry, no gradient has arrived for its result, and its rule does not run.
#
# **Write down first:** below, `W` is the only Parameter. Which of the seven operations
# are entered, and whose rules run?

# %% tags=["hide-output"]
W = Parameter(rng.normal(size=(4, 4)))
data, other = rng.normal(size=(3, 4)), Tensor(rng.normal(size=(3, 4)))
with Tape() as tape:
    u = primitives.matmul(data, W)
    mask = primitives.tanh(other)
    h = primitives.multiply(u, mask)
    shown = primitives.exp(h)  # only looked at
    far = primitives.add(other, mask)
    d = primitives.subtract(h, u)
    loss = primitives.sum(d)
print("entered:", ", ".join(rules.name for rules, *_ in tape.entries))
print("mask and far have the numbers", mask.id, "and", far.id)

# %% [markdown]
# **Exercise 1.** Write this prediction as a function: from what ran forward, and which
# names are watched, to the operations whose rules run on the way back, in the order in
# which they run.


# %%
def way_back(operations, watched, loss):
    """The operations whose rules run on the way back, in that order, by their outputs.

    operations: (output, inputs), names, in the order they ran; watched: the names of
    parameters; all other names that no operation gives are constants.
    """
    ...


ex.way_back.check(way_back)
way_back = ex.way_back.yours(way_back)

# %% tags=["hide-output"]
of_above = [
    ("u", ["data", "W"]),
    ("mask", ["other"]),
    ("h", ["u", "mask"]),
    ("shown", ["h"]),
    ("far", ["other", "mask"]),
    ("d", ["h", "u"]),
    ("loss", ["d"]),
]
print("rules that run:", ", ".join(way_back(of_above, ["W"], "loss")))

# %% [markdown]
# Five of the seven are entered, and the rules of four run. `mask` and `far` are made of
# constants alone. `shown` depends on `W`, so it is entered, but the loss does not
# depend on it, and its rule does not run.
#
# ## A rule of your own
#
# The engine knows no mathematics. Its operations stand in a table, and each is a pair
# of functions. The *forward rule* returns its result, and a tuple of what the way back
# will need. The *vjp* gets $g$ and that. `xp` is the array library; `needs[k]` is
# `None` where nobody asks for the gradient of argument $k$. Two of them:

# %%
course.show(
    primitives.tanh.forward,
    primitives.tanh.rule,
    primitives.multiply.forward,
    primitives.multiply.rule,
)

# %% [markdown]
# Neither of these two rules undoes broadcasting, or adds up what was used twice. The
# engine does that in one place for all.
#
# **Exercise 2.** Add a primitive: the length of each row, $y = \sqrt{\sum_k x_k^2}$.
# Its forward rule stands below. Derive its vjp. What should it give for a row of zeros?


# %%
@engine.primitive
def length(xp, x):
    """The length of each row: x (..., F) -> (...)."""
    y = xp.sqrt(xp.sum(x * x, axis=-1))
    return y, (x, y)


@length.vjp
def length_vjp(xp, needs, g, x, y):
    """x (..., F), y and g (...) -> the gradient of x; zeros for a row of zeros."""
    ...


ex.length_vjp.check(length_vjp)
length.vjp(ex.length_vjp.yours(length_vjp))
error = gradcheck(length, rng.normal(size=(2, 3)))
print(f"differs from the complex step by {error:.0e}")

# %% [markdown]
# **This is a good place to stop.**
#
# ## What the tape keeps
#
# A call of such an operation takes three steps. It takes the arrays out of the Tensors;
# it runs the forward rule on them; and if a tape is recording, `Tape._record` enters
# the result. It also notes which arrays must not change before the way back, and the
# tape refuses if one did. What is *saved* stays in memory until the way back has used
# it. So it matters what a rule saves. `add` saves nothing, `tanh` its result, and `sin`
# both its argument and its result. (Its derivative, $\cos x$, needs the argument alone.
# One helper makes the rules of thirteen functions, and saves both for all of them.)
#
# **Exercise 3.** How much does a tape keep? Make chains of 1, 2, 3, ... operations,
# each applied to the result of the one before. Draw how many arrays the tape keeps
# against the length of the chain, for `y + 1.0`, `tanh` and `sin`.
# (`course.held(tape)` counts bytes, each array once.) **Write down first:** does the
# chain of `sin` keep twice as many arrays as that of `tanh`?


# %%
def kept_by_chains(panel, lengths):
    """Draw how many arrays the tape keeps after a chain of as many operations as each
    of `lengths` says, on a Parameter of 10 numbers: curves "add 1", "tanh" and "sin".
    """
    ...


ex.kept_by_chains.check(kept_by_chains)

# %% tags=["hide-output"] alt="Arrays kept against operations in the chain, three straight lines: add 1 stays at 0, tanh has one array for each operation, and sin one array more than tanh"
figure, panel = plt.subplots(figsize=(6, 3))
ex.kept_by_chains.yours(kept_by_chains)(panel, range(1, 11))
plt.show()

# %% [markdown]
# The result of one `sin` is the argument of the next: the same array, saved twice, and
# kept once. A chain of `sin` keeps one array more, the first argument.
#
# **This is a good place to stop.**
#
# ## Walking back
#
# `Tape._walk` is the loop of your little tape, for results, shapes and rules of every
# kind. Read its first lines and its last, and look for what is no longer held once an
# entry has had its turn.

# %%
course.show(Tape._walk, docstring=False)

# %% [markdown]
# - The walk puts 1 on the loss, then pops the newest entry until none is left. **Pop**,
#   not look: a used entry is gone, and the arrays that only it remembered are free as
#   soon as the next one is popped.
# - `g is None` means that the loss does not depend on this entry.
# - `fitted` brings each gradient to its argument's shape, and `gradients.add` adds it
#   to what has arrived for that argument before.
# - An operation may have `several` results: their gradients are collected first. And a
#   rule that works `in_place` adds to the gradients itself.
#
# Here is the tape of `sum(tanh(tanh(tanh(x))))`, its results called y1 to y4. Each
# `tanh` keeps its result. On the right stands the gradient that the walk then holds.

# %% tags=["hide-input"] alt="A tape with four entries, tanh keeps y1, tanh keeps y2, tanh keeps y3, and sum keeps no array, in three rows: before the walk all are there, and it holds the gradient of y4, the loss; after one pop sum is grey, and it holds that of y3; after three pops only the first tanh is left, and it holds that of y1"
# Draws the tape before the walk, after one pop and after three
figure, panel = plt.subplots(figsize=(9, 2.2))
for row, (pops, gradient) in enumerate(((0, "y4, the loss"), (1, "y3"), (3, "y1"))):
    panel.text(-1, -row, f"{pops} popped", ha="center", va="center")
    for k, keeps in enumerate(("y1", "y2", "y3", "no array")):
        there = k < 4 - pops
        look = {"facecolor": "white", "edgecolor": "C0" if there else "0.85"}
        label = f"{'sum' if k == 3 else 'tanh'} keeps {keeps}"
        place, colour = {"ha": "center", "va": "center"}, "0" if there else "0.8"
        panel.text(k, -row, label, color=colour, bbox=look, fontsize=9, **place)
    panel.text(4.2, -row, f"gradient of {gradient}", ha="center", va="center")
panel.set(xlim=(-1.5, 5), ylim=(-2.5, 0.5))
panel.axis("off")
plt.show()

# %% [markdown]
# **Write down first:** twenty operations keep twenty arrays. How many are there at most
# while the walk goes back: 20, 21, 22, 30, 40?

# %% tags=["hide-output"]
x = Parameter(np.ones(course.fast(1_000_000, 100_000)))
tracemalloc.start()
with Tape() as tape:
    y = x
    for _ in range(20):
        y = primitives.tanh(y)
    loss = primitives.sum(y)
forward, _ = tracemalloc.get_traced_memory()
del y  # the tape holds what it needs
tape.backward(loss)
_, peak = tracemalloc.get_traced_memory()
tracemalloc.stop()
filled, most = forward / x.data.nbytes, peak / x.data.nbytes
print(f"20 results fill {filled:.0f} arrays")
print(f"the most there ever were, backward included: {most:.0f}")

# %% [markdown]
# Two more than were kept: the rule of `tanh` makes two arrays while it runs, $1 - y^2$
# and then its product with $g$. The gradient that goes back needs no room of its own:
# the entry that made it is gone, and what that one kept is free.
#
# ## Who owns which array
#
# `gradients.add` is the line `gradients[id] = gradients.get(id, 0) + g` of the little
# tape, with care. Adding in place, `total += g`, saves an array each time. But for
# $y = a + b$ the rule hands *the same* array to both arguments. **The symptom:** in
# $L = \mathrm{mean}(a + b + 2a)$ the gradient of $b$ should be 0.5, and is 1.5.
#
# **Exercise 4.** Mend the walk.


# %%
def walk(entries, loss, wanted):
    """entries: (number of the output, numbers of the inputs, vjp), as recorded; loss a
    number -> the gradients of the numbers in `wanted`, a list.
    """
    gradients = {loss: np.ones(())}
    for output, inputs, vjp in reversed(entries):
        if output in gradients:
            for number, g in zip(inputs, vjp(gradients[output]), strict=True):
                if number in gradients:
                    gradients[number] += g
                else:
                    gradients[number] = g
    return [gradients[number] for number in wanted]


ex.walk.check(walk)
A, B, DOUBLE, SUM, ALL, LOSS = range(6)
recorded = [
    (DOUBLE, [A], lambda g: (2 * g,)),  # recorded first, so its gradient comes last
    (SUM, [A, B], lambda g: (g, g)),
    (ALL, [SUM, DOUBLE], lambda g: (g, g)),
    (LOSS, [ALL], lambda g: (np.full(2, g / 2),)),
]
by_a, by_b = walk(recorded, LOSS, [A, B])
print(f"gradient of a {by_a} (should be 1.5), of b {by_b} (should be 0.5)")

# %% [markdown]
# The engine *borrows* the first contribution. It adds the second into a new array,
# which is then its own. Only from the third on does it add in place.
# ([gradients.py](../tinyrmc/autograd/gradients.py) also lets products of a weight wait:
# a recurrent network uses the weight at every step, and one large product should be
# faster than many small ones; here we have not timed that.)
#
# ## Two operations in one
#
# A gate is $y = a \circ \sigma(b)$. Composed it leaves two entries. As one *fused* rule
# it is one entry, and you decide what it saves.
#
# **Exercise 5.** Write its forward rule and its vjp. Save no more than two arrays as
# large as $y$. Give `None` for a gradient that nobody asks for. And $\sigma(b)$ must
# not overflow, however large $b$ is: $\sigma(b) = (1 + \tanh(b / 2)) / 2$.


# %%
class Gated:
    """y = a * sigmoid(b) and its derivative, as a pair of rules for the table."""

    @staticmethod
    def forward(xp, a, b):
        """a and b of shapes that fit -> (y, a tuple of what vjp will need)."""
        ...

    @staticmethod
    def vjp(xp, needs, g, *saved):
        """The gradients of a and b; None for one that `needs` has None for."""
        ...


ex.Gated.check(Gated)
Gated = ex.Gated.yours(Gated)

# %% [markdown]
# Enter it in the table, and compare it with the composition. **Write down first:** how
# many arrays does the tape keep for each?


# %% tags=["hide-output"]
@engine.primitive
def gated(xp, a, b):
    """a * sigmoid(b)"""
    return Gated.forward(xp, a, b)


gated.vjp(Gated.vjp)
a, b = rng.normal(size=(2, 5, 3))
print(f"differs from the complex step by {gradcheck(gated, a, b):.0e}")
print(f"and with b broadcast             {gradcheck(gated, a, b[0]):.0e}")
for name, way in (
    ("composed", lambda a, b: a * primitives.sigmoid(b)),
    ("fused", gated),
):
    with Tape() as tape:
        way(tape.watch(a), tape.watch(b))
    arrays = course.held(tape) / a.nbytes
    print(f"{name}: entries {len(tape.entries)}, the tape keeps {arrays:.0f} arrays")

# %% [markdown]
# Composed it keeps a third array. `multiply` saves both its arguments, $a$ and
# $\sigma(b)$. The package's `sigmoid` saves another array, $e^{-|b|}$: from it come
# $\sigma(b)$ and $1 - \sigma(b)$, each with all its digits. Had it saved its result,
# that would be kept once for both, and you would save one entry and no array.
#
# **This is a good place to stop.**
#
# ## Who finds the parameters
#
# An optimizer needs a list of all parameters, and a file needs their names. Nobody
# writes these lists by hand: a `Module` finds what its attributes hold. What it does
# not find is never trained, and nothing tells you so: the other parameters learn, and
# the loss may fall all the same.
#
# **Exercise 6.** Write the search. It goes through the attributes of a module
# (`vars(module)`), through modules among them, lists, tuples and dicts. A matrix that
# stands in two places is one parameter.


# %%
def named_parameters(module):
    """[(name, Parameter), ...] of a module: in the order of its attributes, through
    modules, lists, tuples and dicts in it; each Parameter once, under its first name.

    Names are the way there, such as "blocks.0.weight". A module is an nn.Module.
    """
    ...


ex.named_parameters.check(named_parameters)
named_parameters = ex.named_parameters.yours(named_parameters)
core = RelationalMemory(input_size=4, mem_slots=2, head_size=3, num_heads=2, seed=0)
for name, parameter in named_parameters(core):
    print(f"{name:24} {parameter.shape}")
same = [name for name, _ in core.named_parameters()]
print("as the package's:", [name for name, _ in named_parameters(core)] == same)

# %% [markdown]
# The package's search also *refuses*: a set has no order, and the parameters of a class
# would belong to all of its networks. **Write down first:** what do these three lines
# do on a Tensor: compute, or complain?

# %% tags=["hide-output"]
t = Tensor(np.ones((2, 3)))
for attempt in (lambda: t.sum(), lambda: bool(t), lambda: np.exp(t)):
    try:
        print(attempt())
    except (AttributeError, TypeError) as refusal:
        print(textwrap.fill(f"{type(refusal).__name__}: {refusal}", 80))

# %% [markdown]
# The first and the third would fail in plain Python too; here they say what to write
# instead. The second prevents a fault that nobody sees: for Python every object without
# a rule of its own is true, so `if t:` would always be taken.
#
# ## What falls short
#
# A gradient is a plain array, so this engine takes no second derivatives. It runs each
# operation as it comes: a compiler that sees the whole could merge operations.
#
# ## Takeaways
#
# - The tape and the walk know no mathematics: a rule is a pair of functions in a table.
# - An operation on constants alone is never entered. A rule whose result the loss does
#   not use never runs.
# - A rule decides what the tape keeps. An array that two entries save is kept once.
# - An entry is used once, and popped. What only it remembered is free at the next pop.
# - Add in place only if you know that nobody else holds the array.
#
# **Further.** What does `t += u` do on a Tensor, and why? Could the engine offer it
# without giving wrong gradients?

# %% tags=["hide-cell"]
# Answer 1
# The engine refuses. Its gradients would be right: without a method `__iadd__` Python
# reads `t += u` as `t = t + u`. That makes a new Tensor and gives it the old name
# (*rebinding*); the old one stays as it was. But of arrays you know that `+=` writes in
# place: after `other = t` you see the change in `other` too. Here you would not. So
# the engine asks you to write what happens, t = t + u.
# To change a Tensor in place, the tape would have to notice that an entry still needs
# the old numbers. Parameters have this already: each change of `data` counts up a
# version, and the tape compares.
t, w = Tensor(np.ones(2)), Parameter(np.ones(2))
try:
    t += 1
except TypeError as refusal:
    print("TypeError: ", *str(refusal).split("; "), sep="\n  ")
with Tape() as tape:
    loss = primitives.sum(primitives.square(w))
w.data = 2 * np.ones(2)
try:
    tape.backward(loss)
except RuntimeError as refusal:
    print("RuntimeError: ", *str(refusal).split("; "), sep="\n  ")
