# %% [markdown]
# # 5. Learning: what to do with a gradient
#
# **No equation of the paper, but how all of its numbers came about.** About 245 minutes
# (80 on the core road), in four sittings. You need chapter 3 (the engine). In this
# chapter $g$ is a gradient, $w$ the weights, and $v$ a velocity; Adam has letters of
# its own, $m$ for a mean of gradients and $v$ for one of their squares.
#
# A gradient points uphill. So you step the other way, again and again, and a network
# learns. The rest decides whether you wait a minute or an hour, and whether what it has
# learnt is worth anything. You write it all here, and it runs on your tape.
#
# ## A task, and its baselines
#
# Four points lie in a square. Which of the first three is nearest to the fourth? A
# network gets the eight coordinates as one row of numbers.

# %%
import itertools
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Parameter, course, optim
from tinyrmc.course.exercises import learning as ex

course.setup()
LittleTape = course.little_tape()


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
# A guess is right one time in three. There is a better one: the point nearest to the
# *middle* of the square is often the nearest to the question, too. **Write down
# first:** how often?

# %% tags=["hide-output"]
middle = np.linalg.norm(points[:, :3], axis=-1).argmin(axis=1)
print(f"the point nearest to the middle: {np.mean(middle == targets):.1%}")

# %% [markdown]
# So a network that is right in 45 % of the cases need not have begun to compare points.
# (Nor need it follow the rule of the middle: an extra section below has one that does
# not.)
#
# ## A loss: the cross-entropy
#
# Right or wrong has no slope. So the network gives each answer a number $z_j$, a
# *logit*, as large or small as it likes. A softmax turns them into shares
# $p_j = e^{z_j} / \sum_k e^{z_k}$, and the loss is small where the right answer $y$ has
# a large share:
#
# $$\ell = -\ln p_y = \ln \sum_j e^{z_j} - z_y$$
#
# It is called the *cross-entropy*. A guess among three costs $\ln 3 = 1.10$. The loss
# of a confident wrong answer has no upper limit.
#
# **Exercise 1.** Derive $\partial \ell / \partial z_j$, first for $j \ne y$, then for
# $j = y$. Then write the vjp: there is a loss for each row of logits, and `g` has one
# number for each loss. Logits may be large, and $e^{1000}$ is more than a computer can
# hold; `ex.softmax`, over the last axis, takes care of that.


# %%
def cross_entropy_vjp(g, logits, targets):
    """g (R,), logits (R, C), targets (R,) integers -> gradient of the logits (R, C)."""
    ...


ex.cross_entropy_vjp.check(cross_entropy_vjp)
cross_entropy_vjp = ex.cross_entropy_vjp.yours(cross_entropy_vjp)

# %% [markdown]
# The tape takes it as a new entry, by `record`:


# %%
def cross_entropy(z, targets):
    """-ln softmax(z)[target] of each row: a Node (R, C) -> a Node (R,)."""
    x = z.data - z.data.max(axis=1, keepdims=True)
    losses = np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(targets)), targets]

    def vjp(g):
        return (cross_entropy_vjp(g, z.data, targets),)

    return z.tape.record(losses, (z,), vjp)


# %% [markdown]
# ## A network, and the loop
#
# **Exercise 2.** A network of any depth, on the tape. Each layer multiplies by a matrix
# and adds a bias, and a ReLU, `x.relu()`, follows each but the last.


# %%
def logits(weights, x):
    """weights [W1, b1, W2, b2, ...] and x (B, D) Nodes -> a Node (B, C)."""
    ...


ex.logits.check(logits)
logits = ex.logits.yours(logits)

# %% [markdown]
# `slopes` gives the mean loss of some examples, and the gradient of each array:

# %%
WIDTHS = (8, 64, 64, 3)  # two layers of 64 hidden units


def fresh(seed=0, scale=1.0):
    """Weights and biases of a new network."""
    rng, weights = np.random.default_rng(seed), []
    for width, next_width in itertools.pairwise(WIDTHS):
        size = width, next_width
        weights += [scale * rng.normal(size=size) / math.sqrt(width)]
        weights += [np.zeros(next_width)]
    return weights


