# %% [markdown]
# # 18. Rare words: one table, large vocabularies
#
# **Sections 5.4 and A.4, table 3.** About 235 minutes, in four sittings, with two
# minutes of computing. You need chapter 17 (language modelling). In this chapter $c$ is
# a count, $D$ a discount, $V$ the number of words, $E$ the table of word vectors, and
# $k$ the size of a head.
#
# Half of a text is made of two dozen words and marks, and most words are rare. What can
# be known of a word that was read five times? Do two uses of one table help? And what
# does it cost to score 267,735 words at each step?

# %%
import collections

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import Tape, course, fused, nn, optim, primitives
from tinyrmc.cores import LSTM
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
for n in (2, 10, 100, 1000):
    place = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 8}
    zipf.annotate(vocabulary.words[n], (rank[n], falling[n]), **place)
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
print(", ".join(f"{words[b]} {row[b]:.2f}" for b in np.argsort(-row)[:5]))

# %% [markdown]
# It believes in `like francisco` more than in `like saw`, though `saw` has come after
# two words and `francisco` after one. Kneser and Ney (1995) mend it in two steps.
#
# **The first step: a discount.** They take a number $D$ off each count that is not 0,
# say ½. What row $a$ saves that way goes to a fallback $f$:
#
# $$p(b \mid a) = \frac{\max(c(a\,b) - D, \, 0) + D \, n(a) \, f(b)}{c(a \, \cdot)}$$
#
# Here $c(a\,b)$ is how often $b$ came right after $a$, $c(a\,\cdot)$ how often anything
# came after $a$, and $n(a)$ how many *different* words did: from each of these counts
# row $a$ has saved $D$.
#
# **Exercise 1.** Write the table for any fallback. A word after which nothing came has
# the row $f$. (The book's table has 1.8 million entries: a loop over all pairs of words
# takes seconds.)


# %%
def discounted(ids, V, discount, fallback):
    """ids (n,), words below V; 0 <= discount < 1; fallback f (V,), adding up to 1
    -> p(b | a) (V, V), row a.
    """
    ...


ex.discounted.check(discounted)
discounted = ex.discounted.yours(discounted)

# %% [markdown]
# **The second step: the fallback.** Which $f$ makes the model expect each word, over
# the whole text, as often as it came? That is, for every $b$
#
# $$\sum_a c(a \, \cdot) \, p(b \mid a) = c(\cdot \, b)$$
#
# where $c(\cdot\,b)$ is how often $b$ came after anything.
#
# **Exercise 2.** Put $p(b \mid a)$ into it. The denominators cancel. Which counts did
# the discount leave of $c(\cdot\,b)$, and so what must $f(b)$ be in proportion to?
# Count it.


# %%
def fallback(ids, V):
    """ids (n,), words below V -> f (V,), adding up to 1."""
    ...


ex.fallback.check(fallback)
fallback = ex.fallback.yours(fallback)


def kneser_ney(ids, V, discount):
    return discounted(ids, V, discount, fallback(ids, V))


# %% [markdown]
# **Write down first:** which is ahead now, `like francisco` or `like saw`? And which of
# the two bigrams has the lower perplexity on Alice's validation text?

# %% tags=["hide-output"]
row = kneser_ney(ids, len(words), 0.5)[words.index("like")]
print(", ".join(f"{words[b]} {row[b]:.2f}" for b in np.argsort(-row)[:5]))
shares = np.bincount(TRAIN, minlength=V) / len(TRAIN)
rows, after = VALIDATION[:-1], VALIDATION[1:]
old = {
    imagined: bigram(TRAIN, shares, imagined)[rows, after]
    for imagined in course.fast((10, 18, 32), (18,))
}
new = {
    D: kneser_ney(TRAIN, V, D)[rows, after]
    for D in course.fast((0.6, 0.75, 0.9), (0.75,))
}
print("with imagined words:", {n: f"{perplexity(p):.1f}" for n, p in old.items()})
print("Kneser and Ney:     ", {D: f"{perplexity(p):.1f}" for D, p in new.items()})

