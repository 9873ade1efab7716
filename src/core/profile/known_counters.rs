// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The known hardware counters: names, descriptions, and their events on each GPU.

use hsa_abi::performance::{Numbering, PerfEvent};

use amdgpu_ffi::profile::schema::CounterUnit;
use amdgpu_ffi::{Result, status};
use amdgpu_hsa::aqlprofile::Event;

/// A counter that can be asked for.
#[derive(Debug)]
pub struct Known {
    /// The name, as ROCm's tools spell it.
    pub name: &'static str,
    /// A sentence for the profile and the page of counters.
    pub description: &'static str,
    /// The unit of its values.
    pub unit: CounterUnit,
    /// The event that the hardware counts, by its name for all GPUs.
    pub event: PerfEvent,
}

impl Known {
    const fn count(name: &'static str, event: PerfEvent, description: &'static str) -> Self {
        Self { name, description, unit: CounterUnit::Count, event }
    }

    const fn cycles(name: &'static str, event: PerfEvent, description: &'static str) -> Self {
        Self { name, description, unit: CounterUnit::Cycles, event }
    }
}

const LDS_ACTIVE: &str = "Clock cycles in which the local data share is used.";
const LDS_CONFLICT: &str = "Clock cycles with bank conflicts of the local data share.";

/// All known counters, in the order of the table in `docs/using/profiling.md`.
pub const KNOWN: [Known; 25] = [
    Known::count("SQ_WAVES", PerfEvent::Waves, "Waves launched."),
    Known::count("SQ_WAVES_32", PerfEvent::Waves32, "Waves of 32 lanes launched."),
    Known::count("SQ_WAVES_64", PerfEvent::Waves64, "Waves of 64 lanes launched."),
    Known::cycles(
        "SQ_BUSY_CYCLES",
        PerfEvent::BusyCycles,
        "Clock cycles with waves, in each part of the GPU that counts.",
    ),
    Known::count("SQ_INSTS_VALU", PerfEvent::InstsValu, "Vector instructions that compute, once for each wave."),
    Known::count("SQ_INSTS_SALU", PerfEvent::InstsSalu, "Scalar instructions that compute, once for each wave."),
    Known::count("SQ_INSTS_SMEM", PerfEvent::InstsSmem, "Scalar memory instructions."),
    Known::count("SQ_INSTS_LDS", PerfEvent::InstsLds, "Instructions of the local data share."),
    Known::count("SQ_INSTS_VMEM", PerfEvent::InstsVmem, "Vector memory instructions, flat ones among them."),
    Known::count("SQ_INSTS_VMEM_RD", PerfEvent::InstsVmemRd, "Vector memory instructions that read."),
    Known::count("SQ_INSTS_VMEM_WR", PerfEvent::InstsVmemWr, "Vector memory instructions that write."),
    Known::count("SQ_INSTS_FLAT", PerfEvent::InstsFlat, "Flat instructions."),
    Known::count("SQ_INSTS_TEX_LOAD", PerfEvent::InstsTexLoad, "Loads by the texture unit."),
    Known::count("SQ_INSTS_TEX_STORE", PerfEvent::InstsTexStore, "Stores by the texture unit."),
    Known::cycles("SQ_WAVE_CYCLES", PerfEvent::WaveCycles, "Clock cycles of all waves, on gfx9 in units of four."),
    Known::cycles("SQ_LDS_IDX_ACTIVE", PerfEvent::LdsIdxActive, LDS_ACTIVE),
    Known::cycles("SQ_LDS_BANK_CONFLICT", PerfEvent::LdsBankConflict, LDS_CONFLICT),
    Known::cycles("SQC_LDS_IDX_ACTIVE", PerfEvent::SqcLdsIdxActive, LDS_ACTIVE),
    Known::cycles("SQC_LDS_BANK_CONFLICT", PerfEvent::SqcLdsBankConflict, LDS_CONFLICT),
    Known::count("SPI_CSN_NUM_THREADGROUPS", PerfEvent::Threadgroups, "Workgroups launched, by compute pipe 0."),
    Known::count(
        "TA_FLAT_READ_WAVEFRONTS",
        PerfEvent::FlatReadWavefronts,
        "Flat, global and scratch loads, once for each wave; no atomics.",
    ),
    Known::count(
        "TA_FLAT_WRITE_WAVEFRONTS",
        PerfEvent::FlatWriteWavefronts,
        "Flat, global and scratch stores, once for each wave; no atomics.",
    ),
    Known::count("TA_BUFFER_READ_WAVEFRONTS", PerfEvent::BufferReadWavefronts, "Buffer loads, once for each wave."),
    Known::count("TA_BUFFER_WRITE_WAVEFRONTS", PerfEvent::BufferWriteWavefronts, "Buffer stores, once for each wave."),
    Known::count(
        "TCP_TOTAL_CACHE_ACCESSES",
        PerfEvent::TotalCacheAccesses,
        "Cache lines that vector memory asks the caches of compute units for.",
    ),
];

