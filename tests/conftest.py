"""What all tests share: the array libraries; and BLAS on one thread, set before NumPy is imported (on small matrices more cost time)."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

from contextlib import suppress

import fakecupy
import numpy as np
import pytest
from hypothesis import settings

from tinyrmc import engine, fused, kernels

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)  # the same examples every time
settings.load_profile("ci" if os.environ.get("CI") else "dev")


LIBRARIES = [pytest.param(np, id="numpy"), pytest.param(fakecupy.cupy, id="stand-in")]
with suppress(ImportError):
    import cupy

    if cupy.is_available():
        LIBRARIES.append(pytest.param(cupy, id="cupy"))


@pytest.fixture(params=LIBRARIES, scope="session")
def xp(request):
    """The array library a test is run with: NumPy, the strict stand-in for CuPy and, where there is a GPU, CuPy itself.

    Values are made by `xp.array`, read by `tolist()` and `float()`, and compared with NumPy's after `backend.to_host`.
    """
    return request.param


@pytest.fixture(autouse=True)
def nothing_left_on():
    """Fails a test that leaves a Tape recording, the reference mode on or the kernels off, which would change what the next test sees."""
    yield
    recording, composed, kernels_on = engine._local.tape is not None, fused._mode["reference"], kernels._mode["on"]
    engine._local.tape, fused._mode["reference"], kernels._mode["on"] = None, False, True
    assert not recording, "the test left a Tape recording"
    assert not composed, "the test left fused.reference() on"
    assert kernels_on, "the test left kernels.off() on"
