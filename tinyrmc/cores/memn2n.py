"""End-To-End Memory Networks (Sukhbaatar et al. 2015).

Sentences x_i become memories m_i and contents c_i, a question q becomes u. A hop looks
at all memories at once, and adds what it finds:

    m_i = sum_j l_j * A x_ij + T_A(i)      p_i = softmax_i(u . m_i)
    c_i = sum_j l_j * C x_ij + T_C(i)      o   = sum_i p_i c_i
    u   = sum_j l_j * B q_j                u <- u + o

and the answer is softmax(W u). l_j, a vector, says where in its sentence a word stands
(`Encoding`), and T(i) how many sentences ago sentence i was told.

*Nothing is embedded.* Position encodings are of rank one: for unit k of d and word j,
l_kj = s + a_k b_j. So a memory is a row x of counts times a matrix,

    m = x S,   x = [s * words, b-weighted words, age],   S = [A; A * a; T],

where S has as many rows as there are columns in x, whatever the stories. With it

    u . m_i = (u S^T) . x_i   and   sum_i p_i c_i = (sum_i p_i x_i) S,

two products with S for a whole batch, and two with the rows x, which are no parameters.
Memories and contents never exist, and there is nothing to scatter gradients into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from .. import nn
from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array, namespace
from ..backend.seeds import Seed, generator
from ..config import check_values
from ..errors import check_choice, check_number, check_sizes
from ..fused import embedding, linear_cross_entropy, memory_hop, sliding_hop
from .config import CoreConfig
from .core import Trace
from .registry import register_core


def floor_of(owner: str, size: int, relu: float) -> nn.Constant | None:
    """The least value of each of `size` units: 0 for the last ones, a fraction `relu`;
    None if there are no such units.
    """
    check_number(owner, "relu", relu, "[0, 1]")
    linear = size - round(relu * size)
    floor = np.where(np.arange(size) < linear, -np.inf, 0.0)
    return nn.Constant(floor) if relu else None


@dataclass(frozen=True)
class Encoding:
    """The effect of a word's place in its sentence: l_kj, for unit k and word j.

    kind: "bag": nothing, l = 1. "printed": the paper's equation, (1 - j/J) - (k/d)
        (1 - 2j/J), where J is the number of words of the sentence. "released": the one
        in the authors' program, centred, with one J for all sentences: the `longest`
        one and its age, which counts as its last word.
    scale: a factor for all of it. The program has twice what is printed.
    longest: words of the longest sentence; "released" needs it.
    """

    kind: Literal["bag", "printed", "released"] = "released"
    scale: float = 2.0
    longest: int = 1

    def __post_init__(self) -> None:
        check_values(self, "Encoding")

    @property
    def halves(self) -> int:
        """How many columns of a row belong to each word."""
        return 1 if self.kind == "bag" else 2

    def rows(self, sentences: Sequence[Sequence[int]], words: int) -> np.ndarray:
        """The x of sentences of ids below `words`, without ages: (S, halves * words).
        ValueError for a sentence longer than `longest`, where places depend on that.
        """
        most = max(map(len, sentences), default=0)
        if self.kind == "released" and most > self.longest:
            raise ValueError(
                f"a sentence has {most} words, the longest was to have {self.longest}"
            )
        rows = np.zeros((len(sentences), self.halves, words))
        plain = 1.0 if self.kind == "bag" else 0.5 * self.scale
        for row, ids in zip(rows, sentences, strict=True):
            for j, word in enumerate(ids, start=1):
                row[0, word] += plain
                if self.kind != "bag":
                    row[1, word] += self.scale * self._place(j, len(ids))
        return rows.reshape(len(rows), -1)

    def along(self, size: int) -> np.ndarray:
        """a (d,), how far each unit listens to the place."""
        k = np.arange(1, size + 1)
        if self.kind == "printed":
            return 2 * (k / size - 0.5)
        return 2 * (k - (size + 1) / 2) / size

    def of_age(self, size: int) -> np.ndarray:
        """The factor of T, (d,): in the program the age is a sentence's last word."""
        if self.kind != "released":
            return np.ones(size)
        last = self._place(self.longest + 1, 0)
        return self.scale * (0.5 + last * self.along(size))

    def _place(self, j: int, length: int) -> float:
        """b_j of the word j = 1, 2 .. of a sentence of this length."""
        if self.kind == "printed":
            return j / length - 0.5
        J = self.longest + 1
        return (j - (J + 1) / 2) / J


