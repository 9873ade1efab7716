// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The staircase of the driver's rooms: each names what is below it, and nothing above; and IREE's raw bindings where
//! C's structs are read.

use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// The rooms, as paths of modules below `src`, from the bottom. A file is of the longest that its path begins with.
const ROOMS: [&str; 11] = [
    "ffi",
    "ring",
    "hsa",
    "core::gpu",
    "core::profile",
    "core::memory",
    "core::queue",
    "core::operations",
    "core::program",
    "core",
    "api",
];

/// Where IREE's raw bindings may be named: in the room that makes them safe, in the one whose functions fill C's slots,
/// and in the files of the objects with a vtable that rooms between these make; and where pools' reservations are
/// passed on as they are.
const RAW: [&str; 7] = [
    "ffi",
    "api",
    "core::queue::semaphore",
    "core::memory::buffer",
    "core::memory::slab_provider",
    "core::memory::transient",
    "core::operations::alloca",
];

/// Looks through the sources below `root`/src. What tests name is theirs (`src/testing.rs`, files that end in
/// `_test.rs`).
///
/// # Errors
/// The lines that name a room above their own, or raw bindings where they do not belong.
pub fn check(root: &Path) -> Result<()> {
    let source = root.join("src");
    let mut wrong = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        let context = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).context(context)? {
            let path = entry.context(context)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("_test.rs") {
                let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
                let file = path.strip_prefix(&source).unwrap_or(&path).to_string_lossy().into_owned();
                let named = upward(&file, &text).into_iter().map(|(line, room)| (line, format!("{room} is above")));
                let raw = raw_bindings(&file, &text).into_iter().map(|line| (line, "raw bindings".to_owned()));
                wrong.extend(named.chain(raw).map(|(line, what)| format!("src/{file}:{line}: {what}")));
            }
        }
    }
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} lines name what their room may not:\n{}", wrong.join("\n")))),
    }
}

/// The room of a module, as its place in the list.
fn room(module: &str) -> Option<usize> {
    (0..ROOMS.len()).filter(|index| is_in(module, ROOMS[*index])).max_by_key(|index| ROOMS[*index].len())
}

fn is_in(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module of a file, a path below `src`.
fn module(file: &str) -> String {
    file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// A file without its tests, which are its end.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or_default()
}

/// The lines of a file of a room that name IREE's raw bindings though it may not.
fn raw_bindings(file: &str, text: &str) -> Vec<usize> {
    let module = module(file);
    if room(&module).is_none() || RAW.iter().any(|room| is_in(&module, room)) {
        return Vec::new();
    }
    let names = |line: &str| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).any(|path| path.starts_with("raw::"))
    };
    (1..).zip(without_tests(text).lines()).filter(|(_, line)| names(line)).map(|(number, _)| number).collect()
}

/// The lines of a file, a path below `src`, that name a room above its own, and those rooms. Its tests are left out.
fn upward(file: &str, text: &str) -> Vec<(usize, &'static str)> {
    let Some(own) = room(&module(file)) else { return Vec::new() };
    let mut found = Vec::new();
    for (number, line) in (1..).zip(without_tests(text).lines()) {
        for path in line.split("crate::").skip(1) {
            let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(path.len());
            if let Some(other) = room(path[..end].trim_end_matches(':')).filter(|other| *other > own) {
                found.push((number, ROOMS[other]));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bindings_are_for_the_rooms_of_c() {
        let text = "use crate::ffi::{HalRef, raw};\nfn f(a: *mut raw::iree_hal_device_t, b: &raw const X) {}\n\n#[cfg(test)]\nraw::f()\n";
        assert_eq!(raw_bindings("core/operations/files.rs", text), [2]);
        assert_eq!(raw_bindings("core/memory/buffer_test.rs", text), [2]);
        assert!(raw_bindings("core/memory/buffer.rs", text).is_empty());
        assert!(raw_bindings("api/queue.rs", text).is_empty());
        assert!(raw_bindings("testing.rs", text).is_empty());
    }

    #[test]
    fn a_room_may_name_what_is_below_it() {
        let text = "use crate::ffi::Result;\nuse crate::core::queue::{Queue, waits::Place};\nuse crate::core::program;\n\
                    fn f() { crate::api::driver::register(crate::hsa::load()) }\n\n#[cfg(test)]\nuse crate::api;\n";
        assert_eq!(upward("core/operations/files.rs", text), [(3, "core::program"), (4, "api")]);
        assert_eq!(upward("core/device/profiling.rs", text), [(4, "api")]);
        assert_eq!(upward("core/device.rs", text), [(4, "api")]);
        assert_eq!(upward("core/queue/mod.rs", text), [(3, "core::program"), (4, "api")]);
        assert_eq!(upward("api/queue.rs", text), []);
        assert_eq!(upward("lib.rs", text), []);
    }
}
