# %% [markdown]
# # 19. One hop: a look at everything that was said
#
# **End-To-End Memory Networks (Sukhbaatar, Szlam, Weston and Fergus 2015), equations 1
# to 3, section 4.1.** About 175 minutes, in three sittings, with a minute of computing.
# You need the tape (chapter 3), learning (chapter 5) and attention (chapter 6). In this
# chapter $d$ is the width of a vector, $N$ the number of memories, $i$ counts memories,
# $j$ words, $k$ units, and $g$ is a gradient.
#
# The Relational Memory Core reads as it goes and keeps what it can in a few slots. Here
# is the opposite: keep everything that was said, and look when somebody asks.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import (
    Parameter,
    corpora,
    course,
    gradcheck,
    nn,
    optim,
    primitives,
)
from tinyrmc.autograd import engine
from tinyrmc.course.exercises import attention
from tinyrmc.course.exercises import one_hop as ex

course.setup()
rng = np.random.default_rng(13)

# %% [markdown]
# ## Stories
#
# bAbI is a collection of twenty kinds of very short stories with questions (Weston and
# others 2015). Here are two of them, made up anew. A dot marks the *supporting facts*,
# from which the answer follows. The network never sees the dots.

# %%
told = corpora.GeneratedStories(questions=course.fast(1000, 150))
for task in (1, 15):
    story = told.stories(task, "test")[3]
    print("task", task)
    for number, words in enumerate(story.sentences):
        print(" ●" if number in story.supporting else "  ", *words)
    print("   ", *story.question, "?", story.answer, "\n")

# %% [markdown]
# ## One hop by hand
#
# The paper calls one look at the memories a *hop*. Three sentences have been told:
#
# | | sentence | memory $m_i$ | content $c_i$ |
# |---|---|---|---|
# | 1 | Mary moved to the garden | (2, 0) | garden (1, 0, 0) |
# | 2 | John went to the office | (0, 2) | office (0, 1, 0) |
# | 3 | Mary went to the kitchen | (2, 0) | kitchen (0, 0, 1) |
#
# The memory says whom a sentence is about, and the content what there is to learn. The
# question "Where is John?" has a vector of the same kind, $u = (0, 2)$. Match it with
# each memory, take the softmax, and average the contents:
#
# $$p_i = \mathrm{softmax}(u^\top m_i) \tag{1}$$
# $$o = \sum_i p_i c_i \tag{2}$$
#
# The matches are 0, 4 and 0, and $e^4 = 54.6$. So $p = (1, 54.6, 1) / 56.6$, and what
# is found is $o = (0.02, 0.96, 0.02)$, the office. The answer comes from what was found
# and what was asked, with one more matrix:
#
# $$\hat a = \mathrm{softmax}(W(o + u)) \tag{3}$$
#
# **Exercise 1.** The hop, with any leading axes for examples.


# %%
def hop(u, m, c):
    """u (..., d), m and c (..., N, d) -> p (..., N), o (..., d)."""
    ...


ex.hop.check(hop)
hop = ex.hop.yours(hop)

# %% [markdown]
# **Write down first:** what does the hop find if you ask for Mary, $u = (2, 0)$?

# %% tags=["hide-output"]
m, c = np.array([[2.0, 0], [0, 2], [2, 0]]), np.eye(3)
print("John:", hop(np.array([0.0, 2]), m, c)[1].round(2))
print("Mary:", hop(np.array([2.0, 0]), m, c)[1].round(2))

# %% [markdown]
# It has found everything about Mary, and mixed it. Nothing in $m$ or $c$ says that the
# kitchen came later. We shall have to tell it.
#
# How well can a hop choose at all? That depends on how long the vectors are, and on how
# many memories there are.
#
# **Exercise 2.** Draw it. Make $N$ memories in random directions of $d = 20$ units, all
# of the same length, let $u$ be the first of them, and measure the share $p_1$, as a
# mean over 200 draws. Draw that share against the length, from 0.5 to 6. There is a
# curve for each of $N$ = 3, 10 and 30, and its name says its $N$. Name the axes, too.
# **Write down first:** from what length on is the share above nine tenths, and does
# that length grow with $N$? (One possible picture is answer 1, at the end.)

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% [markdown]
# ## You know this already
#
# A hop *is* the attention of chapter 6 with a single query, but for the root of $d_k$:

# %%
u, m, c = rng.normal(size=8), rng.normal(size=(5, 8)), rng.normal(size=(5, 8))
one_query = attention.attention(math.sqrt(8) * u[None], m, c)[0]
np.allclose(hop(u, m, c)[1], one_query, rtol=1e-12)

