# %% [markdown]
# # 18. Rare words: one table, large vocabularies
#
# **Sections 5.4 and A.4, table 3.** About 110 minutes, in two sittings, with a minute
# of computing. You need chapter 17 (language modelling). In this chapter $c$ is a
# count, $D$ a discount, and $E$ the table of word vectors.
#
# Half of a text is made of two dozen words, and most words are rare. What can be known
# of a word that was read five times? How do two uses of one table help? And what does
# it cost to score 267,735 words at each step?

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Tape, course, fused, optim, primitives
from tinyrmc.corpora import ngrams
from tinyrmc.course.exercises import language
from tinyrmc.course.exercises import rare_words as ex
from tinyrmc.course.exercises.language import lstm, numbers_of
from tinyrmc.results.text import aligned

course.setup()
corpus = language.alice()
vocabulary = corpus.vocabulary
V, UNK, COUNTS = len(vocabulary), vocabulary.unk, vocabulary.counts
TRAIN, VALIDATION, TEST = corpus.texts.values()
names = "bigram", "perplexity", "windows", "one_epoch"
on_tape = {"Tape": Tape, "fused": fused, "primitives": primitives}
bigram, perplexity, windows, one_epoch = course.kept(
    "language", *names, **on_tape, numbers_of=numbers_of
)

# %% [markdown]
# On logarithmic axes the counts of words fall almost in a straight line. (*Zipf's
# law*.)

# %% tags=["hide-input"] alt="Left: the count of each word against its rank, both axes logarithmic, nearly a straight line from over two thousand down to two. Right: the share of the text that the most frequent words cover, half of it with some twenty-five words"
# Draws the counts
falling = np.sort(COUNTS)[::-1]
rank = np.arange(1, V + 1)
figure, (zipf, covered) = plt.subplots(1, 2, figsize=(9.5, 2.9))
zipf.loglog(rank, falling, ".", ms=3)
for k in (2, 10, 100, 1000):
    place = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 8}
    zipf.annotate(vocabulary.words[k], (rank[k], falling[k]), **place)
zipf.set(xlabel="rank of the word", ylabel="how often it occurs", xlim=(0.7, 2e4))
covered.semilogx(rank, np.cumsum(falling) / falling.sum())
covered.axhline(0.5, color="0.4", lw=0.8, ls="--")
covered.set(xlabel="number of most frequent words", ylabel="share of the text")
plt.show()

# %% [markdown]
# ## Counting well: Kneser and Ney
#
# Chapter 17's bigram falls back on the unigram. Look at what that does in a toy text,
# where `francisco` is frequent and stands after `san` alone.

# %%
toy = "i saw san francisco . i left san francisco . i like san francisco . you saw me ."
words = sorted({*toy.split()})
ids = np.array([words.index(word) for word in toy.split()])
unigram = np.bincount(ids, minlength=len(words)) / len(ids)
row = bigram(ids, unigram, 1.0)[words.index("like")]
print("after `like`, which came once, before `san`:")
print(", ".join(f"{words[k]} {row[k]:.2f}" for k in np.argsort(-row)[:5]))

# %% [markdown]
# It believes in `like francisco` more than in `like saw`, though `saw` has come after
# two words and `francisco` after one. Kneser and Ney (1995) do two things. They take a
# *discount* $D$ off each count that is not 0, say ½. What row $a$ saves that way goes
# to a fallback $f$:
#
# $$p(b \mid a) = \frac{\max(c(a\,b) - D, \, 0) + D \, n(a) \, f(b)}{c(a \, \cdot)}$$
#
# Here $c(a\,\cdot)$ is how often anything came after $a$, and $n(a)$ how many
# *different* words did. And they ask: which $f$ makes the model expect each word, over
# the whole text, as often as it came? That is,
# $\sum_a c(a \, \cdot) \, p(b \mid a) = c(\cdot \, b)$.
#
# **Exercise 1.** Put the one into the other, and solve for $f(b)$. What does it count?
# Then write the table. (A word after which nothing came has the row $f$.)


# %%
def kneser_ney(ids, V, discount):
    """ids (n,), words below V, 0 <= discount < 1 -> p(b | a) (V, V), row a."""
    ...


ex.kneser_ney.check(kneser_ney)
kneser_ney = ex.kneser_ney.yours(kneser_ney)

# %% [markdown]
# **Write down first:** which is ahead now, `like francisco` or `like saw`? And which of
# the two bigrams has the lower perplexity on Alice's validation text?

