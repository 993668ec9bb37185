# %% [markdown]
# # 17. Language modelling: the next word
#
# **Sections 4.3, 5.4 and A.4, figure 12, tables 2 and 3.** About 185 minutes, of which
# the computer takes two minutes. You need the tape (chapter 3), the cross-entropy
# (chapter 5), the LSTM (chapter 9) and the RMC (chapter 10).
#
# So far every task was made for the core. This one was not: the network reads a real
# text, word by word, and always has to say what comes next.
#
# > We model the conditional probability $p(w_t \mid w_{<t})$ of a word $w_t$ given a
# > sequence of observed words $w_{<t} = (w_{t-1}, w_{t-2}, \dots, w_1)$.
#
# In this chapter you turn a book into numbers, and measure by hand how well counting
# predicts it. You cut a text so that a network can read many parts of it side by side,
# derive the gradient of its loss, and find out where the time and the memory go. Then
# you train a small LSTM and a small Relational Memory Core on the book, with the
# functions that you have written, and the two go on writing by themselves.

# %%
import re
import textwrap
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, corpora, course, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.autograd import engine
from tinyrmc.autograd.engine import Parameter, Tensor
from tinyrmc.cores import LSTM
from tinyrmc.corpora import ngrams
from tinyrmc.course.exercises import language as ex
from tinyrmc.results.text import aligned
from tinyrmc.training.discovery import load_task

course.setup()
rng = np.random.default_rng(12)

# %% [markdown]
# ## A book in numbers
#
# The book is *Alice's Adventures in Wonderland*, which has twelve chapters. We train on
# the first ten and choose settings on the eleventh, the *validation text*. The twelfth
# is for the *test*. Words and punctuation marks both count as words, in lower case, and
# `<eos>` stands at the end of each paragraph. A network cannot learn much about a word
# that it sees only once: words that the first ten chapters have only once, or not at
# all, become `<unk>`, for unknown. The rest are numbered, the most frequent first.


# %%
def cut(text):
    """A line for each paragraph, with a space between words."""
    paragraphs = re.split(r"\n\s*\n", text.lower().replace("_", ""))
    found = [
        re.findall(r"[a-z]+(?:['-][a-z]+)*|--|[^\w\s]", each) for each in paragraphs
    ]
    return "".join(" ".join(words) + "\n" for words in found if words)


parts = course.book().split("CHAPTER ")[1:]
texts = {
    "train": cut("".join(parts[:10])),
    "validation": cut(parts[10]),
    "test": cut(parts[11]),
}
corpus = corpora.from_texts(**texts, name="alice", minimum_count=2)
vocabulary = corpus.vocabulary
V, UNK, EOS = len(vocabulary), vocabulary.unk, vocabulary.eos
TRAIN, VALIDATION, TEST = (corpus.texts[part] for part in texts)
for part, ids in corpus.texts.items():
    unknown = np.mean(ids == UNK)
    print(f"{part:10} {len(ids):6,} words, {unknown:.1%} of them <unk>")
print(f"vocabulary {V:6,} words, <eos> and <unk> among them")
print(*TRAIN[:9], "are", *vocabulary.decode(TRAIN[:9]))

# %% [markdown]
# Here is how often each word occurs. On these axes the counts fall almost in a straight
# line (*Zipf's law*): few words make up most of the text, and most words are rare.

# %% alt="Left: the count of each word against its rank, both axes logarithmic, nearly a straight line from over two thousand down to two. Right: the share of the text that the most frequent words cover, half of it with some twenty-five words"
counts = np.sort(vocabulary.counts)[::-1]
rank = np.arange(1, V + 1)
figure, (zipf, covered) = plt.subplots(1, 2, figsize=(9.5, 3.2))
zipf.loglog(rank, counts, ".", ms=3)
for k in (2, 10, 100, 1000):
    place = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 8}
    zipf.annotate(vocabulary.words[k], (rank[k], counts[k]), **place)
zipf.set(xlabel="rank of the word", ylabel="how often it occurs", xlim=(0.7, 2e4))
covered.semilogx(rank, np.cumsum(counts) / counts.sum())
covered.axhline(0.5, color="0.4", lw=0.8, ls="--")
covered.set(xlabel="number of most frequent words", ylabel="share of the text")
plt.show()

# %% [markdown]
# ## From counts to probabilities
#
# The probability of a whole text is a product, each word given all words before it:
#
# $$p(w_1, \dots, w_n) = \prod_{t=1}^{n} p(w_t \mid w_{<t})$$
#
# This is no assumption, it is how conditional probabilities are defined. The simplest
# model, the *unigram*, forgets all of $w_{<t}$ and answers with the share $p(b)$ that
# each word $b$ has of the text. The next one, the *bigram*, remembers one word, $a$,
# and answers with how often $b$ came after it. In `a b a b a c`, a `b` comes after `a`
# two times out of three.
#
# But what about a pair that the text does not have? Counting gives it the probability
# 0, and one such pair makes the whole product 0. So we mix in $k$ imagined words after
# each $a$, drawn from the unigram:
#
# $$p(b \mid a) = \frac{\#(a\,b) + k \, p(b)}{\#(a\,\cdot) + k}$$
#
# where $\#(a\,b)$ is how often $b$ comes right after $a$, and $\#(a\,\cdot)$ how often
# anything does. After a frequent word $a$ its own counts decide; after a rare one the
# unigram does.
#
# **Exercise 1.** Count the pairs, and make this table of probabilities.


# %%
def bigram(ids, unigram, k):
    """ids (n,), unigram (V,), a number k > 0 -> p(b | a) (V, V), row a, column b."""
    ...


ex.bigram.check(bigram)
my_bigram = ex.bigram.yours(bigram)

