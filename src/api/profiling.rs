// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Profiling sessions of a device: the options as C passes them.

use super::device::Device;
use amdgpu_ffi::profile::ProfileSink;
use amdgpu_ffi::profile::schema::ProfileData;
use amdgpu_ffi::{Borrowed, Result, raw, status, strings};
use amdgpu_profile::known_counters::Selection;
use amdgpu_profile::session::{Filter, Request};

/// The data for the lightweight statistics of tools. It changes no packets.
const STATISTICS: ProfileData = ProfileData::QUEUE_EVENTS.union(ProfileData::EXECUTABLE_METADATA);

impl Device {
    /// Begins a session, unless the options request no data.
    pub(super) fn profiling_begin(&self, options: *const raw::iree_hal_device_profiling_options_t) -> Result<()> {
        // SAFETY: null, or valid during the call.
        let Some(options) = (unsafe { options.as_ref() }) else {
            return Err(status!(INVALID_ARGUMENT, "profiling_begin without options"));
        };
        let statistics = options.flags & raw::IREE_HAL_DEVICE_PROFILING_FLAG_LIGHTWEIGHT_STATISTICS != 0;
        let families = match options.data_families {
            0 if statistics => STATISTICS,
            families => ProfileData::known(families)?,
        };
        if families.is_empty() {
            return Ok(());
        }
        // SAFETY: the sink is null or alive during the call.
        let sink = unsafe { Borrowed::from_raw(options.sink) };
        let sink = sink.ok_or_else(|| status!(INVALID_ARGUMENT, "a profiling session needs a sink"))?;
        // SAFETY: the filter's pattern is valid during the call.
        let filter = unsafe { filter(&options.capture_filter) };
        // SAFETY: the selections and their names are valid during the call.
        let counter_sets = unsafe { selections(options) }?;
        let request = Request { families, sink: Some(ProfileSink::retain(sink)), filter, counter_sets };
        self.logical().begin_profiling(self.identifier(), request)
    }
}

/// The sets of counters, with their names owned. `iree_hal_device_profiling_begin` has checked the count.
///
/// # Safety
/// The selections and their names are as many as their counts.
unsafe fn selections(options: &raw::iree_hal_device_profiling_options_t) -> Result<Vec<Selection>> {
    // SAFETY: the caller's contract; all-null lists are empty.
    let sets = (0..options.counter_set_count).map(|index| unsafe { &*options.counter_sets.add(index) });
    sets.map(|set| {
        if set.flags != raw::IREE_HAL_PROFILE_COUNTER_SET_SELECTION_FLAG_NONE {
            return Err(status!(
                INVALID_ARGUMENT,
                "a set of hardware counters with the unknown flags {:#x}",
                set.flags
            ));
        }
        // SAFETY: the caller's contract.
        let name = |index| unsafe { strings::text(*set.counter_names.add(index)) }.into_owned();
        // SAFETY: the caller's contract: each set has a name.
        let set_name = unsafe { strings::text(set.name) }.into_owned();
        Ok(Selection { name: set_name, counters: (0..set.counter_name_count).map(name).collect() })
    })
    .collect()
}

/// The filter with its pattern owned. Its flags were checked by `iree_hal_device_profiling_begin`.
///
/// # Safety
/// The pattern is valid when its flag is set.
unsafe fn filter(filter: &raw::iree_hal_profile_capture_filter_t) -> Filter {
    let has = |flag: u32| filter.flags & flag != 0;
    let function = has(raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN)
        // SAFETY: the caller's contract.
        .then(|| unsafe { strings::text(filter.executable_function_pattern) }.into_owned());
    Filter {
        function,
        command_buffer: has(raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_COMMAND_BUFFER_ID)
            .then_some(filter.command_buffer_id),
        command_index: has(raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_COMMAND_INDEX).then_some(filter.command_index),
        gpu: has(raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_PHYSICAL_DEVICE_ORDINAL)
            .then_some(filter.physical_device_ordinal),
        queue: has(raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_QUEUE_ORDINAL).then_some(filter.queue_ordinal),
    }
}
