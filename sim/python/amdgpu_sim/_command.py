# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program `check-kernel`."""

import sys

from . import _native


def main() -> None:
    sys.exit(_native.check_kernel_main(["check-kernel", *sys.argv[1:]]))
