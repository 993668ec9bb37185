// The forward pass of `RelationalMemory` (cores/relational.py), as released, and of the
// layers that answer from its last memory. Letters as there; numbers are float64.

function numbers(text) {  // float32, as base64
  if (text === null) return null;
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float64Array.from(
    {length: bytes.length / 4}, (_, k) => view.getFloat32(4 * k, true));
}

function softmax(scores) {
  const most = Math.max(...scores), e = scores.map(x => Math.exp(x - most));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map(x => x / sum);
}

// What `pages.network` wrote, with arrays in the place of texts.
function openNetwork(value) {
  if (Array.isArray(value)) return value.map(openNetwork);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) =>
    [name, typeof part === "string" ? numbers(part) : openNetwork(part)]));
}

function linear(x, {weight, bias, relu}) {  // weight (inputs, outputs), row by row
  const width = weight.length / x.length, y = new Float64Array(width);
  if (bias) y.set(bias);
  for (let i = 0, at = 0; i < x.length; i++)
    for (let j = 0; j < width; j++, at++) y[j] += x[i] * weight[at];
  return relu ? y.map(value => Math.max(value, 0)) : y;
}

const plus = (a, b) => a.map((x, k) => x + b[k]);
const mean = x => x.reduce((a, b) => a + b, 0) / x.length;
const sigmoid = x => 1 / (1 + Math.exp(-x));

function layerNorm(x, {gain, offset}) {
  const middle = mean(x), d = x.map(value => value - middle);
  const scale = 1 / Math.sqrt(mean(d.map(value => value * value)) + 1e-5);
  return d.map((value, k) => value * scale * gain[k] + offset[k]);
}

// Equation 1. Of rows q|k|v, head by head, the first `asking` ask and all answer. What
// `cut(head, i, j)` names is not heard. Attention is (H, asking, rows), flat.
function attend(qkv, asking, {heads, key}, cut) {
  const rows = qkv.length, each = qkv[0].length / heads, width = each - 2 * key;
  const weights = new Float64Array(heads * asking * rows);
  const heard = Array.from({length: asking}, () => new Float64Array(heads * width));
  for (let h = 0; h < heads; h++) for (let i = 0; i < asking; i++) {
    const scores = qkv.map((row, j) => {
      if (cut?.(h, i, j)) return -Infinity;
      let sum = 0;
      for (let k = h * each; k < h * each + key; k++) sum += qkv[i][k] * row[k + key];
      return sum / Math.sqrt(key);
    });
    softmax(scores).forEach((weight, j) => {
      weights[(h * asking + i) * rows + j] = weight;
      const from = h * each + 2 * key;
      for (let k = 0; k < width; k++)
        heard[i][h * width + k] += weight * qkv[j][from + k];
    });
  }
  return {weights, heard};
}

// One step: x (input_size), memory of N rows -> the next memory, and what happened.
function stepOf(net, x, memory, cut) {
  const row = linear(x, net.input), N = memory.length;
  let z = [...memory, row], weights;
  net.blocks.forEach((block, number) => {
    const asking = number === net.blocks.length - 1 ? N : N + 1;
    const qkv = z.map(each => layerNorm(linear(each, block.qkv), block.qkv_norm));
    const found = attend(qkv, asking, net, cut);
    weights = found.weights;
    z = found.heard.map((each, i) => {
      const first = layerNorm(plus(each, z[i]), block.attention_norm);
      const refined = net.mlp.reduce(linear, first);
      return layerNorm(plus(refined, first), block.mlp_norm);
    });
  });
  if (!net.gate_inputs) return {memory: z, attention: weights, gates: {}};
  const fromInput = linear(row, net.gate_inputs), half = fromInput.length / 2;
  const gates = {input: [], forget: []};
  const next = memory.map((slot, n) => {
    const g = plus(linear(slot.map(Math.tanh), net.gate_memory), fromInput);
    const i = g.slice(0, half).map(value => sigmoid(value + net.input_bias));
    const f = g.slice(half).map(value => sigmoid(value + net.forget_bias));
    gates.input.push(i);
    gates.forget.push(f);
    const own = half > 1 ? k => k : () => 0;  // one gate for a unit, or for a slot
    return slot.map((value, k) => i[own(k)] * Math.tanh(z[n][k]) + f[own(k)] * value);
  });
  return {memory: next, attention: weights, gates};
}

// Inputs of T steps -> {steps, logits}; each step has its `attention` (H, N, N + 1),
// flat, and its `gates` {input, forget}, a row for each slot. `wiped(t, slot)`: the slot
// becomes its first value again, right after step t. `cut(t, head, slot, j)`: in step t
// the slot does not listen to j, a slot or, if j is N, the input.
function readSequence(net, inputs, {wiped, cut} = {}) {
  const units = net.mlp[0].bias.length;
  const first = slot => Float64Array.from({length: units}, (_, k) => Number(k === slot));
  let memory = Array.from({length: net.slots}, (_, slot) => first(slot));
  const steps = inputs.map((x, t) => {
    const may = cut && ((h, i, j) => i !== j && cut(t, h, i, j));
    const step = stepOf(net, x, memory, may);
    memory = step.memory.map((row, slot) => wiped?.(t, slot) ? first(slot) : row);
    return step;
  });
  const all = Float64Array.from(memory.flatMap(row => [...row]));
  return {steps, logits: [...net.head.reduce(linear, all)]};
}