# %% [markdown]
# On the test text Kneser and Ney have 61.1, 59.8 and 60.1 with these three discounts,
# the bigram of chapter 17 74.0, 69.9 and 67.6 with 10, 18 and 32 imagined words. With
# the same discounts and the unigram as the fallback the perplexity is 63.6, 62.1 and
# 62.3. Of these, the strength of 32 and the discount of 0.75 are the best on the
# validation text. From 67.6 with that strength, this discount leads to 62.1, and the
# fallback from there to 59.8. (In chapter 17's longer row, too, 32 was the best. It is
# one text, and counting has no seeds.)
#
# The package's model does the same for five words, each order falling back on the next
# shorter one, with three discounts for counts of 1, 2 and more (Chen and Goodman 1998).
#
# **This is a good place to stop.**
#
# ## Where a model is good
#
# The paper sorts the words of a test by how often they stand in the training text, and
# finds that "the RMC improved the modeling of frequent words, and this is where the
# drop in overall perplexity is obtained" (table 3). It compares RMC and LSTM; we make
# such a table of an LSTM and of counting. Train two small LSTMs.


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


EPOCHS, READ = course.fast(10, 1, 2), course.fast(len(TRAIN), 3000, 12_000)


def trained(seed, make=lstm, epoch=one_epoch, **more):
    """A network with the weights of its best epoch, its validation perplexity after
    each epoch, and the test perplexity after the last.
    """
    model = make(V, seed, **more)
    inputs, targets = windows(TRAIN[:READ], 20, 25)
    adam, random = optim.Adam(model.parameters()), np.random.default_rng(seed)
    rates = np.linspace(0.01, 0.001, EPOCHS * len(inputs)).reshape(EPOCHS, -1)
    curve, best = [], []
    for rate in rates:
        epoch(model, adam, inputs, targets, rate, random)
        curve.append(perplexity(probabilities(model, VALIDATION)))
        if curve[-1] == min(curve):
            best = [each.data.copy() for each in model.parameters()]
    last = perplexity(probabilities(model, TEST))
    for parameter, data in zip(model.parameters(), best, strict=True):
        parameter.data[...] = data
    return model, curve, last


models = {("tied, dropout", seed): trained(seed) for seed in (0, 1)}

# %% [markdown]
# This is *early stopping*: keep the weights of the epoch in which the validation text
# was read best. (A program that need not draw curves stops when the best epoch is some
# epochs past.)
#
# The table below sorts the words of the test as the paper does, with one thing added.
# Of the four words that stand more than 1,000 times in our training text, two are a
# comma and a quotation mark, and one is `<unk>`. So punctuation marks with `<eos>`, the
# end of a paragraph, have a row of their own, and `<unk>` has one, too. The last column
# says by how many nats a word one network is ahead of five counted words. Both read the
# same words, so the difference is taken word by word. Its standard error, in brackets,
# is the standard deviation of these differences, divided by the root of their number,
# as if each were drawn by itself.
#
# **Write down first:** where do the networks win against five counted words, on marks,
# on frequent words or on rare ones? And on `<unk>`?

# %% tags=["hide-output"]
five_words = ngrams.KneserNey(TRAIN, V, order=5)
after = TEST[1:]
columns = {
    "bigram": kneser_ney(TRAIN, V, 0.75)[TEST[:-1], after],
    "five words": np.exp(five_words.log_probabilities(TEST)[1:]),
}
for (_, seed), (model, *_) in models.items():
    columns[f"LSTM {seed}"] = probabilities(model, TEST)


def in_buckets():
    """Which words of the test are marks, or stand how often in the training text:
    {name: (n,)}.
    """
    has_letters = [any(map(str.isalpha, word)) for word in vocabulary.words]
    mark = ~np.array(has_letters)[after] | (after == vocabulary.eos)
    found, left = {"marks": mark}, ~mark & (after != UNK)
    for name, bound in {"more than 100": 100, "11 to 100": 10, "2 to 10": 1}.items():
        found[name] = left & (COUNTS[after] > bound)
        left = left & ~found[name]
    return found | {"<unk>": after == UNK, "all": np.full(len(after), True)}


def ahead(p, q):
    """By how many nats a word p is ahead of q, and the standard error of that."""
    differences = np.log(p) - np.log(q)
    return differences.mean(), differences.std(ddof=1) / len(differences) ** 0.5


table = [["training count", "words", *columns, "LSTM 0 ahead"]]
for bucket, here in in_buckets().items():
    values = [f"{perplexity(p[here]):,.1f}" for p in columns.values()]
    mean, error = ahead(columns["LSTM 0"][here], columns["five words"][here])
    table.append([bucket, f"{here.sum():,}", *values, f"{mean:+.2f} ({error:.2f})"])
print(aligned(table))

