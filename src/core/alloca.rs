// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered allocation.

/// What happens when a submission is complete, before its semaphores advance.
#[derive(Debug)]
pub enum CompletionAction {
    /// Nothing.
    None,
}

impl CompletionAction {
    /// The submission completed at `epoch` of `axis`.
    pub fn complete(self, _axis: u64, _epoch: u64) {}

    /// The submission failed.
    pub fn fail(self) {}
}
