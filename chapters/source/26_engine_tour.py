# %% [markdown]
# # 26. The engine, a tour
#
# **Optional.** About 80 minutes. You need chapter 3.
#
# In chapter 3 you built a tape in forty lines. `engine.py` is the same tape, grown up,
# and this chapter reads it. There is nothing to solve. Come here when you want to know
# what happens inside, or before you change something there.
#
# The list and the walk are those of chapter 3. Five things are new. The rules stand in
# a table of their own, so that they can be tested one by one. Parameters outlive the
# tape. Arguments that need no gradient cost nothing. Arrays may live on a GPU. And a
# mistake is reported where you make it. You read it in the order in which things
# happen.

# %%
import tracemalloc

import numpy as np

from tinyrmc import Parameter, Tape, Tensor, course, equations, primitives
from tinyrmc.autograd import engine, gradients

course.setup()
rng = np.random.default_rng(3)

# %% [markdown]
# ## An array on a tape: `Tensor`
#
# The operators stand at the end, two in a line.

# %%
course.show(Tensor)

# %% [markdown]
# - `__slots__` and `__init__`: a Tensor is an array, a number on a tape, and that tape,
#   just like the `Value` of chapter 3. The number 0 means a constant.
# - `__array_ufunc__ = None` is the line that `Value` had too. With it, `array + tensor`
#   becomes `tensor.__radd__(array)`.
# - `detach` gives the same array as a constant. On the way back that is a wall.
#   (Chapter 15 shows what happens when such a wall stands in the wrong place.)
# - Python calls `__getattr__` only for names that do not exist. There is no method
#   `t.sum()`; the message says what to write instead.
# - `__add__` to `__getitem__` look up an operation by its name in `TABLE`.
#   The engine itself knows no mathematics.
# - `@guards.unlike_an_array` adds methods that stop what would go wrong silently: a
#   comparison, an `if` on a Tensor, an in-place `+=` that would change an array which
#   the tape still needs. `guards.py` has all that is refused; you can skip it.

# %%
t = Tensor(np.ones((2, 3)))
for attempt in (lambda: t.sum(), lambda: bool(t), lambda: t**2, lambda: np.exp(t)):
    try:
        attempt()
    except (AttributeError, TypeError) as refusal:
        print(f"{type(refusal).__name__}: {refusal}")

# %% [markdown]
# (The last one is NumPy's own message. In chapter 10 the functions that you wrote with
# `np.exp` did run on the tape: there the course wraps each Tensor in an object that
# answers NumPy. It is in `course/traced.py`.)
#
# ## What is learnt: `Parameter`

# %%
course.show(Parameter)

# %% [markdown]
# - A Parameter is a Tensor with a second array, `grad`. Every walk back *adds* into
#   `grad`: several tapes may pay in before you take a step, and you clear it by hand
#   between steps.
# - Its number is negative and stays the same, because a parameter appears on many
#   tapes. `next(Parameter._ids)` counts -1, -2, ...
# - `data` is a property: when you set it, the new values are copied *into* the array
#   that is there, after a check of shape and dtype. The optimizer keeps all parameters
#   in one long array, and each parameter is a view of a part of it (chapter 1).
# - `version` counts the changes. A tape remembers the version it met. If a parameter
#   changes before the walk back, what the tape recorded is no longer true, and the tape
#   refuses.
#
# ## The rules: `primitives.py`
#
# Each operation is a pair of functions. The forward rule returns its result, and what
# the vjp will need (`saved`). The vjp gets $g$ and what was saved. Here are the softmax
# and the matrix product of chapter 3 in their general form, with tanh before them. `xp`
# is the array library, NumPy or CuPy; `gemm` is `@`; and `needs[i]` is `None` where
# nobody asks for the gradient of argument `i`.

# %%
course.show(
    primitives.tanh.forward,
    primitives.tanh.rule,
    primitives.softmax.forward,
    primitives.softmax.rule,
    primitives.matmul.forward,
    primitives.matmul.rule,
)

# %% [markdown]
# Compare the last one with your `stacks_vjp`. Around its two products it handles two
# more cases. An argument may be a plain vector. And a stack of matrices may meet a
# single matrix: then the gradient of the single one is a sum over the stack, and one
# large product does both product and sum at once. The rule does not even compute it: a
# `DeferredMatmul` hands the tape the two factors, and you will see below what for.
# Apart from that, no rule undoes broadcasting, and no rule adds up what was used twice.
# The engine does that in one place for all.
#
# ## What makes a rule an operation: `Primitive`

# %%
course.show(
    engine.primitive,
    engine.Primitive.__call__,
    engine.Primitive._run,
    Tape._record,
    docstring=False,
)

