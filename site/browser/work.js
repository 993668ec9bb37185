// Beside a chapter in the browser: what is being fetched and what keeps it from coming,
// how long a cell has been running, the way back, and your work: as one file, out of
// one, a chapter as it came. JupyterLite keeps files in IndexedDB: each is a record with
// its path, its format and its content. Where Python cannot reach that store by itself,
// this page carries your answers between the two.
import {unzip, zip} from "./zip.js";

const STORE = "JupyterLite Storage", ANSWERS = ".tinyrmc";
const MEGABYTES = {notebook: 8, python: {{MEGABYTES}}}; // about, unpacked
const panel = () => window.jupyterapp?.shell?.currentWidget;
const contents = () => window.jupyterapp.serviceManager.contents;
const chapter = new URLSearchParams(location.search).get("path") ?? "";
const text = {encode: words => new TextEncoder().encode(words),
  decode: bytes => new TextDecoder().decode(bytes)};
const pause = time => new Promise(done => setTimeout(done, time));
const root = new URL("../", import.meta.url); // of the website

// --- The bar ---------------------------------------------------------------------------

const bar = document.createElement("footer");
bar.id = "tinyrmc-work";
bar.innerHTML = `<link rel="stylesheet" href="${root}_static/work.css">
  <nav><a href="${root}chapters/index.html">All chapters</a>
  <button type="button" id="download">Download my work</button>
  <button type="button" id="restore">Restore my work</button>
  <button type="button" id="reset">Reset this chapter</button></nav>
  <p class="lasting" role="alert" hidden></p>
  <p class="python" role="status" hidden></p>
  <p class="now" role="status" hidden></p>
  <input type="file" accept=".zip" hidden>`;
const line = name => bar.querySelector(`.${name}`);

/** Put words, and buttons or links [what they say, what they do], into a line of the bar.
 * Buttons that are there already stay: one that is being pressed must not be replaced. */
function say(words, buttons = [], where = "now") {
  const said = line(where), labels = buttons.map(([label]) => label).join();
  delete said.dataset.clock;
  if (said.dataset.labels !== labels || !said.firstChild) {
    said.replaceChildren("", ...buttons.map(([label, act]) => {
      const made = document.createElement(typeof act === "string" ? "a" : "button");
      if (typeof act === "string") made.href = act;
      if (label === "Download this chapter") made.download = chapter;
      made.textContent = label;
      return made;
    }));
    said.dataset.labels = labels;
  }
  if (said.firstChild.data !== words) said.firstChild.data = words;
  buttons.forEach(([, act], k) => {
    if (typeof act !== "string") said.children[k].onclick = act;
  });
  said.hidden = !words;
}

/** The notebook ends where the bar begins, so the bar covers nothing. */
new ResizeObserver(() => {
  document.documentElement.style.setProperty("--bar", `${bar.offsetHeight}px`);
  window.dispatchEvent(new Event("resize"));
}).observe(bar);
document.body.append(bar);

// --- What arrives ----------------------------------------------------------------------

const INSTEAD = [
  ["Try again", () => location.reload()],
  ["Download this chapter", `${root}_sources/chapters/${chapter}`],
  ["Run it on your own machine", `${root}index.html#install`],
];
let python = {bytes: 0, open: 0}, heard = Date.now(), ready = false;

// The kernel's worker loads Python through python.mjs, which tells what it does.
window.Worker = class extends Worker {
  constructor(...words) {
    super(...words);
    [python, ready] = [{bytes: 0, open: 0}, false];
    this.addEventListener("message", ({data}) => {
      if (data?.python) [python, heard] = [data.python, Date.now()];
      else if (data?.name === "throw" && !ready) { // of the kernel's own start
        python.wrong ??= String(data.value?.value?.message).trim().split("\n").pop();
      }
    });
  }
};

function arriving() {
  const megabytes = bytes => Math.round(bytes / 1e6);
  const where = "python", {bytes, open, wrong, host, loaded} = python;
  if (!panel()?.content) {
    const own = performance.getEntriesByType("resource")
      .reduce((sum, each) => sum + each.decodedBodySize, 0);
    say("The notebook is on its way: "
      + `${megabytes(own)} of about ${MEGABYTES.notebook} MB.`, [], where);
  } else if (wrong) {
    say(`Python does not arrive: ${wrong}. This network may block it. A copy of this `
      + "website that brings Python along needs no other server "
      + "(PYODIDE=FOLDER make site). Until then, read on here, or:", INSTEAD, where);
  } else if (open && Date.now() - heard > 20_000) {
    say(`Nothing has come from ${host} for ${Math.round((Date.now() - heard) / 1000)} s. `
      + "The line or this machine may be slow, or a filter may block it.", INSTEAD, where);
  } else if (loaded || !open && bytes) {
    say(`Python is starting (${megabytes(bytes)} MB are here). You can read on.`, [], where);
  } else {
    say(`Python is on its way: ${megabytes(bytes)} of about ${MEGABYTES.python} MB, once. `
      + "You can read on.", [], where);
  }
}

