# %% [markdown]
# # 21. Learning from reward: a maze that takes a memory
#
# **Sections 4.2 and A.3, on the smallest world.** About 255 minutes, in four sittings,
# with two minutes of computing. You need the tape (chapter 3), learning (chapter 5) and
# the step of a core (chapters 9 and 10). In this chapter $\pi$ is a policy, $G$ a
# return, $V$ a value, $b$ a baseline and $A$ an advantage (in a shape, the number of
# actions).
#
# In all chapters so far somebody knew the right answer and told the network. Now nobody
# does. The network acts in a world, and all it is told is how well things went: now and
# then a number, the *reward*. And it does not see the whole world. Such a world is
# a *partially observable Markov decision process*, a POMDP: what comes next depends on
# the world's state and the action alone, but you see only part of the state.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, course, optim
from tinyrmc.autograd import engine
from tinyrmc.cores import LSTM, Feedforward
from tinyrmc.course.exercises import acting as ex
from tinyrmc.course.exercises.acting import Agent, Maze, act, one_hot, smooth
from tinyrmc.training.rl.policy import log_probs

course.setup()

# %% [markdown]
# ## The maze
#
# A corridor leads to a junction. At the start a sign says which way to turn. Three
# steps later you are at the junction, where nothing reminds you. The correct turn
# brings 1, the wrong one -1, and after twelve steps it is over anyway.

# %% tags=["hide-input"] alt="The T-maze drawn as a corridor of four cells with a junction at its end. A sign stands at the start. The way left from the junction and the way right are marked plus one and minus one"
# Draws the maze
figure, panel = plt.subplots(figsize=(6, 1.9))
cells = [(k, 0) for k in range(4)] + [(3, 1), (3, -1)]
signs = ["sign:\nleft", "?", "?", "junction", "left: +1", "right: -1"]
colours = ["C4", "0.9", "0.9", "0.75", "C2", "C1"]
for (x, y), sign, colour in zip(cells, signs, colours, strict=True):
    panel.add_patch(plt.Rectangle((x, y), 1, 1, fc=colour, ec="white", lw=2))
    panel.text(x + 0.5, y + 0.5, sign, ha="center", va="center", fontsize=9)
panel.set(xlim=(-0.1, 4.1), ylim=(-1.1, 2.1))
panel.axis("off")
plt.show()

# %% [markdown]
# So the agent needs a state $h_t$ made of all that it has seen so far, and its
# *policy*, the rule by which it acts, must be a function of that state. You have seen
# this network before: a core, and a softmax behind it.
#
# $$h_t = \text{core}(x_t, h_{t-1}) \qquad
# \pi(a \mid h_t) = \text{softmax}_a(W h_t)$$
#
# ## What a step has brought
#
# An *episode* goes from the beginning to the end. Step $t$ brings the reward $r_t$. A
# good step may bring nothing at once: what it has brought in the end is the *return*
# $G_t$, the sum of all rewards from then on. A reward $k$ steps away counts only
# $\gamma^k$ times, where the *discount* $\gamma$ is a little below 1. We act for $T$
# steps, a *trajectory*, and stop there to learn; what is still to come is then an
# estimate, `after`. And if an episode ends within the trajectory, the next step begins
# a new one. With $\gamma = \frac12$:
#
# | $t$ | 0 | 1 | 2 | 3 | 4 | after |
# |---|---|---|---|---|---|---|
# | $r_t$ | 0 | 0 | 1 | 0 | 2 | |
# | $G_t$ | 0.625 | 1.25 | 2.5 | 3 | 6 | 8 |
# | $G_t$ if an episode ends with step 2 | 0.25 | 0.5 | 1 | 3 | 6 | 8 |
#
# **Exercise 1.** Find how $G_t$ follows from $G_{t+1}$. Then compute all returns, for
# all levels of a batch at once: time is the first axis.


# %%
def returns(rewards, ended, gamma, after):
    """rewards, ended (T, ...), a number gamma, after (...) -> returns (T, ...)."""
    ...


ex.returns.check(returns)
returns = ex.returns.yours(returns)

