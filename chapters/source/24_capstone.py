# %% [markdown]
# # 24. A capstone: a network of your own
#
# **Nothing is given.** About 120 minutes, or as long as you like. You need what you
# have built.
#
# So far somebody else has chosen the task, the sizes and the loop. Here the page is
# blank. Choose a task, build a core that solves it, train it, and judge it as if
# somebody else had written it. Take your own functions (`course.pieces()`), your own
# tape (`course.little_tape()`), or the package's.
#
# ## Three tasks, or yours
#
# `draw(rng, count, size)` draws questions: inputs (B, T, D), and the right answers
# (B,).

# %%
import inspect

import numpy as np

from tinyrmc import course
from tinyrmc.course.exercises import capstone

course.setup()
for task in (capstone.recall, capstone.distances, capstone.maze):
    inputs, answers = task.draw(np.random.default_rng(0), 2, task.size)
    print(f"{task.name}: {task.question}")
    print(inspect.getdoc(task.draw))
    print(f"  inputs {inputs.shape}, size {task.size}, {task.answers} answers")
    told = ", ".join(f"{name} {share:.0%}" for name, share in task.baselines.items())
    print(f"  {told}; passed from {task.threshold:.0%}\n")

# %% [markdown]
# - **Associative recall** asks a memory for what memories are for. Which of your slots
#   will hold a pair?
# - **Comparing distances** is a small sister of nth farthest. (Asked for the *second*
#   in distance, the network folded below stood at 38 % after 2,500 steps, which is what
#   norms alone give. Would a ladder help?)
# - **A maze** has no relations at all: each move changes where you are, and walls make
#   it matter where you were. What must the core remember?
#
# Or bring a task of your own: something that you would like to see learnt.
# `capstone.own(name, draw, baselines, threshold)` makes it one of these. You set the
# baselines and the threshold, before you train.
#
# ## What is asked of you
#
# 1. Find a baseline that solves the easy part of the task, if it has one.
# 2. Build the network and the loop. Your first loss should be that of a guess.
# 3. Train until it passes: one or two thousand steps and a few minutes will do. If it
#    stays on a plateau, remember chapters 13 and 15.
# 4. Ask for the report card: `capstone.recall.check(predict)`, with `predict(inputs)`
#    giving an answer (B,) for each question. It draws questions that you have not seen,
#    and also longer ones than those that you trained on.
# 5. Take one thing away from your network, beside a control, and write down what that
#    tells you.
#
# ## Your work

# %%
# Your network


# %%
# Your training


# %%
def predict(inputs):
    """inputs (B, T, D) -> answers (B,), whole numbers."""
    ...


capstone.recall.check(predict)

# %% [markdown]
# ## Questions to your report card
#
# - How far above the best baseline are you, and how much of that is chance? Train a
#   second seed.
# - What happens with longer questions? If it falls, did the core learn the rule, or the
#   length?
# - What would convince somebody who does not believe you?
#
# There is no solution to this chapter. But so that you know it can be done, one way
# through the first task is folded below.

# %% tags=["hide-cell"]
# Answer 1
# One way: the package's core, four slots of 32 units, the core's output through one
# hidden layer, a batch of 64 new questions in each step.
from tinyrmc import RelationalMemory, Tape, fused, nn, optim
from tinyrmc import primitives as p

task, steps = capstone.recall, course.fast(1500, 30)
core = RelationalMemory(12, mem_slots=4, head_size=8, num_heads=4, seed=0)
head = nn.MLP(core.output_size, [64, task.answers], seed=1)
adam = optim.Adam(core.parameters() + head.parameters())
rate = optim.schedule(2e-3, steps, warmup=steps // 20, cosine_fraction=0.3)


def logits(inputs):
    outputs, _ = core.unroll(inputs, core.initial_state(len(inputs)))
    return head(outputs[-1])


for step in range(steps):
    inputs, answers = task.draw(np.random.default_rng([1, step]), 64, task.size)
    with Tape() as tape:
        loss = p.mean(fused.softmax_cross_entropy(logits(inputs), answers))
    adam.zero_grad()
    tape.backward(loss)
    adam.step(rate(step), max_norm=1.0)
capstone.recall.check(lambda inputs: logits(inputs).data.argmax(axis=-1))
