// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The list of changes, `mutants/*.toml`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use xtask_core::error::{Context, Error, Result};

/// A change of the driver.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Unique name.
    pub name: String,
    /// End of the path of the function that is changed, e.g. `Queue::submit` or `ring::aql::Reservation::publish`.
    pub function: String,
    /// Code to replace: an expression, or whole statements. It must be in the function once.
    pub code: String,
    /// New code.
    pub replacement: String,
    /// Effect on hardware.
    pub why: String,
    /// Test case that last detected the change.
    pub caught_by: Option<String>,
    /// Reason why the change does no harm, if it does none.
    pub proof: Option<String>,
    /// Value of the environment variable that selects the change.
    #[serde(skip)]
    pub number: usize,
    /// File of the list.
    #[serde(skip)]
    pub list: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// Reads all changes, in the order of the files' names.
///
/// # Errors
/// When a file is malformed, or two changes have the same name.
pub fn load(root: &Path) -> Result<Vec<Mutant>> {
    let folder = root.join("mutants");
    let context = || format!("reading {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).context(context)? {
        files.push(entry.context(context)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut mutants: Vec<Mutant> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).context(|| format!("reading {}", file.display()))?;
        let list: List = toml::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", file.display())))?;
        for mutant in list.mutant {
            if mutants.iter().any(|other| other.name == mutant.name) {
                return Err(Error::setup(format!("{}: a second mutant '{}'", file.display(), mutant.name)));
            }
            mutants.push(Mutant { number: mutants.len(), list: file.clone(), ..mutant });
        }
    }
    Ok(mutants)
}

impl Mutant {
    /// Writes the failed case to the list. The next run begins with it.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn remember(&self, case: &str) -> Result<()> {
        if self.caught_by.as_deref() == Some(case) {
            return Ok(());
        }
        let list = self.list.display();
        let text = fs::read_to_string(&self.list).context(|| format!("reading {list}"))?;
        fs::write(&self.list, noted(&text, &self.name, case)).context(|| format!("writing {list}"))
    }
}

/// Returns the text of a list with `case` as the mutant `name`'s `caught_by`.
fn noted(text: &str, name: &str, case: &str) -> String {
    let (heading, line) = (format!("name = \"{name}\""), format!("caught_by = '{case}'"));
    let mut result = Vec::new();
    let mut is_inside = false;
    for old in text.lines() {
        if old == "[[mutant]]" {
            is_inside = false;
        }
        if is_inside && old.starts_with("caught_by = ") {
            continue;
        }
        result.push(old);
        if old == heading {
            is_inside = true;
            result.push(&line);
        }
    }
    result.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Sources, is_same};

    #[test]
    fn the_case_that_failed_is_noted_once() {
        let text =
            "[[mutant]]\nname = \"a\"\ncaught_by = 'x'\nwhy = \"w\"\n\n[[mutant]]\nname = \"b\"\ncaught_by = 'y'\n";
        assert_eq!(noted(text, "a", "z"), text.replace("'x'", "'z'"));
        assert_eq!(noted("name = \"b\"\nfile = \"f\"\n", "b", "z"), "name = \"b\"\ncaught_by = 'z'\nfile = \"f\"\n");
    }

    #[test]
    fn the_list_fits_the_driver() {
        let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mutants = load(root).unwrap();
        let sources = Sources::read(root).unwrap();
        for (file, text) in sources.with_branches(&mutants).unwrap() {
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        for mutant in &mutants {
            assert!(!is_same(&mutant.code, &mutant.replacement), "{} changes nothing", mutant.name);
        }
    }
}
