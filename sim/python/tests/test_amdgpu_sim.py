# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the installed package. Kernels are compiled by clang 22; Triton's test needs Triton."""

import os
import subprocess
import sys
from pathlib import Path

import amdgpu_sim
import numpy as np
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def matmul(tmp_path_factory):
    """Compiles the product of matrices for gfx942, with these definitions."""

    def compiled(*definitions):
        file = tmp_path_factory.mktemp("kernels") / "matmul.hsaco"
        command = ["clang-22", "-x", "c", "-std=c23", "-nogpulib", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-O2"]
        command += ["-fuse-ld=lld-22", *definitions, HERE / "matmul.c", "-o", file]
        subprocess.run(command, check=True)
        return file

    return compiled


def multiply(device, file, compares=True):
    kernel = device.load(file)
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    c = np.empty((64, 64), np.float32)
    run = kernel[(4, 4), (16, 16)](a, b, c, 64)
    if compares:
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    return run


def test_a_product_of_matrices_is_numpys(matmul):
    run = multiply(amdgpu_sim.device("gfx942", checks="all"), matmul("-DBARRIER"))
    assert run.findings == []


def test_a_missing_barrier_is_a_finding(matmul):
    device = amdgpu_sim.device("gfx942", checks="race")
    run = multiply(device, matmul(), compares=False)
    assert run.findings and all(finding.check == "race" for finding in run.findings)
    assert "data race on LDS byte" in run.findings[0].what
    assert device.findings == run.findings


def test_memory_stays_on_the_device(matmul):
    device = amdgpu_sim.device("gfx942", checks="all")
    kernel = device.load(matmul("-DBARRIER"), "matmul")
    a, c = device.array(np.eye(16, dtype=np.float32)), device.empty((16, 32))
    assert c.uninitialized == [(0, 16 * 32 * 4)]
    kernel[1, (16, 16)](a, a, c, np.uint32(16))
    assert (c.numpy().reshape(-1)[:256].reshape(16, 16) == np.eye(16)).all()
    assert c.uninitialized == [(1024, 2048)]


def test_wrong_launches_are_refused(matmul):
    device = amdgpu_sim.device("gfx942")
    kernel = device.load(matmul("-DBARRIER"))
    array = np.zeros((16, 16), np.float32)
    with pytest.raises(TypeError, match="takes 4 arguments, 3 are given"):
        kernel[1, (16, 16)](array, array, array)
    with pytest.raises(ValueError, match="compiled for at most 256"):
        kernel[1, 1024](array, array, array, 16)
    with pytest.raises(ValueError, match="argument 3 is 4 bytes"):
        kernel[1, (16, 16)](array, array, array, np.int64(16))
    with pytest.raises(amdgpu_sim.Fault, match="an allocation of 1024 bytes"):
        kernel[4, (16, 16)](array, array, array, 64)
    # Nothing runs after a fault; another device does.
    with pytest.raises(RuntimeError, match="closed"):
        kernel[1, (16, 16)](array, array, array, 16)
    device = amdgpu_sim.device("gfx942")
    kernel = device.load(matmul("-DBARRIER"))
    kernel[1, (16, 16)](array, array, array, 16)
    with pytest.raises(ValueError, match="no kernel add; there are: matmul"):
        device.load(matmul("-DBARRIER"), "add")
    other = amdgpu_sim.device("gfx1100")
    with pytest.raises(RuntimeError, match="closed"):
        kernel[1, (16, 16)](array, array, array, 16)
    with pytest.raises(ValueError, match="no kernel for gfx1100; it has kernels for gfx942"):
        other.load(matmul("-DBARRIER"))


def test_a_race_fails_its_test_in_pytest(matmul, tmp_path):
    """Once with the option, once with the setting; not without either."""
    file = matmul()
    (tmp_path / "test_race.py").write_text(
        f"""
import amdgpu_sim, numpy as np

def test_product():
    # All numbers are equal, so that the result is right in any order.
    a, c = np.ones((64, 64), np.float32), np.empty((64, 64), np.float32)
    amdgpu_sim.device("gfx942").load({str(file)!r})[(4, 4), (16, 16)](a, a, c, 64)
    assert (c == 64).all()
"""
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run().returncode == 0
    failed = run("--sim-checks=all")
    assert failed.returncode == 1 and "race: kernel matmul: data race on LDS byte" in failed.stdout, failed.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\nsim_checks = race\n")
    assert run().returncode == 1


def test_the_command_is_there(matmul):
    command = [Path(sys.executable).parent / "check-kernel", matmul("-DBARRIER"), "matmul", "--grid", "1"]
    command += ["--block", "16,16", *["--arg", "buffer:1024=f32:1"] * 3, "--arg", "u32:16", "--expect", "2:f32=16"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "nothing found by all" in done.stderr, done.stderr


def test_a_kernel_of_triton_runs():
    pytest.importorskip("triton")
    source = HERE / "triton_matmul.py"
    done = subprocess.run([sys.executable, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