def slopes(weights, inputs, targets):
    tape = LittleTape()
    nodes = [tape.watch(w) for w in weights]
    losses = cross_entropy(logits(nodes, tape.watch(inputs)), targets)
    loss = losses.mean()
    return float(loss.data), tape.gradient(loss, nodes)


def accuracy(weights, inputs, targets):
    tape = LittleTape()
    z = logits([tape.watch(w) for w in weights], tape.watch(inputs))
    return np.mean(z.data.argmax(axis=1) == targets)


# %% [markdown]
# **Exercise 3.** The training loop. In each step it takes the batch of that step, finds
# loss and gradients, and asks a *rule* for the new arrays. A rule gets the array's
# number, the array and its gradient; the number lets it keep something for each array.


# %%
def train(weights, slopes, rule, batch_of, steps):
    """slopes(weights, inputs, targets) -> loss, gradients; rule(k, w, g) -> the new
    array number k; batch_of(step) -> inputs, targets, for step = 0, 1, ...
    -> the loss of each step, the weights at the end (a list).
    """
    ...


ex.train.check(train)
train = ex.train.yours(train)

# %% [markdown]
# Let it learn. The rule is $w \leftarrow w - \eta \, g$, where $\eta$ is the *learning
# rate*, and each step gets a *batch* of 64 new examples.

# %%
STEPS = course.fast(400, 20)


def batches(size=64, seed=1):
    """The batch of each step, always the same ones."""
    return lambda step: draw(np.random.default_rng([seed, step]), size)


losses, weights = train(fresh(), slopes, lambda k, w, g: w - 0.1 * g, batches(), STEPS)
print(f"loss at first {losses[0]:.2f}, in the end {np.mean(losses[-20:]):.2f}")
print(f"right: fresh {accuracy(fresh(), *held_out):.1%}, ", end="")
print(f"trained {accuracy(weights, *held_out):.1%}")

# %% tags=["hide-input"] alt="The loss of each of 400 steps, noisy, falls from above 1.1, past the line of a guess, to about 0.4"
# Draws the loss
figure, panel = plt.subplots(figsize=(7, 2.8))
panel.plot(losses, lw=0.8)
panel.axhline(math.log(3), color="0.6", lw=0.8, ls="--")
panel.text(STEPS, math.log(3), " a guess, ln 3", va="center", color="0.4")
panel.set(xlabel="step", ylabel="loss", xlim=(0, STEPS), ylim=(0, None))
plt.show()

# %% [markdown]
# From three starts, 87 % (85 to 90) are right, where the point nearest to the middle is
# right in 47 %. Does it compare points, then? Let a rule know of the question only its
# quadrant, and take the point nearest to the quadrant's middle, $(\pm 0.5, \pm 0.5)$:
# it is right in 79.2 %. (The point that is the nearest in most places of the quadrant
# is hardly better: 79.4 %.) The network gets further, so it uses the question's place
# more finely than by quadrants. A rule that knows one sign of the question, left or
# right, and takes the point nearest to $(\pm 0.5, 0)$, is right in 63 %. (No question
# comes twice: its points are drawn anew.) Here are two hundred of them, for later:

# %%
few = draw(np.random.default_rng(6), 200)

# %% [markdown]
# **This is a good place to stop.**
#
# ## A velocity
#
# *Extra: momentum, an average of gradients.*
#
# Two dimensions show best what a rate does. Here is a valley, twenty times as steep
# across as along: $\ell = (w_1^2 + 20 \, w_2^2) / 2$. One rate must do for both. Above
# $2/20$, a step across lands higher on the other side than it started. Well below, the
# way along is long.
#
# A rule with a *velocity* can help, with a rate and a momentum that suit the valley. It
# keeps a share $\mu$ of its velocity $v$, the *momentum*, adds the whole gradient to
# it, and steps against the new $v$, $\eta$ times as far. Where gradients keep their
# direction, $v$ builds up. (To what? Sum the series.) Where they change their sign at
# every step, they nearly cancel.
#
# **Exercise 4.** This step. Return new arrays, and leave those that you were given.


