// Stands where pyodide.mjs is expected, in a worker: loads that, counts what is fetched
// on the way, and tells the page. Nothing that a learner fetches later is counted.
const place = new URL("{{PYODIDE}}", import.meta.url).href;
const host = new URL(place).host;
const real = self.fetch;
let bytes = 0, open = 0, said = 0, wrong;

function tell(about = {}) {
  said = Date.now();
  postMessage({python: {bytes, open, host, wrong, ...about}});
}
function failed(url, why) {
  wrong ??= `${new URL(url, self.location).host} ${why}`;
  tell();
}
async function counted(...words) {
  const url = words[0].url ?? String(words[0]);
  open++;
  tell();
  const found = await real(...words).catch(error => {
    failed(url, "cannot be reached");
    throw error;
  });
  if (!found.ok) failed(url, `answers ${found.status} for ${url.split("/").pop()}`);
  if (!found.body) return found;
  const through = new TransformStream({
    transform(chunk, to) {
      bytes += chunk.length;
      if (Date.now() - said > 200) tell();
      to.enqueue(chunk);
    },
    flush() {
      open--;
      tell();
    },
  });
  const {status, statusText, headers} = found;
  return new Response(found.body.pipeThrough(through), {status, statusText, headers});
}

// IPython's terminal, which no page has, would bring 140 modules of another package.
const TERMINAL = `
import sys, types
name = "IPython.terminal.embed"
sys.modules[name] = types.ModuleType(name)
sys.modules[name].embed = None
`;

export async function loadPyodide(options) {
  self.fetch = counted;
  open++;
  tell();
  try {
    const module = place + "pyodide.mjs";
    const {loadPyodide} = await import(module).catch(error => {
      failed(module, "cannot be reached");
      throw error;
    });
    open--;
    const python = await loadPyodide({...options, indexURL: place});
    python.runPython(TERMINAL, {globals: python.toPy({})});
    tell({loaded: true});
    return python;
  } catch (error) {
    wrong ??= String(error.message ?? error).trim().split("\n").pop();
    tell();
    throw error;
  } finally {
    self.fetch = real;
  }
}
