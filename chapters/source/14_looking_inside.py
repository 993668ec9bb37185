# %% [markdown]
# # 14. Looking inside: what a trained core does
#
# **Section 5.1, figure 3.** About 170 minutes, in two sittings. You need chapter 13
# (nth farthest) and the gates (chapter 9).
#
# Take a trained network apart. Does it measure distances, where does it look, what do
# its slots hold, and what of that matters? You experiment, and then you doubt your
# experiments.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np

import tinyrmc
from tinyrmc import course
from tinyrmc.course.exercises import looking_inside as ex
from tinyrmc.course.exercises.nth_farthest import rank_by_norm
from tinyrmc.results import probes
from tinyrmc.training.discovery import load_task

course.setup()
nth = load_task("nth_farthest")
network = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz")
task = nth.Task(nth.QUICK)  # four vectors of four dimensions
questions = probes.held_out(task, course.fast(10_000, 400, 2000))
seen = probes.traces(network, questions.inputs)
labels, n, m = nth.decode(questions.inputs, task.layout)  # (B, T), twice (B,)
marked = questions.marked  # (B,): the step at which the reference comes
right, is_self = seen.logits.argmax(axis=-1) == questions.targets, n == 0
print(f"{'this network':>21}: {right.mean():.1%}, ", end="")
print(f"without self {right[~is_self].mean():.1%}")
floors = task.references()
for name, value in floors["test_accuracy"].items():
    without_self = floors["test_accuracy_without_self"][name]
    print(f"{name:>21}: {value:.1%}, without self {without_self:.1%}")

# %% [markdown]
# `python -m tinyrmc.train nth_farthest longer --seed 0` has trained it. It has four
# slots and eight heads. It has the form that the paper's authors released, not that of
# the nine equations: there is no output gate, and chapter 11 has the other differences.
# It is one network, and all that follows is about it alone. (The cell prints two of
# chapter 13's baselines. The third, sorting by the four signs of the reference, gets
# 81.6 % of these questions.)
#
# ## Does it measure distances?
#
# Or has it found another trick? If it measures them, up to some error, it must fail
# where two distances are nearly equal. For each question take the *gap*: how far the
# right vector's distance is from the nearest other one. **Write down first:** how many
# answers are right where the gap is nearly 0? And of chapter 13's rule, which ranks
# vectors by their own norms and compares none?

# %%
x, rows = questions.inputs[..., :4], np.arange(len(n))
distance = np.linalg.norm(x - x[rows, marked][:, None], axis=-1)
of_target = distance[labels == questions.targets[:, None]][:, None]
gap = np.sort(abs(distance - of_target), axis=1)[:, 1]  # entry 0 is the right one
others = ~is_self
edges = np.quantile(gap[others], np.linspace(0, 1, 9))  # eight groups of equal size
by_norm = rank_by_norm(x, labels, n, m) == questions.targets  # compares no two vectors
middles, accuracies, of_norms = [], [], []
for low, high in itertools.pairwise(edges):
    some = others & (low <= gap) & (gap <= high)
    middles.append(np.median(gap[some]))
    accuracies.append(right[some].mean())
    of_norms.append(by_norm[some].mean())

# %% tags=["hide-input", "hide-output"] alt="Accuracy against the gap between the right distance and the next. The network: two thirds where they are nearly equal, all but perfect from 0.2 on. Ranking by norm: four to six tenths throughout. Over n: the self query is always right, n = 2 least often"
# Draws the accuracy over gaps and over n
figure, (of_gap, of_n) = plt.subplots(1, 2, figsize=(8.5, 3.2), width_ratios=(3, 2))
of_gap.plot(middles, accuracies, "o-", label="this network")
of_gap.plot(middles, of_norms, "s--", color="0.5", label="ranking by own norm")
of_gap.legend(loc="lower right")
of_gap.set(xlabel="gap to the nearest other distance", ylabel="accuracy without self")
of_gap.set(ylim=(0, 1.03), xlim=(0, None))
of_n.bar(range(4), [right[n == number].mean() for number in range(4)])
of_n.set(xlabel="n", ylabel="accuracy", xticks=range(4), ylim=(0, 1.03))
plt.show()

