// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The driver's own logic: topology, queues, submission, completion, memory, executables and recorded command buffers.

pub mod alloca;
pub mod complete;
pub mod device;
pub mod dispatch;
pub mod executable;
pub mod files;
pub mod formats;
pub mod gpu;
pub mod host_call;
pub mod host_worker;
pub mod memory;
pub mod options;
pub mod peers;
pub mod profile;
pub mod program;
pub mod queue;
pub mod semaphore;
pub mod submit;
pub mod topology;
pub mod transfer;
