// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware counters: which there are, and what dispatches, or ranges of time, have them at.
//!
//! A dispatch that is counted lies between a packet that resets and starts the counters and two that read and stop
//! them, all of which ROCm's aqlprofile library makes (`hsa/aqlprofile.rs`), and runs alone on its queue. The counters
//! are the GPU's: what another queue of it runs meanwhile may count, too.
//!
//! A range is of a GPU: from the begin of a session, or a flush of it, to the next flush or the end. A start packet on
//! each of the GPU's queues has their kernels count (`COMPUTE_PERFCOUNT_ENABLE` is a register of each queue: the kernel
//! driver's `v9_structs.h` and its successors have it in the queue's descriptor), the last of which has the counters
//! begin; at the end of a range the last queue has packets that read and stop them. Whatever runs meanwhile counts, of
//! any program if the hardware does so. What is running when a range begins or ends is a matter of the hardware's.
//!
//! All sets that a session is asked for are counted at once, each event once. What the hardware has no counters for at
//! the same time is refused: a dispatch cannot be run again to count the rest. Each set has its own samples all the
//! same. A counter has several values where several parts
//! of the GPU count for themselves: dies, shader engines, work-group processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hsa_abi::performance::{self, Numbering, PerfEvent};
use parking_lot::Mutex;

use crate::core::gpu::Gpu;
use crate::ffi::profile::schema::{
    CounterRecord, CounterSampleRecord, CounterSampleScope, CounterSetRecord, CounterUnit, DispatchEvent, Record, flags,
};
use crate::ffi::profile::{Stream, bytes_of};
use crate::ffi::{Annotate, Result, status};
use crate::hsa::aqlprofile::{AqlProfile, Block, Capture, CaptureMemory, CountedAgent, Event};

/// What sets are called that were given no name.
const SET_NAME: &str = "amdgpu.pmc";

/// Captures of a GPU: each has two allocations of its own, which ROCR takes pages for.
const MOST_CAPTURES: usize = 4096;

/// Packets around a dispatch that is counted.
pub const PACKETS: u32 = 3;

/// A counter that can be asked for.
#[derive(Debug)]
struct Known {
    name: &'static str,
    description: &'static str,
    unit: CounterUnit,
    event: PerfEvent,
}

impl Known {
    const fn count(name: &'static str, event: PerfEvent, description: &'static str) -> Self {
        Self { name, description, unit: CounterUnit::Count, event }
    }
}

const KNOWN: [Known; 16] = [
    Known::count("SQ_WAVES", PerfEvent::Waves, "Waves launched."),
    Known::count("SQ_WAVES_32", PerfEvent::Waves32, "Waves of 32 lanes launched."),
    Known::count("SQ_WAVES_64", PerfEvent::Waves64, "Waves of 64 lanes launched."),
    Known {
        name: "SQ_BUSY_CYCLES",
        description: "Clock cycles with waves, in each part that counts.",
        unit: CounterUnit::Cycles,
        event: PerfEvent::BusyCycles,
    },
    Known::count("SQ_INSTS_VALU", PerfEvent::InstsValu, "Vector instructions that compute."),
    Known::count("SQ_INSTS_SALU", PerfEvent::InstsSalu, "Scalar instructions that compute."),
    Known::count("SQ_INSTS_SMEM", PerfEvent::InstsSmem, "Scalar memory instructions."),
    Known::count("SQ_INSTS_LDS", PerfEvent::InstsLds, "Instructions of the local data share."),
    Known::count("SQ_INSTS_VMEM", PerfEvent::InstsVmem, "Vector memory instructions."),
    Known::count("SQ_INSTS_VMEM_RD", PerfEvent::InstsVmemRd, "Vector memory instructions that read."),
    Known::count("SQ_INSTS_VMEM_WR", PerfEvent::InstsVmemWr, "Vector memory instructions that write."),
    Known::count("SQ_INSTS_FLAT", PerfEvent::InstsFlat, "Flat instructions."),
    Known::count("SQ_INSTS_TEX_LOAD", PerfEvent::InstsTexLoad, "Loads by the texture unit."),
    Known::count("SQ_INSTS_TEX_STORE", PerfEvent::InstsTexStore, "Stores by the texture unit."),
    Known {
        name: "SQ_WAVE_CYCLES",
        description: "Clock cycles of all waves; on gfx9 in units of four.",
        unit: CounterUnit::Cycles,
        event: PerfEvent::WaveCycles,
    },
    Known::count("SPI_CSN_NUM_THREADGROUPS", PerfEvent::Threadgroups, "Workgroups launched, by compute pipe 0."),
];

/// A set of counters that a session is asked for.
#[derive(Debug, Clone)]
pub struct Selection {
    /// What it is called; may be empty.
    pub name: String,
    /// The names of its counters.
    pub counters: Vec<String>,
}

/// The counters of a session.
#[derive(Debug)]
pub struct Counters {
    gpus: Vec<GpuCounters>,
    next_sample: AtomicU64,
}