# %% [markdown]
# What is new is who looks, at what, and when:
#
# | | Relational Memory Core | memory network |
# |---|---|---|
# | who asks | every slot | the question alone |
# | who is asked | the slots, and one new input | every sentence of the story |
# | when | at each step, before anybody asks | at the end |
# | what changes | the memory, through its gates | $u$ alone |
# | what must be kept | a few slots | everything |
#
# In stories the RMC must decide what to keep before it knows what will be asked. The
# memory network need not, but its memory grows with the story, as a Transformer's does
# with the text.
#
# ## The hop backward
#
# Let $g$ be the gradient of $o$. From $o = \sum_i p_i c_i$ you read off the gradients
# of $c_i$ and of $p_i$. Then comes the softmax, whose derivative you know from chapter
# 6: $\partial p_j / \partial s_i = p_j (\delta_{ij} - p_i)$, with the matches
# $s_i = u \cdot m_i$. And then the product.
#
# **Exercise 3.** Derive all three gradients, and write them. On the way show that the
# gradient of the match is
#
# $$\frac{\partial \ell}{\partial s_i} = p_i \; g \cdot (c_i - o)$$


# %%
def hop_backward(u, m, c, g):
    """u and g (..., d), m and c (..., N, d) -> gradients like u, m and c."""
    ...


ex.hop_backward.check(hop_backward)
hop_backward = ex.hop_backward.yours(hop_backward)

# %% [markdown]
# Say that formula in words. Training moves $o$ along $-g$. So a memory gains attention
# if its content lies in that direction, seen from what was found. What one gains the
# others lose. And where $p_i$ is nearly 0, memory $i$ gets nearly no gradient, however
# right it is.
#
# Your two functions make an operation of the tape. The networks of this chapter and the
# next learn with it.


# %%
@engine.primitive
def look(xp, u, m, c, *, trace=None):
    """Take a hop; `trace`, a list, gets its shares."""
    shares, o = hop(u, m, c)
    if trace is not None:
        trace.append(shares)
    return o.astype(np.result_type(u, m, c)), (u, m, c)


@look.vjp
def look_vjp(xp, needs, g, u, m, c):
    return tuple(each.astype(g.dtype) for each in hop_backward(u, m, c, g))


print("error below 1e-10:", gradcheck(look, u, m, c) < 1e-10)

# %% [markdown]
# **This is a good place to stop.**
#
# ## From words to memories
#
# Each word has a row of $d$ numbers in a table $A$, and a sentence is the sum of its
# words' rows. A second table, $C$, makes the contents. A sum does not know the order in
# which it was added up: it is a *bag of words*. To a network that reads bags, "mice are
# afraid of wolves" and "wolves are afraid of mice" are the same. The paper's remedy is
# *position encoding*: word $j$ of $J$ counts with a weight for each unit $k$ of $d$,
#
# $$m_i = \sum_j l_j \circ A_{x_{ij}} \qquad
# l_{kj} = \Big(1 - \frac jJ\Big) - \frac kd \Big(1 - \frac{2j}J\Big)$$
#
# with $j$ and $k$ counted from 1. The first units listen to the beginning of a
# sentence, the last ones to its end.

# %% tags=["hide-input"] alt="Left: a position encoding of five words as a matrix, the first units large for the first words, the last units large for the last words. Right: the same weights as lines over the words, all crossing at j = 2.5, between the second and the third word, at one half"
# Draws the weights of five words
J, d = 5, 20
j, k = np.arange(1, J + 1)[:, None], np.arange(1, d + 1)
weights = (1 - j / J) - k / d * (1 - 2 * j / J)
figure, (matrix, lines) = plt.subplots(1, 2, figsize=(10, 3), width_ratios=(1.3, 1))
drawn = matrix.imshow(weights, cmap="PRGn", vmin=0, vmax=1, aspect="auto")
matrix.set_yticks(range(J), ["mice", "are", "afraid", "of", "wolves"])
matrix.set_xticks(range(0, d, 5), range(1, d + 1, 5))
matrix.set(xlabel="unit k", title="l, a row for each word")
figure.colorbar(drawn, ax=matrix)
for unit in (1, 5, 10, 15, 20):
    lines.plot(j, weights[:, unit - 1], "o-", label=f"unit {unit}")
