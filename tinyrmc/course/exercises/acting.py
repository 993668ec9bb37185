"""Chapter 21: returns, policy gradients, states that begin anew, and learning."""

import collections

import numpy as np

from tinyrmc import Tape, fused, nn, optim, primitives
from tinyrmc import primitives as p
from tinyrmc.cores import LSTM
from tinyrmc.environments.world import Codes, Outcome, World
from tinyrmc.training.rl.policy import log_probs, sample

from . import attention
from .derived import by_complex_step, log_shares
from .exercise import each, exercise
from .experiments import Picture, Report
from .language import numbers_of
from .used import used


def _trajectories(rng, gamma, often, *shape):
    rewards, ended = rng.normal(size=shape), rng.random(shape) < often
    return rewards, ended, gamma, rng.normal(size=shape[1:])


_BY_HAND, _ONCE = np.array([0.0, 1.0, 0.0, 2.0]), np.array([False, True, False, False])


@exercise(
    cases=each(
        _trajectories,  # two axes of levels; in the last gamma ** t is 0
        "0.9 0.3 6 4, 0.8 0.5 3 3, 0.95 0.3 5 2 3, 0.7 0.5 1 4, 1.0 0.3 4 2, "
        "0.0 0.3 4 3, 0.5 0.001 2000 1",
        first=[
            (_BY_HAND, _ONCE & False, 0.5, np.array(8.0)),
            (_BY_HAND, _ONCE, 0.5, np.array(8.0)),
        ],
        also=[
            (np.array([[1, 0], [0, 10], [0, -1]]), np.eye(3, 2) > 0, 0.5, np.arange(2))
        ],
    ),
    hints=[
        "Go from the last step to the first: a return is its own reward, and gamma "
        "times the return of the next step.",
        "After the last step comes `after`. Where a step has ended its episode, "
        "nothing comes after it: multiply by `~ended[t]`.",
        "later = after; then for t in reversed(range(len(rewards))): "
        "later = rewards[t] + gamma * ~ended[t] * later.",
    ],
    mistakes="""
        `if ended[t]` asks one level; for a whole batch multiply by ~ended[t]
            ~ended[t] * later -> (0 if ended[t] else later)
        you discount the step's own reward, too: that one counts in full
            rewards[t] + gamma -> gamma * rewards[t] + gamma
        your returns go on after an end: rewards of the next episode count
            ~ended[t] * ->
        you read `ended` of step t + 1, as programs do that note where an episode
        begins; here ended[t] says that step t was the last of its episode
            ~ended[t] -> ~(ended[t + 1] if t + 1 < len(ended) else ended[t] & False)
        you read `ended` of the step before: ended[t] says that step t was the last of
        its episode
            ~ended[t] -> ~ended[t - 1]
        `after` counts although the last step has ended its episode
            ~ended[t] -> (~ended[t] | (t + 1 == len(ended)))
        you lose the reward of the step that ends an episode
            rewards[t] + gamma -> ~ended[t] * rewards[t] + gamma
        the discount is written in
            gamma * ~ended -> 0.9 * ~ended
        you leave `after` out: the trajectory stops there, the episode does not
            later = np.zeros(rewards.shape), after -> later = np.zeros(rewards.shape), 0
        you put the returns into an array of integers, as np.zeros_like makes it for
        rewards that are integers: fractions are cut off
            np.zeros(rewards.shape) -> np.zeros_like(rewards)
    """,
)
def returns(rewards, ended, gamma, after):
    """G_t = r_t + gamma G_{t+1}, and r_t alone where step t has ended its episode.

    rewards (T, ...), those of each step; ended (T, ...), bool; a number gamma; after
    (...), what is still to come after the last step -> (T, ...).
    """
    found, later = np.zeros(rewards.shape), after
    for t in reversed(range(len(rewards))):
        later = rewards[t] + gamma * ~ended[t] * later
        found[t] = later
    return found


def _choices(rng, A, scale, *leading):
    logits = scale * rng.normal(size=(*leading, A))
    return logits, rng.integers(A, size=leading), rng.normal(size=leading)


_FAR_APART = np.array([[1e3, 0.0, -1e3], [-5e3, -5e3, -5e3]])
_FORBIDDEN = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, 2.0]])
_FOUR_TIMES_TWO = np.array([[1.0, -0.5], [0.2, 3.0], [-1.0, 0.0], [2.0, 2.0]])


