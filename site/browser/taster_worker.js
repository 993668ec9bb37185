// Python with NumPy and the package, for one exercise.
import {loadPyodide} from "../{{LITE}}/pyodide/python.mjs";

const lock = new URL("../{{LITE}}/pyodide/pyodide-lock.json", self.location).href;

const SETUP = `
import os
os.environ["TINYRMC_PROGRESS"] = ""
import contextlib, io, linecache, traceback
import numpy as np
from tinyrmc.course.exercises import attention as ex

def checked(text):
    """(what check says, whether the answer is right)."""
    file = "<your answer>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    said, names = io.StringIO(), {"np": np}
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            exec(compile(text, file, "exec"), names)
            if "softmax" not in names:
                print("There is no function softmax any more: write \`def softmax(x):\`.")
                return said.getvalue(), False
            ex.softmax.check(names["softmax"])
        except BaseException as error:
            print("".join(traceback.format_exception_only(error)).strip())
            return said.getvalue(), False
    text = said.getvalue()
    lines = [line for line in text.splitlines() if not line.startswith("Try it: ")]
    return "\\n".join(lines), any(line.startswith("right: ") for line in lines)

def hinted(number):
    hints = ex.softmax.hints
    return hints[min(number, len(hints) - 1)]
`;

let python;
async function start() {
  python = await loadPyodide({lockFileURL: lock, packages: ["numpy", "tinyrmc"]});
  await python.runPythonAsync(SETUP);
  postMessage({ready: true});
}
const started = start().catch(error => {
  setTimeout(() => { throw error; }); // for the page to hear
});

onmessage = async ({data}) => {
  await started;
  if (data.hint !== undefined) {
    const said = python.globals.get("hinted")(data.hint);
    postMessage({said: `Hint ${data.hint + 1}. ${said}`, kind: ""});
    return;
  }
  const found = python.globals.get("checked")(data.code);
  const [said, right] = found.toJs();
  found.destroy();
  postMessage({said: said.trim(), kind: right ? "right" : "wrong"});
};
