# %% [markdown]
# # 2. A tape: all derivatives in one walk back
#
# **No equation of the paper: the chain rule.** About 55 minutes. You need chapter 1 and
# derivatives; partial derivatives are explained again below. In this chapter the
# letters are not the paper's: $a$, $b$, $x$ and $y$ are any arrays, and $n$ is the
# length of any row.
#
# The paper does not say what should travel between the slots. It leaves that to
# learning:
#
# > it is up to the model to learn (via parameters $W^q$, $W^k$, and $W^v$) how to
# > shuttle information from memory to memory. (Section 3.1)
#
# Learning means this. One number, the *loss*, says how wrong the answers were. You
# change every parameter a little, in the direction in which the loss falls. So you need
# the derivative of one number, the loss, with respect to each of very many parameters.
# How many parameters does a small core have?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import tinyrmc
from tinyrmc import Parameter, Tape, course, equations, primitives
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import tape as ex

course.setup()
rng = np.random.default_rng(3)
network = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz")
print(f"{sum(parameter.size for parameter in network.parameters()):,} parameters")

# %% [markdown]
# You could move the parameters one at a time and look at the loss, but that takes one
# run of the network for each of them. *Reverse mode* gets all derivatives from one run
# and one walk back through it. You build it from nothing, in five steps, each an
# exercise. At the end it stands beside the project's engine.
#
# ## One link of the chain
#
# A network is a long computation made of small operations. Take one of them: an array
# $x$ goes in and an array $y$ comes out. Whatever comes later turns $y$ into the loss
# $L$. Suppose you already know how the loss depends on $y$. That is an array $g$ of the
# shape of $y$, with $g_j = \partial L / \partial y_j$. It is called the *gradient* of
# $y$ (short for: of the loss with respect to $y$). Each entry is a *partial
# derivative*: how fast $L$ changes when $y_j$ alone moves and all other entries stand
# still. If $x_k$ moves instead, every $y_j$ moves with it, and the chain rule adds up
# what they do to $L$:
#
# $$\frac{\partial L}{\partial x_k} = \sum_j g_j \, \frac{\partial y_j}{\partial x_k}$$
#
# The rule that turns $g$ into the array on the left is called the operation's
# *vector-Jacobian product*, *vjp* for short. The vector is $g$, and the Jacobian is the
# table of all $\partial y_j / \partial x_k$. Nobody ever makes that table. Multiply a
# batch of memories by a matrix, and see how large it would be:

# %%
B, N, F = 256, 8, 64
numbers = B * N * F
print(f"a batch of memories holds {numbers:,} numbers")
print(f"and the table of derivatives {numbers**2:,}")

# %% [markdown]
# Nor do you need it: the tables of the usual operations are full of zeros and
# repetitions. You can write down some vjps at once:
#
# | operation | gradient of its arguments, given $g$ | why |
# |---|---|---|
# | $y = a + b$ | $g$, $g$ | each passes its changes on as they are |
# | $y = a \, b$, entry by entry | $g \, b$, $g \, a$ | each is scaled by the other |
# | $y = \tanh x$ | $g \, (1 - y^2)$ | the slope of tanh |
# | $y = \sum_k x_k$ | $g$ for every $x_k$ | each counts once |
#
# Two more operations, the matrix product and the softmax, make up most of attention. In
# a product $y = a b$ of matrices, $y_{ij} = \sum_k a_{ik} b_{kj}$, so $a_{ik}$ acts on
# row $i$ of $y$ only.
#
# **Exercise 1.** The vjp of the matrix product. It takes two matrix products where the
# way there took one. This is why the walk back costs about twice as much. (How does the
# check know the right gradient? It needs no formula: it moves each entry of `a` and `b`
# by a tiny amount and sees what comes of it. Chapter 3 shows the trick, the *complex
# step*. From here on it judges every derivative that you write.)


# %%
def matmul_vjp(g, a, b):
    """a (I, K), b (K, J), g (I, J) the gradient of a @ b -> gradients of a and of b."""
    ...


ex.matmul_vjp.check(matmul_vjp)

# %% [markdown]
# The *softmax* turns a row of any numbers, the scores $x$, into shares $y$ that are
# positive and sum to 1 (chapter 5 says what for):
#
# $$y_j = \frac{e^{x_j}}{s}, \qquad s = \sum_k e^{x_k}$$
#
# All shares depend on all scores, through $s$. Because
# $\partial s / \partial x_k = e^{x_k}$, the rule for quotients gives
#
# $$\frac{\partial y_j}{\partial x_k}
# = \frac{\delta_{jk} \, e^{x_j} s - e^{x_j} e^{x_k}}{s^2} = y_j (\delta_{jk} - y_k),$$
#
# where $\delta_{jk}$ is 1 if $j = k$ and 0 otherwise.
#
# **Exercise 2.** The vjp of the softmax. Put this into the chain rule and simplify the
# sum. The rule needs to remember only the result `y`; it never sees `x`.