def _log_pi(logits, actions):
    places = np.asarray(actions)[..., None]
    return np.take_along_axis(log_shares(logits), places, axis=-1)[..., 0]


_log_pi_step = by_complex_step(_log_pi, "logits")


@exercise(
    cases=each(
        _choices,
        "4 1 5, 3 1 3 3, 5 3 2 4",  # and as many steps and levels as actions
        first=[(np.zeros((2, 3)), np.array([1, 2]), np.array([1.0, -2.0]))],
        also=[
            (_FAR_APART, np.array([1, 0]), np.array([2.0, 1.0])),
            (_FORBIDDEN, np.array([2, 1]), np.array([1.0, -1.0])),
            (np.array([0.3, -1.0, 2.0]), np.array(2), np.array(-0.5)),  # no axis
            (_FOUR_TIMES_TWO, np.array([0, 1, 1, 0], np.uint8), np.zeros(4)),
        ],
    ),
    hints=[
        "The softmax over the last axis, its largest logit taken off first, is pi.",
        "np.eye(A)[actions] has a 1 at the action that was taken, whatever axes there "
        "are. Take pi off it.",
        "Each row is multiplied by its own advantage: advantages[..., None] has an "
        "axis of length 1 for the actions.",
    ],
    mistakes="""
        your sign is the other way round: that makes good actions rarer
            hot - pi -> pi - hot
        the advantage multiplies the whole of [a] - pi, not only [a]
            (hot - pi) -> hot - pi
        you do not take pi off: the gradient of log pi(a) is [a] - pi
            (hot - pi) -> hot
        you divide by the number of steps: the task asks for the gradient of the sum
            None] * (hot - pi) -> None] * (hot - pi) / advantages.size
        the advantages go along the actions: write advantages[..., None]
            [..., None] * -> *
        your softmax runs over the first axis: the actions are the last
            axis=-1, keepdims=True -> axis=0
        exp overflows: take each row's largest logit off first
            - logits.max(axis=-1, keepdims=True) ->
    """,
    leading="logits actions advantages",
    anysize="logits",
    exact=lambda logits, actions, g: _log_pi_step(g, logits, actions),
)
def policy_gradient(logits, actions, advantages):
    """The gradient of the sum of advantage * log pi(action) with respect to the logits.

    logits (..., A), of pi = softmax(logits); actions (...), integers;
    advantages (...) -> (..., A).
    """
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    pi = e / e.sum(axis=-1, keepdims=True)
    hot = np.eye(logits.shape[-1])[actions]
    return advantages[..., None] * (hot - pi)


def _bandits(rng, A, scale=1):
    return attention.softmax(scale * rng.normal(size=A)), 10 + rng.normal(size=A)


@exercise(
    cases=each(
        _bandits,
        "4, 6 2",
        first=[
            (np.full(3, 1 / 3), np.array([10.0, 11.0, 12.0])),
            (np.array([0.9, 0.1]), np.array([1.0, 5.0])),
        ],
        also=[(np.array([0.25, 0.75]), np.array([3.0, 3.0]))],
    ),
    hints=[
        "The mean of the gradient does not depend on b, so only the mean of its square "
        "does: sum_a pi_a (q_a - b)^2 |[a] - pi|^2. Set its derivative to 0.",
        "A mean of the q_a, where arm a has the weight pi_a |[a] - pi|^2.",
        "((np.eye(len(pi)) - pi) ** 2).sum(axis=1) are the squared lengths.",
    ],
    mistakes="""
        you take the expected reward; a rare arm moves the logits farther
            = (pi * q).sum()
        you count the own arm's logit alone, (1 - pi)^2; the other logits move, too
            sizes = -> sizes = (1 - pi) ** 2  #
        you weight with the length, not with its square
            .sum(axis=1) -> .sum(axis=1) ** 0.5
        you leave the probabilities out
            pi * sizes -> sizes
    """,
)
def best_baseline(pi, q):
    """The baseline b with the least variance of (r - b) grad ln pi(a), one pull.

    pi (A,), the probabilities of a softmax; q (A,), what each arm pays, without noise;
    the gradient is with respect to the logits -> a number.
    """
    sizes = ((np.eye(len(pi)) - pi) ** 2).sum(axis=1)
    return (pi * sizes * q).sum() / (pi * sizes).sum()