# %% [markdown]
# Three LSTMs beside five counted words: on marks they have 7.2 (6.9 to 7.4) against
# 9.4, on words that stand more than 100 times in the training text 24.2 (23.9 to 24.8)
# against 24.9, on those of 11 to 100 times 214 (209 to 218) against 221, on those of 2
# to 10 times 2,736 (2,703 to 2,758) against 2,552, on `<unk>` 21.1 (20.6 to 21.8)
# against 18.1, over all 50.28 (49.70 to 51.15) against 53.15.
#
# The three read the same words, so how close they are to each other does not say how
# much depends on these words. The standard error does. On marks they are ahead by 0.26
# (0.24 to 0.30) nats, with a standard error of 0.03; on words of more than 100 times by
# 0.03 (0.01 to 0.04), with 0.03; on words of 11 to 100 times by 0.03 (0.02 to 0.06),
# with 0.05; on words of 2 to 10 times by -0.07 (-0.08 to -0.06), with 0.09; on `<unk>`
# by -0.16 (-0.19 to -0.13), with 0.04.
#
# So on this text the networks win on marks and lose on `<unk>`. On all other words,
# frequent or rare, no lead is as large as two standard errors: there this text does not
# tell. Marks and frequent words together are 1,530 words, on which the networks are
# ahead by 0.13 (0.11 to 0.15) nats, and by 0.08 (0.06 to 0.11) if `<unk>` is added: had
# we sorted by count alone, as the paper does, we would have said that they win on
# frequent words.
#
# The mean over the text shows none of this. It is no mean over frequent words: each
# word counts with its loss. For LSTM 0, words of 100 times or fewer and `<unk>` are 45
# % of the words and 62 % of the loss. But what sets the two models *apart* is found
# elsewhere, most of it in the marks. And nobody predicts rare words: after ten readings
# or fewer, a blind guess among all 1,341 words would do better.
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
# dropped. The paper has both, with $r = 0.5$. All networks above and in chapter 17 had
# both, with $r = 0.3$. Do these two help? We train two seeds here; the numbers below
# are of three. **Write down first:** which of the four has the lowest perplexity on the
# *training* text, and which on the test text?

# %% tags=["hide-output"]
kinds = {
    "tied, no dropout": {"dropout": 0},
    "not tied, dropout": {"tied": False},
    "not tied, no dropout": {"tied": False, "dropout": 0},
}
for name, more in kinds.items():
    for seed in (0, 1):
        models[name, seed] = trained(seed, **more)
table = [["", "parameters", "training", "", "test", "", "last epoch", ""]]
for name in ("tied, dropout", *kinds):
    both = [models[name, seed] for seed in (0, 1)]
    cells = [
        f"{perplexity(probabilities(model, ids)):.1f}"
        for ids in (TRAIN[:READ], TEST)
        for model, *_ in both
    ]
    cells += [f"{last:.1f}" for *_, last in both]
    table.append([name, f"{both[0][0].num_parameters:,}", *cells])
print(aligned(table))

# %% tags=["hide-input", "hide-output"] alt="Validation perplexity against epochs for four kinds of LSTM, two seeds each: the two kinds without dropout turn round between the seventh and the ninth epoch, and most where nothing is tied; the two with dropout still fall a little in the end"
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
# Three seeds each, the training text with the weights of the best epoch: with neither
# 23.6 (22.6 to 25.4), with tying alone 26.6 (25.0 to 28.9), with dropout alone 29.5
# (28.5 to 30.0), with both 37.8 (37.1 to 38.3). The test text: with both 50.3 (49.7 to
# 51.1), with tying alone 49.6 (47.8 to 50.7), with dropout alone 50.7 (50.3 to 50.9),
# with neither 52.7 (52.3 to 53.0). After the last epoch these are 50.3 (49.7 to 51.1),
# 50.1 (48.1 to 51.2), 50.7 (50.3 to 50.9) and 53.9 (53.4 to 54.4).
#
# Both kinds without dropout turn round: from some epoch on their validation perplexity
# rises, and early stopping takes part of that back. The network with neither is the
# worst on the test text, also with the weights of its best epoch. All this is at one
# rate, in ten epochs, with $r = 0.3$. Which of tying, dropout and both is best, these
# runs do not show, nor what a longer training gains. (That the three runs of one kind
# lie above all nine others comes by chance once in 220 times, and once in 55 if any of
# the four kinds could have been the one.)
#
# **This is a good place to stop.**
#
# ## Many words
#
# An LSTM with $d$ inputs and $d$ units multiplies $8 d^2$ pairs of numbers for each
# word, and its softmax over $V$ words $V d$. **Write down first:** what share of the
# work is the softmax, for the paper's width of 512 and WikiText-103's 267,735 words?

# %% tags=["hide-output"]
for width in (64, 512, 2500):
    share = 267_735 / (267_735 + 8 * width)
    print(f"{width:5,} units, 267,735 words: {share:.1%} is the softmax")

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
# These are products counted. What do the two levels cost in perplexity? Train them. The
# head's loss counts at every word, the tail's only where a rare word came, and only
# there is the tail computed at all. In the test your `two_level` puts both together.