# %%
def softmax_vjp(g, y):
    """g, y (..., n), y = softmax(x) over the last axis -> gradient of x (..., n)."""
    ...


ex.softmax_vjp.check(softmax_vjp)

# %% [markdown]
# ## What is used twice is paid twice
#
# If $x$ goes into two operations, the loss depends on it in two ways, and the
# derivatives add up. For $L = x \cdot x$ each factor contributes $x$, and the sum is
# $2x$.
#
# Broadcasting (chapter 1) uses one array many times. A bias that is added to every slot
# is used once per slot, so its gradient is the sum over the slots. This is the one
# place on the way back where shapes must be put right again.
#
# **Exercise 3.** You have the gradient of the stretched array. Find the gradient of the
# original.


# %%
def unbroadcast(g, shape):
    """The gradient of an array of `shape` that was stretched to g.shape -> (*shape)."""
    ...


ex.unbroadcast.check(unbroadcast)
my_unbroadcast = ex.unbroadcast.yours(unbroadcast)

# %% [markdown]
# ### A batch meets one matrix
#
# Exercises 1 and 3 meet in every layer of the core. The memories of a batch are a stack
# of matrices, $(B, N, F)$, and $W$ is a single one, $(F, G)$. In `memories @ W`
# broadcasting gives each memory the same $W$, so $W$ is used $B$ times. Each use pays
# in a gradient of its own, $M_b^\top g_b$, where $g_b$ is the gradient of $M_b W$, and
# the gradient of $W$ is their sum:
#
# $$\frac{\partial L}{\partial W} = \sum_b M_b^\top g_b, \qquad
# \frac{\partial L}{\partial M_b} = g_b W^\top$$
#
# **Write down first:** `memories` is (5, 3, 4) and `W` is (4, 2). What is the shape of
# `memories.T`? And of `np.swapaxes(memories, -1, -2)`?
#
# **Exercise 4.** The vjp of `@` for stacks of matrices, with any leading axes. The
# leading axes of `a` and `b` need not be the same: they broadcast, as always.
# `my_unbroadcast` is there for you.


# %%
def stacks_vjp(g, a, b):
    """a (..., I, K), b (..., K, J), g (..., I, J) the gradient of a @ b
    -> gradients of a and of b, each in the shape of its array.
    """
    ...


ex.stacks_vjp.check(stacks_vjp)
my_stacks_vjp = ex.stacks_vjp.yours(stacks_vjp)

# %%
memories, W = rng.normal(size=(5, 3, 4)), rng.normal(size=(4, 2))
print(memories.T.shape, np.swapaxes(memories, -1, -2).shape)
g = np.ones((5, 3, 2))  # each entry of the product counts once
by_memories, by_W = my_stacks_vjp(g, memories, W)
one_by_one = sum(M.T @ g_M for M, g_M in zip(memories, g, strict=True))
print("a sum over the batch:", np.allclose(by_W, one_by_one), by_W.shape)

# %% [markdown]
# ## In which order
#
# Every operation that runs is written into a list: what went in, what came out, and its
# derivative at this point. Below is the list of $L = \tanh(a b) \, a$, with numbers in
# place of arrays. Value 0 is $a$, value 1 is $b$, and each entry of the list makes the
# next value:

# %%
a, b = 0.5, 2.0
product = a * b
squashed = math.tanh(product)
loss = squashed * a
entries = [
    # value 2 = a b: its derivative with respect to value 0 is b, to value 1 it is a
    (2, [(0, b), (1, a)]),
    # value 3 = tanh(value 2)
    (3, [(2, 1 - squashed**2)]),
    # value 4 = value 3 times a: the loss
    (4, [(3, a), (0, squashed)]),
]
gradient = ex.backward(entries, 5)  # the walk back: exercise 5, below
slope = 1 / math.cosh(product) ** 2  # of tanh
print(f"gradient of a: {gradient[0]:.6f}, by hand: {squashed + a * b * slope:.6f}")
print(f"gradient of b: {gradient[1]:.6f}, by hand: {a * a * slope:.6f}")

