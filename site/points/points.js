// Four points, a question about them, and what a trained core makes of it.

const $ = name => document.getElementById(`points-${name}`);
const data = JSON.parse($("data").textContent), net = openNetwork(data.network);
const LABELS = ["A", "B", "C", "D"], COUNT = LABELS.length;
const PLACES = ["0: itself", "1: nearest", "2: second", "3: farthest"];
const ASKED = [
  m => `${m} itself`, m => `the nearest to ${m}`, m => `the second nearest to ${m}`,
  m => `the farthest from ${m}`];
const HOPS = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};
const state = {places: data.places, n: 3, m: 0, wiped: new Set()};

function make(tag, className = "", text = "") {
  return Object.assign(document.createElement(tag), {className, textContent: text});
}

function shape(tag, parent, className = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  element.setAttribute("class", className);
  return parent.appendChild(element);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, value);
}

// --- The question and its answers -----------------------------------------------------

const oneHot = k => LABELS.map((_, i) => Number(i === k));
const inputs = (n, m) => state.places.map((place, t) =>
  [...place, ...oneHot(t), ...oneHot(n), ...oneHot(m)]);
const away = (i, j) => Math.hypot(
  state.places[i][0] - state.places[j][0], state.places[i][1] - state.places[j][1]);
const right = (n, m) => [0, 1, 2, 3].sort((i, j) => away(i, m) - away(j, m))[n];
const largest = values => values.indexOf(Math.max(...values));
const wipe = (t, slot) => state.wiped.has(`${t},${slot}`);

function read(n, m, wiped) {
  const {steps, logits} = readSequence(net, inputs(n, m), {wiped});
  return {steps, chances: softmax(logits), answer: largest(logits)};
}

function rightOfAll(wiped) {  // how many of all questions about these points
  let count = 0;
  for (let n = 0; n < COUNT; n++) for (let m = 0; m < COUNT; m++)
    count += read(n, m, wiped).answer === right(n, m);
  return count;
}

// --- What is made once ----------------------------------------------------------------

function choices(name, words) {  // buttons of which one is chosen
  $(name).append(...words.map((word, k) => {
    const label = make("label"), input = make("input");
    set(input, {type: "radio", name: `points-${name}`, value: k});
    input.checked = k === state[name];
    input.addEventListener("change", () => { state[name] = k; later(); });
    label.append(input, make("span", "", word));
    return label;
  }));
}

const plane = $("plane");
const ways = LABELS.map(() => shape("line", plane.querySelector(".ways")));
const dots = LABELS.map((label, k) => {
  const dot = shape("g", plane.querySelector(".dots"));
  set(dot, {tabindex: 0, role: "button", "aria-roledescription": "movable point"});
  set(shape("circle", dot, "hold"), {r: .2});
  set(shape("circle", dot, "ring"), {r: .125});
  set(shape("circle", dot, "dot"), {r: .09});
  shape("text", dot).textContent = label;
  dot.addEventListener("pointerdown", event => {
    dot.setPointerCapture(event.pointerId);
    dot.focus({preventScroll: true});
    event.preventDefault();
  });
  // else a finger would scroll the page; elsewhere on the plane it does
  dot.addEventListener("touchstart", event => event.preventDefault(), {passive: false});
  dot.addEventListener("pointermove", event => {
    if (!dot.hasPointerCapture(event.pointerId)) return;
    const at = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(plane.getScreenCTM().inverse());
    move(k, at.x, -at.y);
  });
  dot.addEventListener("keydown", event => {
    const hop = HOPS[event.key], size = event.shiftKey ? .01 : .05;
    if (!hop) return;
    event.preventDefault();
    move(k, state.places[k][0] + size * hop[0], state.places[k][1] + size * hop[1]);
  });
  return dot;
});

const bars = LABELS.map(label => {
  const row = make("div"), track = make("span", "track");
  track.append(make("i", "before"), make("i", "now"));
  row.append(make("b", "", label), track, make("span", "chance"));
  return $("bars").appendChild(row);
});

const memories = LABELS.map((label, t) => {  // [moment][slot] -> a button
  const section = make("section"), head = make("div", "head");
  const marks = Array.from({length: net.slots}, (_, k) => k + 1);
  head.append(make("span"), ...[...marks, label].map(mark => make("b", "", mark)));
  section.append(make("h3", "", `${label} arrives`), head);
  $("steps").append(section);
  return marks.map((mark, slot) => {
    const button = make("button");
    button.type = "button";
    button.append(make("span", "", `slot ${mark}`));
    button.append(...[...marks, label].map(() => make("i")));
    button.addEventListener("click", () => {
      const key = `${t},${slot}`;
      if (!state.wiped.delete(key)) state.wiped.add(key);
      later();
    });
    return section.appendChild(button);
  });
});

