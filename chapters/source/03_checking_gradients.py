# %% [markdown]
# # 3. Checking gradients: how to know that a derivative is right
#
# **No equation of the paper, but what every equation rests on.** About 60 minutes. You
# need chapter 2, and you need to know what a complex number is. In this chapter $h$ is
# a small step, as in all books on derivatives, and not the output of the core.
#
# A wrong derivative raises no error. It need not even stop the learning: a network with
# a bent gradient may still find its way down, only more slowly. Then you look for the
# cause in the data, the learning rate, the architecture. Here is such a mistake, in the
# network of chapter 2 that learns a sine. Somebody copied the vjp of tanh from the
# sigmoid, whose slope is $y (1 - y)$.

# %%
import math

import autograd
import autograd.numpy as hips
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Parameter, Tape, course, equations, gradcheck, primitives
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import checking as ex

course.setup()


@engine.primitive
def bent_tanh(xp, x):
    """tanh, with a wrong derivative"""
    y = xp.tanh(x)
    return y, (y,)


@bent_tanh.vjp
def bent_tanh_vjp(xp, needs, g, y):
    return g * y * (1 - y)  # should be g * (1 - y * y)


points = np.linspace(-math.pi, math.pi, 64)[:, None]  # (64, 1)


def gradients(tanh, parameters):
    """The loss of a network of sixteen hidden units with this `tanh`, and the gradients
    of its four parameters.
    """
    W1, b1, W2, b2 = parameters
    with Tape() as tape:
        guess = tanh(points @ W1 + b1) @ W2 + b2
        loss = primitives.mean(primitives.square(guess - np.sin(points)))
    return float(loss.data), tape.gradient(loss, parameters)


def learn(tanh, rate=0.05):
    """For each step the loss, and the cosine of the angle between the gradient that is
    followed and the true one.
    """
    start = np.random.default_rng(5)
    weights = [start.normal(size=(1, 16)), start.normal(size=16)]
    weights += [start.normal(size=(16, 1)) / 4, np.zeros(1)]
    parameters = [Parameter(weight) for weight in weights]
    losses, cosines = [], []
    for _ in range(course.fast(2000, 200)):
        loss, followed = gradients(tanh, parameters)
        _, true = gradients(primitives.tanh, parameters)
        one = np.concatenate([g.ravel() for g in followed])
        other = np.concatenate([g.ravel() for g in true])
        losses.append(loss)
        cosines.append(one @ other / math.sqrt((one @ one) * (other @ other)))
        for parameter, gradient in zip(parameters, followed, strict=True):
            parameter.data = parameter.data - rate * gradient
    return losses, cosines


right, bent = learn(primitives.tanh), learn(bent_tanh)
print(f"loss at the end, with the right derivative: {right[0][-1]:.5f}")
print(f"loss at the end, with the bent one:         {bent[0][-1]:.5f}")
cosines = np.array(bent[1])
small, negative = np.mean(cosines < 1 / 3), np.mean(cosines < 0)
print(f"cosine of the bent one below a third in {small:.0%} of the steps")
print(f"and below 0 in {negative:.0%}")

# %% tags=["hide-input"] alt="Above, two losses against steps on logarithmic axes: both fall, the one with the wrong derivative stays higher, has a bump after a thousand steps, and ends about ten times as high. Below, the cosine between the gradient that is followed and the true one: 1 for the right derivative; the wrong one falls from 0.9 towards 0 in the first hundred steps, and below 0 where the bump rises"
# Draws the losses and the cosines
layout = {"figsize": (7, 4.4), "sharex": True, "height_ratios": [1.6, 1]}
figure, (above, below) = plt.subplots(2, 1, **layout)
for name, (losses, cosines) in {
    "right derivative": right,
    "wrong derivative": bent,
}.items():
    steps = np.arange(1, len(losses) + 1)
    above.loglog(steps, losses, label=name)
    below.plot(steps, cosines)
