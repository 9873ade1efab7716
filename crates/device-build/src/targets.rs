// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The map of code-object targets: which code object serves a processor, and the names that select several at once.
//!
//! [`PROCESSORS`] states which processor runs which generic target's code; this module derives the map from it, and has
//! the names. The lists of selectors in `device-binaries/selectors.cmake`, `selectors.bzl` and `README.md` there are
//! generated from it.

use std::fmt;

use amdgpu_code_object::{PROCESSORS, Processor};

/// The selector that stands for every prebuilt code object, used when nothing is selected.
pub const DEFAULT_SELECTOR: &str = "default";

/// Targets that have a name but no prebuilt file: clang 22 does not know them.
const NOT_PREBUILT: &[&str] = &["gfx12-5-generic"];

/// Names for several processors, as ROCm's TheRock (`cmake/therock_amdgpu_targets.cmake`) and IREE's build use them:
/// `dgpu` are graphics cards, `dcgpu` data-centre cards, `igpu` GPUs inside of processors. `all` and `default` are not
/// in this list.
pub const FAMILIES: &[(&str, &[&str])] = &[
    ("dcgpu-all", &["gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"]),
    (
        "dgpu-all",
        &[
            "gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030",
            "gfx1031", "gfx1032", "gfx1034", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx1250",
            "gfx1251",
        ],
    ),
    ("igpu-all", &["gfx90c", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx900-dgpu", &["gfx900"]),
    ("gfx906-dgpu", &["gfx906"]),
    ("gfx908-dcgpu", &["gfx908"]),
    ("gfx90a-dcgpu", &["gfx90a"]),
    ("gfx90c-igpu", &["gfx90c"]),
    ("gfx94X-all", &["gfx940", "gfx941", "gfx942"]),
    ("gfx94X-dcgpu", &["gfx940", "gfx941", "gfx942"]),
    ("gfx950-all", &["gfx950"]),
    ("gfx950-dcgpu", &["gfx950"]),
    ("gfx101X-all", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx101X-dgpu", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx103X-all", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx103X-dgpu", &["gfx1030", "gfx1031", "gfx1032", "gfx1034"]),
    ("gfx103X-igpu", &["gfx1033", "gfx1035", "gfx1036"]),
    ("gfx110X-all", &["gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
    ("gfx110X-dgpu", &["gfx1100", "gfx1101", "gfx1102"]),
    ("gfx110X-igpu", &["gfx1103"]),
    ("gfx115X-all", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx115X-igpu", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx117X-all", &["gfx1170", "gfx1171", "gfx1172"]),
    ("gfx120X-all", &["gfx1200", "gfx1201"]),
    ("gfx125X-all", &["gfx1250", "gfx1251"]),
];

/// The generic target that covers `processor`.
fn generic_of(processor: Processor) -> Option<Processor> {
    processor.info().and_then(|info| info.generic).map(|(generic, _version)| generic)
}

/// The target whose code object serves `processor`: its generic target if that has a prebuilt file, else itself.
fn code_object_of(processor: Processor) -> Processor {
    generic_of(processor).filter(|generic| is_prebuilt(*generic)).unwrap_or(processor)
}

/// All processors, without the generic targets.
fn exact_processors() -> impl Iterator<Item = Processor> {
    PROCESSORS.iter().map(|info| info.processor).filter(|processor| matches!(processor, Processor::Exact { .. }))
}

/// All code-object targets, oldest first.
pub fn code_object_targets() -> Vec<Processor> {
    let mut targets = Vec::new();
    for info in PROCESSORS {
        let target = code_object_of(info.processor);
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// The code-object targets whose files are checked in, oldest first.
pub fn prebuilt_targets() -> Vec<Processor> {
    let mut targets = code_object_targets();
    targets.retain(|target| is_prebuilt(*target));
    targets
}

/// True if the target's file is checked in.
pub fn is_prebuilt(target: Processor) -> bool {
    !NOT_PREBUILT.contains(&target.to_string().as_str())
}

/// The processors that run the code object of `target`.
pub fn processors_of(target: Processor) -> impl Iterator<Item = Processor> {
    exact_processors().filter(move |processor| *processor == target || generic_of(*processor) == Some(target))
}

/// Every name that [`expand`] takes: bundles and families, code-object targets, processors.
pub fn selectors() -> Vec<String> {
    let mut names = vec![DEFAULT_SELECTOR.to_owned(), "all".to_owned()];
    names.extend(FAMILIES.iter().map(|(name, _)| (*name).to_owned()));
    names.extend(code_object_targets().iter().map(ToString::to_string));
    for info in PROCESSORS {
        let name = info.processor.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The code-object targets that a list of selectors stands for, oldest first, each once. Selectors are separated by
/// commas, semicolons or white space; an empty list is `default`.
///
/// # Errors
/// [`UnknownSelector`] for the first unknown name.
pub fn expand(list: &str) -> Result<Vec<Processor>, UnknownSelector> {
    let mut names = list.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace()).filter(|name| !name.is_empty());
    let mut chosen = Vec::new();
    match names.next() {
        None => chosen = prebuilt_targets(),
        Some(first) => {
            for name in std::iter::once(first).chain(names) {
                chosen.extend(expand_one(name)?);
            }
        }
    }
    let mut targets = code_object_targets();
    targets.retain(|target| chosen.contains(target));
    Ok(targets)
}

fn expand_one(name: &str) -> Result<Vec<Processor>, UnknownSelector> {
    if name == DEFAULT_SELECTOR {
        return Ok(prebuilt_targets());
    }
    if name == "all" {
        return Ok(exact_processors().map(code_object_of).collect());
    }
    let family = FAMILIES.iter().find(|(family, _)| *family == name).map(|(_, members)| *members);
    let members = family.unwrap_or(std::slice::from_ref(&name));
    let known = |member: &&str| {
        let processor = member.parse::<Processor>().ok()?;
        processor.info().map(|info| code_object_of(info.processor))
    };
    members.iter().map(known).collect::<Option<_>>().ok_or_else(|| UnknownSelector::new(name))
}

/// A name that selects no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSelector {
    /// The name as given.
    pub name: String,
    /// The names that resemble it most, best first.
    pub nearest: Vec<String>,
}

impl UnknownSelector {
    fn new(name: &str) -> Self {
        let likeness = |known: &str| (known.starts_with(name), strsim::jaro_winkler(name, known));
        let mut nearest: Vec<_> = selectors().into_iter().map(|known| (likeness(&known), known)).collect();
        nearest.sort_by(|((a_extends, a), _), ((b_extends, b), _)| b_extends.cmp(a_extends).then(b.total_cmp(a)));
        let nearest = nearest.into_iter().take(4).map(|(_, known)| known).collect();
        Self { name: name.chars().take(80).collect(), nearest }
    }
}

impl std::error::Error for UnknownSelector {}

impl fmt::Display for UnknownSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` selects no target of the device library; the nearest names are {}; device-binaries/README.md lists all",
            self.name,
            self.nearest.join(", ")
        )
    }
}
