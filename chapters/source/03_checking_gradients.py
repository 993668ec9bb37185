# %% [markdown]
# # 3. Checking gradients: how to know that a derivative is right
#
# **No equation of the paper: what every equation rests on.** Thirty minutes. You need
# chapter 2, and what a complex number is. In this chapter $h$ is a small step, as in
# all books on derivatives, and not the output of the core.
#
# A wrong derivative raises no error. It need not even stop the learning: a network with
# a bent gradient may still find its way down, only more slowly. One then looks for the
# cause in the data, the rate, the architecture. Here is such a mistake in the network
# of chapter 2 that learns a sine: the vjp of tanh was copied from that of the sigmoid,
# whose slope is $y (1 - y)$.

# %%
import math

import autograd
import autograd.numpy as hips
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Parameter, Tape, course, engine, equations, gradcheck, primitives
from tinyrmc.course.exercises import checking as ex

course.setup()


@engine.primitive
def bent_tanh(xp, x):
    """tanh, with a wrong derivative"""
    y = xp.tanh(x)
    return y, (y,)


@bent_tanh.vjp
def _(xp, needs, g, y):
    return g * y * (1 - y)  # should be g * (1 - y * y)


points = np.linspace(-math.pi, math.pi, 64)[:, None]  # (64, 1)


def gradients(tanh, parameters):
    """The loss, and its gradients by the four parameters, of a network of sixteen hidden units that use this `tanh`."""
    W1, b1, W2, b2 = parameters
    with Tape() as tape:
        guess = tanh(points @ W1 + b1) @ W2 + b2
        loss = primitives.mean(primitives.square(guess - np.sin(points)))
    return float(loss.data), tape.gradient(loss, parameters)


def learn(tanh, rate=0.05):
    """For each step the loss, and the cosine of the angle between the gradient that is followed and the true one."""
    start = np.random.default_rng(5)
    weights = (
        start.normal(size=(1, 16)),
        start.normal(size=16),
        start.normal(size=(16, 1)) / 4,
        np.zeros(1),
    )
    parameters = [Parameter(weight) for weight in weights]
    losses, cosines = [], []
    for _ in range(course.fast(2000, 200)):
        loss, followed = gradients(tanh, parameters)
        _, true = gradients(primitives.tanh, parameters)
        one, other = (
            np.concatenate([g.reshape(-1) for g in each]) for each in (followed, true)
        )
        losses.append(loss)
        cosines.append(one @ other / math.sqrt((one @ one) * (other @ other)))
        for parameter, gradient in zip(parameters, followed, strict=True):
            parameter.data = parameter.data - rate * gradient
    return losses, cosines


right, bent = learn(primitives.tanh), learn(bent_tanh)
print(
    f"loss at the end: {right[0][-1]:.5f} with the right derivative, {bent[0][-1]:.5f} with the bent one"
)
cosines = np.array(bent[1])
print(
    f"cosine of the bent one below a third in {np.mean(cosines < 1 / 3):.0%} of the steps, below 0 in {np.mean(cosines < 0):.0%}"
)

# %% alt="Above, two losses against steps on logarithmic axes: both fall, the one with the wrong derivative stays higher, has a bump after a thousand steps, and ends about ten times as high. Below, the cosine between the gradient that is followed and the true one: 1 for the right derivative; the wrong one falls from 0.9 towards 0 in the first hundred steps, and below 0 where the bump rises"
figure, (above, below) = plt.subplots(
    2, 1, figsize=(7, 4.4), sharex=True, height_ratios=[1.6, 1]
)
for (losses, cosines), name in (
    (right, "right derivative"),
    (bent, "wrong derivative"),
):
    above.loglog(np.arange(1, len(losses) + 1), losses, label=name)
    below.plot(np.arange(1, len(losses) + 1), cosines)
above.set(ylabel="loss", title="a wrong derivative learns, too")
above.legend()
below.axhline(0, color="0.6", lw=1, ls=":")
below.set(xlabel="step", ylabel="cosine with the\ntrue gradient", ylim=(-0.5, 1.15))
plt.show()