# %% tags=["hide-input"] alt="Five values in a row, a, b, a b, tanh and the loss, with an arc from each input to its output that carries the local derivative; below each value stands the derivative of the loss with respect to it, found from right to left. Two arcs leave a"
# Draws the five values and the walk back
figure, panel = plt.subplots(figsize=(9, 3.4))
names = ("a", "b", "a b", "tanh(a b)", "loss")
numbers = (a, b, product, squashed, loss)
plate = {"facecolor": "white", "edgecolor": "none", "pad": 1}
for output, inputs in entries:
    for value, derivative in inputs:
        width = output - value - 0.2
        bend = 0.5 if output - value > 1 else 0.2
        arc = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={-bend}"}
        ends = (output - 0.1, 0.22), (value + 0.1, 0.22)
        panel.annotate("", *ends, arrowprops={"color": "0.5"} | arc)
        top = (value + output) / 2, 0.27 + 0.77 * bend * width
        look = {"ha": "center", "va": "bottom", "color": "C0", "bbox": plate}
        panel.text(*top, rf"$\times$ {derivative:.2f}", **look)
box = {"boxstyle": "round", "facecolor": "0.93", "edgecolor": "0.6"}
for k, (name, number) in enumerate(zip(names, numbers, strict=True)):
    panel.text(k, 0, f"{name} = {number:.2f}", ha="center", va="center", bbox=box)
    panel.text(k, -0.42, f"{gradient[k]:.3f}", ha="center", va="center", color="C1")
style = {"arrowstyle": "-|>", "color": "C1"}
panel.annotate("", (-0.3, -0.72), (4.3, -0.72), arrowprops=style)
caption = "the walk back: derivative of the loss with respect to each value"
panel.text(2, -0.8, caption, ha="center", va="top", color="C1")
panel.set(xlim=(-0.6, 4.6), ylim=(-1.05, 1.95))
panel.axis("off")
plt.show()

# %% [markdown]
# When is the gradient of a value complete? When all its uses have paid in. Here $a$
# has two uses: it gets 2.00 times 0.210 from one and 0.76 times 1.000 from the other.
# Nothing can be used before it is made, so all uses of a value stand *later in the
# list* than the entry that made it. Walk the list from its end. When you come to that
# entry, the gradient of its value is complete. You search no graph and visit nothing
# twice.
#
# **Exercise 5.** The walk. Values are numbered in the order in which they were made.
# The last is the loss, whose derivative with respect to itself is 1. One of the cases
# adds a number to itself, then the sum to itself, and so on, sixteen times: 16 entries,
# but $2^{16}$ or 65,536 paths from the number to the loss. The derivative is a sum over
# all of them. If you followed each path by itself, you would walk 65,536 of them, and
# with forty such steps you would never finish. The walk handles each entry once.


# %%
def backward(entries, count):
    """entries [(output, [(input, d output / d input), ...]), ...]
    -> the derivatives of the loss with respect to all `count` values.
    """
    ...


ex.backward.check(backward)

# %% [markdown]
# ## A whole tape in forty lines
#
# Now put it together. The list is called a *tape*, because it is recorded forwards and
# played backwards. A `Value` is an array that knows its number on the tape. Each
# operation computes its result and leaves an entry with its vjp, a small function that
# remembers what it needs. Matrix products take the vjp of exercise 4. The walk is
# exercise 5, with exercise 3 inside it. Where your functions are right, they are the
# ones that run.


# %%
class Value:
    __array_ufunc__ = None  # NumPy must not try to add a Value to an array

    def __init__(self, data, tape):
        self.data, self.tape, self.id = np.asarray(data, float), tape, tape.count
        tape.count += 1

    def __add__(self, other):
        y = self.data + other.data
        return self.tape.record(y, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        y = self.data - other.data
        return self.tape.record(y, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a * b, (self, other), lambda g: (g * b, g * a))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a @ b, (self, other), lambda g: my_stacks_vjp(g, a, b))

    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: (g * (1 - y * y),))

    def mean(self):
        x = self.data
        share = np.full(x.shape, 1 / x.size)
        return self.tape.record(x.mean(), (self,), lambda g: (g * share,))


class LittleTape:
    def __init__(self):
        self.entries, self.count = [], 0

    def record(self, data, inputs, vjp):
        output = Value(data, self)
        places = [(value.id, value.data.shape) for value in inputs]
        self.entries.append((output.id, places, vjp))
        return output

    def gradient(self, loss, wanted):
        gradients = {loss.id: np.ones(())}
        for output, inputs, vjp in reversed(self.entries):
            if output in gradients:  # else the loss does not depend on it
                for (id, shape), g in zip(inputs, vjp(gradients[output]), strict=True):
                    gradients[id] = gradients.get(id, 0) + my_unbroadcast(g, shape)
        return [gradients[value.id] for value in wanted]


