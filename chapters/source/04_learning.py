# %% [markdown]
# # 4. Learning: what to do with a gradient
#
# **No equation of the paper, but how all of its numbers came about.** About 55 minutes.
# You need the tape (chapter 2). In this chapter $g$ is a gradient, $w$ the weights, and
# $v$ first a velocity, then Adam's mean of squares.
#
# The tape gives you a gradient, and chapter 3 made sure that it is right. A gradient
# points uphill. So you step the other way, again and again, and a network learns. That
# is nearly all there is to it. The rest decides whether you wait a minute or an hour,
# and whether what the network has learnt is worth anything. You write that rest here: a
# loss, three rules for a step, and a safety belt. From then on, every network of the
# course learns in this way.
#
# ## A task, and its floor
#
# Four points lie in a square. Which of the first three is nearest to the fourth? A
# network gets the eight coordinates as one row of numbers. This is a small sister of
# the paper's "nth farthest": the answer depends on how things are related, not on what
# they are.

# %%
import itertools
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Parameter, Tape, course, equations, gradcheck, optim
from tinyrmc import primitives as p
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import learning as ex

course.setup()


def draw(rng, count):
    """Points (count, 8), and which of the first three is nearest to the last."""
    points = rng.uniform(-1, 1, (count, 4, 2))
    distances = np.linalg.norm(points[:, :3] - points[:, 3:], axis=-1)  # (count, 3)
    return points.reshape(count, 8), distances.argmin(axis=1)


held_out = draw(np.random.default_rng(2026), course.fast(5000, 500))
inputs, targets = held_out
points = inputs.reshape(-1, 4, 2)

# %% tags=["hide-input"] alt="Three squares with three numbered points and one question point each; a line leads from the question to the nearest of the three"
# Draws three questions
figure, panels = plt.subplots(1, 3, figsize=(9, 3))
for panel, example, nearest in zip(panels, points, targets, strict=False):
    panel.plot(*example[[3, nearest]].T, color="0.7", zorder=0)
    panel.scatter(*example[:3].T, s=170, color="C0")
    panel.scatter(*example[3], s=170, color="C1")
    for k, point in enumerate([*"012", "?"]):
        panel.annotate(point, example[k], color="white", ha="center", va="center")
    panel.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
    panel.set(xticks=[], yticks=[], title=f"answer: {nearest}")
plt.show()

# %% [markdown]
# Before you train anything, find out how far you get without solving the task. Such a
# number is a *floor*. A guess is right one time in three. There is a better one: the
# point nearest to the *middle* of the square is often the nearest to the question, too.
#
# **Write down first:** how often is that second guess right?

# %%
middle = np.linalg.norm(points[:, :3], axis=-1).argmin(axis=1)
print(f"the point nearest to the middle: {np.mean(middle == targets):.1%}")

# %% [markdown]
# So a network that is right in 45 % of the cases has learnt something. But it need not
# have begun to compare points. Without the floor you would not know.
#
# ## A loss: the cross-entropy
#
# Right or wrong has no slope: a small change of a weight mostly changes no answer at
# all. So the network gives each answer a number $z_j$, as large or small as it likes.
# These numbers are called *logits*. A softmax (chapter 2) turns them into shares
# $p = \text{softmax}(z)$, which sum to 1. The loss is small where the right answer $y$
# has a large share:
#
# $$\ell = -\ln p_y = \ln \sum_j e^{z_j} - z_y$$
#
# It is called the *cross-entropy*. A confident right answer costs next to nothing. A
# guess among three costs $\ln 3 = 1.10$. A confident wrong answer has no upper limit.
#
# Now its gradient. The first term is a logarithm of a sum, so its derivative with
# respect to $z_j$ is $e^{z_j}$ divided by that sum. That is $p_j$ again. The second
# term adds $-1$ at the right answer. So
#
# $$\frac{\partial \ell}{\partial z_j} = p_j - y_j$$
#
# where $y$ is now one-hot: $y_j$ is 1 for the right answer and 0 for all others. What
# the network thought likely, minus what came: this difference is all that an example
# has to teach.
#
# **Exercise 1.** The vjp of the cross-entropy. There is a loss for each row of logits,
# and `g` has one number for each loss. Logits may be large: $e^{1000}$ is more than a
# computer can hold. (`ex.softmax` takes care of that.)


