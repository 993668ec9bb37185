"""Workers that share a batch, as threads and as processes.

Fair pieces, the same bits from both, and no process left behind, however one ends.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import alive, soon
from tinyruns import ROOT, SURROUNDINGS, python
from tinytasks import KINDS, forks

from tinyrmc.training import workers as module
from tinyrmc.training.pieces import micro_batches
from tinyrmc.training.workers import WorkerError, Workers, shared_zeros


@pytest.fixture
def make_workers():
    made = []

    def make(count, share, processes=False):
        made.append(Workers(count, share, processes))
        return made[-1]

    yield make
    for workers in made:
        workers.close()


@given(st.integers(1, 2000), st.integers(1, 300), st.integers(1, 16))
def test_pieces_cover_the_batch_fairly(count, size, workers):
    pieces = micro_batches(count, size, workers)
    covered = [k for start, stop in pieces for k in range(start, stop)]
    assert covered == list(range(count))
    lengths = [stop - start for start, stop in pieces]
    assert 1 <= min(lengths) and max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
    # as many for each worker, if there are examples enough, and no more than that takes
    assert len(pieces) % workers == 0 or len(pieces) == count
    assert len(pieces) < workers - count // -size


def test_replies_come_in_worker_order_and_bit_for_bit(make_workers):
    for processes in KINDS:
        for count in [1, 2, 3]:
            values = [0.1 + 0.2, 1e-320, 2.0**-1074, float(np.float32(0.1)), -0.0]
            values += [float("inf"), 2**60 + 1]

            def share(worker, request):
                return {"worker": worker, "values": values, "request": request}

            workers = make_workers(count, share, processes)
            for request in ({"step": 1}, {"step": 2, "nested": {"a": [1, None, "b"]}}):
                replies = workers.run(request)
                assert [reply["worker"] for reply in replies] == list(range(count))
                assert all(repr(reply["values"]) == repr(values) for reply in replies)
                assert all(reply["request"] == request for reply in replies)


@forks
def test_processes_write_into_shared_memory_and_keep_their_own(make_workers):
    shared, own = shared_zeros(3, np.float64), np.zeros(3)

    def share(worker, request):
        shared[worker] += worker + request
        own[worker] += 1
        return [own[worker], os.getpid()]

    workers = make_workers(3, share, processes=True)
    workers.run(10)
    replies = workers.run(100)
    np.testing.assert_array_equal(shared, [110, 112, 114])
    # ours; the others have counted in memory of their own
    np.testing.assert_array_equal(own, [2, 0, 0])
    assert [count for count, _ in replies] == [2, 2, 2]
    assert len({pid for _, pid in replies}) == 3


def test_a_failure_names_its_cause(make_workers):
    for processes in KINDS:

        def share(worker, request):
            if worker == request:
                raise ZeroDivisionError(f"nothing to share at {worker}")
            return worker

        workers = make_workers(3, share, processes)
        assert workers.run(-1) == [0, 1, 2]
        kind, says = ZeroDivisionError, "nothing to share at 2"
        if processes:
            kind, says = WorkerError, f"worker 2: ZeroDivisionError: {says}"
        with pytest.raises(kind, match=f"^{says}$"):
            workers.run(2)


@forks
def test_a_child_does_not_end_the_children_of_its_parent(make_workers):
    """It has a copy of what the parent knows of them."""
    first = make_workers(2, lambda worker, request: os.getpid(), processes=True)
    pids = first.run(0)
    second = make_workers(2, lambda k, request: k and first.close(), processes=True)
    second.run(0)
    assert first.run(0) == pids


def test_after_a_failure_no_stale_reply_is_taken_for_an_answer(make_workers):
    """In a notebook you see the exception, mend its cause, and ask them again."""
    for processes in KINDS:
        for failing in [0, 1]:

            def share(worker, request):
                if request == "fail" and worker == failing:
                    raise ZeroDivisionError
                return request

            workers = make_workers(3, share, processes)
            with pytest.raises((WorkerError, ZeroDivisionError)):
                workers.run("fail")
            assert workers.run("again") == ["again"] * 3


@forks
def test_a_killed_process_is_an_error_and_no_hang(make_workers, capfd):
    for busy in [True, False]:

        def share(worker, request):
            if request == "die" and worker == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return os.getpid()

        workers = make_workers(3, share, processes=True)
        pids = workers.run("live")
        if not busy:  # killed between two requests
            os.kill(pids[1], signal.SIGKILL)
            assert soon(lambda: not alive(pids[1]))
        with pytest.raises(WorkerError, match="a worker process disappeared"):
            workers.run("die" if busy else "live")
        workers.close()
        assert not any(alive(pid) for pid in pids[1:])
        assert capfd.readouterr().err == ""  # the others leave without a traceback
        assert len(set(workers.run("live"))) == 3  # new ones


@forks
def test_close_leaves_no_process_and_a_later_request_starts_new_ones(make_workers):
    workers = make_workers(3, lambda worker, request: os.getpid(), processes=True)
    first = workers.run(0)
    assert all(alive(pid) for pid in first)
    workers.close()
    assert not any(alive(pid) for pid in first[1:])
    workers.close()  # safe to repeat
    second = workers.run(0)
    assert second[0] == first[0] and not set(second[1:]) & set(first[1:])


@forks
def test_close_does_not_wait_for_work_that_nobody_wants(make_workers):
    """The work ends one day: a close that waited for it would be found out."""
    done = shared_zeros(1, np.int8)

    def share(worker, request):
        if worker and request:
            time.sleep(60)
            done[0] = 1

    workers = make_workers(2, share, processes=True)
    workers.run(0)
    (child,) = workers._children
    child.send(1)
    workers.close()
    assert not done[0] and not alive(child.pid)


@forks
def test_children_ignore_what_a_terminal_sends_to_everybody(make_workers):
    workers = make_workers(2, lambda worker, request: os.getpid(), processes=True)
    child = workers.run(0)[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(child, number)
    assert workers.run(0)[1] == child


PARENT = """
import os, sys, time
from tinyrmc.training.workers import Workers
def share(worker, request):
    if worker and request == "work":
        time.sleep(0.5)
    return os.getpid()