# %% [markdown]
# ## A world of one step: the bandit
#
# A machine has three arms, which pay 10, 11 or 12 on average, with a noise of 1. You
# pull one, and that is the episode. There is nothing to see and nothing to remember,
# only a policy $\pi = \text{softmax}(z)$ with three logits. How should they move so
# that the mean reward $J = \sum_a \pi_a q_a$ grows? With
# $\nabla \pi_a = \pi_a \nabla \ln \pi_a$,
#
# $$\nabla J = \sum_a \pi_a \, q_a \nabla \ln \pi_a
# = \mathbb{E}\big[\, r \, \nabla \ln \pi_a \,\big]$$
#
# The right side is a mean over what happens when you simply act. You need not know how
# the machine works. This is the *policy gradient*. And any number $b$ may be subtracted
# from the reward, as long as it does not depend on the action:
# $\mathbb{E}[\, b \, \nabla \ln \pi_a ] = b \, \nabla \sum_a \pi_a
# = b \, \nabla 1 = 0$.
# Such a *baseline* leaves the mean as it is. What remains is the *advantage*,
# $A = r - b$: better than expected, or worse.
#
# **Exercise 2.** Derive $\nabla_z \ln \pi_a$; you know its negative from chapter 5.
# Then write the gradient of $\sum A \ln \pi_a$.


# %%
def policy_gradient(logits, actions, advantages):
    """logits (..., n_actions), actions and advantages (...) -> gradient of logits."""
    ...


ex.policy_gradient.check(policy_gradient)
policy_gradient = ex.policy_gradient.yours(policy_gradient)

# %% [markdown]
# ### The best baseline
#
# *Extra: which number has the least noise. Nothing later uses it.*
#
# Which baseline is best? The mean of the gradient does not depend on $b$. Its variance
# does: that is the mean of the squared length, less a part in which there is no $b$.
#
# **Exercise 3.** Set the derivative of that mean with respect to $b$ to 0, and solve.
# (Let arm $a$ always pay $q_a$.) Is it the expected reward?


# %%
def best_baseline(pi, q):
    """pi (A,), a softmax's probabilities; q (A,), what each arm pays -> b, a number."""
    ...


ex.best_baseline.check(best_baseline)
best_baseline = ex.best_baseline.yours(best_baseline)

# %% [markdown]
# It is the expected reward where all arms are equally likely. Else a rare arm counts
# more than its probability, because its pull moves the logits farther. Of two arms,
# each counts with the probability of the *other* one.
#
# ### How much noise it takes away
#
# **Write down first:** from three equal logits, how many times smaller is the noise,
# the standard deviation of one pull's gradient, with a baseline of 11 than without?

# %% tags=["hide-output"] alt="The standard deviation of the gradient against the baseline is V-shaped, from nine at 0 down to about one at 11, while the length of its mean stays level at a half"
PAYS = np.array([10.0, 11.0, 12.0])


def noise(baseline, seed=0, count=100_000):
    """The standard deviation of one pull's gradient, and the length of its mean."""
    random = np.random.default_rng(seed)
    arms = random.integers(3, size=count)
    paid = PAYS[arms] + random.normal(size=count)
    found = np.array(policy_gradient(np.zeros((count, 3)), arms, paid - baseline))
    return np.sqrt(found.var(axis=0).sum()), np.linalg.norm(found.mean(axis=0))


baselines = np.arange(0, 23, 1.0)
deviations, lengths = np.array([noise(b) for b in baselines]).T
figure, panel = plt.subplots(figsize=(6, 2.8))
panel.plot(baselines, deviations, label="standard deviation")
panel.plot(baselines, lengths, label="length of the mean")
panel.set(xlabel="baseline", ylabel="gradient of one pull")
panel.legend()
plt.show()
less = deviations[0] / deviations[11]
print(f"noise: {less:.1f} times smaller with 11 than without")

# %% [markdown]
# **This is a good place to stop.**
#
# **Exercise 4.** Build an experiment whole. First one game: `pulls` pulls of a machine,
# and after each one step uphill along your gradient. All logits begin with 0. The
# baseline is the mean of all earlier rewards, and 0 before the first. So that your game
# can be checked, draw each pull in this order: the arm by
# `random.choice(len(pays), p=pi)`, what it pays by `pays[arm] + random.normal()`.


# %%
def play(random, pays, pulls, rate, with_baseline):
    """random, a generator; pays (A,) -> the best arm's probability after each pull."""
    ...


ex.play.check(play)
play = ex.play.yours(play)

