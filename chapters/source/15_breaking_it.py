# %% [markdown]
# # 15. Breaking it: six bugs that run
#
# **All equations, each a little wrong.** About 150 minutes. You need chapters 5 to 9.
#
# Every bug in this chapter is a line that is easy to write and looks right. None of
# them raises an error. All arrays have the right shapes, the loss falls, and if you
# look at the curve alone you may think that the task is hard.
#
# So here you break the core on purpose, each time in four moves: what stands in the
# code; a *symptom* that you can measure in a second, on a fresh network; what the bug
# costs; and how to mend it. Four of the six cost something in training on a small task.
# Two cost nothing there, and we look for a place where they do. That is a result, too:
# a falling loss is no test. Before each part on what a bug costs, write down what you
# expect: much, little or nothing?
#
# We break the package's own `RelationalMemory`, one part at a time.

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import (
    Parameter,
    RelationalMemory,
    Tape,
    course,
    equations,
    fused,
    nn,
    optim,
)
from tinyrmc import primitives as p
from tinyrmc.course.exercises import breaking as ex

course.setup()
rng = np.random.default_rng(10)

# %% [markdown]
# ## A task to break it on
#
# The task is *repeat*. Four symbols arrive, one at a time, each one of eight and each
# with its place. After the last one the network names all four, in their order. It must
# store them side by side, and keep the first one for three steps. We give it little
# room: four slots of eight units, and a linear layer that reads them. Guessing is right
# one time in eight.

# %%
SYMBOLS, PLACES = 8, 4
STEPS = course.fast(500, 20)


def sequences(rng, count=64):
    """Symbols (count, 4), and the inputs (count, 4, 8 + 4): the symbol and its place,
    both one-hot.
    """
    symbols = rng.integers(SYMBOLS, size=(count, PLACES))
    one_hot = np.eye(SYMBOLS, dtype=np.float32)[symbols]
    places = np.broadcast_to(np.eye(PLACES, dtype=np.float32), (count, PLACES, PLACES))
    return symbols, np.concatenate([one_hot, places], axis=-1)


def small_core(seed):
    sizes = {"mem_slots": 4, "head_size": 4, "num_heads": 2}
    return RelationalMemory(SYMBOLS + PLACES, **sizes, seed=seed)


def cross_entropy(logits, targets):
    return p.mean(fused.softmax_cross_entropy(logits, targets))


def handed_on(memory):
    return memory


def train(core, seed, begin=None, between=handed_on, loss_of=cross_entropy):
    """Train on fresh batches. Returns which of the four symbols were right at each step
    (STEPS, 4), and the losses (STEPS,).

    What you can break from outside: begin(batch_size), the first memory;
    between(memory), what happens to it from one time step to the next;
    loss_of(logits, targets).
    """
    rng, right, losses = np.random.default_rng(seed), [], []
    readout = nn.Linear(core.output_size, PLACES * SYMBOLS, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)
    for _ in range(STEPS):
        symbols, inputs = sequences(rng)
        with Tape() as tape:
            memory = (begin or core.initial_state)(len(symbols))
            for t in range(PLACES):
                output, memory = core(inputs[:, t], memory)
                memory = between(memory)
            logits = readout(output)  # (B, 4 * 8)
            logits = p.reshape(logits, (-1, SYMBOLS))  # a row for each symbol
            loss = loss_of(logits, symbols.ravel())
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        answers = logits.data.argmax(axis=1).reshape(symbols.shape)
        right.append((answers == symbols).mean(axis=0))
        losses.append(float(loss.data))
    return np.array(right), np.array(losses)


SEEDS = range(3)


def train_all(make=small_core, **broken):
    """Train a network made anew for each seed."""
    return [train(make(seed), seed, **broken) for seed in SEEDS]


runs = {"right": train_all()}


# %% [markdown]
# First comes the network as it should be, with three seeds. The left panel shows the
# share of right symbols, step by step; the right panel shows which symbols are right at
# the end. We measure five of the six bugs against these runs.


# %%
def smoothed(curve):
    """At each step the mean of the last twenty, or of as many as there are."""
    return [np.mean(curve[max(0, t - 20) : t]) for t in range(1, len(curve) + 1)]


def ends(name):
    """The share of right symbols at the end, for each seed and place (3, 4)."""
    last = course.fast(100, 5)
    return np.array([right[-last:].mean(axis=0) for right, _ in runs[name]])


def draw(*names):
    layout = {"sharey": True, "width_ratios": (3, 2)}
    _, (curves, places) = plt.subplots(1, 2, figsize=(9.5, 3.3), **layout)
    steps = range(1, STEPS + 1)
    for number, name in enumerate(names):
        colour = f"C{number}"
        for seed, (right, _) in enumerate(runs[name]):
            curve, label = smoothed(right.mean(axis=1)), name if seed == 0 else None
            curves.plot(steps, curve, color=colour, lw=1.2, label=label)
            at_places = ends(name)[seed]
            places.plot(range(1, 5), at_places, "o-", color=colour, ms=4, lw=1)
    for panel in (curves, places):
        panel.axhline(1 / SYMBOLS, color="0.5", ls=":", label="guessing")
    curves.set(xlabel="training steps", ylabel="symbols right", ylim=(0, 1.03))
    places.set(xlabel="place of the symbol", xticks=range(1, 5), title="at the end")
    curves.legend(loc="center right", bbox_to_anchor=(1, 0.35))