# %% [markdown]
# It fails where distances are close, and hardly anywhere else. Ranking by norm is often
# wrong at every gap. But it is a weak control: the four signs, which measure no
# distance between two of the vectors either, do better in every group, with 98 % in the
# last. So look at narrow gaps. In the second group from the left the network is right
# in 89 %, the four signs in 58 %. And of the questions that the signs get wrong, it
# answers 86 %. So it uses more of the reference than its signs.
#
# Is that measuring? A rule that knows of each coordinate of the reference in which
# quarter of $[-1, 1]$ it lies gets 90.1 %. Where that rule is wrong, the network is
# right in 80 %. Take also a rule that knows each distance up to an error (exercise 4 of
# chapter 13). With an error of 3 % it gets 95.4 %, and in none of the eight groups do
# the two differ by more than 1.4 %. (We chose 3 % after we had seen the curve. With 2 %
# the rule gets 96.9 %, and in one group the two differ by 6.4 %; with 5 % it gets 92.4
# %, and they differ by up to 11.8 %.) So this network orders vectors about as well as
# distances known up to 3 % would. How it does so, these numbers do not say.
#
# ## Figure 3: where it looks
#
# The paper draws the attention of a trained core and sees that after the reference "all
# the memory slots preferentially [focus] attention on those particular memories to
# which the $m$ was written". It warns, too, that "even after a single round of
# attention the memory can become highly distributed".
#
# Below is one question, whose reference comes at the third step: two of eight heads,
# and the mean of all. Rows are the slots that ask; columns are the slots and, right of
# the black line, the input. The numbers are percent. A slot's *intake* is its attention
# to the input at the reference's step, times its input gate there. The *holders* are
# the fewest slots that together have half of the intake; from that step on, their
# columns have a red edge. (Where the shares are nearly equal, a very small difference
# decides which slots these are.) **Write down first:** if the paper's words held here,
# which columns would be dark at the last step?

# %% tags=["hide-input", "hide-output"] alt="Attention of head 1, of head 4 and the mean of eight heads over four time steps of one question, with a number in each cell: the column of the input is the darkest in most maps, at the reference most of all; after the reference no slot's column is dark for all"
# Draws the maps of two heads and the mean of all, for one question
cases = questions.take(probes.cases(questions))  # three questions
traces = probes.traces(network, cases.inputs)
# The slots that took in the reference
holders = probes.holders(probes.shares(traces, cases.marked))
asked = 1  # of the three, the one whose reference is in the middle
of_heads = traces.attention[asked]  # (T, H, N, N + 1)
rows = {f"head {h}": of_heads[:, h] for h in (1, 4)}
rows["mean of\nall eight"] = of_heads.mean(axis=1)
mark = int(cases.marked[asked])
figure, panels = plt.subplots(3, 4, figsize=(10, 6), sharex=True, sharey=True)
for (name, maps), line in zip(rows.items(), panels, strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=24)
    for t, (weights, panel) in enumerate(zip(maps, line, strict=True)):
        panel.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        for (i, j), weight in np.ndenumerate(weights):
            look = {"fontsize": 8, "color": "white" if weight > 0.6 else "0.2"}
            panel.text(j, i, f"{100 * weight:.0f}", ha="center", va="center", **look)
        panel.axvline(len(weights) - 0.5, color="black", lw=1.5)
        if t >= mark:
            for j in np.flatnonzero(holders[asked]):
                panel.plot([j - 0.5, j + 0.5], [-0.5, -0.5], color="#c00000", lw=6)
        slots = range(len(weights))
        panel.set_xticks([*slots, len(weights)], [*slots, "in"])
        panel.set_yticks(slots)
for t, panel in enumerate(panels[0]):
    panel.set_title(f"t = {t + 1}" + ", reference" * (t == mark))
plt.show()

# %% [markdown]
# In most maps the input's column is the darkest. Does anything change after the
# reference? In one question you see what you wish to see, so count over many, beside
# what attention to everything alike would give:

# %% tags=["hide-output"]
found = probes.analyse(network, questions)
print("holders: {mean number:.1f} of 4; ".format(**found["holders"]), end="")
print("largest share of the intake {largest share:.0%}".format(**found["holders"]))
mean, uniform = found["attention"]["mean"], found["attention"]["uniform"]
for place in probes.PLACES:
    shares = ", ".join(f"{when} {share:.0%}" for when, share in mean[place].items())
    alike = uniform[place]["after"]
    print(f"attention to {place:8}{shares}; all alike {alike:.0%}")

