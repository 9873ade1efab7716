// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What `HSA_SIM_PROFILE` asks for: what each instruction of each kernel did, written at `hsa_shut_down`, or at exit
//! without it, to a file whose name says how: `.txt`, `.json` (one object a line) or `.html`.

mod html;
mod source;
mod text;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use sim_wave::{Collect, Figures, Line};

use super::execute::Kernel;
pub use source::Sources;

/// How a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Html,
}

/// The file that a profile is wanted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    path: PathBuf,
    form: Form,
}

impl Wanted {
    /// A file whose name says how. The error says which names do.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt") => Form::Text,
            Some("json") => Form::Json,
            Some("html") => Form::Html,
            _ => return Err("expected a file that ends in .txt, .json or .html".into()),
        };
        Ok(Self { path, form })
    }
}

/// A kernel, by its name, the target that it ran on and a hash of its code.
type Key = (String, &'static str, u64);

/// What a kernel did in all of its dispatches.
pub struct Profiled {
    dispatches: u64,
    workgroups: u64,
    waves: u64,
    time: Duration,
    /// The instructions that it can come to.
    listing: Vec<Line>,
    /// Of each instruction of the listing: where it is in its source, if the code object tells.
    sources: Vec<Option<String>>,
    /// By offset.
    figures: BTreeMap<u32, Figures>,
}

impl Profiled {
    /// Instructions that waves executed.
    fn instructions(&self) -> u64 {
        self.figures.values().map(|figures| figures.times).sum()
    }

    /// The instructions that the kernel can come to, what they did, and where they are in the source.
    fn lines(&self) -> impl Iterator<Item = (&Line, Figures, &str)> {
        self.listing.iter().zip(&self.sources).map(|(line, source)| {
            let none = Figures { offset: line.offset, ..Figures::default() };
            let figures = self.figures.get(&line.offset).copied().unwrap_or(none);
            (line, figures, source.as_deref().unwrap_or_default())
        })
    }

    /// Whether any instruction has a source.
    fn has_sources(&self) -> bool {
        self.sources.iter().any(Option::is_some)
    }
}

/// Everything profiled since `hsa_init`.
#[derive(Default)]
pub struct Profiles {
    wanted: Option<Wanted>,
    kernels: Mutex<BTreeMap<Key, Profiled>>,
}

impl Profiles {
    /// None yet. The file is made now, so that nobody waits for a profile that nowhere is room for.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(wanted: Option<Wanted>) -> io::Result<Self> {
        if let Some(Wanted { path, .. }) = &wanted {
            File::create(path).map_err(|error| {
                io::Error::new(error.kind(), format!("HSA_SIM_PROFILE={}: {error}", path.display()))
            })?;
        }
        Ok(Self { wanted, kernels: Mutex::default() })
    }

    /// What collects a dispatch's figures, if they are wanted.
    pub fn begin(&self) -> Option<OfDispatch> {
        self.wanted.as_ref().map(|_| OfDispatch::default())
    }

    /// Adds what a dispatch did, in this time.
    pub fn add(
        &self,
        of: OfDispatch,
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

    /// Writes the file, once; a failure is told on standard error.
    pub fn write(&self) {
        let Some(Wanted { path, form }) = &self.wanted else { return };
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

/// What the instructions of one dispatch did, by offset.
#[derive(Default)]
pub struct OfDispatch(Mutex<BTreeMap<u32, Figures>>);

impl Collect for OfDispatch {
    fn collect(&self, figures: &[Figures]) {
        let mut all = self.0.lock();
        for of_thread in figures {
            let offset = of_thread.offset;
            all.entry(offset).or_insert(Figures { offset, ..Figures::default() }).add(of_thread);
        }
    }
}
