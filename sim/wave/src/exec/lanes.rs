// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Sets of lanes.

use crate::fault::FaultKind;
use crate::micro_op::{Step, Stop};
use crate::wave::Wave;

/// The lanes of `bits`.
pub(super) fn each_lane(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lane < 64).then_some(lane)
    })
}

/// Refuses a wave with inactive lanes.
pub(super) fn all_lanes<const L: usize>(wave: &Wave<L>) -> Step {
    if wave.exec() & Wave::<L>::LANES == Wave::<L>::LANES {
        return Ok(());
    }
    let what = "an exchange of all lanes, with inactive ones";
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))))
}