# %% tags=["hide-output"]
order = np.argsort(-COUNTS, kind="stable")  # from frequent to rare
rank_of = np.argsort(order)
K = cheapest_head(falling)  # the k of exercise 5


class TwoLevel(language.LanguageModel):
    """Words by their rank: a head for K of them and "a rare one", a tail."""

    def __init__(self, V, seed):
        super().__init__(V, LSTM(64, 64, seed=seed), seed=seed)
        self.rare = nn.Linear(64, 1, seed=seed)  # the logit of "a rare one"

    def hidden(self, ids, state, random=None):
        x = self.drop(self.read(rank_of[ids]) * 8, random)
        outputs, state = self.core.unroll(x, state)
        h = self.drop(primitives.stack(outputs, axis=1), random)
        return primitives.reshape(h, (-1, 64)), state

    def logits(self, h, words):
        table = self.read.weight[words]
        return h @ primitives.transpose(table) + self.bias[words]

    def both(self, h, rows):
        """The head's logits (R, K + 1); the tail's in some rows."""
        head = self.logits(h, slice(0, K)), self.rare(h)
        return primitives.concatenate(head, axis=1), self.logits(
            h[rows], slice(K, None)
        )

    def __call__(self, ids, state):
        """ln p of all words, which are as good as logits."""
        h, state = self.hidden(ids, state)
        head, tail = self.both(h, slice(None))
        return two_level(head.data, tail.data)[:, rank_of], state


def two_level_epoch(model, adam, inputs, targets, rates, random):
    """As `one_epoch`, with a loss in two parts."""
    state = model.core.initial_state(inputs.shape[1])
    for x, y, rate in zip(inputs, rank_of[targets], rates, strict=True):
        y = y.ravel()
        rows = np.flatnonzero(y >= K)
        with Tape() as tape:
            h, state = model.hidden(x, state, random)
            head, tail = model.both(h, rows)
            losses = fused.softmax_cross_entropy(head, np.minimum(y, K))
            more = fused.softmax_cross_entropy(tail, y[rows] - K)
            loss = (primitives.sum(losses) + primitives.sum(more)) * (1 / len(y))
        state = numbers_of(state)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(learning_rate=rate, max_norm=1.0)


for seed in (0, 1):
    models["two levels", seed] = trained(seed, TwoLevel, two_level_epoch)
print("test perplexity, seeds 0 and 1:")
for name in ("tied, dropout", "two levels"):
    found = [probabilities(models[name, seed][0], TEST) for seed in (0, 1)]
    print(f"    {name:14}", *(f"{perplexity(each):.1f}" for each in found))

# %% [markdown]
# Three seeds each, the test text: the full softmax has 50.3 (49.7 to 51.1), the two
# levels 49.1 (48.3 to 49.7), with 3.2 times fewer products in the softmax of the
# training, counted and not timed. We see no cost here. (In the test ours computes the
# tail at every word.)
#
# **This is a good place to stop.**
#
# ## Pieces of words
#
# Large language models go another way. They begin with the letters of a text, or with
# its bytes, and join, again and again, the two neighbours that stand side by side most
# often: *byte-pair encoding* (Sennrich and others 2016). GPT-2 has 50,257 such
# *pieces*, later models up to some 250,000. A frequent word becomes one piece, a rare
# one several. There are 256 bytes, so where one begins with these, nothing is unknown;
# we begin with letters, and a letter that never came stays unknown.
#
# **Exercise 6.** Learn the pairs to join. `words` says how often each word came, and
# each pair in a word counts so often; pairs never reach over the end of a word. In
# `aaa` count the pair `a a` twice, though only the first of both can be joined. Of
# equally frequent pairs any would do, but the check knows one order alone, that of
# `min`: the first in the alphabet, by the left piece and then by the right one. When
# nothing is left to join, stop.


# %%
def learn_pairs(words, count):
    """words {text: how often}, the number of pairs -> [(left, right), ...]; of equally
    frequent pairs the first in the alphabet.
    """
    ...


ex.learn_pairs.check(learn_pairs)
learn_pairs = ex.learn_pairs.yours(learn_pairs)

# %% tags=["hide-output"]
learnt = collections.Counter(language.cut(ex.text("train")).split())
tested = collections.Counter(language.cut(ex.text("test")).split())
PAIRS = learn_pairs(learnt, course.fast(300, 20))
print("the first pairs:", *("+".join(pair) for pair in PAIRS[:12]))
unseen = [word for word in tested if word not in learnt]
print(f"{len(unseen)} of {len(tested)} different words of the test are new:")
for word in unseen[:6]:
    print("   ", word, "=", *ex.cut_up(word, PAIRS))

