// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Memory: allocations and their access rules, virtual memory, and the models of caches and of the host's flushes.

pub mod allocation;
pub mod cache;
pub mod caches;
pub mod dmabuf;
pub mod hdp;
pub mod ipc;
pub mod map;
pub mod scalar_cache;
pub mod suballocations;
pub mod svm;
pub mod uninitialized;
pub mod vmem;