# %%
def sgd(w, g, v, rate, momentum):
    """w, g and v of one shape -> (new w, new v)."""
    ...


ex.sgd.check(sgd)
sgd = ex.sgd.yours(sgd)

# %% [markdown]
# ## Adam: a scale for each weight
#
# *Extra: the optimizer of nearly all later chapters, derived.*

# %% tags=["hide-input"] alt="Left: the valley as it is, narrow ellipses; an arrow against the gradient points across the valley, not at the bottom. Right: the same valley with the sheet stretched across: round, and the arrow points at the bottom"
# Draws the valley as it is, and stretched
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4))
angle = np.linspace(0, 2 * np.pi, 200)
for panel, stretch, name in (
    (panels[0], 1.0, "the valley"),
    (panels[1], math.sqrt(20), "the sheet stretched"),
):
    steep = math.sqrt(20) / stretch
    for radius in (1, 2, 3, 4, 5):
        ring = radius * np.cos(angle), radius * np.sin(angle) / steep
        panel.plot(*ring, color="0.8", lw=1)
    w = np.array([-3.5, 0.6 * stretch])
    downhill = -np.array([1.0, steep**2]) * w
    tip = w + 1.6 * downhill / np.linalg.norm(downhill)
    arrow = {"arrowstyle": "-|>", "color": "C0", "lw": 2}
    panel.annotate("", tip, w, arrowprops=arrow)
    panel.plot(*w, "o", color="C0")
    panel.plot(0, 0, "+", color="C1", ms=14, mew=2.5)
    panel.set(xlim=(-5.2, 5.2), ylim=(-3.3, 3.3), aspect="equal", title=name)
    panel.set(xticks=[], yticks=[])
plt.show()

# %% [markdown]
# Stretch the sheet, and the valley is round: now the gradient points straight at the
# bottom. That takes knowing how steep each direction is. Adam (Kingma and Ba, 2015)
# scales each direction by itself, too, but not in quite this way: by how large the
# *gradient* is there. So its steps are about equally long in both directions, wherever
# the bottom lies. It keeps two
# running means for each weight: $m$ of the gradient, and $v$ of its square. A running
# mean keeps a share $\beta$ of what it was and takes $1 - \beta$ of the new. $\sqrt{v}$
# is how large this weight's gradient usually is; divide $m$ by it, and a step is about
# as long as the rate, whatever the units of the loss.
#
# Both means begin at 0, so at first they are too small. By what factor? Suppose that
# all gradients were equal to $g$, and find $m$ after $t$ steps. Call the means without
# that factor $\hat m$ and $\hat v$. Then
#
# $$w \leftarrow w - \eta \, \frac{\hat m}{\sqrt{\hat v} + \epsilon}$$
#
# $\epsilon = 10^{-8}$ is there for weights that have had no gradient yet. The usual
# settings are $\beta_1 = 0.9$ for $m$ and $\beta_2 = 0.999$ for $v$.
#
# **Exercise 5.** Step number $t$ of Adam. The first has $t = 1$. Return $m$ and $v$
# with the factor in them: the next step corrects them itself.


# %%
def adam_step(w, g, m, v, t, rate, beta1, beta2):
    """w, g, m and v of one shape, t = 1, 2, ... -> (new w, new m, new v)."""
    ...


ex.adam_step.check(adam_step)
adam_step = ex.adam_step.yours(adam_step)

# %% [markdown]
# Two rules for `train`, which keep what a step needs for each array:


# %%
def now(rate, t):
    return rate(t) if callable(rate) else rate


def momentum_rule(rate, momentum):
    kept = {}

    def rule(k, w, g):
        t, v = kept.get(k, (0, np.zeros_like(w)))
        w, v = sgd(w, g, v, now(rate, t), momentum)
        kept[k] = t + 1, v
        return w

    return rule


def adam_rule(rate):
    kept = {}

    def rule(k, w, g):
        t, m, v = kept.get(k, (0, np.zeros_like(w), np.zeros_like(w)))
        w, m, v = adam_step(w, g, m, v, t + 1, now(rate, t), 0.9, 0.999)
        kept[k] = t + 1, m, v
        return w

    return rule


