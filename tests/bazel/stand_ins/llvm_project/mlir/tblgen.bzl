# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rules of IREE's compiler, which is not built here."""

def gentbl_cc_library(**_kwargs):
    fail("there is no compiler here")

gentbl_filegroup = gentbl_cc_library
td_library = gentbl_cc_library
