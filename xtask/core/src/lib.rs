// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Set-up, builds and runs of the programs that the project's commands need: IREE's tools and conformance tests, the
//! software GPU, compilers, ROCm's packages. Steps with logs and progress, counts of results, exit codes.
//!
//! `xtask` has the commands; benchmarks (`bench`), models (`models`), verification of the simulator (`sim-verify`) and
//! of the tests (`mutants`) are crates of their own above this one.

#![allow(rustdoc::invalid_html_tags, reason = "some doc comments are help texts of commands")]

pub mod conditions;
pub mod cts;
pub mod error;
pub mod flavor;
pub mod glob;
pub mod gtest;
pub mod hsa;
pub mod iree;
pub mod junit;
pub mod layout;
pub mod npy;
pub mod process;
pub mod rocm;
pub mod setup;
pub mod steps;
pub mod tally;
pub mod target;
