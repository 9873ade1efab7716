// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The products: instruction sets, sizes and rates of each GPU, the versions of ROCR, and the models of their counters.

pub mod gpu;
pub mod listing;
pub mod occupancy;
pub mod performance;
pub mod random;
pub mod rocr;
pub mod target;
pub mod thread_trace;
pub mod workgroup_placement;
