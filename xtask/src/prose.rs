// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! First words of doc lines. A doc comment stands alone and names its subject: rustdoc shows it without its neighbours.

use std::path::Path;

use crate::docs;
use xtask_core::error::{Error, Result};

/// Beginnings that doc lines must not have, with the advice for each.
const REFUSED: [(&str, &str); 7] = [
    ("The same", "repeat the noun, and say what differs"),
    ("Those", "repeat the noun"),
    ("See there", "repeat the sentence, or link to the item by its name"),
    ("What", "name the thing: `Target ID of the code`, not `What the code was compiled for`"),
    ("Who", "name the actor: `Thread that rings the doorbell`"),
    ("That of", "repeat the noun"),
    ("Whether", "say the condition: `True if the queue has stopped`"),
];

/// Checks the doc comments of the Rust sources below `root`.
///
/// # Errors
/// The doc lines with a refused beginning, each with its file, its number and the advice.
pub fn check(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    docs::read(root, root, ".rs", &mut |path, text| {
        wrong.extend(
            refused(&text).map(|(line, begin, advice)| format!("{path}:{line}: begins with `{begin}`: {advice}")),
        );
    })?;
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} doc lines do not name their subject:\n{}", wrong.join("\n")))),
    }
}

/// Returns the number, the beginning and the advice of each doc line with a refused beginning.
fn refused(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
        let begins = |begin: &str| doc.strip_prefix(begin).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        let (begin, advice) = REFUSED.into_iter().find(|(begin, _)| begins(begin))?;
        Some((number, begin, advice))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, &'static str)> {
        refused(text).map(|(number, begin, _)| (number, begin)).collect()
    }

    #[test]
    fn doc_lines_without_a_subject_are_found() {
        let text = [
            "//! What it does.",
            "",
            "/// Those of a queue.",
            "fn a() {}",
            "    /// See there.",
            "    /// The same, in bytes.",
        ];
        let text = [
            &text[..],
            &["/// That of the ring.", "/// A thread.", "/// Who rings the doorbell.", "/// Whether it rang."],
        ]
        .concat()
        .join("\n");
        let expected =
            [(1, "What"), (3, "Those"), (5, "See there"), (6, "The same"), (7, "That of"), (9, "Who"), (10, "Whether")];
        assert_eq!(lines(&text), expected);
    }

    #[test]
    fn other_lines_are_accepted() {
        let text =
            ["// What the next lines do.", "/// Whole blocks.", "/// Whatever the order.", "/// That offset.", "////"];
        let more =
            ["/// Queue of those packets.", "//! # What it is", "let x = 1; /// Those at the end of a line.", "///"];
        assert_eq!(lines(&[&text[..], &more[..]].concat().join("\n")), []);
    }

    #[test]
    fn findings_have_a_place_and_an_advice() {
        let root = std::env::temp_dir().join(format!("amdgpu-rs-prose-{}", std::process::id()));
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("src/lib.rs"), "/// Good.\nstruct A;\n/// See there.\nstruct B;\n").unwrap();
        let error = check(&root).unwrap_err().to_string();
        std::fs::write(root.join("src/lib.rs"), "/// Good.\nstruct A;\n").unwrap();
        let good = check(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(error.contains("src/lib.rs:3: begins with `See there`: repeat the sentence"), "{error}");
        assert!(good.is_ok());
    }
}
