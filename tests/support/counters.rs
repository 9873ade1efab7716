// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Sessions with counters, and their samples.

#![allow(dead_code, reason = "each test file uses what it needs")]

use amdgpu_rs::ffi::{Result, raw, strings};
pub use raw::iree_hal_profile_counter_record_t as CounterRecord;
pub use raw::iree_hal_profile_counter_sample_record_t as SampleRecord;

use crate::sink::Sink;
use crate::support::Rig;

/// Begins a session with these sets of counters, each a name and its counters.
pub fn begin(sink: &Sink, rig: &Rig, families: u32, sets: &[(&str, &[&str])]) -> Result<()> {
    let names: Vec<Vec<_>> =
        sets.iter().map(|(_, names)| names.iter().map(|name| strings::view(name)).collect()).collect();
    let selections: Vec<_> = sets
        .iter()
        .zip(&names)
        .map(|((set, _), names)| {
            // SAFETY: all-zero is a selection of nothing.
            let mut selection: raw::iree_hal_profile_counter_set_selection_t = unsafe { std::mem::zeroed() };
            selection.name = strings::view(set);
            (selection.counter_name_count, selection.counter_names) = (names.len(), names.as_ptr());
            selection
        })
        .collect();
    sink.begin_options(rig, families, |options| {
        (options.counter_set_count, options.counter_sets) = (selections.len(), selections.as_ptr());
    })
}

/// The records of a content, each with the bytes behind it.
pub fn parts<R: Copy>(sink: &Sink, content: &str) -> Vec<(R, Vec<u8>)> {
    let mut parts = Vec::new();
    for chunk in sink.chunks(content) {
        let mut rest = &chunk.bytes[..];
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            assert!(length >= size_of::<R>() && length <= rest.len(), "{content} holds whole records");
            // SAFETY: plain data, all of whose bytes there are.
            let record = unsafe { rest.as_ptr().cast::<R>().read_unaligned() };
            parts.push((record, rest[size_of::<R>()..length].to_vec()));
            rest = &rest[length..];
        }
    }
    parts
}

/// Samples with their values.
pub fn samples(sink: &Sink) -> Vec<(SampleRecord, Vec<u64>)> {
    let parts = parts::<SampleRecord>(sink, "counter-samples");
    let values = |bytes: Vec<u8>| bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    parts.into_iter().map(|(record, bytes)| (record, values(bytes))).collect()
}

/// The sums of one counter's values in all samples of a set, in the order of their dispatches.
pub fn sums(sink: &Sink, set: u64, counter: &str) -> Vec<u64> {
    let counters = parts::<CounterRecord>(sink, "counters");
    let named = |(record, text): &&(CounterRecord, Vec<u8>)| {
        let (block, name) = (record.block_name_length as usize, record.name_length as usize);
        record.counter_set_id == set && text[block..block + name] == *counter.as_bytes()
    };
    let (record, _) = counters.iter().find(named).expect("the counter is told of");
    let first = record.sample_value_offset as usize;
    let mut of_set: Vec<_> = samples(sink).into_iter().filter(|(sample, _)| sample.counter_set_id == set).collect();
    of_set.sort_by_key(|(sample, _)| sample.dispatch_event_id);
    of_set.iter().map(|(_, values)| values[first..first + record.sample_value_count as usize].iter().sum()).collect()
}