# %% [markdown]
# Then the evaluation and the picture. One game says nothing, and twenty show only a
# large difference. Let twenty people play 500 pulls each at five rates from 0.01 to 1,
# with a baseline and without. Draw in how many of twenty games the best arm wins in the
# end (has more than half of the probability), against the rate: two curves, named, and
# named axes. **Write down first** what you expect. (One possible picture is answer 1,
# at the end.)

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% [markdown]
# Here are the games at a rate of 0.1, pull by pull:

# %% tags=["hide-output"] alt="The probability of the best arm over 500 pulls for twenty games each; without a baseline most fall to 0, with one all rise to near 1"
PULLS = course.fast(500, 20)
games = {
    name: [play(np.random.default_rng(k), PAYS, PULLS, 0.1, known) for k in range(20)]
    for name, known in (("without a baseline", False), ("with a baseline", True))
}
figure, panels = plt.subplots(1, 2, figsize=(9.5, 2.8), sharey=True)
for panel, (name, curves) in zip(panels, games.items(), strict=True):
    panel.plot(np.transpose(curves), color="C0", lw=0.7)
    panel.set(xlabel="pulls", ylim=(-0.02, 1.02), title=name)
    won = np.sum(np.array(curves)[:, -1] > 0.5)
    print(f"{name}: the best arm has won {won} times of 20")
panels[0].set(ylabel="probability of the best arm")
plt.show()

# %% [markdown]
# Without a baseline the best arm has won 5 of these twenty games. Do not build on that:
# of the next twenty, seeds 20 to 39, the best arm wins 15 games. Over 200 games it wins
# a share of 0.54 without a baseline, at a third of the rate 0.70, at three times the
# rate 0.43: the larger the step, the more chance decides. With a baseline it is 1.00,
# 1.00 and 0.98.
#
# Why does chance decide so much? One explanation: without a baseline every reward, near
# 11, makes the arm that was pulled more likely, whichever it was. So it is pulled
# again, and soon hardly any other one is. **Write down first:** with a baseline of 22
# there is as much noise as without one (look at the V above), but every pull makes its
# arm *less* likely. Does the best arm win more games then? Here are twenty. (To take
# 22 off what the arms pay is the same.)

# %% tags=["hide-output"]
curves = [
    play(np.random.default_rng(k), PAYS - 22, PULLS, 0.1, False) for k in range(20)
]
won = np.sum(np.array(curves)[:, -1] > 0.5)
print(f"with a baseline of 22: the best arm has won {won} times of 20")

# %% [markdown]
# Over 200 games the best arm wins a share of 0.50 with a baseline of 22, at a third of
# the rate 0.72, at three times the rate 0.39. This differs from no baseline by no more
# than chance may bring. So that cannot be the whole explanation: here each pull made
# its arm rarer, and as many games were lost. What the two baselines, 0 and 22, have in
# common is the noise of the gradient, whose mean is the same for every baseline.
#
# **This is a good place to stop.**
#
# ## Many steps: every step is a bandit
#
# The probability of an episode is a product: how likely each action is, times how
# likely the world's answer to it. The logarithm turns it into a sum, and the world's
# part does not depend on our network. So each step's $\nabla \ln \pi$ is paid with all
# rewards of the episode. But those from before step $t$ do not depend on its action:
# like a baseline they change no mean. We leave them out, and their noise with them.
# What is left is $G_t$:
#
# $$\nabla J = \mathbb{E}\Big[ \sum_t G_t \, \nabla \ln \pi(a_t \mid h_t) \Big]$$
#
# Each step is a pull of a bandit, paid with what came after it. (A factor $\gamma^t$
# belongs there, too. Like nearly everybody we leave it out.) The baseline is different
# in each moment: the network gets a second output, the *value* $V(h_t)$, its own guess
# of $G_t$. If $h_t$ keeps all of the past that matters (without a memory it does not),
# then by the recursion of your returns the true value satisfies *Bellman's equation*,
# $V(h_t) = \mathbb{E}[\, r_t + \gamma V(h_{t+1}) ]$. Policy and value together are
# called *actor and critic*. The value has two jobs: it is the baseline, and where a
# trajectory stops before its episode does, it is `after`.
#
# The loss, to be made small, is the mean over all steps of
#
# $$-(G_t - V_t) \ln \pi(a_t \mid h_t) + \tfrac14 (V_t - G_t)^2 - c_H H(\pi)$$
#
# where no gradient goes through the advantage $G_t - V_t$ and the target $G_t$: they
# are numbers. The *entropy* $H = -\sum_a \pi_a \ln \pi_a$ keeps the policy from
# settling too early. Your gradient makes the first term an operation. (`indices` names
# the arguments that are integers, which have no gradient.)


