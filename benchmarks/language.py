"""The training step of a language model on a CPU: tinyrmc beside PyTorch eager.

    python benchmarks/language.py [--works NAME ...] [--rounds N] [--out FILE.json]

A step reads a window of 35 words in 20 lanes (of a vocabulary of 10,000), carries the
state on, goes back, clips the gradient and takes a step of Adam. The softmax has its
own weights, as wide as the core's output; nothing is dropped out. The networks:

lstm 2 x 256, lstm 2 x 650        two layers, one over the other
rmc 1024                          the Relational Memory Core: one slot, four heads
memn2n 6 x 100, memn2n 7 x 200    memory networks of 6 hops over the last 100 words, of
                                  7 over 200; they predict 8 x 16 words a step, and take
                                  a step of SGD as in their paper

Both libraries are tried in two ways: with threads inside products, and with a process
for each core. They have the same weights and read the same window again and again;
their first losses must agree. A candidate is a process of its own, as in cpu.py, and
all take turns, on one core and on all. PyTorch's LSTM is `torch.nn.LSTM`; its RMC is
that of peers.py; its memory network is written as the equations are, and looks up the
memories of each word separately. With the extra `fast` ours runs with compiled bodies,
too.

`products` is measured in one process on one core: what share of a step of ours its
matrix products take, and how fast they run (`products` in candidates.py).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import candidates
import numpy as np
import peers
import report
from running import (
    CAN_LIMIT,
    Candidate,
    answering,
    beside,
    run_python,
    say,
    serve,
)

from tinyrmc import corpora
from tinyrmc.backend import blas_threads
from tinyrmc.cli.commands import run_main
from tinyrmc.fused import use_compiled
from tinyrmc.training.discovery import load_task
from tinyrmc.training.machine import usable_cores
from tinyrmc.training.pieces import micro_batches
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import CAN_FORK

LANES, WINDOW, WORDS = 20, 35, 10_000
CLIP = 0.5
SGD_RATE = 1.0
ROUNDS, SECONDS = 5, 2.0
LARGEST_ERROR = 1e-4  # of one of the first losses, relative

PROCESSES, THREADS = OURS = "tinyrmc, processes", "tinyrmc, threads"
FAST = "tinyrmc, compiled"  # processes, with the extra `fast`
TORCH = "PyTorch eager, processes", "PyTorch eager, threads"
TORCH_PROCESSES, TORCH_THREADS = TORCH
NAMES = *OURS, *([FAST] if find_spec("numba") else []), *TORCH


@dataclasses.dataclass(frozen=True)
class Work:
    """A network, and what it reads: T words in each of B lanes, out of V.

    hops, memories: of a memory network.
    """

    core: str
    width: int
    lanes: int = LANES
    window: int = WINDOW
    words: int = WORDS
    hops: int = 0
    memories: int = 0

    @property
    def tokens(self) -> int:
        """Words of a step."""
        return self.lanes * self.window


WORKS = {
    "lstm 2 x 256": Work("lstm", 256),
    "lstm 2 x 650": Work("lstm", 650),
    "rmc 1024": Work("rmc", 1024),
    "memn2n 6 x 100": Work("memn2n", 150, 8, 16, hops=6, memories=100),
    "memn2n 7 x 200": Work("memn2n", 150, 8, 16, hops=7, memories=200),
}


# --- The problem ----------------------------------------------------------------------


def make_task(work: Work) -> Any:
    """Language modelling at this size, with a text that nobody reads."""
    lm = load_task("language_modeling")
    if work.core == "memn2n":
        sizes = {"hops": work.hops, "memories": work.memories}
        model = lm.ModelConfig("memn2n", embedding_size=work.width, **sizes)
        own = {"optimizer": "sgd", "learning_rate": SGD_RATE}
    else:
        model = lm.ModelConfig(
            core=work.core,
            mem_slots=1,
            num_heads=4,
            head_size=work.width // 4,
            activate_final=False,
            hidden_size=work.width,
            layers=2,
            embedding_size=work.width,
            tied=False,
        )
        own = {"learning_rate": peers.RATE, "beta2": peers.BETA2}
    train = lm.training.TrainConfig(
        batch_size=work.lanes, warmup_steps=0, clip_norm=CLIP, **own
    )
    data = lm.DataConfig(window=work.window)
    task = lm.Task(lm.Config(model=model, data=data, train=train))
    text = np.zeros(work.tokens + work.lanes + 1, np.int32)
    names = [str(k) for k in range(work.words)]
    vocabulary = corpora.Vocabulary(names, np.ones(work.words, np.int64))
    texts = dict.fromkeys(("train", "validation", "test"), text)
    task.corpus = corpora.Corpus("none", texts, vocabulary)
    task.stream = lambda model, seed: candidates.Same(window_of(work))
    return task


def window_of(work: Work) -> dict[str, np.ndarray]:
    """The batch of every step; words are as frequent as Zipf says."""
    rng, ranks = np.random.default_rng(0), np.arange(1, work.words + 1)
    edges = np.cumsum(1 / ranks) / np.sum(1 / ranks)
    before = max(0, work.memories - 1)
    ids = np.searchsorted(edges, rng.random((work.lanes, before + work.window + 1)))
    return {
        "before": ids[:, :before],
        "tokens": ids[:, before:-1],
        "targets": ids[:, before + 1 :],
        "is_first": np.zeros(work.lanes, bool),
        "noise": np.zeros(work.lanes, np.int64),
    }


def ours(work: Work, workers: int):
    """step() of the Trainer, as `tinyrmc.train` makes it; returns the loss."""
    trainer = Trainer(make_task(work), workers=workers, processes=CAN_FORK)
    return candidates.steps_of(trainer)


# --- PyTorch --------------------------------------------------------------------------


def torch_network(work: Work):
    """(parameters, forward(tokens, targets, state) -> (sum of losses, state), first
    state) with the weights that ours begins with.
    """
    import torch
    import torch.nn.functional as F

    model = make_task(work).build(np.random.SeedSequence(0).spawn(1)[0])
    arrays = {name: q.data for name, q in model.named_parameters()}
    if work.core == "memn2n":
        return _torch_memn2n(arrays, work)
    table, softmax, bias = (
        torch.tensor(arrays.pop(name), requires_grad=True)
        for name in ("embedding.weight", "softmax.weight", "bias")
    )
    make = _torch_lstm if work.core == "lstm" else _torch_rmc
    parameters, core, first = make(arrays, work)

    def forward(tokens, targets, state):
        outputs, state = core(F.embedding(tokens, table), state)
        logits = F.linear(outputs.reshape(-1, work.width), softmax, bias)
        return F.cross_entropy(logits, targets.reshape(-1), reduction="sum"), state

    return [table, softmax, bias, *parameters], forward, first


def _torch_lstm(arrays, work):
    """(parameters, core(x, state), first(lanes)).

    `torch.nn.LSTM` has one bias too many, which stays zero.
    """
    import torch

    lstm = torch.nn.LSTM(work.width, work.width, 2, batch_first=True)
    for k in range(2):
        weight, bias = (
            arrays[f"layers.{k}.gates.{name}"].copy() for name in ("weight", "bias")
        )
        bias[2 * work.width : 3 * work.width] += 1  # our forget bias
        # our gates i, j, f, o are PyTorch's i, g, f, o in another order
        i, j, f, o = np.split(np.concatenate([weight, bias[None]]), 4, axis=1)
        rows = np.concatenate([i, f, j, o], axis=1).T  # (4H, in + H + 1)
        with torch.no_grad():
            getattr(lstm, f"weight_ih_l{k}").copy_(torch.tensor(rows[:, : work.width]))
            getattr(lstm, f"weight_hh_l{k}").copy_(
                torch.tensor(rows[:, work.width : -1])
            )
            getattr(lstm, f"bias_ih_l{k}").copy_(torch.tensor(rows[:, -1]))
            getattr(lstm, f"bias_hh_l{k}").zero_().requires_grad_(False)

    def core(x, state):
        outputs, state = lstm(x, state)
        return outputs, tuple(each.detach() for each in state)

    def first(lanes):
        return tuple(torch.zeros(2, lanes, work.width) for _ in range(2))

    return [q for q in lstm.parameters() if q.requires_grad], core, first


def _torch_rmc(arrays, work):
    """The same for the Relational Memory Core of peers.py."""
    import torch

    lib = peers.torch_library("cpu")
    w = {
        name.replace("layers.0.", "core.", 1): torch.tensor(x, requires_grad=True)
        for name, x in arrays.items()
    }

    def core(x, memory):
        memories = list(peers.memories(lib, w, x, memory, 4, work.width // 4))
        return torch.cat(memories, 1), memories[-1].detach()

    def first(lanes):
        return torch.eye(1, work.width).expand(lanes, 1, work.width)

    return list(w.values()), core, first


def _torch_memn2n(arrays, work):
    """The memory network; its tokens are the words before and those of the window."""
    import torch
    import torch.nn.functional as F

    w = {name: torch.tensor(x, requires_grad=True) for name, x in arrays.items()}
    linear = work.width - round(0.5 * work.width)

    def forward(tokens, targets, state):
        near = tokens.unfold(1, work.memories, 1)  # (B, T, N)
        memories = F.embedding(near, w["A"]) + w["T_A"]
        contents = F.embedding(near, w["C"]) + w["T_C"]
        u = torch.full((*targets.shape, work.width), 0.1)
        for _ in range(work.hops):
            scores = torch.einsum("btnd,btd->btn", memories, u)
            found = torch.einsum("btn,btnd->btd", F.softmax(scores, dim=-1), contents)
            u = u @ w["H"] + found
            u = torch.cat([u[..., :linear], F.relu(u[..., linear:])], dim=-1)
        logits = F.linear(u.reshape(-1, work.width), w["W"])
        return F.cross_entropy(logits, targets.reshape(-1), reduction="sum"), state

    return [*w.values()], forward, lambda lanes: None


def torch_trainer(work: Work, piece: tuple[int, int] | None = None):
    """step() for all lanes, or for a piece of them: then gloo adds the others'."""
    import torch

    parameters, forward, first = torch_network(work)
    betas = (peers.BETA1, peers.BETA2)
    optimizer: torch.optim.Optimizer = (
        torch.optim.SGD(parameters, SGD_RATE, fused=True)
        if work.core == "memn2n"
        else torch.optim.Adam(parameters, peers.RATE, betas, fused=True)
    )
    lanes, lengths = slice(*piece or (None,)), [q.numel() for q in parameters]
    window = window_of(work)
    window["tokens"] = np.concatenate([window["before"], window["tokens"]], axis=1)
    tokens, targets = (torch.tensor(window[x][lanes]) for x in ("tokens", "targets"))
    state, flat = first(len(tokens)), torch.zeros(sum(lengths) if piece else 0)
    if piece:  # one message: backward adds to the parts of one tensor
        for parameter, part in zip(parameters, flat.split(lengths), strict=True):
            parameter.grad = part.view_as(parameter)

    def step():
        nonlocal state
        optimizer.zero_grad(set_to_none=not piece)
        total, state = forward(tokens, targets, state)
        loss = total / work.tokens
        loss.backward()
        if piece:
            torch.distributed.all_reduce(flat)
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step


