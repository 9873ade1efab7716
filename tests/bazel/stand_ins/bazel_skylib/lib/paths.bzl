# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Debian's."""

load("@debian_skylib//lib:paths.bzl", _paths = "paths")

paths = _paths