lines.axvline(J / 2, color="0.6", lw=0.8, ls=":")
lines.text(J / 2, 0.02, " J / 2", color="0.4", fontsize=9)
lines.set(xlabel="word j", ylabel="its weight", xticks=range(1, J + 1), ylim=(0, 1.05))
lines.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# All lines cross where $j = J/2$, at one half. So $l$ is a constant plus a product, one
# factor for the unit and one for the word. You need not embed the words one by one
# then: two counts of each sentence's words are enough. `once` counts each word as 1,
# `weighted` counts word $j$ as $j/J - \frac12$.
#
# **Exercise 4.** Multiply $l$ out, and make the memories of `once`, `weighted` and the
# table. Only `@`, `*`, `+` and `np.arange` are needed, so it runs on the tape, too.


# %%
def remembered(once, weighted, table):
    """once, weighted (..., V), table (V, d), an array or on the tape -> (..., d)."""
    ...


ex.remembered.check(remembered)
remembered = ex.remembered.yours(remembered)

# %% [markdown]
# **Write down first:** here are three pairs of sentences. How far apart are the two
# memories of each pair, in lengths of one: not at all, a little, much? (A random
# table.)

# %% tags=["hide-output"]
pairs = {
    "two animals": ("mice are afraid of wolves", "mice are afraid of cats"),
    "turned around": ("mice are afraid of wolves", "wolves are afraid of mice"),
    "another verb": ("john went to the office", "john moved to the office"),
}
words = sorted(
    {word for pair in pairs.values() for text in pair for word in text.split()}
)
table = rng.normal(size=(len(words), 20))
for name, pair in pairs.items():
    hot = [
        np.array([np.eye(len(words))[words.index(w)] for w in s.split()]) for s in pair
    ]
    place = np.arange(1, 6)[:, None] / 5 - 0.5
    apart = []
    for along in (0 * place, place):
        one, other = (remembered(x.sum(0), (along * x).sum(0), table) for x in hot)
        apart.append(np.linalg.norm(one - other) / np.linalg.norm(one))
    print(f"{name}: bag {apart[0]:.2f}, with position encoding {apart[1]:.2f}")

# %% [markdown]
# To a bag the sentence turned around is the same. With position encoding it is another
# one: in this one table it lies about four fifths as far away as the sentence about
# cats.
#
# ## From sentences to a story
#
# Mary's memories need an age. The paper adds a learnt row $T_A(i)$ to memory $i$, where
# $i = 1$ is the *last* sentence: "just now" then has the same number in stories of any
# length. Places that are left over get the empty sentence, number 0. Of a longer story
# only the latest $N$ sentences are kept.
#
# **Exercise 5.** Put the sentences of a story into the memory.


# %%
def newest_first(told, N):
    """told (n,), sentences' numbers as they were told -> (N,), the newest first."""
    ...


ex.newest_first.check(newest_first)
newest_first = ex.newest_first.yours(newest_first)

# %% [markdown]
# `ex.Reading` makes arrays of the stories with it: each memory is its two counts of
# words, `once` and `weighted`. An age is counted as one word more, which has a row of
# its own in the table: that row is $T_A(i)$. Here are the three newest memories of a
# story, as the network gets them:

# %%
reading = ex.Reading(told, 1, newest_first)
once, weighted, *_, answers = reading.arrays["test"]
columns = [*reading.words, *(f"age {i}" for i in range(1, reading.slots + 1))]
for i in range(3):
    print(f"memory {i + 1}:")
    for name, counts in (("once", once[3, i]), ("weighted", weighted[3, i])):
        there = np.flatnonzero(counts)
        print(f"    {name:9}", *(f"{columns[w]} {counts[w]:.3g}," for w in there))

# %% [markdown]
# **This is a good place to stop.**
#
# ## A network of one hop
#
# Now the whole network. The question is read with the table of the memories, and the
# answer with that of the contents: $B = A$ and $W^\top = C$. Several copies learn side
# by side, here three, which differ in their first weights alone.


# %%
class OneHop(nn.Module):
    """A hop on the tape; tables are (copies, 1, V, d). `see` switches counts off."""

    def __init__(self, W, see=1.0, d=20, copies=3):
        normal = np.random.default_rng(0).normal
        self.A, self.C = (
            Parameter(0.1 * normal(size=(copies, 1, W, d))) for _ in range(2)
        )
        self.see = 2 * see

    def __call__(self, once, weighted, asked, asked_weighted):
        """Counts of memories (B, N, W) and questions (B, W) -> logits (R, B, W)."""
        memories = self.see * once, 2 * weighted
        u = remembered(asked[:, None], asked_weighted[:, None], self.A)
        u = primitives.reshape(u, (u.shape[0], u.shape[1], -1))  # (R, B, d)
        u = u + look(u, remembered(*memories, self.A), remembered(*memories, self.C))
        z = primitives.expand_dims(u, 2) @ primitives.swapaxes(self.C, -1, -2)
        return primitives.reshape(z, (*u.shape[:2], -1))