# %%
def cross_entropy_vjp(g, logits, targets):
    """g (R,), logits (R, C), targets (R,) integers -> gradient of the logits (R, C)."""
    ...


ex.cross_entropy_vjp.check(cross_entropy_vjp)
my_vjp = ex.cross_entropy_vjp.yours(cross_entropy_vjp)

# %% [markdown]
# `yours` hands back your function if it is right, and the solution if it is not, and
# says which. The cells below run on what it hands back. Here that function becomes an
# operation of the engine, as at the end of chapter 2, and the complex step of chapter 3
# judges it. (`indices=(1,)` says that argument 1 holds whole numbers. They have no
# gradient, so the second rule returns `None` for them.)


# %%
@engine.primitive(indices=(1,))
def cross_entropy(xp, logits, targets):
    """-ln softmax(logits)[target], a number for each row"""
    z = logits - xp.max(logits, axis=1, keepdims=True)
    rows = xp.arange(len(targets))
    losses = xp.log(xp.sum(xp.exp(z), axis=1)) - z[rows, targets]
    return losses, (logits, targets)


@cross_entropy.vjp
def _(xp, needs, g, logits, targets):
    return my_vjp(g, logits, targets), None


z = np.random.default_rng(1).normal(size=(5, 3))
gradcheck(lambda z: p.mean(cross_entropy(z, targets[:5])), z)
print("the gradient is right to the last digits")

# %% [markdown]
# The network is an MLP with two hidden layers of 64 units. Three times it multiplies by
# a matrix and adds a bias. After the first two times a ReLU, $\max(x, 0)$, gives the
# hidden units. (Chapter 7 looks inside one.) Its weights are a list of arrays. `slopes`
# gives the mean loss of some examples, and the gradient of each array:

# %%
WIDTHS = (8, 64, 64, 3)


def fresh(seed=0, scale=1.0):
    """Weights and biases of a new network."""
    rng, weights = np.random.default_rng(seed), []
    for width, next_width in itertools.pairwise(WIDTHS):
        size = width, next_width
        weights += [scale * rng.normal(size=size) / math.sqrt(width)]
        weights += [np.zeros(next_width)]
    return weights


def network(xp, inputs, weights):
    """inputs (B, 8) -> logits (B, 3)."""
    return equations.mlp(
        xp, inputs, list(zip(weights[::2], weights[1::2], strict=True))
    )


def slopes(weights, inputs, targets):
    with Tape() as tape:
        watched = [tape.watch(w) for w in weights]
        loss = p.mean(cross_entropy(network(p, inputs, watched), targets))
    return float(loss.data), tape.gradient(loss, watched)


def accuracy(weights, inputs, targets):
    return np.mean(network(np, inputs, weights).argmax(axis=1) == targets)


loss, gradients = slopes(fresh(), *held_out)
print(f"fresh weights: loss {loss:.2f}, right {accuracy(fresh(), *held_out):.1%}")
print("gradients:", *(g.shape for g in gradients))

