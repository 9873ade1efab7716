// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Common parts of counters and thread traces: placement of a dispatch's workgroups on a GPU, and the queues whose
//! kernels are observed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use hsa_abi::KernelDispatchPacket;
use parking_lot::Mutex;

/// Die, engine in it, array and unit of the `number`-th workgroup, and the number of earlier workgroups in that unit.
/// Placement is round robin: first over the dies, shader engines and shader arrays, then over the units of each,
/// `in_use` in all.
pub fn round_robin(number: usize, in_use: usize, [dies, engines, arrays]: [usize; 3]) -> ([usize; 4], usize) {
    let (turn, number) = (number / in_use, number % in_use);
    let (die, rest) = (number % dies, number / dies);
    let (engine, rest) = (rest % engines, rest / engines);
    ([die, engine, rest % arrays, rest / arrays], turn)
}

/// Number of workgroups in each dimension.
pub fn groups(packet: &KernelDispatchPacket) -> [u32; 3] {
    [0, 1, 2].map(|axis| packet.grid_size[axis].div_ceil(packet.workgroup_size[axis].into()))
}

/// Linear number of a workgroup in a grid of `groups`.
pub fn number_of(groups: [u32; 3], [x, y, z]: [u32; 3]) -> usize {
    (z as usize * groups[1] as usize + y as usize) * groups[0] as usize + x as usize
}

/// Number of work-items of each workgroup. Workgroups at the grid's edge may have fewer.
pub fn items_of_groups(packet: &KernelDispatchPacket) -> impl Iterator<Item = u32> {
    let (grid, size) = (packet.grid_size, packet.workgroup_size.map(u32::from));
    let along =
        move |axis: usize| (0..grid[axis]).step_by(size[axis] as usize).map(move |at| size[axis].min(grid[axis] - at));
    along(2).flat_map(move |z| along(1).flat_map(move |y| along(0).map(move |x| x * y * z)))
}

/// Queues whose kernels are observed.
#[derive(Debug, Default)]
pub struct Queues {
    queues: Mutex<HashSet<u64>>,
    any: AtomicBool,
}

impl Queues {
    /// Starts or stops the observation of a queue's kernels.
    pub fn enable(&self, queue: u64, is_on: bool) {
        let mut queues = self.queues.lock();
        if is_on {
            queues.insert(queue);
        } else {
            queues.remove(&queue);
        }
        self.any.store(!queues.is_empty(), Ordering::Relaxed);
    }

    /// True if a queue's kernels are observed.
    pub fn has(&self, queue: u64) -> bool {
        self.any.load(Ordering::Relaxed) && self.queues.lock().contains(&queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_at_the_edge_have_fewer_items() {
        let items = |grid_size, workgroup_size| {
            // SAFETY: all-zero is a valid packet.
            let blank: KernelDispatchPacket = unsafe { std::mem::zeroed() };
            items_of_groups(&KernelDispatchPacket { grid_size, workgroup_size, ..blank }).collect::<Vec<_>>()
        };
        assert_eq!(items([100, 1, 1], [64, 1, 1]), [64, 36]);
        assert_eq!(items([96, 3, 2], [64, 2, 2]), [256, 128, 128, 64]);
    }
}
