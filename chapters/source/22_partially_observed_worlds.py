# %% [markdown]
# # 22. Partially observed worlds: V-trace, keys and locks
#
# **Sections 4.2, 5.3 and A.3, figures 9 and 10.** About 105 minutes, in two sittings,
# with three minutes of computing. You need chapter 21 (learning from reward). In this
# chapter $\pi$ is the policy that learns, $\mu$ the one that acted, and $\delta$ a
# surprise.
#
# The paper's agents live in two worlds of which they see a window: *BoxWorld*, a room
# with keys and locked boxes, and *MiniPacman*. They learn from what a hundred copies
# have done, which are always a little out of date. You correct for that, train an agent
# in a small BoxWorld, and take its memory away.

# %%
import collections
import itertools

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, course, fused, optim, primitives
from tinyrmc.cores import LSTM, Feedforward
from tinyrmc.course.exercises import worlds as ex
from tinyrmc.course.exercises.acting import (
    Agent,
    act,
    numbers_of,
    one_hot,
    policy_loss,
    smooth,
)
from tinyrmc.course.exercises.worlds.boxes import graph
from tinyrmc.environments.box_levels import COLOUR, LOCK, SEEN, TRAP
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.training.rl.policy import sample
from tinyrmc.training.rl.vtrace import targets as package_vtrace

course.setup()
returns, begin_anew = course.kept("acting", "returns", "begin_anew")

# %% [markdown]
# ## Keys and locks, seen through a window
#
# Below is a level as in figure 9. The dark cell is you. A lone coloured cell is a key.
# Two cells side by side are a box: on the right its lock, on the left what is in it.
# You take a key by walking onto it, and with the key of its colour you can walk onto a
# lock. That uses the key up and opens the box. The white *gem* brings 10 and ends the
# level, a right box brings 1, and a *distractor*, a box that leads nowhere, costs 1 and
# ends the level, too. You see what is in the frame, and the key that you hold.


# %% tags=["hide-input"] alt="Left: a grey room in a black wall with a key and boxes, pairs of coloured cells; arrows lead from each key to the lock that it opens, black ones on the way to the gem, dotted ones to distractors; a frame of 5 x 5 cells around the player. Middle: what is in that frame. Right: MiniPacman's maze with food in blue, pills, a red ghost and Pacman in green, with the same frame"
# Draws a level, what you see of it, and MiniPacman
def framed(panel, world, levels):
    panel.imshow(world.rgb(levels, whole=True)[0])
    y, x = world.position(levels)[0]
    frame = plt.Rectangle((x - 2.5, y - 2.5), 5, 5, fill=False, ec="C1", lw=2)
    frame.set_clip_on(False)
    panel.add_patch(frame)
    panel.axis("off")


paper_world = BoxWorld(solution_length=4, distractors=2, colours=8, levels=40, seed=3)
levels = paper_world.start_levels(np.array([39]))
figure, (board, view, pacman) = plt.subplots(
    1, 3, figsize=(10, 3.3), width_ratios=(1, 0.4, 1.15)
)
framed(board, paper_world, levels)
margin = paper_world._margin
cells = levels["board"][0][margin : -margin or None, margin : -margin or None]
for y, x in np.argwhere((cells & SEEN) > COLOUR):
    if cells[y, x] & (LOCK | TRAP):
        continue  # a key: where are the locks that it opens?
    for row, column in np.argwhere((cells & SEEN) == cells[y, x]):
        if lock := cells[row, column] & (LOCK | TRAP):
            line = {"arrowstyle": "->", "ls": ":" if lock & TRAP else "-"}
            board.annotate("", (column, row), (x, y), arrowprops=line)
view.imshow(paper_world.rgb(levels)[0])
view.axis("off")
game = MiniPacman()
playing = game.start(np.random.default_rng(1).random((1, game.start_noise), np.float32))
framed(pacman, game, playing)
for panel, title in (
    (board, "BoxWorld"),
    (view, "what you see"),
    (pacman, "MiniPacman"),
):
    panel.set_title(title)
plt.show()