def report(*names):
    for name in names:
        shares = [f"{seed.mean():.0%}" for seed in ends(name)]
        print(f"{name:16} right at the end:", *shares)


# %% alt="Symbols right against training steps for three seeds of the network as it should be, and at the end by place: the first symbol is always right, the second nearly, the third and fourth in some seeds only two times in three"
report("right")
draw("right")
plt.show()

# %% [markdown]
# The first symbol is nearly always right, although the network has to keep it the
# longest. After five hundred steps it still misses the third or the fourth, depending
# on the seed. So the hard part to learn is not to keep a symbol. Perhaps it is to store
# one more symbol beside those that are already there; no experiment here tests that.
#
# ## 1. A memory of zeros
#
# **In the code.** The memory begins as `zeros(batch, slots, units)`, as an LSTM's state
# does.
#
# **The symptom.** All slots are equal, up to rounding, and stay equal (chapter 10 says
# why). Here is the memory after one sequence, in a fresh network that began with the
# identity, and in one that began with zeros:


# %% alt="Two memories as heat maps of four slots: begun with the identity all rows differ, begun with zeros all rows are the same"
def zeros(batch_size):
    return np.zeros((batch_size, 4, 8), np.float32)


_, inputs = sequences(rng, 1)
found = {}
for name, begin in (("identity", small_core(0).initial_state), ("zeros", zeros)):
    _, found[name] = small_core(0).unroll(inputs, begin(1))
figure, panels = plt.subplots(1, 2, figsize=(7, 2.2), sharey=True)
for panel, (name, memory) in zip(panels, found.items(), strict=True):
    panel.imshow(memory.data[0], cmap="RdBu", vmin=-2, vmax=2)
    panel.set(title=f"begun with {name}", xlabel="unit", yticks=range(4))
panels[0].set(ylabel="slot")
plt.show()
for name, memory in found.items():
    apart, size = np.ptp(memory.data[0], axis=0).max(), abs(memory.data).max()
    print(f"{name:9} largest difference between two slots, ", end="")
    print(f"as a share of the largest entry: {apart / size:.2g}")

# %% [markdown]
# **What it costs.** Four equal slots hold no more than one, so the network has a
# quarter of the room.

# %%
runs["zeros"] = train_all(begin=zeros)
report("right", "zeros")

# %% alt="Symbols right against training steps: the three seeds begun with zeros stay well below those of the right network, and each of them has a place or two that it hardly learns"
draw("right", "zeros")
plt.show()

# %% [markdown]
# The bug does not stop learning: a task that fits into one slot hides it. The bug shows
# where room is short, as here, or where slots must hold different things for a
# comparison.
#
# **Mended** by any first memory whose rows all differ: the identity, or one that you
# draw at random and then keep.
#
# ## 2. A memory that is cut off
#
# **In the code.** After each step the memory is copied into a plain array, or detached
# (taken off the tape), so that the tape does not grow. (Cutting between *pieces* of a
# long text is common practice. Cutting at every step is something else.)
#
# **The symptom.** The gradient of the loss with respect to every input but the last is
# exactly zero. So nothing ever tells the network that it should have stored something:
# the weights learn only from what the very last step did.
#
# **Exercise 1.** Write the instrument that finds this. You give it a step of any
# recurrent network and a sequence of inputs. It says how strongly each input acts on
# the last memory: take the gradient of the last memory's sum with respect to that
# input, and its norm. Here the instrument has the very bug in it, so it finds nothing
# anywhere but at the end. (`tape.watch` marks an input so that you can ask for its
# gradient. With `strict=False` you get zeros for inputs without influence.)


# %%
def broken_influence(step, inputs, memory):
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for x in xs:
            last = step(x, memory)
            memory = last.data
        loss = p.sum(last)
    gradients = tape.gradient(loss, xs, strict=False)
    return np.array([np.linalg.norm(gradient) for gradient in gradients])


def influence(step, inputs, memory):
    """step(x, memory) -> memory, on Tensors; inputs (T, F), memory (F,) -> (T,)."""
    ...


ex.influence.check(influence)

# %% [markdown]
# Now the mended instrument measures the core, with the memory handed on and with the
# memory cut off:

# %% alt="Bars for twelve inputs: with the memory handed on all have influence; cut off, only the last has any"
core, (_, inputs) = small_core(0), sequences(rng, 3)
inputs = inputs.reshape(12, -1)  # twelve steps
first = core.initial_state(1)


def step(x, memory):
    _, memory = core(p.expand_dims(x, axis=0), memory)
    return memory


def step_with_a_cut(x, memory):
    return step(x, p.stop_gradient(memory))


