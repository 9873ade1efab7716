// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A software HSA runtime: `libhsa-runtime64.so.1` for machines without a GPU.
//!
//! Programs load it exactly as they load ROCR. [`hsa`] holds the exported functions, which check their arguments and
//! call [`machine`]: agents, memory, signals, queues, packet processors, loader. The machine executes kernels with the
//! crate `sim-wave`.
//!
//! # Environment
//!
//! Read at the first `hsa_init`. Variables that count or fail calls are read at the first call of any function.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HSA_SIM_AGENTS` | GPUs, see below | `gfx1100` |
//! | `HSA_SIM_ROCR` | release of ROCR to behave like where releases differ (`docs/sim/rocr.md`): `6.2` or `7.0` | `7.0` |
//! | `HSA_SIM_MEMORY` | `strict` models caches, which need the fences that a GPU needs ([`machine::caches`]) | `coherent` |
//! | `HSA_SIM_EXECUTE` | `0` consumes dispatches without running kernels | `1` |
//! | `HSA_SIM_THREADS` | threads that run a dispatch's workgroups | all processors |
//! | `HSA_SIM_SEED` | seed: unordered packets run at the same time, some of them delayed; with the check `wait`, some results of memory operations are delayed | one after another |
//! | `HSA_SIM_TIMEOUT` | time limit of a kernel in seconds, after which its queue fails (0: none) | `0` |
//! | `HSA_SIM_STATS` | file that gets counters, calls and [costs](machine::costs) as JSON at the last `hsa_shut_down` | none |
//! | `HSA_SIM_LEAKS` | `1` reports leaks at the last `hsa_shut_down`, or at exit without it: memory, signals, queues, executables and so on | `0` |
//! | `HSA_SIM_CHECK` | checks of kernels, separated by commas: `wait`, `sync`, `race`, `equal`, `hazard`, `bounds`, `clamp`, `init`, `result`, or `all` but `equal`, `clamp` and `result` (`docs/sim/checks.md`) | none |
//! | `HSA_SIM_CHECK_OUTPUT` | file that gets the findings as JSON, one a line | none |
//! | `HSA_SIM_CHECK_FATAL` | `1` fails the queue of a kernel at its first finding | `0` |
//! | `HSA_SIM_PROFILE` | file that gets a profile of each kernel's instructions; its name ends in `.txt`, `.json` or `.html` | none |
//! | `HSA_SIM_TRACE` | `kernel`, `wave` or `instruction`: traces them on standard error, with a text behind a comma only kernels whose names contain it; or `packets`, with the commands of PM4-IB packets | none |
//! | `HSA_SIM_COUNTERS` | number of events that the aqlprofile library can count at a time, 0 to 8; read at each request | `8` |
//! | `HSA_SIM_FAIL` | `<function>:<n>`: the function's n-th call fails with `HSA_STATUS_ERROR_OUT_OF_RESOURCES` | none |
//!
//! `HSA_SIM_AGENTS` lists targets, separated by commas. Each is an agent with the properties of its product, unless
//! settings change them: the first behind a colon, more behind commas, as in `gfx1100:bar=none,cus=48,gfx1201`.
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `bar=large\|small\|none` | host access through the PCI aperture: all of the GPU's memory, a part (HSA does not use it), or nothing and no HDP register | `large` |
//! | `pools=coarse+extended+fine` | global memory pools, some of these | ROCR's for the product |
//! | `memory=own\|shared` | memory of its own, or the host's, as of an APU | `own` |
//! | `hdp=checked\|trusted` | a kernel fails if it reads host writes to the GPU's memory before an HDP flush, or does not | `checked` |
//! | `cus=<n>` | compute units | the product's |
//! | `partitions=<n>` | number of agents that one device is split into, each with its share of dies and memory | `1` |
//! | `peers=yes\|no` | access to the memory of other GPUs, and of other GPUs to its memory, can be granted | `yes` |
//! | `read_index=prompt\|late` | queues' read index passes a packet before it completes, or some time later | `prompt` |
//! | `svm=yes\|no` | the kernel driver shares the process's virtual memory with the GPU | `yes` |
//!
//! ROCR's own variables `ROCR_VISIBLE_DEVICES`, `HSA_ENABLE_INTERRUPT`, `HSA_ENABLE_QUEUE_FAULT_MESSAGE` and
//! `LOADER_USE_DYNSYM` have the same effect as in ROCR.

pub mod hsa;
pub mod inject;
pub mod machine;