# %% [markdown]
# `@primitive` above a forward rule turns it into an object of this class, and enters it
# in `TABLE` under its name. `@tanh.vjp` gives it its second half. When you call it,
# `__call__` takes three steps:
#
# - **Unwrap.** It takes the arrays out of the arguments: of a Tensor it takes
#   `a._data`.
# - **Compute.** `_run` calls the forward rule, `rules.forward(xp, *arrays, **static)`.
# - **Record.** If a tape is recording, its `_record` looks for Tensors with a number.
#   It notes `(number, shape, dtype)` for each argument, or `None` for a constant. If
#   all are constants, the result is another constant, and that is all. Otherwise the
#   result gets a new number, and `self.entries.append(...)` adds *one entry*.
#
# When it meets a parameter (number below 0) for the first time, it notes its version.
# It refuses a Tensor of another tape, because that Tensor's number means something else
# here.
#
# On a first reading you can skip the rest. It does not change what is computed. It is
# there for three reasons:
#
# - *Other ways to call.* `guards.bind` sorts out arguments given by name: arrays go by
#   position, and settings such as `axis=1` are *static* and have no gradient. Some
#   rules have more than one result; then `out` is a tuple, and `several` says so.
# - *Other machines.* `guards.common` finds `xp` from the type of the arrays. `override`
#   lets a GPU's own rule run instead.
# - *Mistakes that would go unnoticed.* `guards.common` wants one dtype for all arrays,
#   and `_run` wants the same dtype for the result. Plain numbers have no say, so a 2.0
#   does not turn a float32 program into a float64 one. If NumPy complains,
#   `guards.explained` adds the operation's name and the shapes. `_locked` makes results
#   read-only, and `guards.borrow` takes samples of other arrays that a rule will need,
#   so that the walk back refuses if they have changed.
#
# Chapter 3 listed the entries that equation 1 leaves. Here is one of them in full, a
# product of two matrices:

# %%
query, key = Parameter(rng.normal(size=(4, 2))), Parameter(rng.normal(size=(4, 2)))
memory = rng.normal(size=(3, 4))
with Tape() as tape:
    queries, keys = memory @ query, memory @ key
    blended = equations.attention(primitives, queries, keys, memory)  # (3, 4)
    loss = primitives.sum(primitives.square(blended))
rules, library, inputs, outputs, saved, several = tape.entries[0]
print("the operation       ", rules.name)
print("its array library   ", library.__name__)
print("what went in        ", inputs)
print("what came out       ", outputs)
print("kept for its rule   ", [array.shape for array in saved])
print("more than one result", several)

# %% [markdown]
# The memory is a plain array, not a parameter, so its place says `None`, and nobody
# computes a gradient for it. The query matrix is a parameter: its number is below 0.
#
# ## Recording: `Tape`

# %%
course.show(Tape.__init__, Tape.__enter__, Tape.__exit__, Tape.watch)

# %% [markdown]
# - `with Tape() as tape:` puts the tape where `Primitive.__call__` looks for one, and
#   takes it away at the end. Nothing else switches recording on, and each thread has
#   its own tape. Outside, the same functions compute and record nothing.
# - `watch` gives an input a number, so that you can ask for its gradient later.
#
# ## Walking back

# %%
course.show(Tape.backward, Tape.gradient, Tape._walk)

# %% [markdown]
# `_walk` is the loop of `backward` in chapter 3:
#
# - It puts 1 on the loss, then pops the newest entry until none is left. **Pop**, not
#   look: a used entry is gone, and the arrays that only it remembered are free at once.
#   Backward needs hardly more memory than forward has filled; you will measure that in
#   a moment.
# - `g` is what the entry's output has received (`collect` gathers it for operations
#   with several outputs). `None` means that the loss does not depend on this entry, so
#   its rule does not run.
# - The rule gives one gradient for each argument, `fitted` brings it to the argument's
#   shape, and `gradients.add` pays it in.
#
# `backward` pays into the parameters' own `grad` arrays (the `sinks`). `gradient` keeps
# the ones you asked for and hands out copies.

# %%
tape.backward(loss)
print("gradient of the query matrix:")
print(query.grad.round(3))
print("entries left on the tape:", len(tape.entries))
try:
    tape.backward(loss)
except RuntimeError as refusal:
    print(f"RuntimeError: {refusal}")

# %%
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
# The walk is a loop and not a recursion, so a recording may be as long as memory
# allows:

# %%
x, length = Parameter(np.array(1.0)), course.fast(100_000, 1000)
with Tape() as tape:
    y = x
    for _ in range(length):
        y = y * 0.9999 + 0.0001
tape.backward(y)
print(f"{2 * length:,} entries; derivative {x.grad:.3e}, by hand {0.9999**length:.3e}")

# %% [markdown]
# ## Shapes and sums: `unbroadcast` and `Gradients`

