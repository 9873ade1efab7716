// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Common code of build scripts and this project's commands: location of IREE's sources, and paths for its build.

mod iree_tree;
mod plain_path;

pub use iree_tree::find_tree;
pub use plain_path::plain_path;