/// Those of one GPU.
#[derive(Debug)]
struct GpuCounters {
    agent: Arc<CountedAgent>,
    /// Those of all sets, each once.
    events: Vec<Event>,
    sets: Vec<Set>,
    /// Captures whose packets are in no queue.
    free: Mutex<Vec<Capture>>,
    /// How many captures were made.
    made: AtomicUsize,
}

#[derive(Debug)]
struct Set {
    id: u64,
    name: String,
    counters: Vec<Counter>,
    /// Values of a sample.
    values: u32,
}

#[derive(Debug)]
struct Counter {
    known: &'static Known,
    event: Event,
    /// Its first value in a sample, and how many it has.
    offset: u32,
    values: u32,
}

impl Counters {
    /// The counters of `selections` on GPUs of one device. Loads what makes their packets.
    ///
    /// # Errors
    /// NOT_FOUND without the library; UNIMPLEMENTED for counters that the driver or a GPU does not know;
    /// INVALID_ARGUMENT for a set that is empty or has one twice; what the library said.
    pub fn new(selections: &[Selection], gpus: &[Arc<Gpu>]) -> Result<Self> {
        let sets = selections.iter().map(find).collect::<Result<Vec<_>>>()?;
        let library = AqlProfile::load(gpus[0].agent().library(), "hardware counters")?;
        let of_gpu = |(ordinal, gpu): (usize, &Arc<Gpu>)| GpuCounters::new(&library, ordinal, gpu, selections, &sets);
        let gpus = gpus.iter().enumerate().map(of_gpu).collect::<Result<_>>()?;
        Ok(Self { gpus, next_sample: AtomicU64::new(1) })
    }

    /// What a profile says of the sets: records, each with its name behind it.
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

    /// What it says of the counters: records, each with block, name and description behind it.
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

    /// Moves captures of GPU `gpu` to `captures` until it has `count`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when there would be too many; what the library said when it makes no more.
    pub fn take(&self, gpu: u32, captures: &mut Vec<Capture>, count: usize) -> Result<()> {
        let counters = &self.gpus[gpu as usize];
        {
            let mut free = counters.free.lock();
            let kept = free.len().saturating_sub(count.saturating_sub(captures.len()));
            captures.extend(free.drain(kept..));
        }
        while captures.len() < count {
            if counters.made.fetch_add(1, Ordering::Relaxed) >= MOST_CAPTURES {
                counters.made.fetch_sub(1, Ordering::Relaxed);
                return Err(status!(
                    RESOURCE_EXHAUSTED,
                    "more than {MOST_CAPTURES} launches would be counted at a time; choose some with a filter"
                ));
            }
            captures.push(counters.agent.capture(&counters.events)?);
        }
        Ok(())
    }