def torch_processes(work: Work):
    """step() in as many processes as cores, which share the lanes."""
    pieces = micro_batches(work.lanes, work.lanes, len(usable_cores()))
    return peers.together(lambda worker: torch_trainer(work, pieces[worker]))


# --- What is timed --------------------------------------------------------------------


def candidate(name: str, work: Work, cores: int):
    """step() of a candidate on so many cores."""
    if name in (*OURS, FAST):
        use_compiled(name == FAST)
        return ours(work, 1 if name == THREADS else cores)
    import torch

    torch.set_num_threads(cores if name == TORCH_THREADS else 1)
    if name == TORCH_PROCESSES:
        return torch_processes(work)
    return torch_trainer(work)


def make(name: str, work: Work) -> tuple[dict, Any]:
    """Answers for `running.serve`: first losses, then the median time of a step."""
    step = candidate(name, work, len(usable_cores()))
    losses = [float(step()) for _ in range(3)]
    return {"losses": losses}, functools.partial(candidates.median_time, step)


# --- Measuring ------------------------------------------------------------------------


def measure(name: str, work: Work, rounds: int, seconds: float) -> dict[str, Any]:
    """A row of the results: all candidates at one network, in turn.

    RunError where ours does not run, or where the first losses differ.
    """
    cores = len(usable_cores())
    settings = [(x, cores) for x in NAMES]
    if cores > 1 and CAN_LIMIT:
        settings += [(x, 1) for x in NAMES if x in (THREADS, FAST, TORCH_THREADS)]
    found: dict[str, Any] = {"work": name, **dataclasses.asdict(work)}
    args = TORCH, LARGEST_ERROR, rounds, seconds
    running = beside(__file__, settings, _words(work), *args)
    found["candidates"] = [
        {
            "name": each.name,
            "cores": each.cores,
            "tokens_per_second": work.tokens / each.seconds,
            "rounds": each.rounds,
        }
        for each in running
    ]
    found["ratios"] = {
        str(count): ratio(running, count)
        for count in sorted({each.cores for each in running})
    }
    found["products"] = json.loads(run_python(__file__, "products", _words(work)))
    return found