whole = ex.influence(step, inputs, first)
cut = ex.influence(step_with_a_cut, inputs, first)
figure, panel = plt.subplots(figsize=(7, 2.8))
steps = np.arange(1, 13)
panel.bar(steps - 0.2, whole, width=0.4, label="handed on")
panel.bar(steps + 0.2, cut, width=0.4, label="cut off after each step")
panel.set(xlabel="input", ylabel="influence on the last memory")
panel.set(xticks=steps, ylim=(0, 1.35 * whole.max()))
panel.legend(loc="upper center", ncols=2)
plt.show()
print("influence of the first eleven, cut off:", *cut[:-1])

# %% [markdown]
# **What it costs.** The same three seeds:

# %%
runs["cut off"] = train_all(between=p.stop_gradient)
report("right", "cut off")

# %% alt="Symbols right against training steps: cut off, far fewer are right; by place, the last symbol is right as often as in the right network, the earlier ones are not"
draw("right", "cut off")
plt.show()

# %% [markdown]
# Look at the places. The last symbol is right as often as in the right network; the
# earlier ones are not. But they are not lost altogether: even weights that never learnt
# to store something carry traces of the past, and the readout learns to read these
# traces. This is why such a bug survives: on an easy task the traces are enough.
#
# **Mended** by handing on the Tensor. The tape grows with the sequence: that is its
# job.
#
# ## 3. A softmax too many
#
# **In the code.** The network ends in a softmax, "to give probabilities". The loss
# function begins with a softmax of its own, and gets these probabilities as if they
# were logits. Nothing in their shape or type says that they are not.
#
# **The symptom.** Probabilities lie between 0 and 1, so the second softmax sees numbers
# that hardly differ. Even when a network is certain and right, its loss cannot go below
# a floor. With $C$ classes the floor is
#
# $$-\log \frac{e^1}{e^1 + (C - 1)\, e^0} = \log(e + C - 1) - 1$$
#
# The other end is worse. Below, the logit of the right class is larger than all others
# by some *margin*, and on the left of each panel that margin is negative: the network
# is certain that the right class is wrong. There, cross-entropy pulls with full force.
# With the second softmax the pull is gone: a saturated softmax passes no gradient on.


# %%
def double_softmax(logits, targets):
    return cross_entropy(p.softmax(logits), targets)


margins = np.linspace(-12, 12, 97)
measured = {}
for name, loss_of in (("one softmax", cross_entropy), ("two", double_softmax)):
    losses, pulls = [], []
    for margin in margins:
        logits = np.zeros((1, SYMBOLS))
        logits[0, 3] = margin
        with Tape() as tape:
            x = tape.watch(logits)
            loss = loss_of(x, np.array([3]))
        losses.append(float(loss.data))
        pulls.append(-tape.gradient(loss, x)[0, 3])
    measured[name] = losses, pulls
floor = np.log(np.e + SYMBOLS - 1) - 1
print(f"with {SYMBOLS} classes: guessing costs {np.log(SYMBOLS):.3f} either way,")
print(f"and two softmaxes never cost less than {floor:.3f}")

# %% tags=["hide-input"] alt="Loss and pull against the margin of the right class. One softmax: the loss falls to zero and the pull is one where the network is wrong. Two: the loss moves between two levels, and the pull is small and vanishes on both sides"
# Draws loss and pull for both
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2))
for name, (losses, pulls) in measured.items():
    panels[0].plot(margins, losses, label=name)
    panels[1].plot(margins, pulls, label=name)
panels[0].axhline(floor, color="0.5", ls=":", label="floor of two")
panels[0].set(title="loss", xlabel="margin of the right class", ylim=(0, 6))
panels[1].set(title="pull on the right class's logit")
panels[1].set(xlabel="margin of the right class")
panels[0].legend()
plt.show()

# %% [markdown]
# **Exercise 2.** Here is cross-entropy in NumPy, with the bug in it. Mend it. The check
# also tries logits of a thousand, so make sure that it does not overflow.


# %%
def broken_cross_entropy(logits, targets):
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    log_normaliser = np.log(np.exp(probabilities).sum(axis=-1))
    return np.mean(log_normaliser - probabilities[np.arange(len(targets)), targets])


def mended_cross_entropy(logits, targets):
    """logits (B, C), targets (B,) integers -> the mean loss, a number."""
    ...


ex.cross_entropy.check(mended_cross_entropy)

# %% [markdown]
# **What it costs.** The same three seeds:

# %%
runs["two softmaxes"] = train_all(loss_of=double_softmax)
report("right", "two softmaxes")
end = slice(-course.fast(100, 5), None)
last = [f"{losses[end].mean():.3f}" for _, losses in runs["two softmaxes"]]
print("losses at the end, with two softmaxes:", *last, f"(floor {floor:.3f})")

# %% alt="Symbols right against training steps: with two softmaxes learning is slower"
draw("right", "two softmaxes")
plt.show()

