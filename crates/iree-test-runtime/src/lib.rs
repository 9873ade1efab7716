// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's C runtime for tests that run without IREE's own build.
//!
//! The driver is a static library whose IREE symbols are resolved when IREE
//! links its tools. A test binary made by cargo has no such link, so this
//! crate compiles the parts of IREE's runtime that the driver calls (base,
//! async, io, hal and its utilities and pools) and links them in. It is a
//! dev-dependency only: nothing of it reaches the driver's library. A test
//! target names it once, or the linker is not told of it:
//!
//! ```
//! use iree_test_runtime as _;
//! ```
