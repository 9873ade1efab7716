// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Execution barriers of a recording, and the barrier bits and fences that implement them.
//!
//! A barrier separates everything recorded before it from everything after it, whatever stages and ranges it names,
//! like the barrier bit of a packet. A barrier at the begin of the recording separates it from earlier submissions.
//! Fences make writes visible: the packets before a barrier release, and the first one after it acquires. The fence
//! scope is the GPU's own caches, or the system if the host or another device takes part.

use hsa_abi::HsaFenceScope;

use crate::Step;
use amdgpu_ffi::{Fallible, Result};

/// The barriers of a recording, in order.
#[derive(Debug, Default)]
pub struct Barriers {
    marks: Vec<Mark>,
    /// The next barrier has to make writes from outside the GPU visible.
    invalidated: bool,
}

/// A barrier in front of a step.
#[derive(Debug)]
struct Mark {
    step: usize,
    acquire: HsaFenceScope,
    release: HsaFenceScope,
}

impl Barriers {
    /// Removes all barriers.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.invalidated = false;
    }

    /// Adds a barrier in front of step `step`, the next one to be recorded, with fences of `scope`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn add(&mut self, step: usize, scope: HsaFenceScope) -> Result<()> {
        let acquire = if std::mem::take(&mut self.invalidated) { HsaFenceScope::SYSTEM } else { scope };
        match self.marks.last_mut() {
            Some(mark) if mark.step == step => {
                mark.acquire = mark.acquire.max(acquire);
                mark.release = mark.release.max(scope);
            }
            _ => self.marks.try_push(Mark { step, acquire, release: scope })?,
        }
        Ok(())
    }

    /// Makes everything before the last barrier visible outside the GPU. Commands after it have no order with this
    /// call.
    pub fn flush(&mut self) {
        if let Some(mark) = self.marks.last_mut() {
            mark.release = HsaFenceScope::SYSTEM;
        }
    }

    /// Makes the next barrier acquire writes from outside the GPU.
    pub fn invalidate(&mut self) {
        self.invalidated = true;
    }

    /// Applies the barriers to the order of `steps`. A barrier at the end needs nothing: the end of a submission
    /// releases to the system.
    pub fn apply(&self, steps: &mut [Step]) {
        let (mut first, end) = (0, steps.len());
        for mark in self.marks.iter().take_while(|mark| mark.step < end) {
            steps[mark.step].reorder(|order| (order.barrier, order.acquire) = (true, mark.acquire));
            for step in &mut steps[first..mark.step] {
                step.reorder(|order| order.release = mark.release);
            }
            first = mark.step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: HsaFenceScope = HsaFenceScope::AGENT;
    const SYSTEM: HsaFenceScope = HsaFenceScope::SYSTEM;
    const NONE: HsaFenceScope = HsaFenceScope::NONE;

    /// Barrier bit, acquire and release of `count` steps.
    fn applied(barriers: &Barriers, count: usize) -> Vec<(bool, HsaFenceScope, HsaFenceScope)> {
        let mut steps = vec![Step::non_dispatch(0, 0, 0); count];
        barriers.apply(&mut steps);
        let orders = steps.iter().map(Step::order);
        orders.map(|order| (order.barrier, order.acquire, order.release)).collect()
    }

    #[test]
    fn a_barrier_releases_what_is_before_it_and_acquires_after_it() {
        let mut barriers = Barriers::default();
        barriers.add(0, SYSTEM).unwrap();
        barriers.add(2, AGENT).unwrap();
        barriers.add(3, AGENT).unwrap();
        barriers.add(3, SYSTEM).unwrap();
        barriers.add(4, SYSTEM).unwrap();
        let expected = [(true, SYSTEM, AGENT), (false, AGENT, AGENT), (true, AGENT, SYSTEM), (true, SYSTEM, NONE)];
        assert_eq!(applied(&barriers, 4), expected);
    }

    #[test]
    fn a_flush_makes_what_is_before_the_last_barrier_visible_outside() {
        let mut barriers = Barriers::default();
        barriers.flush();
        barriers.add(1, AGENT).unwrap();
        barriers.add(2, AGENT).unwrap();
        barriers.flush();
        barriers.add(3, AGENT).unwrap();
        let expected = [(false, AGENT, AGENT), (true, AGENT, SYSTEM), (true, AGENT, AGENT), (true, AGENT, NONE)];
        assert_eq!(applied(&barriers, 4), expected);
    }

    #[test]
    fn an_invalidation_makes_what_follows_the_next_barrier_see_outside_writes() {
        let mut barriers = Barriers::default();
        barriers.add(1, AGENT).unwrap();
        barriers.invalidate();
        barriers.add(2, AGENT).unwrap();
        barriers.add(3, AGENT).unwrap();
        let expected = [(false, AGENT, AGENT), (true, AGENT, AGENT), (true, SYSTEM, AGENT), (true, AGENT, NONE)];
        assert_eq!(applied(&barriers, 4), expected);
    }
}