# %% [markdown]
# It learns, but more slowly. The loss gives the bug away: even with all symbols right
# it would be far from 0.
#
# **Mended** by giving the loss what it asks for, logits.
#
# ## 4. The root upside down
#
# **In the code.** `scores / d ** -0.5`: the minus sign and the division undo each
# other, so the scores are multiplied by $\sqrt{d_k}$ where they should be divided by
# it. (It is easy to get such a root wrong. At first the released code took the root of
# the width of query, key and value together. Pull request 105 of google-deepmind/sonnet
# mended it.)
#
# **The symptom.** The wider the keys, the more certain is the attention of a fresh
# network, and the more it jumps from one training step to the next. To break the core
# from outside, we multiply its queries. A factor of $d_k$ turns the division by the
# root into a multiplication; a factor of $\sqrt{d_k}$ cancels the division.


# %%
class LouderQueries(nn.Module):
    """The layer norm of queries, keys and values, which then multiplies all queries by
    a factor.
    """

    def __init__(self, core, factor):
        self.norm = core.blocks[0]["qkv_norm"]
        K, V = core.key_size, core.head_size
        columns = np.arange(2 * K + V)  # of each head: query, key, value
        is_query = np.tile(columns < K, core.num_heads)
        self.factors = np.where(is_query, factor, 1).astype(np.float32)

    def __call__(self, x):
        return self.norm(x) * self.factors


def comparing_core(key_size, power, seed):
    """A core for the task below whose scores are divided by key_size ** power."""
    sizes = {"mem_slots": 4, "head_size": 8, "num_heads": 2, "key_size": key_size}
    core = RelationalMemory(SYMBOLS, **sizes, seed=seed)
    core.blocks[0]["qkv_norm"] = LouderQueries(core, key_size ** (0.5 - power))
    return core


# %% [markdown]
# This bug calls for a task that needs attention. We take *compare*, from chapter 10:
# four symbols arrive; is the last the same as the first?


# %%
def compared(rng, count=64):
    """One-hot symbols (count, 4, 8), and whether the last is the first again, as it is
    for half of them.
    """
    symbols = rng.integers(SYMBOLS, size=(count, 4))
    symbols[: count // 2, 3] = symbols[: count // 2, 0]
    same = (symbols[:, 3] == symbols[:, 0]).astype(int)
    return np.eye(SYMBOLS, dtype=np.float32)[symbols], same


def answers(core, readout, inputs, trace=None):
    outputs, _ = core.unroll(inputs, core.initial_state(len(inputs)), trace)
    return readout(outputs[-1])


# %% [markdown]
# For each width of a key and each of three scalings we measure two things: the largest
# share of attention in a fresh network, and how much attention moves in the first step
# of training (half the sum of all the changes in a slot's shares, as a mean over slots
# and examples). The curves are means of three seeds.

# %%
widths = 2 ** np.arange(1, course.fast(8, 4))
powers = {"divided by the root": 0.5, "not scaled": 0.0, "multiplied by the root": -0.5}
inputs, same = compared(rng)


def first_step(key_size, power, seed):
    """The largest share before the first step of training, and the share it moves."""
    core = comparing_core(key_size, power, seed)
    readout = nn.Linear(core.output_size, 2, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)
    before, after = [], []
    with Tape() as tape:
        loss = cross_entropy(answers(core, readout, inputs, before), same)
    tape.backward(loss)
    adam.step(max_norm=1.0)
    answers(core, readout, inputs, after)
    one = np.array([step["attention"] for step in before])
    other = np.array([step["attention"] for step in after])
    return one.max(axis=-1).mean(), abs(other - one).sum(axis=-1).mean() / 2


found = {}
for name, power in powers.items():
    found[name] = []
    for width in widths:
        of_seeds = [first_step(int(width), power, seed) for seed in SEEDS]
        found[name].append(np.mean(of_seeds, axis=0))

# %% tags=["hide-input"] alt="Two panels against the width of a key. Divided by the root, the largest share stays level and one step moves little attention; not scaled or multiplied, the largest share climbs towards one and one step moves several times as much"
# Draws both measures against the width of a key
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.3))
for name, values in found.items():
    for panel, value in zip(panels, np.transpose(values), strict=True):
        panel.semilogx(widths, value, "o-", base=2, label=name)
panels[0].set(title="largest of five shares, fresh network", ylim=(0, 1.02))
panels[1].set(title="share that one training step moves", ylim=(0, None))
for panel in panels:
    panel.set_xlabel("width of a key, d_k")
panels[1].legend(loc="upper left")
plt.show()

# %% [markdown]
# A softmax of large scores is flat nearly everywhere, and steep where it changes its
# mind. So a fresh network looks at one row, picked by chance, and a small step of its
# weights makes it look at another.
#
# **Exercise 3.** Equation 2 with one head. This version has three bugs, and the root is
# one of them. Find the others by their symptoms before you read the code closely: print
# the weights and add them up; change `x`.


# %%
def broken_attend(M, x, W_q, W_k, W_v):
    Q, K, V = M @ W_q, M @ W_k, M @ W_v
    scores = Q @ K.T / K.shape[-1] ** -0.5
    weights = np.exp(scores - scores.max(axis=0))
    weights = weights / weights.sum(axis=0)
    return weights @ V