    /// One capture of GPU `gpu`.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub fn take_one(&self, gpu: u32) -> Result<Capture> {
        let mut captures = Vec::with_capacity(1);
        self.take(gpu, &mut captures, 1)?;
        captures.pop().ok_or_else(|| status!(INTERNAL, "no capture was made"))
    }

    /// Takes back captures whose packets are complete.
    pub fn give_back(&self, gpu: u32, captures: impl Iterator<Item = Capture>) {
        self.gpus[gpu as usize].free.lock().extend(captures);
    }

    /// What a profile says that `capture` counted of the dispatch of `event` on `stream`: a record for each set, each
    /// with its values behind it.
    ///
    /// # Errors
    /// What the library said; DATA_LOSS when it has not the values that it said it would have.
    pub fn sample_records(&self, stream: Stream, event: &DispatchEvent, capture: &Capture) -> Result<Vec<u8>> {
        self.records(stream, capture, |record| {
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

    /// What a profile says that `capture` counted on a GPU in a range of time, from one tick to another; read on the
    /// queue of `stream`.
    ///
    /// # Errors
    /// As for [`Self::sample_records`].
    pub fn range_records(&self, stream: Stream, ticks: (u64, u64), capture: &Capture) -> Result<Vec<u8>> {
        self.records(stream, capture, |record| {
            record.flags = flags::SAMPLE_HAS_TICKS;
            record.scope = CounterSampleScope::TimeRange as u32;
            (record.start_tick, record.end_tick) = ticks;
        })
    }

    /// A record for each set, completed by `fill`, with its values behind it.
    fn records(&self, stream: Stream, capture: &Capture, fill: impl Fn(&mut CounterSampleRecord)) -> Result<Vec<u8>> {
        let values = capture.values()?;
        let mut bytes = Vec::new();
        for set in &self.gpus[stream.gpu as usize].sets {
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

/// The counters of a selection.
fn find(selection: &Selection) -> Result<Vec<&'static Known>> {
    let Selection { name: set, counters } = selection;
    if counters.is_empty() {
        return Err(status!(INVALID_ARGUMENT, "the set '{set}' of hardware counters is empty"));
    }
    let of_name = |(index, name): (usize, &String)| {
        if counters[..index].contains(name) {
            return Err(status!(INVALID_ARGUMENT, "the set '{set}' of hardware counters has {name} twice"));
        }
        KNOWN.iter().find(|known| known.name == *name).ok_or_else(|| {
            let known: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
            status!(UNIMPLEMENTED, "there is no hardware counter '{name}'; there are {}", known.join(", "))
        })
    };
    counters.iter().enumerate().map(of_name).collect()
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
        let mut events: Vec<Event> = Vec::new();
        for known in sets.iter().flatten() {
            let event = event_of(known, name)?;
            if !agent.knows(&event)? {
                return Err(status!(FAILED_PRECONDITION, "the aqlprofile library counts no {} on {name}", known.name));
            }
            if !events.contains(&event) {
                events.push(event);
            }
        }
        // How many values each has, one that was never used tells.
        let capture = agent.capture(&events).annotate(|| {
            format!(
                "counting {} hardware counters of {name} at a time; where it has too few, ask for some of them in each of \
                 several runs",
                events.len()
            )
        })?;
        let values = capture.values()?;
        let set = |(number, (selection, known)): (usize, (&Selection, &Vec<&'static Known>))| {
            let mut offset = 0;
            let counter = |known: &&'static Known| {
                let event = event_of(known, name)?;
                let count = values.iter().filter(|(of, _)| *of == event).count() as u32;
                if count == 0 {
                    return Err(status!(FAILED_PRECONDITION, "{} has no values on {name}", known.name));
                }
                offset += count;
                Ok(Counter { known, event, offset: offset - count, values: count })
            };
            let counters = known.iter().map(counter).collect::<Result<Vec<_>>>()?;
            Ok(Set {
                id: (ordinal as u64) << 32 | (number as u64 + 1),
                name: if selection.name.is_empty() { SET_NAME.to_owned() } else { selection.name.clone() },
                counters,
                values: offset,
            })
        };
        let sets = selections.iter().zip(sets).enumerate().map(set).collect::<Result<_>>()?;
        Ok(Self { agent, events, sets, free: Mutex::new(vec![capture]), made: AtomicUsize::new(1) })
    }
}

/// The event of a counter on a GPU of that name.
fn event_of(known: &Known, gpu: &str) -> Result<Event> {
    let number = Numbering::of(gpu).and_then(|numbering| known.event.number(numbering));
    let event_id = number.ok_or_else(|| status!(UNIMPLEMENTED, "{gpu} has no hardware counter {}", known.name))?;
    let block_name = match known.event.block() {
        performance::Block::Sq => Block::SQ,
        performance::Block::Spi => Block::SPI,
    };
    Ok(Event { block_index: 0, event_id, flags: 0, block_name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Code;

    #[test]
    fn sets_are_of_known_counters_each_once() {
        let found = |names: &[&str]| {
            let counters = names.iter().map(|name| name.to_string()).collect();
            find(&Selection { name: "mine".to_owned(), counters })
        };
        let names: Vec<_> = found(&["SQ_WAVES_64", "SQ_WAVES"]).unwrap().iter().map(|known| known.event).collect();
        assert_eq!(names, [PerfEvent::Waves64, PerfEvent::Waves]);
        for (names, code, text) in [
            (&[][..], Code::INVALID_ARGUMENT, "'mine' of hardware counters is empty"),
            (&["SQ_WAVES", "SQ_WAVES"], Code::INVALID_ARGUMENT, "SQ_WAVES twice"),
            (&["SQ_WAVES", "SQ_TEA"], Code::UNIMPLEMENTED, "'SQ_TEA'; there are SQ_WAVES, "),
        ] {
            let status = found(names).unwrap_err();
            assert_eq!(status.code(), code, "{status}");
            assert!(status.to_string().contains(text), "{status}");
        }
    }

    #[test]
    fn events_are_those_of_the_gpu() {
        let number = |name: &str, gpu| {
            let known = KNOWN.iter().find(|known| known.name == name).unwrap();
            event_of(known, gpu).map(|event| event.event_id)
        };
        let valu = ["gfx90a", "gfx1030", "gfx1100", "gfx1201"].map(|gpu| number("SQ_INSTS_VALU", gpu).unwrap());
        assert_eq!(valu, [26, 64, 62, 50]);
        let gfx9 = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"];
        assert_eq!(gfx9.map(|gpu| number("SQ_INSTS_SALU", gpu).unwrap()), [30, 31, 56, 60, 62]);
        for (name, gpu) in [("SQ_WAVES_32", "gfx942"), ("SQ_INSTS_VMEM", "gfx1100"), ("SQ_WAVES", "gfx1250")] {
            let status = number(name, gpu).unwrap_err();
            assert!(status.to_string().contains(&format!("{gpu} has no hardware counter {name}")), "{status}");
        }
    }
}
