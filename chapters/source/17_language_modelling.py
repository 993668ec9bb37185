# %% [markdown]
# # 17. Language modelling: from a text to writing
#
# **Sections 4.3, 5.4 and A.4, figure 12.** About 215 minutes, in three sittings, with
# two minutes of computing. You need learning (chapter 5), the LSTM (chapter 9) and the
# RMC (chapter 10). In this chapter $x_t$ is word number $t$ of a text, $p$ is always a
# probability, $k$ a number of imagined words, and $s$ a core's state.
#
# So far every task was made for the core. This one was not: a network reads a real
# text, word by word, and always has to say what comes next. Large language models are
# trained in this way, too, on pieces of words (chapter 18). You count words first, to
# have something to beat. Then you cut a book for a network, train it, and let it write.

# %%
import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, course, fused, optim, primitives
from tinyrmc.cores import LSTM
from tinyrmc.corpora import ngrams
from tinyrmc.course.exercises import language as ex
from tinyrmc.course.exercises.language import LanguageModel, lstm, numbers_of
from tinyrmc.results.text import aligned

course.setup()

# %% [markdown]
# ## A book in numbers
#
# The book is *Alice's Adventures in Wonderland*. We train on its first ten chapters and
# choose settings on the eleventh, the *validation text*. The twelfth is for the *test*.
# Punctuation marks count as words, all is in lower case, and `<eos>` ends a paragraph.
# A word that the ten chapters do not have at least twice becomes `<unk>`, unknown. The
# rest are numbered, the most frequent first.

# %%
corpus = ex.alice()
vocabulary = corpus.vocabulary
V, UNK = len(vocabulary), vocabulary.unk
TRAIN, VALIDATION, TEST = corpus.texts.values()
for part, ids in corpus.texts.items():
    unknown = np.mean(ids == UNK)
    print(f"{part:10} {len(ids):6,} words, {unknown:.1%} of them <unk>")
print(f"vocabulary {V:6,} words, <eos> and <unk> among them")
print(*TRAIN[:9], "are", *vocabulary.decode(TRAIN[:9]))

# %% [markdown]
# ## Counting
#
# The probability of a text is a product of $p(x_t \mid x_{<t})$, each word given all
# words before it. The simplest model, the *unigram*, forgets these and answers with the
# share $p(b)$ that a word $b$ has of the text. The *bigram* remembers one word $a$ and
# counts what came after it. In `a b a b a c`, a `b` comes after `a` two times in three.
#
# But a pair that the text lacks would get the probability 0, and one such pair makes
# the whole product 0. So imagine that after each word $a$ another $k$ words came, drawn
# from the unigram (a part of a word is allowed).
#
# **Exercise 1.** Derive $p(b \mid a)$ from the real and the imagined words together.
# Then make the table for all pairs, without a loop over the text.


# %%
def bigram(ids, unigram, k):
    """ids (n,), unigram (V,), a number k > 0 -> p(b | a) (V, V), row a, column b."""
    ...


ex.bigram.check(bigram)
bigram = ex.bigram.yours(bigram)

# %% [markdown]
# ## Perplexity
#
# How good is a model? Give it a text that it has not seen, and look at the
# probabilities that it gave to the words that came. Say they were $\frac12$, $\frac14$
# and $\frac18$. Their product is $\frac1{64}$, and three times $\frac14$ would have
# been as good. So it did as well as someone who chooses among 4 equally likely words
# each time. This 4 is its *perplexity*: one over the geometric mean. Its logarithm is
# the mean cross-entropy (chapter 5).
#
# **Exercise 2.** Compute it, also for a thousand small probabilities, whose product is
# 0 to the computer.


# %%
def perplexity(probabilities):
    """Those given to the words that came, (...) -> a number."""
    ...


ex.perplexity.check(perplexity)
perplexity = ex.perplexity.yours(perplexity)

