# %% [markdown]
# # 4. Checking gradients: how to know that a derivative is right
#
# **No equation of the paper, but what every equation rests on.** About 205 minutes, in
# three sittings. You need chapter 3 (the engine), and you need to know what a complex
# number is. In this chapter $h$ is a small step, as in all books on derivatives.
#
# A wrong derivative raises no error, and the loss may fall all the same. Here the
# network that learns the sine runs on your tape, once as it should, and once with a
# tanh whose vjp somebody copied from the sigmoid, with the slope $y (1 - y)$. A third
# run is the control: there the vjp of the tanh gives zeros, so the hidden layer before
# it stays as it began.

# %%
import math

import autograd
import autograd.numpy as hips
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Parameter, Tape, course, equations, gradcheck, primitives
from tinyrmc.course.exercises import checking as ex

course.setup()
LittleTape = course.little_tape()

# %% tags=["hide-input"]
# The network of chapter 3, with any tanh: loss, gradients, and learning


def wrong_tanh(x):
    """tanh of a Node, with a wrong derivative."""
    y = np.tanh(x.data)
    return x.tape.record(y, (x,), lambda g: (g * y * (1 - y),))


def zero_tanh(x):
    """tanh of a Node that lets no gradient past: all before it is left alone."""
    return x.tape.record(np.tanh(x.data), (x,), lambda g: (0 * g,))


points = np.linspace(-math.pi, math.pi, 64)[:, None]  # (64, 1)


def gradients(tanh, weights):
    """The loss of a network of sixteen hidden units with this `tanh`, and the gradients
    of its four arrays.
    """
    tape = LittleTape()
    W1, b1, W2, b2 = nodes = [tape.watch(weight) for weight in weights]
    guess = tanh(tape.watch(points) @ W1 + b1) @ W2 + b2
    error = guess - tape.watch(np.sin(points))
    loss = (error * error).mean()
    return float(loss.data), tape.gradient(loss, nodes)


def learn(tanh, rate=0.05, seed=5):
    """For each step the loss, and the cosine of the angle between the gradient that is
    followed and the true one.
    """
    start = np.random.default_rng(seed)
    weights = [start.normal(size=(1, 16)), start.normal(size=16)]
    weights += [start.normal(size=(16, 1)) / 4, np.zeros(1)]
    losses, cosines = [], []
    for _ in range(course.fast(2000, 200)):
        loss, followed = gradients(tanh, weights)
        _, true = gradients(lambda x: x.tanh(), weights)
        one = np.concatenate([g.ravel() for g in followed])
        other = np.concatenate([g.ravel() for g in true])
        losses.append(loss)
        cosines.append(one @ other / math.sqrt((one @ one) * (other @ other)))
        weights = [w - rate * g for w, g in zip(weights, followed, strict=True)]
    return losses, cosines


# %%
runs = {
    "right derivative": learn(lambda x: x.tanh()),
    "wrong derivative": learn(wrong_tanh),
    "hidden layer left alone": learn(zero_tanh),
}
for name, (losses, _) in runs.items():
    print(f"{name:24} loss at the end {losses[-1]:.4f}")

# %% tags=["hide-input"] alt="Above, three losses against steps on logarithmic axes: all fall. The one with the wrong derivative has a bump after a thousand steps and ends about ten times as high as the one with the right derivative; the one whose hidden layer is left alone ends between them. Below, the cosine between the gradient that is followed and the true one: 1 for the right derivative; the wrong one falls from 0.9 towards 0 in the first hundred steps, goes below 0 where the bump rises, and rises to 0.7 at the end; with the hidden layer left alone it falls slowly to 0.3"
# Draws the losses and the cosines
layout = {"figsize": (7, 4.4), "sharex": True, "height_ratios": [1.6, 1]}
figure, (above, below) = plt.subplots(2, 1, **layout)
for name, (losses, cosines) in runs.items():
    steps = np.arange(1, len(losses) + 1)
    above.loglog(steps, losses, label=name)
    below.plot(steps, cosines)