# %% [markdown]
# ## Gradient descent, and a velocity
#
# The rule of chapter 2 was $w \leftarrow w - \eta \, g$. The number $\eta$ is the
# *learning rate*. Two dimensions show best what it does. Here is a valley that is
# twenty times as steep across as it is along: $\ell = (w_1^2 + 20 \, w_2^2) / 2$.
#
# In such a valley no rate is good. With a rate above $2/20$, a step across the valley
# lands higher on the other side than it started. With a rate below that, the way along
# the valley is long. A rule with a *velocity* helps, like a ball that rolls. It keeps a
# share $\mu$ of its velocity, the *momentum*, and the gradient adds to it:
#
# $$v \leftarrow \mu v + g \qquad\qquad w \leftarrow w - \eta \, v$$
#
# Where gradients keep their direction, the velocity builds up to $g / (1 - \mu)$, ten
# times the gradient for $\mu = 0.9$. Where they change their sign at every step, they
# partly cancel.
#
# **Exercise 2.** This step. With $\mu = 0$ it is plain gradient descent. Return the new
# arrays, and leave those that you were given as they are.


# %%
def sgd(w, g, v, rate, momentum):
    """w, g and v of one shape -> (new w, new v)."""
    ...


ex.sgd.check(sgd)
my_sgd = ex.sgd.yours(sgd)

# %% [markdown]
# ## Adam: a scale for each weight
#
# Look at the valley again. If you could stretch the paper, the valley would be round,
# and the gradient would point straight at the bottom. Adam (Kingma and Ba, 2015)
# stretches each direction by itself. It keeps two running means for each weight, one of
# the gradient and one of its square:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1) \, g \qquad\qquad
# v \leftarrow \beta_2 v + (1 - \beta_2) \, g^2$$
#
# $\sqrt{v}$ is how large this weight's gradient usually is. Divide $m$ by it, and what
# is left is about 1 in size where the gradients agree, and less where they do not. So a
# step is about as long as the rate, whatever the units of the loss.
#
# Both means begin at 0, so at first they are too small. If all gradients were equal to
# $g$, then after $t$ steps $m$ would be only $(1 - \beta_1^t) \, g$. Divide that factor
# out:
#
# $$\hat m = \frac{m}{1 - \beta_1^t} \qquad \hat v = \frac{v}{1 - \beta_2^t} \qquad
# w \leftarrow w - \eta \, \frac{\hat m}{\sqrt{\hat v} + \epsilon}$$
#
# $\epsilon = 10^{-8}$ is there for weights that have had no gradient yet. The usual
# settings are $\beta_1 = 0.9$ and $\beta_2 = 0.999$.
#
# **Exercise 3.** Step number $t$ of Adam. The first has $t = 1$. Return $m$ and $v$ as
# they are, not corrected: the next step will correct them itself.


# %%
def adam_step(w, g, m, v, t, rate, beta1, beta2):
    """w, g, m and v of one shape, t = 1, 2, ... -> (new w, new m, new v)."""
    ...


ex.adam_step.check(adam_step)
my_adam_step = ex.adam_step.yours(adam_step)

# %% [markdown]
# Now send five runs down the valley, thirty steps each from the same place. A cross
# marks the bottom. **Write down first:** which of the five do not come near the cross,
# and why?


# %%
def momentum_rule(momentum):
    """A rule (name, w, g, t, rate) -> new w, which keeps a velocity for each name."""
    velocities = {}

    def rule(name, w, g, t, rate):
        v = velocities.get(name, np.zeros_like(w))
        w, velocities[name] = my_sgd(w, g, v, rate, momentum)
        return w

    return rule


def adam_rule(beta1=0.9, beta2=0.999):
    means = {}

    def rule(name, w, g, t, rate):
        m, v = means.get(name, (np.zeros_like(w), np.zeros_like(w)))
        w, m, v = my_adam_step(w, g, m, v, t, rate, beta1, beta2)
        means[name] = m, v
        return w

    return rule


STEEPNESS = np.array([1.0, 20.0])
runs = {
    "rate 0.02": (momentum_rule(0.0), 0.02),
    "rate 0.09": (momentum_rule(0.0), 0.09),
    "rate 0.102": (momentum_rule(0.0), 0.102),
    "rate 0.02, momentum 0.9": (momentum_rule(0.9), 0.02),
    "Adam, rate 0.3": (adam_rule(), 0.3),
}
paths = {}
for name, (rule, rate) in runs.items():
    w = np.array([-4.0, 0.8])
    paths[name] = [w]
    for t in range(1, 31):
        w = rule("w", w, STEEPNESS * w, t, rate)
        paths[name].append(w)

