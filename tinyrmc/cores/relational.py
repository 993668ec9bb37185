"""The Relational Memory Core (Santoro et al. 2018), twice.

`RelationalMemory` is the formulation that the authors released with Sonnet and used in
their experiments, written for speed. `PaperRelationalMemory` is the paper's text,
equations 1-9 of `equations.py` to the letter. The table says where they differ; numbers
in brackets are equations.

    |                    | paper, eqs 1-9         | released (the default)             |
    | state              | memory m and hidden h  | memory m only                      |
    | first memory       | random                 | the identity, cut or zero-padded   |
    | who asks (2)       | the slots              | slots and input (its answer lost)  |
    | q, k, v            | linear                 | with bias, then a norm over heads  |
    | residual, norm (2) | none                   | layer_norm(M + attention)          |
    | gates see (4-5)    | x_t and h_{t-1}        | x_t and tanh(m_{t-1})              |
    | output (6, 8)      | h = sigmoid(o) tanh(m) | m itself                           |
    | candidate (7)      | g_psi(m~)              | tanh of it                         |

The scale of attention, 1 / sqrt(K), is equation 1's. The authors' module had 1 /
sqrt(2K + V) until November 2018, so the paper's experiments probably used that one.

On nth farthest with four vectors the fourth row decides, at the one rate that was tried
and with three seeds: with it both forms leave the plateau, without it neither does
(benchmarks/nth_farthest_tried.md). Each form can have that row as the other has it:
`qkv_norm`.

Why the identity? All slots share all weights: slots that start equal stay equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import equations
from ..autograd import primitives as p
from ..autograd.engine import Parameter, Primitive, Tensor
from ..backend import Array, kernels, namespace
from ..backend.seeds import Seed, generator
from ..errors import check_choice, check_number, check_switch, counted
from ..fused import attention, is_plain, linear, rmc_gates
from ..nn import MLP, Constant, LayerNorm, Linear, check_dtype, truncated_normal
from .config import CoreConfig, check_parts
from .core import Core, Inputs, State, Step, Steps, Trace, says_all
from .registry import register_core


def identity_memory(mem_slots: int, mem_size: int, dtype: npt.DTypeLike) -> np.ndarray:
    """The released first memory (N, F): the identity, padded with zeros or cut."""
    return np.eye(mem_slots, mem_size, dtype=dtype)


@functools.cache
def _all_steps(gpu: ModuleType) -> Primitive:
    """The steps of a RelationalMemory as one primitive; its kernels: backend/gpu/."""
    primitive = Primitive(gpu.memory.relational_memory)
    primitive.vjp_in_place(gpu.memory.relational_memory_vjp)
    return primitive


class _Memory(Core):
    """Shared by both formulations: sizes, their checks, and the input projection."""

    any_weight = "input_projection.weight"
    first: Constant  # the memory (N, F) that every example begins with
    mem_slots: int
    head_size: int
    num_heads: int
    key_size: int
    input_rows: int | None

    def _size(self, key_size: int | None, input_rows: int | None, **sizes: int) -> None:
        """Keep N, H, V, K, F = H V and the rest, under these names."""
        sizes["key_size"] = sizes["head_size"] if key_size is None else key_size
        self._set_sizes(**sizes, input_rows=1 if input_rows is None else input_rows)
        self.input_rows = input_rows
        self.mem_size = self.head_size * self.num_heads
        self.output_size = self.mem_slots * self.mem_size

    def initial_state(self, batch_size: int) -> State:
        """The first memory for a batch, (B, N, F).

        On NumPy one array, seen B times, which says that it is the same for all.
        """
        memory = self.zeros(batch_size, self.mem_slots, self.mem_size)
        xp = namespace(memory)
        first = self.first.on(xp, self.dtype)
        if xp is np:
            return np.broadcast_to(first, memory.shape)
        memory[...] = first
        return memory

    def _as_rows(self, inputs: Inputs, leading: int = 1) -> Array | Tensor:
        """Inputs, vectors or matrices, as rows (..., n, input_size) after `leading`
        axes of any length.
        """
        rows = () if self.input_rows is None else (self.input_rows,)
        shape = (*[None] * leading, *rows, self.input_size)
        self._check_inputs(inputs, *shape, hint="see input_size and input_rows")
        return inputs if rows else p.expand_dims(inputs, leading)


class RelationalMemory(_Memory, at_once=True):
    """The Relational Memory Core as released.

    N slots attend to one another and to the input; then a gate updates each. One step,
    for memory M (B, N, F) and input x, with `num_blocks` rounds of the three lines in
    the middle:

        x' = x W + b                          the input row(s), (B, n, F)
        Z  = [M; x']                          (B, N + n, F)
        Z  = layer_norm(Z + attention(layer_norm(Z W_qkv + b_qkv)))
        Z  = layer_norm(Z + MLP(Z))           the MLP is shared by all blocks
        i, f = sigmoid(x' W_x + tanh(M) W_m + biases)
        M' = i * tanh(Z[:N]) + f * M          the next memory; flattened, the output

    Args, by Sonnet's names:
        input_size: width of an input vector (B, input_size), or of each row of a matrix
            (B, input_rows, input_size).
        mem_slots, head_size, num_heads: N, V, H. A slot is F = H V wide. The number of
            parameters does not depend on N. With N > F the identity has no rows to tell
            the last slots apart: those stay equal.
        num_blocks: attention blocks a step. Each has its own queries, keys, values and
            norms.
        forget_bias, input_bias: constants added to the gates' pre-activations.
        gate_style: "unit" (a gate for each of the F units), "memory" (one for each
            slot), None (the next M is the candidate, without tanh).
        attention_mlp_layers: linear layers in the MLP, each F wide, ReLU between them.
        key_size: K, if queries and keys should not be as wide as values.
        input_rows: number of rows of a matrix input; None for a vector.
        activate_final: a ReLU also after the MLP's last layer: not in the release, so
            off here. `CoreConfig`, from which `tinyrmc train` and `build_core` make a
            core, has it on, but for the presets that are the paper's.
        qkv_norm: False makes queries, keys and values linear, as in the paper: no bias
            and no norm.
    """

    def __init__(
        self,
        input_size: int,
        mem_slots: int,
        head_size: int,
        num_heads: int = 1,
        num_blocks: int = 1,
        forget_bias: float = 1.0,
        input_bias: float = 0.0,
        gate_style: Literal["unit", "memory"] | None = "unit",
        attention_mlp_layers: int = 2,
        key_size: int | None = None,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
        input_rows: int | None = None,
        activate_final: bool = False,
        qkv_norm: bool = True,
    ):
        sizes = {"input_size": input_size, "mem_slots": mem_slots}
        sizes |= {"head_size": head_size, "num_heads": num_heads}
        sizes |= {"attention_mlp_layers": attention_mlp_layers}
        self._size(key_size, input_rows, **sizes, num_blocks=num_blocks)
        dtype = check_dtype("RelationalMemory", dtype)
        check_choice(
            "RelationalMemory", "gate_style", gate_style, "unit", "memory", None
        )
        self.forget_bias = check_number("RelationalMemory", "forget_bias", forget_bias)
        self.input_bias = check_number("RelationalMemory", "input_bias", input_bias)
        self.gate_style, self.activate_final = gate_style, bool(activate_final)
        normed = check_switch("RelationalMemory", "qkv_norm", qkv_norm)
        check_switch("RelationalMemory", "activate_final", activate_final)
        rng = generator(seed)
        F = self.mem_size
        self.first = Constant(identity_memory(mem_slots, F, dtype))
        self.input_projection = Linear(input_size, F, dtype=dtype, seed=rng)
        width = self._qkv_columns = num_heads * (2 * self.key_size + head_size)
        self.blocks: list[dict[str, Any]] = []
        for _ in range(num_blocks):
            block: dict[str, Any] = {}
            block["qkv"] = Linear(F, width, bias=normed, dtype=dtype, seed=rng)
            if normed:
                block["qkv_norm"] = LayerNorm(width, dtype)
            block["attention_norm"] = LayerNorm(F, dtype)
            block["mlp_norm"] = LayerNorm(F, dtype)
            self.blocks.append(block)
        layers = [F] * attention_mlp_layers
        self.mlp = MLP(F, layers, self.activate_final, dtype, seed=rng).layers
        gates = self._gate_columns = 2 * F if gate_style == "unit" else 2
        if gate_style is not None:
            rows = input_rows or 1
            self.gate_inputs = Linear(rows * F, gates, dtype=dtype, seed=rng)
            self.gate_memory = Linear(F, gates, dtype=dtype, seed=rng)

    def __call__(
        self,
        inputs: Inputs,
        state: State,
        trace: Trace = None,
        mask: Array | None = None,
    ) -> Step:
        """One step: inputs (B, input_size) or (B, n, input_size), state (B, N, F) ->
        output (B, N F), next state.

        `trace` receives the step's "attention" (B, H, N, N + n) of the last block, and
        "input_gate", "forget_gate" (B, N, F or 1). `mask`, bool (..., N + n, N + n)
        with leading axes that broadcast to (B, H), says which rows may attend to which:
        the slots come first, then the rows of the input.
        """
        return self._step(*self._prepare(self._as_rows(inputs)), state, trace, mask)

    def _unroll_at_once(self, inputs, state, lengths, is_first) -> Steps | None:
        """On a GPU, all steps of one block with norms and gates: one entry on the tape.
        Step by step, they would be many small operations.
        """
        block, *others = self.blocks
        ends = lengths is not None or is_first is not None
        if others or ends or self.gate_style is None or "qkv_norm" not in block:
            return None
        weight = self.input_projection.weight.data
        given = (x.data if isinstance(x, Tensor) else x for x in (inputs, state))
        gpu = kernels(namespace(weight), weight, *given)
        if gpu is None or is_plain():
            return None
        inputs = p.swapaxes(self._as_rows(inputs, leading=2), 0, 1)  # (T, B, n, E)
        qkv, (batch, n) = block["qkv"], inputs.shape[1:3]
        if not gpu.memory.fits(self, n):
            return None
        self._check_state(state, batch, self.mem_slots, self.mem_size)
        norms = block["qkv_norm"], block["attention_norm"], block["mlp_norm"]
        arrays = [state, *self._prepare(inputs), qkv.weight, qkv.bias]
        arrays += [array for norm in norms for array in (norm.gain, norm.offset)]
        arrays += [self.gate_memory.weight]
        arrays += [array for layer in self.mlp for array in (layer.weight, layer.bias)]
        memories = _all_steps(gpu)(
            arrays,
            num_heads=self.num_heads,
            key_size=self.key_size,
            input_bias=self.input_bias,
            forget_bias=self.forget_bias,
            activate_final=self.activate_final,
        )
        outputs = [p.reshape(memory, (memory.shape[0], -1)) for memory in memories]
        return outputs, memories[-1]

    def _layers(self) -> Iterable[tuple]:
        F, G = self.mem_size, self._gate_columns
        yield self.input_projection, Linear, (self.input_size, F)
        for block in self.blocks:
            normed = "qkv_norm" in block
            width = self._qkv_columns
            yield block["qkv"], Linear, (F, width), False, normed
            if normed:
                yield block["qkv_norm"], LayerNorm, (width,)
            yield block["attention_norm"], LayerNorm, (F,)
            yield block["mlp_norm"], LayerNorm, (F,)
        for left, layer in enumerate(reversed(self.mlp)):
            yield layer, Linear, (F, F), left > 0 or self.activate_final
        if self.gate_style is not None:
            yield self.gate_inputs, Linear, ((self.input_rows or 1) * F, G)
            yield self._gate_memory()

    def _gate_memory(self) -> tuple:
        return self.gate_memory, Linear, (self.mem_size, self._gate_columns)

    def _prepare_all(self, inputs: Inputs) -> Iterable[tuple]:
        """The inputs (B, T, ...) projected, and their part of the gates."""
        inputs = p.swapaxes(self._as_rows(inputs, leading=2), 0, 1)
        rows, from_input = self._prepare(inputs)  # (T, B, n, F), (T, B, 1, G)
        if from_input is None:
            return ((each, None) for each in p.unstack(rows))
        return zip(p.unstack(rows), p.unstack(from_input), strict=True)

    def _prepare(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Of the inputs alone: x' (..., n, F), and x' W_x with both biases of the gates
        (..., 1, G), or None without gates.
        """
        rows = self.input_projection(inputs)
        if self.gate_style is None:
            return rows, None
        side_by_side = p.reshape(rows, (*rows.shape[:-2], 1, -1))  # (..., 1, n F)
        from_input = self.gate_inputs(side_by_side)
        if says_all(*self._gate_memory()):  # else its bias comes with the rest of it
            from_input = from_input + self.gate_memory.bias
        return rows, from_input

    def _step(self, rows, from_input, memory, trace, mask=None):
        seen = None if trace is None else {}
        self._check_state(memory, rows.shape[0], self.mem_slots, self.mem_size)
        candidate = self._attend(rows, memory, seen, mask)  # (B, N, F)
        if self.gate_style is None:
            memory = candidate
        else:
            gates = self._gates_of
            same = _is_same(memory) and self.is_known()
            from_memory = _once(gates, memory) if same else gates(memory)
            biases = {"input_bias": self.input_bias, "forget_bias": self.forget_bias}
            memory = rmc_gates(
                from_input, from_memory, candidate, memory, **biases, trace=seen
            )
        if trace is not None:
            trace.append(seen)
        return p.reshape(memory, (memory.shape[0], -1)), memory

    def _gates_of(self, memory):
        if says_all(*self._gate_memory()):
            return linear(p.tanh(memory), self.gate_memory.weight)  # (B, N, G)
        return self.gate_memory(p.tanh(memory))

    def _attend(self, rows, memory, seen, mask):
        """The block, num_blocks times. In the last one only the slots ask and are
        refined: the input rows' own result would never be used.
        """
        sizes = {"num_heads": self.num_heads, "key_size": self.key_size}
        same = _is_same(memory) and self.is_known()  # each row goes through by itself
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            z = equations.append_rows(p, memory, rows)  # (B, N + n, F)
            project = functools.partial(_project, block)
            qkv = (
                equations.append_rows(p, _once(project, memory), project(rows))
                if same and number == 0
                else project(z)
            )
            queries = self.mem_slots if last else None
            may = None if mask is None else mask[..., :queries, :]
            attended = attention(qkv, may, **sizes, num_queries=queries, trace=seen)
            z = block["attention_norm"](attended, memory if last else z)
            refined = z
            for layer in self.mlp:
                refined = layer(refined)
            z = block["mlp_norm"](refined, z)
            if not last:
                memory, rows = z[:, : self.mem_slots], z[:, self.mem_slots :]
        return z


def _project(block, rows):
    """Queries, keys and values of rows, side by side."""
    qkv = block["qkv"](rows)
    return block["qkv_norm"](qkv) if "qkv_norm" in block else qkv


def _is_same(memory):
    """Whether all examples have the same memory: the first one, on NumPy."""
    return type(memory) is np.ndarray and memory.strides[0] == 0


def _once(of_rows, memory):
    """of_rows(memory) of a memory that is the same for all examples: made for one of
    them, which saves time.
    """
    made = of_rows(memory[:1])
    return p.broadcast_to(made, (len(memory), *made.shape[1:]))


class PaperRelationalMemory(_Memory):
    """Equations 1-9 of the paper, literally.

    Every step is `equations.step`, with this module's Parameters for its symbols. x_t
    is the projected input (F wide) wherever eqs 2-6 say x_t. The state is (m, h), each
    (B, N, F); the output is flatten(h).

    Args as for RelationalMemory, with one block, unit gates and vector inputs; and
        forget_bias: b~f of eq 7, a constant.
        initial_memory: "random" (the paper; drawn from `seed`, the same for every
            example) or "identity" (the released code). It is no parameter: a module or
            a file brings it along, bare arrays go with a "random" one of the same seed.
        qkv_norm: True gives queries, keys and values a bias and a layer norm over
            heads, as released: the one step that is not in the equations.
    """

    def __init__(
        self,
        input_size: int,
        mem_slots: int,
        head_size: int,
        num_heads: int = 1,
        forget_bias: float = 1.0,
        attention_mlp_layers: int = 2,
        key_size: int | None = None,
        initial_memory: Literal["random", "identity"] = "random",
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
        qkv_norm: bool = False,
    ):
        name = "PaperRelationalMemory"
        sizes = {"input_size": input_size, "mem_slots": mem_slots}
        sizes |= {"head_size": head_size, "num_heads": num_heads}
        self._size(key_size, None, **sizes, attention_mlp_layers=attention_mlp_layers)
        dtype = check_dtype(name, dtype)
        check_choice(name, "initial_memory", initial_memory, "random", "identity")
        self.forget_bias = check_number(name, "forget_bias", forget_bias)
        rng = generator(seed)
        H = num_heads
        F = self.mem_size

        def weight(*shape):
            return Parameter(truncated_normal(rng, shape, F**-0.5, dtype))

        def bias():
            return Parameter(np.zeros(F, dtype))

        self.input_projection = Linear(input_size, F, dtype=dtype, seed=rng)
        self.W_q = weight(H, F, self.key_size)
        self.W_k = weight(H, F, self.key_size)
        self.W_v = weight(H, F, head_size)
        layers = range(attention_mlp_layers)
        self.mlp = [Linear(F, F, dtype=dtype, seed=rng) for _ in layers]
        self.mlp_norm = LayerNorm(F, dtype)
        self.W_f, self.U_f, self.b_f = weight(F, F), weight(F, F), bias()
        self.W_i, self.U_i, self.b_i = weight(F, F), weight(F, F), bias()
        self.W_o, self.U_o, self.b_o = weight(F, F), weight(F, F), bias()
        self.qkv_norm: LayerNorm | None = None
        if check_switch(name, "qkv_norm", qkv_norm):
            width = H * (2 * self.key_size + head_size)
            self.qkv_bias = Parameter(np.zeros(width, dtype))
            self.qkv_norm = LayerNorm(width, dtype)
        # Drawn last and from the same stream, so that the weights do not depend on N.
        first = identity_memory(mem_slots, F, dtype)
        drawn = initial_memory == "random"
        if drawn:
            first = rng.standard_normal((mem_slots, F)).astype(dtype)
        self.first = Constant(first, drawn)

    def initial_state(self, batch_size: int) -> tuple[Array, Array]:
        """(m, h) for a batch, each (B, N, F); h starts at zero."""
        memory = super().initial_state(batch_size)
        return memory, self.zeros(*memory.shape)

    def equation_parameters(self) -> dict[str, Any]:
        """This module's Parameters under the symbols of `equations.step`."""
        return {
            **self._without_layers(),
            "mlp": [(layer.weight, layer.bias) for layer in self.mlp],
            "gain": self.mlp_norm.gain,
            "offset": self.mlp_norm.offset,
        }

    def _without_layers(self) -> dict[str, Any]:
        names = "W_q W_k W_v W_f U_f b_f W_i U_i b_i W_o U_o b_o forget_bias"
        return {name: getattr(self, name) for name in names.split()}

    def _layers(self) -> Iterable[tuple]:
        F = self.mem_size
        yield from ((layer, Linear, (F, F)) for layer in self.mlp)
        yield self.mlp_norm, LayerNorm, (F,)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state (m, h) -> flatten(h) (B, N F), state.
        `trace` as for RelationalMemory, with an "output_gate" too.
        """
        x = self.input_projection(self._as_rows(inputs)[:, 0])  # (B, F)
        for array in state:
            self._check_state(array, len(x.data), self.mem_slots, self.mem_size)
        known = self._layers_known()
        own = self.equation_parameters() if known else self._without_layers()
        seen: Any = None if trace is None else {}
        attend: Callable | None = None
        if self.qkv_norm is not None:
            attend = functools.partial(self._normed_attention, self.qkv_norm, seen)
        refine = None if known else self._refined
        hidden, state = equations.step(p, x, state, own, seen, attend, refine)
        if trace is not None:
            if attend is None:
                seen["attention"] = p.stack(seen["attention"], axis=1)  # (B, H, N, N+1)
            arrays = [x.data if isinstance(x, Tensor) else x for x in seen.values()]
            trace.append(dict(zip(seen, arrays, strict=True)))
        return p.reshape(hidden, (hidden.shape[0], -1)), state

    def _refined(self, attended: Tensor) -> Tensor:
        """g_psi with other layers in the place of ours."""
        z = attended
        for k, layer in enumerate(self.mlp):
            z = layer(z if k == 0 else p.relu(z))
        return self.mlp_norm(z, attended)

    def _normed_attention(self, norm, seen, m: Array | Tensor, x: Tensor) -> Tensor:
        """Equation 2 with a bias and a norm on q, k and v, as released: (B, N, F)."""
        kinds = self.W_q, self.W_k, self.W_v
        by_head = p.swapaxes(p.concatenate(kinds, axis=-1), 0, 1)  # (F, H, 2K + V)
        weight = p.reshape(by_head, (self.mem_size, -1))
        qkv = linear(equations.append_rows(p, m, x), weight, self.qkv_bias)
        sizes = {"num_heads": self.num_heads, "key_size": self.key_size}
        return attention(norm(qkv), **sizes, num_queries=self.mem_slots, trace=seen)


# --- By name --------------------------------------------------------------------------

UNITS = "mem_slots", "head_size", "num_heads", "total_units"
_PAPER = *UNITS, "key_size", "attention_mlp_layers", "forget_bias", "qkv_norm"


def _arguments(c: CoreConfig) -> dict[str, Any]:
    """The arguments that both formulations have."""
    names = "mem_slots num_heads forget_bias attention_mlp_layers key_size"
    own = {name: getattr(c, name) for name in names.split()}
    return own | {"head_size": c.slot_size // c.num_heads}


def _size(c: CoreConfig, core: Any) -> str:
    slots, heads = counted(c.mem_slots, "slot"), counted(c.num_heads, "head")
    return f", {slots} x {core.mem_size} units, {heads}"


def _whole_heads(c: CoreConfig) -> None:
    says = f"{c.mem_slots} slots x {c.num_heads} heads"
    check_parts(c, c.mem_slots * c.num_heads, says)


def _as_printed(c: CoreConfig) -> None:
    if (c.num_blocks, c.gate_style, c.input_bias) != (1, "unit", 0.0):
        raise ValueError(
            "model.core rmc_paper is the paper's text: one block, unit gates and no "
            "input bias; leave these as they are"
        )
    _whole_heads(c)


@register_core(
    "rmc",
    used=(*_PAPER, "num_blocks", "activate_final", "gate_style", "input_bias"),
    size=_size,
    check=_whole_heads,
    colour="#0072B2",
)
def _rmc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """the Relational Memory Core as released, but for activate_final"""
    return RelationalMemory(
        input_size,
        **_arguments(c),
        num_blocks=c.num_blocks,
        input_bias=c.input_bias,
        gate_style=None if c.gate_style == "none" else c.gate_style,
        activate_final=c.activate_final,
        qkv_norm=c.qkv_norm != "none",
        seed=seed,
    )


@register_core(
    "rmc_paper", used=_PAPER, size=_size, check=_as_printed, colour="#56B4E9"
)
def _rmc_paper(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """equations 1-9 to the letter"""
    own = _arguments(c) | {"qkv_norm": c.qkv_norm == "layer"}
    return PaperRelationalMemory(input_size, **own, seed=seed)