// --- What the browser keeps ------------------------------------------------------------

function opened(name, upgrade) {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(name);
    asked.onerror = () => reject(asked.error);
    asked.onblocked = () => reject(new Error("blocked"));
    asked.onupgradeneeded = () => upgrade?.(asked.result);
    asked.onsuccess = () => resolve(asked.result);
  });
}

/** What you wrote, path -> bytes: kept files, and what is only in this tab. */
async function files() {
  const found = new Map();
  for (const file of await stored().catch(() => [])) {
    if (file.type !== "directory" && file.content != null) {
      found.set(file.path, bytes(file));
    }
  }
  for (const [name, words] of [...await kept().catch(() => []), ...inPython]) {
    found.set(`${ANSWERS}/${name}`, text.encode(words));
  }
  const {context} = panel() ?? {};
  if (context && (found.has(context.path) || context.model.dirty || unkept)) {
    found.set(context.path, written());
  }
  return found;
}

/** The records of the browser's store, which has only what you changed. */
async function stored() {
  const all = await indexedDB.databases(), records = [];
  for (const {name} of all.filter(each => each.name.startsWith(STORE))) {
    const database = await opened(name);
    if (database.objectStoreNames.contains("files")) {
      const asked = database.transaction("files").objectStore("files").getAll();
      await new Promise((resolve, reject) => {
        asked.onsuccess = resolve;
        asked.onerror = () => reject(asked.error);
      });
      records.push(...asked.result);
    }
    database.close();
  }
  return records;
}

function bytes({content, format}) {
  if (format === "base64") {
    return Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
  }
  const words = typeof content === "string" ? content : JSON.stringify(content, null, 1);
  return text.encode(words);
}

let unkept = false;

function complain(error) {
  unkept = true;
  const why = `${error?.name ?? ""} ${error?.message ?? error}`.trim();
  say("This browser cannot keep your work (a private window, or its store is full or "
    + "damaged). It lives in this tab alone: press Download my work before you close it. "
    + `Restore my work brings it back. [${why}]`, [], "lasting");
}

async function look() {
  try {
    const database = await opened("tinyrmc can keep", made => made.createObjectStore("x"));
    await new Promise((resolve, reject) => {
      const written = database.transaction("x", "readwrite");
      written.objectStore("x").put("y".repeat(10_000), "z");
      written.oncomplete = resolve;
      written.onabort = written.onerror = () => reject(written.error);
    });
    const {usage, quota} = await navigator.storage?.estimate?.() ?? {};
    if (quota && usage > 0.95 * quota) throw new Error("the store is nearly full");
  } catch (error) {
    complain(error);
  }
}

/** Save a file, and the folders that it lies in. */
async function save(path, data) {
  const folders = path.split("/").slice(0, -1).map((_, k, all) =>
    all.slice(0, k + 1).join("/"));
  for (const folder of folders) {
    await contents().get(folder, {content: false}).catch(() => contents().save(folder,
      {type: "directory", format: "json", content: [], name: folder.split("/").pop()}));
  }
  const notebook = path.endsWith(".ipynb"), words = text.decode(data);
  await contents().save(path, notebook
    ? {type: "notebook", format: "json", content: JSON.parse(words)}
    : {type: "file", format: "text", mimetype: "text/plain", content: words});
}

// --- Your work, out and in -------------------------------------------------------------

