"""The exercises' solutions against other ways to the same thing: loops, the package's
own code. (Derivatives are judged by the complex step: test_exercise_machinery.py.)
"""

import itertools

import numpy as np
import pytest

from tinyrmc import Parameter, corpora, fused, optim
from tinyrmc.cores import (
    LSTM,
    DeltaNet,
    LinearAttention,
    RelationalMemory,
    SelectiveSSM,
)
from tinyrmc.cores.core import select_state, state_arrays
from tinyrmc.cores.memn2n import Encoding, MemN2N
from tinyrmc.corpora import sampling
from tinyrmc.course.exercises import (
    acting,
    after_the_rmc,
    breaking,
    going_fast,
    language,
    learning,
    memory_networks,
    one_hop,
    ppo,
    rare_words,
    worlds,
)
from tinyrmc.course.exercises.worlds.boxes import graph
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.training.rl import vtrace


@pytest.fixture
def rng():
    return np.random.default_rng(14)


# --- Chapter 5 ------------------------------------------------------------------------


def test_many_steps_are_those_of_the_package():
    for name in ["sgd", "adam_step"]:
        rng = np.random.default_rng(5)
        w = rng.normal(size=(2, 3))
        parameter = Parameter(w)
        package = (
            optim.SGD([parameter], 0.1, momentum=0.9)
            if name == "sgd"
            else optim.Adam([parameter], 0.1)
        )
        m = v = np.zeros_like(w)
        for t in range(1, 9):
            g = 10 * rng.normal(size=w.shape)
            package.zero_grad()
            parameter.grad += g
            package.step(max_norm=2.0)
            (g,) = learning.clip([g], 2.0)
            if name == "sgd":
                w, v = learning.sgd(w, g, v, 0.1, 0.9)
            else:
                w, m, v = learning.adam_step(w, g, m, v, t, 0.1, 0.9, 0.999)
        assert np.allclose(parameter.data, w, rtol=1e-12)


# --- Chapter 15 -----------------------------------------------------------------------


def test_each_bug_is_found_in_its_network():
    for number in range(len(breaking.diagnose.cases())):
        bug, seed, slots = breaking.diagnose.case(number + 1)
        network = breaking.Network(bug, seed, slots)
        assert breaking.diagnose(network, np.random.default_rng(seed)) == bug


# --- Chapter 17 -----------------------------------------------------------------------


def test_a_bigram_is_counted_by_hand_and_its_rows_are_probabilities(rng):
    ids, unigram = np.array([0, 1, 0, 1, 0, 2]), np.array([0.5, 0.25, 0.25])
    found = language.bigram(ids, unigram, 1.0)
    np.testing.assert_allclose(found[0], [0.5 / 4, 2.25 / 4, 1.25 / 4])
    np.testing.assert_allclose(found[1], [2.5 / 3, 0.25 / 3, 0.25 / 3])
    np.testing.assert_allclose(found[2], unigram)  # nothing comes after it
    shares = rng.dirichlet(np.ones(7))
    rows = language.bigram(rng.integers(7, size=50), shares, 0.3).sum(axis=1)
    np.testing.assert_allclose(rows, 1)


def test_the_perplexity_of_equal_probabilities_is_the_number_of_choices():
    assert language.perplexity(np.full((3, 5), 0.1)) == pytest.approx(10)
    assert language.perplexity(np.array([1 / 2, 1 / 4, 1 / 8])) == pytest.approx(4)


