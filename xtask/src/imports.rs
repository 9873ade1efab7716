// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The staircase of the driver's rooms: each names what is below it, and nothing above.

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

/// Looks through the sources below `root`/src. What tests name is theirs (`src/testing.rs`, files that end in `_test.rs`).
///
/// # Errors
/// The lines that name a room above their own.
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
                wrong.extend(upward(&file, &text).into_iter().map(|(line, room)| format!("src/{file}:{line}: {room}")));
            }
        }
    }
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} lines name a room above their own:\n{}", wrong.join("\n")))),
    }
}

/// The room of a module, as its place in the list.
fn room(module: &str) -> Option<usize> {
    let is_in = |room: &str| module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    (0..ROOMS.len()).filter(|index| is_in(ROOMS[*index])).max_by_key(|index| ROOMS[*index].len())
}

/// The lines of a file, a path below `src`, that name a room above its own, and those rooms. Its tests, which are its end, are left out.
fn upward(file: &str, text: &str) -> Vec<(usize, &'static str)> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    let Some(own) = room(&module) else { return Vec::new() };
    let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
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
