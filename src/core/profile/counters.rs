// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware counters: how they are counted, and their samples of dispatches and of time ranges.
//!
//! A counted dispatch lies between a packet that resets and starts the counters and two packets that read and stop
//! them, all made by ROCm's aqlprofile library (`hsa/aqlprofile.rs`). It runs alone on its queue. The counters are the
//! GPU's: kernels on its other queues may be counted, too.
//!
//! A range is a time range of a GPU: from the session's begin, or a flush, to the next flush or the end. A start packet
//! on each of the GPU's queues enables counting for its kernels (`COMPUTE_PERFCOUNT_ENABLE` is a register of each
//! queue: it is in the queue descriptor of the kernel driver's `v9_structs.h` and its successors). The last of these
//! packets starts the counters. At the end of a range, packets on the last queue read and stop them. Everything that
//! runs meanwhile is counted, including other programs if the hardware does so. Kernels that run at the begin or end of
//! a range are counted as the hardware does it.
//!
//! All requested sets are counted at once, each event once, if the hardware has enough counters. Otherwise there are
//! several passes, each with as many events as fit. A dispatch cannot be repeated to count the rest, because its memory
//! has changed. So each launch of a function counts one pass, and the next launch the next pass; ranges of a GPU do
//! likewise. A set that fits the hardware is in one pass; others are split among several. The sets in a profile are
//! these parts, each with samples of its own.
//!
//! A counter has several values if several parts of the GPU count separately: dies, shader engines, work-group
//! processors.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::HsaStatus;
use hsa_abi::aqlprofile::AqlProfilePackets;
use parking_lot::Mutex;

use crate::FunctionRef;
use crate::known_counters::{Known, Selection, event_of, find};
use crate::pool::{Pool, Pooled};
use amdgpu_ffi::profile::schema::{
    CounterRecord, CounterSampleRecord, CounterSampleScope, CounterSetRecord, DispatchEvent, Record, flags,
};
use amdgpu_ffi::profile::{Stream, bytes_of};
use amdgpu_ffi::{Annotate, Result, Status, messages, status};
use amdgpu_gpu::Gpu;
use amdgpu_hsa as hsa;
use amdgpu_hsa::aqlprofile::{AqlProfile, Capture, CaptureMemory, CountedAgent, Event};

/// The name of sets that were given none.
const SET_NAME: &str = "amdgpu.pmc";

/// The most passes of a session: enough for each known counter alone, and some sets.
const MOST_PASSES: usize = 64;

/// The most captures of a GPU: each has two allocations of its own, for which ROCR takes pages.
const MOST_CAPTURES: usize = 4096;

/// Packets around a dispatch that is counted.
pub const PACKETS: u32 = 3;

/// The counters of a session.
#[derive(Debug)]
pub struct Counters {
    gpus: Vec<GpuCounters>,
    next_sample: AtomicU64,
}

/// The counters of one GPU.
#[derive(Debug)]
struct GpuCounters {
    agent: Arc<CountedAgent>,
    passes: Vec<Pass>,
    sets: Vec<Set>,
    turns: Arc<Turns>,
}

/// The events that are counted at once.
#[derive(Debug)]
struct Pass {
    /// The events, each once.
    events: Vec<Event>,
    /// The captures that count them.
    captures: Pool<Capture>,
}

/// The number of times that each function (none for ranges) has used each pass; empty if there is one pass.
#[derive(Debug)]
struct Turns {
    passes: usize,
    taken: Mutex<HashMap<FunctionRef, Vec<u32>>>,
}

impl Turns {
    fn new(passes: usize) -> Self {
        Self { passes, taken: Mutex::default() }
    }

    /// Takes the next pass: the first of the least used ones.
    fn take(&self, function: FunctionRef) -> usize {
        if self.passes == 1 {
            return 0;
        }
        let mut taken = self.taken.lock();
        let taken = taken.entry(function).or_insert_with(|| vec![0; self.passes]);
        let pass = (0..self.passes).min_by_key(|pass| taken[*pass]).unwrap_or(0);
        taken[pass] += 1;
        pass
    }