def attend(M, x, W_q, W_k, W_v):
    """M (N, F), x (F,), W_q and W_k (F, K), W_v (F, V) -> (N, V)."""
    ...


ex.attend.check(attend)


# %% [markdown]
# **What it costs.** We train *compare* with narrow keys and with wide ones, with the
# root the right way up and upside down, three seeds each.


# %%
def train_to_compare(core, seed):
    """The share of right answers at each step."""
    rng, right = np.random.default_rng(seed), []
    readout = nn.Linear(core.output_size, 2, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)
    for _ in range(course.fast(300, 10)):
        inputs, same = compared(rng)
        with Tape() as tape:
            logits = answers(core, readout, inputs)
            loss = cross_entropy(logits, same)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        right.append(np.mean(logits.data.argmax(axis=1) == same))
    return right


def train_both(key_size):
    curves = {}
    for name in ("divided by the root", "multiplied by the root"):
        cores = [comparing_core(key_size, powers[name], seed) for seed in SEEDS]
        curves[name] = [train_to_compare(cores[seed], seed) for seed in SEEDS]
    return curves


scaled = {8: train_both(8)}

# %%
scaled[64] = train_both(64)
for key_size, curves in scaled.items():
    for name, seeds in curves.items():
        shares = [f"{np.mean(curve[-50:]):.0%}" for curve in seeds]
        print(f"d_k = {key_size:2}, {name + ':':23} right at the end", *shares)

# %% tags=["hide-input"] alt="Right answers against training steps. With keys of width eight the network with the root upside down is a little behind; with width sixty-four, it stays far behind"
# Draws the curves for narrow and wide keys
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2), sharey=True)
for panel, (key_size, curves) in zip(panels, scaled.items(), strict=True):
    for number, (name, seeds) in enumerate(curves.items()):
        for seed, curve in enumerate(seeds):
            steps = range(1, len(curve) + 1)
            look = {"color": f"C{2 * number}", "lw": 1.2}
            label = name if seed == 0 else None
            panel.plot(steps, smoothed(curve), label=label, **look)
    panel.set(title=f"keys of width {key_size}")
    panel.set(xlabel="training steps", ylim=(0.3, 1.02))
panels[0].set(ylabel="right answers")
panels[0].legend(loc="lower right")
plt.show()

# %% [markdown]
# With narrow keys the wrong scale costs a few answers in a hundred here. With wide ones
# it costs far more. If you do not look for the symptom, you find such a bug only in the
# large experiment, after days.
#
# **Mended** by `scores / d ** 0.5`.
#
# ## 5. One norm for all slots
#
# **In the code.** Layer normalisation "over the last two axes": mean and variance of
# the whole memory, slots and units together, with a gain and an offset for each unit of
# each slot. This happens easily when a library's layer norm asks you which shape to
# normalise.


# %%
class JointNorm(nn.Module):
    """Normalises rows and units together: x (B, rows, size), with gains and offsets
    (rows, size).
    """

    def __init__(self, rows, size):
        self.gain = Parameter(np.ones((rows, size), np.float32))
        self.offset = Parameter(np.zeros((rows, size), np.float32))

    def __call__(self, x, residual=None):
        x = x if residual is None else x + residual
        d = x - p.mean(x, axis=(-2, -1), keepdims=True)
        variance = p.mean(d * d, axis=(-2, -1), keepdims=True)
        return d / p.sqrt(variance + 1e-5) * self.gain + self.offset


def jointly(core):
    block, N = core.blocks[0], core.mem_slots
    of_qkv = block["qkv_norm"].gain.size
    block["qkv_norm"] = JointNorm(N + 1, of_qkv)  # the slots and the input's row
    block["attention_norm"] = JointNorm(N, core.mem_size)
    block["mlp_norm"] = JointNorm(N, core.mem_size)
    return core


# %% [markdown]
# **The first symptom.** Slots influence each other without attention. To see it, cut
# attention: with a mask, every slot may look at itself and at the input, and at nothing
# else. Now nothing that one slot holds should reach another. We change slot $j$ and see
# how far slot $i$ moves:


# %% alt="Two heat maps, slot that moves against slot that was changed. Each row for itself: zeros beside the diagonal. Jointly: small numbers there, every slot moves whichever is changed"
def moved(core, inputs, memory):
    """How far slot i of the next memory moves when slot j of the one before changes:
    (N, N).
    """
    N = core.mem_slots
    alone = np.eye(N + 1, dtype=bool)
    alone[:, N] = True  # and the input
    _, before = core(inputs, memory, mask=alone)
    found = np.zeros((N, N))
    for j in range(N):
        changed, noise = memory.copy(), np.random.default_rng(j)
        changed[:, j] += noise.normal(size=core.mem_size).astype(np.float32)
        _, after = core(inputs, changed, mask=alone)
        found[:, j] = np.linalg.norm(after.data - before.data, axis=-1)[0]
    return found