# %% [markdown]
# Someone to whom all words are alike has the perplexity $V$. **Write down first:** the
# bigram with $k = 0.1$ believes its counts almost entirely. It has seen each pair of
# the training text, but only four in five of the validation text's. Its perplexity on
# both?

# %% tags=["hide-output"]
unigram = np.bincount(TRAIN, minlength=V) / len(TRAIN)
pairs = bigram(TRAIN, unigram, 0.1)
for name, ids in {"training": TRAIN, "validation": VALIDATION}.items():
    alone, after = unigram[ids[1:]], pairs[ids[:-1], ids[1:]]
    print(f"{name:10} text: unigram {perplexity(alone):5.1f}", end=", ")
    print(f"bigram {perplexity(after):5.1f}")

# %% [markdown]
# Look at the unigram first. It is *better* on the text that it has not seen. A part of
# that is the vocabulary: one word in eleven is `<unk>` there, against one in
# twenty-seven in training, and `<unk>` is easy to foresee. But without it,
# `perplexity(unigram[ids[ids != UNK]])`, the unigram still has 225 and 166: the other
# words of that chapter are more frequent ones. So a perplexity is compared with others
# on the same text alone.
#
# The bigram goes the other way, from 19 to 120. This gap is *overfitting*: the model
# knows its text and not the language. With a larger $k$ it trusts its counts less. The
# validation text is there to choose $k$ with.
#
# **Now draw it yourself:** the perplexity of your bigram on both texts against $k$, for
# five values or more from 0.1 to 1000, on a logarithmic axis, with names for curves and
# axes. Why does one curve turn round, and the other not? The cell after the next has
# ours.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% tags=["hide-input"] alt="Perplexity of the bigram against k: on the training text it rises with k all the way; on the validation text it is U-shaped, with its lowest point between 10 and 100"
# Tries many k, and draws the perplexities
strengths = np.geomspace(0.1, 1000, course.fast(17, 3))
curves = {"training": [], "validation": []}
for k in strengths:
    pairs = bigram(TRAIN, unigram, k)
    for curve, ids in zip(curves.values(), (TRAIN, VALIDATION), strict=True):
        curve.append(perplexity(pairs[ids[:-1], ids[1:]]))
best = strengths[np.argmin(curves["validation"])]
figure, panel = plt.subplots(figsize=(6.5, 2.8))
for name, curve in curves.items():
    panel.semilogx(strengths, curve, label=f"{name} text")
panel.axvline(best, color="0.4", lw=0.8, ls="--")
panel.text(best, 5, f" k = {best:.0f}", color="0.4")
panel.set(xlabel="k, imagined words after each word", ylabel="perplexity")
panel.set(ylim=(0, None))
panel.legend()
plt.show()

# %% [markdown]
# Why stop at pairs? A model of five words must fall back on fewer where it has not seen
# them; chapter 18 (rare words) derives how. It stands ready here, and now you have the
# *baselines*: a network with a perplexity above these has not shown that it does more
# than count.

# %%
BIGRAM = bigram(TRAIN, unigram, best)
five_words = ngrams.KneserNey(TRAIN, V, order=5)
baselines = {"unigram": {}, "bigram": {}, "five words": {}}
for part in ("validation", "test"):
    ids = corpus.texts[part]
    baselines["unigram"][part] = perplexity(unigram[ids[1:]])
    baselines["bigram"][part] = perplexity(BIGRAM[ids[:-1], ids[1:]])
    logs = five_words.log_probabilities(ids)[1:]
    baselines["five words"][part] = perplexity(np.exp(logs))
for name, on in baselines.items():
    print(f"{name:10} validation {on['validation']:5.1f}, test {on['test']:5.1f}")