# %% [markdown]
# The last line keeps your function, if it is right, for the cells that follow.
#
# ## Perplexity, by hand
#
# How good is a model? Give it a text that it has not seen. It should have given high
# probabilities to the words that came. Say that there are three words, and that it gave
# them $\frac12$, $\frac14$ and $\frac18$. The product is $\frac1{64}$. Three times
# $\frac14$ would have been as good, so on average the model did as well as someone who
# chooses among 4 equally likely words each time. That number is its *perplexity*: one
# over the geometric mean of the probabilities.
#
# $$\text{perplexity} = \Big( \prod_{t=1}^{n} p(w_t \mid w_{<t}) \Big)^{-1/n}
# = \exp \Big( -\frac1n \sum_{t=1}^{n} \ln p(w_t \mid w_{<t}) \Big)$$
#
# The sum on the right, divided by $n$, is the mean *cross-entropy*, in nats. Perplexity
# 1 would be perfect foresight, and someone who takes all $V$ words of the vocabulary
# for equally likely has perplexity $V$.
#
# **Exercise 2.** Compute it, also for long texts and small probabilities.


# %%
def perplexity(probabilities):
    """Those given to the words that came, (...) -> a number."""
    ...


ex.perplexity.check(perplexity)
my_perplexity = ex.perplexity.yours(perplexity)

# %% [markdown]
# **Write down first:** the bigram with $k = 0.1$ believes its counts almost entirely.
# It has seen every pair of the training text, but only four in five of the pairs in the
# book's chapter 11, the validation text. What are its perplexities on the two texts?
# The unigram is printed for comparison. Put your guesses in place of the dots.

# %%
guess = {"training text": ..., "validation text": ...}


def beside(name, found):
    """One line: what was found, and what you had guessed."""
    guessed = "" if guess[name] is ... else f" (your guess: {guess[name]})"
    print(f"{name}: {found}{guessed}")


unigram = np.bincount(TRAIN, minlength=V) / len(TRAIN)
print(f"all words alike: {my_perplexity(np.full(len(VALIDATION), 1 / V)):.0f}")
print(f"unigram: {my_perplexity(unigram[TRAIN]):.1f} on the training text, ", end="")
print(f"{my_perplexity(unigram[VALIDATION]):.1f} on the validation text")

# %%
pairs = my_bigram(TRAIN, unigram, 0.1)
for name, ids in {"training text": TRAIN, "validation text": VALIDATION}.items():
    beside(name, f"{my_perplexity(pairs[ids[:-1], ids[1:]]):.1f}")

# %% [markdown]
# The gap between the two is *overfitting*: the model knows its text and not the
# language. We can choose $k$ so that it trusts its counts less. It would be cheating to
# choose it on the test text; that is what the validation text is for.

# %% alt="Perplexity of the bigram against k on three texts: on the training text it rises with k all the way; on validation and test text it is U-shaped with its lowest point between 10 and 100"
strengths = np.geomspace(0.1, 1000, course.fast(17, 3))
curves = {"training": (TRAIN, []), "validation": (VALIDATION, []), "test": (TEST, [])}
for k in strengths:
    pairs = my_bigram(TRAIN, unigram, k)
    for ids, curve in curves.values():
        curve.append(my_perplexity(pairs[ids[:-1], ids[1:]]))
best = strengths[np.argmin(curves["validation"][1])]
figure, panel = plt.subplots(figsize=(6.5, 3.2))
for name, (_, curve) in curves.items():
    panel.semilogx(strengths, curve, label=f"{name} text")
panel.axvline(best, color="0.4", lw=0.8, ls="--")
panel.set(xlabel="k, imagined words after each word", ylabel="perplexity")
panel.set(ylim=(0, None))
panel.legend()
plt.show()
BIGRAM = my_bigram(TRAIN, unigram, best)
print(f"best k on the validation text: {best:.0f}")

# %% [markdown]
# Why stop at pairs? Most runs of five words in a text were never seen before, so all
# depends on how you fall back on fewer. The best known recipe is that of Kneser and
# Ney, and the package has it. Now you have the *floors*: a network with a higher
# perplexity than these has learnt nothing that counting does not give.

# %%
five_words = ngrams.KneserNey(TRAIN, V, order=5)
floors = {"unigram": {}, "bigram": {}, "five words": {}}
for part in ("validation", "test"):
    ids = corpus.texts[part]
    floors["unigram"][part] = unigram[ids[1:]]
    floors["bigram"][part] = BIGRAM[ids[:-1], ids[1:]]
    floors["five words"][part] = np.exp(five_words.log_probabilities(ids)[1:])
for name, on in floors.items():
    on = ", ".join(f"{part} {my_perplexity(each):.1f}" for part, each in on.items())
    print(f"{name}: {on}")

# %% [markdown]
# Two warnings. A perplexity belongs to a vocabulary: `<unk>` is easy to predict, and
# without it this text would be harder. (This is one reason why the unigram does better
# on the validation text, which has more of it, than on the training text.) And a
# perplexity belongs to a way of cutting words: every `,` that we count as a word is an
# easy one, too.
#
# ## Reading with a state
#
# A bigram remembers one word. A recurrent network has a *state* $s$ that can hold
# something of all words before. Let $E$ be the table of word vectors, one row for each
# word, and let a second table $E'$ and a bias $b$ make the logits. The network computes
#
# $$h_t, s_t = \text{core}(E_{w_t}, s_{t-1}) \qquad
# p(w_{t+1} = j \mid w_{\le t}) = \text{softmax}_j(E' h_t + b)$$
#
# How do you train it on one long text? You cannot unroll it over thirty thousand words,
# and if you show them one by one, no gradient reaches back. The paper says what
# everybody does:
#
# > Backpropagation-through-time was truncated to a window-length of 100.
#
# Cut the text into equal pieces, the *lanes*, which are read side by side as a batch.
# Each training step reads the next $T$ words of every lane, a *window*. The next window
# begins with the state in which this one ended; only gradients stop there.
#
# **Exercise 3.** Cut a text into lanes, and then each lane into windows. Every input
# has a target, the word after it, so the last word of the text is only a target. At the
# end, leave out the words that no longer fill up the lanes, and then those that no
# longer fill a window.


# %%
def windows(ids, lanes, T):
    """ids (n,) -> inputs (K, lanes, T), targets (K, lanes, T), for K windows."""
    ...


ex.windows.check(windows)
my_windows = ex.windows.yours(windows)

