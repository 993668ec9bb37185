// node pyodide_host.mjs FILE ARGUMENTS: run a Python file in the Pyodide of the folder
// $PYODIDE. Its packages $PACKAGES come from there, the wheels $WHEELS beside them; this
// repository is /repo. `import hostcpu` gives the seconds that the processor worked.
import fs from "node:fs";
import path from "node:path";

const folder = path.resolve(process.env.PYODIDE), wheels = process.env.WHEELS ?? "";
const words = text => (text ?? "").split(",").filter(Boolean);
const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${folder}/` });
await python.loadPackage(words(process.env.PACKAGES), { messageCallback() {} });
const site = python.runPython("import site; site.getsitepackages()[0]");
for (const wheel of words(wheels)) {
  const bytes = new Uint8Array(fs.readFileSync(wheel));
  python.unpackArchive(bytes, "zip", { extractDir: site });
}
const root = path.resolve(import.meta.dirname, "..");
python.FS.mkdirTree("/repo");
python.FS.mount(python.FS.filesystems.NODEFS, { root }, "/repo");
python.registerJsModule("hostcpu", { cpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
} });
python.setStdout({ batched: text => console.log(text) });
python.setStderr({ batched: text => console.error(text) });
python.globals.set("WORDS", python.toPy(process.argv.slice(2)));
try {
  await python.runPythonAsync(`
import runpy, sys
sys.argv = [*WORDS]
runpy.run_path("/repo/tests/" + sys.argv[0], run_name="__main__")
`);
} catch (error) {
  console.error(error.message.slice(-6000));
  process.exitCode = 1;
}
