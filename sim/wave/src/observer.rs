// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Observers of a running kernel. The run loop is generic over an [`Observer`]. [`Off`] does nothing, and its loop has
//! no overhead.

use crate::micro_op::Step as Progress;
use crate::wave::{Group, Wave};

/// Sees the micro-operations of a workgroup's waves.
pub(crate) trait Observer<const L: usize> {
    /// A workgroup begins with these waves.
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>);

    /// A wave is about to run a micro-operation.
    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress;

    /// It has run, and the wave goes on.
    #[inline(always)]
    fn after(&mut self, _op: u32, _wave: &mut Wave<L>) -> Progress {
        Ok(())
    }

    /// A wave waits for a barrier that others will never signal.
    fn stuck(&mut self, _wave: &Wave<L>, _group: &Group<'_>) {}
}

/// No checks.
pub(crate) struct Off;

impl<const L: usize> Observer<L> for Off {
    #[inline(always)]
    fn begin(&mut self, _: [u32; 3], _: &[Wave<L>], _: &Group<'_>) {}

    #[inline(always)]
    fn before(&mut self, _: u32, _: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        Ok(())
    }
}
