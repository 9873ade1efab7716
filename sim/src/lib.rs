// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A software HSA runtime: `libhsa-runtime64.so.1` for machines without a GPU.
//!
//! Programs load it exactly as they load ROCR. [`hsa`] holds the exported functions, which check
//! their arguments and call [`machine`]: agents, memory, signals, queues, packet processors, loader.
//! The machine executes kernels with the crate `sim-wave`.
//!
//! # Environment
//!
//! Read at the first `hsa_init` (whether to count or fail calls: at the first call of any function):
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HSA_SIM_AGENTS` | comma-separated GPU targets, one agent each | `gfx1100` |
//! | `HSA_SIM_EXECUTE` | `0` consumes dispatches without running kernels | `1` |
//! | `HSA_SIM_THREADS` | threads that run a dispatch's workgroups | all processors |
//! | `HSA_SIM_SEED` | seed that perturbs the order of unordered packets | in order |
//! | `HSA_SIM_STATS` | file that gets counters and calls as JSON at the last `hsa_shut_down` | none |
//! | `HSA_SIM_LEAKS` | `1` reports what is left at the last `hsa_shut_down`, or at exit without it: memory, signals, queues, executables and so on | `0` |
//! | `HSA_SIM_FAIL` | `<function>:<n>`: its n-th call fails with `HSA_STATUS_ERROR_OUT_OF_RESOURCES` | none |

pub mod hsa;
pub mod inject;
pub mod machine;