# %% [markdown]
# Our own world is tiny, so that an agent can learn it while you wait: a room of 6 x 6
# cells with one key, one lock and the gem, seen through 3 x 3 cells. How much does such
# a view tell? `graph` lists all states that a level can be in, where each action leads,
# and which actions win.
#
# **Exercise 1.** How many steps is it at least from each state? Write down the equation
# that the distances satisfy; it is Bellman's again, with a minimum in the place of the
# mean. Then solve it: set all distances at once by that equation, again and again. (A
# queue of states to look at finds them, too.)


# %%
def distances(following, wins):
    """following (S, A), states; wins (S, A), truth values -> (S,), or inf."""
    ...


ex.distances.check(distances)
distances = ex.distances.yours(distances)

# %% [markdown]
# A *shortest* action wins, or leads to a state that is one step nearer. Often there are
# several. We walk a shortest way in many levels, and sort the moments by what is seen.
# **Write down first:** you see the window and your key, nothing else. In what share of
# the moments can the best rule for each view take a shortest action?

# %% tags=["hide-output"]
TINY = {"solution_length": 1, "distractors": 0, "room": 6, "colours": 6, "limit": 60}
world = BoxWorld(**TINY, viewport=3, levels=5000, seed=0)
alike = collections.defaultdict(list)  # of each view: (level, step, shortest actions)
shortest = []
for number in range(course.fast(300, 20)):
    following, wins, seen = graph(world, number)
    d = distances(following, wins)
    best = wins | (1 + d[following] == d[:, None])
    state, step = 0, 0
    for action in world.levels.solution(number):
        alike[seen[state]].append((number, step, best[state]))
        state, step = following[state, action], step + 1
    shortest.append(step)
chosen = [np.sum([best for *_, best in moments], axis=0) for moments in alike.values()]
total = sum(map(len, alike.values()))
several = sum(best.sum() > 1 for moments in alike.values() for *_, best in moments)
print(f"{total:,} moments, {len(alike):,} views; several ways in {several / total:.0%}")
print(f"the best rule is right in {sum(c.max() for c in chosen) / total:.0%}")
print(f"the shortest way takes {np.mean(shortest):.1f} steps on average")

# %% tags=["hide-input"] alt="Two boards of 8 x 8 cells. In both the frame of 3 x 3 cells around the agent shows the same, but all arrows of shortest steps in the one point elsewhere than those in the other"
# Draws two moments that look alike and have no shortest action in common


def moment(number, step):
    level, noise = world.start_levels(np.array([number])), np.zeros((1, 1), np.float32)
    for action in world.levels.solution(number)[:step]:
        world.step(level, np.array([action]), noise)
    return level


most = sorted(alike.values(), key=len, reverse=True)
pairs = (pair for moments in most for pair in itertools.combinations(moments, 2))
two = next(pair for pair in pairs if not (pair[0][2] & pair[1][2]).any())
ARROWS = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)]) * 1.2
figure, panels = plt.subplots(1, 2, figsize=(6.5, 3))
for panel, (number, step, best) in zip(panels, two, strict=True):
    level = moment(number, step)
    panel.imshow(world.rgb(level, whole=True)[0])
    y, x = world.position(level)[0]
    frame = plt.Rectangle((x - 1.5, y - 1.5), 3, 3, fill=False, ec="C1", lw=2)
    panel.add_patch(frame)
    for dx, dy in ARROWS[best]:
        panel.arrow(x, y, dx, dy, width=0.1, color="C1", length_includes_head=True)
    panel.set_title("next: " + " or ".join(np.array(world.action_names)[best]))
    panel.axis("off")
plt.show()

# %% [markdown]
# Nothing in the window tells these two apart. The past does: which part of the room
# have you seen, and where was that lock?
#
# ## n steps and a value
#
# Chapter 21's returns add up all rewards of a trajectory, and each adds noise. A value
# can take the place of those that are far away.
#
# **Exercise 2.** The target of $n$ rewards and a value,
# $r_t + \gamma r_{t+1} + \dots + \gamma^n V_{t+n}$, for all $t$ at once: no loop over
# time. Where fewer than $n$ steps are left, `after` comes so much sooner.


