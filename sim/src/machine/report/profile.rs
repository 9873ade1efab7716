// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Profiles for `HSA_SIM_PROFILE`: figures for each instruction of each kernel. They are written at `hsa_shut_down`, or
//! at exit without it, to a file whose name decides the format: `.txt`, `.json` (one object a line) or `.html`.

mod html;
mod text;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use sim_wave::{Collect, Figures, Line};

use crate::machine::code::kernel::Kernel;
use crate::machine::config::profile::{Form, ProfileConfig};

/// Name, target and code hash of a kernel.
type Key = (String, &'static str, u64);

/// Figures of a kernel over all of its dispatches.
pub struct Profiled {
    dispatches: u64,
    workgroups: u64,
    waves: u64,
    time: Duration,
    /// Instructions that the kernel can reach.
    listing: Vec<Line>,
    /// Source positions of the listing's instructions, if the code object has them.
    sources: Vec<Option<String>>,
    /// Figures by offset of the instruction.
    figures: BTreeMap<u32, Figures>,
}

impl Profiled {
    /// Number of instructions that waves executed.
    fn instructions(&self) -> u64 {
        self.figures.values().map(|figures| figures.times).sum()
    }

    /// Instructions that the kernel can reach, with their figures and source positions.
    fn lines(&self) -> impl Iterator<Item = (&Line, Figures, &str)> {
        self.listing.iter().zip(&self.sources).map(|(line, source)| {
            let none = Figures { offset: line.offset, ..Figures::default() };
            let figures = self.figures.get(&line.offset).copied().unwrap_or(none);
            (line, figures, source.as_deref().unwrap_or_default())
        })
    }

    /// True if any instruction has a source position.
    fn has_sources(&self) -> bool {
        self.sources.iter().any(Option::is_some)
    }
}

/// All profiles since `hsa_init`.
#[derive(Default)]
pub struct Profiles {
    wanted: Option<ProfileConfig>,
    kernels: Mutex<BTreeMap<Key, Profiled>>,
}

impl Profiles {
    /// Creates an empty collection. Creates the file at once, so that an unwritable path is an error before any kernel
    /// runs.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(wanted: Option<ProfileConfig>) -> io::Result<Self> {
        if let Some(ProfileConfig { path, .. }) = &wanted {
            File::create(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_PROFILE={}: {error}", path.display()))
            })?;
        }
        Ok(Self { wanted, kernels: Mutex::default() })
    }

    /// Returns the collector of a dispatch's figures, if a profile is requested.
    pub fn begin(&self) -> Option<DispatchProfile> {
        self.wanted.as_ref().map(|_| DispatchProfile::default())
    }

    /// Adds the figures of a dispatch, and its run time.
    pub fn add(
        &self,
        of: DispatchProfile,
        kernel: &Kernel,
        decoded: &sim_wave::Kernel,
        target: &'static str,
        counters: &sim_wave::Counters,
        time: Duration,
    ) {
        let key = (kernel.name.clone(), target, decoded.code_hash());
        let mut kernels = self.kernels.lock();
        let profiled = kernels.entry(key).or_insert_with(|| {
            let listing = decoded.listing();
            let addresses = listing.iter().map(|line| line.pc);
            let sources = match &kernel.sources {
                Some(sources) => sources.locate(addresses),
                None => vec![None; listing.len()],
            };
            let figures = BTreeMap::new();
            Profiled { dispatches: 0, workgroups: 0, waves: 0, time: Duration::ZERO, listing, sources, figures }
        });
        profiled.dispatches += 1;
        profiled.workgroups += counters.workgroups;
        profiled.waves += counters.waves;
        profiled.time += time;
        for (offset, figures) in of.0.into_inner() {
            profiled.figures.entry(offset).or_insert(Figures { offset, ..Figures::default() }).add(&figures);
        }
    }

    /// Writes the file, once. Prints an error if that fails.
    pub fn write(&self) {
        let Some(ProfileConfig { path, form }) = &self.wanted else { return };
        let kernels = std::mem::take(&mut *self.kernels.lock());
        let mut kernels: Vec<(&Key, &Profiled)> = kernels.iter().collect();
        kernels.sort_by_key(|(key, profiled)| (Reverse(profiled.instructions()), *key));
        let text = match form {
            Form::Text => text::text(&kernels),
            Form::Json => text::json(&kernels),
            Form::Html => html::page(&kernels),
        };
        if let Err(error) = write(path, &text) {
            eprintln!("hsa-sim: cannot write HSA_SIM_PROFILE={}: {error}", path.display());
        }
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)
}

/// Figures of one dispatch's instructions, by offset.
#[derive(Default)]
pub struct DispatchProfile(Mutex<BTreeMap<u32, Figures>>);

impl Collect for DispatchProfile {
    fn collect(&self, figures: &[Figures]) {
        let mut all = self.0.lock();
        for of_thread in figures {
            let offset = of_thread.offset;
            all.entry(offset).or_insert(Figures { offset, ..Figures::default() }).add(of_thread);
        }
    }
}