# %% [markdown]
# Whoever saw only the upper orange curve would take it for learning. The lower panel
# shows what is wrong with it: for most of the way the gradient that is followed has
# little in common with the true one (a cosine of 1 is the same direction, 0 a right
# angle). Where the outputs $y$ of tanh are negative, $y (1 - y)$ even has the wrong
# sign. After about a thousand steps this wins for a while, the cosine falls well below
# 0, and the network walks uphill: that is the bump. Later the two come closer again. So
# derivatives are checked, each by itself, against something that cannot share their
# mistakes.
#
# ## Differences, and their two errors
#
# The oldest check is the definition. Move $x$ by a small $h$ and see how far $f$ moves,
# to one side or to both:
#
# $$f'(x) \approx \frac{f(x + h) - f(x)}{h} \qquad\qquad f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$
#
# The first, the *forward difference*, is off by about $\frac{h}{2} f''(x)$; in the
# second, the *central difference*, this part cancels, and $\frac{h^2}{6} f'''(x)$
# remains. That is the first error: a chord is not a tangent. It shrinks with $h$.
#
# **Exercise 1.** The central difference for a function that makes a number of an array.
# Every entry needs two calls of its own.


# %%
def central_difference(f, x, h):
    """f: array -> number; x (...) -> the gradient of f at x, like x."""
    ...


ex.central_difference.check(central_difference)

# %% [markdown]
# Then why not make $h$ as small as can be? Because of the second error. A float64 holds
# about 16 digits. $f(x + h)$ and $f(x - h)$ agree in most of them, and the subtraction
# takes these away; what is left are the last digits, which were rounded:

# %%
x, h = 1.5, 1e-10
above, below = math.exp(x + h), math.exp(x - h)
print(f"f(x + h)   {above:.17f}")
print(f"f(x - h)   {below:.17f}")
print(
    f"difference {above - below:.17f}, divided by 2h {(above - below) / (2 * h):.12f}; f'(x) is {math.exp(x):.12f}"
)

# %% [markdown]
# The rounding error is about $10^{-16} f(x)$, and it is divided by $h$: it *grows* as
# $h$ shrinks. Somewhere between, the sum of both is smallest, and it is not small.
#
# ## The complex step: nothing is subtracted
#
# If $f$ is made of functions that take complex numbers (sums, products, exp, tanh and
# so on), there is a way without subtraction. Move $x$ by $ih$, at a right angle to the
# real line. Taylor's series is
#
# $$f(x + ih) = f(x) + ih\,f'(x) - \frac{h^2}{2} f''(x) - \dots$$
#
# and the derivative stands alone in the imaginary part:
#
# $$f'(x) \approx \frac{\operatorname{Im} f(x + ih)}{h}$$
#
# The computer keeps real and imaginary parts apart, so nothing cancels, and $h$ may be
# so small that $h^2$ is lost next to 1: here it is $10^{-30}$, and the first error is
# gone as well.
#
# **Exercise 2.** The gradient by the complex step.


# %%
def complex_step(f, x):
    """f: array -> number, also for complex arrays; x (...), real -> the gradient of f at x, like x."""
    ...


ex.complex_step.check(complex_step)

# %% [markdown]
# All three side by side, against the derivative by hand. The function is $e^x \tanh 3x$
# at $x = 0.4$, and an error of 0 is drawn as $10^{-17}$:


# %%
def f(x):
    return np.exp(x) * np.tanh(3 * x)


def relative_error(found):
    return max(
        abs(found / exact - 1), 1e-17
    )  # so that an error of 0 has a place on a logarithmic axis


x = 0.4
exact = f(x) + np.exp(x) * 3 / np.cosh(3 * x) ** 2
steps = 10.0 ** np.arange(-0.5, -20.25, -0.25)
single = np.float32(x)
curves = {
    "forward difference": [relative_error((f(x + h) - f(x)) / h) for h in steps],
    "central difference": [
        relative_error((f(x + h) - f(x - h)) / (2 * h)) for h in steps
    ],
    "central difference, float32": [
        relative_error(
            (f(single + np.float32(h)) - f(single - np.float32(h))) / (2 * h)
        )
        for h in steps
    ],
    "complex step": [relative_error(f(x + 1j * h).imag / h) for h in steps],
}
for name, errors in curves.items():
    print(
        f"{name:<28} smallest error {min(errors):.0e}, at h = {steps[int(np.argmin(errors))]:.0e}"
    )