    /// Returns a pass that was not counted.
    fn give_back(&self, function: FunctionRef, pass: usize) {
        if let Some(taken) = self.taken.lock().get_mut(&function) {
            taken[pass] -= 1;
        }
    }
}

/// The capture of a pass for a launch or a range. It must not be dropped while its packets are in a queue.
#[derive(Debug)]
pub struct Count {
    capture: Pooled<Capture>,
    pass: usize,
    function: FunctionRef,
    turns: Arc<Turns>,
    /// There is a sample of it. Otherwise the function's next launch counts the pass again.
    is_kept: Cell<bool>,
}

impl Count {
    /// The packets.
    pub fn packets(&self) -> &AqlProfilePackets {
        self.capture.packets()
    }

    /// Notes that the sample was logged.
    pub fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            self.turns.give_back(self.function, self.pass);
        }
    }
}

/// The part of a requested set that is counted in one pass.
#[derive(Debug)]
struct Set {
    id: u64,
    name: String,
    pass: usize,
    counters: Vec<Counter>,
    /// The number of values in a sample.
    values: u32,
}

#[derive(Debug)]
struct Counter {
    known: &'static Known,
    event: Event,
    /// The index of its first value in a sample, and the number of its values.
    offset: u32,
    values: u32,
}

impl Counters {
    /// The counters of `selections` on GPUs of one device. Loads the library that makes their packets.
    ///
    /// # Errors
    /// NOT_FOUND without the library; UNIMPLEMENTED for counters that the driver or a GPU does not know;
    /// INVALID_ARGUMENT for a set that is empty or has a counter twice; the error of the library.
    pub fn new(selections: &[Selection], gpus: &[Arc<Gpu>]) -> Result<Self> {
        let sets = selections.iter().map(find).collect::<Result<Vec<_>>>()?;
        let library = AqlProfile::load(gpus[0].agent().library(), "hardware counters")?;
        let of_gpu = |(ordinal, gpu): (usize, &Arc<Gpu>)| GpuCounters::new(&library, ordinal, gpu, selections, &sets);
        let gpus = gpus.iter().enumerate().map(of_gpu).collect::<Result<_>>()?;
        Ok(Self { gpus, next_sample: AtomicU64::new(1) })
    }

    /// The profile records of the sets, each followed by its name.
    pub fn set_records(&self) -> Vec<u8> {
        let sets =
            self.gpus.iter().enumerate().flat_map(|(gpu, counters)| counters.sets.iter().map(move |set| (gpu, set)));
        sets.flat_map(|(gpu, set)| {
            let mut record = CounterSetRecord::blank();
            record.record_length += set.name.len() as u32;
            record.counter_set_id = set.id;
            record.physical_device_ordinal = gpu as u32;
            record.counter_count = set.counters.len() as u32;
            record.sample_value_count = set.values;
            record.name_length = set.name.len() as u32;
            [bytes_of(&record), set.name.as_bytes()].concat()
        })
        .collect()
    }