def _game(answer, seed, pays, pulls, rate, with_baseline):
    return answer(np.random.default_rng(seed), pays, pulls, rate, with_baseline)


@used(
    _game,
    cases=lambda rng: [
        (0, np.array([10.0, 11, 12]), 40, 0.1, True),
        (1, np.array([10.0, 11, 12]), 30, 0.1, False),
        (2, np.array([3.0, 1.0]), 25, 0.5, True),
        (3, np.array([1.0, 4, 2, 0]), 35, 0.03, True),
        (4, np.array([-2.0, -1, -5]), 20, 0.2, False),
        (5, np.array([500.0, 600.0]), 10, 0.3, False),  # logits of hundreds
        (6, np.array([5.0, 6.0]), 1, 0.3, True),
    ],
    hints=[
        "Each pull: pi, the softmax of z; the arm; the reward; then "
        "z = z + rate * policy_gradient(z, arm, reward - expected).",
        "Move the baseline after the step: expected += (reward - expected) / (k + 1) "
        "is the mean of k + 1 rewards.",
        "After the step make the softmax once more, and keep entry np.argmax(pays).",
    ],
    mistakes="""
        you step downhill: the gradient is that of what shall grow
            z + rate -> z - rate
        the mean reward has this pull's reward in it already, so the first pull teaches
        nothing: take the mean of the earlier ones
            reward = pays[arm] + random.normal()
                -> reward = pays[arm] + random.normal()
                expected += (reward - expected) / (k + 1) if with_baseline else 0
            if with_baseline:  # for the next pull -> if 0:
        there is a baseline in every game; with_baseline says whether
            if with_baseline:  # for the next pull -> if 1:
        there is no baseline in any game
            if with_baseline:  # for the next pull -> if 0:
        the rate is written in
            z + rate -> z + 0.1
        you keep the probability before the step, not after it
            z = z + rate * policy_gradient(z, arm, reward - expected)
                -> best.append(shares(z)[np.argmax(pays)])
                z = z + rate * policy_gradient(z, arm, reward - expected)
            best.append(shares(z)[np.argmax(pays)])  # after the step ->
        you keep the last arm's probability; the best one may stand anywhere
            [np.argmax(pays)] -> [-1]
        you keep the probability of the arm that was pulled
            [np.argmax(pays)] -> [arm]
        what an arm pays has no noise
            pays[arm] + random.normal() -> pays[arm] + 0 * random.normal()
    """,
)
def play(random, pays, pulls, rate, with_baseline):
    """One game with a bandit: the best arm's probability after each pull.

    random, a generator; pays (A,), what each arm pays on average. The logits begin with
    0; each pull draws its arm by random.choice(A, p=pi), its reward
    by pays[arm] + random.normal(), and takes a step of this rate along the policy
    gradient. The baseline, if there is one, is the mean of all earlier rewards, 0
    before the first -> (pulls,).
    """

    def shares(z):
        e = np.exp(z - z.max())
        return e / e.sum()

    z, expected, best = np.zeros(len(pays)), 0.0, []
    for k in range(pulls):
        arm = random.choice(len(pays), p=shares(z))
        reward = pays[arm] + random.normal()
        z = z + rate * policy_gradient(z, arm, reward - expected)
        if with_baseline:  # for the next pull
            expected += (reward - expected) / (k + 1)
        best.append(shares(z)[np.argmax(pays)])  # after the step
    return np.array(best)


def _states(rng):
    def case(ended, *shape):
        ended = np.array(ended, bool)
        state, begin = rng.normal(size=(2, len(ended), *shape))
        return state, ended, begin

    def pair(make, ended):
        (a, _, x), (b, _, y) = make(ended), make(ended)
        return (a, b), np.array(ended, bool), (x, y)

    def lstm(ended):
        return pair(lambda e: case(e, 2), ended)

    state, ended, begin = case([0, 1, 0], 2)
    broken = state.copy()
    broken[1] = np.inf, np.nan
    counts = np.array([[3, 4], [5, 6]]), np.array([True, False]), np.zeros((2, 2), int)
    return [
        case([0, 1, 0, 1], 3),
        case([1, 0, 0], 3),  # as many units as levels
        case([0, 1, 1], 3, 3),  # a memory of as many slots, too
        case([0, 1, 0, 0, 1], 2, 4),
        lstm([1, 0, 1, 0]),
        pair(lstm, [0, 0, 1]),
        case([0, 0, 0], 2),
        case([1], 4),
        (broken, ended, begin),  # what has overflowed must not stay
        counts,
        ((), np.array([True, False]), ()),  # a network without a memory
    ]