def ratio(running: list[Candidate], cores: int) -> float | None:
    """PyTorch's time / ours on so many cores, each at its best, by the medians of their
    rounds; None where one of the two did not run.
    """
    own, other = (
        [x for x in running if x.cores == cores and x.name in names]
        for names in (OURS, TORCH)
    )
    if not (own and other):
        return None
    return min(x.seconds for x in other) / min(x.seconds for x in own)


def _words(work: Work) -> str:
    return json.dumps(dataclasses.astuple(work))


def measure_all(rounds: int, names: Iterable[str] = WORKS) -> list[dict]:
    """The rows of these networks."""
    rows = []
    for name in names:
        rows.append(measure(name, WORKS[name], rounds, SECONDS))
        shown = [
            f"{x['name']} on {x['cores']}: {x['tokens_per_second']:,.0f}"
            for x in rows[-1]["candidates"]
        ]
        say(f"{name}, tokens a second: {'; '.join(shown)}")
    return rows


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Measure the training step of language models on a CPU."
    return report.command("language", about, [*WORKS], ROUNDS, measure_all, argv)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in (*NAMES, "products"):
        name, work = sys.argv[1], Work(*json.loads(sys.argv[2]))
        if name == "products":
            with blas_threads(1):
                found = candidates.products(ours(work, 1), 7)
            print(json.dumps(found))
        else:
            threads = len(usable_cores()) if name == THREADS else 1
            serve(lambda: make(name, work), threads, sys.stdin, answering())
    else:
        run_main(main)