# %% tags=["hide-output"]
row = kneser_ney(ids, len(words), 0.5)[words.index("like")]
print(", ".join(f"{words[k]} {row[k]:.2f}" for k in np.argsort(-row)[:5]))
shares = np.bincount(TRAIN, minlength=V) / len(TRAIN)
rows, after = VALIDATION[:-1], VALIDATION[1:]
old = {
    k: bigram(TRAIN, shares, k)[rows, after] for k in course.fast((10, 18, 32), (18,))
}
new = {
    D: kneser_ney(TRAIN, V, D)[rows, after]
    for D in course.fast((0.6, 0.75, 0.9), (0.75,))
}
print("with imagined words:", {k: f"{perplexity(p):.1f}" for k, p in old.items()})
print("Kneser and Ney:     ", {D: f"{perplexity(p):.1f}" for D, p in new.items()})

# %% [markdown]
# The package's model does the same for five words, each order falling back on the next
# shorter one, with three discounts for counts of 1, 2 and more (Chen and Goodman 1998).
#
# ## Where a model is good
#
# The paper sorts the words of a test by how often they stand in the training text, and
# finds that "the RMC improved the modeling of frequent words, and this is where the
# drop in overall perplexity is obtained" (table 3). Train two small LSTMs, and look.


# %%
def probabilities(model, ids, T=250):
    """p of each word after the first, given all before it: (n - 1,)."""
    found, state = [], model.core.initial_state(1)
    for start in range(0, len(ids) - 1, T):
        after = ids[start + 1 : start + T + 1]
        logits, state = model(ids[None, start : start + len(after)], state)
        found.append(np.exp(-fused.softmax_cross_entropy(logits, after).data))
        state = numbers_of(state)
    return np.concatenate(found).astype(float)


EPOCHS = course.fast(10, 1)


def trained(seed, epochs=EPOCHS, **more):
    """A trained LSTM, and its validation perplexity after each epoch."""
    model = lstm(V, seed, **more)
    inputs, targets = windows(course.fast(TRAIN, TRAIN[:3000]), 20, 25)
    adam, random = optim.Adam(model.parameters()), np.random.default_rng(seed)
    rates = np.linspace(0.01, 0.001, epochs * len(inputs)).reshape(epochs, -1)
    curve = []
    for rate in rates:
        one_epoch(model, adam, inputs, targets, rate, random)
        curve.append(perplexity(probabilities(model, VALIDATION)))
    return model, curve


models = {("tied, dropout", seed): trained(seed) for seed in (0, 1)}

# %% [markdown]
# **Write down first:** where do the networks win against five counted words, among the
# frequent or the rare ones? And on `<unk>`?

# %% tags=["hide-output"]
five_words = ngrams.KneserNey(TRAIN, V, order=5)
after = TEST[1:]
columns = {
    "bigram": kneser_ney(TRAIN, V, 0.75)[TEST[:-1], after],
    "five words": np.exp(five_words.log_probabilities(TEST)[1:]),
}
for (_, seed), (model, _) in models.items():
    columns[f"LSTM {seed}"] = probabilities(model, TEST)
seen, unknown = COUNTS[after], after == UNK
buckets = {
    "more than 1,000": seen > 1000,
    "101 to 1,000": (seen > 100) & (seen <= 1000),
    "11 to 100": (seen > 10) & (seen <= 100),
    "2 to 10": (seen >= 2) & (seen <= 10),
}
buckets = {name: where & ~unknown for name, where in buckets.items()}
buckets |= {"<unk>": unknown, "all": np.full(len(after), True)}
table = [["training count", "share", *columns]]
for bucket, where in buckets.items():
    values = [f"{perplexity(each[where]):,.1f}" for each in columns.values()]
    table.append([bucket, f"{where.mean():.1%}", *values])
print(aligned(table))

# %% [markdown]
# Both networks win on frequent words and lose on the rarest and on `<unk>`. The mean is
# taken over the text, and most of a text is frequent words, so it does not show that.
# Rare words are hopeless for all: ten readings leave so little to go by that a blind
# guess among all 1,341 words would do better.
#
# ## Word vectors
#
# What does the network know of a word? Words that are used alike should have vectors
# that point the same way.
#
# **Exercise 2.** Find the nearest ones by the *cosine*, the dot product of both vectors
# divided by their lengths.


# %%
def nearest(E, word, count):
    """E (V, d), the number of a word -> numbers of others (count,), nearest first."""
    ...


ex.nearest.check(nearest)
nearest = ex.nearest.yours(nearest)