@exercise(
    cases=_states,
    hints=[
        "np.where(mask, begin, state) takes entries from one array or the other. Its "
        "mask must have the axes of the state: (B,) does not line up with (B, N, F).",
        "mask = ended.reshape(-1, 1, 1) for a state of three axes; for any state, "
        "ended.reshape(-1, *[1] * (state.ndim - 1)).",
        "If the state is a tuple, call the function itself for each of its parts, and "
        "make a tuple of what you get.",
    ],
    mistakes="""
        it is the other way round: the levels that go on lose their state
            mask, begin, state) -> mask, state, begin)
        all levels begin anew as soon as one has ended
            ended.reshape( -> (ended | ended.any()).reshape(
        `ended` goes along the last axis: it belongs to the first
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended
        you give `ended` one more axis; a memory (B, N, F) needs two more
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended[:, None]
        you put zeros there: a memory need not begin with zeros
            mask, begin, state) -> mask, 0, state)
        you give `ended` two more axes, however many the state has: one of two axes then
        gets a third
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended[:, None, None]
        you multiply with 0 and 1: infinity times 0 is NaN, which never goes away
            np.where(mask, begin, state) -> (1 - mask) * state + mask * begin
    """,
    form=True,
    views=True,
)
def begin_anew(state, ended, begin):
    """The state; in the levels that have ended, what stands in `begin`.

    state: an array (B, ...), or a tuple of states; ended (B,), bool; begin: what the
    state is at the beginning, of the same form -> a state of the same form.
    """
    if isinstance(state, tuple):
        parts = zip(state, begin, strict=True)
        return tuple(begin_anew(part, ended, first) for part, first in parts)
    mask = ended.reshape(-1, *[1] * (state.ndim - 1))
    return np.where(mask, begin, state)


class Agent(nn.Module):
    """Logits of actions and a value from what is seen, step by step."""

    def __init__(self, make_core, seen, actions, width, seed=0):
        random = np.random.default_rng(seed)
        self.actions = actions
        self.look = nn.Linear(seen, width, relu=True, seed=random)
        self.core = make_core(width, random)
        both = self.core.output_size + width
        self.decide = nn.Linear(both, width, relu=True, seed=random)
        self.heads = nn.Linear(width, actions + 1, seed=random)
        self.heads.weight.data *= np.float32(0.1)  # at first, all actions are alike

    def __call__(self, seen, state, fresh=None, trace=None):
        """seen (B, T, n) -> logits (B, T, A), values (B, T), state.

        fresh (B, T): before these steps the state begins anew.
        """
        x = self.look(seen)
        outputs, state = self.core.unroll(x, state, trace, is_first=fresh)
        h = primitives.concatenate([primitives.stack(outputs, axis=1), x], axis=2)
        both = self.heads(self.decide(h))
        return both[..., : self.actions], both[..., self.actions], state


def act(agent, world, see, now, T, rng, begin_anew):
    """A trajectory of T steps, as arrays (B, T, ...), and where the next one begins.

    now: levels, the core's state and whether it is fresh (B,). What is seen and fresh
    has T + 1 moments, the last for what comes after.
    """
    levels, state, fresh = now
    B, found = len(fresh), collections.defaultdict(list)
    begin = agent.core.initial_state(B)
    for _ in range(T):
        seen = see(world.observe(levels))
        logits, _, state = agent(seen[:, None], state)
        z = logits.data[:, 0]
        taken = sample(z, rng.random(B, np.float32))
        outcome = world.step(levels, taken, rng.random((B, world.noise), np.float32))
        state = begin_anew(numbers_of(state), outcome.ended, begin)
        step = seen, fresh, taken, log_probs(z, taken), outcome.reward, outcome.ended
        names = "seen", "fresh", "taken", "log_mu", "rewards", "ended"
        for name, x in zip(names, step, strict=True):
            found[name].append(x)
        fresh = outcome.ended
    found["seen"].append(see(world.observe(levels)))
    found["fresh"].append(fresh)
    arrays = {name: np.stack(x, axis=1) for name, x in found.items()}
    return arrays, (levels, state, fresh)