# %% alt="Relative error against the step on logarithmic axes. Both differences fall to a lowest point and rise again as the step shrinks, the central one lower, in float32 much higher; the complex step falls to the last digit and stays there"
figure, panel = plt.subplots(figsize=(8, 4))
for (name, errors), colour in zip(
    curves.items(), ("C1", "C2", "C3", "C0"), strict=True
):
    panel.loglog(
        steps,
        errors,
        ".-",
        color=colour,
        label=name,
        zorder=1 if name == "complex step" else 2,
    )
panel.invert_xaxis()
panel.text(
    0.5,
    1e-11,
    "first error:\n$h$ and $h^2$",
    color="0.3",
    ha="left",
    va="center",
    fontsize=9,
)
panel.text(
    3e-12,
    1e-9,
    "second error, rounding:\n$10^{-16} / h$",
    color="0.3",
    ha="left",
    va="center",
    fontsize=9,
)
panel.set(xlabel="step h, smaller to the right", ylabel="relative error")
panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% [markdown]
# The forward difference gives half of the digits at best, the central one two thirds;
# in float32 four or five digits are left, one lucky point aside, which is why gradients
# are checked in float64. And the best $h$ differs from function to function. The
# complex step gives all digits, at any $h$ that is small enough. A rule that is wrong
# by one part in a million passes many a check by differences. It does not pass this
# one.
#
# ## What the complex step asks for
#
# It works only if every operation on the way is the one of complex analysis. An
# absolute value is not: $|x + ih| = \sqrt{x^2 + h^2}$ has no imaginary part at all.

# %%
functions = {"x * x": lambda x: x * x, "abs(x) ** 2": lambda x: abs(x) ** 2}
functions |= {"sqrt(x * x)": lambda x: np.sqrt(x * x), "abs(x)": abs}
for name, function in functions.items():
    slope = np.imag(function(3 + 1e-30j)) / 1e-30
    print(
        f"{name:<12} at 3: value {function(3.0):g}, slope by the complex step {slope:g}"
    )

# %% [markdown]
# Each pair is one function on the real line, and its derivative there is 6, or 1. Where
# it is written with `abs`, the complex step says 0, and the check would reject a rule
# that is right. Absolute values also hide inside others: in `np.var`, in norms, in a
# square root of $|x|^2$. So the equations of this project use none of them.
#
# **Exercise 3.** The variance of every row, as layer norm needs it (chapter 6), so that
# it is also right for complex numbers. It is the *biased* variance: the mean of the
# squared distances.


# %%
def variance(x):
    """x (..., n), real or complex -> (...)."""
    ...


ex.variance.check(variance)

# %% [markdown]
# ## All entries at once
#
# Entry by entry costs a call for each. To *check* a gradient one call is enough: move
# all entries together, along a random direction $v$. What then comes out is the slope
# in that direction, and it must be
#
# $$\frac{\operatorname{Im} f(x + ihv)}{h} = \sum_k \frac{\partial f}{\partial x_k} \, v_k$$
#
# A wrong entry shows in the sum, unless $v$ is 0 there, or two mistakes cancel to the
# last digit, which a random direction makes very unlikely. If $f$ gives an array, weigh
# its entries by random numbers $g$ and add them up; then it gives a number.
#
# **Exercise 4.** Write the judge: is this vjp right, for this function, at this point?
# Some of the rules it is tried on are wrong by a millionth, some in a single entry; and
# slopes lie anywhere between $10^{-12}$ and $10^{17}$, so divide the difference of the
# two sides by the size of the terms,
# $\sum_k \left| \frac{\partial f}{\partial x_k} \, v_k \right|$.


# %%
def rule_is_right(forward, vjp, x):
    """forward: array -> array; vjp(g, x): the gradient of x, g being that of forward(x) -> True or False."""
    ...


ex.rule_is_right.check(rule_is_right)

# %% [markdown]
# The project's judge is `tinyrmc.gradcheck`, the same idea for functions of several
# arrays and for whole networks. Here it judges a dozen rules of `primitives.py`, and
# central differences are put beside it. Theirs is not the error of the rule, but their
# own (no error is again drawn as $10^{-17}$):