# %% [markdown]
# (The 2 is from the authors' program: its encoding is about twice the printed one.
# Chapter 20 shows why that matters.)
#
# **Exercise 6.** Write the training. Batches of 32, plain gradient descent, the losses
# *summed*, gradients clipped at a length of 40, as in the authors' recipe. All copies
# get the same questions and the same targets.


# %%
from tinyrmc import Tape, fused  # noqa: F401, for your function


def learn_stories(network, sgd, inputs, targets, order, rate):
    """network(*inputs of a batch) -> logits (R, B, V); inputs a tuple of arrays
    (S, ...), targets (S,); order, numbers of questions. A batch that is not full is
    left out. One time through all of `order` -> the loss of each batch, a list.
    """
    ...


ex.learn_stories.check(learn_stories)
learn_stories = ex.learn_stories.yours(learn_stories)


# %%
def wrong(network, arrays):
    """The share of wrong answers of each copy."""
    *inputs, targets = arrays
    return np.mean(network(*inputs).data.argmax(-1) != targets, axis=1)


EPOCHS = course.fast(20, 2)


def train(reading, network, rate=0.005):
    """The test errors of all copies after each epoch."""
    *inputs, targets = reading.arrays["train"]
    sgd, random = optim.SGD(network.parameters()), np.random.default_rng(0)
    sgd.clip_by = "matrix"  # each table by itself, as in the authors' program
    errors = []
    for _ in range(EPOCHS):
        order = random.permutation(len(targets))
        learn_stories(network, sgd, inputs, targets, order, rate)
        errors.append(wrong(network, reading.arrays["test"]))
    return np.array(errors)


# %% [markdown]
# Task 1 needs one fact, the *latest* about a person. We train with ages and without.
# **Write down first:** what test error do you expect of each? The baselines are
# printed.

# %%
stories = reading.stories["test"]
commonest = np.bincount(reading.arrays["train"][-1]).argmax()
print(f"the commonest answer: {np.mean(answers != commonest):.1%} wrong")
right = []
for story in stories:
    places = [s[-1] for s in story.sentences if s[0] == story.question[-1]]
    right.append(places.count(story.answer) / len(places))
print(f"any place of this person: {1 - np.mean(right):.1%} wrong")

# %% tags=["hide-output"]
W = reading.arrays["train"][0].shape[-1]
ageless = np.arange(W) < len(reading.words)
networks = {"with ages": OneHop(W), "without": OneHop(W, ageless)}
errors = {name: train(reading, network) for name, network in networks.items()}
for name, found in errors.items():
    print(f"{name:10}", ", ".join(f"{each:.1%}" for each in found[-1]), "wrong")

# %% tags=["hide-input", "hide-output"] alt="Left: test error against epochs on task 1, three copies each: without ages it stays at 30 percent, with ages it falls to 0. Right: the shares of attention of one network with ages on the sentences of a story: most of it on the latest sentence about the person asked for"
# Draws the errors, and where a copy looks
figure, (panel, shares) = plt.subplots(1, 2, figsize=(10, 3), width_ratios=(1, 0.6))
for number, (name, found) in enumerate(errors.items()):
    for copy, curve in enumerate(100 * found.T):
        panel.plot(
            range(1, EPOCHS + 1),
            curve,
            color=f"C{number}",
            label=None if copy else name,
        )
panel.set(
    xlabel="epochs", ylabel="test error, %", ylim=(0, None), xticks=(1, 5, 10, 15, 20)
)
panel.legend()
story, number, n = stories[3], 3, len(stories[3].sentences)
once, weighted, asked, asked_weighted, _ = (x[3:4] for x in reading.arrays["test"])
network, best = networks["with ages"], int(errors["with ages"][-1].argmin())
_, m, c = (
    remembered(2 * once, 2 * weighted, table).data
    for table in (network.A, network.A, network.C)
)
u = remembered(asked[:, None], asked_weighted[:, None], network.A).data[:, :, 0]
seen = hop(u, m, c)[0][best, 0, :n][::-1]
shares.barh(range(n), seen, color="C0")
shares.set_yticks(range(n), [" ".join(s) for s in story.sentences], fontsize=8)
shares.set(xlim=(0, 1), xlabel="share of the attention")
shares.set_title(f"{' '.join(story.question)}? {story.answer}", fontsize=10)
shares.invert_yaxis()
plt.show()