memory = rng.normal(size=(1, 4, 8)).astype(np.float32)
symbols, inputs = sequences(rng, 1)
figure, panels = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
cores = {"each row for itself": small_core(0), "jointly": jointly(small_core(0))}
for panel, (name, core) in zip(panels, cores.items(), strict=True):
    distances = moved(core, inputs[:, 0], memory)
    panel.imshow(distances, cmap="Greys", vmin=0, vmax=2)
    for (i, j), distance in np.ndenumerate(distances):
        look = {"fontsize": 8, "color": "white" if distance > 1.2 else "black"}
        panel.text(j, i, f"{distance:.2g}", ha="center", va="center", **look)
    panel.set(title=name, xlabel="slot that was changed")
    panel.set(xticks=range(4), yticks=range(4))
panels[0].set(ylabel="slot that moves")
plt.show()

# %% [markdown]
# **The second symptom.** The number of parameters depends on the number of slots,
# against the paper's sentence ("we can modify the number of memories without affecting
# the number of parameters"). And you cannot give a trained network more slots:


# %%
def with_slots(N):
    return RelationalMemory(12, N, head_size=4, num_heads=2)


slots = (2, 4, 8, 16)
by_row = [with_slots(N).num_parameters for N in slots]
joint = [jointly(with_slots(N)).num_parameters for N in slots]
print("slots                 ", *(f"{N:7}" for N in slots))
print("each row for itself   ", *(f"{count:7,}" for count in by_row))
print("jointly               ", *(f"{count:7,}" for count in joint))

four, eight = jointly(with_slots(4)), jointly(with_slots(8))
weights = {name: parameter.data for name, parameter in four.named_parameters()}
try:
    eight.load_parameters(weights)
except ValueError as problem:
    print(problem)

# %% [markdown]
# **What it costs.** On this task, nothing that three seeds would show:

# %%
runs["joint norm"] = train_all(lambda seed: jointly(small_core(seed)))
report("right", "joint norm")

# %% [markdown]
# If anything, the joint norm does better here, perhaps because a gain for each slot is
# one more thing that tells slots apart. All slots are of about the same size in this
# training, so a common mean and a common variance suit them all. What if one of them is
# loud?
#
# Now the readout looks at the first three slots only, and we train both networks as
# before. Then, in the test alone, the fourth slot begins several times as large. The
# readout never sees it. What do you expect when it is ten times as large: how many
# symbols are right with a norm for each row, and how many with the joint norm?

# %%
LOUDNESS = (1, 3, 10, 30, 100)


def with_a_loud_slot(core, seed):
    """Train, with three slots for the readout. Then, for each loudness, the share of
    right symbols when the fourth begins that many times as large as in training.
    """
    rng = np.random.default_rng(seed)
    readout = nn.Linear(3 * core.mem_size, PLACES * SYMBOLS, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)

    def logits_of(inputs, loudness):
        factors = np.array([1, 1, 1, loudness], np.float32)[:, None]
        outputs, _ = core.unroll(inputs, core.initial_state(len(inputs)) * factors)
        read = outputs[-1][:, : 3 * core.mem_size]
        return p.reshape(readout(read), (-1, SYMBOLS))

    for _ in range(STEPS):
        symbols, inputs = sequences(rng)
        with Tape() as tape:
            loss = cross_entropy(logits_of(inputs, 1), symbols.ravel())
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
    symbols, inputs = sequences(rng, 1000)
    found = [logits_of(inputs, each).data.argmax(axis=1) for each in LOUDNESS]
    return [np.mean(answers == symbols.ravel()) for answers in found]


loud = {
    "each row for itself": [with_a_loud_slot(small_core(k), k) for k in SEEDS],
    "jointly": [with_a_loud_slot(jointly(small_core(k)), k) for k in SEEDS],
}
for name, seeds in loud.items():
    print(
        f"{name + ',':20} loudness 1: ", *(f"{curve[0]:.0%}" for curve in seeds), end=""
    )
    print("; loudness 10: ", *(f"{curve[2]:.0%}" for curve in seeds))

# %% tags=["hide-input"] alt="Symbols right against the size of the fourth slot, three seeds each: with the norm of each row they fall slowly, jointly they fall almost to guessing where the slot is ten times as large"
# Draws what a loud slot costs
figure, panel = plt.subplots(figsize=(6.5, 3))
for number, (name, seeds) in enumerate(loud.items()):
    for seed, curve in enumerate(seeds):
        label = name if seed == 0 else None
        panel.semilogx(LOUDNESS, curve, "o-", ms=4, color=f"C{number}", label=label)
panel.axhline(1 / SYMBOLS, color="0.5", ls=":", label="guessing")
panel.set(xlabel="size of the fourth slot at the start, as a multiple of training's")
panel.set(ylabel="symbols right", ylim=(0, 1.03), xticks=LOUDNESS)
panel.set_xticklabels(LOUDNESS)
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# There it is. Under a joint norm, one loud slot makes all the others small, and hardly
# a symbol survives that. The right network loses something as well, but its other slots
# can still be read.
#
# And even where the bug costs nothing, you do not run the network that you describe.
# Whatever you say about how its slots learn from each other through attention, you say
# about a different network.
#
# **Mended** by `axis=-1`.
#
# ## 6. An MLP that is one layer, several times
#
# **In the code.** `[layer] * layers`: in Python, a list times a number holds the *same*
# object several times. And the loop over the list puts a ReLU after each layer,
# including the last.
#
# **The symptom.** The number of parameters does not grow with the number of layers. The
# second symptom is in the signs. After a ReLU nothing is below zero, so the MLP can add
# to a unit but never take from it:


# %% alt="Histogram of what the MLP adds to a unit: with two layers values on both sides of zero, with one layer used twice none below zero and most of them zero"
def one_layer_twice(core):
    core.mlp = [core.mlp[0]] * 2  # the first layer, which has a ReLU
    return core


z = rng.normal(size=(2000, 8)).astype(np.float32)
figure, panel = plt.subplots(figsize=(6.5, 3))
cores = {"two layers": small_core(0), "one layer twice": one_layer_twice(small_core(0))}
for name, core in cores.items():
    added = core.mlp[1](core.mlp[0](z)).data
    panel.hist(added.ravel(), bins=np.linspace(-2, 2, 41), alpha=0.6, label=name)
    print(f"{name:16} {core.num_parameters:,} parameters, ", end="")
    print(f"{np.mean(added < 0):.0%} of what the MLP adds is negative")
panel.set(xlabel="what the MLP adds to a unit", ylabel="how often")
panel.legend()
plt.show()

# %% [markdown]
# **What it costs.** On *repeat*, again nothing that three seeds would show:

# %%
runs["one layer twice"] = train_all(lambda seed: one_layer_twice(small_core(seed)))
report("right", "one layer twice")

# %% [markdown]
# So *repeat* can do without a second layer. But one layer twice is a smaller family of
# functions. So ask both for something that an MLP of two layers can do: without the
# rest of the core around them, let them imitate a random MLP. How large an error will
# be left?


# %%
def imitate(layers, seed):
    """Train layers to be a certain MLP of two layers. Returns the mean squared error at
    each step, as a share of the MLP's own mean square.
    """
    rng, errors = np.random.default_rng(seed), []
    teacher = nn.MLP(8, [8, 8], seed=100 + seed)
    adam = optim.Adam(layers.parameters(), learning_rate=1e-2)
    for _ in range(course.fast(600, 20)):
        z = rng.normal(size=(128, 8)).astype(np.float32)
        wanted = teacher(z).data
        with Tape() as tape:
            y = layers(z)
            loss = p.mean(p.square(y - wanted)) / float(np.mean(wanted**2))
        adam.zero_grad()
        tape.backward(loss)
        adam.step()
        errors.append(float(loss.data))
    return errors


class Twice(nn.Module):
    """One layer with a ReLU, used twice."""

    def __init__(self, seed):
        self.layer = nn.Linear(8, 8, relu=True, seed=seed)

    def __call__(self, z):
        return self.layer(self.layer(z))


def two_layers(seed):
    return nn.MLP(8, [8, 8], seed=seed)


for name, make in {"two layers": two_layers, "one layer twice": Twice}.items():
    curves = [imitate(make(seed), seed) for seed in SEEDS]
    last = [f"{np.mean(curve[-20:]):.3f}" for curve in curves]
    print(f"{name:16} error at the end, as a share:", *last)

# %% [markdown]
# There the bug costs most of what there is to learn. It has two halves. Nobody ever
# means to share the layer. But a ReLU after the last layer can be a choice:
# `activate_final` turns it on, and the preset `quick` of nth farthest trains with it.
# It is a bug if nobody knows of it.
#
# **Exercise 4.** Here is $g_\psi$ with the three bugs of the last two sections. One of
# them is the ReLU after the *last* layer; a ReLU between two layers belongs there. Mend
# the function.


# %%
def broken_process(z, layers, gain, offset):
    y = z
    weight, bias = layers[0]
    for _ in layers:
        y = np.maximum(y @ weight + bias, 0)
    d = y + z - (y + z).mean()
    return gain * d / np.sqrt((d * d).mean() + 1e-5) + offset


def process(z, layers, gain, offset):
    """z (N, F), layers [(weight (F, F), bias (F,)), ...], gain and offset (F,)
    -> layer_norm(MLP(z) + z), (N, F).
    """
    ...


ex.process.check(process)

# %% [markdown]
# **Mended** by `[make_layer() for _ in range(layers)]`, and by a ReLU only where you
# mean one.
#
# ## All of them
#
# Here is how many symbols were right at the end. Each seed is a point:

# %% tags=["hide-input"] alt="Symbols right at the end for six networks, three seeds each: the right one, joint norm and one layer twice lie together; two softmaxes lie below, then zeros and cut off"
# Draws the ends of all runs
figure, panel = plt.subplots(figsize=(7, 2.8))
for row, name in enumerate(runs):
    colour = "C0" if name == "right" else "C1"
    panel.plot(ends(name).mean(axis=1), [row] * len(SEEDS), "o", color=colour)
panel.axvline(1 / SYMBOLS, color="0.5", ls=":", label="guessing")
panel.set(xlim=(0, 1.02), xlabel="symbols right")
panel.set_yticks(range(len(runs)), runs)
panel.invert_yaxis()
panel.legend(loc="lower left", bbox_to_anchor=(0.15, 0))
plt.show()