# %% [markdown]
# That is enough to train a network. Sixteen *hidden units*, the numbers between its two
# matrices, learn the sine from 64 points. In every step a new tape records the run, the
# walk gives four gradients, and each array moves a little against its own gradient.
#
# **Write down first:** how many entries does each tape have? Count the operations in
# the lines of `guess`, `error` and `loss`.

# %%
points = np.linspace(-math.pi, math.pi, 64)[:, None]  # (64, 1)
target = np.sin(points)
start = np.random.default_rng(5)
weights = [start.normal(size=(1, 16)), start.normal(size=16)]  # the hidden units
weights += [start.normal(size=(16, 1)) / 4, np.zeros(1)]  # the output
curves, losses = {}, {}
for step in range(course.fast(2001, 201)):
    tape = LittleTape()
    W1, b1, W2, b2 = values = [Value(weight, tape) for weight in weights]
    guess = (Value(points, tape) @ W1 + b1).tanh() @ W2 + b2  # (64, 1)
    error = guess - Value(target, tape)
    loss = (error * error).mean()
    for weight, g in zip(weights, tape.gradient(loss, values), strict=True):
        weight -= 0.1 * g
    if step in (0, 50, 200, 2000):
        curves[step], losses[step] = guess.data, float(loss.data)
print(len(tape.entries), "entries on each tape")
found = ", ".join(f"{step} steps: {value:.4f}" for step, value in losses.items())
print("loss after", found)

# %% tags=["hide-input"] alt="The sine and what the network makes of it at the start, after 50, 200 and 2000 steps: it comes closer until the two lines lie on each other"
# Draws the sine and the four guesses
figure, panel = plt.subplots(figsize=(7, 3.2))
panel.plot(points, target, color="0.3", lw=5, alpha=0.3, label="sine")
colours = {0: "C6", 50: "C4", 200: "C1", 2000: "C0"}
for step, guess in curves.items():
    panel.plot(points, guess, color=colours[step], label=f"after {step} steps")
panel.legend(ncols=2, fontsize=9)
panel.set(xlabel="x", ylim=(-1.6, 1.9))
plt.show()

# %% [markdown]
# ### The tape as a graph
#
# A tape is a list, but it describes a graph: which value was made from which. The
# project's engine keeps such a tape, too, and `course.draw_tape` draws it. Here is the
# same network, recorded by the engine. Time runs downwards, to the loss. The walk back
# starts at the bottom and climbs along the same lines, and the rounded boxes are where
# it ends: the four arrays that learn. Points and targets are constants, so no line
# leads to them.

# %% alt="The recorded network as a graph: W1 goes into matmul, b1 is added, then tanh, matmul with W2, b2 is added, then subtract, multiply, mean. Two lines lead from subtract to multiply"
W1, b1, W2, b2 = (Parameter(weight) for weight in weights)
with Tape() as tape:
    guess = primitives.tanh(points @ W1 + b1) @ W2 + b2
    error = guess - target
    loss = primitives.mean(error * error)
course.draw_tape(loss, {"W1": W1, "b1": b1, "W2": W2, "b2": b2})
plt.show()

# %% [markdown]
# The error goes into the product twice, by two lines. So two gradients climb from
# `multiply` to `subtract`, and what is used twice is paid twice.
#
# ## Your tape beside ours
#
# The project's engine, `engine.py`, is this tape, grown up. The list and the walk are
# the same. You have written all of its parts:
#
# | yours | ours | what is new there |
# |---|---|---|
# | `Value` | `Tensor` | it refuses what would go wrong silently, such as `+=` |
# | `weights`, a list of arrays | `Parameter` | it outlives the tape, and each walk back adds into its `grad` |
# | `softmax_vjp`, the vjp of the matrix product, the lambdas | `primitives.py` | a table of rules, each tested by itself; for any leading axes, on NumPy and on a GPU |
# | `LittleTape.record` | `Primitive.__call__` | arguments that need no gradient cost nothing; one dtype for all |
# | `unbroadcast` | `gradients.unbroadcast` | nothing: it is called in one place, for all rules |
# | `backward`, `LittleTape.gradient` | `Tape.backward`, `Tape.gradient` | an entry is gone once it has been used, with the arrays that only it remembered |
#
# Here the engine is at work on equation 1, which is attention (chapter 5). The function
# `equations.attention` also runs on NumPy. Give it `primitives` as its array library,
# and it leaves one entry for each operation. **Write down first:** which of the
# arguments below will be constants, for which nobody needs a gradient?