# %% [markdown]
# A perplexity belongs to a vocabulary and a way of cutting words: `<unk>` and `,` are
# easy. Across vocabularies people count *bits per character* (see the last questions).
#
# **This is a good place to stop.**
#
# ## Reading with a state
#
# A recurrent network has a state that can hold something of all words before. With a
# table $E$ of word vectors, a row for each word, and a table $E'$ that makes the
# logits,
#
# $$h_t, s_t = \text{core}(E_{x_t}, s_{t-1}) \qquad
# p(x_{t+1} = j \mid x_{\le t}) = \text{softmax}_j(E' h_t)$$
#
# You cannot unroll it over thirty thousand words. So cut the text into equal pieces,
# the *lanes*, that are read side by side as a batch. Each training step reads the next
# $T$ words of every lane, a *window*. The next window begins with the state in which
# this one ended; only gradients stop there. (Backpropagation through time, *truncated*:
# the paper's windows have 100 words.)
#
# **Exercise 3.** Cut a text. Every input has a target, the word after it, so the last
# word is only a target. At the end leave out what does not fill up the lanes, and then
# what does not fill a window.


# %%
def windows(ids, lanes, T):
    """ids (n,) -> inputs (K, lanes, T), targets (K, lanes, T), for K windows."""
    ...


ex.windows.check(windows)
windows = ex.windows.yours(windows)

