// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Width of comments. rustfmt keeps the width of code, but not of comments.

use std::fs;
use std::path::Path;

use xtask_core::error::{Context, Error, Result};

/// `max_width` of rustfmt.toml, in characters.
const MOST: usize = 120;

/// Folders with generated or foreign files.
const SKIPPED: [&str; 3] = ["build", "target", "corpus"];

/// Line comment markers, by the ends of file names.
const COMMENTS: [(&str, &str); 5] = [(".rs", "//"), (".c", "//"), (".h", "//"), (".cl", "//"), (".py", "#")];

/// Checks the sources below `root`.
///
/// # Errors
/// The comment lines that are too wide.
pub fn check(root: &Path) -> Result<()> {
    let mut wide = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let context = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).context(context)? {
            let entry = entry.context(context)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().context(context)?.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if let Some((_, begin)) = COMMENTS.iter().find(|(end, _)| name.ends_with(end)) {
                let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
                let shown = path.strip_prefix(root).unwrap_or(&path).display();
                wide.extend(too_wide(&text, begin).map(|line| format!("{shown}:{line}")));
            }
        }
    }
    wide.sort();
    match wide.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} comments are wider than {MOST} characters:\n{}", wide.join("\n")))),
    }
}

/// Returns the numbers of comment lines that are too wide, except rows of tables, which cannot be broken.
fn too_wide(text: &str, begin: &str) -> impl Iterator<Item = usize> {
    let is_text = move |line: &str| line.starts_with(begin) && !line.trim_start_matches(['/', '!']).starts_with(" | ");
    let is_wide = move |line: &str| line.chars().count() > MOST && is_text(line.trim_start());
    (1..).zip(text.lines()).filter(move |(_, line)| is_wide(line)).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_have_a_width() {
        let (fits, long) = ("a".repeat(MOST - 7), "a".repeat(MOST - 6));
        let text = format!("    // {fits}\n    // {long}\n    /// {long}\n//! | {long} |\nlet x = \"{long}{long}\";\n");
        assert_eq!(too_wide(&text, "//").collect::<Vec<_>>(), [2, 3]);
        assert_eq!(too_wide(&format!("x = 1\n    #  {fits}\n    #  {long}\n"), "#").collect::<Vec<_>>(), [3]);
    }
}