# %%
rng = np.random.default_rng(7)
x, probe = rng.uniform(0.5, 2, size=(4, 4)), rng.normal(size=(4, 4))
names = (
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "softplus",
    "square",
    "softmax",
    "cumprod",
    "transpose",
)
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
    difference = ex.central_difference(
        lambda x, weighed=weighed: weighed(x).data, x, 1e-5
    )
    by_difference.append(abs(found - difference).max() / abs(found).max())

# %% alt="For each of twelve operations the disagreement with central differences, around one part in ten thousand million, and with the complex step, at the last digits of a float64, about a million times smaller"
figure, panel = plt.subplots(figsize=(9, 3.2))
panel.semilogy(
    names, by_difference, "o", color="C2", label="by central differences, h = 1e-5"
)
panel.semilogy(
    names,
    np.maximum(by_step, 1e-17),
    "D",
    color="C0",
    label="by the complex step (gradcheck)",
)  # 0 has no place here
panel.axhline(np.finfo(float).eps, color="0.6", lw=1, ls=":")
panel.text(
    11.4,
    2.5 * np.finfo(float).eps,
    "last digit of a float64",
    ha="right",
    va="bottom",
    color="0.4",
    fontsize=9,
)
panel.tick_params(axis="x", rotation=30)
panel.set(ylabel="relative disagreement", ylim=(3e-18, 1e-7))
panel.legend(loc="upper right", ncols=2, fontsize=9)
plt.show()

# %% [markdown]
# ## A second witness
#
# The complex step is one witness. A second one should share nothing with us, neither
# code nor method: HIPS autograd, an engine written by others long before this one. It
# differentiates programs that use its copy of NumPy, `autograd.numpy`. The equations of
# this project take their array library as an argument, so *the same text* runs under
# both. Here is one whole step of the core, equations 2 to 9, which the next five
# chapters explain; for now it is a function with many parameters. Three time steps of
# it:

# %%
rng = np.random.default_rng(19)
B, T, N, H, K = 2, 3, 3, 2, 4  # examples, time steps, slots, heads, units of a key
F = H * K
shapes = {
    "W_q": (H, F, K),
    "W_k": (H, F, K),
    "W_v": (H, F, K),
    "mlp_weight": (F, F),
    "mlp_bias": (F,),
    "gain": (F,),
    "offset": (F,),
}
shapes |= {
    f"{kind}_{name}": shape
    for name in "fio"
    for kind, shape in (("W", (F, F)), ("U", (F, F)), ("b", (F,)))
}
weights = {
    name: rng.normal(size=shape) / math.sqrt(shape[-1])
    for name, shape in shapes.items()
}
inputs, memory, hidden = (
    rng.normal(size=(T, B, F)),
    rng.normal(size=(B, N, F)),
    rng.normal(size=(B, N, F)),
)
probes = rng.normal(
    size=(T, B, N, F)
)  # each entry of each output counts, by a weight of its own


def loss_of(xp, weights):
    """A number that depends on all outputs of three steps. `weights` are what `xp` takes: arrays, or Parameters."""
    parameters = {
        **weights,
        "mlp": [(weights["mlp_weight"], weights["mlp_bias"])],
        "forget_bias": 1.0,
    }
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

print(
    f"loss by our engine {float(loss.data):.15f}, by NumPy {loss_of(np, weights):.15f}"
)
print(f"{'':<12}{'entries':>8}{'against autograd':>20}{'against the complex step':>28}")
for name, weight in weights.items():
    v = rng.normal(size=weight.shape)
    slope = loss_of(np, {**weights, name: weight + 1e-30j * v}).imag / 1e-30
    witness = abs(ours[name] - theirs[name]).max() / abs(theirs[name]).max()
    print(
        f"{name:<12}{weight.size:>8}{witness:>20.0e}{abs((ours[name] * v).sum() / slope - 1):>28.0e}"
    )

# %% [markdown]
# Three ways to a derivative that have nothing in common but the equations, and they
# agree to the last digits. The project's tests do the same with either kind of gate and
# with several rows of input.
#
# ## Catching a bug
#
# Now the mistake of the first page is planted in the real table: tanh gets the rule of
# the sigmoid. `gradcheck` runs the step, and says which argument is worst, what
# backward gave, what the complex step gave, and the seed that repeats it:


# %%
def one_step(x, memory, hidden):
    layers = {
        "mlp": [(parameters["mlp_weight"], parameters["mlp_bias"])],
        "forget_bias": 1.0,
    }
    return equations.step(primitives, x, (memory, hidden), {**parameters, **layers})


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
primitives.tanh.vjp(
    lambda xp, needs, g, y: g * (1 - y * y) * (1 + 1e-8)
)  # and one that differs in the eighth digit
judge(one_step)
primitives.tanh.rule = right_rule

# %% [markdown]
# Both times the worst is the bias of a gate. A gate is a sigmoid, which `equations.py`
# makes of tanh (chapter 7), so the wrong rule is found wherever it does harm, not only
# where tanh is written.
#
# Another common mistake needs no wrong rule: a memory that is cut off the tape between
# steps, so that the gradient does not reach what was written before. The outputs are
# exactly the same, but a part of the gradient is missing:


# %%
def cut(x, memory, hidden):
    _, (memory, hidden) = one_step(x, memory, hidden)
    return one_step(x, memory.detach(), hidden)  # a constant to the tape


judge(lambda *state: one_step(state[0], *one_step(*state)[1]))
judge(cut)

# %% [markdown]
# ## What a gradient check does not see
#
# It compares the derivative of what you wrote with the slope of what you wrote. Whether
# you wrote what you meant, it does not know. Attention without the root (chapter 4) is
# a different function, and has a perfectly good gradient:


# %%
def attention_without_root(queries, keys, values):
    return primitives.softmax(queries @ primitives.swapaxes(keys, -1, -2)) @ values


print(
    f"relative error {gradcheck(attention_without_root, *rng.normal(size=(3, 4, 6))):.0e}, and yet not equation 1"
)

# %% [markdown]
# For that, one needs other witnesses: values worked out by hand, properties that must
# hold, a second implementation. They come with the chapters.
#
# It also looks at one point only, and asks for a slope there. The ReLU, $\max(x, 0)$,
# has the slope 0 on one side of 0 and 1 on the other, and at the kink itself there is
# none: every witness says something else, and no one is wrong. Check on both sides, and
# stay away from kinks.


# %%
def relu(x):
    return primitives.maximum(x, 0.0)


for x in (-1.0, 0.0, 1.0):
    with Tape() as tape:
        watched = tape.watch(np.array(x))
        y = relu(watched)
    ours = tape.gradient(y, watched)
    steps = [
        (relu(x + 1e-5).data - relu(x - 1e-5).data) / 2e-5,
        relu(np.array(x + 1e-30j)).data.imag / 1e-30,
    ]
    print(
        f"at {x:>2.0f}: our rule {ours:.1f}, central difference {steps[0]:.1f}, complex step {steps[1]:.1f}"
    )

# %% [markdown]
# And it calls the function more than once. *Dropout*, which sets random entries to 0
# while a network learns, is another function at each call if it draws anew, and then
# nothing can agree. Seeded, so that each call draws the same, it is a function like any
# other:


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
course.show(gradcheck)

# %% [markdown]
# - The first lines sort out what can move: float64 arrays and Parameters. Integers and
#   masks are passed on as they are. float32 is refused.
# - Then one run on a tape; `_scalar` weighs a result that is not a number, by the same
#   random weights every time.
# - `compare` moves everything that can move at once, by $ih$ along `directions`
#   (`_moved` does it to Parameters), and sets the slope beside the sum of gradient
#   times direction. The error is measured by the size of the terms, as in exercise 4.
# - If it is too large, each argument is moved alone, to name the worst.
#
# `checking.py` has one thing more. Run the complex step through the walk back itself,
# and the imaginary part of the gradient is the Hessian (the table of all second
# derivatives) times a vector: second derivatives, without a line of code for them.
#
# ## To take along
#
# - A wrong derivative looks like slow learning.
# - Differences have two errors that pull in opposite ways. The complex step has
#   neither, if every operation is analytic.
# - A random direction checks all entries with one call.
# - Use a witness that shares nothing with what it judges. And remember what it is
#   asked: is this the derivative of that function, not whether that is the right
#   function.
#
# **Further.** Where in the picture of the two errors would the best $h$ be if $f$ were
# a million times steeper? A softmax subtracts its largest entry first; why does this
# step leave the gradient as it is, though it is not differentiable where two entries
# tie? A random point meets the kink of a ReLU next to never; what data would meet it
# often?