# %% tags=["hide-input"] alt="The first 48 words of a text of 49 as one strip in four colours, and below it the same words as four rows, one for each lane, cut into three windows of four columns; arrows lead from each window to the next in the same lane"
# Draws a text as a strip and as rows
figure, (strip, table) = plt.subplots(2, 1, figsize=(9.5, 3.6), height_ratios=(1, 5))
number = np.arange(49)
inputs, _ = my_windows(number, 4, 4)
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
# ## What the state carries, and what it does not
#
# What do you lose when you cut? Take an untrained LSTM and 60 words. It reads them
# three times: in one go; in windows of 15 with the state carried over; and in windows
# of 15 that each begin with a fresh state. `numbers_of` takes the state off the tape
# and keeps its numbers.


# %%
def numbers_of(state):
    """A state of plain arrays: where the next window begins, without its past."""
    if isinstance(state, tuple):
        return tuple(map(numbers_of, state))
    return state.data if isinstance(state, Tensor) else state


core = LSTM(8, 32, forget_bias=2.0, seed=0)
words = rng.normal(size=(1, 60, 8)).astype(np.float32)


def read(T, carry):
    """The outputs (60, 32), and how much the last one's sum depends on each word."""
    outputs, state = [], core.initial_state(1)
    for start in range(0, 60, T):
        if start and not carry:
            state = core.initial_state(1)
        with Tape() as tape:
            x = tape.watch(words[:, start : start + T])
            window, state = core.unroll(x, state)
            last = p.sum(window[-1])
        gradient = tape.gradient(last, x)[0]  # (T, 8)
        outputs += [h.data[0] for h in window]
        state = numbers_of(state)
    reached = np.zeros((60, 8))
    reached[60 - T :] = gradient
    return np.array(outputs), np.linalg.norm(reached, axis=1)


at_once, reached_at_once = read(60, carry=True)
carried, reached_carried = read(15, carry=True)
fresh, _ = read(15, carry=False)
print("carried, largest difference:", abs(carried - at_once).max())
print("fresh,   largest difference:", abs(fresh - at_once).max().round(3))

# %% tags=["hide-input"] alt="Left: how far the outputs are from those of one long unroll: with the state carried not at all, with a fresh state in each window much at its beginning and less towards its end. Right: the gradient that reaches each word from the last output, fading over the sixty words, and cut off at the last window's beginning"
# Draws the distances of values and gradients
figure, (values, gradients) = plt.subplots(1, 2, figsize=(9.5, 3.2))
step = np.arange(1, 61)
values.plot(step, np.linalg.norm(carried - at_once, axis=1), label="state carried")
values.plot(step, np.linalg.norm(fresh - at_once, axis=1), label="state fresh")
values.set(xlabel="word", ylabel="distance from one long unroll")
values.legend()
reached_carried[:45] = np.nan
gradients.semilogy(step, reached_at_once, label="one long unroll")
gradients.semilogy(step, reached_carried, lw=3, alpha=0.5, label="windows of 15")
gradients.set(xlabel="word", ylabel="gradient from the last output", ylim=(0.03, 1))
gradients.set_yticks((0.05, 0.1, 0.2, 0.5, 1), ("0.05", "0.1", "0.2", "0.5", "1"))
gradients.legend()
for panel in (values, gradients):
    for start in (15, 30, 45):
        panel.axvline(start + 0.5, color="0.6", lw=0.8, ls=":")
plt.show()

# %% [markdown]
# With the state carried over, the values are those of one long unroll, up to rounding:
# nothing is lost forward. Backward, the gradient is right inside the window and ends
# where the window begins. So the network can *use* what it read a thousand words ago,
# if its state still holds it. But an error that comes more than a window later does not
# *teach* it to keep something.
#
# ## The loss and its gradient
#
# For one word, let $z$ be the row of logits, one for each word of the vocabulary, and
# $y$ the word that came. The loss is the cross-entropy of chapter 5,
# $\ell = \ln \sum_j e^{z_j} - z_y$. With $p = \text{softmax}(z)$, and with $y$ now as a
# one-hot row, its gradient with respect to the logits is $p - y$: what the network
# expected, minus what came. From there the gradient goes on to the word vectors and to
# the core with two products:
#
# $$\frac{\partial \ell}{\partial h} = (p - y)\, E' \qquad
# \frac{\partial \ell}{\partial E'} = (p - y)^\top h$$
#
# **Exercise 4.** Write loss and gradient, for rows of logits of any size: $e^{1000}$ is
# too large for the computer.


# %%
def cross_entropy(logits, targets):
    """logits (R, V), targets (R,) -> losses (R,), gradient (R, V) of their sum."""
    ...


ex.cross_entropy.check(cross_entropy)
my_cross_entropy = ex.cross_entropy.yours(cross_entropy)

# %% [markdown]
# That is all it takes for an operation of your own (chapter 3). The networks below are
# trained on this one:


# %%
@engine.primitive(indices=(1,))
def my_loss(xp, logits, targets):
    """-ln softmax(logits)[target], a number a row"""
    losses, gradient = my_cross_entropy(logits, targets)
    return losses.astype(logits.dtype), (gradient.astype(logits.dtype),)


@my_loss.vjp
def my_loss_vjp(xp, needs, g, gradient):
    return g[:, None] * gradient, None


def gradient_of(loss, logits, targets):
    with Tape() as tape:
        z = tape.watch(logits)
        total = p.sum(loss(z, targets))
    return tape.gradient(total, z)


logits, targets = rng.normal(size=(6, V)), rng.integers(V, size=6)
mine = gradient_of(my_loss, logits, targets)
np.allclose(mine, gradient_of(fused.softmax_cross_entropy, logits, targets), rtol=1e-9)

# %% [markdown]
# ## Where the time goes
#
# At every word of the text the softmax needs a score for every word of the vocabulary.
# An LSTM with $d$ inputs and $d$ units multiplies $8 d^2$ pairs of numbers for each
# word; the product $E' h$ multiplies $V d$. (Backward, both take twice as much again.)
# The paper's vocabulary is "approximately 250,000"; WikiText-103, to be exact, has
# 267,735 words.

# %% alt="The softmax's share of all multiplications against the size of the vocabulary for LSTMs of 64, 512 and 2,500 units: each rises to near 1, from near 0 or, with 64 units, from about a sixth, and at 267,735 words all are above nine tenths"
PAPER_WORDS, PAPER_WIDTH = 267_735, 512
vocabularies = np.geomspace(100, 1e6, 100)
figure, panel = plt.subplots(figsize=(7, 3.2))
for width in (64, PAPER_WIDTH, 2500):
    softmax, lstm = vocabularies * width, 8 * width**2
    panel.semilogx(vocabularies, softmax / (softmax + lstm), label=f"{width:,} units")