# %% tags=["hide-input"] alt="Five paths in a long valley. With the small rate it creeps and stops half way; with 0.09 it jumps from side to side and gets close; with 0.102 the jumps grow; with momentum it swings from side to side, runs past the cross and turns back; Adam does so in a wider and calmer swing"
# Draws the paths
figure, panels = plt.subplots(1, 5, figsize=(10, 2.6), sharey=True)
across, along = np.meshgrid(np.linspace(-5, 3, 80), np.linspace(-2, 2, 80))
for panel, (name, path) in zip(panels, paths.items(), strict=True):
    height = (across**2 + 20 * along**2) / 2
    panel.contour(across, along, np.sqrt(height), levels=9, colors="0.85", zorder=0)
    panel.plot(*np.transpose(path), ".-", ms=3, lw=0.6)
    panel.plot(0, 0, "+", color="C1", ms=12, mew=2)
    panel.set_title(name, fontsize=9)
    panel.set(xlim=(-5, 3), ylim=(-2, 2), xticks=[], yticks=[])
plt.show()

# %% [markdown]
# The first is too slow, and the third climbs out: its rate is larger than $2/20$. There
# is no warning at that edge. 0.09 works, 0.102 does not. The last two run past the
# cross, as a ball does, and after thirty steps they are on their way back: Adam's $m$
# is a velocity, too.
#
# ## Batches
#
# What is the gradient of the task? The mean over all questions that anybody might ask.
# You cannot have it, but you can draw some questions and take their mean. Such a draw
# is a *batch*, and its gradient is an estimate. Chance moves it about.
#
# **Write down first:** how many times as many examples does it take to halve the
# effect of chance?

# %%
weights, rng = fresh(), np.random.default_rng(5)


def whole(gradients):
    """All gradients in one long row."""
    return np.concatenate([g.ravel() for g in gradients])


true = whole(slopes(weights, *draw(rng, course.fast(100_000, 5000)))[1])
sizes, chance = 2 ** np.arange(0, 13, 2), []
for size in sizes:
    estimates = [whole(slopes(weights, *draw(rng, size))[1]) for _ in range(20)]
    away = [np.linalg.norm(g - true) for g in estimates]
    chance.append(np.mean(away) / np.linalg.norm(true))

# %% tags=["hide-input"] alt="The distance between a batch's gradient and the true one, as a share of the true one's length, against the batch size, on logarithmic axes: it falls along a straight line, a factor of two for four times the examples"
# Draws the error of the gradient against the batch size
figure, panel = plt.subplots(figsize=(6, 3))
panel.loglog(sizes, chance, "o-", label="measured")
panel.loglog(sizes, chance[0] / np.sqrt(sizes), ":", label=r"falls like $1/\sqrt{B}$")
panel.axhline(1, color="0.7", lw=0.8)
panel.set(xlabel="batch size B", ylabel="error / true gradient")
panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
panel.legend()
plt.show()

# %% [markdown]
# Four times as many. Above the grey line, chance is larger than the gradient itself.
# Yet a batch of 64 teaches well: many rough steps take you further than one exact step,
# and over many steps chance averages out. A velocity does just that, and so does Adam's
# running mean $m$. (Gradient descent on batches is called *stochastic*: SGD.)
#
# Now the task. `train` draws a new batch of 64 in every step. We try all three rules,
# each with a whole row of rates. **Write down first:** which rule forgives the most
# wrong rates?


# %%
def batches(size=64, seed=1):
    """The batch of each step, always the same ones."""
    return lambda step: draw(np.random.default_rng([seed, step]), size)