# %% [markdown]
# Send six runs down the valley, thirty steps each. **Write down first:** which of them
# do not come near the bottom, and which gets lowest?

# %%
STEEPNESS = np.array([1.0, 20.0])
runs = {
    "rate 0.02": momentum_rule(0.02, 0.0),
    "rate 0.09": momentum_rule(0.09, 0.0),
    "rate 0.102": momentum_rule(0.102, 0.0),
    "rate 0.02, momentum 0.9": momentum_rule(0.02, 0.9),
    "rate 0.133, momentum 0.4": momentum_rule(0.133, 0.4),
    "Adam, rate 0.3": adam_rule(0.3),
}
paths = {}
for name, rule in runs.items():
    w = np.array([-4.0, 0.8])
    paths[name] = [w]
    for _ in range(30):
        w = rule(0, w, STEEPNESS * w)
        paths[name].append(w)

# %% tags=["hide-input", "hide-output"] alt="Six paths in a long valley, and their losses. With the small rate it creeps and stops half way; with 0.09 it jumps from side to side and gets close; with 0.102 the jumps grow; with momentum 0.9 it swings, runs past the cross and turns back; with momentum 0.4 and a larger rate it jumps and soon arrives; Adam swings calmly. In the wide panel the losses against steps: that of momentum 0.4 falls by far the fastest, that of 0.102 rises in the end"
# Draws the paths, and the losses along them
layout = [[0, 1, 2, 3], ["losses", "losses", 4, 5]]
figure, panels = plt.subplot_mosaic(layout, figsize=(10, 4.2))
last, places = panels.pop("losses"), panels.values()
along, across = np.meshgrid(np.linspace(-5, 3, 160), np.linspace(-2, 2, 80))
height = np.sqrt(along**2 + 20 * across**2)
for k, (panel, (name, path)) in enumerate(zip(places, paths.items(), strict=True)):
    panel.contour(along, across, height, levels=[1, 2, 3, 4, 5, 7], colors="0.88")
    panel.plot(*np.transpose(path), ".-", ms=4, lw=0.8, color=f"C{k}")
    panel.plot(0, 0, "+", color="black", ms=12, mew=2)
    panel.set_title(name, fontsize=10)
    panel.set(xlim=(-5, 3), ylim=(-2, 2), xticks=[], yticks=[], aspect="equal")
    losses = np.sum(STEEPNESS * np.square(path), axis=1) / 2
    last.semilogy(losses, color=f"C{k}", lw=1.2)
    print(f"{name:24} loss in the end {losses[-1]:.1e}")
last.set_title("loss against steps", fontsize=10)
plt.show()

# %% [markdown]
# The first is too slow, and the third climbs out: its rate is larger than $2/20$. 0.09
# is the best of the plain ones here, and 0.102, just above $2/20 = 0.1$, fails. What
# warns you is that 0.09 jumps from side to side. With the rate 0.02 a momentum of 0.9
# helps: 0.29 in the end, and 2.4 without. But plain descent with 0.09 ends at 0.03, so
# a better rate helps more. With 0.133 and 0.4 the velocity is far ahead of both. (This
# pair belongs to this valley. Polyak, 1964, has the formula: it needs to know how steep
# both directions are, here 1 and 20.) The run with momentum 0.9 and that of Adam go
# past the cross and turn back: Adam's $m$ is a velocity, too. With this one rate Adam
# ends at 0.23, behind plain descent with 0.09: its steps are not those on the round
# sheet.
#
# **This is a good place to stop.**
#
# ## Which rate?
#
# *Extra: three rules, each with a row of rates.*
#
# Each batch gives an estimate of the gradient that all questions together would give.
# Over many steps the chance in it averages out. (So gradient descent on batches is
# called *stochastic*: SGD.)
#
# Now three rules, each with a row of rates. **Write down first:** which rule works over
# the widest range of rates?