# %% tags=["hide-input"] alt="The first 48 words of a text of 49 as one strip in four colours, and below it the same words as four rows, one for each lane, cut into three windows of four columns; arrows lead from each window to the next in the same lane"
# Draws a text as a strip and as rows
figure, (strip, table) = plt.subplots(2, 1, figsize=(9.5, 3.4), height_ratios=(1, 5))
number = np.arange(49)
inputs, _ = windows(number, 4, 4)
colours = ("C0", "C1", "C2", "C3")
for word in number[:-1]:
    strip.add_patch(plt.Rectangle((word, 0), 1, 1, fc=colours[word // 12], ec="white"))
strip.set(xlim=(0, 49), ylim=(0, 1), title="the text")
for k, window in enumerate(inputs):
    for lane, row in enumerate(window):
        for t, word in enumerate(row):
            place, height = 5 * k + t, 3 - lane
            look = {"fc": colours[word // 12], "ec": "white"}
            table.add_patch(plt.Rectangle((place, height), 1, 1, **look))
            middle = {"ha": "center", "va": "center", "color": "white"}
            table.text(place + 0.5, height + 0.5, str(word), fontsize=9, **middle)
        if k:
            arrow = {"arrowstyle": "->", "color": "0.3"}
            ends = (5 * k, height + 0.5), (5 * k - 1, height + 0.5)
            table.annotate("", *ends, arrowprops=arrow)
table.set(xlim=(-0.2, 14.2), ylim=(0, 4))
table.set_title("lanes, in windows of four words; the state goes along the arrows")
for panel in (strip, table):
    panel.axis("off")
plt.show()

# %% [markdown]
# What do you lose when you cut? An untrained LSTM reads 60 words in one go, and again
# in windows of 15. **Write down first:** how far apart are the outputs if the state is
# carried over? How far back does the last output's gradient reach?


# %%
def read(core, words, T, carry=True):
    """Outputs (60, 32), and how much the last one's sum depends on each word."""
    outputs, state = [], core.initial_state(1)
    for start in range(0, 60, T):
        if start and not carry:
            state = core.initial_state(1)
        with Tape() as tape:
            x = tape.watch(words[:, start : start + T])
            window, state = core.unroll(x, state)
            last = primitives.sum(window[-1])
        gradient = tape.gradient(last, x)[0]  # (T, 8)
        outputs += [h.data[0] for h in window]
        state = numbers_of(state)  # the numbers alone, off the tape
    return np.array(outputs), np.linalg.norm(gradient, axis=1)


core = LSTM(8, 32, forget_bias=2.0, seed=0)
words = np.random.default_rng(12).normal(size=(1, 60, 8)).astype(np.float32)
whole, carried = read(core, words, 60), read(core, words, 15)
fresh = read(core, words, 15, carry=False)

# %% tags=["hide-input", "hide-output"] alt="Left: how far the outputs are from those of one long unroll: with the state carried not at all, with a fresh state in each window much at its beginning and less towards its end. Right: the gradient that reaches each word from the last output, fading over the sixty words, and cut off at the last window's beginning"
# Draws the distances of outputs and gradients
figure, (values, gradients) = plt.subplots(1, 2, figsize=(9.5, 3))
step = np.arange(1, 61)
for name, (outputs, _) in {"state carried": carried, "state fresh": fresh}.items():
    values.plot(step, np.linalg.norm(outputs - whole[0], axis=1), label=name)
values.set(xlabel="word", ylabel="distance from one long unroll")
gradients.semilogy(step, whole[1], label="one long unroll")
gradients.semilogy(step[45:], carried[1], lw=4, alpha=0.5, label="windows of 15")
gradients.set(xlabel="word", ylabel="gradient from the last output", ylim=(0.03, 1))
gradients.set_yticks((0.05, 0.1, 0.2, 0.5, 1), ("0.05", "0.1", "0.2", "0.5", "1"))
for panel in (values, gradients):
    panel.legend()
    for start in (15, 30, 45):
        panel.axvline(start + 0.5, color="0.6", lw=0.8, ls=":")
plt.show()

# %% [markdown]
# Forward nothing is lost, backward all ends where the window begins. So the network can
# *use* what it read a thousand words ago, but no error that comes more than a window
# later *teaches* it to keep something.
#
# ## The network, and your training of it
#
# The network (the rows of $E$ are short, and $\sqrt d$ makes their numbers about as
# large as 1; `drop` is *dropout*, which chapter 18 explains: in training, where the
# model gets `random`, it makes each number 0 with a probability of 0.3):

# %%
course.show(LanguageModel.__call__)

# %% [markdown]
# **Exercise 4.** One time through the text, an *epoch*. It begins with a fresh state;
# after each window comes a step of Adam: `adam.step(learning_rate=..., max_norm=1.0)`.
# The loss is the mean cross-entropy of the window, `fused.softmax_cross_entropy`. Hand
# `random` on to the model. A state that is still on an old tape is refused by the next:
# `numbers_of` takes it off.


# %%
def one_epoch(model, adam, inputs, targets, rates, random):
    """model(ids (B, T), state, random) -> logits (B T, V), state. inputs and targets
    (K, B, T); rates (K,), that of each step -> a list of K numbers, the losses.
    """
    ...


ex.one_epoch.check(one_epoch)
one_epoch = ex.one_epoch.yours(one_epoch)

# %% [markdown]
# The measure reads each word of a text once and carries the state all the way.


# %%
def probabilities(model, ids, T=100):
    """p of each word after the first, given all before it: (n - 1,)."""
    found, state = [], model.core.initial_state(1)
    for start in range(0, len(ids) - 1, T):
        after = ids[start + 1 : start + T + 1]
        logits, state = model(ids[None, start : start + len(after)], state)
        found.append(np.exp(-fused.softmax_cross_entropy(logits, after).data))
        state = numbers_of(state)
    return np.concatenate(found).astype(float)


# %% [markdown]
# **This is a good place to stop.**
#
# ## Writing
#
# A model that knows $p(x_t \mid x_{<t})$ can write: draw a word, read it, draw the
# next. A *temperature* $\tau$ makes the draw sharper or flatter:
# $p_j \propto e^{z_j / \tau}$. At $\tau = 1$ the model speaks as it believes, at 0 only
# the likeliest word is left.
#
# **Exercise 5.** Draw a word. So that your draw can be checked, you get the random
# number $u$. Lay the probabilities side by side on a line from 0 to 1: in whose piece
# is $u$? (Mind the end: sums are rounded.)


# %%
def sample(logits, temperature, u):
    """logits (V,), temperature >= 0, 0 <= u < 1 -> the number of a word."""
    ...


ex.sample.check(sample)
sample = ex.sample.yours(sample)

# %% [markdown]
# Thousands of unlikely words together are drawn often enough to spoil a text. So people
# keep the $k$ likeliest (*top-k*), or as few as it takes to reach a mass such as 0.8
# (*top-p*, or *nucleus sampling*, Holtzman and others 2020). By hand, for shares 0.4,
# 0.25, 0.2, 0.1, 0.05: top-2 leaves 0.4 and 0.25, which become 0.62 and 0.38. Top-p
# leaves three words.
#
# **Exercise 6.** Top-p, for many rows at once and without a loop.


# %%
def nucleus(p, mass):
    """p (..., V), shares with the sum 1 -> (..., V), with the sum 1 again."""
    ...


ex.nucleus.check(nucleus)
nucleus = ex.nucleus.yours(nucleus)


# %%
def shares(logits):
    e = np.exp(logits - logits.max())
    return e / e.sum()


def write(model, prompt, count, temperature=0.8, mass=1.0, seed=0):
    """The prompt and `count` more words; <unk> is never drawn."""
    random, state = np.random.default_rng(seed), model.core.initial_state(1)
    ids = [*vocabulary.encode(prompt)]
    unread = ids[:]
    for u in random.random(count):
        logits, state = model(np.array([unread]), numbers_of(state))
        z = logits.data[-1].astype(float)
        z[UNK] = -np.inf
        if temperature and mass < 1:
            with np.errstate(divide="ignore"):  # ln 0 is where a word is out
                z, scale = np.log(nucleus(shares(z / temperature), mass)), 1.0
        else:
            scale = temperature
        ids.append(sample(z, scale, u))
        unread = ids[-1:]
    text = re.sub(r" ([,.;:!?)])", r"\1", " ".join(vocabulary.decode(ids)))
    text = text.replace("<eos>", "/")
    return textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="    ")


# %% [markdown]
# ## Training, live
#
# Both networks are 64 wide. Like the paper's, our RMC has one slot and four heads: the
# memory attends to itself and to the word that comes in. Both get 20 lanes, windows of
# 25 words, and ten epochs with a rate that falls from 0.01 to a tenth, with two seeds
# each. **Write down first:** how low do they get on the validation text, beside the
# bigram and the five words?

# %% tags=["hide-output"]
EPOCHS, PROMPT = course.fast(10, 1, 2), "the queen"


def rmc(seed):
    core = RelationalMemory(64, mem_slots=1, head_size=16, num_heads=4, seed=seed)
    return LanguageModel(V, core, seed=seed)


def train(model, seed, hear=lambda epochs: None):
    """Rows of (training loss, validation perplexity), one for each epoch."""
    inputs, targets = windows(course.fast(TRAIN, TRAIN[:3000]), 20, 25)
    adam, random = optim.Adam(model.parameters()), np.random.default_rng(seed)
    rates = np.linspace(0.01, 0.001, EPOCHS * len(inputs)).reshape(EPOCHS, -1)
    rows = []
    for epoch in range(EPOCHS):
        losses = one_epoch(model, adam, inputs, targets, rates[epoch], random)
        rows.append((np.mean(losses), perplexity(probabilities(model, VALIDATION))))
        if epoch in (0, EPOCHS - 1):
            hear(epoch + 1)
    return np.array(rows)


def hear(epochs):
    print(f"after {epochs} of {EPOCHS} epochs:")
    print(write(model, PROMPT, 30))


models, learnt = {}, {}
for seed in (0, 1):
    models["LSTM", seed] = lstm(V, seed)
    learnt["LSTM", seed] = train(models["LSTM", seed], seed)
model = models["RMC", 0] = rmc(0)
hear(0)
learnt["RMC", 0] = train(model, 0, hear)

# %%
models["RMC", 1] = rmc(1)
learnt["RMC", 1] = train(models["RMC", 1], 1)
for (name, seed), model in models.items():
    print(f"{name}, seed {seed}: {model.num_parameters:,} parameters")

# %% tags=["hide-input", "hide-output"] alt="Validation perplexity against epochs for two seeds of LSTM and RMC from the second on: all four fall below the bigram by the third, below five counted words by the sixth or seventh, and end close together between 39 and 41"
# Draws the validation perplexities, and prints the ends
figure, panel = plt.subplots(figsize=(8, 3.4))
epochs = np.arange(1, EPOCHS + 1)
for (name, seed), rows in learnt.items():
    look = {"color": {"LSTM": "C0", "RMC": "C1"}[name], "ls": "-" if seed else "--"}
    panel.plot(epochs, rows[:, 1], label=f"{name}, seed {seed}", **look)
for name in ("bigram", "five words"):
    level = baselines[name]["validation"]
    panel.axhline(level, color="0.5", lw=0.8, ls=":")
    panel.text(EPOCHS, level + 0.5, name, ha="right", color="0.4", fontsize=9)
panel.set(
    xlabel="epochs", ylabel="validation perplexity", xlim=(1.8, 10.2), ylim=(37, 60)
)
panel.set_xticks(epochs)
panel.legend(ncols=2)
plt.show()
table = [["", "seed", "validation", "test"]]
for (name, seed), model in models.items():
    both = (perplexity(probabilities(model, ids)) for ids in (VALIDATION, TEST))
    table.append([name, str(seed), *(f"{each:.1f}" for each in both)])
print(aligned(table))

# %% [markdown]
# (A `/` ends a paragraph.) After one epoch the frequent words are there; in the end
# there are phrases, though no sense, not even Lewis Carroll's. All four are far below
# the bigram, and not far below five counted words: good counting is hard to beat here.
#
# Three seeds, the validation text: the LSTM 40.8 (40.0 to 41.3), the RMC 39.4 (39.2 to
# 39.6). The test text: 50.3 (49.7 to 51.1) and 49.4 (48.2 to 50.6). On the validation
# text all three RMCs are ahead of all three LSTMs, on the test text they are not. All
# this is at one rate and with dropout of 0.3, the same for both, on two chapters of one
# book, and the RMC has 8 % more weights. So these runs do not say which of the two
# reads better.
#
# Now try the draws. **Write down first:** what does it write at temperature 0? And at
# temperature 1, whose text makes more sense, with the whole vocabulary or with a
# nucleus of 0.8?

# %% tags=["hide-output"]
model = models["RMC", 0]
for temperature, mass in ((0, 1.0), (1.0, 1.0), (1.0, 0.8), (2.0, 1.0)):
    print(f"temperature {temperature}, mass {mass}:")
    print(write(model, PROMPT, 30, temperature, mass))

# %% [markdown]
# In these draws, the text at 0 falls into a loop, and at 2 nearly any word follows any
# other. The nucleus leaves out what is unlikely; whether more holds together then,
# judge yourself, with other seeds.
#
# ## How much of the past is used?
#
# The paper cuts the test text into pieces of $T$ words and begins each with a fresh
# state (figure 12): "a regression of 1 perplexity for the RMC vs 5 for the LSTM at 100
# time steps". **Write down first:** our networks saw windows of 25 words. From which
# $T$ on does a fresh state cost less than 1?

# %% tags=["hide-input", "hide-output"] alt="By how much the test perplexity is worse with a fresh state in each piece, against the pieces' length, both axes logarithmic: from 80 and 30 at single words it falls below 1 at a hundred; the RMC's two lines lie below the LSTM's"
# Measures what a fresh state costs, and draws it
lengths = course.fast((1, 2, 5, 10, 25, 50, 100), (1, 50))
figure, panel = plt.subplots(figsize=(7, 3.2))
for (name, seed), model in models.items():
    found = []
    for T in (*lengths, 2500):  # the same words for each length
        pieces = TEST[:2500].reshape(-1, T)
        logits, _ = model(pieces, model.core.initial_state(len(pieces)))
        losses = fused.softmax_cross_entropy(logits, TEST[1:2501]).data
        found.append(perplexity(np.exp(-losses.astype(float))))
    look = {"color": {"LSTM": "C0", "RMC": "C1"}[name], "ls": "-" if seed else "--"}
    more = np.array(found[:-1]) - found[-1]
    panel.loglog(lengths, more, "o", ms=3, label=f"{name}, seed {seed}", **look)
panel.axhline(1, color="0.5", lw=0.8, ls=":")
panel.set(xlabel="words in a piece", ylabel="test perplexity more", ylim=(0.2, 200))
panel.legend()
plt.show()

# %% [markdown]
# Ten words bring most of the gain. But it costs less than 1 only from some 50 words on
# with the RMC, and 100 with the LSTM. It is tempting to read: both use what is further
# back than the windows that they learnt from, and the LSTM more than a hundred words.
# That is wrong. On both axes logarithmic, the curves are nearly straight lines that
# fall like $1/T$: a fresh state costs a piece something *somewhere*, and if only its
# first words cost more, the cost is fixed, and in the mean over a piece it is divided
# by $T$.
#
# So look position by position. Begin afresh at many places of the text: how many nats
# more does each word cost than with all before it? (Three seeds of each core, trained
# as above, on validation and test text together.)
#
# And there are two controls. A fresh state is one that these networks hardly met in
# training. So begin with the state that fifty words *of another place* have left: such
# states they know, and only what is in them is wrong (`after others` in the table). And
# does the cost end because some words have been read, whichever they are? So let the
# network read words of another place instead of the right ones, and ask for the same
# next words (`others read` in the table). **Write down first:** at which word does the
# extra cost end, of each kind?

# %% tags=["hide-output"]
course.measured(17, "uses_ten_words")

# %% [markdown]
# Three seeds: the first word after a fresh start costs 0.96 (0.89 to 1.01) nats more
# with the LSTM, 0.45 (0.44 to 0.46) with the RMC; the second 0.28 (0.26 to 0.31) and
# 0.16 (0.14 to 0.18); words 3 to 5 0.078 (0.064 to 0.090) and 0.048 (0.045 to 0.051);
# words 6 to 10 0.007 (0.005 to 0.010) and 0.011 (0.008 to 0.016). From the eleventh
# word on it is 0.001 (0.000 to 0.001) and 0.000 (-0.000 to 0.001).
#
# After ten words a fresh start shows no longer (three seeds, one rate, below 0.003
# nats). But it may be that a fresh state does little harm. What do the controls say?
#
# If words of another place are read instead of the right ones, the cost does not
# end, so it is not enough that some words have been read. (The last word is another one
# then, too. So this control does not say which of the ten are needed.) Words 26 to 50
# cost 2.60 (2.58 to 2.63) and 2.87 (2.84 to 2.89) nats more, the first word 2.48 (2.45
# to 2.50) and 2.41 (2.33 to 2.46).
#
# And how much of the cost is the strangeness of a fresh state? With the state of
# another place the first word costs the LSTM 0.23 (0.20 to 0.28), where a fresh state
# costs it four times as much; the RMC 0.42 (0.38 to 0.46), which three seeds do not
# tell from what a fresh one costs. Words 3 to 5 cost 0.028 (0.012 to 0.045) and 0.072
# (0.053 to 0.083), words 11 to 25 0.001 (0.000 to 0.003) and 0.003 (0.000 to 0.008).
# Words 26 to 50 cost less than 0.001.
#
# So after a wrong past some networks have not quite forgotten it after ten words, and
# all have after twenty-five. In the mean they use the last twenty-five words at most,
# as many as a window has, and what lies behind the last ten matters little. (A mean may
# hide some words that gain from what is older, beside others that lose.) It is these
# small networks and this book of which we have shown that.
#
# The paper's curve, too, says that a fresh start costs the RMC less than the LSTM.
# Here, at this one rate, it does, in the first five words. But with a wrong past it is
# the other way round: that costs the RMC more. So such a curve says neither how far a
# network looks nor which of two networks makes more of the past: it also shows how well
# each begins.
#
# ## What has been measured
#
# The LSTMs in the paper's table 2 are quoted from other papers, with other settings. On
# the Penn Treebank, a million words, this project's RMC of 256 units has a test
# perplexity of 91.5, and its LSTM (two layers) 110.3: means of three seeds, which
# spread from 91.4 to 91.5 and from 108.0 to 111.9. Beside them: counting five words
# 141.2; an LSTM without dropout 114.5, a wider one with it 82.7 (Zaremba and others
# 2014, table 1); one with more kinds of regularisation 57.3 (Merity and others 2017).
# So our LSTM is a weak opponent. [The results](../benchmarks/language_modeling.md) have
# every run.
#
# | | |
# |---|---|
# | `python -m tinyrmc.train language_modeling` | trains on the Penn Treebank |
# | `python -m tinyrmc generate RUN "The"` | writes, a word at a time |
#
# ## Takeaways
#
# - Count first. A perplexity without a baseline beside it says little.
# - How far a network looks, in the mean over many words, shows position by position. In
#   a mean over a piece, a fixed cost looks like a long memory. And a fresh state is a
#   strange one: a state of another place is the control.
# - How you draw the words changes what a network writes.
#
# **Further.** How many bits per character are the RMC's test perplexity? How many draws
# of your `sample` does it take to see a word of probability 0.001? Carry the state, but
# mix up the order of the windows: is that worse than a fresh state for each?

# %% tags=["hide-cell"]
# Answer 1
# A word costs log2(perplexity) bits, and all words together have so many characters,
# the spaces between them counted. (<unk> is no honest word: the spelling of the words
# behind it is not paid for, so an honest number is higher, we think.)
bits = np.log2(perplexity(probabilities(models["RMC", 0], TEST)))
characters = sum(len(word) + 1 for word in vocabulary.decode(TEST[1:]))
print(f"{bits * len(TEST[1:]) / characters:.2f} bits per character")

# %% tags=["hide-cell"]
# Answer 2
# It takes a thousand on average. But chance has no memory: half of all attempts need
# 693 or fewer. (The mean of two hundred attempts has a standard error of 71.)
rare, firsts = np.log(np.array([0.001, 0.999])), []
for attempt in range(course.fast(200, 5)):
    uniform = np.random.default_rng([12, attempt]).random(20_000)
    found = (k for k, u in enumerate(uniform, 1) if not sample(rare, 1, u))
    firsts.append(next(found))
print(f"mean {np.mean(firsts):.0f}, median {np.median(firsts):.0f} draws")

# %% tags=["hide-cell"]
# Answer 3
# In this one run it is no better. A state from the wrong place is a memory of something
# else: at the first word it costs the RMC about what a fresh one does, at the next four
# more.
count = course.fast(100, 5)
texts, follow = (TEST[k : k + 25 * count].reshape(count, 25) for k in (0, 1))


def in_order(order, carry, model=models["RMC", 0]):
    found, state = [], model.core.initial_state(1)
    begin = state
    for k in order:
        logits, state = model(texts[k][None], numbers_of(state) if carry else begin)
        found.append(fused.softmax_cross_entropy(logits, follow[k]).data.astype(float))
    return np.exp(np.mean(found))


mixed_up = np.random.default_rng(0).permutation(count)
print(f"in order, carried:       {in_order(range(count), True):.1f}")
print(f"a fresh state for each:  {in_order(range(count), False):.1f}")
print(f"mixed up, carried:       {in_order(mixed_up, True):.1f}")