for words, name in ((V, "this book"), (10_000, "PTB"), (PAPER_WORDS, "WikiText-103")):
    panel.vlines(words, 0, 1.01, color="0.6", lw=0.8, ls=":")
    panel.text(words, 1.03, name, ha="center", fontsize=9, color="0.4")
panel.set(xlabel="words of the vocabulary", ylabel="the softmax's share")
panel.set(ylim=(0, 1.1))
panel.legend(loc="lower right")
plt.show()
rows = 64 * 100  # lanes times window, on each of the paper's GPUs
size = rows * PAPER_WORDS * 4 / 1e9
parameters = PAPER_WORDS * PAPER_WIDTH * 4 / 1e9
print(f"logits of one step of the paper: {rows:,} x {PAPER_WORDS:,}, {size:.1f} GB")
print(f"the word vectors themselves: {parameters:.2f} GB")

# %% [markdown]
# As long as you keep the full softmax, no trick saves the time. But one saves the
# memory. The logits are used for one number in each row, $\ln \sum_j e^{z_j}$, and a
# sum can be taken in pieces. Make the logits of a *block* of words, add up, throw them
# away, make the next block. There is one difficulty: you must subtract the largest
# logit before `exp`, and you do not know it in advance. So keep the largest so far,
# $m$, and the sum so far, $s$; when a larger one comes, rescale the sum:
#
# $$m' = \max(m, \max_{j \in \text{block}} z_j) \qquad
# s' = s \, e^{m - m'} + \sum_{j \in \text{block}} e^{z_j - m'}$$
#
# In the end $\ln \sum_j e^{z_j} = m + \ln s$.
#
# **Exercise 5.** Take the sum in blocks. The function `logits_of(start, stop)` makes
# the logits of the words from `start` to before `stop`, and refuses more than `size` of
# them.


# %%
def log_sum_exp_in_blocks(logits_of, words, size):
    """logits_of(start, stop) -> (R, stop - start); V = words -> ln sum exp, (R,)."""
    ...


ex.log_sum_exp_in_blocks.check(log_sum_exp_in_blocks)
my_log_sum_exp = ex.log_sum_exp_in_blocks.yours(log_sum_exp_in_blocks)

# %% [markdown]
# Backward, $p - y$ is as large as the logits. But with $\ln \sum_j e^{z_j}$ in hand you
# can make any block of $p$ again, use it for its two products, and throw it away. That
# costs one more product of this size, four where there were three:


# %%
def loss_in_blocks(h, E, targets, size):
    """h (R, d), E (V, d), targets (R,) -> losses (R,), gradients of h and E."""

    def logits_of(start, stop):
        return h @ E[start:stop].T

    total = my_log_sum_exp(logits_of, len(E), size)
    losses = total - np.sum(h * E[targets], axis=1)
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    for start in range(0, len(E), size):
        stop = min(start + size, len(E))
        block = np.exp(logits_of(start, stop) - total[:, None])  # p, (R, stop - start)
        inside = (start <= targets) & (targets < stop)
        block[inside, targets[inside] - start] -= 1  # p - y
        dh += block @ E[start:stop]
        dE[start:stop] = block.T @ h
    return losses, dh, dE


def loss_at_once(h, E, targets):
    losses, gradient = my_cross_entropy(h @ E.T, targets)
    return losses, gradient @ E, gradient.T @ h


h, E = rng.normal(size=(1000, 32)), rng.normal(size=(5000, 32)) / 32**0.5
targets = rng.integers(len(E), size=len(h))
pieces, whole = loss_in_blocks(h, E, targets, 500), loss_at_once(h, E, targets)
[np.allclose(one, other, rtol=1e-9) for one, other in zip(pieces, whole, strict=True)]


# %% alt="Peak memory of loss and gradients against the block's size, both logarithmic: near the size of the gradients for small blocks, rising tenfold and more for large ones, towards that of all words at once"
def peak(function, *arguments):
    """The most memory that a call needs, in megabytes; what it returns counts."""
    tracemalloc.start()
    function(*arguments)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1e6


sizes = course.fast((20, 50, 100, 200, 500, 1000, 2000, 5000), (1000, 5000))
figure, panel = plt.subplots(figsize=(6.5, 3))
needed = [peak(loss_in_blocks, h, E, targets, size) for size in sizes]
panel.loglog(sizes, needed, "o-", label="in blocks")
panel.axhline(peak(loss_at_once, h, E, targets), color="C1", label="all words at once")
gradients = (h.nbytes + E.nbytes) / 1e6
panel.axhline(gradients, color="0.4", lw=0.8, ls="--", label="the gradients alone")
panel.set(xlabel="words in a block", ylabel="peak memory in MB")
panel.legend(loc="center left")
plt.show()

# %% [markdown]
# The package does this in tiles, blocks of rows and of words, as soon as the logits are
# large: `fused.linear_cross_entropy`. On the tape it gives the same gradients:

# %%
with Tape() as tape:
    watched = tape.watch(h), tape.watch(E)
    total = p.sum(fused.linear_cross_entropy(*watched, targets, block=500))
theirs = tape.gradient(total, list(watched))
[
    np.allclose(one, other, rtol=1e-9)
    for one, other in zip(theirs, whole[1:], strict=True)
]

# %% [markdown]
# ## Dropout and tying
#
# Two more lines of the paper's recipe:
#
# > We used 512 (with 0.5 dropout) as the word embedding sizes, and tied the word
# > embedding matrix parameters to the output softmax.
#
# **Dropout** makes each number 0 with a probability $r$, and draws anew at each
# training step. A network that may lose any of its units at any time cannot rely on a
# few of them that happen to know the text by heart. The numbers that stay are divided
# by $1 - r$, so that the mean is what it was. In the test nothing is dropped. With a
# mask of zeros and ones, for which we write $m$ now:
#
# $$\tilde x = \frac{m \circ x}{1 - r} \qquad
# \frac{\partial \ell}{\partial x} = \frac{m}{1 - r} \circ
# \frac{\partial \ell}{\partial \tilde x}$$
#
# **Tying** uses one table for two things: $E' = E$. A word's vector says what the word
# means to the core when it is read, and which outputs of the core predict it. Backward,
# the table gets the sum of both gradients, like any value that is used twice (chapter
# 3). Tying needs vectors as wide as the output, and saves many parameters.
#
# Here is the whole network. The output needs small word vectors, or its first guesses
# would be wild. The core needs inputs of about size 1. One factor on the inputs,
# $\sqrt d$, serves both.