# %%
@engine.primitive(indices=(1,))
def policy_loss(xp, logits, actions, advantages):
    """-sum of A ln pi(a); advantages are constants"""
    loss = -xp.sum(log_probs(logits, actions) * advantages)
    return loss, (logits, actions, advantages)


@policy_loss.vjp
def policy_loss_vjp(xp, needs, g, logits, actions, advantages):
    gradient = policy_gradient(logits, actions, advantages)
    return -g * np.asarray(gradient, logits.dtype), None, None


# %% [markdown]
# ## A new episode, a new state
#
# We act in many levels at once, and they end at different times. Where one has ended,
# its agent must not remember it. It is easy to get this almost right: if the numbers of
# levels, slots and units happen to agree, `np.where` takes a mask along the wrong axis.
#
# **Exercise 5.** Begin anew where a level has ended: for a memory (B, N, F), for an
# LSTM, whose state is a tuple of two arrays, and for whatever else is made of arrays
# and tuples.


# %%
def begin_anew(state, ended, begin):
    """state and begin alike, arrays (B, ...) or tuples; ended (B,) -> a state."""
    ...


ex.begin_anew.check(begin_anew)
begin_anew = ex.begin_anew.yours(begin_anew)

# %% [markdown]
# The agent: one layer looks, the core remembers, another layer, which sees what both
# have made, decides. (So the $h_t$ that $W$ multiplies is what this layer makes of
# them. The value is one more output of $W$.) `act` plays:

# %%
course.show(Agent.__call__, act, docstring=False)

# %% [markdown]
# **Exercise 6.** Now the learning. The learner goes through the trajectory again, on
# the tape, from the state `first` in which it began, and makes one step of Adam. What
# is `seen` has $T + 1$ moments: the last one's value is `after`. The discount is 0.99;
# gradients are clipped at 0.1. (`fused.categorical(logits, taken)` gives $\ln \pi(a)$
# and the entropies. In your returns time is the first axis.)


# %%
from tinyrmc import Tape, fused, primitives  # noqa: F401, for your function


def update(agent, adam, trajectory, first, rate, entropy_cost):
    """trajectory: a dict of seen (B, T + 1, n), fresh (B, T + 1), taken, rewards and
    ended (B, T) -> the loss, a number.
    """
    ...


ex.update.check(update)
update = ex.update.yours(update)

# %% [markdown]
# An episode may be *terminated* by the rules or *truncated* by a limit of time. Your
# returns let nothing come after either. For the maze that is right: its limit is one of
# the rules. Where a limit only saves time, one should put the value of what would have
# come in the place of the 0. (The package does as we do; [Pardo and
# others](https://arxiv.org/abs/1712.00378) say what it costs.)
#
# ## Three agents
#
# They are alike but for their cores: an LSTM, a small RMC, and a layer without a state.
# **Write down first:** in what share of the episodes does each turn correctly in the
# end? A coin has 50 %.


# %%
UPDATES = course.fast(300, 4)


def train(
    core, seed=0, maze=Maze, T=8, updates=UPDATES, entropy=0.01, rate=0.01, anew=None
):
    """The steps so far, and the share of correct turns, smoothed over 20 updates."""
    world, rng = maze(), np.random.default_rng([seed, 14])
    agent = Agent(core, 4, world.actions, 16, seed)
    adam, lines = optim.Adam(agent.parameters()), []

    def see(seen):
        return one_hot(seen["view"], 3)

    now = (
        world.start(rng.random((64, 1), np.float32)),
        agent.core.initial_state(64),
        np.ones(64, bool),
    )
    for k in range(updates):
        first = now[1]
        trajectory, now = act(agent, world, see, now, T, rng, anew or begin_anew)
        falling = rate * (1 - k / updates)
        update(agent, adam, trajectory, first, falling, entropy)
        rewards, ended = trajectory["rewards"], trajectory["ended"]
        lines.append((ended.size, ended.sum(), (rewards == 1).sum()))
    steps, right, _ = smooth(lines)
    return steps, right


