"""The Relational Memory Core (Santoro et al. 2018), twice.

`RelationalMemory` is the formulation that the authors released with Sonnet and used in
their experiments, written for speed. `PaperRelationalMemory` is the paper's text,
equations 1-9 of `equations.py` to the letter. They differ; where, the table says:

    |                        | the paper, eqs 1-9                        | as released (default)                             |
    | state                  | memory m and hidden h                     | memory m only                                     |
    | first memory           | random                                    | the identity, cut or padded with zeros            |
    | who asks (eq 2)        | the slots                                 | slots and input rows; the input's answer is lost  |
    | q, k, v                | linear                                    | linear with bias, then a layer norm over all heads |
    | residual, norm (eq 2)  | none                                      | layer_norm(M + attention)                         |
    | gates see (eqs 4-5)    | x_t and h_{t-1}                           | projected x_t and tanh(m_{t-1}), a bias for each  |
    | output (eqs 6, 8)      | h = sigmoid(o) tanh(m)                    | m itself                                          |
    | candidate (eq 7)       | g_psi(m~)                                 | tanh of it                                        |

On nth farthest the fourth row decides, in the one seed that was tried: without it
neither form learns, with it both do (benchmarks/README.md, "Paper and release").

Why the identity: all slots share all weights, so slots that start equal stay equal for
ever. Every core reads `output, state = core(inputs, state)` and begins with
`core.initial_state(batch_size)`.
"""

from __future__ import annotations

import numpy as np

from .. import equations
from .. import primitives as p
from ..backend import namespace
from ..engine import Parameter
from ..fused import attention, linear, rmc_gates
from ..nn import (
    LayerNorm,
    Linear,
    check_array,
    check_dtype,
    check_number,
    check_sizes,
    truncated_normal,
)
from .core import Core

GATE_STYLES = ("unit", "memory", None)


def identity_memory(mem_slots, mem_size, dtype) -> np.ndarray:
    """The released first memory (N, F): the identity, padded with zeros or cut to the
    first F columns. Tells the slots apart.
    """
    return np.eye(mem_slots, mem_size, dtype=dtype)


def _check_input(core, inputs, leading=1):
    """Inputs as rows (..., n, input_size), whether they came as vectors or as matrices,
    after `leading` axes of any length.
    """
    rows = () if core.input_rows is None else (core.input_rows,)
    shape = (*[None] * leading, *rows, core.input_size)
    check_array(
        type(core).__name__,
        "inputs",
        inputs,
        shape,
        core.dtype,
        "see input_size and input_rows",
    )
    return inputs if rows else p.expand_dims(inputs, leading)


def _check_state(core, inputs, *state):
    """Every array of the state is (B, N, F) for these inputs: a wrong one may broadcast
    and go unnoticed.
    """
    for array in state:
        shape = (inputs.shape[0], core.mem_slots, core.mem_size)
        check_array(
            type(core).__name__,
            "a state",
            array,
            shape,
            core.dtype,
            "see initial_state",
        )


class _Memory(Core):
    """What both formulations share: sizes, their checks, and the input projection."""

    def __init__(
        self,
        input_size,
        mem_slots,
        head_size,
        num_heads,
        attention_mlp_layers,
        key_size,
        input_rows,
        dtype,
    ):
        name = type(self).__name__
        key_size = head_size if key_size is None else key_size
        check_sizes(
            name,
            input_size=input_size,
            mem_slots=mem_slots,
            head_size=head_size,
            num_heads=num_heads,
            attention_mlp_layers=attention_mlp_layers,
            key_size=key_size,
            input_rows=1 if input_rows is None else input_rows,
        )
        self.input_size, self.input_rows, self.mem_slots, self.num_heads = (
            input_size,
            input_rows,
            mem_slots,
            num_heads,
        )
        self.head_size, self.key_size, self.mem_size = (
            head_size,
            key_size,
            head_size * num_heads,
        )  # V, K, F = H V
        check_dtype(name, dtype)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.input_projection.weight.dtype

    @property
    def output_size(self) -> int:
        """Width of the output, N F."""
        return self.mem_slots * self.mem_size

    def _start(self, memory, batch_size):
        check_sizes(type(self).__name__, batch_size=batch_size)
        like = self.input_projection.weight.data
        xp = namespace(like)
        return xp.tile(xp.asarray(memory.astype(like.dtype)), (batch_size, 1, 1))


