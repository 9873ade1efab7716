// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The search for the HSA runtime: its places and their order, as a pure function of options, environment and file
//! system.
//!
//! The order, highest priority first:
//!
//! 1. `--amdgpu_rs_libhsa_search_path` (each a directory or a file). If given, nothing below is looked at.
//! 2. `IREE_HAL_AMDGPU_LIBHSA_PATH` (a directory or a file). If set and not empty, nothing below is looked at.
//! 3. A `libhsa-runtime64.so.1` that this process has already loaded (PyTorch's, HIP's…): one runtime can share memory
//!    with its other users, two cannot.
//! 4. The directories of `LD_LIBRARY_PATH` that hold the library.
//! 5. `ROCM_PATH`: its `lib` and `lib64`.
//! 6. System places: `/opt/rocm/lib`, `/opt/rocm/lib64`, `/opt/rocm/core-*/lib` and `/opt/rocm-*/lib` newest first, the
//!    distribution's library directories.
//! 7. ROCm installed with pip (package `rocm-sdk-core`, import name `_rocm_sdk_core…`): in the site-packages that hold
//!    the running program, in `VIRTUAL_ENV`, `CONDA_PREFIX`, the user's and the system's site-packages.
//! 8. The loader's own search for `libhsa-runtime64.so.1`, then `libhsa-runtime64.so`.
//!
//! If an explicit place (1, 2) has no library, that is an error. This is on purpose stricter than IREE's C driver,
//! which then uses the loader's search and so may run on another ROCm than the named one.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// File names of the library: the soname first, then the development link.
pub const LIBRARY_NAMES: [&str; 2] = ["libhsa-runtime64.so.1", "libhsa-runtime64.so"];

/// Environment variable that names the library (directory or file), shared with IREE's C driver.
pub const LIBRARY_PATH_VARIABLE: &str = "IREE_HAL_AMDGPU_LIBHSA_PATH";

/// The name of the flag that names the library, for messages.
pub const SEARCH_PATH_FLAG: &str = "--amdgpu_rs_libhsa_search_path";

/// The queries of discovery to the machine. Tests have their own; [`Machine`] is the real one.
pub trait Surroundings {
    /// The value of an environment variable, if it is set.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// True if there is a directory at `path`.
    fn is_directory(&self, path: &Path) -> bool;
    /// True if there is a file at `path`.
    fn is_file(&self, path: &Path) -> bool;
    /// The names in the directory at `path`, in any order; none if it cannot be read.
    fn names_in(&self, path: &Path) -> Vec<String>;
    /// The file of the running program, if known.
    fn program(&self) -> Option<PathBuf>;
}

/// The machine this process runs on.
pub struct Machine;

impl Surroundings for Machine {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn names_in(&self, path: &Path) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn program(&self) -> Option<PathBuf> {
        std::env::current_exe().ok()
    }
}

/// The way in which a candidate is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `dlopen` of this path, or of this bare name along the loader's search path.
    Open(PathBuf),
    /// `dlopen` of this name only if the process has it loaded already.
    AlreadyLoaded(&'static str),
    /// Nothing to open: a description of the missing place.
    Absent(String),
}

/// A place to try, or one that has nothing to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Step of the search order, for messages.
    pub origin: &'static str,
    /// The way to open it.
    pub target: Target,
}

/// The candidates in the order in which they are tried (see the module's head). Never empty.
///
/// `search_paths` are the values of [`SEARCH_PATH_FLAG`].
pub fn candidates(search_paths: &[PathBuf], surroundings: &dyn Surroundings) -> Vec<Candidate> {
    let mut list = List { surroundings, candidates: Vec::new() };
    if !search_paths.is_empty() {
        for path in search_paths {
            list.explicit(SEARCH_PATH_FLAG, path);
        }
        return list.candidates;
    }
    if let Some(path) = list.path_variable(LIBRARY_PATH_VARIABLE) {
        list.explicit(LIBRARY_PATH_VARIABLE, &path);
        return list.candidates;
    }
    list.push("already loaded", Target::AlreadyLoaded(LIBRARY_NAMES[0]));
    list.loader_path_variable();
    list.rocm_path_variable();
    list.system_places();
    list.python_places();
    for name in LIBRARY_NAMES {
        list.push("loader default", Target::Open(PathBuf::from(name)));
    }
    list.candidates
}