def train(weights, rule, rate, steps, batch_of, limit=None, start=0):
    """Returns the loss at each step and the weights at the end. `rate` is a number, or
    rate(step).
    """
    losses = []
    for step in range(start, start + steps):
        loss, gradients = slopes(weights, *batch_of(step))
        if limit is not None:
            gradients = my_clip(gradients, limit)
        now = rate(step) if callable(rate) else rate
        arrays = enumerate(zip(weights, gradients, strict=True))
        weights = [rule(name, w, g, step + 1, now) for name, (w, g) in arrays]
        losses.append(loss)
    return losses, weights


STEPS = course.fast(400, 20)
rules = {
    "plain": (lambda: momentum_rule(0.0), np.geomspace(1e-3, 3, 8)),
    "momentum 0.9": (lambda: momentum_rule(0.9), np.geomspace(1e-3, 1, 7)),
    "Adam": (adam_rule, np.geomspace(1e-4, 0.3, 8)),
}
right = {}
for name, (make, rates) in rules.items():
    for rate in rates:
        _, weights = train(fresh(), make(), rate, STEPS, batches())
        right[name, rate] = accuracy(weights, *held_out)
    best = max(rates, key=lambda rate, name=name: right[name, rate])
    print(f"{name:13} best rate {best:.1g}: {right[name, best]:.1%}")

# %% tags=["hide-input"] alt="Accuracy after 400 steps against the learning rate, logarithmic, for plain gradient descent, momentum and Adam: each has a hill; outside of it accuracies fall, at the largest rates of momentum and Adam to the floor of one third"
# Draws the accuracy against the rate
figure, panel = plt.subplots(figsize=(7, 3.4))
for name, (_, rates) in rules.items():
    panel.semilogx(rates, [right[name, rate] for rate in rates], "o-", label=name)
for floor, name in ((1 / 3, "guessing"), (np.mean(middle == targets), "the middle")):
    panel.axhline(floor, color="0.6", lw=0.8, ls="--")
    panel.text(1.01, floor, name, transform=panel.get_yaxis_transform(), va="center")
panel.set(xlabel="learning rate", ylabel="right answers", ylim=(0.25, 1))
panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# Each rule has a hill of good rates, and each hill stands elsewhere: a rate means
# nothing without its rule. Adam forgives the most: with rates from 0.001 to 0.1 more
# than 85 % of its answers are right, with plain descent only at two neighbouring rates,
# 0.1 and 0.3. Of all settings the rate is the one to try first. The upper dashed line
# is the guess by the middle of the square. Plain descent with a rate of 0.01 has got
# just there: the network has found the easy part, and no more. You will meet such a
# plateau again in chapter 10.
#
# ## Where to begin
#
# `fresh` draws weights and divides them by the root of the width, $\sqrt{n}$. Why? A
# sum of $n$ independent numbers of typical size 1 has the typical size $\sqrt{n}$.
# Without the division each layer would make its input $\sqrt{n}$ times as large. So
# give the weights the size $s / \sqrt{n}$. What is the best $s$? A deep network shows
# it. **Write down first:** what is left of a signal after ten layers with $s = 1$ if a
# ReLU ($\max(x, 0)$) follows each of them?

# %%
signal = np.random.default_rng(3).normal(size=(200, 64))
for scale in (0.5, 1.0, math.sqrt(2), 2.0):
    rng, x = np.random.default_rng(7), signal
    sizes = []
    for _ in range(10):
        x = np.maximum(x @ (scale * rng.normal(size=(64, 64)) / math.sqrt(64)), 0)
        sizes.append(np.sqrt(np.mean(x * x)))
    print(f"s = {scale:.2f}: size after layers 1, 5 and 10:", end="")
    print(*(f"{sizes[k]:10.3g}" for k in (0, 4, 9)))