# %%
class LanguageModel(nn.Module):
    """Word vectors, a core as wide as they are, and a softmax over all words."""

    def __init__(self, core, tied=True, dropout=0.3, seed=0):
        random, d = np.random.default_rng(seed), core.output_size
        self.core, self.dropout = core, dropout
        self.read = nn.Embedding(V, d, seed=random)  # E, of size 1 / sqrt(d)
        self.write = self.read if tied else nn.Embedding(V, d, seed=random)  # E'
        self.bias = Parameter(np.zeros(V, np.float32))

    def __call__(self, ids, state, random=None):
        """ids (B, T) -> logits (B T, V), state. With `random` numbers are dropped."""
        d = self.core.output_size
        x = self.drop(self.read(ids) * d**0.5, random)  # (B, T, d)
        outputs, state = self.core.unroll(x, state)
        h = self.drop(p.stack(outputs, axis=1), random)  # (B, T, d)
        logits = p.reshape(h, (-1, d)) @ p.transpose(self.write.weight) + self.bias
        return logits, state

    def drop(self, x, random):
        if random is None or not self.dropout:
            return x
        kept = random.random(x.shape) >= self.dropout
        return x * (kept / (1 - self.dropout)).astype(np.float32)


def lstm(seed, **more):
    return LanguageModel(LSTM(64, 64, seed=seed), seed=seed, **more)


def rmc(seed, **more):
    core = RelationalMemory(64, mem_slots=1, head_size=16, num_heads=4, seed=seed)
    return LanguageModel(core, seed=seed, **more)


for name, model in {"LSTM": lstm(0), "RMC": rmc(0)}.items():
    inside = model.core.num_parameters
    print(f"{name}: {model.num_parameters:,} parameters, {inside:,} in the core")
print(f"LSTM, not tied: {lstm(0, tied=False).num_parameters:,}")

# %% [markdown]
# Like the paper's, our RMC has one slot and four heads. With one slot there is nothing
# among slots to attend to: at each step the memory attends to itself and to the word
# that comes in. The paper does not claim that this is best:
#
# > The reasons for choosing a single memory here were mainly due to the need for a
# > large number of parameters for LM in general (hence the large size for the single
# > memory slot), and the inability to quickly run a model with both a large number of
# > parameters and multiple memory slots.
#
# Next comes the measure. It reads the whole of a text, each word once, and carries the
# state all the way:


# %%
def probabilities(model, ids, T=100):
    """p of each word after the first, given all before it: (n - 1,)."""
    found, state = [], model.core.initial_state(1)
    for start in range(0, len(ids) - 1, T):
        after = ids[start + 1 : start + T + 1]
        logits, state = model(ids[None, start : start + len(after)], state)
        losses, _ = my_cross_entropy(logits.data, after)
        found.append(np.exp(-losses.astype(float)))
        state = numbers_of(state)
    return np.concatenate(found)


# %% [markdown]
# ## Writing
#
# A model that knows $p(w_t \mid w_{<t})$ can write: draw a word, read it, draw the
# next. Often the draw is made sharper or flatter with a *temperature* $\tau$:
#
# $$p_j \propto e^{z_j / \tau}$$
#
# At $\tau = 1$ the model speaks as it believes. Towards 0 only the likeliest word is
# left, and for large $\tau$ all words become equally likely.
#
# **Exercise 6.** Draw a word. So that your draw can be checked, you get the random
# number $u$. Lay the probabilities side by side on a line from 0 to 1, and see in which
# word's piece $u$ lies.


# %%
def sample(logits, temperature, u):
    """logits (V,), temperature >= 0, 0 <= u < 1 -> the number of a word."""
    ...


ex.sample.check(sample)
my_sample = ex.sample.yours(sample)


# %%
def prose(words):
    """Words as a text: no space before a comma, and lines that fit."""
    text = re.sub(r" ([,.;:!?)])", r"\1", " ".join(words)).replace("<eos>", "/")
    return textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="    ")


def write(model, prompt, count, temperature=0.8, seed=0):
    """The prompt and `count` more words; <unk> is never drawn."""
    random, state = np.random.default_rng(seed), model.core.initial_state(1)
    ids = [*vocabulary.encode(prompt)]
    unread = ids[:]
    for u in random.random(count):
        logits, state = model(np.array([unread]), numbers_of(state))
        z = logits.data[-1].astype(float)
        z[UNK] = -np.inf
        ids.append(my_sample(z, temperature, u))
        unread = ids[-1:]
    return prose(vocabulary.decode(ids))


# %% [markdown]
# ## Training, live
#
# Both cores are 64 wide. The two networks have about the same number of parameters,
# though the RMC itself has a quarter more than the LSTM. Both get the same treatment:
# 20 lanes, windows of 25 words, Adam with a learning rate that falls from 0.01 to a
# tenth of that, and ten times through the text (ten *epochs*). There are two seeds of
# each, and we show all four runs. `hear` lets seed 0 of each write a line before,
# during and after the training, each time with the same random numbers.
#
# **Write down first:** which core has the lower perplexity on the validation text in
# the end, and how low is it? The floors are printed above.

# %%
guess = {"LSTM": ..., "RMC": ...}

# %%
EPOCHS, LANES, WINDOW = course.fast(10, 1), 20, 25
PROMPT = "the queen"


