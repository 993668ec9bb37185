"""The released code of the paper's authors beside ours: cores, a loss, examples.

Theirs needs TensorFlow 1 and so an old Python; ours a new one. Hence two halves, which
meet in a file:

    python3.7 -m pip install dm-sonnet==1.36 tensorflow==1.15.5 \\
        tensorflow-probability==0.8.0 protobuf==3.20.3 scipy
    python3.7 benchmarks/authors_release.py record authors.npz
    python benchmarks/authors_release.py compare authors.npz

`record` runs their modules and writes what they were given and what they answered;
`compare` gives ours the same, and prints and writes the largest differences:

    cores      64 configurations of `RelationalMemory`, 3 steps, float64: outputs, and
               gradients with respect to all weights
    script     the network and the loss of `rmc_nth_farthest.py`, float32: the loss, and
               gradients with respect to all weights
    examples   6,000 of `dataset_nth_farthest.py`: ours, made of the same draws, must be
               equal but for the order of the last two blocks of columns

Their program for program evaluation, `learn_to_execute.py`, is not in the package. It
is not compared here.

The first half must stay readable for Python 3.7. Under a TensorFlow 2 `record` puts
stand-ins where Sonnet looks for parts of TensorFlow 1 that are gone; the numbers still
come from Sonnet's own modules. The file says which TensorFlow it was.

results/authors_release.json is the summary of both halves, with Python 3.7 and
TensorFlow 1.15.5 for theirs.
"""

from __future__ import annotations

import argparse
import collections.abc
import importlib
import itertools
import sys
import types
from pathlib import Path

import numpy as np

T, B, INPUT = 3, 4, 5
SIZES = (2, 2, 1), (4, 4, 2), (8, 3, 3), (6, 2, 2)  # N, V, H; the last has N > F
GATES = ("unit", 0.0), ("memory", 0.0), (None, 0.0), ("unit", 0.3)  # and input_bias
BLOCKS, KEYS = (1, 3), (None, 5)
OBJECTS, FEATURES, EXAMPLES = 8, 16, 6000
SCRIPT = {"mem_slots": 4, "head_size": 8, "num_heads": 4, "num_blocks": 2}


def configurations():
    """The arguments of 64 cores, by the names that both sides use."""
    for k, (sizes, gate, blocks, key) in enumerate(
        itertools.product(SIZES, GATES, BLOCKS, KEYS)
    ):
        (N, V, H), (style, input_bias) = sizes, gate
        yield {
            "mem_slots": N,
            "head_size": V,
            "num_heads": H,
            "num_blocks": blocks,
            "gate_style": style,
            "input_bias": input_bias,
            "key_size": key,
            "attention_mlp_layers": 1 + k % 3,
        }


# --- Theirs ---------------------------------------------------------------------------


def record(path):
    """Run the authors' modules and write what they say."""
    tf, snt = their_modules()
    found = {"versions": np.array([tf.__version__, np.__version__])}
    for k, how in enumerate(configurations()):
        record_core(tf, snt, how, k, found)
    record_examples(found)
    record_script(tf, snt, found)
    np.savez_compressed(path, **found)


def their_modules():
    """TensorFlow, with the names of its version 1, and Sonnet."""
    tf = importlib.import_module("tensorflow")
    if tf.__version__.startswith("2"):
        put_stand_ins()
    tf1 = importlib.import_module("tensorflow.compat.v1")
    tf1.disable_v2_behavior()
    return tf1, importlib.import_module("sonnet")


def put_stand_ins():
    """Give Sonnet its parts of TensorFlow 1 and older Pythons."""
    for name in collections.abc.__all__:
        setattr(collections, name, getattr(collections.abc, name))
    nest = importlib.import_module("tensorflow.python.util.nest")
    nest.is_sequence = nest.is_nested
    parts = "framework", "rnn", "eager", "eager.python", "eager.python.tfe"
    for name in ("tensorflow.contrib", *["tensorflow.contrib." + x for x in parts]):
        module = sys.modules[name] = types.ModuleType(name)
        module.__getattr__ = lambda name: type(name, (), {})
        above, _, leaf = name.rpartition(".")
        if above in sys.modules and above != "tensorflow":
            setattr(sys.modules[above], leaf, module)
    sys.modules["tensorflow.contrib.framework"].nest = nest


