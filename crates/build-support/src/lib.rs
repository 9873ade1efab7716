// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What build scripts and this project's commands share: where IREE's sources are, and paths that its build can take.

mod iree_tree;
mod plain_path;

pub use iree_tree::find_tree;
pub use plain_path::plain_path;