above.set(ylabel="loss", title="with a wrong derivative the loss falls, too")
above.legend()
below.axhline(0, color="0.6", lw=1, ls=":")
below.set(xlabel="step", ylabel="cosine with the\ntrue gradient", ylim=(-0.5, 1.15))
plt.show()

# %% [markdown]
# If you saw only the upper orange curve, you would take it for learning. The lower
# panel shows what is wrong: a cosine of 1 is the same direction, 0 a right angle. In
# this one run, after the first hundred steps the gradient that is followed has mostly
# little in common with the true one; where the bump is, it leads uphill.
#
# Then why does the loss fall? The wrong rule spoils the gradients of $W_1$ and $b_1$
# alone, which stand before the tanh. Those of the output layer are still right, and
# where the hidden layer is left alone, the output layer is all that learns. From three
# starts, at a rate of 0.05, the loss falls to 0.0024 on average with the right
# derivative, to 0.011 where the hidden layer is left alone, and to 0.018 with the
# wrong derivative. At a third of that rate these are 0.012, 0.021 and 0.040. (At 0.01
# the means stand in the same order, 0.019, 0.026 and 0.041, but the three starts
# overlap.) So here, after 2,000 steps at two rates, a wrong derivative is worse than
# none, and all that you see is a loss that falls. (Where it would end we have not
# tried: in the picture the orange curve falls faster at the end than the green one.)
# Therefore check every derivative by itself, against something that cannot share its
# mistakes.
#
# ## Differences, and their two errors
#
# The oldest check is the definition. Move $x$ by a small $h$, to one side or to both:
#
# $$f'(x) \approx \frac{f(x + h) - f(x)}{h} \qquad\qquad
# f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$
#
# The first, the *forward difference*, is off by about $\frac{h}{2} f''(x)$. In the
# *central difference* this part cancels, and $\frac{h^2}{6} f'''(x)$ remains: a chord
# is not a tangent. This first error shrinks with $h$.
#
# **Exercise 1.** The central difference, for a function that turns an array into a
# number. Every entry needs two calls of its own. Leave `x` as it is: add $h$ and then
# subtract it, and the last digit may be another.


# %%
def central_difference(f, x, h):
    """f: array -> number; x (...) -> the gradient of f at x, like x."""
    ...


ex.central_difference.check(central_difference)
central_difference = ex.central_difference.yours(central_difference)

# %% [markdown]
# Then why not a tiny $h$? A float64 holds about 16 digits. $f(x + h)$ and $f(x - h)$
# agree in most of them, and the subtraction takes these away. Only the last digits are
# left, and those were rounded:

# %%
x, h = 1.5, 1e-10
above, below = math.exp(x + h), math.exp(x - h)
print(f"f(x + h)   {above:.17f}")
print(f"f(x - h)   {below:.17f}")
print(f"difference {above - below:.17f}")
slope = (above - below) / (2 * h)
print(f"divided by 2h {slope:.12f}; f'(x) is {math.exp(x):.12f}")

# %% [markdown]
# This second error, about $10^{-16} f(x) / h$, *grows* as $h$ shrinks.
#
# ## The complex step: nothing is subtracted
#
# If $f$ is made of functions that take complex numbers, move $x$ by $ih$, at a right
# angle to the real line. Taylor's series is
#
# $$f(x + ih) = f(x) + ih\,f'(x) - \frac{h^2}{2} f''(x) - \dots$$
#
# and the derivative stands alone in the imaginary part. The computer keeps real and
# imaginary parts apart, so nothing cancels, and $h$ may be so small that $h^2$ is lost
# next to 1, say $10^{-30}$. Then the first error is gone as well.
#
# **Exercise 2.** The gradient by the complex step. Read the formula off the series.


# %%
def complex_step(f, x):
    """f: array, real or complex, -> number; x (...), real -> the gradient of f at x."""
    ...


ex.complex_step.check(complex_step)
complex_step = ex.complex_step.yours(complex_step)