# %% [markdown]
# A ReLU throws half away, so $s = \sqrt 2$ keeps the size on average (He and others,
# 2015), and $s = 1$ suits layers without one. Where signals vanish on the way forward,
# gradients vanish on the way back, and where signals explode, gradients do so, too.
# Layer norm (chapter 7) and gates (chapter 8) make networks less touchy here.
#
# And $s = 0$, all weights zero? Then all units of a layer are equal, get equal
# gradients and stay equal: the layer is one unit, many times. The same will happen to
# the slots of a memory in chapter 9. Our network is shallow, so it does not mind a
# small $s$:

# %%
for scale in (0.0, 0.1, 1.0, 10.0):
    losses, weights = train(fresh(0, scale), adam_rule(), 3e-3, STEPS, batches())
    print(f"s = {scale:4.1f}: first loss {losses[0]:6.2f}", end=", ")
    print(f"right after {STEPS} steps {accuracy(weights, *held_out):.1%}")

# %% [markdown]
# Look at the first loss. A fresh network should guess: its loss should be near $\ln 3
# = 1.10$. At $s = 10$ it begins confident and wrong, and spends its time on
# unlearning. The first loss is the cheapest test there is.
#
# ## A safety belt: clipping
#
# A network that reads step by step uses the same weights at every step. Take the
# smallest such network: it begins with the number 1, multiplies it by $w$ twenty times,
# and should end at $\frac12$. Its loss is $\frac12 (w^{20} - \frac12)^2$. Well below
# $w = 1$ this loss is flat, and just above 1 stands a wall. A single step at the wall
# throws $w$ far away.
#
# *Clipping* bounds the step and keeps its direction: if the gradient is longer than a
# limit, shrink it to the limit. The length that counts is that of all arrays together.
# If you shrank each array by itself, the gradient would point in another direction
# afterwards.
#
# **Exercise 4.** Clip a list of gradients.


# %%
def clip(gradients, limit):
    """A list of arrays -> a list of arrays, together no longer than the limit."""
    ...


ex.clip.check(clip)
my_clip = ex.clip.yours(clip)

# %% [markdown]
# Now climb down from the wall. Start at $w = 1.1$ with a rate of 0.01, once without a
# limit and once with a limit of 1. **Write down first:** where is $w$ after one step
# without a limit?


# %%
def wall(w):
    """The loss, and its derivative."""
    error = w**20 - 0.5
    return error**2 / 2, error * 20 * w**19


for limit in (math.inf, 1.0):
    w, walked = np.array(1.1), []
    for _ in range(40):
        _, g = wall(w)
        if math.isfinite(limit):
            (g,) = my_clip([g], limit)
        w, _ = my_sgd(w, g, np.zeros(()), 0.01, 0.0)
        walked.append(float(w))
        if abs(w) > 2:
            break
    ways = ", ".join(f"{each:.3f}" for each in walked[:3])
    steps = "1 step" if len(walked) == 1 else f"{len(walked)} steps"
    print(f"limit {limit:3}: w = {ways} ... after {steps} {walked[-1]:.3f}")
print(f"the goal: {0.5 ** (1 / 20):.3f}")

# %% [markdown]
# ## Warm-up and decay
#
# The rate need not stay the same. At the end, chance keeps the weights moving around
# the bottom, and the larger the rate, the more they move. So let the rate fall at the
# end: *decay*. At the beginning, Adam knows little of the usual size of a gradient, and
# the fresh weights do not fit together yet. So let the rate grow from 0 over the first
# steps: *warm-up*. `optim.schedule` makes such a rate:

# %%
LONG = course.fast(2000, 40)
rates = {
    "constant": optim.schedule(1e-2, LONG),
    "decay": optim.schedule(1e-2, LONG, decay=0.5),
    "warm-up and decay": optim.schedule(1e-2, LONG, warmup=LONG // 20, decay=0.5),
}

# %% [markdown]
# **Write down first:** what does decay do to the last losses? And warm-up?

# %%
curves = {}
for name, rate in rates.items():
    curves[name], weights = train(fresh(), adam_rule(), rate, LONG, batches())
    first, last = max(curves[name][:50]), np.mean(curves[name][-100:])
    print(f"{name:18} loss at first {first:.2f} at most, ", end="")
    print(f"in the end {last:.3f}, right {accuracy(weights, *held_out):.1%}")

# %% tags=["hide-input"] alt="Left: three rates against steps: constant, falling in the second half, and rising at first and falling in the second half. Right: the loss with each of them; without decay it stays noisy, with decay it falls further and becomes calm"
# Draws the rates and the losses
figure, (left, panel) = plt.subplots(1, 2, figsize=(9.5, 3.2))
for number, (name, rate) in enumerate(rates.items()):
    look = {"color": f"C{number}", "lw": 1.2}
    wide = {**look, "lw": 4 - 1.4 * number}  # where two rates are equal, you see both
    left.plot([rate(step) for step in range(LONG)], label=name, **wide)
    parts = np.array_split(curves[name], 40)
    middles = (np.arange(40) + 0.5) * LONG / 40
    panel.semilogy(middles, [part.mean() for part in parts], **look)
left.set(xlabel="step", title="rate")
left.legend()
panel.set(xlabel="step", title="loss, means of 40 parts")
plt.show()

# %% [markdown]
# Only the choice of the rate itself helped more here than decay did. Warm-up changes
# little in so small a network. In today's large networks, training often fails without
# it.
#
# ## Held-out examples
#
# So far every batch was new. What if you have only 200 examples? Then the same ones
# come again and again. The only honest test uses examples that training never sees:
# they are *held out*. (We chose rates by our held-out examples above. So they are not
# quite unseen any more. Where it matters, you hold out two sets: one to choose with,
# one to report.) **Write down first:** how many of its 200 examples will the network
# get right in the end, and how many of the others?

# %%
few = draw(np.random.default_rng(6), 200)


def from_the_few(step):
    chosen = np.random.default_rng([2, step]).integers(200, size=64)
    return few[0][chosen], few[1][chosen]


EVERY = course.fast(50, 2)
kept = {"200 examples": [], "new ones": []}
for name, source in (("200 examples", from_the_few), ("new ones", batches())):
    weights, rule = fresh(), adam_rule()
    for start in EVERY * np.arange(20):
        _, weights = train(weights, rule, 1e-3, EVERY, source, start=start)
        seen = accuracy(weights, *few)
        kept[name].append((seen, accuracy(weights, *held_out)))
print(
    "trained on 200 examples: of these {:.1%}, held out {:.1%}".format(
        *kept["200 examples"][-1]
    )
)
print("trained on new ones:     held out {:.1%}".format(kept["new ones"][-1][1]))

# %% tags=["hide-input"] alt="Accuracy against steps: on the 200 examples it is trained on the network reaches 100 percent; held out it stays below 80; a network that sees new examples at each step reaches over 90 held out"
# Draws the accuracies against the steps
figure, panel = plt.subplots(figsize=(6.5, 3.2))
steps = np.arange(1, 21) * EVERY
seen, unseen = np.transpose(kept["200 examples"])
panel.plot(steps, seen, label="200 examples: on these")
panel.plot(steps, unseen, label="200 examples: held out")
panel.plot(steps, np.transpose(kept["new ones"])[1], label="new examples: held out")
floor = np.mean(middle == targets)
panel.axhline(floor, color="0.6", lw=0.8, ls="--")
panel.text(1000, floor + 0.01, "the middle", ha="right", color="0.4")
panel.set(xlabel="steps", ylabel="right answers", ylim=(0.2, 1.02))
panel.legend(loc="lower right")
plt.show()

# %% [markdown]
# The network has learnt its 200 by heart, and its loss on them says nothing any more.
# Wherever a chapter gives a number for a trained network, it comes from held-out
# examples. Our tasks can draw as many examples as they like, so nothing is learnt by
# heart there; for texts (chapter 13) you will need this again.
#
# ## In the package
#
# `optim.py` applies the same rules to all parameters at once, in one long array. Here
# its rules run beside yours, on the same gradients:

# %%
w0, gradients = np.array([1.0, -2.0, 3.0]), np.random.default_rng(0).normal(size=(9, 3))
for name, optimizer, rule in (
    ("momentum", lambda w: optim.SGD([w], 0.1, momentum=0.9), momentum_rule(0.9)),
    ("Adam", lambda w: optim.Adam([w], 0.1), adam_rule()),
):
    parameter, w = Parameter(w0.copy()), w0
    package = optimizer(parameter)
    for t, g in enumerate(gradients, 1):
        package.zero_grad()
        parameter.grad += g
        package.step(max_norm=1.0)
        (g,) = my_clip([g], 1.0)
        w = rule("w", w, g, t, 0.1)
    print(f"{name:9} largest difference {abs(w - parameter.data).max():.0e}")

# %%
course.show(optim.SGD._update, optim.schedule)

# %% [markdown]
# From here on a training loop reads like this: record the loss on a tape, `zero_grad`,
# `tape.backward(loss)`, `step(max_norm=1.0)`. The loss is
# `fused.softmax_cross_entropy`, and its derivative is your exercise 1. And
# `course.fast(2000, 40)`, which you see in many cells, is 2000. It is 40 only in a
# quick trial of whether a chapter runs at all.
#
# ## Takeaways
#
# - Find the floor first: how far do you get without solving the task?
# - The first loss should be that of a guess. Then try rates, a factor of three apart.
# - The gradient of the cross-entropy is $p - y$.
# - Momentum adds up what gradients agree on. Adam gives each weight its own scale.
# - Clip the gradient as a whole. Let the rate fall at the end.
# - Measure with examples that were held out.
#
# **Further.** Adam's first step has length $\eta$ for every weight with a gradient,
# however small. Why? Add `1e-3 * w` to each gradient: what does that do to weights that
# the task does not need, under plain descent and under Adam? The best rate of plain
# descent is larger than that of momentum 0.9. Which formula above says so, and by how
# much should they differ?

# %% tags=["hide-cell"]
# Answer 1: at t = 1 the corrected means are g and g^2, so the step is g / |g| times the
# rate: only the sign is left. (Where g is about as small as epsilon it is less.)
for g in (1e-9, 1e-6, 1e-3, 1.0, 1e6):
    w, _, _ = my_adam_step(0.0, g, 0.0, 0.0, 1, 0.01, 0.9, 0.999)
    print(f"gradient {g:.0e}: step {w:+.6f}")

# %% tags=["hide-cell"]
# Answer 2: under plain descent such a weight loses the same small share at each step.
# Adam looks at the direction only: it begins with whole steps of the rate, 0.01, and
# after 200 of them the weight is nearly gone. (So AdamW shrinks weights outside Adam.)
for name, rule in (("plain", momentum_rule(0.0)), ("Adam", adam_rule())):
    w, walked = np.array(1.0), []
    for t in range(1, 201):
        w = rule("w", w, 1e-3 * w, t, 0.01)
        walked.append(float(w))
    print(
        f"{name:5} after 50, 100, 200 steps:",
        *(f"{walked[t]:.4f}" for t in (49, 99, 199)),
    )

# %% tags=["hide-cell"]
# Answer 3: where gradients keep their direction, the velocity builds up to g / (1 -
# mu), which is ten times g, so a tenth of the rate should do. We found about a third:
# in this task gradients do not keep their direction for long (and our grid is coarse).
velocity = 0.0
for _ in range(100):
    _, velocity = my_sgd(0.0, 1.0, velocity, 0.1, 0.9)
print(f"velocity after 100 gradients of 1: {velocity:.2f}")
for name in ("plain", "momentum 0.9"):
    tried = {rate: found for (rule, rate), found in right.items() if rule == name}
    print(f"{name}: best rate {max(tried, key=tried.get):.2g}")