class RelationalMemory(_Memory):
    """The Relational Memory Core as released: attention among N slots and the input,
    then a gated update of the slots.

    One step, for memory M (B, N, F) and input x, repeating the block `num_blocks`
    times:

        x' = x W + b                                   the input row(s), (B, n, F)
        Z  = [M; x']                                   (B, N + n, F)
        Z  = layer_norm(Z + attention(layer_norm(Z W_qkv + b_qkv)))
        Z  = layer_norm(Z + MLP(Z))                    the MLP is shared by all blocks
        i, f = sigmoid(x' W_x + tanh(M) W_m + biases)  gates
        M' = i * tanh(Z[:N]) + f * M                   the next memory, and flattened the output

    Args, by Sonnet's names: input_size: width of an input vector (B, input_size), or of
        each row of a matrix (B, input_rows, input_size). mem_slots, head_size,
        num_heads: N, V, H. A slot is F = H V wide. The number of parameters does not
        depend on N. With N > F the
            identity has no rows to tell the last slots apart by: they stay equal.
        num_blocks: attention blocks a step; queries, keys, values and norms are each
            block's own.
        forget_bias, input_bias: constants added to the gates' pre-activations.
        gate_style: "unit" (a gate for each of the F units), "memory" (one for each
            slot), None (the next M is the candidate, without tanh).
        attention_mlp_layers: linear layers in the MLP, each F wide, ReLU between them.
        key_size: K, if queries and keys should not be as wide as values.
        input_rows: number of rows of a matrix input; None for a vector.
        activate_final: a ReLU also after the MLP's last layer (not in the release).
        dtype, seed: of the parameters.
    Raises ValueError or TypeError naming the argument.
    """

    def __init__(
        self,
        input_size,
        mem_slots,
        head_size,
        num_heads=1,
        num_blocks=1,
        forget_bias=1.0,
        input_bias=0.0,
        gate_style="unit",
        attention_mlp_layers=2,
        key_size=None,
        dtype=np.float32,
        seed=0,
        *,
        input_rows=None,
        activate_final=False,
    ):
        super().__init__(
            input_size,
            mem_slots,
            head_size,
            num_heads,
            attention_mlp_layers,
            key_size,
            input_rows,
            dtype,
        )
        check_sizes("RelationalMemory", num_blocks=num_blocks)
        if gate_style not in GATE_STYLES:
            raise ValueError(
                "RelationalMemory: gate_style must be 'unit', 'memory' or None, not "
                f"{gate_style!r}"
            )
        self.forget_bias = check_number("RelationalMemory", "forget_bias", forget_bias)
        self.input_bias, self.gate_style = (
            check_number("RelationalMemory", "input_bias", input_bias),
            gate_style,
        )
        rng, F = np.random.default_rng(seed), self.mem_size
        make = {"dtype": dtype, "seed": rng}
        self.input_projection = Linear(input_size, F, **make)
        width = num_heads * (2 * self.key_size + head_size)
        self.blocks = [
            {
                "qkv": Linear(F, width, **make),
                "qkv_norm": LayerNorm(width, dtype),
                "attention_norm": LayerNorm(F, dtype),
                "mlp_norm": LayerNorm(F, dtype),
            }
            for _ in range(num_blocks)
        ]
        last = attention_mlp_layers - 1
        self.mlp = [
            Linear(F, F, relu=k < last or activate_final, **make)
            for k in range(attention_mlp_layers)
        ]
        if gate_style is not None:
            gates = 2 * F if gate_style == "unit" else 2
            self.gate_inputs = Linear((input_rows or 1) * F, gates, **make)
            self.gate_memory = Linear(F, gates, **make)

    def initial_state(self, batch_size):
        """The first memory for a batch, (B, N, F)."""
        return self._start(
            identity_memory(self.mem_slots, self.mem_size, self.dtype), batch_size
        )

    def __call__(self, inputs, state, trace=None, mask=None):
        """One step: inputs (B, input_size) or (B, n, input_size), state (B, N, F) ->
        output (B, N F), next state (B, N, F).

        `trace`, a list, receives one dict of arrays for the step: "attention" (B, H, N,
        N + n) of the last block, and "input_gate", "forget_gate" (B, N, F or 1).
        Without it nothing is kept. `mask`, bool (..., N + n, N + n) with leading axes
        that broadcast to (B, H), says which rows, the slots and then the input's, may
        attend to which in this step.
        """
        return self._step(
            *self._prepare(_check_input(self, inputs)), state, trace, mask
        )

    def _prepare_all(self, inputs):
        """The projection of the inputs (B, T, ...) and their part of the gates, which
        need no memory, for all steps at once.
        """
        rows, from_input = self._prepare(
            p.swapaxes(_check_input(self, inputs, leading=2), 0, 1)
        )  # (T, B, n, F), (T, B, 1, G)
        return zip(
            p.unstack(rows),
            [None] * rows.shape[0] if from_input is None else p.unstack(from_input),
            strict=True,
        )

    def _prepare(self, inputs):
        """What depends on the inputs alone: x' (..., n, F), and x' W_x with both biases
        of the gates (..., 1, G); None without gates.
        """
        rows = self.input_projection(inputs)
        if self.gate_style is None:
            return rows, None
        return rows, self.gate_inputs(
            p.reshape(rows, (*rows.shape[:-2], 1, -1))
        ) + self.gate_memory.bias

    def _step(self, rows, from_input, memory, trace, mask=None):
        seen = None if trace is None else {}
        _check_state(self, rows, memory)
        candidate = self._attend(rows, memory, seen, mask)  # (B, N, F)
        if self.gate_style is None:
            memory = candidate
        else:
            from_memory = linear(p.tanh(memory), self.gate_memory.weight)  # (B, N, G)
            biases = {"input_bias": self.input_bias, "forget_bias": self.forget_bias}
            memory = rmc_gates(
                from_input, from_memory, candidate, memory, **biases, trace=seen
            )
        if trace is not None:
            trace.append(seen)
        return p.reshape(memory, (memory.shape[0], -1)), memory

    def _attend(self, rows, memory, seen, mask):
        """The block, num_blocks times.

        In the last one only the slots ask and are refined: the input rows' own result
        is never used.
        """
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            z = p.concatenate([memory, rows], axis=1)  # (B, N + n, F)
            qkv = block["qkv_norm"](block["qkv"](z))
            queries = self.mem_slots if last else None
            asked = mask if mask is None else mask[..., :queries, :]
            heard = attention(
                qkv,
                asked,
                num_heads=self.num_heads,
                key_size=self.key_size,
                num_queries=queries,
                trace=seen,
            )
            z = block["attention_norm"](heard, memory if last else z)
            refined = z
            for layer in self.mlp:
                refined = layer(refined)
            z = block["mlp_norm"](refined, z)
            if not last:
                memory, rows = z[:, : self.mem_slots], z[:, self.mem_slots :]
        return z


