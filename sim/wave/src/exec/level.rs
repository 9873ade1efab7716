// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Code that is compiled once for each level of the host's vector extensions. On x86-64 the base level is
//! [`Exec::exec_by_lane`]. Unit tests have the base level alone: the integration tests run each op at both.

use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Group, Wave};
use std::any::Any;

/// Host instruction set of the vector code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The target level of the crate's build.
    Base,
    /// x86-64-v3: AVX2 and FMA.
    #[cfg(all(target_arch = "x86_64", not(test)))]
    V3,
}

impl Level {
    /// The best one this CPU has.
    #[inline]
    pub fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(test)))]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::V3;
        }
        Level::Base
    }
}

/// The semantics of an op. `exec` must be `#[inline(always)]`, so that it is compiled with the features of its level.
pub(crate) trait Exec<const L: usize> {
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step;

    /// Executes an op lane by lane, in functions that ops share: the base level of x86-64, where nearly all hosts have
    /// a better one. A vectorised copy of each op for it was a quarter of the crate's code.
    #[inline(always)]
    fn exec_by_lane(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        Self::exec(wave, group, op)
    }
}

/// A part of some ops that is not worth a copy in each of them.
pub(crate) trait Part {
    type Result;
    /// Must be `#[inline(always)]`, as [`Exec::exec`].
    fn run(self) -> Self::Result;
}

/// Runs a part of an op, compiled once for each level.
#[inline(never)]
pub(crate) fn run<P: Part>(part: P) -> P::Result {
    match Level::detect() {
        Level::Base => base_part(part),
        #[cfg(all(target_arch = "x86_64", not(test)))]
        // SAFETY: this CPU has the features.
        Level::V3 => unsafe { v3_part(part) },
    }
}

fn base_part<P: Part>(part: P) -> P::Result {
    part.run()
}

#[cfg(all(target_arch = "x86_64", not(test)))]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn v3_part<P: Part>(part: P) -> P::Result {
    part.run()
}

/// The handler of an op for a level.
pub(crate) fn select<E: Exec<L>, const L: usize>(level: Level) -> Handler<L> {
    match level {
        Level::Base => base::<E, L>,
        #[cfg(all(target_arch = "x86_64", not(test)))]
        Level::V3 => v3::<E, L>,
    }
}

/// A handler of waves of `N` lanes, if waves of `L` lanes are those. No others have its op, which the types do not say.
pub(crate) fn of_lanes<const N: usize, const L: usize>(handler: Handler<N>) -> Option<Handler<L>> {
    (&handler as &dyn Any).downcast_ref().copied()
}

fn base<E: Exec<L>, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    if cfg!(target_arch = "x86_64") { E::exec_by_lane(wave, group, op) } else { E::exec(wave, group, op) }
}

#[cfg(all(target_arch = "x86_64", not(test)))]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn v3<E: Exec<L>, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    E::exec(wave, group, op)
}