    /// The profile records of the counters, each followed by block, name and description.
    pub fn counter_records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (gpu, counters) in self.gpus.iter().enumerate() {
            for set in &counters.sets {
                for (ordinal, counter) in set.counters.iter().enumerate() {
                    let Known { name, description, unit, event } = counter.known;
                    let block = event.block().name();
                    let mut record = CounterRecord::blank();
                    record.record_length += (block.len() + name.len() + description.len()) as u32;
                    record.flags = flags::COUNTER_RAW;
                    record.unit = *unit as u32;
                    record.physical_device_ordinal = gpu as u32;
                    record.counter_set_id = set.id;
                    record.counter_ordinal = ordinal as u32;
                    record.sample_value_offset = counter.offset;
                    record.sample_value_count = counter.values;
                    record.block_name_length = block.len() as u32;
                    record.name_length = name.len() as u32;
                    record.description_length = description.len() as u32;
                    bytes.extend_from_slice(bytes_of(&record));
                    bytes.extend([block, name, description].into_iter().flat_map(str::bytes));
                }
            }
        }
        bytes
    }

    /// A count for the next launch of `function` on GPU `gpu`, or for the next range if there is no function.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are too many; the error of the library.
    pub fn take(&self, gpu: u32, function: FunctionRef) -> Result<Count> {
        let GpuCounters { agent, passes, turns, .. } = &self.gpus[gpu as usize];
        let too_many = || {
            status!(
                RESOURCE_EXHAUSTED,
                "more than {} launches would be counted at a time in one pass; choose some with a filter",
                most_counting(passes.len())
            )
        };
        let number = turns.take(function);
        let pass = &passes[number];
        let capture = pass.captures.take(|| Ok(agent.capture(&pass.events)?), too_many);
        let capture = capture.inspect_err(|_| turns.give_back(function, number))?;
        Ok(Count { capture, pass: number, function, turns: turns.clone(), is_kept: Cell::new(false) })
    }

    /// The profile records of the samples of `count` for the dispatch of `event` on `stream`: one for each set of its
    /// pass, each followed by its values.
    ///
    /// # Errors
    /// The error of the library; DATA_LOSS if it returns fewer values than it has declared.
    pub fn sample_records(&self, stream: Stream, event: &DispatchEvent, count: &Count) -> Result<Vec<u8>> {
        self.records(stream, count, |record| {
            record.flags = flags::SAMPLE_OF_DISPATCH | flags::SAMPLE_HAS_TICKS;
            if event.flags & flags::DISPATCH_OF_COMMAND_BUFFER != 0 {
                record.flags |= flags::SAMPLE_OF_COMMAND;
            }
            record.scope = CounterSampleScope::Dispatch as u32;
            record.dispatch_event_id = event.event_id;
            record.submission_id = event.submission_id;
            record.command_buffer_id = event.command_buffer_id;
            record.executable_id = event.executable_id;
            (record.start_tick, record.end_tick) = (event.start_tick, event.end_tick);
            record.command_index = event.command_index;
            record.function_ordinal = event.function_ordinal;
        })
    }

    /// The profile records of the samples of `count` for a range of time between two ticks. The range was read on the
    /// queue of `stream`.
    ///
    /// # Errors
    /// As for [`Self::sample_records`].
    pub fn range_records(&self, stream: Stream, ticks: (u64, u64), count: &Count) -> Result<Vec<u8>> {
        self.records(stream, count, |record| {
            record.flags = flags::SAMPLE_HAS_TICKS;
            record.scope = CounterSampleScope::TimeRange as u32;
            (record.start_tick, record.end_tick) = ticks;
        })
    }

    /// A record for each set of the pass, completed by `fill` and followed by its values.
    fn records(&self, stream: Stream, count: &Count, fill: impl Fn(&mut CounterSampleRecord)) -> Result<Vec<u8>> {
        let values = count.capture.values()?;
        let mut bytes = Vec::new();
        for set in self.gpus[stream.gpu as usize].sets.iter().filter(|set| set.pass == count.pass) {
            let mut record = CounterSampleRecord::blank();
            fill(&mut record);
            record.record_length += set.values * size_of::<u64>() as u32;
            record.sample_id = self.next_sample.fetch_add(1, Ordering::Relaxed);
            record.counter_set_id = set.id;
            record.stream_id = stream.id();
            record.physical_device_ordinal = stream.gpu;
            record.queue_ordinal = stream.queue;
            record.sample_value_count = set.values;
            bytes.extend_from_slice(bytes_of(&record));
            for counter in &set.counters {
                let before = bytes.len();
                let own = values.iter().filter(|(event, _)| *event == counter.event);
                bytes.extend(own.flat_map(|(_, value)| value.to_ne_bytes()));
                let found = (bytes.len() - before) / size_of::<u64>();
                if found != counter.values as usize {
                    let name = counter.known.name;
                    return Err(status!(DATA_LOSS, "{name} has {found} values, and had {} before", counter.values));
                }
            }
        }
        Ok(bytes)
    }
}

