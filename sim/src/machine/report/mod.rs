// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Reports: counters, costs, findings of the checks, traces and profiles.

pub mod costs;
pub mod counters;
pub mod debugger;
pub mod findings;
pub mod profile;
pub mod race;
pub mod trace;