struct List<'a> {
    surroundings: &'a dyn Surroundings,
    candidates: Vec<Candidate>,
}

impl List<'_> {
    fn push(&mut self, origin: &'static str, target: Target) {
        let candidate = Candidate { origin, target };
        if !self.candidates.contains(&candidate) {
            self.candidates.push(candidate);
        }
    }

    fn path_variable(&self, name: &str) -> Option<PathBuf> {
        self.surroundings.variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// A path named by the user. In a directory, the library's names are searched, also in its `lib` if it is the root
    /// of a ROCm. Anything else is opened as it is. A bare file name is a file in the current folder if there is one,
    /// otherwise it is opened through the loader's search path, as in the C driver.
    fn explicit(&mut self, origin: &'static str, path: &Path) {
        let names_a_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if names_a_library && !self.surroundings.is_directory(path) {
            let is_bare = path.components().count() == 1;
            let here = is_bare && self.surroundings.is_file(path);
            let path = if here { Path::new(".").join(path) } else { path.to_path_buf() };
            self.push(origin, Target::Open(path));
            return;
        }
        let inner = ["lib", "lib64"].map(|name| path.join(name));
        let roots = inner.iter().filter(|directory| self.surroundings.is_directory(directory));
        for directory in std::iter::once(path).chain(roots.map(PathBuf::as_path)) {
            for name in LIBRARY_NAMES {
                self.push(origin, Target::Open(directory.join(name)));
            }
        }
    }

    /// Adds the library in `directory`, if there is one. Returns true if there was.
    fn present(&mut self, origin: &'static str, directory: &Path) -> bool {
        let found = LIBRARY_NAMES.iter().map(|name| directory.join(name)).find(|path| self.surroundings.is_file(path));
        match found {
            Some(path) => {
                self.push(origin, Target::Open(path));
                true
            }
            None => false,
        }
    }

    /// Adds the first library in each of `directories`; if there is none at all, one entry that says so.
    fn present_in_any(&mut self, origin: &'static str, directories: &[PathBuf]) {
        let mut found = false;
        for directory in directories {
            found |= self.present(origin, directory);
        }
        if !found {
            let places: Vec<_> = directories.iter().map(|path| path.display().to_string()).collect();
            let places = if places.is_empty() { "no such directory".to_owned() } else { places.join(", ") };
            self.push(origin, Target::Absent(format!("no {} in: {places}", LIBRARY_NAMES[0])));
        }
    }

    fn loader_path_variable(&mut self) {
        if let Some(value) = self.surroundings.variable("LD_LIBRARY_PATH") {
            for directory in std::env::split_paths(&value).filter(|path| path.is_absolute()) {
                self.present("LD_LIBRARY_PATH", &directory);
            }
        }
    }

    fn rocm_path_variable(&mut self) {
        if let Some(root) = self.path_variable("ROCM_PATH") {
            self.present_in_any("ROCM_PATH", &[root.join("lib"), root.join("lib64")]);
        }
    }

    fn system_places(&mut self) {
        let opt = Path::new("/opt");
        let rocm = opt.join("rocm");
        let mut directories = vec![rocm.join("lib"), rocm.join("lib64")];
        directories.extend(self.newest_first(&rocm, "core-", "lib"));
        directories.extend(self.newest_first(opt, "rocm-", "lib"));
        let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        directories.extend([&multiarch, "/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
        self.present_in_any("system", &directories);
    }

    /// `parent/<prefix><version>/<inner>` for each version found, highest version first.
    fn newest_first(&self, parent: &Path, prefix: &str, inner: &str) -> Vec<PathBuf> {
        let mut names = self.surroundings.names_in(parent);
        names.retain(|name| name.starts_with(prefix));
        names.sort_by_cached_key(|name| Reverse(version_of(name)));
        names.iter().map(|name| parent.join(name).join(inner)).collect()
    }

    fn python_places(&mut self) {
        let mut directories = Vec::new();
        for site in self.site_packages() {
            let mut names = self.surroundings.names_in(&site);
            names.retain(|name| name.starts_with("_rocm_sdk_core"));
            names.sort_by_cached_key(|name| Reverse(version_of(name)));
            directories.extend(names.iter().map(|name| site.join(name).join("lib")));
        }
        if directories.is_empty() {
            let text = "no site-packages with _rocm_sdk_core (pip package rocm-sdk-core)";
            self.push("pip", Target::Absent(text.to_owned()));
        } else {
            self.present_in_any("pip", &directories);
        }
    }

    /// Python's package directories: of the running program, the active environments, the user, the system.
    fn site_packages(&self) -> Vec<PathBuf> {
        let mut sites = Vec::new();
        let program = self.surroundings.program().unwrap_or_default();
        let holds_packages =
            |path: &&Path| path.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages");
        sites.extend(program.ancestors().find(holds_packages).map(Path::to_path_buf));
        let mut prefixes: Vec<_> =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| self.path_variable(name)).collect();
        prefixes.extend(self.path_variable("HOME").map(|home| home.join(".local")));
        prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
        for prefix in prefixes {
            for library in ["lib", "lib64"].map(|name| prefix.join(name)) {
                for python in self.newest_first(&library, "python3", "") {
                    sites.push(python.join("site-packages"));
                    sites.push(python.join("dist-packages"));
                }
            }
        }
        sites
    }
}

/// The numbers in a name such as `rocm-6.4.1`, for ordering by version.
fn version_of(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};

    #[derive(Default)]
    struct Imagined {
        variables: HashMap<&'static str, &'static str>,
        files: BTreeSet<&'static str>,
        program: &'static str,
    }

    impl Surroundings for Imagined {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.get(name).map(OsString::from)
        }
        fn is_directory(&self, path: &Path) -> bool {
            self.files.iter().any(|file| Path::new(file) != path && Path::new(file).starts_with(path))
        }
        fn is_file(&self, path: &Path) -> bool {
            self.files.iter().any(|file| Path::new(file) == path)
        }
        fn names_in(&self, path: &Path) -> Vec<String> {
            let inside = self.files.iter().filter_map(|file| Path::new(file).strip_prefix(path).ok());
            let first = inside.filter_map(|rest| rest.iter().next());
            first.map(|name| name.to_string_lossy().into_owned()).collect::<BTreeSet<_>>().into_iter().collect()
        }
        fn program(&self) -> Option<PathBuf> {
            Some(PathBuf::from(self.program))
        }
    }

    fn opened(candidates: &[Candidate]) -> Vec<(&'static str, String)> {
        let open = |candidate: &Candidate| match &candidate.target {
            Target::Open(path) => Some((candidate.origin, path.display().to_string())),
            _ => None,
        };
        candidates.iter().filter_map(open).collect()
    }

    fn pair(origin: &'static str, path: &str) -> (&'static str, String) {
        (origin, path.to_owned())
    }

    #[test]
    fn a_flag_excludes_everything_else() {
        let machine = Imagined {
            variables: HashMap::from([(LIBRARY_PATH_VARIABLE, "/env"), ("ROCM_PATH", "/opt/rocm")]),
            files: BTreeSet::from(["/opt/rocm/lib/libhsa-runtime64.so.1"]),
            ..Imagined::default()
        };
        let list = candidates(&["/flag".into(), "/other/libhsa-runtime64.so.1.14.0".into()], &machine);
        let expected = [
            pair(SEARCH_PATH_FLAG, "/flag/libhsa-runtime64.so.1"),
            pair(SEARCH_PATH_FLAG, "/flag/libhsa-runtime64.so"),
            pair(SEARCH_PATH_FLAG, "/other/libhsa-runtime64.so.1.14.0"),
        ];
        assert_eq!(opened(&list), expected);
        assert_eq!(list.len(), expected.len());
    }

    #[test]
    fn the_variable_names_a_file_a_directory_or_a_bare_name() {
        let with = |value| {
            let variables = HashMap::from([(LIBRARY_PATH_VARIABLE, value)]);
            let files = BTreeSet::from(["/odd.so.dir/libhsa-runtime64.so.1"]);
            opened(&candidates(&[], &Imagined { variables, files, ..Imagined::default() }))
        };
        assert_eq!(with("/x/libmine.so"), [pair(LIBRARY_PATH_VARIABLE, "/x/libmine.so")]);
        assert_eq!(with("libhsa-runtime64.so"), [pair(LIBRARY_PATH_VARIABLE, "libhsa-runtime64.so")]);
        assert_eq!(with("/x")[0], pair(LIBRARY_PATH_VARIABLE, "/x/libhsa-runtime64.so.1"));
        let odd = with("/odd.so.dir");
        assert_eq!(odd[0], pair(LIBRARY_PATH_VARIABLE, "/odd.so.dir/libhsa-runtime64.so.1"));
    }

    #[test]
    fn a_named_root_of_a_rocm_and_a_file_in_the_current_folder_are_found() {
        let machine = Imagined {
            files: BTreeSet::from(["/opt/rocm-7.1.0/lib/libhsa-runtime64.so.1", "mine.so"]),
            ..Imagined::default()
        };
        let root = opened(&candidates(&["/opt/rocm-7.1.0".into()], &machine));
        assert!(root.contains(&pair(SEARCH_PATH_FLAG, "/opt/rocm-7.1.0/lib/libhsa-runtime64.so.1")), "{root:?}");
        assert!(!root.iter().any(|(_, path)| path.contains("lib64")), "{root:?}");
        // `dlopen` takes a name without a slash for one to search for.
        assert_eq!(opened(&candidates(&["mine.so".into()], &machine)), [pair(SEARCH_PATH_FLAG, "./mine.so")]);
    }

    #[test]
    fn an_empty_variable_is_no_wish() {
        let machine = Imagined { variables: HashMap::from([(LIBRARY_PATH_VARIABLE, "")]), ..Imagined::default() };
        let list = candidates(&[], &machine);
        assert_eq!(list[0].target, Target::AlreadyLoaded("libhsa-runtime64.so.1"));
        let names = [pair("loader default", LIBRARY_NAMES[0]), pair("loader default", LIBRARY_NAMES[1])];
        assert_eq!(opened(&list), names);
    }

    #[test]
    fn places_come_in_the_documented_order_and_newest_first() {
        let machine = Imagined {
            variables: HashMap::from([
                ("ROCM_PATH", "/r"),
                ("LD_LIBRARY_PATH", "/ld/none:/ld/some:relative"),
                ("VIRTUAL_ENV", "/venv"),
                ("HOME", "/home/u"),
            ]),
            files: BTreeSet::from([
                "/r/lib64/libhsa-runtime64.so",
                "/ld/some/libhsa-runtime64.so.1",
                "/opt/rocm-6.9.0/lib/libhsa-runtime64.so.1",
                "/opt/rocm-6.10.0/lib/libhsa-runtime64.so.1",
                "/opt/rocm/core-7.2/lib/libhsa-runtime64.so.1",
                "/venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libhsa-runtime64.so.1",
                "/home/u/.local/lib/python3.9/site-packages/_rocm_sdk_core_7/lib/libhsa-runtime64.so.1",
                "/p/site-packages/_rocm_sdk_core/lib/libhsa-runtime64.so.1",
            ]),
            program: "/p/site-packages/iree/_runtime_libs/iree-run-module",
        };
        let list = candidates(&[], &machine);
        let expected = [
            pair("LD_LIBRARY_PATH", "/ld/some/libhsa-runtime64.so.1"),
            pair("ROCM_PATH", "/r/lib64/libhsa-runtime64.so"),
            pair("system", "/opt/rocm/core-7.2/lib/libhsa-runtime64.so.1"),
            pair("system", "/opt/rocm-6.10.0/lib/libhsa-runtime64.so.1"),
            pair("system", "/opt/rocm-6.9.0/lib/libhsa-runtime64.so.1"),
            pair("pip", "/p/site-packages/_rocm_sdk_core/lib/libhsa-runtime64.so.1"),
            pair("pip", "/venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libhsa-runtime64.so.1"),
            pair("pip", "/home/u/.local/lib/python3.9/site-packages/_rocm_sdk_core_7/lib/libhsa-runtime64.so.1"),
            pair("loader default", LIBRARY_NAMES[0]),
            pair("loader default", LIBRARY_NAMES[1]),
        ];
        assert_eq!(opened(&list), expected);
    }

    #[test]
    fn what_is_absent_is_said() {
        let machine = Imagined { variables: HashMap::from([("ROCM_PATH", "/r")]), ..Imagined::default() };
        let list = candidates(&[], &machine);
        let absent = |origin| {
            let find = |c: &&Candidate| c.origin == origin;
            match list.iter().find(find).map(|c| c.target.clone()) {
                Some(Target::Absent(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(absent("ROCM_PATH"), "no libhsa-runtime64.so.1 in: /r/lib, /r/lib64");
        assert!(absent("system").contains("/opt/rocm/lib"));
        assert!(absent("pip").contains("rocm-sdk-core"));
    }
}