above.set(ylabel="loss", title="a wrong derivative learns, too")
above.legend()
below.axhline(0, color="0.6", lw=1, ls=":")
below.set(xlabel="step", ylabel="cosine with the\ntrue gradient", ylim=(-0.5, 1.15))
plt.show()

# %% [markdown]
# If you saw only the upper orange curve, you would take it for learning. The lower
# panel shows what is wrong with it. A cosine of 1 means the same direction, and 0 a
# right angle. For most of the way, the gradient that the network follows has little in
# common with the true one. Where the outputs $y$ of tanh are negative, $y (1 - y)$ even
# has the wrong sign. After about a thousand steps the wrong signs win for a while: the
# cosine falls well below 0, and the network walks uphill. That is the bump. Later the
# two gradients agree better again. The lesson: check every derivative by itself,
# against something that cannot share its mistakes.
#
# ## Differences, and their two errors
#
# The oldest check is the definition. Move $x$ by a small $h$, to one side or to both,
# and see how far $f$ moves:
#
# $$f'(x) \approx \frac{f(x + h) - f(x)}{h} \qquad\qquad
# f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$
#
# The first, the *forward difference*, is off by about $\frac{h}{2} f''(x)$. In the
# second, the *central difference*, this part cancels, and $\frac{h^2}{6} f'''(x)$
# remains. That is the first error: a chord is not a tangent. It shrinks with $h$.
#
# **Exercise 1.** The central difference, for a function that turns an array into a
# number. Every entry needs two calls of its own.


# %%
def central_difference(f, x, h):
    """f: array -> number; x (...) -> the gradient of f at x, like x."""
    ...


ex.central_difference.check(central_difference)

# %% [markdown]
# Then why not make $h$ as small as possible? Because of the second error. A float64
# holds about 16 digits. $f(x + h)$ and $f(x - h)$ agree in most of them, and the
# subtraction takes these away. Only the last digits are left, and those were rounded:

# %%
x, h = 1.5, 1e-10
above, below = math.exp(x + h), math.exp(x - h)
print(f"f(x + h)   {above:.17f}")
print(f"f(x - h)   {below:.17f}")
print(f"difference {above - below:.17f}")
slope = (above - below) / (2 * h)
print(f"divided by 2h {slope:.12f}; f'(x) is {math.exp(x):.12f}")

# %% [markdown]
# The rounding error is about $10^{-16} f(x)$, and it is divided by $h$: it *grows* as
# $h$ shrinks. Somewhere in between, the sum of both errors is smallest, but even there
# it is not small.
#
# ## The complex step: nothing is subtracted
#
# There is a way without subtraction. It works if $f$ is made of functions that take
# complex numbers: sums, products, exp, tanh and so on. Move $x$ by $ih$, at a right
# angle to the real line. Taylor's series is
#
# $$f(x + ih) = f(x) + ih\,f'(x) - \frac{h^2}{2} f''(x) - \dots$$
#
# and the derivative stands alone in the imaginary part:
#
# $$f'(x) \approx \frac{\operatorname{Im} f(x + ih)}{h}$$
#
# The computer keeps real and imaginary parts apart, so nothing cancels. And $h$ may be
# so small that $h^2$ is lost next to 1. Here $h$ is $10^{-30}$, and the first error is
# gone as well.
#
# **Exercise 2.** The gradient by the complex step.


# %%
def complex_step(f, x):
    """f: array, real or complex, -> number; x (...), real -> the gradient of f at x."""
    ...


ex.complex_step.check(complex_step)

# %% [markdown]
# Now all three side by side, against the derivative by hand. The function is
# $e^x \tanh 3x$ at $x = 0.4$. **Write down first:** how many right digits will each of
# the three reach at best? (A float64 has sixteen. An error of 0 is drawn as
# $10^{-17}$.)


# %%
def f(x):
    return np.exp(x) * np.tanh(3 * x)