def train(model, seed, hear=None):
    """Trains. Returns rows of (epoch, training loss, validation perplexity)."""
    inputs, targets = my_windows(course.fast(TRAIN, TRAIN[:3000]), LANES, WINDOW)
    adam, random = optim.Adam(model.parameters()), np.random.default_rng(seed)
    steps, step, rows = EPOCHS * len(inputs), 0, []
    for epoch in range(EPOCHS):
        state, losses = model.core.initial_state(LANES), []
        for x, y in zip(inputs, targets, strict=True):
            with Tape() as tape:
                logits, state = model(x, state, random)
                loss = p.mean(my_loss(logits, y.reshape(-1)))
            state = numbers_of(state)
            adam.zero_grad()
            tape.backward(loss)
            adam.step(learning_rate=0.01 * (1 - 0.9 * step / steps), max_norm=1.0)
            losses.append(float(loss.data))
            step += 1
        if epoch == 0 or (epoch + 1) % 2 == 0:
            validation = my_perplexity(probabilities(model, VALIDATION))
            rows.append((epoch + 1, np.mean(losses), validation))
        if hear and epoch in (0, EPOCHS - 1):
            hear(epoch + 1)
    return np.array(rows)


models, curves = {}, {}
for name, make in {"LSTM": lstm, "RMC": rmc}.items():
    for seed in (0, 1):
        model = models[name, seed] = make(seed)

        def hear(epochs, name=name, model=model):
            print(f"{name}, after {epochs} of {EPOCHS} epochs:")
            print(write(model, PROMPT, 30))

        if seed == 0:
            hear(0)
        curves[name, seed] = train(model, seed, hear if seed == 0 else None)

# %% [markdown]
# (A `/` is the end of a paragraph, and the same `'` opens and closes a quotation.) At
# first all words are about equally likely. After one time through the book the frequent
# words are there, commas and quotation marks among them. In the end there are phrases,
# and people who say something. What they say makes no sense, not even Lewis Carroll's.
# And the numbers?

# %% tags=["hide-input"] alt="Perplexity against epochs for two seeds of LSTM and RMC: on the left the training text with dropout, on the right the validation text, where all four fall below the bigram's dashed line within a few epochs, and below the dotted line of five counted words in the end"
# Draws the curves of both networks
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4), sharey=True)
for (name, seed), rows in curves.items():
    epochs, losses, validation = rows.T
    look = {"color": {"LSTM": "C0", "RMC": "C1"}[name], "marker": "o", "ms": 3}
    look["label"] = name if seed == 0 else None
    panels[0].plot(epochs, np.exp(losses), **look)
    panels[1].plot(epochs, validation, **look)
for name, dashes in {"bigram": "--", "five words": ":"}.items():
    floor = my_perplexity(floors[name]["validation"])
    panels[1].axhline(floor, color="0.4", lw=1, ls=dashes, label=name)
titles = "training text, with dropout", "validation text"
for panel, title in zip(panels, titles, strict=True):
    panel.set(title=title, xlabel="epochs", yscale="log")
    panel.set_yticks((40, 60, 100, 200), ("40", "60", "100", "200"), minor=False)
    panel.minorticks_off()
panels[0].set_ylabel("perplexity")
panels[1].legend()
plt.show()

# %%
given = {
    (name, seed, part): probabilities(model, corpus.texts[part])
    for (name, seed), model in models.items()
    for part in ("validation", "test")
}
table = [["", "seed", "validation", "test"]]
for name, on in floors.items():
    table.append([name, "", *(f"{my_perplexity(on[part]):.1f}" for part in on)])
for name, seed in models:
    both = (given[name, seed, part] for part in ("validation", "test"))
    table.append([name, str(seed), *(f"{my_perplexity(each):.1f}" for each in both)])
print(aligned(table))
for name in guess:
    beside(name, f"{my_perplexity(given[name, 0, 'validation']):.1f}")

# %% [markdown]
# Both cores are far below the bigram. They are also below the count of five words, but
# not by much: on so short a text good counting is hard to beat. These runs do not say
# which core is the better one: the LSTM's two seeds are as far apart as the cores are.
# With one seed each, we might have told you a story. Besides, a step of the RMC takes
# more arithmetic than a step of the LSTM. In the same time, the LSTM could have been
# larger or could have read the book more often.
#
# What does a temperature do? Below are the RMC's probabilities for the word after "the
# queen", and what it writes.

# %% alt="The probabilities of the ten likeliest words after the queen at temperatures 0.5, 1 and 2: at 0.5 the first word has most of it, at 2 all ten are low and nearly alike"
model = models["RMC", 0]
logits, _ = model(vocabulary.encode(PROMPT)[None], model.core.initial_state(1))
z = logits.data[-1].astype(float)
likeliest = np.argsort(-z)[:10]
figure, panel = plt.subplots(figsize=(8, 2.8))
for k, temperature in enumerate((0.5, 1.0, 2.0)):
    share = np.exp((z - z.max()) / temperature)
    share = (share / share.sum())[likeliest]
    place = np.arange(10) + 0.27 * (k - 1)
    panel.bar(place, share, 0.25, label=f"temperature {temperature}")
panel.set_xticks(range(10), vocabulary.decode(likeliest))
panel.set(ylabel="probability", title=f"after “{PROMPT}”")
panel.legend()
plt.show()

# %%
for temperature in (0, 0.5, 1.0, 2.0):
    print(f"temperature {temperature}:")
    print(write(model, PROMPT, 30, temperature))

# %% [markdown]
# At 0 it falls into a loop, and at 2 nearly any word may follow any other.
#
# ## Do dropout and tying help?
#
# Above, both were on. Now we train the LSTM without one, without the other, and without
# both, from seed 0.
#
# **Write down first:** which of the four has the lowest perplexity on the *training*
# text, and which on the test text? (Here nothing is dropped, not even on the training
# text, so that you can compare the numbers.)

# %%
guess = {"lowest on the training text": ..., "lowest on the test text": ...}

# %%
variants = {
    "tied, dropout": models["LSTM", 0],
    "tied, no dropout": lstm(0, dropout=0),
    "not tied, dropout": lstm(0, tied=False),
    "not tied, no dropout": lstm(0, tied=False, dropout=0),
}
of_variants = {"tied, dropout": curves["LSTM", 0]}
table = [["LSTM", "parameters", "training", "validation", "test"]]
measured = course.fast(TRAIN, TRAIN[:3000]), VALIDATION, TEST
on_training, on_test = {}, {}
for name, model in variants.items():
    if name not in of_variants:
        of_variants[name] = train(model, 0)
    found = [my_perplexity(probabilities(model, ids, T=500)) for ids in measured]
    on_training[name], _, on_test[name] = found
    numbers = [f"{each:.1f}" for each in found]
    table.append([name, f"{model.num_parameters:,}", *numbers])