function move(k, x, y) {
  const inside = value => Math.min(1, Math.max(-1, value));
  state.places[k] = [inside(x), inside(y)];
  later();
}

// --- What is shown --------------------------------------------------------------------

let waiting = false;

function later() {  // once for each picture that the screen shows
  if (!waiting) requestAnimationFrame(() => { waiting = false; show(); });
  waiting = true;
}

function show() {
  const {n, m} = state, before = read(n, m), wiped = state.wiped.size > 0;
  const now = wiped ? read(n, m, wipe) : before;
  showPlane(n, m, now.answer);
  showAnswer(n, m, before, now, wiped);
  showMemories(m, now.steps);
}

function showPlane(n, m, answer) {
  const target = right(n, m);
  state.places.forEach(([x, y], k) => {
    const roles = {reference: k === m, answer: k === answer, target: k === target};
    dots[k].setAttribute("transform", `translate(${x} ${-y})`);
    for (const [name, is] of Object.entries(roles)) dots[k].classList.toggle(name, is);
    const [from_x, from_y] = state.places[m];
    set(ways[k], {x1: from_x, y1: -from_y, x2: x, y2: -y});
    ways[k].classList.toggle("answer", k === answer);
    const where = `Point ${LABELS[k]} at ${x.toFixed(2)}, ${y.toFixed(2)}`;
    dots[k].setAttribute("aria-label", `${where}. Arrow keys move it.`);
  });
  const [x, y] = state.places[m];
  set(plane.querySelector(".reach"), {cx: x, cy: -y, r: away(m, target)});
}

const percent = chance => `${Math.round(100 * chance)} %`;

function verdict(found, n, m) {
  const target = right(n, m);
  return found.answer === target ? "right" : `wrong: it is ${LABELS[target]}`;
}

function showAnswer(n, m, before, now, wiped) {
  const sure = `, ${percent(now.chances[now.answer])} sure`;
  const question = make("span", "", `Which point is ${ASKED[n](LABELS[m])}? `);
  const answer = make("strong", "", LABELS[now.answer]);
  const judged = make("span", verdict(now, n, m) === "right" ? "" : "wrong",
    `${verdict(now, n, m)}.`);
  $("answer").replaceChildren(
    question, "The core says ", answer, `${sure}. That is `, judged);
  bars.forEach((row, k) => {
    row.querySelector(".before").style.width = `${100 * before.chances[k]}%`;
    row.querySelector(".now").style.width = `${100 * now.chances[k]}%`;
    row.querySelector(".chance").textContent = percent(now.chances[k]);
    row.classList.toggle("answer", k === now.answer);
  });
  const all = COUNT * COUNT, whole = `${rightOfAll()} of the ${all} questions`;
  $("cost").textContent = wiped
    ? `What it cost: without the wiping it answered ${LABELS[before.answer]}, `
      + `${percent(before.chances[before.answer])} sure. It got ${whole} about these `
      + `points right, and now gets ${rightOfAll(wipe)}.`
    : `It gets ${whole} about these points right.`;
  $("undo").disabled = !wiped;
}

function showMemories(m, steps) {
  const slots = net.slots, columns = slots + 1;
  memories.forEach((rows, t) => {
    rows[0].parentElement.classList.toggle("reference", t === m);
    rows.forEach((button, slot) => {
      const heard = Array.from({length: columns}, (_, j) => {
        let sum = 0;
        for (let h = 0; h < net.heads; h++)
          sum += steps[t].attention[(h * slots + slot) * columns + j];
        return sum / net.heads;
      });
      const gone = wipe(t, slot);
      button.setAttribute("aria-pressed", gone);
      button.firstChild.textContent = gone ? "wiped" : `slot ${slot + 1}`;
      button.setAttribute("aria-label",
        `Wipe slot ${slot + 1} after ${LABELS[t]} arrived. It listens to the slots `
        + `${heard.slice(0, slots).map(percent).join(", ")}; to the point `
        + percent(heard[slots]));
      heard.forEach((weight, j) => {
        button.children[j + 1].style.setProperty("--weight", weight.toFixed(3));
      });
    });
  });
}

choices("n", PLACES);
choices("m", LABELS);
$("undo").addEventListener("click", () => { state.wiped.clear(); later(); });
$("new").addEventListener("click", () => {
  const anywhere = () => 1.9 * Math.random() - .95;
  state.places = LABELS.map(() => [anywhere(), anywhere()]);
  later();
});
$("size").textContent = data.parameters.toLocaleString("en");
$("held").textContent = data.questions.toLocaleString("en");
$("accuracy").textContent = `${(100 * data.accuracy).toFixed(1)} %`;
$("heads").textContent = net.heads;
show();
