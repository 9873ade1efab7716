// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The list of changes, `mutants/*.toml`, and sources with branches for all of them.

use std::collections::BTreeMap;
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
    /// Source file, relative to the project's folder.
    pub file: PathBuf,
    /// Text to replace: an expression, or statements. It must occur once in the file, or once inside `within`.
    pub text: String,
    /// Larger part of the source around `text`. It must occur once in the file.
    pub within: Option<String>,
    /// New text.
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

/// Returns `source`, the text of `file`, with a branch for each of `mutants` that changes it.
///
/// # Errors
/// When the text of a change does not occur exactly once, or overlaps the text of another change.
pub fn with_branches(source: &str, file: &Path, mutants: &[Mutant]) -> Result<String> {
    let mut places: BTreeMap<usize, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants.iter().filter(|mutant| mutant.file == file) {
        let place = match &mutant.within {
            None => 0..source.len(),
            Some(within) => {
                let at = only_place(source, within, mutant)?;
                at..at + within.len()
            }
        };
        let at = place.start + only_place(&source[place], &mutant.text, mutant)?;
        places.entry(at).or_default().push(mutant);
    }
    let (mut result, mut end) = (String::new(), 0);
    for (at, mutants) in places {
        let text = &mutants[0].text;
        if let Some(other) = mutants.iter().find(|mutant| at < end || mutant.text != *text) {
            return Err(Error::setup(format!("the mutant '{}' replaces a part of what another one does", other.name)));
        }
        result += &source[end..at];
        end = at + text.len();
        let mut branches = String::new();
        for mutant in mutants {
            branches += &format!("if crate::mutant::is({}) {{ {} }} else ", mutant.number, mutant.replacement);
        }
        branches += &format!("{{ {text} }}");
        // As an operand, too.
        let is_expression = !text.trim_end().ends_with([';', '}']);
        result += &if is_expression { format!("({branches})") } else { branches };
    }
    Ok(result + &source[end..])
}

/// Offset of the only occurrence of `text` in `source`.
fn only_place(source: &str, text: &str, mutant: &Mutant) -> Result<usize> {
    let found: Vec<_> = source.match_indices(text).map(|(at, _)| at).collect();
    let [at] = found[..] else {
        let (name, file, count) = (&mutant.name, mutant.file.display(), found.len());
        return Err(Error::setup(format!(
            "the text that the mutant '{name}' replaces is {count} times in {file}, where it has to be once:\n{text}"
        )));
    };
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::spanned::Spanned;
    use syn::visit::{self, Visit};

    fn mutant(number: usize, text: &str, replacement: &str) -> Mutant {
        let name = format!("m{number}");
        Mutant { number, name, text: text.into(), replacement: replacement.into(), ..Mutant::default() }
    }

    /// Constants of a file that contain branches, where a branch does not compile.
    #[derive(Default)]
    struct Constants {
        depth: usize,
        with_branches: Vec<String>,
    }

    impl Constants {
        fn within(&mut self, visit: impl FnOnce(&mut Self)) {
            self.depth += 1;
            visit(self);
            self.depth -= 1;
        }
    }

    impl<'ast> Visit<'ast> for Constants {
        fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
            self.within(|this| visit::visit_item_const(this, item));
        }

        fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
            self.within(|this| visit::visit_impl_item_const(this, item));
        }

        fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
            self.within(|this| visit::visit_item_static(this, item));
        }

        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            match item.sig.constness {
                Some(_) => self.within(|this| visit::visit_item_fn(this, item)),
                None => visit::visit_item_fn(self, item),
            }
        }

        fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
            match item.sig.constness {
                Some(_) => self.within(|this| visit::visit_impl_item_fn(this, item)),
                None => visit::visit_impl_item_fn(self, item),
            }
        }

        fn visit_path(&mut self, path: &'ast syn::Path) {
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if self.depth > 0 && names == ["crate", "mutant", "is"] {
                self.with_branches.push(format!("{:?}", path.span()));
            }
        }
    }

    #[test]
    fn places_become_branches() {
        let mutants = [mutant(0, "f();", ""), mutant(1, "a + 1", "a"), mutant(2, "a + 1", "a + 2")];
        let changed = with_branches("f(); 2 * (a + 1)", Path::new(""), &mutants).unwrap();
        let expected = "if crate::mutant::is(0) {  } else { f(); } \
             2 * ((if crate::mutant::is(1) { a } else if crate::mutant::is(2) { a + 2 } else { a + 1 }))";
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_text_that_is_not_there_once_is_an_error_with_its_name() {
        for source in ["", "f(); f();"] {
            let error = with_branches(source, Path::new(""), &[mutant(0, "f();", "")]).unwrap_err().to_string();
            assert!(error.contains("'m0'") && error.contains("f();"), "{error}");
        }
    }

    #[test]
    fn a_place_can_be_told_by_what_is_around_it() {
        let within = Mutant { within: Some("x => f(),".into()), ..mutant(0, "f()", "g()") };
        let changed = with_branches("w => f(), x => f(),", Path::new(""), &[within]).unwrap();
        assert_eq!(changed, "w => f(), x => (if crate::mutant::is(0) { g() } else { f() }),");
    }

    #[test]
    fn texts_that_overlap_are_an_error() {
        for second in ["f();", "g();", "f(); g"] {
            let mutants = [mutant(0, "f(); g();", ""), mutant(1, second, "")];
            assert!(with_branches("f(); g();", Path::new(""), &mutants).is_err(), "{second}");
        }
    }

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
        for mutant in &mutants {
            let source = fs::read_to_string(root.join(&mutant.file)).unwrap();
            let changed = with_branches(&source, &mutant.file, &mutants).unwrap();
            // Texts are expressions or whole statements.
            let parsed = syn::parse_file(&changed)
                .unwrap_or_else(|error| panic!("{}, of {}: {error}", mutant.name, mutant.file.display()));
            let mut constants = Constants::default();
            constants.visit_file(&parsed);
            assert_eq!(constants.with_branches, <[String; 0]>::default(), "constants of {}", mutant.file.display());
            assert_ne!(mutant.text, mutant.replacement, "{}", mutant.name);
        }
    }
}