/// A requested set of counters.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The name; may be empty.
    pub name: String,
    /// The names of its counters.
    pub counters: Vec<String>,
}

/// The counters of a selection.
///
/// # Errors
/// `INVALID_ARGUMENT` for an empty set or a counter that it has twice, `UNIMPLEMENTED` for an unknown counter.
pub fn find(selection: &Selection) -> Result<Vec<&'static Known>> {
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

/// The event of a counter on a GPU of that name.
///
/// # Errors
/// `UNIMPLEMENTED` if the GPU has no such counter.
pub fn event_of(known: &Known, gpu: &str) -> Result<Event> {
    let number = Numbering::of(gpu).and_then(|numbering| known.event.number(numbering));
    let event_id = number.ok_or_else(|| status!(UNIMPLEMENTED, "{gpu} has no hardware counter {}", known.name))?;
    Ok(Event { block_index: 0, event_id, flags: 0, block_name: known.event.block().of_events() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_ffi::Code;

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

    /// The table of counters in the book is made from [`KNOWN`]; `UPDATE_DOCS=1` writes it.
    #[test]
    fn the_page_of_counters_has_this_list() {
        const GPUS: [&str; 8] = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"];
        const MARKS: [&str; 2] = ["<!-- begin: counters -->\n", "<!-- end: counters -->\n"];
        let row = |known: &Known| {
            let has = GPUS.map(|gpu| event_of(known, gpu).is_ok());
            let [first, last] = [has.iter().position(|has| *has), has.iter().rposition(|has| *has)].map(Option::unwrap);
            assert!(has[first..=last].iter().all(|has| *has), "{}: a gap in {has:?}", known.name);
            let gpus =
                if first == last { GPUS[first].to_owned() } else { format!("{} to {}", GPUS[first], GPUS[last]) };
            let hardware = if known.event.is_documented() { "" } else { "; hardware alone" };
            let description = known.description.trim_end_matches('.');
            format!("| `{}` | {description} | {gpus}{hardware} |\n", known.name)
        };
        let rows: String = KNOWN.iter().map(row).collect();
        let table = format!("\n| counter | counted | GPUs |\n|---|---|---|\n{rows}\n");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/using/profiling.md");
        let page = std::fs::read_to_string(&path).expect("the page of profiles");
        let (before, rest) = page.split_once(MARKS[0]).expect("a mark where the table begins");
        let (_, after) = rest.split_once(MARKS[1]).expect("a mark where the table ends");
        let made = [before, MARKS[0], &table, MARKS[1], after].concat();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, made).expect("writing the page of profiles");
            return;
        }
        assert!(
            page == made,
            "docs/using/profiling.md is stale; UPDATE_DOCS=1 cargo test -p amdgpu-profile page_of_counters writes it"
        );
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
