# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Debian's."""

load("@debian_skylib//lib:selects.bzl", _selects = "selects")

selects = _selects