# %% [markdown]
# You cannot tell two of the bugs from the right network here: the joint norm showed
# with a loud slot, and the shared layer without the rest of the core. And *compare*
# with narrow keys hardly showed a third, the wrong scale. The symptoms show them all:
#
# | bug | measure | right | broken |
# |---|---|---|---|
# | memory of zeros | difference between slots after a step | above 0 | exactly 0, or rounding |
# | memory cut off | gradient with respect to the first input | above 0 | exactly 0 |
# | two softmaxes | smallest loss that logits of 1000 can reach | 0 | $\log(e + C - 1) - 1$ |
# | wrong scale | largest share of a fresh network, as keys get wider | stays | climbs |
# | joint norm | what moves when attention is cut and one slot is changed | that slot | all slots |
# | shared layer | number of parameters, as layers are added | grows | stays |
#
# Each row is a test of a few lines that needs no training. The package has such tests
# for its own core, and `tests/test_attention_invariants.py` takes any attention
# function, including yours.
#
# ## In the package
#
# Here are the right versions of the parts that we broke, in the order of the sections:
# the first memory, the loss, the root, the norm, the MLP. (To hand on the memory, you
# do nothing.)

# %%
from tinyrmc.cores.relational import identity_memory

course.show(
    identity_memory,
    fused.softmax_cross_entropy.composed,
    equations.attention_weights,
    equations.layer_norm,
    equations.mlp,
    docstring=False,
)

# %% [markdown]
# ## Takeaways
#
# - A network with a bug is a network too, and training makes the best of it. The curve
#   says how well that goes, not whether it is the network that you meant.
# - Look for symptoms that are exact: equal or not, zero or not, a number of parameters.
#   They take a second, and need no seeds and no patience.
# - Test at the sizes that you will use. Some bugs grow with the width of a key, with
#   the number of slots, or with the length of a sequence.
#
# **Further.** Which of the six would a test of gradients find (chapter 4)? Which of
# them would you find by running the same weights with the slots in another order? Under
# a joint norm, how small does one slot make the others if it is a hundred times as
# large as they are? Train the right network for three times as many steps: which of the
# four symbols get better?

# %% tags=["hide-cell"]
# Answer 1: the memory that is cut off, and no other. A test of gradients asks whether
# the gradient belongs to the function. Two softmaxes, a wrong scale, a joint norm, a
# shared layer and a memory of zeros are all functions with right gradients: of another
# function than you meant. `.data` gives a gradient that no longer fits the function.
x, m = rng.normal(size=(2, 2, 3))


def recurrent(cut):
    """Whether the gradient with respect to the first input is what differences give."""

    def last(first):
        memory = p.tanh(first + m[0])
        return p.sum(first + p.tanh(x[1] + (memory.data if cut else memory)))

    with Tape() as tape:
        first = tape.watch(x[0])
        loss = last(first)
    gradient = tape.gradient(loss, [first], strict=False)[0]
    step = 1e-6 * np.eye(3)
    slopes = [(last(x[0] + e).data - last(x[0] - e).data) / 2e-6 for e in step]
    return np.allclose(gradient, slopes)


print("gradients fit: as it should be", recurrent(False), ", cut off", recurrent(True))

# %% tags=["hide-cell"]
# Answer 2: the joint norm, if its gains and offsets are no longer all alike: a slot's
# gain stays where it was when the slots are shuffled. (Fresh ones are alike, and
# nothing shows.) All the others treat slots in the same way, and the memory of zeros
# most of all.
four = rng.normal(size=(1, 4, 8))
order = np.array([2, 0, 3, 1])
norm = JointNorm(4, 8)
for state in ("fresh", "trained"):
    shuffled = norm(four[:, order].astype(np.float32)).data
    plain = norm(four.astype(np.float32)).data[:, order]
    print(state, "joint norm, equivariant:", np.allclose(shuffled, plain, atol=1e-6))
    norm.gain.data[:] = rng.normal(size=(4, 8))

# %% tags=["hide-cell"]
# Answer 3: a twentieth to a thirtieth of the size they should be. Each row for itself,
# nobody notices.
quiet_and_loud = rng.normal(size=(1, 4, 8)) * np.array([1.0, 1, 1, 100])[:, None]
fresh = JointNorm(4, 8)(quiet_and_loud.astype(np.float32)).data[0]
alone = equations.layer_norm(np, quiet_and_loud, 1.0, 0.0)[0]
print("size of each slot, jointly:           ", *fresh.std(axis=1).round(3))
print("size of each slot, each row for itself:", *alone.std(axis=1).round(3))

# %% tags=["hide-cell"]
# Answer 4: those that are not perfect yet.
once, STEPS = STEPS, 3 * STEPS
right, _ = train(small_core(0), 0)
STEPS = once
for name, part in (("so far", right[:once]), ("three times as long", right)):
    print(f"{name:20}", *(f"{share:.0%}" for share in part[end].mean(axis=0)))