# %%
def n_step(rewards, values, ended, gamma, n, after):
    """rewards, values, ended (T, ...), after (...), behind the last -> (T, ...)."""
    ...


ex.n_step.check(n_step)
n_step = ex.n_step.yours(n_step)

# %% [markdown]
# There are 20 steps, each brings 1 nine times of ten, and the values are wrong: all are
# half of the truth. **Write down first:** how do bias and spread of the first step's
# target change with $n$?

# %% tags=["hide-input", "hide-output"] alt="Against n from 1 to 20: the bias of the target of n steps falls along a straight line from about eight to zero, its standard deviation rises like a root from a third to above one"
# Measures bias and spread
rng = np.random.default_rng(14)
rewards = (rng.random((20, course.fast(5000, 50))) < 0.9) * 1.0
true = 0.9 * np.arange(20, 0, -1)
values = np.broadcast_to(true[:, None] / 2, rewards.shape)
never, nothing = np.zeros(rewards.shape, bool), np.zeros(rewards.shape[1])
steps = np.arange(1, 21)
first = [n_step(rewards, values, never, 1.0, n, nothing)[0] for n in steps]
figure, panel = plt.subplots(figsize=(6.5, 2.7))
panel.plot(steps, [true[0] - each.mean() for each in first], "o-", label="bias")
panel.plot(steps, [each.std() for each in first], "o-", label="standard deviation")
panel.set(xlabel="n", ylabel="of the target", xticks=(1, 5, 10, 15, 20))
panel.legend()
plt.show()

# %% [markdown]
# Few steps: little noise, and the value's errors. Many: the truth, and all the noise.
# *GAE* (Schulman and others 2016) takes a mean of all $n$, with weights
# $(1 - \lambda) \lambda^{n-1}$. It looks like more work, and is less.
#
# **Exercise 3.** The *surprise* of a step is $\delta_t = r_t + \gamma V_{t+1} - V_t$.
# Show that the target of $n$ steps is $V_t$ and $n$ discounted surprises. What is the
# weight of $\delta_{t+k}$ in the mean? Then one walk backwards makes it.


# %%
def gae(rewards, values, ended, gamma, lam, after):
    """rewards, values, ended (T, ...), after (...) -> the mixed targets (T, ...)."""
    ...


ex.gae.check(gae)
gae = ex.gae.yours(gae)

# %% [markdown]
# *PPO* ([Schulman and others 2017](https://arxiv.org/abs/1707.06347)), which most
# people use with it, goes through a trajectory several times. With $\rho = \pi(a) /
# \mu(a)$, the ratio of the policy that learns to the one that acted, it makes the
# smaller of $\rho A$ and $\text{clip}(\rho, 0.8, 1.2) \, A$ large. So once an action's
# probability has changed by a fifth in the direction that its advantage asks for, the
# gradient is zero.
#
# **This is a good place to stop.**
#
# ## Learning from an older self: V-trace
#
# The paper's agent, IMPALA, has a hundred actors and one learner. While trajectories
# are on their way, the learner moves on: they tell what another policy $\mu$ did. Three
# ideas correct for that.
#
# **1.** A return is a value and all its surprises (your $\lambda = 1$).
#
# **2.** A mean over the wrong actions is made right by weights
# $\rho = \pi(a) / \mu(a)$, since $\mu \rho = \pi$. A surprise $k$ steps away needs the
# product of all ratios up to it.
#
# **3.** Such a product is tiny most of the time, and now and then huge. So cut each
# ratio off at 1, $c_t = \min(1, \rho_t)$. The *target* of the value is then
#
# $$v_t = V_t + \sum_{k \ge 0} \gamma^k \, (c_t \, c_{t+1} \cdots c_{t+k}) \,
# \delta_{t+k}$$
#
# And the advantage is $v_t - V_t$, the same number. With $\gamma = \frac12$ and 4
# behind the last step; do the other rows yourself, from below:
#
# | $t$ | $\rho_t$ | $r_t$ | $V_t$ | $c_t$ | $\delta_t$ | $v_t - V_t$ | $v_t$ |
# |---|---|---|---|---|---|---|---|
# | 0 | 1 | 0 | 1 | 1 | -0.5 | | |
# | 1 | 1/2 | 0 | 1 | 1/2 | 0 | | |
# | 2 | 2 | 1 | 2 | 1 | -1 | | |
# | 3 | 1/4 | 0 | 0 | 1/4 | 0.5 | 0.5 | 0.5 |
# | 4 | 1 | 2 | 1 | 1 | 3 | 3 | 4 |
#
# **Exercise 4.** How does $v_t - V_t$ follow from $v_{t+1} - V_{t+1}$? Then write it.
# You get $\ln \rho$, because networks give logarithms, and a discount for each step, 0
# where an episode has ended.