# %% [markdown]
# **Now draw it yourself.** With more pairs words have fewer pieces. Draw the mean
# number of pieces of a word against the number of pairs, from 0 to 300, once over the
# *text* of the test (each word as often as it comes) and once over its *different*
# words. `ex.cut_up(word, PAIRS[:n])` cuts a word up with the first `n` pairs, and
# `tested` counts the words. **Write down first** which words keep more pieces, and
# why. (One possible picture is answer 1.)

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% [markdown]
# **What was not shown.** What the two levels cost or gain with 267,735 words, where
# they are meant to be used; whether networks of pieces read better than networks of
# words; anything of other texts than this book.
#
# ## Takeaways
#
# - On this text a discount helped the bigram. After it, a fallback that counts after
#   how many different words a word came, not how often, helped less, but helped.
# - A table that is used twice gets two gradients, which add up.
# - Two models may differ in words that you did not think of, here most of all in marks.
#   A mean over a text does not show it: look at the buckets, at what stands in each,
#   and at how much.
# - Keep the weights of the best validation epoch, and say that you did.
#
# **Further.** Let five counted words and the LSTM vote, with the mean of their
# probabilities: is its perplexity below those of both? Which words does the LSTM
# predict much better than counting, and which worse? And which words have vectors, rows
# of `read.weight.data`, with the largest cosine to that of `she`, of `said`, of
# `beautifully`, which the text has twice?

# %% tags=["hide-cell"] alt="Mean number of pieces of a word against the number of pairs: over the text of the test it falls from 3.5 to 1.6, over its different words from 5.5 to 2.8"
# Answer 1
# The different words keep more pieces, at every number of pairs up to 300. They are
# longer: with no pair at all they have 5.5 pieces, their letters, against 3.5, for
# frequent words are short. With 300 pairs the difference has shrunk from 2.0 to 1.1
# pieces, but the ratio has grown from 1.6 to 1.7, perhaps because pairs are chosen by
# how often they come in the text.
figure, panel = plt.subplots(figsize=(6, 2.8))
counts = [*range(0, len(PAIRS) + 1, course.fast(30, 5))]
pieces = np.array(
    [[len(ex.cut_up(word, PAIRS[:n])) for word in tested] for n in counts]
)
often = np.array([*tested.values()])
panel.plot(counts, pieces @ often / often.sum(), "o-", label="of the text")
panel.plot(counts, pieces.mean(axis=1), "o-", label="of the different words")
panel.set(xlabel="pairs", ylabel="pieces of a word", ylim=(0, None))
panel.legend()
plt.show()

# %% tags=["hide-cell"]
# Answer 2
# It is. Three networks' votes with five counted words have 45.8 (45.5 to 46.2). It may
# be that they err in different places, so that their mean is seldom as wrong as either.
counted, network = columns["five words"], columns["LSTM 0"]
for name, each in {
    "five words": counted,
    "LSTM": network,
    "their mean": (counted + network) / 2,
}.items():
    print(f"{name:10} {perplexity(each):6.1f}")

# %% tags=["hide-cell"]
# Answer 3
# Here is the mean difference of the logarithms, for words that come often enough to say
# something. It is one network and a short text: do not read too much into single words.
gain = np.log(network) - np.log(counted)
frequent = np.flatnonzero(np.bincount(after, minlength=V) > 20)
by_gain = sorted(frequent, key=lambda word: gain[after == word].mean())
for title, chosen in (("better", by_gain[::-1][:6]), ("worse", by_gain[:6])):
    found = [f"{vocabulary.words[w]} {gain[after == w].mean():+.2f}" for w in chosen]
    print(f"{title}:", ", ".join(found))

# %% tags=["hide-cell"]
# Answer 4
# In this one network persons stand mostly beside persons and speaking beside speaking,
# and nobody told it. In what stands beside `beautifully`, which it read twice, we see
# no sense. The cosine divides by the lengths, so that long vectors do not win.
E = models["tied, dropout", 0][0].read.weight.data
unit = E / np.linalg.norm(E, axis=1, keepdims=True)
for word in ("she", "said", "queen", "beautifully"):
    cosine = unit @ unit[vocabulary.words.index(word)]
    others = np.argsort(-cosine)[1:6]  # the nearest is the word itself
    print(f"{word:11}", *(vocabulary.words[w] for w in others))
