# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plug-in of pytest that fails tests in which the checks of the software GPU find something."""

import pytest

import amdgpu_sim


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "checks that devices of amdgpu_sim make: a list such as race,wait, or all; findings fail their test"
    parser.getgroup("amdgpu_sim").addoption("--sim-checks", metavar="CHECKS", default=None, help=text)
    parser.addini("sim_checks", text, default="none")


def pytest_configure(config: pytest.Config) -> None:
    amdgpu_sim.default_checks = config.getoption("--sim-checks") or config.getini("sim_checks")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    before = amdgpu_sim._open
    count = len(before.findings) if before is not None else 0
    result = yield
    after = amdgpu_sim._open
    # A device that was made during the test has none from before.
    new = [] if after is None else after.findings[count if after is before else 0 :]
    if new and amdgpu_sim.default_checks != "none":
        pytest.fail("\n".join(str(finding) for finding in new), pytrace=False)
    return result