# %% [markdown]
# Now all three side by side. The function is $e^x \tanh 3x$ at $x = 0.4$; its slope is
# $e^x \left(\tanh 3x + 3 / \cosh^2 3x\right)$. **Write down first:** how many right
# digits will each of them reach at best?
#
# **Now draw it yourself**, for a function of your own whose slope you know: the
# relative error of all three against $h$, from $10^{-0.5}$ down to $10^{-20}$, both
# axes logarithmic, with names for curves and axes. (An error of 0 has no place there;
# draw $10^{-17}$ for it.) Where do the two errors of the differences meet? The two
# cells after the next have our function and our picture.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)


# %% tags=["hide-output"]
def f(x):
    return np.exp(x) * np.tanh(3 * x)


def relative_error(found):
    error = abs(found / exact - 1)
    return max(error, 1e-17)  # an error of 0 has no place on a logarithmic axis


def moved(x, h):
    """How far f moves from x - h to x + h."""
    return f(x + h) - f(x - h)


x = 0.4
exact = f(x) + np.exp(x) * 3 / np.cosh(3 * x) ** 2
steps = 10.0 ** np.arange(-0.5, -20.25, -0.25)
single = np.float32(x)
in_single = [moved(single, np.float32(h)) / (2 * h) for h in steps]
found = {
    "forward difference": [(f(x + h) - f(x)) / h for h in steps],
    "central difference": [moved(x, h) / (2 * h) for h in steps],
    "central difference, float32": in_single,
    "complex step": [f(x + 1j * h).imag / h for h in steps],
}
curves = {name: [relative_error(d) for d in each] for name, each in found.items()}
for name, errors in curves.items():
    best = steps[np.argmin(errors)]
    print(f"{name:<28} smallest error {min(errors):.0e}, at h = {best:.0e}")

# %% tags=["hide-input", "hide-output"] alt="Relative error against the step on logarithmic axes. Both differences fall to a lowest point and rise again as the step shrinks, the central one lower, in float32 much higher; the complex step falls to the last digit and stays there"
# Draws the errors against the step
figure, panel = plt.subplots(figsize=(8, 4))
colours = ("C1", "C2", "C3", "C0")
for (name, errors), colour in zip(curves.items(), colours, strict=True):
    order = 1 if name == "complex step" else 2
    panel.loglog(steps, errors, ".-", color=colour, label=name, zorder=order)
panel.invert_xaxis()
note = {"color": "0.3", "ha": "left", "va": "center", "fontsize": 9}
panel.text(0.5, 1e-11, "first error:\n$h$ and $h^2$", **note)
panel.text(3e-12, 1e-9, "second error, rounding:\n$10^{-16} / h$", **note)
panel.set(xlabel="step h, smaller to the right", ylabel="relative error")
panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% [markdown]
# At best, the forward difference gives half of the digits and the central one two
# thirds; in float32 four or five are left, one lucky point aside. The complex step
# gives all digits, at any $h$ that is small enough.
#
# **This is a good place to stop.**
#
# ## Find the line
#
# With your `complex_step` you can find mistakes that nobody told you about. Here is a
# network of two layers whose way back was written by hand. The cell below it compares
# each of the four gradients with complex steps.
#
# **Exercise 3.** One line is wrong. Look at the numbers first: which gradients are
# right, and which line do only the others depend on? Then mend it, in the cell.


# %%
def two_layers_back(weights, x, target):
    """The gradients of the mean squared error of tanh(x @ W1 + b1) @ W2 + b2."""
    W1, b1, W2, b2 = weights
    hidden = np.tanh(x @ W1 + b1)
    error = hidden @ W2 + b2 - target
    g = 2 * error / error.size
    by_W2 = hidden.T @ g
    by_b2 = g.sum(axis=0)
    g = g @ W2.T * (1 - np.tanh(hidden) ** 2)
    by_W1 = x.T @ g
    by_b1 = g.sum(axis=0)
    return [by_W1, by_b1, by_W2, by_b2]


ex.two_layers_back.check(two_layers_back)

# %%
weights, x, target = ex.two_layers_back.case(1)


def mean_squared_error(W1, b1, W2, b2):
    return ((np.tanh(x @ W1 + b1) @ W2 + b2 - target) ** 2).mean()


