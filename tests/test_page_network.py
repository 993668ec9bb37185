"""`core.js` computes what Python computes: the same logits, attention and gates, also
where slots are wiped and attention is cut.
"""

import json

import browser
import numpy as np

from tinyrmc import nn
from tinyrmc.cores import PaperRelationalMemory, RelationalMemory
from tinyrmc.results import pages, probes

CORES = {
    "as in the chapters": {"mem_slots": 4, "head_size": 4, "num_heads": 3},
    "one gate a slot": {"mem_slots": 3, "head_size": 5, "gate_style": "memory"},
    "no gates": {"mem_slots": 3, "head_size": 5, "gate_style": None},
    "two blocks, other sizes": {
        "mem_slots": 5,
        "head_size": 2,
        "num_heads": 2,
        "num_blocks": 2,
        "key_size": 3,
        "attention_mlp_layers": 3,
        "forget_bias": 2.0,
        "input_bias": -0.5,
        "activate_final": True,
    },
}
LENGTH, WIDTH, ANSWERS = 3, 6, 4


class Network(nn.Module):
    """A core and a head, as a task builds them, with no parameter left at its first
    value: norms and biases would hide mistakes.
    """

    def __init__(self, **sizes):
        rng = np.random.default_rng(1)
        self.core = RelationalMemory(WIDTH, seed=rng, **sizes)
        self.head = nn.MLP(self.core.output_size, [7, ANSWERS], seed=rng)
        for parameter in self.parameters():
            noise = rng.normal(scale=0.3, size=parameter.data.shape)
            parameter.data += noise.astype(np.float32)


def in_page(window, tmp_path, model, inputs, wiped=(), cut=()):
    """The outputs of `core.js` for one example (T, WIDTH)."""
    template = tmp_path / "page.html"
    template.write_text(
        '<script type="application/json" id="data">DATA</script>'
        "<script>/* include core.js */</script>"
    )
    page = tmp_path / "filled.html"
    data = {
        "network": pages.network(model),
        "inputs": inputs.tolist(),
        "wiped": [*map(list, wiped)],
        "cut": [*map(list, cut)],
    }
    page.write_text(pages.filled(template, data))
    window.open(page.as_uri())
    found = window.run("""(() => {
        const data = JSON.parse(document.getElementById("data").textContent);
        const named = list => {
            const keys = new Set(list.map(String));
            return (...key) => keys.has(String(key));
        };
        const found = readSequence(openNetwork(data.network), data.inputs,
            {wiped: named(data.wiped), cut: named(data.cut)});
        return JSON.stringify(found, (_, value) =>
            value instanceof Float64Array ? [...value] : value);
    })()""")
    assert window.complaints == []
    return json.loads(found)


@browser.needed
def test_the_page_computes_what_the_network_computes(window, tmp_path):
    for sizes in CORES.values():
        model = Network(**sizes)
        inputs = np.random.default_rng(2).normal(size=(1, LENGTH, WIDTH))
        inputs = inputs.astype(np.float32)
        found = in_page(window, tmp_path, model, inputs[0])
        seen = probes.traces(model, inputs)
        np.testing.assert_allclose(found["logits"], seen.logits[0], atol=1e-5)
        for t, step in enumerate(found["steps"]):
            expected = seen.attention[0, t]
            np.testing.assert_allclose(step["attention"], expected.ravel(), atol=1e-5)
            for name, gate in seen.gates.items():
                np.testing.assert_allclose(step["gates"][name], gate[0, t], atol=1e-5)
            assert bool(step["gates"]) == bool(seen.gates)


@browser.needed
def test_it_wipes_and_cuts_as_the_probes_do(window, tmp_path):
    for sizes in CORES.values():
        model = Network(**sizes)
        N, H = model.core.mem_slots, model.core.num_heads
        inputs = np.random.default_rng(3).normal(size=(1, LENGTH, WIDTH))
        inputs = inputs.astype(np.float32)
        wiped = [(0, 1), (1, 0), (1, 2)]  # step, slot
        cut = [(0, 0, 1, N), (1, H - 1, 0, 2), (2, 0, 2, 0), (2, 0, 2, 1)]
        found = in_page(window, tmp_path, model, inputs[0], wiped, cut)

        first = (model.core.initial_state(1),)
        steps = []

        def change(t, state, N=N, first=first, wiped=wiped):
            slots = np.array([[(t, slot) in wiped for slot in range(N)]])
            return probes.put(state, slots, first)

        def mask(t, H=H, N=N, cut=cut):
            may = np.ones((1, H, N + 1, N + 1), bool)
            for step, head, slot, heard in cut:
                may[0, head, slot, heard] = step != t
            return may

        state = probes.read(model, inputs, change, mask, steps)
        expected = probes.answer(model, state)[0]
        np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
        for ours, theirs in zip(found["steps"], steps, strict=True):
            flat = theirs["attention"].ravel()
            np.testing.assert_allclose(ours["attention"], flat, atol=1e-5)
        intact = probes.traces(model, inputs).logits[0]
        assert np.abs(intact - expected).max() > 0.01  # so it was no empty change


def test_of_what_it_cannot_compute_a_page_holds_nothing():
    model = Network(**CORES["as in the chapters"])
    model.core = PaperRelationalMemory(WIDTH, 3, 4, seed=0)
    assert pages.network(model) is None
    model.core = RelationalMemory(WIDTH, 3, 4, input_rows=2, seed=0)
    assert pages.network(model) is None
    assert pages.network(model.head) is None
    model.core = RelationalMemory(WIDTH, 3, 4, qkv_norm=False, seed=0)
    assert pages.network(model) is None


def louder(self, *given):
    return type(self).__mro__[1].__call__(self, *given) * 2.0


CHANGES = {
    "a core": lambda model: derived(model.core),
    "its gates": lambda model: setattr(model.core, "_gates_of", np.sin),
    "its first memory": lambda model: model.core.first.set(np.ones((4, 12))),
    "a layer of its": lambda model: derived(model.core.mlp[0]),
    "a norm": lambda model: derived(model.core.blocks[0]["mlp_norm"]),
    "a head": lambda model: derived(model.head),
    "a layer of the head": lambda model: derived(model.head.layers[1]),
    "another layer": lambda model: model.head.layers.insert(1, np.tanh),
}


def derived(module):
    module.__class__ = type("Own", (type(module),), {"__call__": louder})


def test_a_layer_or_core_of_ones_own_is_not_taken_for_ours(monkeypatch):
    sizes = CORES["as in the chapters"]
    assert pages.network(Network(**sizes)) is not None
    for what, change in CHANGES.items():
        change(model := Network(**sizes))
        assert pages.network(model) is None, what
    for kind in RelationalMemory, nn.Linear, nn.LayerNorm, nn.MLP, nn.Sequential:
        with monkeypatch.context() as patched:
            patched.setattr(kind, "__call__", louder)
            assert pages.network(Network(**sizes)) is None, kind
    assert pages.network(Network(**sizes)) is not None