# %%
course.show(gradients.unbroadcast, gradients.fitted, gradients.Gradients)

# %% [markdown]
# You have written `unbroadcast` yourself. `fitted` calls it wherever a gradient has
# another shape than its argument. If the shape is still wrong afterwards, or the dtype
# differs, then the rule is wrong, and the message names it.
#
# `Gradients.add` is the line `gradients[id] = gradients.get(id, 0) + g` of the little
# tape, with care for who owns which array. Adding in place, `total += g`, saves an
# array each time. But for $y = a + b$ the rule hands *the same* array to both
# arguments. What goes wrong if you write into one of the two gradients? Write down what
# you expect for $L = \mathrm{mean}(a + b + 2a)$ with two numbers in each array. Here is
# the little tape once more, first as it was, and then with that mistake:


# %% tags=["hide-input"]
# The tape of chapter 3, with three operations
class Value:
    def __init__(self, data, tape):
        self.data, self.tape, self.id = np.asarray(data, float), tape, tape.count
        tape.count += 1

    def __add__(self, other):
        y = self.data + other.data
        return self.tape.record(y, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a * b, (self, other), lambda g: (g * b, g * a))

    def mean(self):
        share = np.full(self.data.shape, 1 / self.data.size)
        return self.tape.record(self.data.mean(), (self,), lambda g: (g * share,))


class LittleTape:
    def __init__(self):
        self.entries, self.count = [], 0

    def record(self, data, inputs, vjp):
        output = Value(data, self)
        self.entries.append((output.id, [value.id for value in inputs], vjp))
        return output

    def gradient(self, loss, wanted):
        gradients = {loss.id: np.ones(())}
        for output, inputs, vjp in reversed(self.entries):
            if output in gradients:  # else the loss does not depend on it
                for id, g in zip(inputs, vjp(gradients[output]), strict=True):
                    gradients[id] = gradients.get(id, 0) + g
        return [gradients[value.id] for value in wanted]


# %%
class CarelessTape(LittleTape):
    def gradient(self, loss, wanted):
        gradients = {loss.id: np.ones(())}
        for output, inputs, vjp in reversed(self.entries):
            if output in gradients:
                for id, g in zip(inputs, vjp(gradients[output]), strict=True):
                    if id in gradients:
                        gradients[id] += g  # saves an array, but perhaps not ours
                    else:
                        gradients[id] = g
        return [gradients[value.id] for value in wanted]


for kind in (LittleTape, CarelessTape):
    tape = kind()
    first, second = Value(np.ones(2), tape), Value(np.ones(2), tape)
    double = first * Value(2.0 * np.ones(2), tape)  # recorded first, so it pays in last
    loss = (first + second + double).mean()
    by_first, by_second = tape.gradient(loss, [first, second])
    print(f"{kind.__name__}:")
    print(f"  gradient of first {by_first} (should be 1.5)")
    print(f"  gradient of second {by_second} (should be 0.5)")

# %% [markdown]
# So the engine *borrows* the first contribution. It adds the second into a new array,
# which is then its own (`owned`). Only from the third on does it add in place.
# Parameters have arrays of their own from the start.
#
# The products that rules have left uncomputed wait in `deferred`. A recurrent network
# multiplies by one weight $W$ at every step, so $W$ receives
# $X_1^\top G_1 + \dots + X_T^\top G_T$. That is a single product, $X^\top G$ with the
# steps' rows one below the other. For steps of few rows it is up to three times as fast
# as $T$ small products, each of which goes through the whole of $W$'s gradient once
# more. The engine computes it when enough rows have gathered, or when somebody asks for
# the gradient.

# %% [markdown]
# ## What falls short
#
# A gradient is a plain array, so this engine takes no second derivatives. It runs each
# operation as it comes, and never looks at the whole: a compiler that sees the whole
# could merge operations. Chapter 23 merges some of them by hand.
#
# ## Takeaways
#
# - Operators, rules and the walk know nothing of each other: a rule is a pair of
#   functions in a table.
# - An entry is used once, and popped. What only it remembered is free at once.
# - Add in place only if you know that nobody else holds the array.
# - Refuse at the place of the mistake, with the name and the shapes.
#
# **Further.** Could `Tensor` offer `+=` without giving wrong gradients? What would the
# tape have to notice?

# %% tags=["hide-cell"]
# Answer: yes, if it noticed that an entry still needs the old numbers. Parameters have
# this already: each change counts up a version, and the tape compares.
w = Parameter(np.ones(2))
with Tape() as tape:
    loss = primitives.sum(primitives.square(w))
w.data = 2 * np.ones(2)
try:
    tape.backward(loss)
except RuntimeError as refusal:
    print("RuntimeError: ", *str(refusal).split("; "), sep="\n  ")