async function download() {
  await window.jupyterapp?.commands.execute("docmanager:save").catch(() => {});
  const found = await files();
  if (!found.size) {
    say("Nothing is kept yet: write something, and save it with Ctrl+S.");
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(zip(found));
  link.download = "my-tinyrmc-work.zip";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  say(`${found.size} ${found.size === 1 ? "file" : "files"} downloaded.`);
}

async function restore(file) {
  const found = await unzip(await file.arrayBuffer());
  const mine = [...found].filter(([path]) =>
    path.endsWith(".ipynb") || path.startsWith(`${ANSWERS}/`));
  if (!mine.length) throw new Error(`${file.name} holds no chapters and no answers`);
  const before = await files(), {context} = panel() ?? {}; // none in the list of files
  const now = context && written();
  for (const [path, data] of mine) {
    if (path === context?.path) continue;
    const both = path.endsWith("/progress.json") && before.has(path); // none is lost
    const names = both ? [before.get(path), data].flatMap(each =>
      JSON.parse(text.decode(each))) : [];
    await save(path, both ? text.encode(JSON.stringify([...new Set(names)].sort())) : data);
  }
  if (found.has(context?.path)) await show(found.get(context.path));
  if (carrying) await exchange();
  const are = mine.length === 1 ? "file is" : "files are";
  say(`${mine.length} ${are} back. Run the cells again, from the top.`, [
    ["Undo", careful(async () => {
      for (const [path] of mine) {
        if (path === context?.path) continue;
        await (before.has(path) ? save(path, before.get(path)) : contents().delete(path));
      }
      if (now) await show(now);
      say("Your work is as it was before.");
    })]]);
}

async function reset() {
  const mine = written(), came = new URL(`../files/${panel().context.path}`, location);
  await show(new Uint8Array(await (await fetch(came)).arrayBuffer()));
  say("The chapter is as it came. Answers that were right are still kept.", [
    ["Undo", careful(async () => {
      await show(mine);
      say("Your text is back.");
    })]]);
}

/** The notebook that is open, as bytes. */
function written() {
  return bytes({content: panel().context.model.toJSON()});
}

async function show(notebook) {
  const {context} = panel();
  context.model.fromJSON(JSON.parse(text.decode(notebook)));
  await context.save().catch(complain);
}

/** Do what was asked for; what goes wrong is said, and nothing else is lost by it. */
function careful(work) {
  return async (...words) => {
    try {
      await work(...words);
    } catch (error) {
      say(`That did not work: ${error?.message ?? error}`);
    }
  };
}

const chosen = bar.querySelector("input");
bar.querySelector("#download").onclick = careful(download);
bar.querySelector("#reset").onclick = careful(reset);
bar.querySelector("#restore").onclick = () => chosen.click();
chosen.onchange = careful(async () => {
  const [file] = chosen.files;
  if (file) await restore(file);
  chosen.value = "";
});

// --- Answers, where Python cannot reach the store --------------------------------------

const HOME = `def _tinyrmc(files, begin=False):
    import os, pathlib
    drive = pathlib.Path("/drive/.tinyrmc")
    home = pathlib.Path.home() / ".local/share/tinyrmc"
    if begin:
        get_ipython().Completer.use_jedi = False  # IPython's own is quick
        try:
            drive.mkdir(exist_ok=True)
            byte = drive / "byte"
            byte.write_text("x")
            kept = byte.read_text() == "x"
            byte.unlink()
        except OSError:
            kept = False
        if kept:
            return True
        os.environ["TINYRMC_PROGRESS"] = str(home)
        os.chdir(pathlib.Path.home())
    if os.environ.get("TINYRMC_PROGRESS") != str(home):
        return None  # Python has begun anew since
    for name, text in files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8") if text else file.unlink(True)
    found = [*home.glob("progress.json"), *home.glob("answers/*.py")]
    return {str(x.relative_to(home)): x.read_text(encoding="utf-8") for x in found}
`;
let agreed = new Map(), inPython = new Map(), carrying = false, kernel, begun, turn, early;

/** What an expression gives in Python, after the cells that are running; null where
 * Python has ended or begun anew. */
async function ask(expression) {
  const code = `${HOME}\nimport json\nprint("\\x02" + json.dumps(${expression}) + "\\x03")`
    + "\ndel _tinyrmc";
  const asked = kernel.requestExecute({code, silent: true, store_history: false});
  let said = "";
  asked.onIOPub = ({content}) => { said += content.text ?? ""; };
  await asked.done.catch(() => {});
  return JSON.parse(said.split("\x02")[1]?.split("\x03")[0] ?? "null");
}

async function kept() {
  const found = new Map(), names = [];
  for (const folder of ["", "answers/"]) {
    const listed = await contents().get(`${ANSWERS}/${folder}`.replace(/\/$/, ""),
      {content: true})
      .catch(() => ({content: []}));
    for (const {type, name} of listed.content) {
      if (type !== "directory") names.push(folder + name);
    }
  }
  for (const name of names) {
    const {content} = await contents().get(`${ANSWERS}/${name}`, {type: "file", content: true});
    found.set(name, typeof content === "string" ? content : JSON.stringify(content));
  }
  return found;
}

/** Carry what is new between Python and the store: what a cell has changed wins. */
function exchange() {
  turn = turn.then(async () => {
    const listed = carrying && await ask("_tinyrmc({})");
    if (!listed) return;
    const theirs = inPython = new Map(Object.entries(listed));
    const ours = await kept(), down = {};
    for (const name of new Set([...theirs.keys(), ...ours.keys(), ...agreed.keys()])) {
      const [here, there, last] = [ours.get(name), theirs.get(name), agreed.get(name)];
      if (there !== last && there !== here) {
        await (there === undefined ? contents().delete(`${ANSWERS}/${name}`).catch(() => {})
          : save(`${ANSWERS}/${name}`, text.encode(there)));
      } else if (here !== there) {
        down[name] = here ?? "";
      }
    }
    if (Object.keys(down).length) await ask(`_tinyrmc(${JSON.stringify(down)})`);
    agreed = new Map([...theirs, ...Object.entries(down)].filter(([, words]) => words));
  }).catch(complain);
  return turn;
}

/** A Python is there, or there anew: find out whether it can reach the store. */
function began() {
  kernel = panel().sessionContext.session?.kernel;
  if (!kernel || begun === kernel) return;
  begun = kernel;
  [agreed, inPython, carrying] = [new Map(), new Map(), false];
  const mine = kernel;
  mine.anyMessage.connect((_, {direction, msg}) => {
    if (direction === "send" && msg.content?.silent === false) due = true; // a cell
  });
  // one request with all there is, so that it comes before the first cell
  const all = ours => JSON.stringify(Object.fromEntries(ours));
  turn = early.then(ours => ask(`_tinyrmc(${all(ours)}, True)`))
    .then(reached => {
      if (reached === null || mine !== kernel) return;
      [ready, carrying] = [true, reached !== true];
      say("", [], "python");
      if (!carrying) return;
      agreed = inPython = new Map(Object.entries(reached));
      if (unkept) return;
      say("Python cannot reach this browser's store (there is no service worker: it needs "
        + "https, or it is blocked). This page keeps your answers in its place, after "
        + "each cell. Download my work gives you a copy.", [], "lasting");
    });
  exchange();
}

let due = false, asking = false;

async function heardOf(status) {
  if (status.endsWith("restarting") || status === "dead") {
    [begun, ready, carrying] = [undefined, false, false];
    early = kept().catch(() => new Map());
  } else if (status === "idle") {
    began();
    if (asking || !carrying) return;
    asking = true;
    for (; due; await exchange()) due = false;
    asking = false;
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && carrying) exchange(); // another chapter may have new answers
});