written = two_layers_back(weights, x, target)
for k, name in enumerate(["W1", "b1", "W2", "b2"]):

    def loss(w, k=k):
        return mean_squared_error(*weights[:k], w, *weights[k + 1 :])

    slopes = complex_step(loss, weights[k])
    error = abs(written[k] - slopes).max() / abs(slopes).max()
    print(f"{name}: relative error {error:.0e}")

# %% [markdown]
# **Exercise 4.** A network with a memory of one number,
# $m \leftarrow \tanh(w m + u x)$, and its way back through all steps. Ask your complex
# step which of the two derivatives is wrong. Then ask with a single `x`.


# %%
def steps_back(w, u, xs):
    """The derivatives of m * m / 2 at the end with respect to w and u."""
    ms = [0.0]
    for x in xs:
        ms.append(math.tanh(w * ms[-1] + u * x))
    by_w = by_u = 0.0
    g = ms[-1]
    for t in reversed(range(len(xs))):
        g = g * (1 - ms[t + 1] ** 2)
        by_w = by_w + g * ms[t + 1]
        by_u = by_u + g * xs[t]
        g = g * w
    return by_w, by_u


ex.steps_back.check(steps_back)

# %% [markdown]
# ## What the complex step asks for
#
# It works only if every operation on the way follows the rules of complex analysis (is
# *analytic*). An absolute value does not: $|x + ih| = \sqrt{x^2 + h^2}$ has no
# imaginary part at all.

# %%
functions = {"x * x": lambda x: x * x, "abs(x) ** 2": lambda x: abs(x) ** 2}
functions |= {"sqrt(x * x)": lambda x: np.sqrt(x * x), "abs(x)": abs}
for name, function in functions.items():
    slope = np.imag(function(3 + 1e-30j)) / 1e-30
    value = function(3.0)
    print(f"{name:<12} at 3: value {value:g}, slope by the complex step {slope:g}")

# %% [markdown]
# Each pair of lines is one function on the real line. But where it is written with
# `abs`, the check would reject a rule that is right. Absolute values also hide in
# `np.var` and in norms.
#
# **Exercise 5.** The variance of every row, for layer norm (chapter 8). It must be
# right for complex numbers, too, and where the mean is a hundred thousand times as
# large as the spread: think of what a subtraction loses. It is the *biased* variance,
# the mean of the squared distances.


# %%
def variance(x):
    """x (..., n), real or complex -> (...)."""
    ...


ex.variance.check(variance)

# %% [markdown]
# **This is a good place to stop.**
#
# ## All entries at once
#
# To *check* a gradient, one call of the function is enough: move all entries together,
# along a random direction $v$. The slope in that direction must be
#
# $$\frac{\operatorname{Im} f(x + ihv)}{h}
# = \sum_k \frac{\partial f}{\partial x_k} \, v_k$$
#
# A wrong entry shows in the sum, unless $v$ is 0 there or two mistakes cancel. A random
# direction makes both very unlikely. If $f$ gives an array, weigh its entries by random
# numbers $g$ and add them up.
#
# **Exercise 6.** Write the judge: is this vjp right, for this function, at this point?
# Some of the rules are wrong by a millionth or a billionth. Slopes lie between
# $10^{-12}$ and $10^{17}$, and one is 0, so no fixed tolerance fits them all. The
# rounding of a sum is about $10^{-16}$ of the largest of its terms: let the tolerance
# be a share of their size.


# %%
def rule_is_right(forward, vjp, x):
    """forward: array -> array; vjp(g, x), g the gradient of forward(x) -> that of x.
    Returns True or False.
    """
    ...


ex.rule_is_right.check(rule_is_right)
rule_is_right = ex.rule_is_right.yours(rule_is_right)

# %% [markdown]
# Now let it judge your engine. `by_tape` makes a vjp of anything that works on Nodes:

# %%
rng = np.random.default_rng(3)
W, U = rng.normal(size=(2, 4, 4))


def by_tape(operation):
    def vjp(g, x):
        tape = LittleTape()
        node = tape.watch(x)
        y = operation(node)
        weighed = tape.record((g * y.data).sum(), (y,), lambda one: (one * g,))
        return tape.gradient(weighed, [node])[0]

    return vjp


def layers(x, W, U):
    return (x @ W) * x + (x @ W) @ U


