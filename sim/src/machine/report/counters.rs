// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Counters of the machine since `hsa_init`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::clock::process_cpu_time;
use crate::machine::report::costs::Costs;
use sim_wave::COMPILED;

/// Counters over all agents and queues.
#[derive(Debug, Default)]
pub struct Counters {
    /// Kernel dispatch packets completed.
    pub dispatches: AtomicU64,
    /// Packets of any type completed.
    pub packets: AtomicU64,
    /// Instructions executed, each counted once per wave.
    pub wave_instructions: AtomicU64,
    /// Executed instructions that access global memory through vector addresses: `global_*` and `flat_*`.
    pub global_accesses: AtomicU64,
    /// Workgroups executed.
    pub workgroups: AtomicU64,
    /// Waves of the executed workgroups.
    pub waves: AtomicU64,
    /// Nanoseconds spent in kernels, summed over dispatches.
    pub execute_ns: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counters, the calls of each function and `costs` as one JSON object.
    fn to_json<'a>(&self, agents: impl Iterator<Item = &'a str>, calls: &BTreeMap<&str, u64>, costs: &Costs) -> String {
        let mut json = String::from("{\"agents\":[");
        for (index, agent) in agents.enumerate() {
            // Target names need no escaping.
            let _ = write!(json, "{}\"{agent}\"", if index == 0 { "" } else { "," });
        }
        json.push(']');
        for (name, counter) in [
            ("dispatches", &self.dispatches),
            ("packets", &self.packets),
            ("wave_instructions", &self.wave_instructions),
            ("global_accesses", &self.global_accesses),
            ("workgroups", &self.workgroups),
            ("waves", &self.waves),
            ("execute_ns", &self.execute_ns),
        ] {
            let _ = write!(json, ",\"{name}\":{}", counter.load(Ordering::Relaxed));
        }
        let _ = write!(json, ",\"cpu_ns\":{}", process_cpu_time());
        let compiled = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let _ = write!(
            json,
            ",\"compiled\":{{\"kernels\":{},\"micro_ops\":{},\"bytes\":{},\"ns\":{}}}",
            compiled(&COMPILED.kernels),
            compiled(&COMPILED.ops),
            compiled(&COMPILED.bytes),
            compiled(&COMPILED.ns)
        );
        json.push_str(",\"calls\":{");
        for (index, (function, count)) in calls.iter().enumerate() {
            let _ = write!(json, "{}\"{function}\":{count}", if index == 0 { "" } else { "," });
        }
        let _ = writeln!(json, "}},\"costs\":{}}}", costs.to_json());
        json
    }

    /// Writes the counters, calls and costs to `path`. Prints an error if that fails.
    pub fn write<'a>(
        &self,
        path: &Path,
        agents: impl Iterator<Item = &'a str>,
        calls: &BTreeMap<&str, u64>,
        costs: &Costs,
    ) {
        if let Err(error) = std::fs::write(path, self.to_json(agents, calls, costs)) {
            eprintln!("hsa-sim: cannot write HSA_SIM_STATS={}: {error}", path.display());
        }
    }
}