# %% [markdown]
# In the story on the right, little more than half of the attention is on the sentence
# that has the answer. Over the whole test the three copies give the sentence with the
# answer 82 % (81 to 83) of their attention (untrained 11 %), and have 99.9 % (99.9 to
# 100.0) of the answers right: a softmax need not be sharp.
#
# With ages the three copies end at 0.1 % (0.0 to 0.1) wrong. Without ages they end at
# 30.3 % (29.9 to 30.7), at a third of the rate at 31.3 % (30.5 to 31.9), at three times
# the rate at 30.2 % (30.1 to 30.4): hardly better than naming any room to which this
# person went.
#
# Hardly any question of the test stood in training as it is (0.3 %). But have they
# learnt what the words mean, or which pairs of words go together? Take some pairs out
# of the training, and ask for them.
#
# **Write down first:** nobody ever saw Mary in the garden. Can the network say that she
# is there when it is told so?
#
# In 437 stories to learn from, Mary never goes to the garden, John never to the kitchen
# and Sandra never to the office. Asked for these pairs, three copies are wrong in 59
# (56 to 63) of 100 questions; after as many stories in which they do go there, in 1 (0
# to 2). At three times the rate it is 44 (40 to 49) and 0 (0 to 1), at a third of the
# rate 78 (77 to 79) and 45 (40 to 51), for there the control learns too slowly as well.
#
# So it has read each name and each place, and still gets, at the two rates at which the
# control learns, four to six of ten questions about new pairs wrong. (Chapter 10's core
# got all new pairs of equal symbols wrong.) "New examples" says little unless you say
# what is new about them.

# %%
course.measured(19, "new_pairs")

# %% [markdown]
# **What was not shown.** What these networks learnt instead: to put a name and a place
# together, or that the answer for Mary is never the garden (437 stories say so, and $u$
# goes into the answer by itself); three pairs of one choice do not tell. Whether more
# names and places, or another width, make it learn the words apart; how it does on the
# real bAbI's sentences (chapter 20 tells); and anything of questions that need two
# facts.
#
# Task 15 asks what Winona is afraid of: Winona is a mouse, and mice are afraid of cats.
# Chapter 20 (the whole memory network) looks twice.
#
# ## Takeaways
#
# - A hop is attention with one query; a content that is better than what was found
#   gains attention.
# - The memory keeps everything; the question alone changes.
# - Hold out pairs, not only examples, before you say what was learnt.
# - A sum forgets order. Position encoding brings back the order of words, ages that of
#   sentences, and both can be written as counts.
#
# **Further.** What becomes of the trained network if only the newest sentences are
# kept? Does task 1 need the order of words at all?


# %% tags=["hide-cell"] alt="The share of the sought memory against the length of the vectors: it rises from 1/N to 1, later the more memories there are"
# Answer 1
# The share passes nine tenths at a length of 1.8 with three memories, 2.3 with ten and
# 2.6 with thirty, with each of three seeds. Beside more memories it takes longer
# vectors, but not much longer ones: each memory adds exp(match), and the length enters
# the exponent as a square.
figure, panel = plt.subplots(figsize=(6, 2.8))
for N in (3, 10, 30):
    lengths, found = np.linspace(0.5, 6, 12), []
    directions = rng.normal(size=(200, N, 20))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    for length in lengths:
        m = length * directions
        found.append(hop(m[:, 0], m, m)[0][:, 0].mean())
    panel.plot(lengths, found, "o-", label=f"N = {N}")
panel.set(xlabel="length of u and of the memories", ylabel="share of the one sought")
panel.legend()
plt.show()


# %% tags=["hide-cell"]
# Answer 2
# It loses little at first: the question is where someone is now. It goes wrong when the
# last move of that person is lost: with the newest six memories 0.0 % are wrong, with
# four 4.4 %, with two 26.5 % (26.4 to 26.6).
def of_the_newest(count, network, arrays):
    """The errors where all memories but the newest are empty."""
    once, weighted, *rest = arrays
    kept = np.arange(once.shape[1])[:, None] < count
    return wrong(network, (once * kept, weighted * kept, *rest))


for count in (10, 6, 4, 2):
    found = of_the_newest(count, networks["with ages"], reading.arrays["test"])
    print(f"the newest {count}:", ", ".join(f"{each:.1%}" for each in found), "wrong")


# %% tags=["hide-cell"]
# Answer 3
# It does not: three copies that read bags of words end at 0.0 % wrong. A person is
# never a place, so the words tell their roles without an order.
class Bags(nn.Module):
    """A network that reads all words without their order."""

    def __init__(self, network):
        self.network = network

    def __call__(self, once, weighted, asked, asked_weighted):
        return self.network(once, 0 * weighted, asked, 0 * asked_weighted)


found = train(reading, Bags(OneHop(W)))[-1]
print("bags of words:", ", ".join(f"{each:.1%}" for each in found), "wrong")