def relative_error(found):
    error = abs(found / exact - 1)
    return max(error, 1e-17)  # so that an error of 0 has a place on a logarithmic axis


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

# %% tags=["hide-input"] alt="Relative error against the step on logarithmic axes. Both differences fall to a lowest point and rise again as the step shrinks, the central one lower, in float32 much higher; the complex step falls to the last digit and stays there"
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
# thirds. In float32 four or five digits are left, one lucky point aside: this is why
# you check gradients in float64. And the best $h$ differs from function to function.
# The complex step gives all digits, at any $h$ that is small enough. A rule that is
# wrong by one part in a million passes many checks by differences. It does not pass
# this one.
#
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
# Each pair of lines is one function on the real line. Its slope at 3 is 6 for the first
# pair and 1 for the second. Where the function is written with `abs`, the complex step
# says 0, and the check would reject a rule that is right. Absolute values also hide
# inside other functions: in `np.var`, in norms, in a square root of $|x|^2$. So the
# equations of this project use none of them.
#
# **Exercise 3.** The variance of every row, as layer norm needs it (chapter 7). Write
# it so that it is also right for complex numbers. It is the *biased* variance: the mean
# of the squared distances.


# %%
def variance(x):
    """x (..., n), real or complex -> (...)."""
    ...


ex.variance.check(variance)

# %% [markdown]
# ## All entries at once
#
# Entry by entry, you pay one call of the function for each. To *check* a gradient, one
# call is enough: move all entries together, along a random direction $v$. You get the
# slope in that direction, and it must be
#
# $$\frac{\operatorname{Im} f(x + ihv)}{h}
# = \sum_k \frac{\partial f}{\partial x_k} \, v_k$$
#
# A wrong entry shows in the sum, unless $v$ is 0 there or two mistakes cancel to the
# last digit. A random direction makes both very unlikely. If $f$ gives an array, weigh
# its entries by random numbers $g$ and add them up; then it gives a number.
#
# **Exercise 4.** Write the judge: is this vjp right, for this function, at this point?
# Some of the rules that it has to judge are wrong by a millionth or a billionth, some
# in a single entry. And slopes lie anywhere between $10^{-12}$ and $10^{17}$. So divide
# the difference of the two sides by the size of the terms,
# $\sum_k \left| \frac{\partial f}{\partial x_k} \, v_k \right|$.


# %%
def rule_is_right(forward, vjp, x):
    """forward: array -> array; vjp(g, x), g the gradient of forward(x) -> that of x.
    Returns True or False.
    """
    ...


ex.rule_is_right.check(rule_is_right)

# %% [markdown]
# The project's judge is `tinyrmc.gradcheck`: the same idea, for functions of several
# arrays and for whole networks. Here it judges a dozen rules of `primitives.py`, with
# central differences beside it. The errors that the differences show are not the rules'
# errors, but their own. (Again, an error of 0 is drawn as $10^{-17}$.)

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
    found = tape.gradient(loss, watched)

    def value(x, weighed=weighed):
        return weighed(x).data

    difference = ex.central_difference(value, x, 1e-5)
    by_difference.append(abs(found - difference).max() / abs(found).max())

# %% tags=["hide-input"] alt="For each of twelve operations the disagreement with central differences, around one part in ten thousand million, and with the complex step, at the last digits of a float64, about a million times smaller"
# Draws both disagreements for each rule
figure, panel = plt.subplots(figsize=(9, 3.2))
by_differences = "by central differences, h = 1e-5"
panel.semilogy(names, by_difference, "o", color="C2", label=by_differences)
by_step = np.maximum(by_step, 1e-17)  # 0 has no place on a logarithmic axis
panel.semilogy(names, by_step, "D", color="C0", label="by the complex step (gradcheck)")
last_digit = np.finfo(float).eps
panel.axhline(last_digit, color="0.6", lw=1, ls=":")
note = {"ha": "right", "va": "bottom", "color": "0.4", "fontsize": 9}
panel.text(11.4, 2.5 * last_digit, "last digit of a float64", **note)
panel.tick_params(axis="x", rotation=30)
panel.set(ylabel="relative disagreement", ylim=(3e-18, 1e-7))
panel.legend(loc="upper right", ncols=2, fontsize=9)
plt.show()

