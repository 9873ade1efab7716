// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The HAL objects that IREE calls: one file each. They check arguments,
//! translate, and hand on to [`core`](crate::core).

pub mod allocator;
pub mod channel;
pub mod command_buffer;
pub mod device;
pub mod driver;
pub mod event;
pub mod executable;
mod profiling;
mod queue;
mod topology;
