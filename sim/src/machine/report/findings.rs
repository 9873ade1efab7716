// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Findings of the checks of `HSA_SIM_CHECK`. Each is reported once for each pair of instructions, on standard error
//! and, as JSON lines, in a file. At the end, the number of times is reported.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use parking_lot::Mutex;
use sim_wave::{CheckSet, Checks, Finding, Line, Sink, Touched};

use crate::machine::code::kernel::Kernel;
use crate::machine::config::checks::CheckConfig;
use crate::machine::memory::map::MemoryMap;
use crate::machine::queue::Queue;
use crate::machine::queue::pm4::PlacedCommand;
use crate::machine::report::race::{Race, RaceDetector};
use crate::machine::signal::Signals;

/// All findings since `hsa_init`.
pub struct Findings {
    asked: CheckConfig,
    seed: Option<u64>,
    output: Option<Mutex<File>>,
    /// Number of times of each finding, by check, kernel, code and the offsets of its instructions.
    counts: Mutex<BTreeMap<Key, u64>>,
}

type Key = (&'static str, String, u64, u32, Option<u32>);

fn key(finding: &Finding) -> Key {
    (
        finding.check,
        finding.kernel.clone(),
        finding.code,
        finding.line.offset,
        finding.other.as_ref().map(|other| other.offset),
    )
}

impl Findings {
    /// Creates an empty collection. `seed` decides which results are delayed.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(asked: CheckConfig, seed: Option<u64>) -> io::Result<Self> {
        let named = |path: &PathBuf| {
            OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_CHECK_OUTPUT={}: {error}", path.display()))
            })
        };
        let output = asked.output.as_ref().map(named).transpose()?.map(Mutex::new);
        Ok(Self { asked, seed, output, counts: Mutex::default() })
    }

    /// Reports the numbers of times of repeated findings.
    pub fn report(&self) {
        let counts = std::mem::take(&mut *self.counts.lock());
        if counts.is_empty() {
            return;
        }
        let total: u64 = counts.values().sum();
        eprintln!("hsa-sim: checks: {} findings, {total} times in all", counts.len());
        for ((check, kernel, code, offset, other), times) in counts {
            let mut json = format!(
                "{{\"check\":\"{check}\",\"kernel\":{},\"code\":\"{code:016x}\",\"offset\":{offset}",
                quoted(&kernel)
            );
            if let Some(other) = other {
                let _ = write!(json, ",\"other_offset\":{other}");
            }
            let _ = write!(json, ",\"times\":{times}}}");
            self.write(&json);
            if times > 1 {
                let other = other.map_or(String::new(), |other| format!(" and +{other:#x}"));
                eprintln!("hsa-sim:   {check}: kernel {kernel} at +{offset:#x}{other}: {times} times");
            }
        }
    }

    /// Number of different findings, by kernel and instructions.
    pub fn len(&self) -> usize {
        self.counts.lock().len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn write(&self, json: &str) {
        let Some(output) = &self.output else { return };
        // In one piece: other processes may append to the file, too.
        if let Err(error) = output.lock().write_all(format!("{json}\n").as_bytes()) {
            eprintln!("hsa-sim: cannot write HSA_SIM_CHECK_OUTPUT: {error}");
        }
    }
}

/// Context of the findings in one dispatch.
pub struct DispatchChecks<'a> {
    /// All findings.
    pub findings: &'a Findings,
    /// The machine's memory.
    pub memory: &'a MemoryMap,
    /// The machine's signals.
    pub signals: &'a Signals,
    /// Accesses of all dispatches.
    pub races: &'a RaceDetector,
    /// The queue.
    pub queue: &'a Queue,
    /// The index of the dispatch's packet.
    pub dispatch: u64,
    /// The PM4 command that started the dispatch, if one did.
    pub command: Option<PlacedCommand>,
    /// Number of the dispatch among all, if the check `race` is on.
    pub number: Option<u32>,
    /// The decoded kernel.
    pub kernel: &'a sim_wave::Kernel,
    /// The loaded kernel.
    pub loaded: &'a Kernel,
    /// Addresses of its arguments.
    pub arguments: Range<u64>,
    /// Text of a race with another dispatch.
    pub race: OnceLock<String>,
    /// The dispatch in the debugger, if there is one.
    pub debug: Option<&'a sim_debug::Dispatch<'a>>,
}