def policy_loss(logits, actions, advantages):
    """-sum of A ln pi(a); advantages are constants."""
    log_pi, _ = fused.categorical(logits, actions)
    return -primitives.sum(log_pi * advantages)


def one_hot(codes, highest):
    """Codes (...) from 0 to the highest -> float32 (..., highest + 1)."""
    return (codes[..., None] == np.arange(highest + 1)).astype(np.float32)


def smooth(lines, window=20):
    """Of rows (steps, episodes ended, solved) for each update: steps so far, and, over
    `window` updates, the share of solved episodes and the steps of one.
    """
    sums = np.cumsum(np.array([(0, 0, 0), *lines], float), axis=0)
    window = min(window, len(lines))
    steps, ended, solved = (sums[window:] - sums[:-window]).T
    return sums[window:, 0], solved / ended, steps / ended


class Maze(World):
    """The view: 0 corridor, 1 junction, 2 a sign to the left, 3 to the right."""

    action_names = "forward", "left", "right"
    noise = start_noise = 1
    observation = {"view": Codes((), 3)}
    constants = {}

    def __init__(self, length=3, limit=12):
        self.length, self.limit = length, limit  # to the junction; until it is over

    def _start(self, noise):
        zeros = np.zeros(len(noise), np.int64)
        way = np.where(noise[:, 0] < 0.5, 1, 2)
        return {"place": zeros, "age": zeros.copy(), "way": way}

    def _step(self, state, actions, noise, keep_final):
        place, age, way = state["place"], state["age"], state["way"]
        turned = (place == self.length) & (actions > 0)
        right = turned & (actions == way)
        place += (actions == 0) & (place < self.length)
        age += 1
        final = {name: x.copy() for name, x in state.items()} if keep_final else None
        outcome = Outcome(
            np.where(turned, np.where(right, 1, -1), 0).astype(np.float32),
            terminated=turned,
            truncated=(age == self.limit) & ~turned,
            final=final,
        )
        place[outcome.ended] = age[outcome.ended] = 0
        way[outcome.ended] = np.where(noise[outcome.ended, 0] < 0.5, 1, 2)
        return outcome

    def observe(self, state):
        sign = np.where(state["age"] == 0, 1 + state["way"], 0)
        view = np.where(state["place"] == self.length, 1, sign)
        return {"view": view.astype(np.uint8)}


def _run(answer, trajectory, first, rate, entropy_cost, steps):
    """The losses, and the parameters at the end, of a tiny agent."""
    agent = Agent(lambda n, seed: LSTM(n, 4, seed=1), 3, 3, 4, seed=1)
    for parameter in agent.parameters():
        parameter.data[...] *= 2
    adam = optim.Adam(agent.parameters())
    losses = [
        answer(agent, adam, trajectory, first, rate, entropy_cost) for _ in range(steps)
    ]
    learnt = np.concatenate([each.data.ravel() for each in agent.parameters()])
    return np.array(losses, float), learnt.astype(float)


def _acted(rng, B, T, rate=0.01, entropy=0.1, steps=2, often=0.3):
    ended = rng.random((B, T)) < often
    trajectory = {
        "seen": rng.normal(size=(B, T + 1, 3)).astype(np.float32),
        "fresh": np.concatenate([np.zeros((B, 1), bool), ended], axis=1),
        "taken": rng.integers(3, size=(B, T)),
        "rewards": rng.normal(size=(B, T)).astype(np.float32),
        "ended": ended,
    }
    # The LSTM has four units. It remembers what was acted before.
    first = tuple(rng.normal(size=(2, B, 4)).astype(np.float32))
    return trajectory, first, rate, entropy, steps


