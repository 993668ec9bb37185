// One exercise in one page. Python runs in a worker, so the page never freezes; a check
// that does not come to an end is stopped by ending the worker.
"use strict";
(() => {
  const EMPTY = `def softmax(x):
    """x (..., n) -> (..., n): each row positive, with the sum 1."""
    return ...
`;
  const LIMIT = 30; // seconds
  const KEY = "tinyrmc.taster";
  const element = id => document.getElementById(id);
  const code = element("code"), says = element("says"), state = element("state");
  const buttons = [element("check"), element("hint")];
  let worker, ready = false, clock, hints = 0;

  // --- What you wrote, kept in this browser

  function cannotKeep() {
    element("kept").textContent = "This browser keeps nothing of this page (a private "
      + "window, or its store is full or damaged): copy your text before you leave.";
    element("kept").hidden = false;
  }
  try {
    code.value = localStorage.getItem(KEY) ?? EMPTY;
  } catch {
    code.value = EMPTY;
    cannotKeep();
  }
  function keep() {
    try {
      localStorage.setItem(KEY, code.value);
    } catch {
      cannotKeep();
    }
  }

  // --- Python

  const ALL = 21; // megabytes of Python, NumPy and the package, unpacked
  let silent;

  function failed(why) {
    clearTimeout(silent);
    state.textContent = `Python does not arrive: ${why}. Reload the page to try again.`;
    element("instead").hidden = false;
  }
  function arriving({bytes, open, wrong, host, loaded}) {
    clearTimeout(silent);
    if (wrong) return failed(`${wrong}. This network may block it`);
    state.textContent = loaded ? "Python is starting …"
      : `Python is on its way: ${Math.round(bytes / 1e6)} of about ${ALL} MB.`;
    const late = () => failed(`nothing has come from ${host} for 20 s, and this network `
      + "may block it");
    if (open) silent = setTimeout(late, 20_000);
  }
  function enable(on) {
    for (const button of buttons) button.disabled = !on;
  }
  function show(text, kind) {
    says.textContent = text;
    says.className = kind;
    says.hidden = false;
  }
  function start() {
    ready = false;
    enable(false);
    worker?.terminate();
    worker = new Worker("_static/taster_worker.js", {type: "module"});
    worker.onmessage = ({data}) => {
      if (data.python) arriving(data.python);
      if (data.ready) {
        ready = true;
        enable(true);
        clearTimeout(silent);
        element("instead").hidden = true;
        state.textContent = "Ready.";
      }
      if (data.said === undefined) return;
      clearTimeout(clock);
      enable(true);
      state.textContent = "";
      show(data.said, data.kind);
      element("next").hidden = data.kind !== "right";
      says.dataset.answers = 1 + Number(says.dataset.answers ?? 0);
    };
    worker.onerror = event => {
      if (!navigator.onLine) failed("you are offline");
      else if (element("instead").hidden) failed("it could not be started");
      event.preventDefault();
    };
  }
  function ask(message) {
    if (!ready) return;
    enable(false);
    state.textContent = "Checking …";
    clock = setTimeout(() => {
      show(`It has not come to an end after ${LIMIT} seconds: is there a loop without `
        + "one? Python begins anew.", "wrong");
      start();
    }, 1000 * LIMIT);
    worker.postMessage(message);
  }
  function check() {
    keep();
    ask({code: code.value});
  }

  element("check").onclick = check;
  element("hint").onclick = () => ask({hint: hints++});
  element("again").onclick = () => {
    const mine = code.value;
    element("undo").hidden = mine === EMPTY;
    element("undo").onclick = () => put(mine);
    put(EMPTY);
  };
  function put(text) {
    if (text !== EMPTY) element("undo").hidden = true;
    code.value = text;
    keep();
    code.focus();
  }
  code.addEventListener("input", keep);
  let leaving = false; // Escape, then Tab, goes on to the buttons
  code.addEventListener("keydown", event => {
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      code.setRangeText("    ", code.selectionStart, code.selectionEnd, "end");
      keep();
    }
    leaving = event.key === "Escape";
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (ready && !element("check").disabled) check();
    } else if (event.key === "Enter") { // the next line is indented as this one
      const at = code.selectionStart, before = code.value.slice(0, at);
      const line = before.slice(before.lastIndexOf("\n") + 1);
      const indent = line.match(/^ */)[0] + (/:\s*$/.test(line) ? "    " : "");
      event.preventDefault();
      code.setRangeText("\n" + indent, at, code.selectionEnd, "end");
      keep();
    }
  });
  start();
})();
