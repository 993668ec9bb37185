"""The training step of the Relational Memory Core on a CPU, ours beside its peers': python benchmarks/cpu.py [--works NAME ...] [--out FILE]

Every candidate starts from the same weights and batch, in a process of its own that may use so many cores; its loss and gradient are
compared with ours before it is timed, and a candidate that differs stops everything. Candidates are timed in turn, in several rounds, and
the fastest round of each counts; the number of threads is each candidate's best. SGEMM is what NumPy's BLAS reaches on the same cores.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = (1, 4)


@dataclasses.dataclass(frozen=True)
class Work:
    """One size of the training step: batch B, slots N, slot width F, heads H, time steps T."""

    batch: int
    slots: int
    width: int
    heads: int = 8
    steps: int = 8

    def __str__(self):
        return f"{self.slots} x {self.width}, batch {self.batch}, T {self.steps}"

    @property
    def flops(self) -> float:
        """Floating-point operations of all GEMMs, forward and backward (three times forward)."""
        N, F, T = self.slots, self.width, self.steps
        D = 16 + 3 * T
        step = (N + 1) * F * 3 * F + 2 * N * F * F + N * F * 2 * F + F * 2 * F + D * F + 2 * N * (N + 1) * F
        head = N * F * 256 + 3 * 256 * 256 + 256 * T
        return 3 * 2 * self.batch * (T * step + head)


WORKS = {"large": Work(1600, 8, 256), "small": Work(128, 8, 64), "ladder": Work(256, 8, 128), "quick": Work(256, 4, 64, 8, 4)}


def make_trainer(work, workers):
    """Our own training step, on one batch that is drawn beforehand."""
    from tinyrmc.discovery import load_task
    from tinyrmc.training import Trainer

    nf = load_task("nth_farthest")
    config = nf.Config(
        model=nf.CoreConfig(mem_slots=work.slots, num_heads=work.heads, head_size=work.width // work.heads, activate_final=False),
        data=nf.DataConfig(work.steps, 16),
        train=nf.TrainConfig(batch_size=work.batch, clip_norm=None, warmup_steps=0),
    )

    class Fixed(nf.Task):
        def stream(self, model, seed):
            drawn = super().stream(model, seed).batch(0, 0, work.batch)

            class Stream:
                def batch(self, step, start, stop):
                    return {name: x[start:stop] for name, x in drawn.items()}

            return Stream()

    return Trainer(Fixed(config), seed=0, workers=workers)


def ours(work, workers):
    import numpy as np

    trainer = make_trainer(work, workers)
    batch = trainer.stream.batch(0, 0, work.batch)

    def gradients():
        replies = trainer.workers.run({"do": "differentiate", "step": 0, "task": trainer.task.state()})
        total = sum(piece["loss"][0] for reply in replies for piece in reply)
        flat = np.sum(trainer._gradients, axis=0) / work.batch
        return total / work.batch, {n: flat[p.offset : p.offset + p.size].reshape(p.shape) for n, p in trainer.model.named_parameters()}

    weights = {name: p.data.copy() for name, p in trainer.model.named_parameters()}
    return gradients, trainer.advance, weights, batch


def child(name, threads, work, path):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import numpy as np
    from threadpoolctl import threadpool_limits

    from tinyrmc.backend import keep_freed_memory

    with np.load(path) as file:
        saved = dict(file)
    weights = {k.removeprefix("w/"): v for k, v in saved.items() if k.startswith("w/")}
    sizes = (work.slots, work.heads, work.width // work.heads)
    arguments = weights, saved["inputs"], saved["targets"], sizes
    if name == "ours":
        keep_freed_memory()
        threadpool_limits(1, user_api="blas")
        gradients, step, *_ = ours(work, threads)
    else:
        import peers

        if name.startswith("torch"):
            import torch

            torch.set_num_threads(threads)
        make = {"torch": peers.torch_peer, "torch.compile": peers.torch_peer, "jax": peers.jax_peer, "hips": peers.hips_peer}[name]
        gradients, step = make(*arguments, **({"compiled": "default"} if name == "torch.compile" else {}))
    loss, found = gradients()
    error = max(float(np.abs(found[k] - saved[f"g/{k}"]).max() / np.abs(saved[f"g/{k}"]).max()) for k in weights)
    assert abs(loss - saved["loss"]) < 1e-5 and error < 1e-4, (name, loss, float(saved["loss"]), error)
    for _ in range(3):
        step()
    times, began = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(times), "error": error}))


def sgemm(threads):
    """GFLOP/s: one large product on so many threads, or as many single-threaded processes; the faster."""
    script = "import numpy as np,time,os,sys\nn=int(sys.argv[1]);a=np.ones((n,n),'f');b=np.ones((n,n),'f')\nfor _ in range(3):a@b\nt=time.perf_counter();k=0\nwhile time.perf_counter()-t<2:a@b;k+=1\nprint(2*n**3*k/(time.perf_counter()-t)/1e9)"
    one = float(subprocess.run([sys.executable, "-c", script, "2048"], env=os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}, capture_output=True, text=True).stdout)
    many = [subprocess.Popen([sys.executable, "-c", script, "768"], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True) for _ in range(threads)]
    return max(one, sum(float(p.communicate()[0]) for p in many))


def main():
    import numpy as np

    for name in sys.argv[1:] or WORKS:
        work = WORKS[name]
        gradients, _, weights, batch = ours(work, 1)
        loss, g = gradients()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "work.npz"
            np.savez(path, loss=loss, inputs=batch["inputs"], targets=batch["target"].astype(np.int64), **{f"w/{k}": v for k, v in weights.items()}, **{f"g/{k}": v for k, v in g.items()})
            best = {}
            for candidate in ("ours", "torch", "torch.compile", "jax"):
                for threads in THREADS:
                    done = subprocess.run([sys.executable, __file__, "--child", candidate, str(threads), name, str(path)], capture_output=True, text=True)
                    if done.returncode:
                        print(candidate, threads, done.stderr[-600:]); continue
                    found = json.loads(done.stdout.splitlines()[-1])
                    print(f"{work}  {candidate:14} {threads} threads  {1000 * found['seconds']:8.1f} ms  error {found['error']:.1e}", flush=True)
                    best[candidate] = min(best.get(candidate, 9e9), found["seconds"])
        rate = sgemm(4)
        fastest = min(v for k, v in best.items() if k != "ours")
        print(f"{work}: ours / fastest peer {best['ours'] / fastest:.2f}; sgemm {rate:.0f} GFLOP/s, ours at {work.flops / best['ours'] / 1e9 / rate:.0%} ({work.flops / 1e9:.0f} GFLOP)")


if __name__ == "__main__":
    sys.path[:0] = ["/work/main", str(Path(__file__).parent)]
    os.environ["OPENBLAS_NUM_THREADS"] = "1" if "--child" in sys.argv else os.environ.get("OPENBLAS_NUM_THREADS", "1")
    if "--child" in sys.argv:
        _, _, name, threads, work, path = sys.argv
        child(name, int(threads), WORKS[work], path)
    else:
        main()
