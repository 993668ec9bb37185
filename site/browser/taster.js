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
      if (data.state) state.textContent = data.state;
      if (data.ready) {
        ready = true;
        enable(true);
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
      state.textContent = "Python could not be started"
        + (navigator.onLine ? "" : ": you are offline") + ". Reload the page to try again.";
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
    code.value = EMPTY;
    keep();
    code.focus();
  };
  code.addEventListener("input", keep);
  code.addEventListener("keydown", event => {
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