# %% tags=["hide-output"]
rules = {
    "plain": (lambda rate: momentum_rule(rate, 0.0), np.geomspace(1e-3, 3, 8)),
    "momentum 0.9": (lambda rate: momentum_rule(rate, 0.9), np.geomspace(1e-3, 1, 7)),
    "Adam": (adam_rule, np.geomspace(1e-4, 0.3, 8)),
}
right = {}
for name, (make, rates) in rules.items():
    for rate in rates:
        with np.errstate(all="ignore"):  # too large a rate overflows
            _, weights = train(fresh(), slopes, make(rate), batches(), STEPS)
            right[name, rate] = accuracy(weights, *held_out)
    best = max(rates, key=lambda rate, name=name: right[name, rate])
    print(f"{name:13} best rate {best:.1g}: {right[name, best]:.1%}")

# %% tags=["hide-input", "hide-output"] alt="Accuracy after 400 steps against the learning rate, logarithmic, for plain gradient descent, momentum and Adam: each has a hill; outside of it accuracies fall, at the largest rates of momentum and Adam to the floor of one third"
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
# Each rule has a hill of good rates, and each hill stands elsewhere. Over what factor
# of rates is a rule within ten points of its best, in 400 steps, on rates a factor of
# three apart? From three starts:

# %% tags=["hide-output"]
course.measured(5, "forgiving")

# %% [markdown]
# Adam has the widest range here. The last line is plain descent with a rate of 0.01:
# it has got to 50 % (47 to 53), a little more than the middle gives. Does it follow
# that rule? **Write down first:** in how many cases would its answers be those of the
# middle, then?

# %% tags=["hide-output"]
course.measured(5, "another_rule")

# %% [markdown]
# It does not. Their answers agree as often as by chance, and it is right more often
# where the middle is *wrong*. Whether it has begun to compare points, 50 % do not tell:
# the rule of one sign does not compare them with the question, and has more. Equal
# shares do not mean equal answers.
#
# ## Find the line: the last one wins
#
# *Extra: a mistake that no error shows.*
#
# Somebody else tries rates, too. **The symptom:** the last rate always wins, whatever
# it is. Below, all three rates are the same.
#
# **Exercise 6.** Mend it.


# %%
def try_rates(start, slopes, rates, steps):
    """The loss after some steps of descent, for each rate, always from `start`."""
    found = []
    for rate in rates:
        weights = start
        for _ in range(steps):
            _, gradients = slopes(weights)
            for w, g in zip(weights, gradients, strict=True):
                w -= rate * g
        found.append(slopes(weights)[0])
    return found


ex.try_rates.check(try_rates)
found = try_rates(fresh(), lambda weights: slopes(weights, *few), [0.1, 0.1, 0.1], 50)
print("losses:", *(f"{loss:.3f}" for loss in found))

# %% [markdown]
# ## Where to begin
#
# *Extra: why first weights have the size that they have.*
#
# `fresh` divides by the root of the width, $\sqrt{n}$, because a sum of $n$ independent
# numbers of size 1 has the size $\sqrt{n}$. Give the weights the size $s / \sqrt{n}$.
# **Write down first:** what is left of a signal after ten layers with $s = 1$ if a ReLU
# follows each of them?

# %% tags=["hide-output"]
signal = np.random.default_rng(3).normal(size=(200, 64))
for scale in (0.5, 1.0, math.sqrt(2), 2.0):
    rng, x = np.random.default_rng(7), signal
    matrices = [scale * rng.normal(size=(64, 64)) / math.sqrt(64) for _ in range(10)]
    layers = [x := np.maximum(x @ W, 0) for W in matrices]
    g = np.random.default_rng(4).normal(size=x.shape)  # what comes back at the end
    for W, y in zip(matrices[::-1], layers[::-1], strict=True):
        g = (g * (y > 0)) @ W.T
    sizes = [np.sqrt(np.mean(y * y)) for y in (*layers[::4], layers[-1], g)]
    print(f"s = {scale:.2f}: size after layers 1, 5 and 10:", end="")
    print(*(f"{sizes[k]:8.2g}" for k in (0, 1, 3)), end=", ")
    print(f"gradient {sizes[-1]:.2g}")