# %%
query, key = Parameter(rng.normal(size=(4, 2))), Parameter(rng.normal(size=(4, 2)))
memory = rng.normal(size=(3, 4))
with Tape() as tape:
    queries, keys = memory @ query, memory @ key
    blended = equations.attention(primitives, queries, keys, memory)  # (3, 4)
    loss = primitives.sum(primitives.square(blended))


def place(spec):
    """An argument or a result as the tape knows it: (number, shape, dtype), or None."""
    if spec is None:
        return "constant"
    id, shape, _ = spec
    return f"parameter {shape}" if id < 0 else f"#{id} {shape}"


for rules, _, inputs, outputs, _, _ in tape.entries:
    taken, made = (", ".join(map(place, specs)) for specs in (inputs, outputs))
    print(f"{rules.name:<9}{taken:<32} -> {made}")

# %% [markdown]
# The memory is a plain array, not a parameter, so it appears as a constant, and nobody
# computes a gradient for it. The other constant is a number, the root $\sqrt{d_k}$ that
# scores are divided by. The walk back pays into the parameters' `grad`:

# %%
tape.backward(loss)
print("gradient of the query matrix:")
print(query.grad.round(3))

# %% [markdown]
# ### Your own operation
#
# An operation is a pair of rules, and yours are as good as the engine's. The first rule
# gets the array library, `xp`, and returns the result and a tuple of what the way back
# will need. The second gets the gradient $g$ of the result, and what the first has
# kept. (`needs` says which arguments want a gradient; with one argument you need not
# look.) Here is the cube of every entry:


# %%
@engine.primitive
def cube(xp, x):
    """x times x times x"""
    return x * x * x, (x,)


@cube.vjp
def cube_vjp(xp, needs, g, x):
    return 3 * g * x * x


x = Parameter(np.array([1.0, 2.0, 3.0]))
with Tape() as tape:
    loss = primitives.sum(cube(x))
tape.backward(loss)
print(cube, x.grad)

# %% [markdown]
# That is all you need to know about the engine for now. If you want to read it line by
# line, there is a tour in [chapter 19](19_engine_tour.ipynb).
#
# How do you know that a rule is right? Looking at it is not enough. Chapter 3 shows
# what is.
#
# ## Takeaways
#
# - A vjp turns the gradient of a result into the gradients of its arguments. Nobody
#   makes the table of all derivatives.
# - A value that is used several times gets the sum of what its uses pay in.
#   Broadcasting uses a value many times, so its way back is a sum.
# - The tape records entries in the order they ran. On the walk back, each value is
#   complete when you reach its entry.
#
# **Further.** What would have to change so that the walk back is itself recorded, and
# second derivatives follow? For a function of two numbers with a million results, what
# would be better than walking backwards? `maximum` sends the gradient to its larger
# argument. What do you expect where both are equal, and what does the rule in
# `primitives.py` do?

# %% tags=["hide-cell"]
# Answer 1: the rules would have to be written with recorded operations instead of `xp`,
# `gradient` would have to hand out Tensors, and nothing could be popped: the second
# walk needs the first one's entries. As it is, a gradient is a plain array. If you
# write the first derivative down yourself, its derivative is one walk more:
x = Parameter(np.array([2.0]))
with Tape() as tape:
    y = primitives.sum(x * x * x)
print("a gradient is", type(tape.gradient(y, [x])[0]).__name__)
with Tape() as tape:
    slope = primitives.sum(3.0 * x * x)
print("second derivative of x^3 at 2:", *tape.gradient(slope, [x])[0], "(6 x is 12)")

# %% tags=["hide-cell"]
# Answer 2: walking forward. Move one of the two numbers and carry the change along with
# every value: two runs give all derivatives, where walking back would take a million,
# one for each result. The complex step of chapter 3 is such a walk.
t = np.linspace(0, 1, course.fast(1_000_000, 1000))


def curve(a, b):
    return np.sin(a * t) + b * t * t


by_a = curve(2.0 + 1e-30j, 3.0).imag / 1e-30
by_b = curve(2.0, 3.0 + 1e-30j).imag / 1e-30
print(np.allclose(by_a, t * np.cos(2 * t)), np.allclose(by_b, t * t))

# %% tags=["hide-cell"]
# Answer 3: there is no derivative at a tie, so any choice is a convention. Half for
# each would keep the sum right; so does all for one of them. `primitives.py` gives it
# to the second argument: then maximum(x, 0) is a ReLU that is shut at 0.
a, b = Parameter(np.array([1.0, 2.0])), Parameter(np.array([1.0, 1.0]))
with Tape() as tape:
    larger = primitives.sum(primitives.maximum(a, b))
print("gradient of a:", tape.gradient(larger, [a])[0])