# %% [markdown]
# ## A second witness
#
# The complex step is one witness. A second one should share nothing with us, neither
# code nor method. HIPS autograd is such a witness: an engine that others wrote long
# before this one. It differentiates programs that use its copy of NumPy,
# `autograd.numpy`. The equations of this project take their array library as an
# argument, so *the same text* runs under both engines. Here is one whole step of the
# core, equations 2 to 9, which chapters 5 to 9 explain. For now it is a function with
# many parameters. We take three time steps of it:

# %%
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
# These three ways to a derivative have nothing in common but the equations, and yet
# they agree to the last digits. The project's tests do the same with either kind of
# gate and with several rows of input.
#
# ## Catching a bug
#
# Now we plant the mistake from the beginning of this chapter in the real table: tanh
# gets the rule of the sigmoid. `gradcheck` runs the step. It says which argument is
# worst, what backward gave, what the complex step gave, and which seed repeats it:


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

# %%
right_rule = primitives.tanh.rule
primitives.tanh.vjp(lambda xp, needs, g, y: g * y * (1 - y))
judge(one_step)

# And one that differs in the eighth digit:
primitives.tanh.vjp(lambda xp, needs, g, y: g * (1 - y * y) * (1 + 1e-8))
judge(one_step)
primitives.tanh.rule = right_rule

# %% [markdown]
# Both times the worst error is at the bias of a gate. A gate is a sigmoid, and
# `equations.py` makes the sigmoid from tanh (chapter 8). So the check finds the wrong
# rule wherever it does harm, not only where tanh is written.
#
# Another common mistake needs no wrong rule: the memory is cut off the tape between
# steps, so that the gradient does not reach what was written before. The outputs are
# exactly the same, but a part of the gradient is missing:


# %%
def cut(x, memory, hidden):
    _, (memory, hidden) = one_step(x, memory, hidden)
    return one_step(x, memory.detach(), hidden)  # a constant to the tape


def two_steps(x, memory, hidden):
    _, (memory, hidden) = one_step(x, memory, hidden)
    return one_step(x, memory, hidden)


judge(two_steps)
judge(cut)

# %% [markdown]
# ## What a gradient check does not see
#
# A gradient check compares the derivative of what you wrote with the slope of what you
# wrote. It does not know whether you wrote what you meant. Attention without the root
# (chapter 5) is a different function, and it has a perfectly good gradient:


# %%
def attention_without_root(queries, keys, values):
    return primitives.softmax(queries @ primitives.swapaxes(keys, -1, -2)) @ values


error = gradcheck(attention_without_root, *rng.normal(size=(3, 4, 6)))
print(f"relative error {error:.0e}, and yet not equation 1")

# %% [markdown]
# To find such a mistake you need other witnesses: values worked out by hand, properties
# that must hold, a second implementation. They come with the chapters.
#
# The check also looks at one point only, and asks for a slope there. The ReLU,
# $\max(x, 0)$, has the slope 0 on one side of 0 and 1 on the other. At the kink itself
# there is no slope: every witness says something different, and none of them is wrong.
# Check on both sides, and stay away from kinks.


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
# And the check calls the function more than once. *Dropout* sets random entries to 0
# while a network learns. If it draws anew at each call, it is another function each
# time, and nothing can agree. Seed it, so that each call draws the same, and it is a
# function like any other:


# %%
def dropout(x, random):
    return x * (random.random(x.shape) < 0.5)