# %% [markdown]
# A ReLU throws half away, so $s = \sqrt 2$ keeps the size on average over draws (He and
# others, 2015); in this one, 0.57 of it is left after ten layers. Where signals vanish
# or explode on the way forward, so do gradients on the way back (the numbers at the
# end). And $s = 0$? Then nothing but the last biases gets a gradient. And if all units
# of a layer are equal, but not 0, they get equal gradients and stay equal: the layer is
# one unit, many times.

# %%
for scale in (0.0, 0.1, 1.0, 10.0):
    losses, weights = train(fresh(0, scale), slopes, adam_rule(3e-3), batches(), STEPS)
    print(f"s = {scale:4.1f}: first loss {losses[0]:6.2f}", end=", ")
    print(f"right after {STEPS} steps {accuracy(weights, *held_out):.1%}")

# %% [markdown]
# A fresh network should guess: its first loss should be near $\ln 3$. At $s = 10$ it
# begins confident and wrong. Three starts, at this rate and at ten times it:

# %% tags=["hide-output"]
course.measured(5, "large_start")

# %% [markdown]
# With $s = 10$ fewer are right than with $s = 1$, at either rate. A small start does no
# harm here. Look at the first loss: no test is cheaper.
#
# ## A safety belt: clipping
#
# *Extra: what to do about a rare, huge gradient.*
#
# A network that reads step by step uses the same weights at every step. Take the
# smallest: it begins with 1, multiplies by $w$ twenty times, and should end at
# $\frac12$. Its loss, $\frac12 (w^{20} - \frac12)^2$, is nearly flat below $w = 0.8$
# and has its bottom at 0.966; above 1 stands a wall. A single step there throws $w$ far
# away.
#
# *Clipping* keeps the direction of a gradient: if it is longer than a limit, shrink it
# to the limit. The length that counts is that of all arrays together.
#
# **Exercise 7.** Clip a list of gradients.


# %%
def clip(gradients, limit):
    """A list of arrays -> a list of arrays, together no longer than the limit."""
    ...


ex.clip.check(clip)
clip = ex.clip.yours(clip)

# %% [markdown]
# Climb down from the wall, at $w = 1.1$ with a rate of 0.01. **Write down first:**
# where is $w$ after one step without a limit?


# %% tags=["hide-output"]
def wall(w):
    """The loss, and its derivative."""
    error = w**20 - 0.5
    return error**2 / 2, error * 20 * w**19


for limit in (math.inf, 1.0):
    w, walked = np.array(1.1), []
    for _ in range(40):
        _, g = wall(w)
        if math.isfinite(limit):
            (g,) = clip([g], limit)
        w, _ = sgd(w, g, np.zeros(()), 0.01, 0.0)
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
# *Extra: how the rate changes over a training.*
#
# At the end, chance keeps the weights moving around the bottom; so let the rate fall:
# *decay*. At the beginning, Adam knows little of the usual size of a gradient; so let
# the rate grow from 0: *warm-up*. **Write down first:** what does decay do to the last
# losses?

# %% tags=["hide-output"]
LONG = course.fast(2000, 40)
rates = {
    "constant": optim.schedule(1e-2, LONG),
    "decay": optim.schedule(1e-2, LONG, cosine_fraction=0.5),
    "warm-up and decay": optim.schedule(
        1e-2, LONG, warmup=LONG // 20, cosine_fraction=0.5
    ),
}
curves = {}
for name, rate in rates.items():
    curves[name], weights = train(fresh(), slopes, adam_rule(rate), batches(), LONG)
    curves[name] = np.array(curves[name])
    print(f"{name:18} loss in the end {curves[name][-100:].mean():.3f}, ", end="")
    print(f"right {accuracy(weights, *held_out):.1%}")

