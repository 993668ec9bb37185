// Beside a chapter in the browser: the way back, your work as one file, how long a cell
// has been running, and one clear line when the browser cannot keep your work. JupyterLite keeps files in IndexedDB: each is a
// record with its path, its format and its content.
"use strict";
(() => {
  const STORE = "JupyterLite Storage";

  // --- What the browser keeps

  function databases() {
    const open = name => new Promise((resolve, reject) => {
      const asked = indexedDB.open(name);
      asked.onerror = () => reject(asked.error);
      asked.onblocked = () => reject(new Error("blocked"));
      asked.onsuccess = () => resolve(asked.result);
    });
    return indexedDB.databases().then(found => Promise.all(
      found.filter(each => each.name.startsWith(STORE)).map(each => open(each.name))
    ));
  }
  async function files() {
    const found = new Map();
    for (const database of await databases()) {
      if (database.objectStoreNames.contains("files")) {
        const all = database.transaction("files").objectStore("files").getAll();
        await new Promise((resolve, reject) => {
          all.onsuccess = resolve;
          all.onerror = () => reject(all.error);
        });
        for (const file of all.result) {
          if (file.type !== "directory" && file.content != null) {
            found.set(file.path, bytes(file));
          }
        }
      }
      database.close();
    }
    return found;
  }
  function bytes({content, format}) {
    if (format === "base64") {
      return Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
    }
    const text = typeof content === "string" ? content : JSON.stringify(content, null, 1);
    return new TextEncoder().encode(text);
  }

  // --- A zip of it: files as they are, none compressed

  const TABLE = Uint32Array.from({length: 256}, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n;
  });
  function checksum(data) {
    let sum = -1;
    for (const byte of data) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
    return ~sum >>> 0;
  }
  function numbers(...pairs) { // [value, bytes], least byte first
    return Uint8Array.from(pairs.flatMap(([value, count]) =>
      Array.from({length: count}, (_, k) => (value >>> (8 * k)) & 255)));
  }
  function zip(found) {
    const parts = [], index = [];
    let at = 0;
    const day = numbers([0, 2], [0x21, 2]); // 1 January 1980
    for (const [path, data] of found) {
      const name = new TextEncoder().encode(path), size = [data.length, 4];
      const about = [numbers([20, 2], [0x800, 2], [0, 2]), day,
        numbers([checksum(data), 4], size, size, [name.length, 2], [0, 2])];
      index.push(numbers([0x02014b50, 4], [20, 2]), ...about,
        numbers([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), name);
      const piece = [numbers([0x04034b50, 4]), ...about, name, data];
      parts.push(...piece);
      at += piece.reduce((sum, each) => sum + each.length, 0);
    }
    const size = index.reduce((sum, each) => sum + each.length, 0);
    const count = [found.size, 2];
    const end = numbers([0x06054b50, 4], [0, 4], count, count, [size, 4], [at, 4], [0, 2]);
    return new Blob([...parts, ...index, end], {type: "application/zip"});
  }
  async function download() {
    try {
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
    } catch (error) {
      complain(error);
    }
  }

  // --- Whether it can keep anything

  function complain(error) {
    const why = `${error?.name ?? ""} ${error?.message ?? error}`.trim();
    say("This browser cannot keep your work (a private window, or its store is full or "
      + "damaged). Make room and reload; or choose File, Download before you close this "
      + `tab. [${why}]`);
  }
  async function look() {
    try {
      await new Promise((resolve, reject) => {
        const asked = indexedDB.open("tinyrmc can keep");
        asked.onerror = () => reject(asked.error);
        asked.onupgradeneeded = () => asked.result.createObjectStore("x");
        asked.onsuccess = () => {
          const written = asked.result.transaction("x", "readwrite");
          written.objectStore("x").put("y", "z");
          written.oncomplete = resolve;
          written.onabort = written.onerror = () => reject(written.error);
        };
      });
      const {usage, quota} = await navigator.storage?.estimate?.() ?? {};
      if (quota && usage > 0.95 * quota) throw new Error("the store is nearly full");
    } catch (error) {
      complain(error);
    }
  }

  // --- What runs, and for how long

  let expected = {}, running, since; // seconds of each chapter's cells; a cell, its start
  fetch("../../_static/seconds.json").then(found => found.json())
    .then(found => expected = found.browser, () => {});
  function clock() {
    const panel = window.jupyterapp?.shell?.currentWidget;
    const cells = panel?.content?.widgets?.filter(({model}) => model.type === "code");
    const found = cells?.find(({model}) => model.executionState === "running");
    if (found !== running) {
      if (said.dataset.clock) say("");
      [running, since] = [found, Date.now()];
    }
    const seconds = Math.round((Date.now() - since) / 1000);
    if (!found || seconds < 3) return;
    const chapter = panel.context.path.slice(0, 2), all = expected[chapter];
    // unless you have added cells
    const about = all?.length === cells.length ? all[cells.indexOf(found)] : 0;
    const until = about >= 3 ? ` of about ${Math.round(about)}` : "";
    const late = seconds > 60 + 2 * about
      ? ". Is there a loop without an end? Kernel, Restart Kernel stops it." : "";
    say(`A cell is running: ${seconds} s${until}${late}`);
    said.dataset.clock = "on";
  }
  setInterval(clock, 1000);

  // --- The bar

  const bar = document.createElement("div");
  bar.id = "tinyrmc-work";
  bar.innerHTML = `<style>
    #tinyrmc-work { position: fixed; z-index: 10000; inset: auto 0.5rem 0.5rem auto;
      max-width: calc(100vw - 1rem); font: 14px/1.4 system-ui, sans-serif;
      color: #1d2125; background: #fff; border: 1px solid #c9ced4;
      border-radius: 0.4rem; padding: 0.35rem 0.6rem; display: flex; flex-wrap: wrap;
      gap: 0.2rem 0.8rem; align-items: center; box-shadow: 0 1px 4px #0003; }
    #tinyrmc-work :is(a, button) { font: inherit; color: #0b5fad; background: none;
      border: 0; padding: 0.1rem; text-decoration: underline; cursor: pointer; }
    .jp-RenderedHTMLCommon mjx-container[display] { overflow: auto hidden;
      max-width: 100%; }
    #tinyrmc-work [role=status]:not(:empty) { flex-basis: 100%; max-width: 40rem; }
    @media (prefers-color-scheme: dark) {
      #tinyrmc-work { color: #dfe4ea; background: #1d232b; border-color: #47515c; }
      #tinyrmc-work :is(a, button) { color: #7cb8f2; }
    }
    </style><a href="../../chapters/index.html">All chapters</a>
    <button type="button">Download my work</button><span role="status"></span>`;
  bar.querySelector("button").onclick = download;
  const said = bar.querySelector("[role=status]");
  function say(text) {
    said.textContent = text;
    delete said.dataset.clock;
  }
  document.body.append(bar);
  look();
})();