# %%
def vtrace(log_rhos, discounts, rewards, values, after):
    """The first four (T, ...), after (...) -> targets v (T, ...)."""
    ...


ex.vtrace.check(vtrace)
vtrace = ex.vtrace.yours(vtrace)

# %% [markdown]
# What does the cut cost? In ten steps a good action brings 1 and a bad one nothing. The
# actor takes the good one half of the time, the learner nine times of ten. A table of
# values learns from what the actor does. **Write down first:** the start is worth 5 to
# the actor and 9 to the learner. Where does its value settle with plain returns, with
# the full products of ratios, and with V-trace?

# %% tags=["hide-input", "hide-output"] alt="The value of the start against updates: plain returns settle at 5, V-trace between 8 and 9, and returns weighted with the full product jump up and down around 9"
# Learns values with three kinds of targets
STEPS, EPISODES, UPDATES = 10, 20, course.fast(400, 20)
LEARNER, ACTOR = np.array([0.1, 0.9]), np.array([0.5, 0.5])
never, nothing = np.zeros((STEPS, EPISODES), bool), np.zeros(EPISODES)


def targets_of(kind, actions, values):
    """Targets (STEPS, EPISODES) for a table of values."""
    rewards, log_rhos = actions * 1.0, np.log(LEARNER / ACTOR)[actions]
    if kind == "V-trace":
        ones = np.ones((STEPS, EPISODES))
        return np.array(
            vtrace(log_rhos, ones, rewards, values[:, None] * ones, nothing)
        )
    if kind == "plain returns":
        return np.array(returns(rewards, never, 1.0, nothing))
    # rewards may be weighted by the actions up to them alone
    so_far = [np.exp(np.cumsum(log_rhos[t:], axis=0)) for t in range(STEPS)]
    return np.array([(so_far[t] * rewards[t:]).sum(axis=0) for t in range(STEPS)])