# %% [markdown]
# No slot keeps the reference to itself: the shares of the intake are nearly equal.
# After it, its holders get two points more than the others, as they did before. What
# the paper saw in its network of eight slots, you do not see in ours of four.
#
# ## What a slot holds: a probe of yours
#
# Attention says where a slot looks, not what it has kept. Ask the slots themselves: how
# much of a vector can be *read* from a slot at the end? Take "read" in the simplest
# sense, a linear map with a bias.
#
# **Exercise 1.** Fit it by least squares on the first half of the examples, and give
# the share of the variance that it explains on the second: 1 minus the sum of all
# squared errors, divided by that of the deviations from the mean, the second half's
# own. (Why not on the half that you have fitted?)


# %%
def readable(rows, wanted):
    """rows (B, F), wanted (B, D), B even -> a number, at most 1."""
    ...


ex.readable.check(readable)
readable = ex.readable.yours(readable)

# %% [markdown]
# Each question has a vector for each of the four labels. **Write down first:** does
# each slot hold a little of all, or is each vector held by one slot?

# %% tags=["hide-output"]
(end,) = probes.read(network, questions.inputs)  # (B, N, F): the memory at the end
by_label = [x[labels == label] for label in range(4)]  # each (B, D)
held = [[readable(end[:, slot], each) for each in by_label] for slot in range(4)]
together = [readable(end.reshape(len(end), -1), each) for each in by_label]
held = np.array([*held, together])

# %% tags=["hide-input", "hide-output"] alt="A table of four slots and all of them together against the labels of four vectors: the share of each vector's variance that can be read from a slot. Every slot holds between 45 and 85 percent of every vector, slot 1 most of label 1, slots 2 and 3 most of label 2; all four together hold about 90 percent of each"
# Draws what each slot holds
figure, panel = plt.subplots(figsize=(5.5, 3.2))
panel.imshow(held, cmap="Blues", vmin=0, vmax=1, aspect="auto")
for (i, j), share in np.ndenumerate(held):
    look = {"ha": "center", "va": "center", "color": "white" if share > 0.6 else "0.2"}
    panel.text(j, i, f"{share:.0%}", **look)
panel.axhline(3.5, color="black", lw=1.5)
panel.set_xticks(range(4), [f"label {label}" for label in range(4)])
panel.set_yticks(range(5), [*(f"slot {slot}" for slot in range(4)), "all four"])
panel.set_title("variance of the vector with this label, explained", fontsize=10)
plt.show()

# %% [markdown]
# In this network "this slot holds that vector" is the wrong picture: from each slot
# about half of every vector or more can be read, from all together 90 %. (What can be
# read from an untrained slot, you will see below, for slot 0.)
#
# But the question is about *distances*. No linear map of the vectors gives a distance:
# squares are missing. **Write down first:** how much of the variance of the distances
# from the reference can be read from the vectors, and how much from the memory?

# %% tags=["hide-output"]
of_label = np.stack([distance[labels == label] for label in range(4)], axis=1)
vectors, memory = x.reshape(len(x), -1), end.reshape(len(end), -1)
for name, numbers in (("vectors", vectors), ("memory", memory)):
    shares = [readable(numbers, of_label[:, [label]]) for label in range(4)]
    print(f"distances, from the {name}:", *(f"{share:.0%}" for share in shares))

# %% [markdown]
# There they are, it seems: training has taught the memory to hold distances. But wait.
# The memory has read the question, and the vectors have not. One label in four *is*
# $m$. Its distance from the reference is 0, and the others are about 1.6. **Write down
# first:** how much of these distances can be read from $m$ alone, four numbers of the
# input, one-hot? And how much of the 91 % is left where the label is not $m$?