# %% [markdown]
# **Write down first:** what stands nearest to `she`, to `said`, to `queen`? And to
# `beautifully`, which the text has twice?

# %% tags=["hide-output"]
E = models["tied, dropout", 0][0].read.weight.data
for word in ("she", "said", "!", "queen", "beautifully"):
    found = nearest(E, vocabulary.words.index(word), 5)
    print(f"{word:7}", *(vocabulary.words[k] for k in found))

# %% [markdown]
# In this one network persons stand beside persons and speaking beside speaking, and
# nobody told it. A word that was read twice has found no kind.
#
# **This is a good place to stop.**
#
# ## One table, two uses
#
# *Tying* takes one table for the words that are read and for those that are predicted,
# $E' = E$: two sources to learn a rare word from, and far fewer parameters.
#
# **Exercise 3.** The table reads, $x = E_{\text{ids}}$, and it makes the logits,
# $z = h E^\top$. You have the gradients of $x$ and of $z$. Derive that of $E$.


# %%
def tied_vjp(ids, dx, h, dz):
    """ids (R,), dx and h (R, d), dz (R, V) -> the gradient of E (V, d)."""
    ...


ex.tied_vjp.check(tied_vjp)
tied_vjp = ex.tied_vjp.yours(tied_vjp)

# %% [markdown]
# *Dropout* makes each number 0 with a probability $r$ and draws anew at each training
# step, so that no unit can rely on another that happens to know the text by heart. What
# stays is divided by $1 - r$, so that the mean is what it was; in the test nothing is
# dropped. The paper has both, with $r = 0.5$. Do they help? We take two seeds, for one
# would tell us nothing. **Write down first:** which of the four has the lowest
# perplexity on the *training* text, and which on the test text?

# %% tags=["hide-output"]
kinds = {
    "tied, no dropout": {"dropout": 0},
    "not tied, dropout": {"tied": False},
    "not tied, no dropout": {"tied": False, "dropout": 0},
}
for name, more in kinds.items():
    for seed in (0, 1):
        models[name, seed] = trained(seed, **more)
table = [["", "parameters", "training", "", "test", ""]]
for name in ("tied, dropout", *kinds):
    both = [models[name, seed][0] for seed in (0, 1)]
    cells = [
        f"{perplexity(probabilities(model, ids)):.1f}"
        for ids in (course.fast(TRAIN, TRAIN[:3000]), TEST)
        for model in both
    ]
    table.append([name, f"{both[0].num_parameters:,}", *cells])
print(aligned(table))

# %% tags=["hide-input", "hide-output"] alt="Validation perplexity against epochs for four kinds of LSTM, two seeds each: without tying and dropout it falls fastest and rises again from the seventh epoch on; the others still fall or are level in the end"
# Draws the curves of all eight
figure, panel = plt.subplots(figsize=(8, 3.2))
for number, name in enumerate(("tied, dropout", *kinds)):
    for seed in (0, 1):
        curve = models[name, seed][1]
        look = {"color": f"C{number}", "ls": "-" if seed else "--"}
        label = None if seed else name
        panel.plot(range(1, len(curve) + 1), curve, label=label, **look)
panel.set(
    xlabel="epochs", ylabel="validation perplexity", xlim=(0.8, 10.2), ylim=(38, 60)
)
panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# The network without either knows its own text best and the test text worst, with both
# seeds: its validation perplexity turns around and rises. Who keeps the weights of the
# best epoch, and stops when it has long been past, does *early stopping*, the oldest
# remedy. (Our numbers are of the last epoch, so part of what the other two gain would
# be gained by stopping.) Each of tying and dropout holds it back, and helps, with both
# seeds. Both together learn more slowly, and end about where one of them does: which of
# the three is best we have not shown, nor what a longer training gains.
#
# ## Many words
#
# An LSTM with $d$ inputs and $d$ units multiplies $8 d^2$ pairs of numbers for each
# word, and its softmax over $V$ words $V d$. **Write down first:** what share of the
# work is the softmax, for the paper's width of 512 and WikiText-103's 267,735 words?

# %% tags=["hide-input", "hide-output"] alt="The softmax's share of all multiplications against the size of the vocabulary for LSTMs of 64, 512 and 2,500 units: each rises to near 1, and at 267,735 words all are above nine tenths"
# Draws the softmax's share, and prints it for WikiText-103
vocabularies = np.geomspace(100, 1e6, 100)
figure, panel = plt.subplots(figsize=(7, 3))
for width in (64, 512, 2500):
    softmax, core = vocabularies * width, 8 * width**2
    panel.semilogx(vocabularies, softmax / (softmax + core), label=f"{width:,} units")
    print(f"{width:5,} units, 267,735 words: {267_735 / (267_735 + 8 * width):.1%}")