class PaperRelationalMemory(_Memory):
    """Equations 1-9 of the paper, literally: every step is `equations.step`, with this
    module's Parameters for its symbols.

    x_t is the projected input (F wide) wherever eqs 2-6 say x_t. The state is (m, h),
    each (B, N, F); the output is flatten(h).

    Args as for RelationalMemory, with one block, unit gates and vector inputs; and
        forget_bias: b~f of eq 7, a constant. initial_memory: "random" (the paper; drawn
        from `seed`, the same for every example) or "identity" (the released code).
    """

    input_rows = None

    def __init__(
        self,
        input_size,
        mem_slots,
        head_size,
        num_heads=1,
        forget_bias=1.0,
        attention_mlp_layers=2,
        key_size=None,
        initial_memory="random",
        dtype=np.float32,
        seed=0,
    ):
        super().__init__(
            input_size,
            mem_slots,
            head_size,
            num_heads,
            attention_mlp_layers,
            key_size,
            None,
            dtype,
        )
        if initial_memory not in ("random", "identity"):
            raise ValueError(
                "PaperRelationalMemory: initial_memory must be 'random' or "
                f"'identity', not {initial_memory!r}"
            )
        self.forget_bias = check_number(
            "PaperRelationalMemory", "forget_bias", forget_bias
        )
        rng, F = np.random.default_rng(seed), self.mem_size

        def weight(*shape):
            return Parameter(truncated_normal(rng, shape, F**-0.5, dtype))

        self.input_projection = Linear(input_size, F, dtype=dtype, seed=rng)
        self.W_q, self.W_k = (
            weight(num_heads, F, self.key_size),
            weight(num_heads, F, self.key_size),
        )
        self.W_v = weight(num_heads, F, head_size)
        self.mlp = [
            Linear(F, F, dtype=dtype, seed=rng) for _ in range(attention_mlp_layers)
        ]
        self.mlp_norm = LayerNorm(F, dtype)
        for gate in "fio":
            setattr(self, f"W_{gate}", weight(F, F))
            setattr(self, f"U_{gate}", weight(F, F))
            setattr(self, f"b_{gate}", Parameter(np.zeros(F, dtype)))
        # Drawn last and from the same stream, so that the weights do not depend on the number of
        # slots.
        self._initial = (
            identity_memory(mem_slots, F, dtype)
            if initial_memory == "identity"
            else rng.standard_normal((mem_slots, F)).astype(dtype)
        )

    def initial_state(self, batch_size):
        """(m, h) for a batch, each (B, N, F); h starts at zero."""
        memory = self._start(self._initial, batch_size)
        return memory, namespace(memory).zeros_like(memory)

    def equation_parameters(self) -> dict:
        """This module's Parameters under the symbols of `equations.step`."""
        names = [
            "W_q",
            "W_k",
            "W_v",
            *(f"{letter}_{gate}" for gate in "fio" for letter in "WUb"),
        ]
        return {
            **{name: getattr(self, name) for name in names},
            "mlp": [(layer.weight, layer.bias) for layer in self.mlp],
            "gain": self.mlp_norm.gain,
            "offset": self.mlp_norm.offset,
            "forget_bias": self.forget_bias,
        }

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (m, h) -> flatten(h) (B, N F), next
        (m, h). `trace` as for RelationalMemory.
        """
        seen = None if trace is None else {}
        x = self.input_projection(_check_input(self, inputs)[:, 0])  # (B, F)
        _check_state(self, inputs, *state)
        hidden, state = equations.step(
            p, x, state, self.equation_parameters(), trace=seen
        )
        if trace is not None:
            weights = [
                w.data for w in seen["attention"]
            ]  # a list over heads of (B, N, N + 1)
            gates = {
                name: seen[name].data
                for name in ("input_gate", "forget_gate", "output_gate")
            }
            trace.append(
                {"attention": namespace(weights[0]).stack(weights, axis=1), **gates}
            )
        return p.reshape(hidden, (hidden.shape[0], -1)), state
