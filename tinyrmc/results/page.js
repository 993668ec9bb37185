// What the pages share: their data, elements, tables of attention, and the theme.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

function make(tag, text = "", className = "") {
  return Object.assign(document.createElement(tag), {textContent: text, className});
}

function button(text, press) {
  const one = Object.assign(make("button", text), {type: "button"});
  one.addEventListener("click", press);
  return one;
}

function titled(kind) {
  $("title").textContent = document.title = `${kind}: ${data.title}`;
}

// The whole number that the address has for a name, as in #step=3; null without one.
function inAddress(name) {
  const word = new URLSearchParams(location.hash.slice(1)).get(name);
  return word === null ? null : Math.round(Number(word));
}

function bar(fraction) {  // a cell of a table
  const inside = make("span", "", "bar"), cell = make("td", "", "track");
  inside.style.width = `${100 * fraction}%`;
  cell.append(inside);
  return cell;
}

const letters = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));

// --- Attention ---

const columnName = (c, slots, columns) => c < slots ? `slot ${c + 1}`
  : columns - slots > 1 ? `input ${c - slots + 1}` : "input";

// Weights (T, H, N, columns) in [0, scale], flat -> that of head h, of all heads where
// there is no head h their mean, in [0, 1].
function weightOf(weights, [heads, slots, columns], scale = 1) {
  const at = (t, h, i, j) =>
    weights[((t * heads + h) * slots + i) * columns + j] / scale;
  return (t, h, i, j) => {
    if (h < heads) return at(t, h, i, j);
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += at(t, head, i, j);
    return sum / heads;
  };
}

// The table of weight(i, j). `named(c)` gives the head of a row or column, `cell(i, j)`
// what a cell holds besides its colour.
function showMatrix(weight, slots, columns, named, cell) {
  const head = make("tr");
  head.append(make("th"));
  for (let c = 0; c < columns; c++) head.append(named(c, "column"));
  $("matrix").tHead.replaceChildren(head);
  $("matrix").tBodies[0].replaceChildren(...Array.from({length: slots}, (_, i) => {
    const row = make("tr");
    row.append(named(i, "row"));
    for (let j = 0; j < columns; j++) {
      const w = weight(i, j), one = make("td");
      one.append(cell(i, j, Math.round(100 * w)));
      one.style.background = `rgba(var(--blue), ${w})`;
      one.classList.toggle("dark", w > .55);
      one.classList.toggle("input", j === slots);
      row.append(one);
    }
    return row;
  }));
}

// --- Time ---

// A button that goes on by itself, every `pause` milliseconds, until there is no more.
// From the end it begins again. Gives back what stops it.
function player(button, pause, {atEnd, rewind, forward}) {
  let clock = null;
  const stop = () => {
    clearInterval(clock);
    clock = null;
    button.textContent = "Play";
  };
  button.addEventListener("click", () => {
    if (clock !== null) return stop();
    if (atEnd()) rewind();
    button.textContent = "Stop";
    clock = setInterval(() => {
      forward();
      if (atEnd()) stop();
    }, pause);
  });
  return stop;
}

// --- Alone or in another page, light or dark ---

document.documentElement.classList.toggle("embedded", parent !== window);

// As the reader's system has it, or as the page says that this one is a part of.
function followTheme(draw) {
  const night = matchMedia("(prefers-color-scheme: dark)");
  const put = theme => {
    document.documentElement.dataset.theme = theme;
    draw();
  };
  const own = () => put(night.matches ? "dark" : "light");
  night.addEventListener("change", own);
  addEventListener("message", ({source, data: said}) => {
    if (source !== parent || !["light", "dark"].includes(said?.theme)) return;
    night.removeEventListener("change", own);
    put(said.theme);
  });
  own();
}

const colour = name =>
  getComputedStyle(document.documentElement).getPropertyValue(name);