# %% tags=["hide-output"]
def others_than(label):
    """The questions whose m is not this label, an even number of them."""
    found = np.flatnonzero(m != label)
    return found[: len(found) // 2 * 2]


def of_distances(numbers, questions_of):
    """The share of the distances that `numbers` (B, F) explain, mean of the labels."""
    found = []
    for label in range(4):
        some = questions_of(label)
        found.append(readable(numbers[some], of_label[some][:, [label]]))
    return np.mean(found)


whole = {
    "m, one-hot": np.eye(4)[m],
    "vectors, and m": np.concatenate([vectors, np.eye(4)[m]], axis=1),
    "vectors, squares": np.concatenate([vectors, vectors**2], axis=1),
    "memory": memory,
}
print(f"{'':20}all labels   but m")
for name, numbers in whole.items():
    everywhere = of_distances(numbers, lambda label: np.arange(len(m)))
    print(f"{name:20}{everywhere:10.0%}{of_distances(numbers, others_than):8.0%}")

# %% [markdown]
# **What a probe reads may be in four numbers of the input.** Most of the variance was
# not *how far* a label's vector is, but *whether the label is $m$*, and that the input
# says. Where the label is not $m$, these four numbers tell nothing of the distance, and
# the vectors tell nothing either. Their squares tell 12 %: a long vector is far from
# most. From the memory 82 % can be read. So ask this from now on.
#
# There is a second trap. A probe is fitted, too. Give least squares a few hundred
# numbers that depend on the inputs in any nonlinear way: it may put a distance together
# out of them, even if no training has made these numbers. So what could it read from a
# core of the same shape *that was never trained*?
#
# **Exercise 2.** A *control* (Hewitt and Liang 2019): the same probe on untrained
# cores. Give the share that is read from `rows`, the highest that is read from a
# control, and how much of what that control leaves unexplained the rows explain.


# %%
def beyond_control(rows, controls, wanted):
    """rows (B, F), controls a list of arrays (B, G), wanted (B, D) -> 3 numbers."""
    ...


ex.beyond_control.check(beyond_control)
beyond_control = ex.beyond_control.yours(beyond_control)

# %% [markdown]
# Three untrained cores read the same questions. **Write down first:** what share of the
# vectors, of the distances (where the label is not $m$), and of the question's $n$ can
# be read from *them*?

# %% tags=["hide-output"]
EVERY = np.arange(len(m))
MADE = {  # how many slots, and what is sought: of which questions, and their numbers
    "slot 0: vectors": (1, [(EVERY, each) for each in by_label]),
    "all slots: vectors": (4, [(EVERY, each) for each in by_label]),
    "all slots: distances": (
        4,
        [(others_than(label), of_label[:, [label]]) for label in range(4)],
    ),
    "all slots: which n": (4, [(EVERY, np.eye(4)[n])]),
}


def beside_untrained(seeds=range(3)):
    """Of each of `MADE`: share, control, and what is beyond it, in the mean."""
    others = [probes.read(task.build(seed), questions.inputs)[0] for seed in seeds]
    found = {}
    for name, (slots, sought) in MADE.items():
        three = []
        for some, wanted in sought:
            own, *controls = (
                each[some, :slots].reshape(len(some), -1) for each in (end, *others)
            )
            three.append(beyond_control(own, controls, wanted[some]))
        found[name] = np.mean(three, axis=0)
    return found


print(f"{'':22}trained  untrained  beyond")
for name, (share, control, beyond) in beside_untrained().items():
    print(
        f"{name:22}{share:7.0%}{control:11.0%}",
        f"{beyond:7.0%}" if beyond > 0 else "   none",
    )

# %% [markdown]
# Where the label is not $m$, the probe reads 82 % of the distances from the trained
# core, and from untrained ones -1 %: nothing. (It fits 257 numbers on some 3,700
# questions, so a share may fall a little below 0.) Had we asked of all labels, an
# untrained core would seem to hold 69 % of the distances, no more than the one-hot $m$
# by itself, 71 %. From slot 0 it reads 63 % of a vector, untrained 29 %; from all slots
# 90 %, untrained 51 %; and 96 % of $n$, untrained 99 %.
#
# So distances can be read from this memory because it was trained. Of the vectors much
# can be read without any training. The last column is what training has made linearly
# readable, beyond the best of three untrained cores.
# And $n$, which stands in every input, was there from the start: from this one trained
# memory a little *less* of it can be read than from the best of the three. (No probe
# tells whether what can be read is also *used*. The sections below take things away.)
#
# ## The gates
#
# Attention proposes, the gates decide. **Write down first:** do the input gates of the
# holders open when the reference comes?

# %% tags=["hide-output"]
after = np.arange(4) - marked[:, None]  # (B, T): steps since the reference
took = probes.holders(probes.shares(seen, marked))  # (B, N)
when = range(-3, 4)
opened = {}
for name, gate in seen.gates.items():
    of_slot = gate.mean(axis=-1)  # (B, T, N)
    for who, slots in (("holders", took), ("others", ~took)):
        some = slots[:, None] & np.ones_like(of_slot, bool)
        opened[name, who] = [
            of_slot[some & (after == t)[..., None]].mean() for t in when
        ]

# %% tags=["hide-input", "hide-output"] alt="Mean input and forget gates of holders and of other slots against steps since the reference. The input gates fall from 0.39 to 0.36, holders like others. The forget gates rise by one or two hundredths right after the reference, the holders' a little more"
# Draws the gates around the reference
figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharex=True)
for panel, name in zip(panels, seen.gates, strict=True):
    for who, style in (("holders", "o-"), ("others", "s--")):
        panel.plot(when, opened[name, who], style, label=who)
    panel.axvline(0, color="#c00000", lw=1)
    panel.set(title=f"{name} gate", xlabel="steps since the reference", xticks=when)