# %% tags=["hide-input", "hide-output"] alt="Left: three rates against steps: constant, falling in the second half, and rising at first and falling in the second half. Right: the loss with each of them; without decay it stays noisy, with decay it falls further and becomes calm"
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
# From three starts, the last losses are 0.127 (0.123 to 0.131) without decay and 0.055
# (0.052 to 0.056) with it; warm-up makes them 0.055 (0.051 to 0.058). At three times
# the rate they are 0.057 (0.055 to 0.060) with decay, and with warm-up 0.055 (0.054 to
# 0.057). So in this small network, decay helps at the first rate. Warm-up does little:
# at the first rate one loss of three is lower with it, at three times the rate all
# three are, by 0.001 to 0.004. (For Transformers, people use it nearly always; nothing
# here shows why.)
#
# **This is a good place to stop.**
#
# ## Held-out examples
#
# *Extra: how to see that examples were learnt by heart.*
#
# With only 200 examples, the same ones come again and again, and the only honest test
# uses examples that training never sees: they are *held out*. (We chose rates by ours.
# Where it matters, you hold out two sets: one to choose with, one to report.) **Write
# down first:** how many of its 200 examples will the network get right in the end, and
# how many of the others?


# %% tags=["hide-output"]
def from_the_few(step):
    chosen = np.random.default_rng([2, step]).integers(200, size=64)
    return few[0][chosen], few[1][chosen]


EVERY = course.fast(50, 2)


def learns_from(source, seed=0):
    """Twenty times on the way: right of the 200, and of the held-out ones."""
    weights, rule, found = fresh(seed), adam_rule(1e-3), []
    for start in EVERY * np.arange(20):
        _, weights = train(
            weights, slopes, rule, lambda step, start=start: source(start + step), EVERY
        )
        found.append((accuracy(weights, *few), accuracy(weights, *held_out)))
    return found


kept = {
    "200 examples": learns_from(from_the_few),
    "new ones": learns_from(batches()),
}
seen, unseen = kept["200 examples"][-1]
print(f"trained on 200 examples: of these {seen:.1%}, held out {unseen:.1%}")
print(f"trained on new ones:     held out {kept['new ones'][-1][1]:.1%}")

# %% tags=["hide-input", "hide-output"] alt="Accuracy against steps: on the 200 examples it is trained on the network reaches 100 percent; held out it stays below 80; a network that sees new examples at each step reaches over 90 held out"
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
# From three starts, 100 % of the 200 are right in the end, and 75 % (73 to 76) of the
# others; after training on new ones, 95 %. So it has learnt much of its 200 by heart.
# In all chapters, shares of right answers are of examples that were not trained on
# before, unless the text says otherwise.
#
# ## A task of your own
#
# *Extra: an experiment, from your own data to your own picture.*
#
# Now build the whole, from the data to the picture. You choose a task with a few
# numbers and two answers or more, which you can compute: one that a network could learn
# from examples. You draw the examples, train on some, test on others, and conclude.
#
# What makes the result worth anything is what the check looks at. No example that you
# test on was trained on. The answer is not among the inputs. (The check sees this only
# where one of the numbers tells the answer outright; the rest is your word.) The
# *floor* is known: the share that you would get by always giving the most frequent
# answer. And the distance to it supports the conclusion: a share $p$ of $n$ examples
# has the *standard error* $\sqrt{p (1 - p) / n}$. Four standard errors above the floor
# are hardly chance. With less than two you cannot tell. Between two and four people
# judge differently, and the check takes either answer. (Not "does not learn": that
# takes more than one rate and one seed.)
#
# **Exercise 8.** Build it in one function that returns a dict:
#
# | key | what stands there |
# |---|---|
# | `draw` | draw(rng, count) -> inputs (count, D), targets (count,), integers from 0 |
# | `trained` | inputs and targets of all examples that it was trained on |
# | `tested` | those of 200 or more held-out examples |
# | `predict` | a function: inputs -> an answer for each |
# | `right`, `floor` | shares of the held-out examples |
# | `losses` | the loss of each step |
# | `conclusion` | "learns" or "cannot tell" |
#
# Into `panel` it draws the losses, and with `panel.axhline` what a guess costs. Name
# the axes. All is there: `slopes`, `train`, `adam_rule`, and `logits` for the answers.
# (`fresh` has eight inputs and three answers; write one for your own sizes.) Three
# seeds are tried, so keep a training to some seconds.


# %%
def my_task(seed, panel):
    """Draws into panel -> a dict with the keys above."""
    ...


ex.my_task.check(my_task)
my_task = ex.my_task.yours(my_task)