for size, name in ((V, "this book"), (10_000, "PTB"), (267_735, "WikiText-103")):
    panel.vlines(size, 0, 1.01, color="0.6", lw=0.8, ls=":")
    panel.text(size, 1.03, name, ha="center", fontsize=9, color="0.4")
panel.set(xlabel="words of the vocabulary", ylabel="the softmax's share", ylim=(0, 1.1))
panel.legend(loc="lower right")
plt.show()

# %% [markdown]
# Two ways out. A *sampled softmax* puts, in training, a few drawn words in place of
# the whole sum. An *adaptive softmax* (Grave and others 2016) uses Zipf's law: a small
# *head* knows the frequent words and one answer more, "a rare one". Only where that
# came, a *tail* says which. (To save the memory of a full softmax is another matter;
# chapter 23 does it.)
#
# **Exercise 4.** Logits of head and tail are given. Make the logarithms of all
# probabilities, for logits of any size.


# %%
def two_level(head, tail):
    """head (..., k + 1), its last column for "rare"; tail (..., V - k) -> (..., V)."""
    ...


ex.two_level.check(two_level)
two_level = ex.two_level.yours(two_level)

# %% [markdown]
# How large should the head be? With a larger one the tail is needed less often.
#
# **Exercise 5.** At each word the head takes $k + 1$ products of a vector with a
# vector, and the tail $V - k$ more where the word is rare. Find the cheapest $k$.


# %%
def cheapest_head(counts):
    """counts (V,), falling -> the k, from 1 to V - 1, with the fewest products."""
    ...


ex.cheapest_head.check(cheapest_head)
cheapest_head = ex.cheapest_head.yours(cheapest_head)

# %% [markdown]
# **Write down first:** for the 1,341 words of our book, and for 267,735 words with
# $c \propto 1 / \text{rank}$: how many times fewer products?

# %% tags=["hide-output"]
for name, counts in {
    "book": falling,
    "many words": 1e7 / np.arange(1, 267_736),
}.items():
    k = cheapest_head(counts)
    rare = 1 - counts[:k].sum() / counts.sum()
    products = k + 1 + rare * (len(counts) - k)
    print(f"{name}: a head of {k:,} of {len(counts):,} words; ", end="")
    print(f"rare {rare:.1%}; {len(counts) / products:.1f} times fewer products")

# %% [markdown]
# These are products counted, not a network trained: what the two levels cost in
# perplexity is not shown here. Several tails save more, and rare words may have
# narrower vectors (*adaptive softmax*, Grave and others 2017). Large language models go
# another way: they begin with single characters and join, again and again, the two
# neighbours that stand side by side most often in a text, until some ten thousand
# *pieces* are there (*byte pair encoding*, Sennrich and others 2016). A rare word is
# then several frequent pieces, and nothing is unknown.
#
# ## Takeaways
#
# - A good fallback counts after how many different words a word came, not how often.
# - A table that is used twice gets two gradients, which add up.
# - A mean over a text is a mean over frequent words. Look at the buckets.
#
# **Further.** Let five counted words and the LSTM vote, with the mean of their
# probabilities: is its perplexity below those of both? Which words does the LSTM
# predict much better than counting, and which worse?

# %% tags=["hide-cell"]
# Answer 1
# Yes. They err in different places, so their mean is seldom as wrong as either.
counted, network = columns["five words"], columns["LSTM 0"]
for name, each in {
    "five words": counted,
    "LSTM": network,
    "their mean": (counted + network) / 2,
}.items():
    print(f"{name:10} {perplexity(each):6.1f}")

# %% tags=["hide-cell"]
# Answer 2
# The mean difference of the logarithms, for words that come often enough to say
# something. It is one network and a short text: do not read too much into single words.
gain = np.log(network) - np.log(counted)
frequent = np.flatnonzero(np.bincount(after, minlength=V) > 20)
by_gain = sorted(frequent, key=lambda word: gain[after == word].mean())
for title, chosen in (("better", by_gain[::-1][:6]), ("worse", by_gain[:6])):
    found = [f"{vocabulary.words[w]} {gain[after == w].mean():+.2f}" for w in chosen]
    print(f"{title}:", ", ".join(found))