class MemN2N(nn.Module):
    """One or more memory networks, side by side on the same stories.

    Several `networks` R differ in their first weights alone: restarts, of which you
    take the best. It takes whole stories, so it is no `Core`. With words V, slots N,
    hops K:

        adjacent    tables (R, K + 1, V + N, d): A^1, C^1 = A^2, .. C^K = W^T; B = A^1
        layerwise   tables (R, 2, V + N, d): A and C, the same in every hop; a matrix H
                    (R, d, d) for u <- u H + o; `questions` B and `answers` W of their
                    own, (R, V, d) each

    The last N rows of a table are its T. All start as normal values with standard
    deviation `std`. A table and its T are one matrix, as in the authors' program.

    Args:
        words: V, the number of words; the answers are among them.
        size: d, the width of an embedding.
        slots: N, how many ages there are; 0: no temporal encoding.
        hops: K.
        tying: "adjacent" or "layerwise".
        encoding: of the sentences' rows.
        relu: which fraction of the units, the last ones, goes through a ReLU after each
            hop.
        networks: R.
    """

    def __init__(
        self,
        words: int,
        size: int,
        slots: int,
        hops: int = 3,
        tying: Literal["adjacent", "layerwise"] = "adjacent",
        encoding: Encoding | None = None,
        relu: float = 0.0,
        networks: int = 1,
        std: float = 0.1,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        check_sizes("MemN2N", words=words, size=size, hops=hops, networks=networks)
        check_choice("MemN2N", "tying", tying, "adjacent", "layerwise")
        check_sizes("MemN2N", least=0, slots=slots)
        check_number("MemN2N", "std", std, "[0, inf)")
        self.words = words
        self.size = size
        self.slots = slots
        self.hops = hops
        self.tying = tying
        self.encoding = encoding or Encoding("bag")
        self._along = nn.Constant(self.encoding.along(size))
        self._of_age = nn.Constant(self.encoding.of_age(size))
        self._floor = floor_of("MemN2N", size, relu)
        self.plain_units = size - round(relu * size)  # the first ones, without a ReLU
        dtype = nn.check_dtype("MemN2N", dtype)
        streams = generator(seed).spawn(networks)  # one for each network
        V, d = words, size

        def normal(*shape):
            drawn = [std * stream.standard_normal(shape) for stream in streams]
            return Parameter(np.stack(drawn).astype(dtype))

        adjacent = tying == "adjacent"
        tables = hops + 1 if adjacent else 2
        self.tables = normal(tables, V + slots, d)
        self.H = None if adjacent else normal(d, d)
        self.questions = None if adjacent else normal(V, d)
        self.answers = None if adjacent else normal(V, d)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.tables.dtype

    @property
    def columns(self) -> int:
        """Numbers in the row of a memory, its age included: W."""
        return self.encoding.halves * self.words + self.slots

    def __call__(
        self,
        memories: Array,
        questions: Array,
        linear: bool = False,
        empty: Array | None = None,
        trace: Trace = None,
    ) -> Tensor:
        """Rows of memories (B, M, W) and of questions -> logits (R, B, V).

        questions: (B, halves * V), rows without an age.
        linear: without the softmax over memories, which is how training may start.
        empty: bool (B, M), the memories that must not be looked at. Without it, those
            whose row is zero have the score 0 and say nothing, but take their share of
            the softmax, as in the authors' program.
        trace: a list that receives a dict for each hop: "weights" p (B, R, M).
        """
        tables = self._matrices()
        u = self._ask(questions, tables[0])
        mask = None if empty is None else ~empty
        for number in range(self.hops):
            A, C = tables[number : number + 2] if self.tying == "adjacent" else tables
            seen: dict[str, Array] = {}
            found = memory_hop(u, A, C, memories, mask, linear=linear, trace=seen)
            u = self.hop(u, found)
            if trace is not None:
                trace.append(seen)
        W = tables[-1][:, : self.words] if self.answers is None else self.answers
        return p.matmul(u, p.swapaxes(W, 1, 2))

    def hop(self, u: Tensor, found: Tensor) -> Tensor:
        """The next u (R, B, d), when a hop has found o (R, B, d)."""
        u = (u if self.H is None else p.matmul(u, self.H)) + found
        return u if self._floor is None else p.maximum(u, self._on(self._floor, u))

    def _on(self, constant, beside):
        return constant.on(namespace(beside.data), self.dtype)

    def _matrices(self) -> Sequence[Tensor]:
        """The S (R, W, d) of each table."""
        E, T = p.split(self.tables, [self.words], axis=2)
        parts = [E]
        if self.encoding.kind != "bag":
            parts.append(E * self._on(self._along, E))
        if self.slots:
            plain = self.encoding.kind != "released"
            parts.append(T if plain else T * self._on(self._of_age, T))
        return p.unstack(p.concatenate(parts, axis=2), axis=1)

    def _ask(self, questions, first):
        """u (R, B, d) before the first hop."""
        B = self.questions
        if B is None:
            B = first[:, : self.encoding.halves * self.words]
        elif self.encoding.kind != "bag":
            B = p.concatenate([B, B * self._on(self._along, B)], axis=1)
        return p.matmul(questions, B)


class TextMemN2N(nn.Module):
    """A memory network that reads a text: its memories are the last N words.

    Every word x is one memory, and there is no question. All hops are tied layer by
    layer (section 5):

        m_i = A x_i + T_A(i)    c_i = C x_i + T_C(i)    i = 1 (the oldest) .. N
        p = softmax_i(u . m_i)  o = sum_i p_i c_i       u <- u H + o

    from u = 0.1. After each hop a part of the units go through a ReLU, and the next
    word is softmax(W u). No biases.

    It is called like a recurrent network, but its state is the last N - 1 words,
    (B, N - 1), the oldest first, and -1 where there is no word yet. Each word shares
    all memories but one with the next, so for T words N + T - 1 are embedded, not T N.

    Args:
        words: V, the number of words.
        size: d, the width of an embedding.
        slots: N.
        hops: K.
        relu: which fraction of the units, the last ones, goes through a ReLU.
        std: standard deviation of the normal values that all parameters start with.
    """

    def __init__(
        self,
        words: int,
        size: int,
        slots: int,
        hops: int,
        relu: float = 0.5,
        std: float = 0.05,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        check_sizes("TextMemN2N", words=words, size=size, slots=slots, hops=hops)
        check_number("TextMemN2N", "std", std, "[0, inf)")
        dtype = nn.check_dtype("TextMemN2N", dtype)
        self.slots, self.hops = slots, hops
        self._floor = floor_of("TextMemN2N", size, relu)
        rng = generator(seed)

        def normal(rows):
            return Parameter((std * rng.standard_normal((rows, size))).astype(dtype))

        self.A, self.T_A = normal(words), normal(slots)
        self.C, self.T_C = normal(words), normal(slots)
        self.H, self.W = normal(size), normal(words)

    def initial_state(self, batch_size: int) -> Array:
        """No words: -1 (B, N - 1)."""
        xp = namespace(self.H.data)
        return xp.full((batch_size, self.slots - 1), -1, np.int32)

    def __call__(
        self,
        tokens: Array,
        targets: Array,
        state: Array,
        noise: None = None,
        trace: Trace = None,
    ) -> tuple[Tensor, Array]:
        """Tokens (B, T) and the tokens after them -> -log p of each (B, T), state."""
        u, state = self.unroll(tokens, state, trace)
        return linear_cross_entropy(u, self.W, targets), state

    def unroll(
        self, tokens: Array, state: Array, trace: Trace = None
    ) -> tuple[Tensor, Array]:
        """u (B, T, d) after the last hop, and the next state.

        trace: a list that receives a dict for each hop: "weights" p (B, T, N).
        """
        xp = namespace(self.H.data)
        size = self.H.shape[0]
        words = xp.concatenate([state, tokens], axis=1)  # (B, N + T - 1)
        mask = words >= 0
        seen = xp.maximum(words, 0)
        m, c = embedding(self.A, seen), embedding(self.C, seen)
        u = Tensor(xp.full((*tokens.shape, size), 0.1, self.H.dtype))
        for _ in range(self.hops):
            weights: dict[str, Array] = {}
            found = sliding_hop(u, m, self.T_A, c, self.T_C, mask, trace=weights)
            u = p.matmul(u, self.H) + found
            if self._floor is not None:
                u = p.maximum(u, self._floor.on(xp, u.dtype))
            if trace is not None:
                trace.append(weights)
        return u, words[:, tokens.shape[1] :]

    def logits(self, tokens: Array, state: Array) -> tuple[Tensor, Array]:
        """Tokens (B, T) -> the logits (B, V) of the token that follows, next state."""
        u, state = self.unroll(tokens, state)
        return u[:, -1] @ p.swapaxes(self.W, 0, 1), state


@register_core("memn2n", used=(), where="texts", colour="#882255")
def _memn2n(c: CoreConfig, input_size: int, seed: Seed) -> nn.Module:
    """the End-To-End Memory Network (Sukhbaatar et al. 2015), with sizes of its own"""
    raise ValueError("model.core memn2n is built by the tasks that read texts")
