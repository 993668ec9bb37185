"""Pages that load nothing from elsewhere: a template, what they share, and data.

`core.js` computes in a page what a trained network computes: `network` gives it the
weights. What `coded` and `attention` write, the `letters` of `page.js` read.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import to_host
from ..cores.relational import RelationalMemory, identity_memory
from ..nn import MLP, LayerNorm, Linear
from ..nn.layers import is_a

SHARED = re.compile(r"/\* include (\S+) \*/")


def filled(template: Path, data: Any) -> str:
    """A template as a page: with the files that it includes, from beside it or from
    here, and at DATA the data, as JSON.
    """

    def included(match: re.Match) -> str:
        own = template.with_name(match[1])
        file = own if own.exists() else Path(__file__).with_name(match[1])
        return file.read_text(encoding="utf-8").strip()

    text = json.dumps(data, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that nothing in it ends the script
    page = SHARED.sub(included, template.read_text(encoding="utf-8"))
    return page.replace("DATA", text, 1)


def floats(values: Any) -> str:
    """Numbers from any device, as base64 of float32."""
    return coded(np.asarray(to_host(values), "<f4"))


def attention(weights: np.ndarray) -> str:
    """Numbers from 0 to 1, as base64 of bytes: 255 for 1."""
    return coded(np.round(255 * weights).astype(np.uint8))


def coded(array: np.ndarray) -> str:
    """The bytes of an array, as base64."""
    return base64.b64encode(array.tobytes()).decode()


def rounded(value: Any, digits: int) -> Any:
    """Numbers to so many decimals, in arrays, dicts and lists too; arrays as lists."""
    if isinstance(value, np.ndarray):
        return np.round(value.astype(float), digits).tolist()
    if isinstance(value, dict):
        return {name: rounded(part, digits) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, digits) for part in value]
    return round(value, digits) if isinstance(value, float) else value


def network(model: Any) -> dict[str, Any] | None:
    """All that `core.js` needs to compute what a network computes; None unless its
    `core` is a `RelationalMemory` that reads vectors and has norms, its `head` an MLP,
    and both are as they were written, and so are their layers.
    """
    core: Any = getattr(model, "core", None)
    head: Any = getattr(model, "head", None)
    if not (is_a(core, RelationalMemory) and core.is_known() and is_a(head, MLP)):
        return None
    first = identity_memory(core.mem_slots, core.mem_size, core.dtype)
    other_form = core.input_rows is not None or "qkv_norm" not in core.blocks[0]
    if other_form or not np.array_equal(core.first.value, first):
        return None
    if not all(is_a(layer, Linear) for layer in head.layers):
        return None
    gates = ("gate_inputs", "gate_memory") if core.gate_style else ()
    return {
        "slots": core.mem_slots,
        "heads": core.num_heads,
        "key": core.key_size,
        "input_bias": core.input_bias,
        "forget_bias": core.forget_bias,
        "input": _layer(core.input_projection),
        "blocks": [
            {name: _layer(layer) for name, layer in block.items()}
            for block in core.blocks
        ],
        "mlp": [*map(_layer, core.mlp)],
        **{name: _layer(getattr(core, name)) for name in gates},
        "head": [*map(_layer, head.layers)],
    }


def _layer(layer: Linear | LayerNorm) -> dict[str, Any]:
    if isinstance(layer, LayerNorm):
        return {"gain": floats(layer.gain.data), "offset": floats(layer.offset.data)}
    bias = None if layer.bias is None else floats(layer.bias.data)
    return {"weight": floats(layer.weight.data), "bias": bias, "relu": layer.relu}