for name, forward, operation in (
    ("tanh", np.tanh, lambda x: x.tanh()),
    ("square", np.square, lambda x: x * x),
    ("mean", np.mean, lambda x: x.mean()),
    (
        "layers",
        lambda x: layers(x, W, U),
        lambda x: layers(x, *map(x.tape.watch, (W, U))),
    ),
    ("wrong tanh", np.tanh, wrong_tanh),
):
    verdict = rule_is_right(forward, by_tape(operation), rng.normal(size=(3, 4)))
    print(f"{name:10} {verdict}")

# %% [markdown]
# ## A new entry: the softmax
#
# The *softmax* turns a row of any numbers, the scores $x$, into shares $y$ that are
# positive and sum to 1. Chapter 5 (learning) and chapter 6 (attention) need it:
#
# $$y_j = \frac{e^{x_j}}{s}, \qquad s = \sum_k e^{x_k}$$
#
# All shares depend on all scores, through $s$. Derive $\partial y_j / \partial x_k$ by
# the rule for quotients, for $j = k$ and for the others. Then put it into the chain
# rule $\sum_j g_j \, \partial y_j / \partial x_k$, and simplify.
#
# **Exercise 7.** Its vjp. It needs only the result `y`; it never sees `x`.


# %%
def softmax_vjp(g, y):
    """g, y (..., n), y = softmax(x) over the last axis -> gradient of x (..., n)."""
    ...


ex.softmax_vjp.check(softmax_vjp)

# %% [markdown]
# ## The project's judge
#
# It is `tinyrmc.gradcheck`: the same idea, for functions of several arrays and for
# whole networks. Here it judges a dozen rules, with your central differences beside it.
# What the differences find are not the rules' errors, but their own.

# %%
rng = np.random.default_rng(7)
x, probe = rng.uniform(0.5, 2, size=(4, 4)), rng.normal(size=(4, 4))
names = "exp log sqrt sin cos tanh sigmoid softplus square softmax cumprod transpose"
names = names.split()
by_step, by_difference = [], []
for name in names:
    operation = getattr(primitives, name)
    settings = {"axis": 0} if name == "cumprod" else {}

    def weighed(x, operation=operation, settings=settings):
        return primitives.sum(operation(x, **settings) * probe)

    by_step.append(gradcheck(weighed, x))
    with Tape() as tape:
        watched = tape.watch(x)
        loss = weighed(watched)
    slopes = tape.gradient(loss, watched)
    difference = central_difference(lambda x, f=weighed: f(x).data, x, 1e-5)
    by_difference.append(abs(slopes - difference).max() / abs(slopes).max())

# %% tags=["hide-input"] alt="Twelve operations below each other, a line for each from the disagreement with the complex step, at or below the last digit of a float64, to that with central differences, about a million times larger"
# Draws both disagreements, a line for each rule
figure, panel = plt.subplots(figsize=(8, 4))
rows = np.arange(len(names))[::-1]
smallest = 1e-18  # where an error of 0 is drawn
left = np.maximum(by_step, smallest)
panel.hlines(rows, left, by_difference, color="0.85", lw=2, zorder=0)
panel.scatter(left, rows, marker="D", s=30, color="C0", label="by the complex step")
panel.scatter(by_difference, rows, s=34, color="C2", label="by central differences")
last_digit = np.finfo(float).eps
panel.axvline(last_digit, color="0.5", lw=1, ls=":")
note = {"ha": "left", "va": "center", "color": "0.4", "fontsize": 9}
panel.text(1.6 * last_digit, rows[0] + 0.9, "last digit of a float64", **note)
panel.set_xscale("log")
panel.set_xticks([smallest, 1e-15, 1e-12, 1e-9], ["0", "1e-15", "1e-12", "1e-9"])
panel.set_yticks(rows, names)
panel.set(xlabel="relative disagreement with the rule", ylim=(-0.7, len(names) + 0.4))
panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# ## A second witness
#
# A second witness should share none of our rules and no line of our engine: HIPS
# autograd, which others wrote long before this one. (It walks back, as we do. The
# witness with another method is the complex step.) The equations of this project take
# their array library as an argument, so *the same text* runs under both engines. Here
# are three steps of the whole core, equations 2 to 9; for now it is a function with
# many parameters.