print(aligned(table))
beside("lowest on the training text", min(on_training, key=on_training.get))
beside("lowest on the test text", min(on_test, key=on_test.get))

# %% tags=["hide-input"] alt="Validation perplexity against epochs for four LSTMs: without tying and dropout it falls fastest, and is the only one to rise again in the end"
# Draws the four curves
figure, panel = plt.subplots(figsize=(7, 3.2))
for name, rows in of_variants.items():
    panel.plot(rows[:, 0], rows[:, 2], "o-", ms=3, label=name)
panel.set(xlabel="epochs", ylabel="validation perplexity")
panel.set(ylim=(35, 65))
panel.legend()
plt.show()

# %% [markdown]
# The network without either knows its own text best and the test text worst. It
# overfits: its validation perplexity turns around and rises while the training loss
# still falls. Dropout and tying close part of the gap between training and test, each
# by itself and more so together. On the test text each helps as well, but both together
# help no more than one. A network that is held back also learns more slowly, and with
# both the curve is still falling at the end. With a larger network and a longer
# training there may be more to gain. We have not tested that.
#
# ## How much of the past is used?
#
# The paper asks this of its trained networks (figure 12): cut the test text into pieces
# of $T$ words, begin each piece with a fresh state, and see how much worse the
# predictions become. It reports
#
# > a regression of 1 perplexity for the RMC vs 5 for the LSTM at 100 time steps. This
# > suggests it is focusing on more recent words in the text.
#
# **Write down first:** our networks were trained on windows of 25 words. From which $T$
# on does a fresh state cost less than one perplexity?

# %%
guess = {"LSTM": ..., "RMC": ...}

# %% alt="Test perplexity against the length of the pieces, each with a fresh state, for two seeds of LSTM and RMC: highest for single words, falling steeply until about ten words, nearly level from fifty on"
lengths = course.fast((1, 2, 5, 10, 25, 50, 100, 250, 500, 2500), (1, 50, 500, 2500))
most = 2500  # all pieces together: the same words for every length
figure, panel = plt.subplots(figsize=(7, 3.4))
for (name, seed), model in models.items():
    found = []
    for T in lengths:
        pieces = TEST[:most].reshape(-1, T)
        logits, _ = model(pieces, model.core.initial_state(len(pieces)))
        losses, _ = my_cross_entropy(logits.data, TEST[1 : most + 1])
        found.append(my_perplexity(np.exp(-losses.astype(float))))
    look = {"color": {"LSTM": "C0", "RMC": "C1"}[name], "marker": "o", "ms": 3}
    panel.semilogx(lengths, found, label=name if seed == 0 else None, **look)
    if seed == 0:
        near = np.array(found) < found[-1] + 1
        beside(name, f"from {lengths[np.argmax(near)]} words on")
panel.set(xlabel="words in a piece", ylabel="test perplexity")
panel.legend()
plt.show()

# %% [markdown]
# With $T = 1$ a network is a bigram, and here a poorer one than the bigram that
# counted. Ten words bring most of the gain. The paper's networks are far larger and
# were trained on windows of 100 words, and still "both models incorporate little
# information beyond 500 words". And what the paper saw between the cores, we see here
# too, in both seeds: without its state the RMC loses much less than the LSTM. A state
# that matters less for the prediction can be a strength or a weakness. Only the right
# end of the curves says which core predicts better, and there they meet.
#
# ## Rare words
#
# Table 3 of the paper splits the test perplexity on GigaWord by how often a word occurs
# in the training text: "words are bucketed by the number of times they occur in
# training set". We do not repeat its numbers, but here is what the paper reads from it:
#
# > we see the RMC improved the modeling of frequent words, and this is where the drop
# > in overall perplexity is obtained.
#
# Here is the same for our book. The mean loss over all words is the mean of the
# buckets' losses, weighted by their shares.

# %%
after = TEST[1:]
seen = vocabulary.counts[after]
buckets = {
    "more than 1,000": seen > 1000,
    "101 to 1,000": (seen > 100) & (seen <= 1000),
    "11 to 100": (seen > 10) & (seen <= 100),
    "2 to 10": (seen >= 2) & (seen <= 10),
}
unknown = after == UNK
buckets = {name: where & ~unknown for name, where in buckets.items()}
buckets |= {"<unk>": unknown, "all": np.full(len(after), True)}
columns = {name: floors[name]["test"] for name in ("bigram", "five words")}
columns |= {f"{name} {seed}": given[name, seed, "test"] for name, seed in models}
table = [["training count", "share", *columns]]
for bucket, where in buckets.items():
    values = [f"{my_perplexity(each[where]):,.1f}" for each in columns.values()]
    table.append([bucket, f"{where.mean():.1%}", *values])
print(aligned(table))

# %% [markdown]
# Frequent words are easy, rare ones hopeless: a word that has been read ten times at
# most leaves little to go by. The mean is taken over the words of the text, and most of
# these are frequent. So a model can win in the upper rows and lose in a lower one, and
# the mean does not show it. On `<unk>` the networks do worse than both ways of
# counting.
#
# ## What has been measured
#
# Here is the paper's table 2, with validation and test perplexity. Below it stands what
# this project has trained to the end (`benchmarks/results/language_modeling.json`),
# each number the mean of its seeds. Perplexities of different texts, or of different
# vocabularies, cannot be compared.

# %%
# Validation and test on WikiText-103, the same on Gutenberg, test on GigaWord
TABLE_2 = {
    "LSTM (Rae et al. 2018)": ("34.1", "34.3", "41.8", "45.5", "43.7"),
    "LSTM (Grave et al. 2016)": ("", "48.7", "", "", ""),
    "Temporal CNN": ("", "45.2", "", "", ""),
    "Gated CNN": ("", "37.2", "", "", ""),
    "Quasi-RNN": ("32", "33", "", "", ""),
    "RMC": ("30.8", "31.6", "39.2", "42.0", "38.3"),
}
texts = ["the paper", "WikiText-103", "", "Gutenberg", "", "GigaWord"]
columns = ["", "validation", "test", "validation", "test", "test"]
rows = [[name, *(each or "-" for each in row)] for name, row in TABLE_2.items()]
print(aligned([texts, columns, *rows]))