shared, x = np.random.default_rng(1), rng.normal(size=(4, 4))
for name, function in (
    ("drawn anew", lambda x: dropout(x, shared)),
    ("seeded", lambda x: dropout(x, np.random.default_rng(1))),
):
    try:
        print(f"{name}: passed, with a relative error of {gradcheck(function, x):.0e}")
    except AssertionError as found:
        print(f"{name}: {found}")

# %% [markdown]
# ## In the package

# %%
from tinyrmc.autograd.gradcheck import _Trial

course.show(_Trial.tape_gradients, _Trial.complex_slope, _Trial.compare, gradcheck)

# %% [markdown]
# - A `_Trial` is one gradient check. It has sorted out beforehand what can move:
#   float64 arrays and Parameters. Integers and masks go through unchanged; float32 is
#   refused. It has also drawn a random direction for everything that moves.
# - `tape_gradients` is one run on a tape. If the result is not a single number, `loss`
#   weighs it, with the same random weights every time.
# - `complex_slope` moves everything that can move, all at once, by $ih$ along
#   `directions` (`_moved` does it for Parameters).
# - `compare` sets this slope beside the sum of gradient times direction. It measures
#   the error against the size of the terms, as in exercise 4.
# - If the error is too large, `gradcheck` moves each argument alone, to name the worst.
#
# `checking.py` has one thing more. Run the complex step through the walk back itself,
# and the imaginary part of the gradient, divided by $h$, is the Hessian (the table of
# all second derivatives) times a vector. You get second derivatives without a line of
# code for them.
#
# ## Takeaways
#
# - A wrong derivative looks like slow learning.
# - Differences have two errors that pull in opposite directions. The complex step has
#   neither, if every operation is analytic.
# - A random direction checks all entries with one call.
# - Use a witness that shares nothing with what it judges. And remember what you ask it:
#   whether this is the derivative of that function, not whether that is the right
#   function.
#
# **Further.** In the picture of the two errors, where would the best $h$ be for a
# function that changes a million times as fast, $f(10^6 x)$? A softmax first subtracts
# its largest entry. Why does this step leave the gradient as it is, though it is not
# differentiable where two entries tie? A random point almost never meets the kink of a
# ReLU. What data would meet it often?

# %% tags=["hide-cell"]
# Answer 1: at a millionth of the h. What counts is how far the function goes in a step.
# So no single h suits all parameters of a network.
for fast in (1.0, 1e6):
    tried = [h for h in steps if h * fast < 1]
    errors = []
    for h in tried:
        difference = f(0.4 + fast * h) - f(0.4 - fast * h)
        errors.append(relative_error(difference / (2 * h * fast)))
    print(f"f({fast:.0e} x): best h = {tried[np.argmin(errors)]:.0e}")

# %% tags=["hide-cell"]
# Answer 2: the softmax of x - c is the same for every c, so its derivative with respect
# to c is 0. Whatever the rule of the maximum says at a tie, it is multiplied by that 0:
# the gradient that comes back from a softmax sums to 0.
tied, weights = np.array([1.0, 3.0, 3.0]), rng.normal(size=3)
for largest in (lambda x: primitives.max(x), lambda x: 3.0):
    with Tape() as tape:
        watched = tape.watch(tied)
        e = primitives.exp(watched - largest(watched))
        loss = primitives.sum(e / primitives.sum(e) * weights)
    gradient = tape.gradient(loss, watched)
    print(gradient.round(6), f"sum {abs(gradient.sum()):.0e}")

# %% tags=["hide-cell"]
# Answer 3: data with many exact zeros, such as padding or pixels that are off, in a
# fresh network whose biases are 0: the row of zeros gives every unit exactly 0.
W = rng.normal(size=(8, 100))
images = rng.random((50, 8)) * (rng.random((50, 1)) < 0.5)  # half of them are blank
for name, data in (("random", rng.normal(size=(50, 8))), ("half blank", images)):
    print(f"{name}: {np.mean(data @ W == 0):.0%} of the units at the kink")