# %% tags=["hide-input"]
# Draws weights, inputs and a first memory, and makes a loss of three steps
rng = np.random.default_rng(19)
B, T, N, H, K = 2, 3, 3, 2, 4  # examples, time steps, slots, heads, units of a key
F = H * K
shapes = dict.fromkeys(("W_q", "W_k", "W_v"), (H, F, K))
shapes |= {"mlp_weight": (F, F), "mlp_bias": (F,), "gain": (F,), "offset": (F,)}
for name in "fio":
    shapes |= {f"W_{name}": (F, F), f"U_{name}": (F, F), f"b_{name}": (F,)}
weights = {}
for name, shape in shapes.items():
    weights[name] = rng.normal(size=shape) / math.sqrt(shape[-1])
inputs = rng.normal(size=(T, B, F))
memory, hidden = rng.normal(size=(B, N, F)), rng.normal(size=(B, N, F))
probes = rng.normal(size=(T, B, N, F))  # a weight for each entry of each output


def loss_of(xp, weights):
    """A number that depends on all outputs of three steps. `weights` are what `xp`
    takes: arrays, or Parameters.
    """
    parameters = {**weights, "forget_bias": 1.0}
    parameters["mlp"] = [(weights["mlp_weight"], weights["mlp_bias"])]
    state, loss = (memory, hidden), 0.0
    for x, probe in zip(inputs, probes, strict=True):
        output, state = equations.step(xp, x, state, parameters)
        loss = loss + xp.sum(output * probe)
    return loss


# %%
parameters = {name: Parameter(weight) for name, weight in weights.items()}
with Tape() as tape:
    loss = loss_of(primitives, parameters)
tape.backward(loss)
ours = {name: parameter.grad for name, parameter in parameters.items()}
theirs = autograd.grad(lambda weights: loss_of(hips, weights))(weights)

by_engine, by_numpy = float(loss.data), loss_of(np, weights)
print(f"loss by our engine {by_engine:.15f}, by NumPy {by_numpy:.15f}")
print(f"{'':<12}{'entries':>8}{'against autograd':>20}{'against the complex step':>28}")
for name, weight in weights.items():
    v = rng.normal(size=weight.shape)
    slope = loss_of(np, {**weights, name: weight + 1e-30j * v}).imag / 1e-30
    witness = abs(ours[name] - theirs[name]).max() / abs(theirs[name]).max()
    step = abs((ours[name] * v).sum() / slope - 1)
    print(f"{name:<12}{weight.size:>8}{witness:>20.0e}{step:>28.0e}")

# %% [markdown]
# Three ways to a derivative agree to the last digits.
#
# ## Catching a bug
#
# Now we plant the mistake from the beginning of this chapter in the real table.
# `gradcheck` says which argument is worst, what backward gave, what the complex step
# gave, and which seed repeats it:


# %%
def one_step(x, memory, hidden):
    named = {**parameters, "forget_bias": 1.0}
    named["mlp"] = [(parameters["mlp_weight"], parameters["mlp_bias"])]
    return equations.step(primitives, x, (memory, hidden), named)


def judge(function):
    try:
        error = gradcheck(function, inputs[0], memory, hidden, parameters=parameters)
        print(f"passed, with a relative error of {error:.0e}")
    except AssertionError as found:
        print(found)


judge(one_step)
right_rule = primitives.tanh.rule
primitives.tanh.vjp(lambda xp, needs, g, y: g * y * (1 - y))
judge(one_step)
primitives.tanh.rule = right_rule

# %% [markdown]
# The worst error is at the bias of a gate. A gate is a sigmoid, and `equations.py`
# makes the sigmoid from tanh; equation 8 has a tanh as well. So the wrong rule of one
# operation shows in all that are made of it. Which of them is at fault, the check does
# not say.
#
# Another mistake needs no wrong rule. The memory is cut off the tape between two steps:
# the outputs are the same, but a part of the gradient is missing.


# %%
def two_steps(x, memory, hidden):
    _, (memory, hidden) = one_step(x, memory, hidden)
    return one_step(x, memory, hidden)