impl GpuCounters {
    fn new(
        library: &Arc<AqlProfile>,
        ordinal: usize,
        gpu: &Gpu,
        selections: &[Selection],
        sets: &[Vec<&'static Known>],
    ) -> Result<Self> {
        let name = &gpu.agent().info().name;
        let memory = CaptureMemory {
            host: gpu.cpu().kernarg.clone(),
            device: gpu.info().coarse.clone(),
            agents: vec![gpu.agent().handle()],
        };
        let agent = library.register(gpu.agent(), memory)?;
        let events = |known: &Vec<&'static Known>| known.iter().map(|known| event_of(known, name)).collect();
        let events = sets.iter().map(events).collect::<Result<Vec<Vec<Event>>>>()?;
        for (known, event) in sets.iter().flatten().zip(events.iter().flatten()) {
            if !agent.knows(event)? {
                return Err(status!(FAILED_PRECONDITION, "the aqlprofile library counts no {} on {name}", known.name));
            }
        }
        let passes = passes(&events, |events| agent.capture(events).map(drop))
            .annotate(|| format!("counting hardware counters of {name}, each in a pass of its own"))?;
        let captures = passes.iter().map(|events| Ok(agent.capture(events)?)).collect::<Result<Vec<_>>>()?;
        // How many values each has, one that was never used tells.
        let values = captures.iter().map(Capture::values).collect::<Result<Vec<_>>>()?;
        let mut parts = Vec::new();
        for ((selection, known), events) in selections.iter().zip(sets).zip(&events) {
            let counted_by = passes_of(events, &passes);
            for pass in (0..passes.len()).filter(|pass| counted_by.contains(&Some(*pass))) {
                let of_pass = known.iter().zip(events).zip(&counted_by).filter(|(_, by)| **by == Some(pass));
                let of_pass = of_pass.map(|((known, event), _)| (*known, *event));
                let counters = counters_of(of_pass, &values[pass], name)?;
                let id = (ordinal as u64) << 32 | (parts.len() as u64 + 1);
                let name = set_name(&selection.name, pass, passes.len());
                let values = counters.iter().map(|counter| counter.values).sum();
                parts.push(Set { id, name, pass, counters, values });
            }
        }
        tell_passes(ordinal, name, &parts, passes.len());
        let (most, turns) = (most_counting(passes.len()), Arc::new(Turns::new(passes.len())));
        let passes = passes.into_iter().zip(captures);
        let passes = passes.map(|(events, first)| Pass { events, captures: Pool::new(first, most) }).collect();
        Ok(Self { agent, passes, sets: parts, turns })
    }
}

/// The counters of the GPU `gpu`. Their values are consecutive in a sample; `values` has the number of values of each
/// event.
fn counters_of(
    counted: impl Iterator<Item = (&'static Known, Event)>,
    values: &[(Event, u64)],
    gpu: &str,
) -> Result<Vec<Counter>> {
    let mut offset = 0;
    let counter = |(known, event): (&'static Known, Event)| {
        let count = values.iter().filter(|(of, _)| *of == event).count() as u32;
        if count == 0 {
            return Err(status!(FAILED_PRECONDITION, "{} has no values on {gpu}", known.name));
        }
        offset += count;
        Ok(Counter { known, event, offset: offset - count, values: count })
    };
    counted.map(counter).collect()
}

/// The number of launches of a GPU that can be counted at a time in this number of passes.
fn most_counting(passes: usize) -> usize {
    MOST_CAPTURES / passes
}

/// The passes in which `sets` are counted, such that each pass `fits`. A set that fits is in one pass, otherwise each
/// of its events is. A set goes to the first pass that has room for it.
///
/// # Errors
/// The error of `fits` for a single event, or any error other than too many events; RESOURCE_EXHAUSTED for more than
/// [`MOST_PASSES`].
fn passes(sets: &[Vec<Event>], fits: impl Fn(&[Event]) -> hsa::Result<()>) -> Result<Vec<Vec<Event>>> {
    let mut passes: Vec<Vec<Event>> = Vec::new();
    // Why there is no pass for `events`, if there is none.
    let mut place = |events: &[Event]| -> Result<Option<Status>> {
        for pass in &mut passes {
            let all = union(pass, events);
            if all.len() == pass.len() || why_not(fits(&all))?.is_none() {
                *pass = all;
                return Ok(None);
            }
        }
        let own = union(&[], events);
        let why = why_not(fits(&own))?;
        if why.is_none() && passes.len() == MOST_PASSES {
            return Ok(Some(status!(RESOURCE_EXHAUSTED, "the sets of counters take more than {MOST_PASSES} passes")));
        }
        if why.is_none() {
            passes.push(own);
        }
        Ok(why)
    };
    for events in sets {
        if place(events)?.is_some() {
            for event in events {
                place(&[*event])?.map_or(Ok(()), Err)?;
            }
        }
    }
    Ok(passes)
}

/// The reason for which events cannot be counted at once; none if they can. The library only reports a failure: the
/// exception of ROCm's `counters.cpp` has no status, and its C functions return `HSA_STATUS_ERROR` for it.
fn why_not(fits: hsa::Result<()>) -> Result<Option<Status>> {
    match fits {
        Ok(()) => Ok(None),
        Err(error) if error.status() == Some(HsaStatus::ERROR) => Ok(Some(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// The events of `pass` and then those of `events`, each once.
fn union(pass: &[Event], events: &[Event]) -> Vec<Event> {
    let mut all = pass.to_vec();
    for event in events {
        if !all.contains(event) {
            all.push(*event);
        }
    }
    all
}

/// The pass that counts each of the `events` of a set: the first pass with all of them, otherwise the first with the
/// event.
fn passes_of(events: &[Event], passes: &[Vec<Event>]) -> Vec<Option<usize>> {
    let whole = passes.iter().position(|pass| events.iter().all(|event| pass.contains(event)));
    let pass_of = |event| whole.or_else(|| passes.iter().position(|pass| pass.contains(event)));
    events.iter().map(pass_of).collect()
}

/// The name of the part of the set `name` in one of several passes.
fn set_name(name: &str, pass: usize, passes: usize) -> String {
    let name = if name.is_empty() { SET_NAME } else { name };
    if passes == 1 { name.to_owned() } else { format!("{name} (pass {} of {passes})", pass + 1) }
}

/// Reports the passes on GPU `ordinal` on standard error, once for each text, if there are several.
fn tell_passes(ordinal: usize, gpu: &str, sets: &[Set], passes: usize) {
    static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    if passes == 1 {
        return;
    }
    let names = |set: &Set| {
        let counters: Vec<_> = set.counters.iter().map(|counter| counter.known.name).collect();
        format!("'{}': {}", set.name, counters.join(", "))
    };
    let text = format!(
        "GPU {ordinal} ({gpu}) has too few hardware counters to count all at once, and counts them in {passes} \
         passes: each launch of a function, or range of time, counts one, the next one the next. A function that is \
         launched fewer than {passes} times lacks the last ones. {}",
        sets.iter().map(names).collect::<Vec<_>>().join("; ")
    );
    if TOLD.lock().get_or_insert_default().insert(text.clone()) {
        messages::emit(&text);
    }
}

#[cfg(test)]
mod tests {
    use hsa_abi::aqlprofile::AqlProfileBlock as Block;

    use super::*;
    use amdgpu_ffi::Code;

    /// An error of a library.
    fn said(status: HsaStatus) -> hsa::Error {
        hsa::Error::Call { call: "count", status, details: String::new() }
    }

    #[test]
    fn each_pass_has_its_turn_and_one_that_was_lost_has_it_again() {
        let function = |executable| FunctionRef { executable, ordinal: 0 };
        let turns = Turns::new(3);
        assert_eq!([(); 4].map(|()| turns.take(function(1))), [0, 1, 2, 0]);
        assert_eq!(turns.take(function(2)), 0);
        turns.give_back(function(1), 1);
        assert_eq!([(); 3].map(|()| turns.take(function(1))), [1, 1, 2]);
        assert_eq!([(); 2].map(|()| Turns::new(1).take(function(1))), [0, 0]);
    }

    #[test]
    fn what_fails_for_another_reason_than_that_it_is_too_much_is_in_no_pass() {
        let event = |event_id| Event { block_index: 0, event_id, flags: 0, block_name: Block::SQ };
        let fits = |events: &[Event]| match events.len() {
            1 => Ok(()),
            _ => Err(said(HsaStatus::ERROR_OUT_OF_RESOURCES)),
        };
        let status = passes(&[vec![event(1), event(2)]], fits).unwrap_err();
        assert_eq!(status.code(), Code::RESOURCE_EXHAUSTED, "{status}");
    }

    #[test]
    fn there_are_no_more_passes_than_a_launch_can_have_captures_for() {
        let event = |event_id| Event { block_index: 0, event_id, flags: 0, block_name: Block::SQ };
        let fits = |events: &[Event]| match events.len() <= 3 {
            true => Ok(()),
            false => Err(said(HsaStatus::ERROR)),
        };
        // Sets of three of nine events: those that find no pass for all of theirs have them in several.
        let of_three = |n: u32| (0..n).flat_map(move |c| (0..c).flat_map(move |b| (0..b).map(move |a| [a, b, c])));
        let sets: Vec<_> = of_three(9).map(|ids| ids.map(event).to_vec()).collect();
        assert_eq!((sets.len(), passes(&sets, fits).unwrap().len()), (84, MOST_PASSES));
        let sets: Vec<_> = (0..200).map(|id| vec![event(id)]).collect();
        assert_eq!(passes(&sets, fits).unwrap_err().code(), Code::RESOURCE_EXHAUSTED);
    }

    /// A GPU that counts three events at a time, and does not have event 9.
    #[test]
    fn what_does_not_fit_is_counted_in_passes() {
        let event = |event_id| Event { block_index: 0, event_id, flags: 0, block_name: Block::SQ };
        let split = |sets: &[&[u32]]| {
            let sets: Vec<Vec<_>> = sets.iter().map(|events| events.iter().copied().map(event).collect()).collect();
            let fits = |events: &[Event]| match events.len() <= 3 && !events.contains(&event(9)) {
                true => Ok(()),
                false => Err(said(HsaStatus::ERROR)),
            };
            let passes = passes(&sets, fits)?;
            let ids = |pass: &Vec<Event>| pass.iter().map(|event| event.event_id).collect::<Vec<_>>();
            let counted_by = |events: &Vec<Event>| passes_of(events, &passes).into_iter().flatten().collect::<Vec<_>>();
            let of_sets = sets.iter().map(counted_by).collect::<Vec<_>>();
            Ok::<_, amdgpu_ffi::Status>((passes.iter().map(ids).collect::<Vec<_>>(), of_sets))
        };
        type Lists<'a, T> = &'a [&'a [T]];
        let cases: [(Lists<'_, u32>, Lists<'_, u32>, Lists<'_, usize>); 5] = [
            (&[&[1, 2, 3], &[2, 1]], &[&[1, 2, 3]], &[&[0, 0, 0], &[0, 0]]),
            // Too large for one.
            (&[&[1, 2, 3, 4, 5]], &[&[1, 2, 3], &[4, 5]], &[&[0, 0, 0, 1, 1]]),
            (&[&[1], &[1, 2, 3, 4]], &[&[1, 2, 3], &[4]], &[&[0], &[0, 0, 0, 1]]),
            // Sets stay together, though an event is in two passes then.
            (&[&[1, 2], &[2, 3, 4]], &[&[1, 2], &[2, 3, 4]], &[&[0, 0], &[1, 1, 1]]),
            // A set that fits an earlier pass goes there.
            (&[&[1, 2], &[3, 4], &[5], &[4, 6]], &[&[1, 2, 5], &[3, 4, 6]], &[&[0, 0], &[1, 1], &[0], &[1, 1]]),
        ];
        for (sets, passes, of_sets) in cases {
            let found = split(sets).unwrap();
            assert!(found.0 == passes && found.1 == of_sets, "{sets:?}: {found:?}");
        }
        assert_eq!(split(&[&[1, 9]]).unwrap_err().code(), Code::UNKNOWN);
    }
}
