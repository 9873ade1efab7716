// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Regions of recorded command buffers: the commands between two execution barriers, and the GPU's time for them.
//!
//! The packet processor runs a recording by itself; the only scheduling points are the barriers. A region begins with
//! the first of its packets to begin, and ends with the last to end. Its tiles are workgroups, and its workers are the
//! GPU's compute units. Further data of host schedulers (drains, wakes, retention) does not exist here and stays 0.
//!
//! Region events have host times. Packets have times of the clock `HSA_SYSTEM_INFO_TIMESTAMP`, which is also a host
//! clock: reading it between two reads of IREE's clock gives their offset, to less than a microsecond.

use crate::LaunchInfo;
use amdgpu_ffi::profile::host_time;
use amdgpu_ffi::profile::schema::{CommandRegionEvent, Record, flags};
use amdgpu_ffi::{Result, status};
use amdgpu_hsa as hsa;

/// The conversion from the clock of device times to IREE's.
#[derive(Debug, Clone, Copy)]
pub struct HostClock {
    host: i64,
    tick: u64,
    frequency: u64,
}

impl HostClock {
    /// Reads both clocks.
    ///
    /// # Errors
    /// The error of HSA's clock query; INTERNAL if that clock does not tick.
    pub fn new(library: &hsa::Library) -> Result<Self> {
        let before = host_time();
        let tick = library.timestamp()?;
        let after = host_time();
        let frequency = library.system().timestamp_frequency;
        if frequency == 0 {
            return Err(status!(
                INTERNAL,
                "HSA says that its clock does not tick (HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY is 0)"
            ));
        }
        Ok(Self { host: before + (after - before) / 2, tick, frequency })
    }

    /// The time `tick` in nanoseconds of IREE's clock.
    fn host_time(&self, tick: u64) -> i64 {
        let ticks = i128::from(tick) - i128::from(self.tick);
        self.host + (ticks * 1_000_000_000 / i128::from(self.frequency)) as i64
    }
}

/// The region events of one execution, without its stream. `barriers` has the positions of the recording's execution
/// barriers, in order; `launches` its launches in order, each with the ticks of its begin and end.
pub fn events(barriers: &[u32], launches: &[(LaunchInfo, (u64, u64))], clock: HostClock) -> Vec<CommandRegionEvent> {
    let index = |launch: &LaunchInfo| barriers.partition_point(|barrier| *barrier < launch.command_index) as i32;
    let regions = launches.chunk_by(|(first, _), (second, _)| index(first) == index(second));
    let mut events: Vec<_> = regions
        .map(|region| {
            let mut event = CommandRegionEvent::blank();
            event.flags = flags::REGION_OF_COMMAND_BUFFER;
            event.command_region.index = index(&region[0].0);
            event.command_region.dispatch_count = region.len() as u32;
            let tiles =
                region.iter().map(|(launch, _)| launch.workgroup_count.into_iter().fold(1, u32::saturating_mul));
            event.command_region.tile_count = tiles.fold(0, u32::saturating_add);
            let start = region.iter().map(|(_, (start, _))| *start).min().unwrap_or_default();
            let end = region.iter().map(|(_, (_, end))| *end).max().unwrap_or_default();
            event.command_region.start_host_time_ns = clock.host_time(start);
            event.command_region.end_host_time_ns = clock.host_time(end);
            event
        })
        .collect();
    for next in 1..events.len() {
        let (index, tile_count) = (events[next].command_region.index, events[next].command_region.tile_count);
        let event = &mut events[next - 1];
        event.flags |= flags::REGION_HAS_NEXT;
        (event.next_command_region.index, event.next_command_region.tile_count) = (index, tile_count);
    }
    if let Some(last) = events.last_mut() {
        last.flags |= flags::REGION_TERMINAL;
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FunctionRef;

    #[test]
    fn barriers_cut_a_recording_into_regions() {
        let launch = |command_index, workgroups, times| {
            let note = LaunchInfo {
                function: FunctionRef::default(),
                command_index,
                workgroup_count: [workgroups, 2, 1],
                workgroup_size: [64, 1, 1],
                indirect: false,
            };
            (note, times)
        };
        // Ticks of 10 ns; tick 100 is at 5000 ns.
        let clock = HostClock { host: 5000, tick: 100, frequency: 100_000_000 };
        let launches = [launch(0, 1, (90, 95)), launch(1, 3, (80, 92)), launch(4, 5, (100, 130))];
        let events = events(&[2, 3, 5], &launches, clock);
        let regions: Vec<_> = events
            .iter()
            .map(|event| {
                let (region, next) = (event.command_region, event.next_command_region);
                let times = (region.start_host_time_ns, region.end_host_time_ns);
                (region.index, region.dispatch_count, region.tile_count, times, (next.index, next.tile_count))
            })
            .collect();
        assert_eq!(regions, [(0, 2, 8, (4800, 4950), (2, 10)), (2, 1, 10, (5000, 5300), (-1, 0))]);
        let of = flags::REGION_OF_COMMAND_BUFFER;
        assert_eq!(events[0].flags, of | flags::REGION_HAS_NEXT);
        assert_eq!(events[1].flags, of | flags::REGION_TERMINAL);
    }
}