def answers(tf, loss, outputs, inputs, seed):
    """{name: array} of a graph at random weights: weights, outputs, gradients."""
    variables, rng = tf.trainable_variables(), np.random.RandomState(seed)
    slopes = tf.gradients(loss, variables)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in variables:
            shape = [int(size) for size in variable.shape]
            around = 1.0 if "gamma" in variable.name else 0.0
            scale = 0.5 if len(shape) > 1 else 0.1
            variable.load(around + scale * rng.standard_normal(shape), session)
        values = session.run([outputs, variables, slopes], inputs)
    found = {"output": values[0]}
    for k, variable in enumerate(variables):
        found[f"name.{k}"] = np.array(variable.name)
        found[f"weight.{k}"], found[f"slope.{k}"] = values[1][k], values[2][k]
    return found


def record_core(tf, snt, how, number, found):
    """Three steps of one configuration: sum(output * w) and its gradients."""
    rng = np.random.RandomState(number)
    F = how["head_size"] * how["num_heads"]
    x = rng.standard_normal((T, B, INPUT))
    w = rng.standard_normal((T, B, how["mem_slots"] * F))
    with tf.Graph().as_default():
        given = tf.placeholder(tf.float64, x.shape)
        core = snt.RelationalMemory(**how)
        state = tf.cast(core.initial_state(B), tf.float64)
        outputs = []
        for t in range(T):
            output, state = core(given[t], state)
            outputs.append(output)
        outputs = tf.stack(outputs)
        loss = tf.reduce_sum(outputs * w)
        said = answers(tf, loss, outputs, {given: x}, number)
    found.update({f"core.{number}.{name}": a for name, a in said.items()})
    found[f"core.{number}.x"], found[f"core.{number}.w"] = x, w


def record_examples(found):
    """Their examples, at the paper's size."""
    made = importlib.import_module("sonnet.examples.dataset_nth_farthest")
    np.random.seed(0)  # noqa: NPY002  # theirs draws from it
    source = made.NthFarthest(EXAMPLES, OBJECTS, FEATURES)
    inputs, labels = source._get_batch_data(EXAMPLES, OBJECTS, FEATURES)
    shape = EXAMPLES, OBJECTS, FEATURES + 3 * OBJECTS
    found["examples.inputs"] = inputs.reshape(shape)
    found["examples.labels"] = labels


def record_script(tf, snt, found):
    """The network and the loss of their training script on their examples."""
    script = importlib.import_module("sonnet.examples.rmc_nth_farthest")
    x = found["examples.inputs"][:64]
    labels = found["examples.labels"][:64].astype(np.int32)
    with tf.Graph().as_default():
        given = tf.placeholder(tf.float32, x.shape)
        model = script.SequenceModel(
            core=snt.RelationalMemory(gate_style="unit", **SCRIPT),
            target_size=OBJECTS,
            final_mlp=snt.nets.MLP([256] * 4, activate_final=True),
        )
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=model(given), labels=labels
        )
        loss = tf.reduce_mean(losses)
        said = answers(tf, loss, loss, {given: x}, 0)
    found.update({"script." + name: a for name, a in said.items()})


# --- Ours -----------------------------------------------------------------------------


def compare(path, summary):
    """Print the largest differences, and write them as JSON."""
    import report

    with np.load(path) as file:
        theirs = {name: file[name] for name in file.files}
    tensorflow, numpy = theirs["versions"].tolist()
    told = {"tensorflow": tensorflow, "their numpy": numpy, "sonnet": "1.36"}
    apart = [compare_core(theirs, k, how) for k, how in enumerate(configurations())]
    told["benchmark"], told["release"] = "authors_release", {}
    told["release"]["cores"] = {
        "configurations": len(apart),
        "largest difference of an output": max(a for a, _ in apart),
        "largest relative difference of a gradient": max(b for _, b in apart),
    }
    told["release"]["script"] = compare_script(theirs)
    told["release"]["examples"] = compare_examples(theirs)
    report.publish(told, summary)


def part_of(theirs, prefix):
    """Their words on one thing, by the names of `answers`."""
    return {
        name[len(prefix) :]: array
        for name, array in theirs.items()
        if name.startswith(prefix)
    }


def in_order(core, head=()):
    """Our modules in the order in which theirs made their variables."""
    modules = [core.input_projection]
    for k, block in enumerate(core.blocks):
        modules += [block["qkv"], block["qkv_norm"], block["attention_norm"]]
        modules += core.mlp if k == 0 else []
        modules.append(block["mlp_norm"])
    if core.gate_style is not None:
        modules += [core.gate_inputs, core.gate_memory]
    return [*modules, *head]


