# %% [markdown]
# # 15. Breaking it: six bugs that run
#
# **All equations, each a little wrong.** About 175 minutes, in three sittings. You need
# chapters 6 to 11, and learning (chapter 5).
#
# Every bug in this chapter is a line that is easy to write and looks right. Nothing
# raises an error, all shapes are right, the loss falls (you will see it), and if you
# look at the curve alone you may think that the task is hard. Two of the six cost
# nothing that you could see on this chapter's task, and a third hardly anything: that
# is what makes them dangerous elsewhere. You break the core on purpose, each time in
# four moves: what stands in the code; a *symptom* that you can measure in a second on a
# fresh network; what the bug costs; and how to mend it. **Write down first**, before
# each cost: much, little or nothing?

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
from tinyrmc.cores.relational import identity_memory
from tinyrmc.course.exercises import breaking as ex

course.setup()
rng = np.random.default_rng(10)

# %% [markdown]
# ## A task to break it on
#
# The task is *repeat*. Four symbols arrive, one at a time, each one of eight and each
# with its place. After the last one the network names all four, in their order. We give
# it little room: four slots of eight units, and a linear layer that reads them.
# Guessing is right one time in eight.

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
    """Train on fresh batches. Returns which share of the four symbols was right at each
    step (STEPS, 4), and the losses (STEPS,).

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
            logits = p.reshape(readout(output), (-1, SYMBOLS))  # a row for each symbol
            loss = loss_of(logits, symbols.ravel())
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        answers = logits.data.argmax(axis=1).reshape(symbols.shape)
        right.append((answers == symbols).mean(axis=0))
        losses.append(float(loss.data))
    return np.array(right), np.array(losses)


SEEDS = range(course.fast(3, 3, 1))
runs, LAST = {}, course.fast(100, 5)  # the steps at the end that count


def train_all(name, make=small_core, **broken):
    """Train a network made anew for each seed, and tell how it ends."""
    runs[name] = [train(make(seed), seed, **broken) for seed in SEEDS]
    shares = [right[-LAST:].mean() for right, _ in runs[name]]
    print(f"{name}: right at the end", *(f"{share:.0%}" for share in shares))


def draw(name):
    """At each place the symbols right at the end: a dot for each seed."""
    _, panel = plt.subplots(figsize=(5.5, 2.6))
    for number, each in enumerate(dict.fromkeys(["right", name])):
        for right, _ in runs[each]:
            shares = right[-LAST:].mean(axis=0)
            places = np.arange(1, 5) + 0.2 * number
            panel.plot(places, shares, "os"[number], color=f"C{number}", alpha=0.6)
        panel.plot([], [], "os"[number], color=f"C{number}", label=each)
    panel.axhline(1 / SYMBOLS, color="0.5", ls=":", label="guessing")
    panel.set(xlabel="place of the symbol", xticks=range(1, 5), ylim=(0, 1.05))
    panel.set(ylabel="right at the end")
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))


# %% alt="At each place of a symbol three dots, one for each seed: the first symbol is always right, the second nearly, the third and fourth in some seeds only two times in three"
train_all("right")
draw("right")
plt.show()

# %% [markdown]
# The first symbol is nearly always right, although the network has to keep it the
# longest. After five hundred steps it still misses the third or the fourth, depending
# on the seed.
#
# ## 1. A memory of zeros
#
# **In the code.** The memory begins as `zeros(batch, slots, units)`, as an LSTM's state
# does. **The symptom.** All slots are equal, up to rounding, and stay equal. Here is
# the memory after one sequence:


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
# **What it costs.** Four equal slots hold no more than one.

# %% tags=["hide-output"] alt="Begun with zeros, each seed has a place or two that it hardly learns; the other places are close to those of the right network"
train_all("zeros", begin=zeros)
draw("zeros")
plt.show()

# %% [markdown]
# A task that fits into one slot hides this bug. **Mended** by any first memory whose
# rows all differ: the identity, or one drawn at random and then kept.
#
# ## 2. A memory that is cut off
#
# **In the code.** After each step the memory is copied into a plain array, or detached,
# so that the tape does not grow. (Cutting between *pieces* of a long text is common
# practice.) **The symptom.** The gradient of every input but the last is exactly zero.
#
# **Exercise 1.** Here is the instrument that finds it: how strongly does each input act
# on the last memory? It takes the gradient of the last memory's sum with respect to
# each input, and its norm. But the instrument has the very bug in it. Mend it.


# %%
def influence(step, inputs, memory):
    """step(x, memory) -> memory, on Tensors; inputs (T, F), memory (F,) -> (T,)."""
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for x in xs:
            last = step(x, memory)
            memory = last.data
        loss = p.sum(last)
    gradients = tape.gradient(loss, xs, strict=False)  # zeros without influence
    return np.array([np.linalg.norm(gradient) for gradient in gradients])


ex.influence.check(influence)
influence = ex.influence.yours(influence)

# %% [markdown]
# Now it measures the core, with the memory handed on and cut off:

# %% alt="Bars for twelve inputs: with the memory handed on all have influence; cut off, only the last has any"
core, (_, inputs) = small_core(0), sequences(rng, 3)
inputs = inputs.reshape(12, -1)  # twelve steps
first = core.initial_state(1)


def step(x, memory):
    _, memory = core(p.expand_dims(x, axis=0), memory)
    return memory


def step_with_a_cut(x, memory):
    return step(x, p.stop_gradient(memory))


whole = influence(step, inputs, first)
cut = influence(step_with_a_cut, inputs, first)
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
# **What it costs.**

# %% tags=["hide-output"] alt="Cut off, the last symbol is right as often as in the right network, the earlier ones are right far less often"
train_all("cut off", between=p.stop_gradient)
draw("cut off")
plt.show()

# %% [markdown]
# The last symbol is right as often as before. The earlier ones are not lost altogether:
# even weights that never learnt to store something carry traces of the past (chapter 14
# reads them from untrained cores), and the readout learns to read these. That is how
# such a bug survives on an easy task. **Mended** by handing on the Tensor. The tape
# grows with the sequence: that is its job.
#
# ## 3. A softmax too many
#
# **In the code.** The network ends in a softmax, "to give probabilities", and the loss
# begins with one of its own. **The symptom.** Probabilities lie between 0 and 1, so the
# second softmax sees numbers that hardly differ. How small can the loss still get? With
# $C$ classes, and a network that is certain and right,
#
# $$\log(e + C - 1) - 1$$
#
# And where the network is certain and wrong, no gradient gets through a softmax that is
# saturated. Below, the right class's logit is ahead of the others by some *margin*:


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
# **Exercise 2.** Cross-entropy in NumPy, with this bug and another. Mend both. (The
# check also tries logits of a thousand.)


# %%
def cross_entropy_of(logits, targets):
    """logits (B, C), targets (B,) integers -> the mean loss, a number."""
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    log_normaliser = np.log(np.exp(probabilities).sum(axis=-1))
    return np.mean(log_normaliser - probabilities[np.arange(len(targets)), targets])


ex.cross_entropy.check(cross_entropy_of)

# %% tags=["hide-output"] alt="With two softmaxes the last symbol is right less often than in the right network"
train_all("two softmaxes", loss_of=double_softmax)
draw("two softmaxes")
plt.show()
last = [f"{losses[-LAST:].mean():.3f}" for _, losses in runs["two softmaxes"]]
print("losses at the end:", *last, f"(floor {floor:.3f})")

# %% [markdown]
# It learns, but more slowly, and the loss gives the bug away. **Mended** by giving the
# loss what it asks for, logits. **This is a good place to stop.**
#
# ## 4. The root upside down
#
# **In the code.** `scores / d ** -0.5`: minus sign and division undo each other, so the
# scores are multiplied by $\sqrt{d_k}$. (At first the released code took the root of
# the width of query, key and value together; pull request 105 of google-deepmind/sonnet
# mended it.) **The symptom.** The wider the keys, the more certain is a fresh network's
# attention. To break the core from outside, we multiply its queries by $d_k$:


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


# %% tags=["hide-input"] alt="The largest share of attention in a fresh network against the width of a key: divided by the root it stays level, not scaled or multiplied it climbs towards one"
# Draws the largest share of a fresh network, for each width of a key
one_hot = np.eye(SYMBOLS, dtype=np.float32)
powers = {"divided by the root": 0.5, "not scaled": 0.0, "multiplied by the root": -0.5}
widths = 2 ** np.arange(1, course.fast(8, 4))
tried = one_hot[rng.integers(SYMBOLS, size=(64, 4))]
_, panel = plt.subplots(figsize=(6, 2.8))
for name, power in powers.items():
    largest = []
    for width in widths:
        trace, fresh = [], comparing_core(int(width), power, 0)
        fresh.unroll(tried, fresh.initial_state(64), trace)
        shares = np.array([step["attention"] for step in trace])
        largest.append(shares.max(axis=-1).mean())
    panel.semilogx(widths, largest, "o-", base=2, label=name)
panel.set(xlabel="width of a key, $d_k$", ylabel="largest of five shares", ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# A softmax of large scores is flat nearly everywhere. So a fresh network looks at one
# row, picked by chance, and learns little about the others.
#
# **Exercise 3.** Equation 2 with one head, and three bugs. Find them by their symptoms
# before you read the code closely: print the weights and add them up; change `x`; make
# the keys wider.


# %%
def attend(M, x, W_q, W_k, W_v):
    """M (N, F), x (F,), W_q and W_k (F, K), W_v (F, V) -> (N, V)."""
    Q, K, V = M @ W_q, M @ W_k, M @ W_v
    scores = Q @ K.T / K.shape[-1] ** -0.5
    weights = np.exp(scores - scores.max(axis=0))
    weights = weights / weights.sum(axis=0)
    return weights @ V


ex.attend.check(attend)

# %% [markdown]
# **What it costs.** This bug calls for a task that needs attention, *compare*: four
# symbols arrive; is the last the same as the first? We train it with narrow keys and
# with wide ones.


# %% tags=["hide-output"]
def train_to_compare(core, seed):
    """The share of right answers at the end."""
    rng, right = np.random.default_rng(seed), []
    readout = nn.Linear(core.output_size, 2, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)
    for _ in range(course.fast(300, 10)):
        symbols = rng.integers(SYMBOLS, size=(64, 4))
        symbols[:32, 3] = symbols[:32, 0]
        same = (symbols[:, 3] == symbols[:, 0]).astype(int)
        with Tape() as tape:
            outputs, _ = core.unroll(one_hot[symbols], core.initial_state(64))
            logits = readout(outputs[-1])
            loss = cross_entropy(logits, same)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        right.append(np.mean(logits.data.argmax(axis=1) == same))
    return np.mean(right[-50:])


for width in (8, 64):
    for name in ("divided by the root", "multiplied by the root"):
        cores = [comparing_core(width, powers[name], seed) for seed in SEEDS]
        ends = [train_to_compare(core, seed) for seed, core in enumerate(cores)]
        print(f"d_k = {width:2}, {name:22}", *(f"{share:.0%}" for share in ends))

# %% [markdown]
# With narrow keys the wrong scale costs a few answers in a hundred, with wide ones far
# more: you would find it only in the large experiment. **Mended** by
# `scores / d ** 0.5`.
#
# ## 5. One norm for all slots
#
# **In the code.** Layer normalisation "over the last two axes": mean and variance of
# slots and units together, with a gain and an offset for each unit of each slot. This
# happens easily when a library's layer norm asks you which shape to normalise.


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
# **The symptom.** Slots influence each other without attention. That is an experiment,
# and you make it.
#
# **Exercise 4.** `step` makes the next memory of a memory. Change slot $j$ by a random
# row of size 1 or so, leave the others, and see how far slot $i$ of the next memory
# moves from where it would have been. (The check sees what is zero and what is not.)


# %%
def who_moves(step, M, rng):
    """step(M) -> the next M, both (N, F) -> (N, N): how far slot i moves (its norm)
    when slot j is changed.
    """
    ...


ex.who_moves.check(who_moves)
who_moves = ex.who_moves.yours(who_moves)

# %% alt="Two heat maps, slot that moves against slot that was changed. Each row for itself: zeros beside the diagonal. Jointly: small numbers there, every slot moves whichever is changed"
alone = np.eye(5, dtype=bool)
alone[:, 4] = True  # with attention cut: every slot hears itself and the input
M, (_, inputs) = rng.normal(size=(4, 8)).astype(np.float32), sequences(rng, 1)
figure, panels = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
cores = {"each row for itself": small_core(0), "jointly": jointly(small_core(0))}
for panel, (name, core) in zip(panels, cores.items(), strict=True):

    def next_memory(M, core=core):
        _, memory = core(inputs[:, 0], M[None].astype(np.float32), mask=alone)
        return memory.data[0]

    distances = who_moves(next_memory, M, np.random.default_rng(0))
    panel.imshow(distances, cmap="Greys", vmin=0, vmax=2)
    for (i, j), distance in np.ndenumerate(distances):
        look = {"fontsize": 8, "color": "white" if distance > 1.2 else "black"}
        panel.text(j, i, f"{distance:.2g}", ha="center", va="center", **look)
    panel.set(title=name, xlabel="slot that was changed")
    panel.set(xticks=range(4), yticks=range(4))
panels[0].set(ylabel="slot that moves")
plt.show()

# %% [markdown]
# A second symptom: the number of parameters grows with the number of slots, against the
# paper's sentence ("we can modify the number of memories without affecting the number
# of parameters"). **What it costs.**

# %% tags=["hide-output"] alt="With a joint norm as many symbols are right as in the right network, or more"
train_all("joint norm", lambda seed: jointly(small_core(seed)))
draw("joint norm")
plt.show()

# %% [markdown]
# On this task it costs nothing: with these three seeds it is even ahead in the mean (94
# % against 90 %), which chance alone gives in one case of five. Why should it not? All
# slots are of about the same size, so a common mean may suit them all. What if one of
# them is loud? We train both networks with a readout that never sees the fourth slot.
# Then, in the test alone, that slot begins several times as large. **Write down
# first:** what does each network lose at ten times?

# %% tags=["hide-output"]
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

# %% [markdown]
# Under a joint norm, one loud slot makes all the others small, and hardly a symbol
# survives that. **Mended** by `axis=-1`.
#
# **This is a good place to stop.**
#
# ## 6. An MLP that is one layer, several times
#
# **In the code.** `[layer] * layers`: in Python, a list times a number holds the *same*
# object several times. And the loop over the list puts a ReLU after each layer,
# including the last. **The symptom.** The number of parameters does not grow with the
# layers. And after a ReLU nothing is below zero, so the MLP can add to a unit but never
# take from it:


# %%
def one_layer_twice(core):
    core.mlp = [core.mlp[0]] * 2  # the first layer, which has a ReLU
    return core


z = rng.normal(size=(2000, 8)).astype(np.float32)
cores = {"two layers": small_core(0), "one layer twice": one_layer_twice(small_core(0))}
for name, core in cores.items():
    added = core.mlp[1](core.mlp[0](z)).data
    print(f"{name:16} {core.num_parameters:,} parameters, ", end="")
    print(f"{np.mean(added < 0):.0%} of what the MLP adds is negative")

# %% [markdown]
# **What it costs.** First the core on *repeat*. Then the MLPs alone: let each imitate a
# random MLP of two layers. How large an error will be left, as a share of the mean
# square of what it imitates?


# %% tags=["hide-output"]
def imitate(layers, seed):
    """Train layers to be a certain MLP; the error at the end, as a share."""
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
    return np.mean(errors[-20:])


class Twice(nn.Module):
    """One layer with a ReLU, used twice."""

    def __init__(self, seed):
        self.layer = nn.Linear(8, 8, relu=True, seed=seed)

    def __call__(self, z):
        return self.layer(self.layer(z))


train_all("one layer twice", lambda seed: one_layer_twice(small_core(seed)))
for name, make in (
    ("two layers", lambda seed: nn.MLP(8, [8, 8], seed=seed)),
    ("one layer twice", Twice),
):
    left = [f"{imitate(make(seed), seed):.3f}" for seed in SEEDS]
    print(f"imitating, {name:16} error at the end", *left)

# %% [markdown]
# On *repeat* three seeds show no cost. What these teachers of two layers do, one layer
# twice has not learnt in 600 steps, and it cannot: it puts out nothing below zero.
# (Nobody ever means to share the layer. A ReLU after the last one can be a choice: the
# preset `quick` of nth farthest trains with it. It is a bug if nobody knows of it.)
#
# **Exercise 5.** Here is $g_\psi$ with the three bugs of the last two sections. Mend
# it. (A ReLU *between* two layers belongs there.)


# %%
def process(z, layers, gain, offset):
    """z (N, F), layers [(weight (F, F), bias (F,)), ...], gain and offset (F,)
    -> layer_norm(MLP(z) + z), (N, F).
    """
    y = z
    weight, bias = layers[0]
    for _ in layers:
        y = np.maximum(y @ weight + bias, 0)
    d = y + z - (y + z).mean()
    return gain * d / np.sqrt((d * d).mean() + 1e-5) + offset


ex.process.check(process)

# %% [markdown]
# **Mended** by `[make_layer() for _ in range(layers)]`, and by a ReLU only where you
# mean one.
#
# ## All of them

# %% tags=["hide-input"] alt="Left: the loss of six networks against steps, mean of three seeds: all six fall from 2.1, the cut-off one to about 1, two softmaxes to 1.5, the others lower. Right: symbols right at the end, three seeds each: the right one, joint norm and one layer twice lie together; two softmaxes lie below, then zeros and cut off"
# Draws the losses and the ends of all runs
figure, (losses, panel) = plt.subplots(1, 2, figsize=(10, 3))
for name, found in runs.items():
    mean = np.mean([each for _, each in found], axis=0)
    parts = np.array_split(mean, min(len(mean), 25))
    places = (np.arange(len(parts)) + 0.5) * len(mean) / len(parts)
    losses.plot(places, [part.mean() for part in parts], label=name)
losses.set(xlabel="steps", ylabel="loss", ylim=(0, None))
losses.legend(fontsize=8, ncols=2, loc="upper right", bbox_to_anchor=(1, 1.02))
for row, name in enumerate(runs):
    colour = "C0" if name == "right" else "C1"
    shares = [right[-LAST:].mean() for right, _ in runs[name]]
    panel.plot(shares, [row] * len(SEEDS), "o", color=colour)
panel.axvline(1 / SYMBOLS, color="0.5", ls=":", label="guessing")
panel.set(xlim=(0, 1.02), xlabel="symbols right")
panel.set_yticks(range(len(runs)), runs)
panel.invert_yaxis()
panel.legend(loc="lower left", bbox_to_anchor=(0.15, 0))
plt.show()

# %% [markdown]
# All losses fall. You cannot tell two of the bugs from the right network here, and with
# narrow keys *compare* hardly showed a third. The symptoms show them all:
#
# | bug | measure | right | broken |
# |---|---|---|---|
# | memory of zeros | difference between slots after a step | above 0 | 0, or rounding |
# | memory cut off | gradient with respect to the first input | above 0 | exactly 0 |
# | two softmaxes | smallest loss of logits of 1000 | 0 | $\log(e + C - 1) - 1$ |
# | wrong scale | largest share, as keys get wider | stays | climbs |
# | joint norm | what moves when one slot is changed | that slot | all slots |
# | shared layer | parameters, as layers are added | grows | stays |
#
# Each row is a test of a few lines that needs no training.
# `tests/test_attention_invariants.py` takes any attention function, including yours.
# Here are the right versions of what we broke:

# %%
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
# - A network with a bug is a network too, and training makes the best of it. A falling
#   loss is no test.
# - Look for symptoms that are exact: equal or not, zero or not, a number of parameters.
#   They take a second, and need no seeds and no patience.
# - Test at the sizes that you will use. Some bugs grow with the width of a key, the
#   number of slots, or the length of a sequence.
#
# **Further.** Which of the six would a test of gradients find (chapter 4)? Which would
# you find by running the same weights with the slots in another order? Under a joint
# norm, how small does one slot make the others if it is a hundred times as large?

# %% tags=["hide-cell"]
# Answer 1
# The memory that is cut off, and no other. A test of gradients asks whether the
# gradient belongs to the function. Two softmaxes, a wrong scale, a joint norm, a
# shared layer and a memory of zeros are all functions with right gradients: of
# another function than you meant. `.data` gives a gradient that no longer fits the
# function.
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
# Answer 2
# The joint norm, if its gains and offsets are no longer all alike: a slot's gain
# stays where it was when the slots are shuffled. (Fresh ones are alike, and nothing
# shows.) All the others treat slots in the same way, and the memory of zeros most of
# all.
four = rng.normal(size=(1, 4, 8))
order = np.array([2, 0, 3, 1])
norm = JointNorm(4, 8)
for state in ("fresh", "trained"):
    shuffled = norm(four[:, order].astype(np.float32)).data
    plain = norm(four.astype(np.float32)).data[:, order]
    print(state, "joint norm, equivariant:", np.allclose(shuffled, plain, atol=1e-6))
    norm.gain.data[:] = rng.normal(size=(4, 8))

# %% tags=["hide-cell"]
# Answer 3
# A twentieth to a thirtieth of the size they should be. Each row for itself, nobody
# notices.
quiet_and_loud = rng.normal(size=(1, 4, 8)) * np.array([1.0, 1, 1, 100])[:, None]
fresh = JointNorm(4, 8)(quiet_and_loud.astype(np.float32)).data[0]
alone = equations.layer_norm(np, quiet_and_loud, 1.0, 0.0)[0]
print("size of each slot, jointly:           ", *fresh.std(axis=1).round(3))
print("size of each slot, each row for itself:", *alone.std(axis=1).round(3))