// --- What runs, and for how long -------------------------------------------------------

let expected = {}, running, since; // seconds of each chapter's cells; a cell, its start
fetch(new URL("seconds.json", import.meta.url)).then(found => found.json())
  .then(found => expected = found.browser, () => {});

async function stop() {
  const {content, sessionContext} = panel(), at = content.widgets.indexOf(running);
  say("Python begins anew …");
  await sessionContext.restartKernel();
  if (at >= 0) content.activeCellIndex = at;
  say("Stopped. Python began anew, so what the cells above made is gone.", [
    ["Run what is above", () => {
      say("");
      window.jupyterapp.commands.execute("notebook:run-all-above");
    }]]);
}

function clock() {
  const cells = panel()?.content?.widgets?.filter(({model}) => model.type === "code");
  const found = cells?.find(({model}) => model.executionState === "running");
  if (found !== running) {
    if (line("now").dataset.clock) say("");
    [running, since] = [found, Date.now()];
  }
  const seconds = Math.round((Date.now() - since) / 1000);
  if (!found || seconds < 3) return;
  const all = expected[panel().context.path.slice(0, 2)];
  // unless you have added cells
  const about = all?.length === cells.length ? all[cells.indexOf(found)] : 0;
  const until = about >= 3 ? ` of about ${Math.round(about)}` : "";
  const late = seconds > 60 + 2 * about ? " Is there a loop without an end?" : "";
  say(`A cell is running: ${seconds} s${until}.${late}`, [["Stop it", careful(stop)]]);
  line("now").dataset.clock = "on";
}

async function begin() {
  if (location.pathname.includes("/tree/")) { // the list of files runs nothing
    bar.querySelector("#reset").hidden = true;
    document.getElementById("tinyrmc-coming")?.remove();
    return;
  }
  while (!panel()?.context?.sessionContext) {
    arriving();
    await pause(300);
  }
  document.getElementById("tinyrmc-coming")?.remove();
  early = kept().catch(() => new Map());
  const {sessionContext, context} = panel();
  sessionContext.kernelChanged.connect(began);
  sessionContext.statusChanged.connect((_, status) => heardOf(status));
  began();
  context.saveState.connect((_, state) => {
    if (state === "failed") complain(new Error("a file could not be saved"));
  });
  window.jupyterapp.commands.commandExecuted.connect((_, {id}) => {
    if (id.endsWith("interrupt-kernel")) {
      say("Python in a browser cannot be interrupted, only begun anew.",
        [["Stop it", careful(stop)]]);
    }
  });
  setInterval(() => {
    if (!ready) arriving();
    clock();
    document.querySelectorAll("link[rel=icon]:not([href*=_static])")
      .forEach(each => each.remove());
    const title = panel()?.node.querySelector("h1")?.textContent.replace(/¶$/, "");
    if (title && !document.title.startsWith(title)) document.title = `${title} · tinyrmc`;
  }, 1000);
}

look();
begin();