def paired(said, modules):
    """[(our Parameter, number of their variable)] of some modules in order."""
    ours = {"w": "weight", "b": "bias", "gamma": "gain", "beta": "offset"}
    scopes: list[str] = []
    pairs = []
    for k in itertools.count():
        if f"name.{k}" not in said:
            break
        scope, _, leaf = str(said[f"name.{k}"]).partition(":")[0].rpartition("/")
        if scope not in scopes:
            scopes.append(scope)
        parameter = getattr(modules[scopes.index(scope)], ours[leaf])
        parameter.data = said[f"weight.{k}"]
        pairs.append((parameter, k))
    assert len(scopes) == len(modules), scopes
    return pairs


def largest_slope(said, pairs):
    """The largest difference of a gradient, relative to the largest of that weight."""
    apart = []
    for parameter, k in pairs:
        slope = said[f"slope.{k}"]
        apart.append(abs(parameter.grad - slope).max() / max(abs(slope).max(), 1e-300))
    return float(max(apart))


def compare_core(theirs, number, how):
    """(largest difference of an output, of a gradient) of one configuration."""
    from tinyrmc import Tape
    from tinyrmc import primitives as p
    from tinyrmc.cores import RelationalMemory

    said = part_of(theirs, f"core.{number}.")
    core = RelationalMemory(INPUT, dtype=np.float64, **how, seed=0)
    pairs = paired(said, in_order(core))
    with Tape() as tape:
        outputs, _ = core.unroll(
            np.swapaxes(said["x"], 0, 1).copy(), core.initial_state(B)
        )
        output = p.stack(outputs)
        loss = p.sum(output * said["w"])
    tape.backward(loss)
    return float(abs(output.data - said["output"]).max()), largest_slope(said, pairs)


def compare_script(theirs):
    """Their training script's loss and its gradients, in float32."""
    from tinyrmc import Tape, fused, nn
    from tinyrmc import primitives as p
    from tinyrmc.cores import RelationalMemory

    said = part_of(theirs, "script.")
    x, labels = theirs["examples.inputs"][:64], theirs["examples.labels"][:64]
    core = RelationalMemory(x.shape[2], gate_style="unit", **SCRIPT, seed=0)
    head = nn.MLP(core.output_size, [256] * 4 + [OBJECTS], seed=0)
    pairs = paired(said, in_order(core, head.layers))
    with Tape() as tape:
        outputs, _ = core.unroll(x, core.initial_state(len(x)))
        losses = fused.softmax_cross_entropy(head(outputs[-1]), labels.astype(np.int64))
        loss = p.mean(losses)
    tape.backward(loss)
    return {
        "their loss": float(said["output"]),
        "our loss": float(loss.data),
        "largest relative difference of a gradient": largest_slope(said, pairs),
    }


class Drawn:
    """A random generator that gives what they drew."""

    def __init__(self, vectors, labels, reference, n):
        self.vectors, self.labels, self.whole = vectors, labels, (reference, n)

    def uniform(self, low, high, shape):
        return self.vectors

    def permuted(self, numbers, axis):
        return self.labels

    def integers(self, high, size):
        return self.whole


def compare_examples(theirs):
    """How many of their examples are ours, made of the same draws."""
    from tinyrmc.training.discovery import load_task

    task, inputs = load_task("nth_farthest"), theirs["examples.inputs"]
    x, ids, m, n = np.split(
        inputs, np.cumsum([FEATURES, OBJECTS, OBJECTS]), axis=2
    )  # theirs have m before n
    labels, reference = ids.argmax(-1), (ids * m[:, :1]).sum(-1).argmax(-1)
    drawn = Drawn(x, labels, reference, n[:, 0].argmax(-1))
    ours = task.draw(drawn, len(x), OBJECTS, FEATURES, (OBJECTS, FEATURES))
    same = (ours["inputs"] == np.concatenate([x, ids, n, m], axis=2)).all(axis=(1, 2))
    same &= ours["target"] == theirs["examples.labels"]
    return {"examples": len(x), "identical": int(same.sum())}


def main():
    """One half or the other."""
    parser = argparse.ArgumentParser(description="The authors' release beside ours.")
    parser.add_argument("half", choices=["record", "compare"])
    parser.add_argument("file", help="authors.npz")
    parser.add_argument("--json", type=Path, help="where `compare` writes its summary")
    asked = parser.parse_args()
    if asked.half == "record":
        record(asked.file)
    else:
        compare(asked.file, asked.json)


if __name__ == "__main__":
    main()