CORES = {
    "LSTM": lambda n, seed: LSTM(n, 16, seed=seed),
    "RMC": lambda n, seed: RelationalMemory(n, 2, 8, num_heads=2, seed=seed),
    "no memory": lambda n, seed: Feedforward(n, 16, seed=seed),
}

# %% tags=["hide-output"]
in_the_maze = {}
for name, seed in itertools.product(CORES, range(3)):
    in_the_maze[name, seed] = train(CORES[name], seed)
for name in CORES:
    ends = [in_the_maze[name, seed][1][-1] for seed in range(3)]
    print(f"{name:10}", ", ".join(f"{end:.0%}" for end in ends))

# %% tags=["hide-input", "hide-output"] alt="Share of correct turns against steps in the maze, three seeds each: LSTM and RMC rise to 1, the agents without a memory stay below the dashed half"
# Draws the share of correct turns
figure, panel = plt.subplots(figsize=(7, 3))
colours = {"RMC": "C0", "LSTM": "C1", "no memory": "0.5"}
for (name, seed), (steps, shares) in in_the_maze.items():
    panel.plot(steps, shares, color=colours[name], label=None if seed else name)
panel.axhline(0.5, color="0.4", lw=0.8, ls="--")
panel.set(xlabel="steps", ylabel="episodes with the correct turn", ylim=(0, 1.03))
panel.legend(loc="lower right")
plt.show()

# %% [markdown]
# Three seeds each, at one rate, 0.01: the LSTM turns correctly in 100 % of the
# episodes, the RMC in 100 %. Without a memory it is 40 % (38 to 43), at a third of the
# rate 39 % (38 to 39), at three times the rate 37 % (30 to 42).
#
# So a memory carries a single bit over three steps here, with either core. In the end
# the two tie. In these three runs of each the RMC rises sooner, at this one rate; we
# tried no other. And why is the agent without a memory below a coin's 50 %? Without
# a memory it turns in 78 % (75 to 80) of the last episodes, three seeds, and of these
# turns 49 % (48 to 51) are correct. So where it turns it is a coin. In the other
# episodes it does not turn, and has no reason to: on average a turn brings it 0, and so
# does standing still until the time is up.
#
# Nobody told the core to keep that bit. The gradient of $\ln \pi$ at the junction goes
# back through three steps of the core to the sign, as that of a loss did in chapter 17
# (language). Only now it is weighted by the advantage.
#
# **This is a good place to stop.**
#
# ## Your experiment
#
# **Exercise 7.** Ask something about the maze, and let three seeds of each kind answer.
# What if trajectories are shorter than the corridor (`T=2`, with `updates=1200`), so
# that sign and junction never lie in the same one? How long may the corridor be
# (`maze=lambda: Maze(length=8, limit=20)`, with `T=16`)? What does entropy do? Write
# down what you expect, draw a curve, and report as in chapter 20. If three seeds cannot
# tell, take eight new ones, and count those alone.

# %%
report = ...
# report = {
#     "question": "Does the LSTM learn from trajectories of two steps?",
#     "runs": {"T = 8": [...], "T = 2": [...]},
#     "conclusion": "...",
#     "rates": [0.01],
#     "not shown": "...",
# }
ex.experiment.check(report)

# %% [markdown]
# ## What it is called
#
# | | target of the value | advantage | here |
# |---|---|---|---|
# | REINFORCE (Williams 1992) | none | $G - b$, $b$ one number | the bandit |
# | actor and critic (A2C) | $G$ | $G - V$ | `update` |
# | $n$ steps, GAE | rewards, then $V$ | the same $- V$ | chapter 22 |
# | PPO (2017) | as GAE | as GAE; the loss clips a ratio | chapter 22 |
# | V-trace (IMPALA, 2018) | corrected for an older actor | the same $- V$ | chapter 27 |
#
# **What was not shown.** How long a sign a core can remember; that a baseline helps
# beyond this machine; whether the agent would learn a maze with other signs than these
# two; anything of PPO, which is here in name only.
#
# ## Takeaways
#
# - Where two moments look alike and call for different actions, an agent needs a
#   memory.
# - A return is computed backwards, and stops where an episode does.
# - $\nabla_z \ln \pi_a = [a] - \pi$, weighted by the advantage. A baseline changes its
#   noise, not its mean.
# - Where an episode ends, the state must begin anew, for the actor as for the learner.
#   If it does not, no error is raised.
# - One game, one seed or one rate do not show that something is better, or fails, and
#   twenty games may mislead.
#
# **Further.** Reward the bandit's entropy: can that save the runs without a baseline?
# What happens in the maze if the actor's state never begins anew?