panels[0].set(ylabel="mean over units and questions")
panels[1].legend()
plt.show()

# %% [markdown]
# Mind the axes: they span two or three hundredths. The input gates hardly change when
# the reference comes. Forget gates keep one or two hundredths more once it has come,
# the holders' less than a hundredth more than the others'.
#
# ## Does it matter? Taking parts away
#
# To find *causes* you must interfere: take something away and count the right answers
# again.

# %%
course.show(probes.read, probes.put)

# %% [markdown]
# Right after the reference, set some slots back to the rows with which they began, and
# read on. To say that the holders matter, you need a *control*: as many other slots.
# **Write down first:** how much does the network lose with one slot of four? And with
# both holders?


# %% tags=["hide-output"]
first = (network.core.initial_state(len(marked)),)


def without(slots, steps):
    """Which questions the network answers right (B,), when `slots` (B, 4) bool are
    reset right after the step that `steps` (B,) gives.
    """

    def change(t, state):
        return probes.put(state, (steps == t)[:, None] & slots, first)

    state = probes.read(network, questions.inputs, change=change)
    return probes.answer(network, state).argmax(axis=-1) == questions.targets


def some(*slots):
    return np.tile(np.isin(np.arange(4), slots), (len(marked), 1))


for slot in range(4):
    print(f"without slot {slot}: {without(some(slot), marked).mean():.1%}")
print(f"without the holders: {without(took, marked).mean():.1%}")
print(f"without as many others: {without(probes.controls(took), marked).mean():.1%}")

# %% [markdown]
# Resetting the holders costs this network ten points more. (With 10,000 questions each
# of the two numbers has a standard error of half a point.) Do they hold more of the
# reference, as their intake suggests?
#
# **This is a good place to stop.**
#
# ## Doubting the test
#
# Is the control fair? Chance does not decide which slots hold the reference. Here is
# how often each slot is among the holders of a vector, for each label:

# %%
takers = []  # for each step, which slots took in most of its vector
for t in range(4):
    takers.append(probes.holders(probes.shares(seen, np.full(len(labels), t))))
takers = np.stack(takers, axis=1)  # (B, T, N)
for label in range(4):
    often = enumerate(takers[labels == label].mean(axis=0))
    print(
        f"label {label}:",
        ", ".join(f"slot {slot} {share:3.0%}" for slot, share in often),
    )

# %% [markdown]
# So *which slot* we reset and *which vector* it holds go together. It is fair to take
# *the same slots after the same step*: how many fewer answers are right where they took
# in that step's vector than where it went elsewhere?
#
# **Exercise 3.** Write the comparison. Within each group, take the accuracy of those
# that are treated minus that of the others. Give the mean of these differences,
# weighted by how many are treated. Groups without both kinds compare nothing.


# %%
def matched(right, treated, group):
    """right, treated (B,) bools, group (B,) integers -> a number."""
    ...


ex.matched.check(matched)
matched = ex.matched.yours(matched)

# %% [markdown]
# Now reset every pair of slots after every step, once where the reference came at that
# step and once where another vector did. **Write down first:** of the difference
# between holders and controls, how much is left?

# %% tags=["hide-output"]
tests = [*itertools.product(range(4), itertools.combinations(range(4), 2))]
outcome = [without(some(*pair), np.full(len(marked), t)) for t, pair in tests]
theirs = [(takers[:, t] == some(*pair)).all(axis=1) for t, pair in tests]
right_then, treated = np.stack(outcome), np.stack(theirs)  # (tests, B)
step_of = np.array([t for t, _ in tests])
is_reference = marked == step_of[:, None]
group = np.arange(len(tests))[:, None] + 0 * marked
alike = {"slots, step": group, "slots, step, label": 4 * group + labels[:, step_of].T}
alike["slots, step, label, n"] = 4 * alike["slots, step, label"] + n


