# %% [markdown]
# # 3. An engine of your own: all derivatives in one walk back
#
# **No equation of the paper: the chain rule.** About 285 minutes (215 on the core
# road), in five sittings. You need derivatives, and from the fourth sitting on chapter
# 1 (arrays). In this chapter the letters are not the paper's: $a$, $b$, $x$ and $y$ are
# any numbers or arrays.
#
# The paper does not say what should travel between the slots: "it is up to the model to
# learn" (section 3.1). Learning means this. One number, the *loss*, says how wrong the
# answers were. You change every parameter a little, in the direction in which the loss
# falls. So you need the derivative of the loss with respect to each parameter. How many
# does a small core have?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import tinyrmc
from tinyrmc import Parameter, Tape, course, primitives
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import tape as ex

course.setup()
network = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz")
print(f"{sum(parameter.size for parameter in network.parameters()):,} parameters")

# %% [markdown]
# To move each of them and look at the loss takes as many runs. *Reverse mode* gets all
# derivatives from one run and one walk back. You write an engine that does it, first
# for numbers, then for arrays. From then on it trains your networks.
#
# ## Five lines by hand
#
# $$c = a b \qquad d = \tanh c \qquad e = d a \qquad f = e + b \qquad L = f f$$
#
# Begin at the end. The derivative of $L$ with respect to $f$ is $2f$. What is it with
# respect to $e$? A change of $e$ changes $f$ by as much. And with respect to $d$? Go on
# upwards: at each line you know the derivative of what comes out, multiply by a local
# derivative, and get that of what goes in. Take care with $a$ and $b$: each is used
# *twice*, so its derivative has two parts, one from each use, and they add up.
#
# **Exercise 1.** Do this walk in code, a line for each derivative.


# %%
def five_lines(a, b):
    """Numbers -> dL/da, dL/db. The slope of tanh at c is 1 - d * d."""
    ...


ex.five_lines.check(five_lines)

# %% [markdown]
# (The check needs no formula. Chapter 4 (checking) shows its trick.)
#
# ## A number that remembers
#
# Let every operation write down what went in, what came out, and the local derivatives.
# The list is called a *tape*: it is recorded forwards and played backwards. For
# $c = ab$ the entry is
#
#     (c, [(a, b.data), (b, a.data)])
#
# When is the derivative of a value complete? When each of its uses has added its part.
# Nothing can be used before it is made, so all uses stand *later on the tape* than the
# entry that made it. Walk from the end, and when you come to that entry, it is
# complete.
#
# Here is such a number. `record` makes the new Value and its entry; `__add__` and
# `__sub__` show how an operation uses it. In a difference, the second input has the
# derivative $-1$.


