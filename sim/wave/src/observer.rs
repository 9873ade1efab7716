// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Observers of a running kernel. The run loop is generic over an [`Observer`]. [`NoObserver`] does nothing, and its
//! loop has no overhead.

use crate::fault::FaultKind;
use crate::jit::Jit;
use crate::micro_op::Step as Progress;
use crate::wave::{Group, State, Wave};

/// A workgroup between turns of its waves.
pub(crate) struct Held<'h, 'a, const L: usize> {
    pub waves: &'h mut [Wave<L>],
    pub states: &'h mut [State],
    pub group: &'h mut Group<'a>,
}

/// Observer of the micro-operations of a workgroup's waves.
pub(crate) trait Observer<const L: usize> {
    /// Use of compiled code, which an observer does not see.
    #[inline(always)]
    fn jit(&self) -> Jit {
        Jit::OFF
    }

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

    /// Called when the waves' turns begin, or begin again after those of another workgroup.
    #[inline(always)]
    fn resume(&mut self, _held: Held<'_, '_, L>) {}

    /// Called when a wave has stopped for the observer or, with its fault, for ever. Returns true if the workgroup is
    /// in an earlier state now.
    ///
    /// # Errors
    /// A fault that ends the dispatch.
    #[inline(always)]
    fn paused(&mut self, _wave: usize, _fault: Option<&FaultKind>, _held: Held<'_, '_, L>) -> Result<bool, FaultKind> {
        Ok(false)
    }
}

/// Observer that does nothing.
pub(crate) struct NoObserver(pub Jit);

impl<const L: usize> Observer<L> for NoObserver {
    #[inline(always)]
    fn jit(&self) -> Jit {
        self.0
    }

    #[inline(always)]
    fn begin(&mut self, _: [u32; 3], _: &[Wave<L>], _: &Group<'_>) {}

    #[inline(always)]
    fn before(&mut self, _: u32, _: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        Ok(())
    }
}

/// Two observers. The first sees a micro-operation last after it has run, because it may hide the results of loads.
/// Neither holds workgroups: [`Observer::resume`] and [`Observer::paused`] are not passed on.
impl<const L: usize, A: Observer<L>, B: Observer<L>> Observer<L> for (A, B) {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>) {
        self.0.begin(workgroup, waves, group);
        self.1.begin(workgroup, waves, group);
    }

    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        self.0.before(op, wave, group)?;
        self.1.before(op, wave, group)
    }

    fn after(&mut self, op: u32, wave: &mut Wave<L>) -> Progress {
        self.1.after(op, wave)?;
        self.0.after(op, wave)
    }

    fn stuck(&mut self, wave: &Wave<L>, group: &Group<'_>) {
        self.0.stuck(wave, group);
        self.1.stuck(wave, group);
    }
}

/// An observer that is there or not, with the limits of a pair.
impl<const L: usize, O: Observer<L>> Observer<L> for Option<O> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>) {
        if let Some(observer) = self {
            observer.begin(workgroup, waves, group);
        }
    }

    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        self.as_mut().map_or(Ok(()), |observer| observer.before(op, wave, group))
    }

    fn after(&mut self, op: u32, wave: &mut Wave<L>) -> Progress {
        self.as_mut().map_or(Ok(()), |observer| observer.after(op, wave))
    }

    fn stuck(&mut self, wave: &Wave<L>, group: &Group<'_>) {
        if let Some(observer) = self {
            observer.stuck(wave, group);
        }
    }
}