impl DispatchChecks<'_> {
    /// The checks to make; `None` if there are none.
    pub fn checks(&self) -> Option<Checks<'_>> {
        let Findings { asked, seed, .. } = self.findings;
        let &CheckConfig { set, fatal, .. } = asked;
        let memory = &self.memory.unwritten;
        (set != CheckSet::default()).then_some(Checks { set, memory, seed: *seed, fatal, sink: self })
    }

    fn to_json(&self, finding: &Finding) -> String {
        let line = |line: &Line| {
            let source = line.source.as_ref().map_or(String::new(), |source| format!(",\"source\":{}", quoted(source)));
            format!("{{\"pc\":{},\"offset\":{},\"text\":{}{source}}}", line.pc, line.offset, quoted(&line.text))
        };
        let memory = finding.memory.as_ref().map_or("null".to_owned(), |(address, place)| {
            let place = place.as_ref().map_or("null".to_owned(), |place| quoted(place));
            format!("{{\"address\":{address},\"is\":{place}}}")
        });
        let optional = |of: &Option<Line>| of.as_ref().map_or("null".to_owned(), line);
        let [before, after] = finding.around.each_ref().map(optional);
        format!(
            "{{\"check\":\"{}\",\"kernel\":{},\"code\":\"{:016x}\",\"what\":{},\"memory\":{memory},\"at\":{},\"before\":{before},\"after\":{after},\"other\":{},\
             \"workgroup\":{:?},\"wave\":{},\"lanes\":{},\"dispatch\":{},\"queue\":{}}}",
            finding.check,
            quoted(&finding.kernel),
            finding.code,
            quoted(&finding.what),
            line(&finding.line),
            optional(&finding.other),
            finding.workgroup,
            finding.wave,
            finding.lanes,
            self.dispatch,
            quoted(&self.queue.describe()),
        )
    }
}

impl Sink for DispatchChecks<'_> {
    fn found(&self, finding: &Finding) {
        let findings = self.findings;
        let times = {
            let mut counts = findings.counts.lock();
            let times = counts.entry(key(finding)).or_default();
            *times += 1;
            *times
        };
        if times == 1 {
            let command = self.command.map_or_else(String::new, |command| format!(", {command}"));
            let queue = self.queue.describe();
            eprintln!("hsa-sim: {finding}; dispatch {} of {queue}{command}", self.dispatch);
            findings.write(&self.to_json(finding));
            if let Some(debug) = self.debug {
                debug.found(&finding.to_string());
            }
        }
    }

    fn repeated(&self, finding: &Finding, times: u64) {
        *self.findings.counts.lock().entry(key(finding)).or_default() += times;
    }

    fn source(&self, pc: u64) -> Option<String> {
        self.loaded.source(pc)
    }

    fn is_mailbox(&self, address: u64) -> bool {
        self.signals.is_mailbox(address)
    }

    fn place(&self, address: u64) -> Option<String> {
        let memory = self.memory;
        let place = memory.place(address)?;
        // The nearest of the arguments that points into the same buffer.
        let buffer = memory.buffer(address)?;
        let arguments = memory.words(self.arguments.clone());
        let pointer = arguments.into_iter().filter(|(_, word)| (buffer.start..=address).contains(word));
        let pointer = pointer.max_by_key(|(_, word)| *word);
        Some(pointer.map_or(place.clone(), |(at, word)| {
            format!("{place}, {} bytes past the pointer at byte {at} of the kernel arguments", address - word)
        }))
    }

    fn touched(&self, accesses: &[Touched]) {
        let Some(number) = self.number else { return };
        // Races are collected under the detector's lock. Their memory is described after it, so that others can go on.
        let mut races: Vec<(Race, u64)> = Vec::new();
        self.races.touched(number, accesses, &mut |race| {
            let is_same = |known: &Race| (known.offset, known.other.pc) == (race.offset, race.other.pc);
            match races.iter_mut().find(|(known, _)| is_same(known)) {
                Some((_, times)) => *times += 1,
                None => races.push((race, 1)),
            }
        });
        for (race, times) in races {
            let mut line = self.kernel.line(race.offset);
            line.source = self.loaded.source(line.pc);
            let finding = Finding {
                check: "race",
                what: race.what,
                memory: Some((race.address, self.place(race.address))),
                kernel: self.kernel.name().to_owned(),
                code: self.kernel.code_hash(),
                pc: line.pc,
                line,
                around: [None, None],
                other: Some(race.other),
                workgroup: [0; 3],
                wave: 0,
                lanes: 0,
            };
            self.found(&finding);
            if times > 1 {
                self.repeated(&finding, times - 1);
            }
            self.race.get_or_init(|| finding.to_string());
        }
    }
}

/// Quotes a text as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(json, "\\u{:04x}", control as u32);
            }
            other => json.push(other),
        }
    }
    json + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a \"b\"\\\n\u{e4}"), "\"a \\\"b\\\"\\\\\\u000a\u{e4}\"");
    }
}