# %%
class Value:
    """A number that leaves on its tape, a list, how it was made."""

    def __init__(self, data, tape):
        self.data, self.tape, self.grad = data, tape, 0.0

    def record(self, data, inputs):
        output = Value(data, self.tape)
        self.tape.append((output, inputs))
        return output

    def __add__(self, other):
        return self.record(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __sub__(self, other):
        return self.record(self.data - other.data, [(self, 1.0), (other, -1.0)])


# %% [markdown]
# The other methods are yours. You write one at a time, as a function. The last line of
# the cell puts it into the class, or the course's as long as yours is not right.
#
# **Exercise 2.** The product, as in the entry above.


# %%
def times(self, other):
    """self * other -> a Value."""
    ...


ex.times.check(times)
Value.__mul__ = ex.times.yours(times)

# %% [markdown]
# And the tanh, with one input. (You know its slope from exercise 1; Python's is
# `math.tanh`.)


# %%
def tanh(self):
    """The tanh of self -> a Value."""
    ...


ex.tanh.check(tanh)
Value.tanh = ex.tanh.yours(tanh)

# %% [markdown]
# Look at a tape. There should be three entries:

# %%
tape = []
a, b = Value(0.5, tape), Value(2.0, tape)
d = (a * b).tanh() + a
for output, inputs in tape:
    made_of = [(value.data, round(slope, 3)) for value, slope in inputs]
    print(f"{output.data:.3f} from (value, derivative) {made_of}")

# %% [markdown]
# **This is a good place to stop.**
#
# **Exercise 3.** The walk back, in four lines. The value that `backward` is called on
# gets the `grad` 1; you walk its tape from the end; and from each entry, every input's
# `grad` grows by the local derivative times the `grad` of what came out. (One case
# doubles a number sixteen times, by `a = a + a`. Its tape has 16 entries, but from the
# last value $2^{16}$ paths lead back to the first. So go through the entries, once
# each.)


# %%
def backward(self):
    """Adds to the grad of each Value on the tape, and leaves the tape as it is.
    Returns nothing.
    """
    ...


ex.backward.check(backward)
Value.backward = ex.backward.yours(backward)

# %% [markdown]
# Here are the five lines again:

# %%
tape = []
a, b = Value(0.5, tape), Value(2.0, tape)
f = (a * b).tanh() * a + b
loss = f * f
loss.backward()
by_hand = ex.five_lines(0.5, 2.0)
print(f"by the tape: {a.grad:.6f}, {b.grad:.6f}; by hand: ", end="")
print(*(f"{slope:.6f}" for slope in by_hand), sep=", ")

# %% tags=["hide-input"] alt="Seven values in a row, a, b, c, d, e, f and the loss, with an arc from each input to its output that carries the local derivative; below each value stands the derivative of the loss with respect to it, found from right to left. Two arcs leave a, two leave b, and two lead from f to the loss"
# Draws the values, the local derivatives and the walk back
tape = []  # the course's: your entries may look different
a, b = ex.Value(0.5, tape), ex.Value(2.0, tape)
f = (a * b).tanh() * a + b
(f * f).backward()
figure, panel = plt.subplots(figsize=(10, 3.6))
values = [a, b, *(output for output, _ in tape)]
place = {id(value): k for k, value in enumerate(values)}
plate = {"facecolor": "white", "edgecolor": "none", "pad": 1}
for output, inputs in tape:
    for k, (value, derivative) in enumerate(inputs):
        start, end = place[id(value)], place[id(output)]
        bend = 0.6 if end - start > 1 else 0.25 + 0.5 * k * (value is f)
        arc = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={-bend}"}
        ends = (end - 0.1, 0.22), (start + 0.1, 0.22)
        panel.annotate("", *ends, arrowprops={"color": "0.5"} | arc)
        top = (start + end) / 2, 0.22 + 0.57 * bend * (end - start - 0.2)
        look = {"ha": "center", "va": "center", "color": "C0", "fontsize": 9}
        panel.text(*top, rf"$\times$ {derivative:.2f}", bbox=plate, **look)
box = {"boxstyle": "round", "facecolor": "0.93", "edgecolor": "0.6"}
for k, (name, value) in enumerate(zip("abcdefL", values, strict=True)):
    look = {"ha": "center", "va": "center"}
    panel.text(k, 0, f"{name} = {value.data:.2f}", bbox=box, **look)
    panel.text(k, -0.4, f"{value.grad:.3f}", color="C1", **look)
style = {"arrowstyle": "-|>", "color": "C1"}
panel.annotate("", (-0.3, -0.68), (6.3, -0.68), arrowprops=style)
caption = "the walk back: derivative of the loss with respect to each value"
panel.text(3, -0.74, caption, ha="center", va="top", color="C1")
panel.set(xlim=(-0.6, 6.6), ylim=(-1.0, 1.9))
panel.axis("off")
plt.show()

# %% [markdown]
# **This is a good place to stop.**
#
# ## Your first network
#
# That is enough to learn with. A network of four *hidden units* turns a number $x$ into
# a guess: $\sum_k v_k \tanh(w_k x + b_k) + c$, thirteen weights in all. Let it learn
# the sine from thirteen points.
#
# **Exercise 4.** Write the loop. In each step: a new tape; on it a Value for each
# weight, and also for every other number that meets one, such as $x$, $y$ and the 0
# with which a sum begins; the loss (the sum of the squared errors); the walk back; and
# new weights, each of them the old one minus `rate` times its `grad`.


# %%
def waves(weights, x):
    """The network: thirteen Values and a Value -> a Value."""
    guess = weights[-1]
    for k in range(0, 12, 3):
        w, b, v = weights[k : k + 3]
        guess = guess + (w * x + b).tanh() * v
    return guess


def learn(weights, network, xs, ys, rate, steps):
    """weights, xs, ys lists of numbers; network(values, x), x a Value -> a Value
    -> the loss before each step (a list), new weights (a list of numbers).
    """
    ...


ex.learn.check(learn)
learn = ex.learn.yours(learn)

# %%
xs = np.linspace(-3, 3, 13).tolist()
ys = [math.sin(x) for x in xs]
weights = np.random.default_rng(3).normal(size=13).tolist()
losses, drawn, dense = [], {}, np.linspace(-3, 3, 61)
for until in (0, 20, 200, course.fast(1000, 220)):
    more, weights = learn(weights, waves, xs, ys, 0.01, until - len(losses))
    losses += more
    values = [Value(w, []) for w in weights]
    drawn[until] = [waves(values, Value(x, [])).data for x in dense]
print(f"loss at first {losses[0]:.3f}, in the end {losses[-1]:.4f}")

# %% tags=["hide-input"] alt="Thirteen points of the sine and the network's guess at the start and after 20, 200 and 1000 steps: it comes closer until the line runs through the points"
# Draws the points and the guesses
figure, panel = plt.subplots(figsize=(7, 3.2))
panel.plot(xs, ys, "o", color="0.3", label="sine")
for (steps, guess), colour in zip(drawn.items(), ("C6", "C4", "C1", "C0"), strict=True):
    panel.plot(dense, guess, color=colour, label=f"after {steps} steps")
panel.legend(ncols=2, fontsize=9)
panel.set(xlabel="x", ylim=(-2.6, 2.6))
plt.show()

# %% [markdown]
# Your own network has learnt these points on your own engine, in this one run. (Whether
# it would do so from any start, and what it says beyond them, you have not tested.)
#
# ## Your curve, your picture
#
# *Extra: your own data, and a picture that you draw.*
#
# Does it learn another curve as well? You choose it, draw the points, let the network
# learn them, and draw what it says. Nobody knows what will come out: `check` asks only
# that the loss falls, and how near the curve comes, your picture says.
#
# **Exercise 5.** Do all of this in one function. The network is `waves`, with thirteen
# weights from `np.random.default_rng(seed)`, and `learn` is yours. Your curve runs over
# numbers between $-3$ and 3, at ten points or more. Draw into `panel`, an empty picture
# of Matplotlib: the points as dots, `panel.plot(xs, ys, "o")`; and as lines, with a
# `label` each, what the network says before and after training, at fifty numbers or
# more. Name both axes with `panel.set(xlabel=..., ylabel=...)`.


# %%
def my_curve(waves, learn, seed, panel):
    """Draws into panel -> xs and ys (lists of numbers), the weights before training
    and after it.
    """
    ...


ex.my_curve.check(my_curve)
my_curve = ex.my_curve.yours(my_curve)

# %% alt="Points of a curve, and two lines: what the network says before training, far from the points, and after it, close to them"
figure, panel = plt.subplots(figsize=(7, 3))
my_curve(waves, learn, 0, panel)
panel.legend(fontsize=9)
plt.show()

# %% [markdown]
# **This is a good place to stop.**
#
# ## From numbers to arrays
#
# A Python object for every number is slow. Let us have one for every *array*. An
# operation turns an array $x$ into an array $y$, and $g$ is the *gradient* of $y$: an
# array of the same shape, with $g_j = \partial L / \partial y_j$. The chain rule adds
# up what all $y_j$ say about $x_k$:
#
# $$\frac{\partial L}{\partial x_k} = \sum_j g_j \, \frac{\partial y_j}{\partial x_k}$$
#
# The rule that turns $g$ into this sum is the operation's *vector-Jacobian product*,
# *vjp* for short. Nobody ever makes the table of all $\partial y_j / \partial x_k$: for
# a batch of 256 memories of 8 times 64 numbers it would have $131{,}072^2$ entries,
# nearly all of them 0. For an operation that works entry by entry the vjp is what you
# know already: $g$ times the local derivative. Two things are new.
#
# Broadcasting uses one array many times. NumPy compares the axes of two arrays from the
# last one on. Where an array has fewer axes, it gets axes of length 1 in front; and an
# axis of length 1 is *stretched*: its one entry is used at every place. A bias that is
# added to every slot is used once per slot, so its gradient is the sum over the slots.
#
# **Exercise 6.** You have the gradient of the stretched array. Find the gradient of the
# original.


# %%
def unbroadcast(g, shape):
    """The gradient of an array of `shape` that was stretched to g.shape -> (*shape)."""
    ...


ex.unbroadcast.check(unbroadcast)
unbroadcast = ex.unbroadcast.yours(unbroadcast)

# %% [markdown]
# The other is the matrix product, $y_{ij} = \sum_k a_{ik} b_{kj}$. Derive its vjp:
# which $y_{ij}$ does $a_{ik}$ act on, and by how much? Put that into the chain rule and
# read the sum as a product of two matrices. Do the same for $b_{kj}$. Test your result
# by its shapes: the gradient of $a$ is like $a$.
#
# In the core, the factors are stacks. Memories are $(B, N, F)$ and a weight is
# $(F, G)$: it is used $B$ times, so its gradients add up.
#
# **Write down first:** `a` is (5, 3, 4). What is the shape of `a.T`? And of
# `np.swapaxes(a, -1, -2)`?
#
# **Exercise 7.** The vjp of `@` for stacks of matrices. The leading axes of `a` and `b`
# broadcast, as always; `unbroadcast` is there for you.


# %%
def stacks_vjp(g, a, b):
    """a (..., I, K), b (..., K, J), g (..., I, J) the gradient of a @ b
    -> gradients of a and of b, each in the shape of its array.
    """
    ...


ex.stacks_vjp.check(stacks_vjp)
stacks_vjp = ex.stacks_vjp.yours(stacks_vjp)

# %% tags=["hide-output"]
a = np.zeros((5, 3, 4))
print("a.T:", a.T.shape, "  swapaxes:", np.swapaxes(a, -1, -2).shape)

# %% [markdown]
# If you want to compare: $a_{ik}$ acts on $y_{ij}$ for every $j$, by $b_{kj}$. So its
# gradient is $\sum_j g_{ij} b_{kj}$, which is entry $(i, k)$ of $g \, b^\top$. In the
# same way that of $b$ is $a^\top g$.
#
# **This is a good place to stop.**
#
# ## Nodes and a tape
#
# Now the array's `Value`. A `Node` holds an array and its tape. Instead of local
# derivatives, an operation records its vjp, a small function that takes $g$ and returns
# a tuple, one gradient for each input. The tape will undo broadcasting.


# %%
class Node:
    """An array on a tape; each operation is recorded with its vjp."""

    __array_ufunc__ = None  # NumPy must not try to add a Node to an array

    def __init__(self, data, tape):
        self.data, self.tape = data, tape

    def __add__(self, other):
        y = self.data + other.data
        return self.tape.record(y, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        y = self.data - other.data
        return self.tape.record(y, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a * b, (self, other), lambda g: (g * b, g * a))

    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: (g * (1 - y * y),))


Node.relu, Node.mean = ex.relu.function, ex.mean.function  # the course's, for now

# %% [markdown]
# **Exercise 8.** The matrix product. You have its vjp.


# %%
def matmul(self, other):
    """self @ other, for stacks of matrices -> a Node."""
    ...


ex.matmul.check(matmul)
Node.__matmul__ = ex.matmul.yours(matmul)

# %% [markdown]
# ## Two more methods
#
# *Extra: two short ones, as practice.*
#
# **Exercise 9.** Write `relu`, $\max(x, 0)$ of each entry.


# %%
def relu(self):
    """max(x, 0) of each entry -> a Node."""
    ...


ex.relu.check(relu)
Node.relu = ex.relu.yours(relu)

# %% [markdown]
# And `mean`, that of all entries, a single number. On the way back each entry gets its
# share.


# %%
def mean(self):
    """The mean of all entries -> a Node, a single number."""
    ...


ex.mean.check(mean)
Node.mean = ex.mean.yours(mean)

# %% [markdown]
# ## The tape, and the walk back
#
# The tape makes Nodes and keeps the entries, each a result, its inputs and its vjp:


# %%
class LittleTape:
    """Records what happens to arrays, and plays it backwards."""

    def __init__(self):
        self.entries = []

    def watch(self, data):
        return Node(np.asarray(data), self)

    def record(self, data, inputs, vjp):
        output = Node(data, self)
        self.entries.append((output, inputs, vjp))
        return output


# %% [markdown]
# **Exercise 10.** The walk back. It returns the gradients of the nodes in the list
# `wanted`, zeros where the loss does not depend on one. Each node gets the sum of the
# gradients that its uses give it. Bring each of them to the node's shape with
# `unbroadcast` *before* you add it: their shapes may differ. (A Node may be the key of
# a dict. The loss itself has the gradient 1, as an array: `np.ones(loss.data.shape)`.
# And where a result has got no gradient, its entry adds nothing.)


# %%
def gradient(self, loss, wanted):
    """loss a Node, wanted a list of Nodes -> their gradients, a list of arrays."""
    ...


ex.gradient.check(gradient)
LittleTape.gradient = ex.gradient.yours(gradient)

# %% [markdown]
# Sixteen hidden units now learn the sine from 64 points, about five times as many, on
# your tape. **Write down first:** how many entries does each tape have? And how many
# did the tape of numbers have in each step?

# %% tags=["hide-output"]
points = np.linspace(-math.pi, math.pi, 64)[:, None]  # (64, 1)
target = np.sin(points)
start = np.random.default_rng(5)
weights = [start.normal(size=(1, 16)), start.normal(size=16)]  # the hidden units
weights += [start.normal(size=(16, 1)) / 4, np.zeros(1)]  # the output
losses = []
for _ in range(course.fast(2000, 200)):
    tape = LittleTape()
    W1, b1, W2, b2 = nodes = [tape.watch(weight) for weight in weights]
    guess = (tape.watch(points) @ W1 + b1).tanh() @ W2 + b2  # (64, 1)
    error = guess - tape.watch(target)
    loss = (error * error).mean()
    entries = len(tape.entries)
    pairs = zip(weights, tape.gradient(loss, nodes), strict=True)
    weights = [weight - 0.1 * g for weight, g in pairs]
    losses.append(float(loss.data))
numbers = []
waves([Value(0.0, numbers) for _ in range(13)], Value(0.0, numbers))
print("entries for arrays:", entries)
print("for numbers:", 13 * (len(numbers) + 3), "(3 more for each point's error)")
print(f"loss at first {losses[0]:.4f}, in the end {losses[-1]:.4f}")

# %% [markdown]
# That is one reason why engines have arrays. (Your methods and vjps are kept as soon as
# they are right. Other chapters fetch the tape with `course.little_tape()`; where you
# have written nothing, the course's method stands in, and it says so. In chapter 10
# your core learns on it.)
#
# ## Your tape beside ours
#
# *Extra: the project's engine, and a rule of its table.*
#
# The project's engine is this tape with more in it:
#
# | yours | ours | what is new there |
# |---|---|---|
# | `Node` | `Tensor` | it refuses what would go wrong silently, such as `+=` |
# | `weights`, a list | `Parameter` | it outlives the tape, and each walk back adds into its `grad` |
# | the vjps | `primitives.py` | a table of rules, on NumPy and on a GPU |
# | `LittleTape` | `Tape` | an entry is gone once it has been used |
#
# `course.draw_tape` draws what it has recorded, here your network. Time runs downwards;
# the walk back climbs from the bottom along the same lines. The error goes into the
# product twice, so two gradients climb.

# %% alt="The recorded network as a graph: W1 goes into matmul, b1 is added, then tanh, matmul with W2, b2 is added, then subtract, multiply, mean. Two lines lead from subtract to multiply"
W1, b1, W2, b2 = (Parameter(weight) for weight in weights)
with Tape() as tape:
    guess = primitives.tanh(points @ W1 + b1) @ W2 + b2
    error = guess - target
    loss = primitives.mean(error * error)
course.draw_tape(loss, {"W1": W1, "b1": b1, "W2": W2, "b2": b2})
plt.show()

# %% [markdown]
# An operation of the engine is a pair of rules. The first gets the array library, `xp`,
# and returns the result and a tuple of what the way back will need. The second gets $g$
# and what the first has kept. (`needs` says which arguments want a gradient.)


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
# How do you know that a rule is right? Chapter 4 (checking) shows how.
#
# ## Takeaways
#
# - A vjp turns the gradient of a result into the gradients of its arguments.
# - What is used several times gets the sum of what its uses give it. Broadcasting is
#   such a use, so its way back is a sum.
# - Walked from its end, the tape comes to each value when all its uses have added their
#   part.
#
# **Further.** What would have to change so that the walk back is itself recorded, and
# second derivatives follow? For a function of two numbers with a million results, what
# would be better than walking backwards? `maximum` sends the gradient to its larger
# argument. What do you expect where both are equal?

# %% tags=["hide-cell"]
# Answer 1
# The vjps would have to work on Nodes, and `gradient` to hand out Nodes. As it is, a
# gradient is a plain array. If you write the first derivative down yourself, its
# derivative is one walk more:
tape = LittleTape()
x = tape.watch(np.array([2.0]))
three = tape.watch(np.array([3.0]))
slope = (three * x * x).mean()
print("second derivative of x^3 at 2:", *tape.gradient(slope, [x])[0], "(6 x is 12)")

# %% tags=["hide-cell"]
# Answer 2
# Walking forward is better. Move one of the two numbers and carry the change along with
# every value: two runs give all derivatives, where walking back would take a million,
# one for each result. The complex step of chapter 4 is such a walk.
t = np.linspace(0, 1, course.fast(1_000_000, 1000))


def curve(a, b):
    return np.sin(a * t) + b * t * t


by_a = curve(2.0 + 1e-30j, 3.0).imag / 1e-30
by_b = curve(2.0, 3.0 + 1e-30j).imag / 1e-30
print(np.allclose(by_a, t * np.cos(2 * t)), np.allclose(by_b, t * t))

# %% tags=["hide-cell"]
# Answer 3
# There is no derivative at a tie, so any choice is a convention. Half for each would
# keep the sum right; so does all for one of them. `primitives.py` gives it to the
# second argument: then maximum(x, 0) is a ReLU that is shut at 0, as ours is.
a, b = Parameter(np.array([1.0, 2.0])), Parameter(np.array([1.0, 1.0]))
with Tape() as tape:
    larger = primitives.sum(primitives.maximum(a, b))
print("gradient of a:", tape.gradient(larger, [a])[0])