figure, panel = plt.subplots(figsize=(7, 3))
for kind in ("full products", "plain returns", "V-trace"):
    values, starts, random = np.zeros(STEPS), [], np.random.default_rng(0)
    for _ in range(UPDATES):
        actions = random.choice(2, size=(STEPS, EPISODES), p=ACTOR)
        values += 0.1 * (targets_of(kind, actions, values).mean(axis=1) - values)
        starts.append(values[0])
    panel.plot(starts, label=kind, lw=1)
    late = starts[UPDATES // 2 :]
    print(f"{kind}: {np.mean(late):.2f}, give or take {np.std(late):.2f}")
for name, height in {"actor": 5, "between": 25 / 3, "learner": 9}.items():
    panel.axhline(height, color="0.4", lw=0.8, ls=":")
    at = height + {"learner": 0.45, "between": -0.45}.get(name, 0)  # names apart
    panel.text(1.01, at, name, transform=panel.get_yaxis_transform(), va="center")
panel.set(xlabel="updates", ylabel="value of the start", ylim=(0, 18))
panel.legend(loc="upper right")
plt.show()

# %% [markdown]
# The full products are right on average, but what use is that if the next update may
# double the value? V-trace settles calmly at $10 \cdot \frac56$, the value of a third
# policy: where $\mathbb{E}_\mu[c \, \delta] = 0$, a mean over $\min(\mu, \pi)$
# vanishes, here 0.5 for the good action and 0.1 for the other. (In practice nearly all
# ratios are near 1.)
#
# ## Keys and locks, live
#
# The loss is chapter 21's, with $v$ in the place of $G$. It also gives the ratios
# $\pi / \mu$. Here the actor *is* the learner, so each must be 1. If one is not, the
# learner has not repeated what the actor thought, and nothing crashes: log the ratios.


# %%
class Training:
    """An agent, the levels where it plays, and what it has learnt so far."""

    B, T, updates = 128, 20, course.fast(400, 4)

    def __init__(self, make_core, seed=0):
        self.rng = np.random.default_rng([seed, 14])
        levels = world.start(self.rng.random((self.B, 1), np.float32))
        seen = see_box(world.observe(levels)).shape[1]
        self.agent = Agent(make_core, seen, world.actions, 64, seed)
        self.adam = optim.Adam(self.agent.parameters())
        begin = self.agent.core.initial_state(self.B)
        self.now, self.lines = (levels, begin, np.ones(self.B, bool)), []

    def loss(self, trajectory, first):
        """The loss of a trajectory, and the ratios pi / mu."""
        T, taken = self.T, trajectory["taken"]
        logits, values, _ = self.agent(trajectory["seen"], first, trajectory["fresh"])
        log_pi, entropies = fused.categorical(logits[:, :T], taken)
        log_rhos, V = log_pi.data - trajectory["log_mu"], values.data
        discounts, rewards = (
            0.99 * ~trajectory["ended"].T,
            0.1 * trajectory["rewards"].T,
        )
        found = vtrace(log_rhos.T, discounts, rewards, V[:, :T].T, V[:, T])
        targets = np.asarray(found, np.float32).T
        loss = policy_loss(logits[:, :T], taken, targets - V[:, :T])
        loss = loss + 0.25 * primitives.sum(primitives.square(values[:, :T] - targets))
        loss = loss - 0.003 * primitives.sum(entropies)
        return loss * (1 / taken.size), np.exp(log_rhos)

    def go(self, updates):
        for _ in range(updates):
            first = self.now[1]
            trajectory, self.now = act(
                self.agent, world, see_box, self.now, self.T, self.rng, begin_anew
            )
            with Tape() as tape:
                loss, _ = self.loss(trajectory, first)
            self.adam.zero_grad()
            tape.backward(loss)
            rate = 2e-3 * (1 - len(self.lines) / self.updates)
            self.adam.step(learning_rate=rate, max_norm=0.1)
            rewards, ended = trajectory["rewards"], trajectory["ended"]
            self.lines.append((rewards.size, ended.sum(), (rewards == 10).sum()))


def see_box(seen):
    """One-hot codes of the window and of the held key, side by side."""
    view = one_hot(seen["view"], world.observation["view"].highest)
    held = one_hot(seen["held"], TINY["colours"])
    return np.concatenate([view.reshape(len(view), -1), held], axis=1)


CORES = {
    "RMC": lambda n, seed: RelationalMemory(
        n, 4, 16, num_heads=2, gate_style="memory", seed=seed
    ),
    "LSTM": lambda n, seed: LSTM(n, 40, seed=seed),
    "no memory": lambda n, seed: Feedforward(n, 64, seed=seed),
}
trainings = {name: Training(core) for name, core in CORES.items()}
for name, training in trainings.items():
    print(f"{name}: {training.agent.num_parameters:,} parameters")

# %% [markdown]
# To watch the agents we draw other levels, and leave out those that the training has by
# chance.


# %%
unseen = BoxWorld(**TINY, viewport=3, levels=1000, seed=1)


def boards(world):
    pairs = zip(world.levels.board, world.levels.start.tolist(), strict=True)
    return [(board.tobytes(), start) for board, start in pairs]


learnt_on = set(boards(world))
new = [k for k, board in enumerate(boards(unseen)) if board not in learnt_on]
PLAYED = np.array(new[: course.fast(400, 20)])


def play(agent, forget=False):
    """Whether each level was solved, after how many steps, and all moments.

    forget: the core's state begins anew in every step.
    """
    random, B = np.random.default_rng(0), len(PLAYED)
    levels, film = unseen.start_levels(PLAYED), []
    begin = state = agent.core.initial_state(B)
    running, solved, steps = np.ones(B, bool), np.zeros(B, bool), np.zeros(B, int)
    while running.any():
        trace, seen = [], unseen.observe(levels)
        logits, _, state = agent(see_box(seen)[:, None], state, trace=trace)
        looked = dict(*trace, state=numbers_of(state))  # a memory alone leaves a trace
        film.append((running.copy(), seen, looked))
        taken = sample(logits.data[:, 0], random.random(B, np.float32))
        outcome = unseen.step(levels, taken, random.random((B, 1), np.float32))
        steps += running
        solved |= running & (outcome.reward == 10)
        running &= ~outcome.ended
        state = begin_anew(numbers_of(state), outcome.ended | forget, begin)
    return solved, steps, film


def in_words(solved, steps, film):
    return f"{solved.mean():.1%} of the levels, {steps.mean():.1f} steps a level"


untrained = play(trainings["RMC"].agent)
print("untrained:", in_words(*untrained))

# %% [markdown]
# **Write down first:** what share of the levels does each of the three solve in the
# end, and in how many steps?

# %%
trainings["RMC"].go(Training.updates // 2)

# %%
trainings["RMC"].go(Training.updates // 2)

# %%
trainings["LSTM"].go(Training.updates)
trainings["no memory"].go(Training.updates)

# %% tags=["hide-output"]
played = {name: play(training.agent) for name, training in trainings.items()}
for name, result in played.items():
    print(f"{name}:", in_words(*result))

# %% tags=["hide-input", "hide-output"] alt="Left: the share of solved levels against steps for the three agents; right: the steps that a level takes, falling from about sixty; the agent without a memory levels off with fewer solved levels and more steps than the others"
# Draws what was learnt
colours = {"RMC": "C0", "LSTM": "C1", "no memory": "0.5"}
figure, (share, length) = plt.subplots(1, 2, figsize=(9.5, 3))
for name, training in trainings.items():
    steps, solved, taken = smooth(training.lines)
    share.plot(steps / 1e6, solved, color=colours[name], label=name)
    length.plot(steps / 1e6, taken, color=colours[name], label=name)
length.axhline(np.mean(shortest), color="0.4", lw=0.8, ls="--")
inside = length.get_yaxis_transform()
length.text(
    0.02, np.mean(shortest) + 1, "the shortest way", transform=inside, color="0.4"
)
share.set(xlabel="million steps", ylabel="levels solved", ylim=(0, 1.03))
length.set(xlabel="million steps", ylabel="steps a level", ylim=(0, None))
share.legend(loc="lower right")
plt.show()

# %% [markdown]
# The one without a memory has learnt to roam the room until it meets the key and then
# the lock. That is one run of each: it does not say which of the two memories is
# better, and they are level. Here are the ways of three agents through one level, the
# untrained one until its time was up (the step that ends it counts as its 60th; the way
# stops there):

# %% tags=["hide-input"] alt="The same board three times with the way of an agent: the untrained one wanders; the one without a memory roams; the RMC walks to the key, to the lock and to the gem with few detours"
# Draws the ways of three agents
ways = {"untrained": untrained, "no memory": played["no memory"], "RMC": played["RMC"]}
steps = played["RMC"][1]
TYPICAL = int(np.argsort(steps, kind="stable")[len(steps) // 2])
figure, panels = plt.subplots(1, 3, figsize=(10, 3.5))
for panel, (name, (solved, steps, film)) in zip(panels, ways.items(), strict=True):
    panel.imshow(unseen.rgb(unseen.start_levels(PLAYED[[TYPICAL]]), whole=True)[0])
    moments = [(*seen["position"][TYPICAL], seen["held"][TYPICAL])
               for running, seen, _ in film if running[TYPICAL]]  # fmt: skip
    y, x, held = np.array(moments, float).T
    shift = np.random.default_rng(0).uniform(-0.25, 0.25, (2, len(x)))
    x, y = x + shift[0], y + shift[1]
    phase = (held > 0) + 2 * (np.cumsum(np.diff(held, prepend=0) < 0) > 0)
    for number, colour in enumerate(("C1", "C2", "C0")):
        part = np.flatnonzero(phase == number)
        part = np.append(part, part[-1:] + 1).clip(max=len(x) - 1)
        label = ("to the key", "to the lock", "to the gem")[number]
        panel.plot(x[part], y[part], color=colour, lw=1.5, label=label)
    panel.plot(x[0], y[0], "o", color="black")
    end = "solved" if solved[TYPICAL] else "not solved"
    panel.set_title(f"{name}: {end}, {steps[TYPICAL]} steps", fontsize=10)
    panel.axis("off")
panels[1].legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, fontsize=9)
plt.show()

# %% [markdown]
# ## What the memory attends to
#
# In each step every slot spreads its attention over the four slots and the input.
# **Write down first:** is more of it on the input when there is something to see, a
# key, a lock or the gem? To all alike it would be 20 %. And how far apart are the four
# slots after 20 steps? (Take their mean away, and compare what is left with the whole
# memory. A fresh one, four rows of the identity, has 87 %.)

# %% tags=["hide-input", "hide-output"] alt="Left: the attention to the input step by step through the level above: a line for the mean of four slots and a band from the least to the most, with marks where the key was taken and the lock opened. Right: the mean attention of each slot to the input with and without something coloured in the window: three fifths with it, more than three quarters without, alike for all slots"
# Draws the attention to the input, and measures how far apart the slots are
film = played["RMC"][2]
shares, coloured, one, held = [], [], [], []
for running, seen, trace in film:
    to_input = trace["attention"][:, :, :, -1].mean(axis=1)  # (levels, slots)
    shares.append(to_input[running])
    coloured.append(seen["view"][running].max(axis=(1, 2)) > 1)
    if running[TYPICAL]:
        one.append(to_input[TYPICAL])
        held.append(int(seen["held"][TYPICAL]))
shares, coloured, one = np.concatenate(shares), np.concatenate(coloured), np.array(one)
figure, (way, means) = plt.subplots(1, 2, figsize=(9.5, 2.9))
step = np.arange(1, len(one) + 1)
way.fill_between(step, one.min(axis=1), one.max(axis=1), color="C0", alpha=0.3, lw=0)
way.plot(step, one.mean(axis=1), color="C0", label="mean of four slots")
for k, (before, after) in enumerate(itertools.pairwise(held), 1):
    if before != after:
        way.axvline(k, color="0.6", lw=0.8, ls=":")
        way.text(k, 1.02, "key" if after else "lock", ha="center", fontsize=9)
way.set(xlabel="step", ylabel="attention to the input", ylim=(0, 1))
way.legend(loc="lower left")
kinds = {"something to see": coloured, "floor and wall alone": ~coloured}
for k, (name, where) in enumerate(kinds.items()):
    mean = shares[where].mean(axis=0)
    place, colour = np.arange(4) + 0.4 * k - 0.2, ("C1", "0.6")[k]
    means.bar(place, mean, 0.36, label=name, color=colour)
    print(f"{name}: {mean.mean():.0%} on average over the slots")
means.axhline(0.2, color="0.4", lw=0.8, ls="--")
means.set_xticks(range(4), [f"slot {k}" for k in range(4)])
means.set(ylim=(0, 1.2), yticks=np.linspace(0, 1, 6))
means.legend(loc="upper center", ncols=2)
plt.show()

for after in (5, 10, 20):
    running, _, trace = film[after - 1]
    memory = trace["state"][running]  # (levels, slots, units)
    own = memory - memory.mean(axis=1, keepdims=True)
    print(f"{after} steps: {np.sqrt((own**2).sum() / (memory**2).sum()):.0%} apart")

# %% [markdown]
# No story of slots that wake up at the sight of a key: they give it *less*. And after
# twenty steps the slots hold the same. That equal slots *stay* equal you know: all go
# through the same weights and hear the same input (chapter 5). But these began apart.
# Why do they *become* equal?
#
# Write the next memory of a slot as $f \odot m + i \odot \tanh(c)$, and let two slots
# differ by $d$. If gates and candidates $c$ were the same for both, $f \odot d$ would
# be left of $d$ after a step, and $f^t \odot d$ after $t$ steps. A forget gate below 1
# wears every difference off, and only *different candidates* can make a new one. Those
# come from what the slots attend to. But most of their attention goes to the same
# input, and where slots become alike, their queries do, too. From 9 % after five steps
# to 2 % after ten, a difference lost a quarter in each step. (This core has
# `gate_style="memory"`, one gate for all units of a slot, so $f$ is one number for
# each.)
#
# In a long episode this agent remembers as much as one slot would. We have not shown
# that other seeds do so, nor how much of it is the gate: print `trace["forget_gate"]`
# for each step, and see whether it is about three quarters.
#
# Does the memory matter, then? Take it away: a fresh state in *every* step. **Write
# down first:** what share of the levels does it solve then?

# %% tags=["hide-output"]
print("with its memory:", in_words(*played["RMC"]))
print("without it:", in_words(*play(trainings["RMC"].agent, forget=True)))

# %% [markdown]
# It falls far below the agent that never had one, and that has learnt to roam. (One
# seed of each. How much the memory is worth beside *no* memory, 99 to 88 % of the
# levels, this pair of runs shows better: an agent whose memory is taken away was never
# trained to do without it.)
#
# ## What has been measured
#
# The paper's RMC solves 98 % of BoxWorld's levels after $10^9$ steps, its ConvLSTM 73
# %. In a thirteenth of these steps this project's agents, two seeds each, solve 36.7 %
# (35.6 to 37.7) with the RMC, 38.3 % (37.9 to 38.7) with an LSTM, 42.7 % (40.6 to 44.8)
# with a ConvLSTM, which alone sees the board through convolutions, and 23.6 % (23.4 to
# 23.8) without a memory. (With the same convolutions, one run each: RMC 40.0 %, LSTM
# 43.3 %.) But a player who opens whatever box fits has 35.8 %, and each number has an
# error of 3. So a memory is worth more than none. But we have *not* shown that RMC or
# LSTM plan better than this player, nor that any of the three memories is ahead, nor
# what the paper shows.
#
# In MiniPacman the paper's RMC scores 677 and its LSTM 550; ours 463 (462 to 465) and
# 491, and 482 (476 to 489) without a memory, each with an error of 14: of a memory's
# worth there, at 31 million steps, these runs show nothing. (The paper gives no
# spread.) [The results](../benchmarks/worlds.md) have all runs.
#
# | | |
# |---|---|
# | `python -m tinyrmc play box_world` | you play, with the arrow keys |
# | `python -m tinyrmc.train box_world` | an agent learns to open one or two locks |
#
# The package's targets are yours; its `agent.lag` makes trajectories some updates old.

# %%
course.show(package_vtrace, docstring=False)

# %% [markdown]
# ## Takeaways
#
# - Compare with all right answers, and with a player without a plan.
# - Few steps and a value: bias. Many steps: noise.
# - V-trace gives each surprise the product of ratios $\pi / \mu$, each cut off at 1. It
#   learns the values of a policy between the actor's and the learner's.
# - Log the ratio: if actor and learner are the same, it must be 1.
#
# **Further.** What are the ratios if the learner forgets to begin anew? And if it
# learns from a trajectory that was acted some updates ago?

# %% tags=["hide-cell"]
# Answer 1
# Within an episode they are 1; after an end they are anything.
training = trainings["LSTM"]
first = training.now[1]
kept, _ = act(
    training.agent, world, see_box, training.now, 20, training.rng, begin_anew
)
for name, fresh in (("as acted", kept["fresh"]), ("never anew", 0 * kept["fresh"] > 0)):
    ratios = training.loss(kept | {"fresh": fresh}, first)[1]
    print(f"{name}: pi / mu from {ratios.min():.4f} to {ratios.max():.4f}")

# %% tags=["hide-cell"]
# Answer 2
# They move away from 1 with each update between acting and learning.
training = Training(CORES["LSTM"])
training.go(course.fast(40, 2))
first = training.now[1]
kept, _ = act(
    training.agent, world, see_box, training.now, 20, training.rng, begin_anew
)
for lag in range(course.fast(4, 2)):
    ratios = training.loss(kept, first)[1]
    print(f"{lag} updates ago: pi / mu from {ratios.min():.2f} to {ratios.max():.2f}")
    training.go(1)