workers = Workers(3, share, processes=True)
print(*workers.run("pid"), flush=True)
if sys.argv[1] == "busy":
    for child in workers._children:
        child.send("work")
    print("sent", flush=True)
time.sleep(60)
"""


@forks
def test_children_leave_when_the_parent_is_killed():
    for when in ["idle", "busy"]:
        command = [sys.executable, "-c", PARENT, when]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=SURROUNDINGS, **pipes) as parent:
            pids = [int(word) for word in parent.stdout.readline().split()]
            assert pids[0] == parent.pid and len(pids) == 3 and all(map(alive, pids))
            if when == "busy":
                parent.stdout.readline()
            parent.kill()
            parent.wait()
            assert soon(lambda: not any(map(alive, pids)))
            assert parent.stderr.read() == ""


@forks
def test_a_program_that_forgets_to_close_its_workers_ends_all_the_same():
    for ending in ["pass", "raise KeyboardInterrupt"]:
        code = f"""if True:
        from tinyrmc.training.workers import Workers
        workers = Workers(3, lambda worker, request: worker, processes=True)
        workers.run(1)
        {ending}
    """
        done = python("-c", code, cwd=ROOT, timeout=30)
        assert "multiprocessing" not in done.stderr
        assert done.returncode == (0 if ending == "pass" else -signal.SIGINT)


@forks
def test_a_process_that_is_forked_while_workers_begin_can_begin_its_own():
    with module._lock:  # as another thread holds it
        child = os.fork()
        if not child:
            signal.alarm(10)  # ends a child that waits
            own = Workers(2, lambda worker, request: worker, processes=True)
            done = own.run(1) == [0, 1]
            own.close()
            os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0