def test_the_windows_of_a_lane_are_a_piece_of_the_text():
    for n, lanes, T in [(41, 4, 5), (40, 4, 3), (100, 7, 2)]:
        text = 10 * np.arange(n)
        inputs, targets = language.windows(text, lanes, T)
        length = (n - 1) // lanes
        for lane in range(lanes):
            read = inputs[:, lane].reshape(-1)
            start = lane * length
            np.testing.assert_array_equal(read, text[start : start + length // T * T])
            np.testing.assert_array_equal(targets[:, lane].reshape(-1), read + 10)


def test_a_sum_in_blocks_is_the_sum(rng):
    logits = 100 * rng.normal(size=(4, 10))
    for size in [1, 3, 10, 11]:
        found = going_fast.log_sum_exp_in_blocks(lambda i, j: logits[:, i:j], 10, size)
        np.testing.assert_allclose(
            found, np.logaddexp.reduce(logits, axis=1), rtol=1e-12
        )


def test_a_word_is_drawn_as_the_package_draws_it(rng):
    for temperature in [0, 0.3, 1.0, 2.0]:
        for seed in range(50):
            logits = 3 * rng.normal(size=20)
            u = np.random.default_rng(seed).random()
            theirs = sampling.draw(logits, np.random.default_rng(seed), temperature)
            assert language.sample(logits, temperature, u) == theirs


def test_a_nucleus_is_the_smallest_that_has_the_mass(rng):
    p = rng.dirichlet(np.ones(12) / 2)
    for mass in (0.3, 0.7, 0.95):
        kept = np.flatnonzero(language.nucleus(p, mass))
        likely = np.sort(p)[::-1]
        assert p[kept].sum() >= mass > likely[: len(kept) - 1].sum()
        assert p[kept].min() == likely[len(kept) - 1]


# --- Chapter 18 -----------------------------------------------------------------------


def test_each_word_is_expected_as_often_as_it_came(rng):
    ids = rng.integers(9, size=200)
    p = rare_words.discounted(ids, 9, 0.7, rare_words.fallback(ids, 9))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    expected = np.bincount(ids[:-1], minlength=9) @ p
    np.testing.assert_allclose(expected, np.bincount(ids[1:], minlength=9))


def test_two_levels_have_the_sum_1_and_a_head_is_the_cheapest(rng):
    logs = rare_words.two_level(rng.normal(size=(5, 4)), rng.normal(size=(5, 9)))
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    counts = np.sort(rng.integers(1, 99, size=50))[::-1]
    costs = [k + 1 + counts[k:].sum() / counts.sum() * (50 - k) for k in range(1, 50)]
    assert rare_words.cheapest_head(counts) == 1 + np.argmin(costs)


# --- Chapter 19 -----------------------------------------------------------------------


def test_a_hop_is_the_one_of_the_paper_memory_by_memory(rng):
    u, m, c = (
        rng.normal(size=(2, 3)),
        rng.normal(size=(2, 5, 3)),
        rng.normal(size=(2, 5, 3)),
    )
    p, o = one_hop.hop(u, m, c)
    for b in range(2):
        e = [np.exp(sum(u[b, k] * m[b, i, k] for k in range(3))) for i in range(5)]
        shares = np.array(e) / sum(e)
        np.testing.assert_allclose(p[b], shares, rtol=1e-12)
        found = sum(shares[i] * c[b, i] for i in range(5))
        np.testing.assert_allclose(o[b], found, rtol=1e-12)


def test_what_is_remembered_is_what_the_paper_prints_and_the_package_has(rng):
    for J, d in [*itertools.product((1, 2, 7), (1, 3, 20))]:
        j, k = np.arange(1, J + 1)[:, None], np.arange(1, d + 1)
        printed = (1 - j / J) - k / d * (1 - 2 * j / J)
        table, once = rng.normal(size=(J, d)), np.ones(J)
        found = one_hop.remembered(once, np.arange(1, J + 1) / J - 0.5, table)
        np.testing.assert_allclose(found, (printed * table).sum(axis=0), atol=1e-12)
        encoding = Encoding("printed", 1.0)
        words = encoding.rows([range(J)], J).reshape(2, J)  # each word once
        theirs = words[0][:, None] + words[1][:, None] * encoding.along(d)
        np.testing.assert_allclose(printed, theirs, atol=1e-12)


def test_memories_are_the_latest_sentences_backward():
    for n, N in [*itertools.product((1, 3, 8), (1, 3, 5))]:
        told = list(range(1, n + 1))
        found = one_hop.newest_first(np.array(told), N).tolist()
        assert found == (list(reversed(told)) + N * [0])[:N]


def test_the_network_is_the_package_s(rng):
    for hops in [1, 2, 3]:
        bags = rng.integers(3, size=(4, 6, 9)).astype(float)
        asked = rng.integers(3, size=(4, 9)).astype(float)
        bag = {"slots": 0, "hops": hops, "std": 0.5, "dtype": np.float64}
        theirs = MemN2N(9, 5, encoding=Encoding("bag"), **bag, seed=0)
        tables = list(theirs.tables.data[0])
        looks = [lambda u, m, c: one_hop.hop(u, m, c)[1]] * hops
        u = memory_networks.adjacent(np.matmul, looks, tables, bags, asked)
        found = u @ tables[-1].T
        np.testing.assert_allclose(theirs(bags, asked).data[0], found, rtol=1e-10)


def test_a_linear_hop_is_one_matrix(rng):
    u, m, c = rng.normal(size=(2, 4)), *rng.normal(size=(2, 2, 7, 4))
    scores = np.einsum("bk,bik->bi", u, m)
    found = np.einsum("bi,bil->bl", scores, c)
    G = memory_networks.association(np, m, c)
    np.testing.assert_allclose(np.einsum("bk,bkl->bl", u, G), found, rtol=1e-12)


def test_who_looks_at_the_facts_of_made_up_stories_hits_always():
    stories = corpora.GeneratedStories(50).stories(15, "train")
    N = max(len(story.sentences) for story in stories)
    counts = np.array([len(story.sentences) for story in stories])
    facts = [story.supporting for story in stories]
    p = np.zeros((50, 3, N))
    for row, story in zip(p, stories, strict=True):
        numbers = one_hop.newest_first(np.arange(1, len(story.sentences) + 1), N)
        row[0, np.flatnonzero(numbers == story.supporting[0] + 1)] = 1
        row[1, np.flatnonzero(numbers == story.supporting[1] + 1)] = 1
        others = set(range(len(story.sentences))) - set(story.supporting)
        row[2, np.flatnonzero(numbers == min(others) + 1)] = 1
    np.testing.assert_array_equal(memory_networks.hits(p, counts, facts), [1, 1, 0])


# --- Chapter 21 -----------------------------------------------------------------------


def test_returns_are_sums_up_to_the_end(rng):
    T, gamma = 7, 0.8
    rewards, ended = rng.normal(size=(T, 3, 2)), rng.random((T, 3, 2)) < 0.3
    after = rng.normal(size=(3, 2))
    found = acting.returns(rewards, ended, gamma, after)
    for row in np.ndindex(3, 2):
        for t in range(T):
            expected, k = 0.0, t
            while k < T:
                expected += gamma ** (k - t) * rewards[(k, *row)]
                if ended[(k, *row)]:
                    break
                k += 1
            else:
                expected += gamma ** (T - t) * after[row]
            assert found[(t, *row)] == pytest.approx(expected)


def test_the_targets_are_those_of_the_package_and_v_minus_v_the_advantages(rng):
    for spread in [0.0, 1.0, 50.0]:
        shape = 6, 4
        discounts = 0.9 * (rng.random(shape) < 0.8)
        rest = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=4)
        case = spread * rng.normal(size=shape), discounts, *rest
        targets, advantages = vtrace.targets(*case)
        found = worlds.vtrace(*case)
        np.testing.assert_allclose(found, targets, atol=1e-12)
        np.testing.assert_allclose(found - case[3], advantages, atol=1e-12)


def test_where_the_actor_is_the_learner_the_targets_are_returns(rng):
    shape, gamma = (5, 3), 0.9
    rewards, values = rng.normal(size=(2, *shape))
    ended, after = rng.random(shape) < 0.3, rng.normal(size=3)
    found = worlds.vtrace(np.zeros(shape), gamma * ~ended, rewards, values, after)
    np.testing.assert_allclose(found, acting.returns(rewards, ended, gamma, after))


def test_a_state_begins_anew_as_the_packages_do(rng):
    for core in [LSTM(3, 4, seed=0), RelationalMemory(3, 2, 4, 2, seed=0)]:
        begin = core.initial_state(5)
        x = rng.normal(size=(5, 2, 3)).astype(np.float32)
        _, state = core.unroll(x, begin)
        ended = np.array([True, False, False, True, False])
        theirs = state_arrays(select_state(ended, begin, state))

        def plain(part):
            return tuple(map(plain, part)) if isinstance(part, tuple) else part.data

        mine = state_arrays(acting.begin_anew(plain(state), ended, begin))
        for name, array in theirs.items():
            np.testing.assert_array_equal(mine[name], array)


def in_place(state, ended, begin):
    state[ended] = begin[ended]
    return state


def test_a_state_is_not_written_over():
    assert "it changes its argument state" in acting.begin_anew.judge(in_place).text


def test_the_best_baseline_has_the_least_variance(rng):
    pi, q = rng.dirichlet(np.ones(4)), 5 + rng.normal(size=4)
    z = np.tile(np.log(pi), (4, 1))

    def variance(b):
        each = acting.policy_gradient(z, np.arange(4), q - b)
        mean = pi @ each
        return pi @ ((each - mean) ** 2).sum(axis=1)

    b = acting.best_baseline(pi, q)
    assert variance(b) < min(variance(b - 1e-3), variance(b + 1e-3))


# --- Chapters 22 and 27 ---------------------------------------------------------------


def test_the_start_is_as_far_from_the_gem_as_the_solution_is_long():
    world = BoxWorld(2, 1, room=7, colours=6, levels=4, seed=0)
    for number in range(4):
        following, wins, _ = graph(world, number)
        d = worlds.distances(following, wins)
        assert d[0] == len(world.levels.solution(number))


def test_enough_steps_are_a_return_and_so_is_gae_without_a_fade(rng):
    rewards, values = rng.normal(size=(2, 5, 3))
    ended, after = rng.random((5, 3)) < 0.3, rng.normal(size=3)
    whole = acting.returns(rewards, ended, 0.9, after)
    n_step = ppo.n_step(rewards, values, ended, 0.9, 5, after)
    np.testing.assert_allclose(n_step, whole)
    following = np.concatenate([values[1:], after[None]])
    case = rewards, values, following, ended, ended, 0.9
    np.testing.assert_allclose(ppo.gae_advantages(*case, 1.0) + values, whole)
    one = ppo.n_step(rewards, values, ended, 0.9, 1, after)
    np.testing.assert_allclose(ppo.gae_advantages(*case, 0.0) + values, one)


def test_where_actor_and_learner_agree_ppo_has_the_policy_gradient(rng):
    log_pi, advantages = np.log(rng.uniform(size=(4, 3))), rng.normal(size=(4, 3))
    case = log_pi, log_pi.copy(), advantages, 0.2
    loss, slope = ppo.clipped_loss.use()(*case)
    assert loss == pytest.approx(-advantages.mean())
    np.testing.assert_allclose(slope, -advantages / advantages.size)


def test_what_collect_notes_is_what_the_agent_thinks(rng):
    """Values behind each step: of the next moment, or of where a limit has cut off."""
    maze = acting.Maze(length=3, limit=4)
    agent = acting.Agent(lambda n, seed: LSTM(n, 4, seed=seed), 4, 3, 8, seed=2)
    agent.heads.bias.data[0] = 2.0  # it mostly goes on, so the limit cuts it off

    def see(seen):
        return acting.one_hot(seen["view"], 3)

    first = agent.core.initial_state(6)
    now = maze.start(rng.random((6, 1), np.float32)), first, np.ones(6, bool)
    acted, _ = ppo.collect(agent, maze, see, now, 9, rng, acting.begin_anew)
    logits, values, _ = agent(acted["seen"], first, acted["fresh"])
    np.testing.assert_allclose(acted["values"], values.data, atol=1e-6)
    log_pi = fused.categorical(logits, acted["taken"])[0].data
    np.testing.assert_allclose(acted["log_mu"], log_pi, atol=1e-6)
    on = ~acted["ended"][:, :-1]
    follow = acted["following"][:, :-1][on]
    np.testing.assert_allclose(follow, values.data[:, 1:][on], atol=1e-6)
    cut = acted["ended"] & ~acted["terminated"]
    assert cut[:, 3].any()
    row = int(np.flatnonzero(cut[:, 3])[0])  # cut off at the fourth step, still going
    place = (acted["taken"][row, :4] == 0).sum()
    last = np.zeros((1, 1, 4), np.float32)
    last[..., 1 if place >= 3 else 0] = 1
    seen = np.concatenate([acted["seen"][row : row + 1, :4], last], axis=1)
    _, alone, _ = agent(seen, agent.core.initial_state(1))
    assert acted["following"][row, 3] == pytest.approx(
        float(alone.data[0, 4]), abs=1e-6
    )


# --- Chapter 28 -----------------------------------------------------------------------


def test_a_fading_sum_is_the_sum_over_all_pairs_written_out(rng):
    q, k, v = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    a = rng.uniform(size=6)
    found, last = after_the_rmc.fading(np, q, k, v, a)
    S = np.zeros((3, 2))
    for t in range(6):
        left = [np.prod(a[s + 1 : t + 1]) for s in range(t + 1)]
        S = sum(left[s] * np.outer(k[s], v[s]) for s in range(t + 1))
        np.testing.assert_allclose(found[t], q[t] @ S, rtol=1e-12)
    np.testing.assert_allclose(last, S, rtol=1e-12)


def test_a_step_of_the_delta_rule_is_a_step_down_the_squared_error(rng):
    S, q, k, v = rng.normal(size=(3, 2)), *rng.normal(size=(2, 3)), rng.normal(size=2)
    k1, q1 = k / np.linalg.norm(k), q / np.linalg.norm(q)

    def error(S):
        return ((S.T @ k1 - v) ** 2).sum() / 2

    h, slope = 1e-20, np.zeros((3, 2))
    for i, j in np.ndindex(3, 2):
        moved = S.astype(complex)
        moved[i, j] += 1j * h
        slope[i, j] = error(moved).imag / h
    found, after = after_the_rmc.delta_step(np, S, q, k, v, np.array(0.3))
    np.testing.assert_allclose(after, S - 0.3 * slope, rtol=1e-12)
    np.testing.assert_allclose(found, q1 @ after, rtol=1e-12)


def test_chunks_of_any_length_are_the_steps(rng):
    T, d = 12, 3
    q, k, v = rng.normal(size=(3, T, d))
    q, k = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (q, k))
    beta = rng.uniform(size=T)
    S, steps = np.zeros((d, d)), []
    for t in range(T):
        o, S = after_the_rmc.delta_step(np, S, q[t], k[t], v[t], beta[t : t + 1][0])
        steps.append(o)
    sums, last = after_the_rmc.fading(np, q, k, v, np.ones(T))
    for C in (1, 3, 4, 12):
        delta = plain = np.zeros((d, d))
        for start in range(0, T, C):
            part = slice(start, start + C)
            given = q[part], k[part], v[part]
            o, delta = after_the_rmc.delta_in_chunk(delta, *given, beta[part])
            np.testing.assert_allclose(o, steps[part], rtol=1e-9, atol=1e-12)
            o, plain = after_the_rmc.sum_in_chunk(plain, *given)
            np.testing.assert_allclose(o, sums[part], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(delta, S, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(plain, last, rtol=1e-9, atol=1e-12)


def test_the_memories_are_those_of_the_package(rng):
    """One layer's mixer with its own projections, beside the chapter's step."""
    sizes = {"head_size": 3, "num_heads": 2, "conv": 1, "dtype": np.float64, "seed": 0}
    x = Parameter(rng.normal(size=(4, 6)))
    (mixer,) = DeltaNet(6, **sizes).blocks[0]["mix"]
    mixer.out.weight.data = np.eye(6)
    q, k, v, beta = (each.data for each in mixer._projected(x))
    S = rng.normal(size=(4, 2, 3, 3))
    theirs, (after,) = mixer(x, (S,))
    found, mine = after_the_rmc.delta_step(np, S, q, k, v, beta[..., 0])
    np.testing.assert_allclose(theirs.data, found.reshape(4, 6), rtol=1e-9)
    np.testing.assert_allclose(after.data, mine, rtol=1e-9)

    (mixer,) = LinearAttention(6, decay=True, **sizes).blocks[0]["mix"]
    q, k, v = (each.data for each in mixer._projected(x))
    a = np.exp(mixer.decay(x).data)
    _, (after,) = mixer(x, (np.zeros((4, 2, 3, 4)),))
    one_step = (each[..., None, :] for each in (q, k, v))
    _, mine = after_the_rmc.fading(np, *one_step, a[..., None])
    np.testing.assert_allclose(after.data, mine, rtol=1e-9)

    (mixer,) = SelectiveSSM(6, state_size=5, **sizes).blocks[0]["mix"]
    h = rng.normal(size=(4, 6, 5))
    _, (after,) = mixer(x, (h,))
    z, into, B, C = np.split(mixer.projection(x).data, mixer.cuts, axis=-1)
    into = into / (1 + np.exp(-into))
    lasts = np.log1p(np.exp(mixer.duration(x).data))
    A = -np.exp(mixer.A_log.data)
    y, mine = after_the_rmc.selective_step(np, h, into, lasts, A, B, C)
    np.testing.assert_allclose(after.data, mine, rtol=1e-9)
    shown = (y + mixer.through.data * into) * z / (1 + np.exp(-z))
    answer, _ = mixer(x, (h,))
    np.testing.assert_allclose(answer.data, mixer.out(shown).data, rtol=1e-9)
