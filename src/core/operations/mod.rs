// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue operations.

pub mod alloca;
pub mod counting;
pub mod dispatch;
pub mod files;
pub mod launch;
pub mod transfer;
