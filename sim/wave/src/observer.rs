// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Observers of a running kernel. The run loop is generic over an [`Observer`]. [`Off`] does nothing, and its loop has
//! no overhead.

use crate::micro_op::Step as Progress;
use crate::wave::{Group, Wave};

/// Observer of the micro-operations of a workgroup's waves.
pub(crate) trait Observer<const L: usize> {
    /// Called when a workgroup begins with these waves.
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>);

    /// Called before a wave runs a micro-operation.
    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress;

    /// Called after the micro-operation has run, if the wave continues.
    #[inline(always)]
    fn after(&mut self, _op: u32, _wave: &mut Wave<L>) -> Progress {
        Ok(())
    }

    /// Called when a wave waits for a barrier that others will never signal.
    fn stuck(&mut self, _wave: &Wave<L>, _group: &Group<'_>) {}
}

/// Observer that does nothing.
pub(crate) struct Off;

impl<const L: usize> Observer<L> for Off {
    #[inline(always)]
    fn begin(&mut self, _: [u32; 3], _: &[Wave<L>], _: &Group<'_>) {}

    #[inline(always)]
    fn before(&mut self, _: u32, _: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        Ok(())
    }
}