# %% tags=["hide-output"] alt="The loss of a task of your own against the steps of its training, with a level for what a guess costs: it begins near that level and falls far below it"
figure, panel = plt.subplots(figsize=(6, 3))
found = my_task(0, panel)
plt.show()
print(f"right {found['right']:.1%}, floor {found['floor']:.1%}: {found['conclusion']}")

# %% [markdown]
# ## In the package
#
# *Extra: the same in the library.*
#
# `optim.py` applies the same rules to all parameters at once, in one long array. Here
# they run beside yours, on the same gradients:

# %%
w0, gradients = np.array([1.0, -2.0, 3.0]), np.random.default_rng(0).normal(size=(9, 3))
for name, optimizer, rule in (
    ("momentum", lambda w: optim.SGD([w], 0.1, momentum=0.9), momentum_rule(0.1, 0.9)),
    ("Adam", lambda w: optim.Adam([w], 0.1), adam_rule(0.1)),
):
    parameter, w = Parameter(w0.copy()), w0
    package = optimizer(parameter)
    for g in gradients:
        package.zero_grad()
        parameter.grad += g
        package.step(max_norm=1.0)
        w = rule(0, w, *clip([g], 1.0))
    print(f"{name:9} largest difference {abs(w - parameter.data).max():.0e}")

# %%
course.show(optim.SGD._update, optim.schedule)

# %% [markdown]
# With the package a training loop reads like this: record the loss on a tape,
# `zero_grad`, `tape.backward(loss)`, `step(max_norm=1.0)`. The loss is
# `fused.softmax_cross_entropy`; its derivative is your exercise 1.
#
# ## Takeaways
#
# - Find the baselines first. A rule that knows a little may be nearer than you think.
# - The gradient of the cross-entropy is what the network thought likely, minus what
#   came.
# - From the extra sections: Momentum adds up what gradients agree on. Adam gives each
#   weight its own scale.
# - From these, too: The first loss should be that of a guess. Try rates, a factor of
#   three apart. Clip the gradient as a whole. Let the rate fall at the end. Measure
#   held out.
#
# **Further.** (All three need the extra sections.) Adam's first step has length $\eta$
# for every weight with a gradient, however small. Why? Add `1e-3 * w` to each gradient:
# what does that do to weights that the task does not need, under plain descent and
# under Adam? By how much should the best rates of plain descent and of momentum 0.9
# differ?

# %% tags=["hide-cell"]
# Answer 1
# At t = 1 the corrected means are g and g^2, so the step is g / |g| times the rate:
# only the sign is left. (Where g is about as small as epsilon it is less.)
for g in (1e-9, 1e-6, 1e-3, 1.0, 1e6):
    w, _, _ = adam_step(0.0, g, 0.0, 0.0, 1, 0.01, 0.9, 0.999)
    print(f"gradient {g:.0e}: step {w:+.6f}")

# %% tags=["hide-cell"]
# Answer 2
# Under plain descent such a weight loses the same small share at each step. Adam looks
# at the direction only: it begins with whole steps of the rate, 0.01, and after 200 of
# them the weight is nearly gone. (So AdamW shrinks weights outside Adam.)
for name, rule in (("plain", momentum_rule(0.01, 0.0)), ("Adam", adam_rule(0.01))):
    w, walked = np.array(1.0), []
    for _ in range(200):
        w = rule(0, w, 1e-3 * w)
        walked.append(float(w))
    after = [f"{walked[t]:.4f}" for t in (49, 99, 199)]
    print(f"{name:5} after 50, 100, 200 steps:", *after)

# %% tags=["hide-cell"]
# Answer 3
# Where gradients keep their direction, the velocity builds up to g / (1 - mu), which is
# ten times g, so a tenth of the rate should do. In this one run it is about a third.
# (In this task gradients may not keep their direction for long. And our grid is
# coarse.)
velocity = 0.0
for _ in range(100):
    _, velocity = sgd(0.0, 1.0, velocity, 0.1, 0.9)
print(f"velocity after 100 gradients of 1: {velocity:.2f}")
for name in ("plain", "momentum 0.9"):
    tried = {rate: found for (rule, rate), found in right.items() if rule == name}
    print(f"{name}: best rate {max(tried, key=tried.get):.2g}")
