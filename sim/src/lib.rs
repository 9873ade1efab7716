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
//! | `HSA_SIM_AGENTS` | GPUs, see below | `gfx1100` |
//! | `HSA_SIM_ROCR` | the release of ROCR to behave like where they differ (`docs/sim/rocr.md`): `6.2` or `7.0` | `7.0` |
//! | `HSA_SIM_MEMORY` | `strict` plays caches, which need the fences that a GPU needs ([`machine::caches`]) | `coherent` |
//! | `HSA_SIM_EXECUTE` | `0` consumes dispatches without running kernels | `1` |
//! | `HSA_SIM_THREADS` | threads that run a dispatch's workgroups | all processors |
//! | `HSA_SIM_SEED` | seed; unordered packets run at the same time, and it holds some back; with the check `wait`, some results of memory arrive late | one after another |
//! | `HSA_SIM_TIMEOUT` | seconds that a kernel may run; one that runs longer fails its queue (0: for ever) | `0` |
//! | `HSA_SIM_STATS` | file that gets counters, calls and [costs](machine::costs) as JSON at the last `hsa_shut_down` | none |
//! | `HSA_SIM_LEAKS` | `1` reports what is left at the last `hsa_shut_down`, or at exit without it: memory, signals, queues, executables and so on | `0` |
//! | `HSA_SIM_CHECK` | checks of kernels, separated by commas: `wait`, `sync`, `race`, `equal`, `hazard`, `bounds`, `clamp`, or `all` but `equal` and `clamp` (`docs/sim/checks.md`) | none |
//! | `HSA_SIM_CHECK_OUTPUT` | file that gets their findings as JSON, one a line | none |
//! | `HSA_SIM_CHECK_FATAL` | `1` fails the queue of a kernel at its first finding | `0` |
//! | `HSA_SIM_PROFILE` | file that gets what each instruction of each kernel did; its name ends in `.txt`, `.json` or `.html` | none |
//! | `HSA_SIM_TRACE` | `kernel`, `wave` or `instruction`: tells of them on standard error as they run; of kernels alone whose names have what is behind a comma; or `packets`, with the commands of PM4-IB packets | none |
//! | `HSA_SIM_COUNTERS` | how many events the aqlprofile library counts at a time, 0 to 8, each time it is asked to | `8` |
//! | `HSA_SIM_FAIL` | `<function>:<n>`: its n-th call fails with `HSA_STATUS_ERROR_OUT_OF_RESOURCES` | none |
//!
//! `HSA_SIM_AGENTS` lists targets, separated by commas: each is an agent, and what its product is unless settings say
//! otherwise, the first behind a colon, more behind commas: `gfx1100:bar=none,cus=48,gfx1201`.
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `bar=large\|small\|none` | the host reaches all of its memory, a part (no use to HSA), or nothing and no HDP register | `large` |
//! | `pools=coarse+extended+fine` | its global pools, some of these | what ROCR gives the product |
//! | `memory=own\|shared` | memory of its own, or the host's, as of an APU | `own` |
//! | `hdp=checked\|trusted` | host writes to its memory fail a kernel that reads them unless the HDP was flushed, or do not | `checked` |
//! | `cus=<n>` | compute units | the product's |
//! | `partitions=<n>` | that many agents of one device, each with its share of dies and memory | `1` |
//! | `peers=yes\|no` | whether it and other GPUs may be given access to each other's memory | `yes` |
//! | `read_index=prompt\|late` | queues' read index passes a packet before it completes, or some time later | `prompt` |
//!
//! Of ROCR's own variables, `ROCR_VISIBLE_DEVICES`, `HSA_ENABLE_INTERRUPT`, `HSA_ENABLE_QUEUE_FAULT_MESSAGE` and
//! `LOADER_USE_DYNSYM` do what they do there.

pub mod hsa;
pub mod inject;
pub mod machine;