@used(
    _run,
    cases=each(
        _acted, "4 5, 3 3 0.03 0.1 1, 2 6 0.002 0.0, 4 4 0.01 0.3, 5 2 0.01 0.1 2 0"
    ),
    tolerance=1e-4,  # float32
    parts=["your loss", "what the agent has learnt"],
    hints=[
        "On the tape: logits, values, _ = agent(trajectory['seen'], first, "
        "trajectory['fresh']). They have T + 1 moments; the last value is `after`.",
        "returns wants time first: returns(rewards.T, ended.T, 0.99, values.data[:, "
        "T]).T. Targets and advantages are plain numbers, float32.",
        "policy_loss(logits[:, :T], taken, advantages) + 0.25 * the sum of squares of "
        "(values[:, :T] - targets) - entropy_cost * the sum of the entropies, which "
        "fused.categorical(logits[:, :T], taken)[1] has; all divided by taken.size.",
    ],
    mistakes="""
        you begin with the core's initial state: hand `first` to the agent, else the
        learner has forgotten what the actor still knew
            agent(trajectory["seen"], first,
                -> agent(trajectory["seen"], agent.core.initial_state(len(taken)),
        the rate is written in: hand `rate` to adam.step
            learning_rate=rate -> learning_rate=0.01
        you take the sum over all steps; the mean is asked for
            * (1 / taken.size) ->
        the entropy of all steps is subtracted, not its mean
            loss = (loss - entropy_cost * p.sum(entropies)) * (1 / taken.size)
                -> loss = loss * (1 / taken.size) - entropy_cost * p.sum(entropies)
        the state does not begin anew where an episode does: hand `fresh` to the agent
            trajectory["fresh"] -> None
        a gradient goes through the advantages; as factors of ln pi they are numbers,
        made with values.data
            targets - V[:, :T] -> targets - values[:, :T]
        a reward for entropy is subtracted from a loss
            - entropy_cost -> + entropy_cost
        the trajectory stops there, the episodes do not: the last value is `after`
            0.99, V[:, T] -> 0.99, 0 * V[:, T]
        `after` is the value of the moment behind the last step, V[:, T]; you take that
        of the last step
            0.99, V[:, T] -> 0.99, V[:, T - 1]
        your targets come one step early: step t is paid with G_t, its own reward
        included, and you give it G_{t+1}
            targets = found.T.astype(np.float32)
                -> targets = np.append(found[1:], V[:, T][None], 0).T.astype(np.float32)
        you compare G_t with the value of the next moment; what was expected of step t
        is V_t
            targets - V[:, :T] -> targets - V[:, 1:]
        the gradients of all updates add up: adam.zero_grad() is missing
            adam.zero_grad() -> pass
        nothing is clipped: max_norm=0.1
            , max_norm=0.1 ->
    """,
)
def update(agent, adam, trajectory, first, rate, entropy_cost):
    """One step of Adam on what was acted -> the loss, a number.

    trajectory: seen (B, T + 1, n), fresh (B, T + 1), taken, rewards and ended (B, T);
    first: the core's state at its beginning. With targets G, the returns for a discount
    of 0.99, the loss is the mean over all steps of
    -(G - V) ln pi(a) + 0.25 (V - G)^2 - entropy_cost H; gradients are clipped at 0.1.
    """
    taken, T = trajectory["taken"], trajectory["taken"].shape[1]
    with Tape() as tape:
        logits, values, _ = agent(trajectory["seen"], first, trajectory["fresh"])
        V = values.data
        found = returns(trajectory["rewards"].T, trajectory["ended"].T, 0.99, V[:, T])
        targets = found.T.astype(np.float32)
        loss = policy_loss(logits[:, :T], taken, targets - V[:, :T])
        loss = loss + 0.25 * p.sum(p.square(values[:, :T] - targets))
        _, entropies = fused.categorical(logits[:, :T], taken)
        loss = (loss - entropy_cost * p.sum(entropies)) * (1 / taken.size)
    adam.zero_grad()
    tape.backward(loss)
    adam.step(learning_rate=rate, max_norm=0.1)
    return float(loss.data)


def _no_games(curves):
    """The first thing that no numbers of games won would show, or nothing."""
    if any(each.y.min() < 0 or each.y.max() > 20 for each in curves):
        return "of twenty games an arm wins from none to all twenty"


picture = Picture("acting", cannot_be=_no_games)
experiment = Report("acting")