def cut(x, memory, hidden):
    _, (memory, hidden) = one_step(x, memory, hidden)
    return one_step(x, memory.detach(), hidden)  # a constant to the tape


judge(two_steps)
judge(cut)

# %% [markdown]
# ## What a gradient check does not see
#
# It compares the derivative of what you wrote with the slope of what you wrote. It does
# not know whether you wrote what you meant. Attention without its root, a mistake of
# chapter 6 (attention), is a different function, and has a perfectly good gradient:


# %%
def attention_without_root(queries, keys, values):
    return primitives.softmax(queries @ primitives.swapaxes(keys, -1, -2)) @ values


error = gradcheck(attention_without_root, *rng.normal(size=(3, 4, 6)))
print(f"relative error {error:.0e}, and yet not equation 1")

# %% [markdown]
# It also looks at one point only, and asks for a slope there. At the kink of a ReLU
# every witness says something different, and none of them is wrong. Stay away from
# kinks.


# %%
def relu(x):
    return primitives.maximum(x, 0.0)


for x in (-1.0, 0.0, 1.0):
    with Tape() as tape:
        watched = tape.watch(np.array(x))
        y = relu(watched)
    ours = tape.gradient(y, watched)
    central = (relu(x + 1e-5).data - relu(x - 1e-5).data) / 2e-5
    step = relu(np.array(x + 1e-30j)).data.imag / 1e-30
    print(f"at {x:>2.0f}: our rule {ours:.1f}, ", end="")
    print(f"central difference {central:.1f}, complex step {step:.1f}")

# %% [markdown]
# And the check calls the function more than once. If it draws random numbers, as
# *dropout* does, which sets random entries to 0, seed it: else it is another function
# at each call.
#
# ## Takeaways
#
# - A wrong derivative may look like slow learning, and after many steps still be worse
#   than none. A control shows what it is that learns.
# - Differences have two errors that pull in opposite directions. The complex step has
#   neither, if every operation is analytic.
# - A random direction checks all entries with one call.
#
# **Further.** In the picture of the two errors, where would the best $h$ be for a
# function that changes a million times as fast, $f(10^6 x)$? A softmax first subtracts
# its largest entry. Why does this step leave the gradient as it is, though it is not
# differentiable where two entries tie? What data would meet the kink of a ReLU often?

# %% tags=["hide-cell"]
# Answer 1
# The best h is then a millionth as large. What counts is how far the function goes in a
# step. So no single h suits all parameters of a network.
for fast in (1.0, 1e6):
    tried = [h for h in steps if h * fast < 1]
    errors = []
    for h in tried:
        difference = f(0.4 + fast * h) - f(0.4 - fast * h)
        errors.append(relative_error(difference / (2 * h * fast)))
    print(f"f({fast:.0e} x): best h = {tried[np.argmin(errors)]:.0e}")

# %% tags=["hide-cell"]
# Answer 2
# The softmax of x - c is the same for every c, so its derivative with respect to c is
# 0. Whatever the rule of the maximum says at a tie, it is multiplied by that 0: the
# gradient that comes back from a softmax sums to 0.
tied, weights = np.array([1.0, 3.0, 3.0]), rng.normal(size=3)
for largest in (lambda x: primitives.max(x), lambda x: 3.0):
    with Tape() as tape:
        watched = tape.watch(tied)
        e = primitives.exp(watched - largest(watched))
        loss = primitives.sum(e / primitives.sum(e) * weights)
    gradient = tape.gradient(loss, watched)
    print(gradient.round(6), f"sum {abs(gradient.sum()):.0e}")

# %% tags=["hide-cell"]
# Answer 3
# Data with many exact zeros meet it, such as padding or pixels that are off, in a fresh
# network whose biases are 0: a row of zeros gives every unit exactly 0.
W = rng.normal(size=(8, 100))
images = rng.random((50, 8)) * (rng.random((50, 1)) < 0.5)  # half of them are blank
for name, data in (("random", rng.normal(size=(50, 8))), ("half blank", images)):
    print(f"{name}: {np.mean(data @ W == 0):.0%} of the units at the kink")