# %%
# What was run here: what is not there yet is left out
rows = [["text", "preset", "validation", "test", "seeds"]]
for group in course.summary("language_modeling").get("groups", []):
    mean, text = group["mean"], group["config"]["data"]["corpus"]
    both = [f"{mean[f'{split}_perplexity']:.1f}" for split in ("validation", "test")]
    rows.append([text, group["label"], *both, str(len(group["runs"]))])
print(aligned(rows))

# %%
# The test text of seed 0 by how often a word stands in the training text
for core in ("lstm", "rmc"):
    found = course.summary(f"language_modeling_{core}").get("examinations", {})
    if table := found.get("by frequency"):
        rows = [
            [name, f"{words:,}", share, f"{perplexity:,.1f}"]
            for name, words, share, perplexity in table["rows"]
        ]
        print(aligned([[core, *table["columns"][1:]], *rows]), "\n")

# %% [markdown]
# The paper's RMC has 2,500 units and read a hundred million words and more. Ours above
# have 64 units and read twenty-nine thousand words ten times; on so little text the two
# cores are level. On the Penn Treebank, with a million words and 256 units, the RMC is
# ahead: with each of three seeds, and with seed 0 on frequent and rare words alike.
# Note also that the paper did not train the LSTMs in its table: their figures are
# quoted from other papers, with other settings. And in a public port of the RMC to
# [WikiText-2](../benchmarks/language_modeling.md#wikitext-2) the LSTM is ahead, with a test
# perplexity of 105.6 to the RMC's 107.2. But there the RMC forgets everything after
# each hundred words, and the LSTM does not. Ours comes to 107.3 in seven epochs, and an
# LSTM in the same seven to 141. Nobody has looked for a recipe that suits that LSTM.
#
# ## In the package
#
# The task is the file `tasks/language_modeling.py`. It has the same lanes and windows,
# and nearly the same network. That network may have several layers, and its word
# vectors have the factor $\sqrt d$ only with `--model.scaled`. The masks of dropout
# come from its `noise`, which has a seed for each lane, so that they do not depend on
# the number of workers.

# %%
course.show(load_task("language_modeling").Network.unroll)

# %% [markdown]
# | | |
# |---|---|
# | `python -m tinyrmc data` | says which texts are here, and how to get others |
# | `python -m tinyrmc.train language_modeling` | trains on the Penn Treebank |
# | `python -m tinyrmc generate RUN "The"` | writes, a word at a time |
#
# ## Takeaways
#
# - Perplexity is one over the geometric mean of the probabilities of what came. It
#   belongs to a text, a vocabulary and a way of cutting words.
# - Lanes and windows let a network read one long text in parallel. Forward nothing is
#   lost as long as the state is carried; backward everything stops at the beginning of
#   the window.
# - The gradient of softmax and cross-entropy is $p - y$.
# - The full softmax costs time in proportion to the vocabulary. Its memory need not
#   grow: what is cheap to make again need not be kept.
# - Look at the training text's perplexity beside the others'. Dropout and tying make
#   the gap between them smaller.
#
# **Further.** Let the bigram and the RMC vote, with the mean of their probabilities: is
# its perplexity below those of both? Carry the state, but mix up the order of the
# windows: is that worse than a fresh state for each window? Which words does the RMC
# predict much better than the LSTM, and which worse? How many draws of your `sample`
# does it take to see a word of probability 0.001?

# %% tags=["hide-cell"]
# Answer 1: yes. They err in different places, so their mean is seldom as wrong as
# either: counting knows pairs that the network has not learnt, and the network knows
# what stood further back.
network, counted = given["RMC", 0, "test"], floors["bigram"]["test"]
both = {"bigram": counted, "RMC": network, "their mean": (counted + network) / 2}
for name, each in both.items():
    print(f"{name:10} {my_perplexity(each):6.1f}")

# %% tags=["hide-cell"]
# Answer 2: no better and no worse. A state from the wrong place is a memory of
# something else, and a few words later it is written over. Three ways to read the same
# windows of 25 words:
count = course.fast(100, 5)
read, follow = (TEST[k : k + 25 * count].reshape(count, 25) for k in (0, 1))
mixed_up = np.random.default_rng(0).permutation(count)


def perplexity_of(order, carry):
    """Of the RMC, reading the windows in this order."""
    model, found = models["RMC", 0], []
    state = begin = model.core.initial_state(1)
    for k in order:
        logits, state = model(read[k][None], state if carry else begin)
        losses, _ = my_cross_entropy(logits.data, follow[k])
        found.append(np.exp(-losses.astype(float)))
        state = numbers_of(state)
    return my_perplexity(np.concatenate(found))


print(f"in order, carried:     {perplexity_of(range(count), True):.1f}")
print(f"a fresh state for each:{perplexity_of(range(count), False):6.1f}")
print(f"mixed up, carried:     {perplexity_of(mixed_up, True):.1f}")

# %% tags=["hide-cell"]
# Answer 3: the mean difference of the logarithms of both probabilities, for words that
# come often enough to say something. It is one pair of networks and a short text: do
# not read too much into single words.
gain = np.log(given["RMC", 0, "test"]) - np.log(given["LSTM", 0, "test"])
frequent = np.flatnonzero(np.bincount(after, minlength=V) > 20)
by_gain = sorted(frequent, key=lambda word: gain[after == word].mean())
for title, words in (("better", by_gain[::-1][:6]), ("worse", by_gain[:6])):
    found = [f"{vocabulary.words[w]} {gain[after == w].mean():+.2f}" for w in words]
    print(f"{title}:", ", ".join(found))

# %% tags=["hide-cell"]
# Answer 4: a thousand on average. But chance has no memory: half of all attempts need
# fewer than 693.
rare = np.log(np.array([0.001, 0.999]))
firsts = []
for attempt in range(course.fast(200, 5)):
    uniform = np.random.default_rng([12, attempt]).random(20_000)
    firsts.append(
        1 + next(k for k, u in enumerate(uniform) if not my_sample(rare, 1, u))
    )
print(f"mean {np.mean(firsts):.0f}, median {np.median(firsts):.0f} draws")
