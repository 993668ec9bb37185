# %% [markdown]
# # 26. The engine, a tour
#
# **Appendix B.** About 95 minutes, in two sittings. You need chapter 3 (an engine of
# your own).
#
# `autograd/engine.py` is your tape, grown up. Come here when you want to know what
# happens inside, or before you change something there. Five things are new. The rules
# stand in a table of their own. Parameters outlive the tape. Arguments that need no
# gradient cost nothing. Arrays may live on a GPU. And a mistake is reported where you
# make it.

# %%
import tracemalloc

import numpy as np

from tinyrmc import Parameter, Tape, Tensor, course, equations, gradcheck, primitives
from tinyrmc.autograd import engine, gradients
from tinyrmc.course.exercises import engine_tour as ex

course.setup()
rng = np.random.default_rng(3)

# %% [markdown]
# ## An array on a tape: `Tensor`

# %%
course.show(Tensor)

# %% [markdown]
# - A Tensor is an array, a number on a tape, and that tape. The number 0 means a
#   constant.
# - `__array_ufunc__` makes of `array + tensor` a `tensor.__radd__(array)`, and of
#   `np.exp(tensor)` an error that names our own function.
# - `detach` gives the same array as a constant. On the way back that is a wall.
# - `__add__` to `__getitem__` look up an operation by its name in `TABLE`. The engine
#   itself knows no mathematics.
# - `@guards.unlike_an_array` stops what would go wrong silently: a comparison, an `if`
#   on a Tensor, an in-place `+=`. Python calls `__getattr__` only for names that do not
#   exist; the message says what to write instead:

# %%
t = Tensor(np.ones((2, 3)))
for attempt in (lambda: t.sum(), lambda: bool(t), lambda: np.exp(t)):
    try:
        attempt()
    except (AttributeError, TypeError) as refusal:
        print(f"{type(refusal).__name__}: {refusal}")

# %% [markdown]
# ## What is learnt: `Parameter`

# %%
course.show(Parameter)

# %% [markdown]
# - Every walk back *adds* into `grad`: several tapes may pay in before you take a step.
# - Its number is negative and stays the same, because a parameter appears on many
#   tapes.
# - Setting `data` copies *into* the array that is there: the optimizer keeps all
#   parameters in one long array, of which each is a view.
# - `version` counts the changes. If a parameter changes before the walk back, what the
#   tape recorded is no longer true, and the tape refuses.
#
# ## The rules: `primitives.py`
#
# The forward rule returns its result, and what the vjp will need. The vjp gets $g$ and
# that. `gemm` is `@`; `needs[i]` is `None` where nobody asks for the gradient of
# argument `i`.

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
# Compare the last one with your `stacks_vjp`. A stack of matrices may meet a single
# matrix: then one large product does both product and sum. The rule does not even
# compute it: a `DeferredMatmul` hands the tape the two factors. Apart from that, no
# rule undoes broadcasting, and no rule adds up what was used twice. The engine does
# that in one place for all.
#
# **Exercise 1.** Add a primitive: the length of each row, $y = \sqrt{\sum_k x_k^2}$.
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
# `@primitive` enters a rule in `TABLE`. A call takes three steps:
#
# - **Unwrap.** It takes the arrays out of the Tensors.
# - **Compute.** `_run` calls `rules.forward(xp, *arrays, **static)`.
# - **Record.** If a tape is recording, `_record` notes `(number, shape, dtype)` for
#   each argument, or `None` for a constant. If all are constants, that is all.
#   Otherwise the result gets a new number, and *one entry* is appended.
#
# The rest does not change what is computed. `guards.bind` sorts out arguments given by
# name; `guards.common` finds `xp` and wants one dtype for all arrays; `override` lets a
# kernel or a compiled body run instead; `guards.again` adds shapes to NumPy's
# complaints; `readonly` and `guards.borrow` notice when somebody changes an array that
# the tape still needs. Here is one entry in full:

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
# **This is a good place to stop.**
#
# ## Recording, and walking back: `Tape`

# %%
course.show(Tape.__enter__, Tape.watch, Tape.backward, Tape.gradient, Tape._walk)

# %% [markdown]
# - `with Tape() as tape:` switches recording on. Each thread has its own tape.
# - The walk puts 1 on the loss, then pops the newest entry until none is left. **Pop**,
#   not look: a used entry is gone, and the arrays that only it remembered are free.
# - `None` means that the loss does not depend on this entry, so its rule does not run.
# - `fitted` brings each gradient to its argument's shape, and `gradients.add` pays it
#   in: for `backward` into the parameters' own `grad` arrays, the `sinks`.
#
# **Write down first:** twenty operations fill twenty arrays. How many are there at most
# while the walk goes back?

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
# ## Sums: who owns which array

# %%
course.show(gradients.fitted, gradients.Gradients)

# %% [markdown]
# `add` is the line `gradients[id] = gradients.get(id, 0) + g` of the little tape, with
# care. Adding in place, `total += g`, saves an array each time. But for $y = a + b$ the
# rule hands *the same* array to both arguments. **The symptom:** in
# $L = \mathrm{mean}(a + b + 2a)$ the gradient of $b$ should be 0.5, and is not.
#
# **Exercise 2.** Mend the walk.


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
    (DOUBLE, [A], lambda g: (2 * g,)),  # recorded first, so it pays in last
    (SUM, [A, B], lambda g: (g, g)),
    (ALL, [SUM, DOUBLE], lambda g: (g, g)),
    (LOSS, [ALL], lambda g: (np.full(2, g / 2),)),
]
by_a, by_b = walk(recorded, LOSS, [A, B])
print(f"gradient of a {by_a} (should be 1.5), of b {by_b} (should be 0.5)")

# %% [markdown]
# The engine *borrows* the first contribution. It adds the second into a new array,
# which is then its own (`owned`). Only from the third on does it add in place.
#
# The products that rules have left uncomputed wait in `deferred`. A recurrent network
# multiplies by one weight at every step, so the weight receives $X_1^\top G_1 + \dots +
# X_T^\top G_T$: a single product, with the steps' rows one below the other. One large
# product is faster than many small ones.
#
# ## What falls short
#
# A gradient is a plain array, so this engine takes no second derivatives. It runs each
# operation as it comes: a compiler that sees the whole could merge operations.
#
# ## Takeaways
#
# - Operators, rules and the walk know nothing of each other: a rule is a pair of
#   functions in a table.
# - An entry is used once, and popped. What only it remembered is free at once.
# - Add in place only if you know that nobody else holds the array.
#
# **Further.** Could `Tensor` offer `+=` without giving wrong gradients?

# %% tags=["hide-cell"]
# Answer 1
# Yes, if the tape noticed that an entry still needs the old numbers. Parameters have
# this already: each change counts up a version, and the tape compares.
w = Parameter(np.ones(2))
with Tape() as tape:
    loss = primitives.sum(primitives.square(w))
w.data = 2 * np.ones(2)
try:
    tape.backward(loss)
except RuntimeError as refusal:
    print("RuntimeError: ", *str(refusal).split("; "), sep="\n  ")