def points(groups, kept):
    """The cost in points of resetting where they took it in, and its standard error."""
    part = np.arange(len(marked)) % 10  # ten parts of the questions

    def of(where):
        where = where & kept
        return 100 * matched(right_then[where], treated[where], groups[where])

    left_out = [of(part != k) for k in range(10)]  # one part after the other
    return of(part >= 0), 3 * np.std(left_out)


print(f"{'alike in':24}the reference came   another vector came")
for which, groups in alike.items():
    of_reference, of_other = points(groups, is_reference), points(groups, ~is_reference)
    print(f"{which:24}{of_reference[0]:+8.1f} ± {of_reference[1]:.1f}", end="")
    print(f"{of_other[0]:+16.1f} ± {of_other[1]:.1f}")

# %% [markdown]
# (The number after ± is a standard error: leave out a tenth of the questions, one tenth
# after the other, and see how far the result moves. That is the *jackknife*.) Of the
# ten points between holders and controls about half is left. Do these five points
# belong to the reference? That these numbers do not settle. In the first row another
# vector costs less. But "these slots took it in" nearly means "it has one of these
# labels"; if we match by label, too, another vector costs more. If we match by label
# and $n$, which stands in every input, it costs next to nothing, and its standard error
# is more than three times as large.
#
# So in this one network, questions that are alike in slots, step, label and $n$ are
# answered worse, by about five points, where the slots that we reset had taken in the
# reference. What another vector costs depends on what we match by.
#
# ## Cutting attention
#
# Instead of slots, forbid attention. You give the core a *mask*: a row for each slot or
# input that asks, a column for each that is asked, slots first and then the rows of
# input. Where it says `False`, the share is 0.
#
# **Exercise 4.** Write the mask with which no slot learns of another. Every row may
# attend to itself and to the rows of input, and to nothing else.


# %%
def cut_among_slots(N, n):
    """N slots, n rows of input -> mask (N + n, N + n): may a row attend to a column?"""
    ...


ex.cut_among_slots.check(cut_among_slots)
cut_among_slots = ex.cut_among_slots.yours(cut_among_slots)

# %% [markdown]
# Where the reference comes first, nothing comes before it, so look at each step
# separately. **Write down first:** where will the network stand if no slot ever looks
# at another? And where if no slot ever looks at the input?

# %%
nobody = np.zeros((1, 4), bool)
masks = probes.cuts(slots=4, rows=1, held=nobody, spared=nobody)
masks["slots"] = cut_among_slots(4, 1)


def by_step(what, cut):
    """The accuracy for each step of the reference, when cut(t) (B,) says in which
    questions attention is cut at step t.
    """

    def mask(t):
        return masks[what] | ~cut(t)[:, None, None, None]

    state = probes.read(network, questions.inputs, mask=mask)
    correct = probes.answer(network, state).argmax(axis=-1) == questions.targets
    return [correct[marked == step].mean() for step in range(4)]


periods = {
    "before the reference": lambda t: t < marked,
    "after the reference": lambda t: t > marked,
    "always": lambda t: np.full(len(marked), True),
}
accuracy_of = {
    (period, what): by_step(what, cut)
    for period, cut in periods.items()
    for what in ("slots", "input")
}
for (period, what), accuracies in accuracy_of.items():
    by = ", ".join(f"{accuracy:.0%}" for accuracy in accuracies)
    print(f"{period:20} cut off from {what}: reference at step 1 to 4: {by}")

# %% tags=["hide-input", "hide-output"] alt="Accuracy against the step of the reference. Cut to the input, it falls to the second floor where one step is cut and below the first where more are; cut among slots, it stays above both floors"
# Draws the accuracy at each step of the reference
figure, panels = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True)
for panel, period in zip(panels, periods, strict=True):
    for what, name in {"slots": "all slots but itself", "input": "the input"}.items():
        panel.plot(range(1, 5), accuracy_of[period, what], "o-", label=name)
    for value in floors["test_accuracy"].values():
        panel.axhline(value, color="0.4", lw=0.8, ls="--")
    panel.set(title=period, xlabel="step of the reference")
    panel.set(xticks=range(1, 5), ylim=(0, 1.03))
