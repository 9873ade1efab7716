# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The rule that is built into Bazel 4."""

sh_test = native.sh_test