# %% tags=["hide-cell"] alt="Games won by the best arm, of twenty, against the rate: with a baseline all of them up to a rate of 0.3 and half at 1; without one fourteen at small rates, five to ten at larger ones"
# Answer 1
# This is exercise 4's picture. With a baseline many rates will do, but not 1: the first
# pull has no baseline yet, and its step, of about 11, gives its arm more than 0.999 of
# the probability. Do not read much into the curve without a baseline. If the best arm
# wins one half of all games, then of twenty it wins six to fourteen in 96 of 100 cases.
# The text has 200 games.
figure, panel = plt.subplots(figsize=(6, 2.8))
tried = np.geomspace(0.01, 1, course.fast(5, 2))
for name, known in (("without a baseline", False), ("with a baseline", True)):
    won = [
        np.mean(
            [
                play(np.random.default_rng(k), PAYS, PULLS, rate, known)[-1] > 0.5
                for k in range(20)
            ]
        )
        for rate in tried
    ]
    panel.semilogx(tried, 20 * np.array(won), "o-", label=name)
panel.set(xlabel="rate", ylabel="games won, of 20", ylim=(0, 20.5))
panel.legend()
plt.show()


# %% tags=["hide-cell"]
# Answer 2
# At this one rate, 0.1, it can in part, and at a price. Count the games, of 200, in
# which the best arm has the largest probability in the mean of the last 250 pulls.
# Without a baseline that is a share of 0.53; with an entropy that is worth 1 it is
# 0.56, which can be chance, and with one worth 10 it is 0.68. With a baseline it is
# 1.00, 1.00 and 1.00. The price: what maximises reward plus ten times the entropy is
# softmax(q / 10), which takes the best arm in 37 of 100 pulls only. (So "more than half
# of the probability", the measure of the text, would call every such game lost.)
# Entropy draws the policy back from a single arm; the noise of rewards near 11 stays as
# large as it was.
def learnt_with(cost, seed, with_baseline=False, rate=0.1):
    """The probabilities of the arms, in the mean of the last half of the pulls."""
    random, z = np.random.default_rng(seed), np.zeros(3)
    total, found = 0.0, []
    for pull in range(PULLS):
        pi = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        found.append(pi)
        arm = random.choice(3, p=pi)
        paid = PAYS[arm] + random.normal()
        advantage = paid - (total / max(pull, 1) if with_baseline else 0)
        total += paid
        logs = np.log(np.maximum(pi, 1e-30))
        of_entropy = -pi * (logs - (pi * logs).sum())
        gradient = policy_gradient(z, np.array(arm), np.array(advantage))
        z = z + rate * (gradient + cost * of_entropy)
    return np.mean(found[PULLS // 2 :], axis=0)


for name, known in (("without a baseline", False), ("with a baseline", True)):
    for cost in (0.0, 1.0, 10.0):
        ahead = [learnt_with(cost, seed, known).argmax() == 2 for seed in range(20)]
        print(f"{name}, entropy's worth {cost:2.0f}: ", end="")
        print(f"the best arm is ahead {sum(ahead)} times of 20")


# %% tags=["hide-cell"]
# Answer 3
# The agent learns badly, if at all. Three seeds end at 33 % (24 to 46) correct turns,
# at a third of the rate at 43 % (25 to 53), at three times the rate at 40 % (37 to 44).
# (With a new state it is 100 %, at the usual rate; we tried no other.) Of the turns in
# its last episodes 54 % (50 to 61) are correct, 54 % (50 to 64) and 65 % (49 to 92): in
# eight runs of nine at most 64 % of the turns are correct, where a coin has 50 %, and
# the one with 92 % turns in less than half of the episodes. The actor still knows the
# old maze's sign, and the learner, which begins anew, computes with other probabilities
# than those that acted. Nothing stops with an error, and nothing tells you.
def never(state, ended, begin):
    return state


ends = [train(CORES["LSTM"], seed, anew=never)[1][-1] for seed in range(3)]
print("LSTM, never anew when it acts:", ", ".join(f"{end:.0%}" for end in ends))