panels[0].set(ylabel="accuracy when no slot attends to")
panels[0].legend(fontsize=9, loc="lower left")
plt.show()

# %% [markdown]
# A cut before the reference cuts none to three steps, one after it three to none, and
# "always" all four. Where two steps or more are cut off from the input, the network
# falls below the two baselines that are drawn (the dashed lines). But apart from what
# they do to the gates, a vector's numbers enter the memory in no other way: a cut that
# takes the question away tells nothing of how the network answers it.
#
# The cut among slots tells more. With all four steps cut, the network still answers 70
# to 73 %, wherever the reference comes; without cuts it answers 95 %. That is above
# ranking by norm, but below the four signs, 81.6 %. So it does not show that vectors
# are still compared. (They could be: vectors can meet where a slot asks the one that is
# coming in, and in the layers after the last step.) Where only steps before the
# reference are cut, or only steps after it, the network answers 63 to 69 % with one or
# two steps cut, and 77 and 81 % with three. So it does not always lose more where more
# is cut. (Answer 1 has one step cut, and 82 %.)
#
# All of this is one trained network; of another seed we have shown nothing. And when
# some of its attention is cut, the network meets what it never met in training. So it
# does worse without what we took away, but this does not tell how much of that is the
# missing part, and how much the strangeness.
#
# ## An experiment of your own
#
# With `beyond_control`, `without`, `matched` and `by_step`: choose a question, write
# down what you expect, measure it beside a control, draw it, and write one sentence
# that your numbers bear out. For example: is an early vector held as well as a late
# one? Does the memory hold $n$, and does it hold the answer? Which head can be cut at
# no cost? (`python -m tinyrmc plot attention RUN --html look.html` looks into a run of
# yours.)
#
# The picture shows what you have measured beside its control: two curves, or bars with
# two names, at four places or more, such as the four steps. (`panel.bar(places,
# heights, label=...)` draws bars.) `check` asks whether a reader can follow it; your
# sentence you judge yourself.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% [markdown]
# ## Takeaways
#
# - A map of attention is a place to look for hypotheses. To find causes, take something
#   away, beside a control, and think of what else that takes away.
# - A probe needs controls: much can be read from a core that has learnt nothing, and
#   what it reads may be in four numbers of the input.
# - What can be read from a memory need not be used: that takes another experiment.
# - Where chance has not decided who is treated, compare like with like.
#
# **Further.** The later the reference comes, the more steps a cut before it cuts, so
# two things change at once. What would be a fair control for "cut among slots at step
# 2"? If the reference comes first, is the distance of each later vector in the memory
# at once?

# %% tags=["hide-cell"]
# Answer 1
# A fair control is the same cut at the same step, in questions whose reference comes
# elsewhere: then equally much is cut, equally late. Only what stands at that step
# differs. Cut at step 2, this one network misses the others least where the reference
# itself arrives.
at_step_2 = by_step("slots", lambda t: np.full(len(marked), t == 1))
for step, accuracy in enumerate(at_step_2, start=1):
    print(f"cut among slots at step 2, reference at step {step}: {accuracy:.1%}")


# %% tags=["hide-cell"]
# Answer 2
# The distance of the second vector is there at once; of later ones about half can be
# read. An untrained core has little or nothing of these. (It is one; the highest of
# three, as above, would be a harder control. The probe fits 257 numbers on some 1,250
# questions here, so shares below 0 say: nothing.) The reference comes first, so no
# distance here is that of m itself. But what belongs to a time step fades: at the end
# less of the second and third can be read. By then the memory has distances by *label*,
# as the answer needs them.
def by_time(core_of):
    """The share of the distances of vectors 2, 3, 4 that can be read: at once, and at
    the end.
    """
    memories = []

    def remember(t, state):
        memories.append(state[-1].reshape(len(marked), -1))
        return state

    probes.read(core_of, questions.inputs, change=remember)
    early, found = marked == 0, []
    for t in range(1, 4):
        sought = distance[early][:, [t]]
        found.append([readable(memories[step][early], sought) for step in (t, 3)])
    return found


pairs = zip(by_time(network), by_time(task.build(0)), strict=True)
for number, (trained, fresh) in enumerate(pairs, 2):
    print(
        f"vector {number}: at once {trained[0]:.0%}, untrained {fresh[0]:.0%};", end=""
    )
    print(f" at the end {trained[1]:.0%}, untrained {fresh[1]:.0%}")
