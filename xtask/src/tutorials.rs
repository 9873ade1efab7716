// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs the commands of tutorials in `docs/` in their order and compares their output with the page's.
//!
//! * A block that is indented by four blanks holds commands. All but the last have to succeed.
//! * `<!-- file: NAME -->` before a fenced block makes it a file of that name.
//! * A block marked `text` is output of the commands before it. `...` and `…` stand for text that is left out.
//! * "The exit status is N." in the text belongs to the last command before it. Without that, the status is 0.
//! * `<!-- not run -->` leaves the next block out, and all that follows it up to the next commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::check_kernel;
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;

/// Pages whose commands are run.
const PAGES: [&str; 7] = [
    "docs/sim/find-a-race.md",
    "docs/sim/compile.md",
    "docs/using/ci.md",
    "docs/using/onnx.md",
    "docs/using/own-kernel.md",
    "docs/using/port.md",
    "docs/using/two-gpus.md",
];
/// Folders of the project that commands name by a relative path.
const FOLDERS: [&str; 6] = ["build", "examples", "include", "sim", "target", "tests"];
/// A command that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// A part of a page, in the page's order.
#[derive(Debug, PartialEq)]
enum Part {
    File { name: String, text: String },
    Commands { line: usize, commands: Vec<String>, outputs: Vec<String>, status: i32 },
}

/// Runs all pages and prints one line for each.
///
/// # Errors
/// When the checker of kernels cannot be built; a page whose commands fail is counted.
pub fn run(layout: &Layout, steps: &Steps) -> Result<Tally> {
    // A build within a command could be silent for long.
    check_kernel::ensure(layout, steps)?;
    let results =
        steps.step("Tutorials", |step| Ok(PAGES.map(|page| (page, timed(|| run_page(layout, step, page))))))?;
    let mut tally = Tally::default();
    for (page, (result, time)) in results {
        steps.record("tutorials", page, (&result).into(), Some(time));
        match result {
            Ok(commands) => {
                tally.passed += 1;
                println!("  ok      {page:36} {commands} commands");
            }
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {page:36} {error}");
            }
        }
    }
    Ok(tally)
}

/// Runs a page's commands and returns their number.
fn run_page(layout: &Layout, step: &Step, page: &str) -> Result<usize> {
    step.note(page);
    let path = layout.root.join(page);
    let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    let folder = prepare(layout, page)?;
    let mut count = 0;
    for part in parts(&text) {
        match part {
            Part::File { name, text } => {
                let path = folder.join(name);
                fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
            }
            Part::Commands { line, commands, outputs, status } => {
                count += commands.len();
                run_commands(layout, step, &folder, &commands, &outputs, status)
                    .map_err(|error| Error::Failed(format!("line {line}: {error}")))?;
            }
        }
    }
    Ok(count)
}

/// An empty folder for a page, in which the project's folders are found by the paths that pages use.
fn prepare(layout: &Layout, page: &str) -> Result<PathBuf> {
    let stem = Path::new(page).file_stem().unwrap_or_default();
    let folder = layout.build.join("tutorials").join(stem);
    let shown = || format!("making {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).context(shown)?;
    }
    fs::create_dir_all(&folder).context(shown)?;
    for name in FOLDERS {
        let source = if name == "build" { layout.build.clone() } else { layout.root.join(name) };
        symlink(source, folder.join(name)).context(shown)?;
    }
    Ok(folder)
}

/// Runs the commands of a block. Compares all that they print with `outputs`, and the last one's exit status.
fn run_commands(
    layout: &Layout,
    step: &Step,
    folder: &Path,
    commands: &[String],
    outputs: &[String],
    status: i32,
) -> Result<()> {
    let mut printed = String::new();
    for (index, text) in commands.iter().enumerate() {
        let mut shell = layout.command("sh");
        shell.args(["-c", &format!("exec 2>&1; {text}")]).current_dir(folder);
        let programs = layout.venv_program("");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", programs.display()));
        let wanted = if index + 1 == commands.len() { status } else { 0 };
        let how = match step.follow(shell, Some(SILENCE), |line| {
            printed.push_str(line);
            printed.push('\n');
        })? {
            Ended::Exit(code) if code.code() == Some(wanted) => continue,
            Ended::Exit(code) => process::describe(code),
            Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        return Err(Error::Failed(format!("`{text}` ended with {how}, not {wanted}:\n{}", tail(&printed))));
    }
    outputs.iter().try_for_each(|output| match missing(output, &printed) {
        None => Ok(()),
        Some(piece) => Err(Error::Failed(format!("the output lacks\n{piece}\n      It is\n{}", tail(&printed)))),
    })
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// The first piece of `expected`, between ellipses, that `printed` lacks behind the pieces before. Line breaks
/// and blanks are equal.
fn missing(expected: &str, printed: &str) -> Option<String> {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = joined(printed);
    let mut rest = printed.as_str();
    for piece in expected.split('…').flat_map(|piece| piece.split("...")) {
        let piece = joined(piece);
        match rest.find(&piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return Some(piece),
        }
    }
    None
}

/// Takes a page apart.
fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = (1..).zip(page.lines()).peekable();
    // `skips` is for the next block, `is_skipped` for all that belongs to the last commands.
    let (mut file, mut skips, mut is_skipped, mut is_after_blank) = (None, false, false, true);
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) {
            file = Some(name.to_owned());
        } else if trimmed == "<!-- not run -->" {
            skips = true;
        } else if let Some(language) = trimmed.strip_prefix("```") {
            let mut text = String::new();
            let indent = line.len() - line.trim_start().len();
            for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
                text.push_str(line.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            if let Some(name) = file.take() {
                parts.push(Part::File { name, text });
            } else if let ("text", Some(Part::Commands { outputs, .. })) = (language, last_commands(&mut parts)) {
                is_skipped |= skips;
                if !is_skipped {
                    outputs.push(text);
                }
            }
            skips = false;
        } else if is_after_blank && line.starts_with("    ") {
            let mut commands = vec![trimmed.to_owned()];
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    ")) {
                match commands.last_mut().filter(|last| last.ends_with('\\')) {
                    Some(last) => {
                        last.pop();
                        last.push_str(line.trim());
                    }
                    None => commands.push(line.trim().to_owned()),
                }
            }
            if !skips {
                parts.push(Part::Commands { line: number, commands, outputs: Vec::new(), status: 0 });
            }
            is_skipped = std::mem::take(&mut skips);
        } else if let Some((_, rest)) = line.split_once("The exit status is ") {
            let stated = rest.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|text| text.parse().ok());
            if let (false, Some(stated), Some(Part::Commands { status, .. })) =
                (is_skipped, stated, last_commands(&mut parts))
            {
                *status = stated;
            }
        }
        is_after_blank = trimmed.is_empty();
    }
    parts
}

fn last_commands(parts: &mut [Part]) -> Option<&mut Part> {
    parts.iter_mut().rfind(|part| matches!(part, Part::Commands { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_files_and_commands_with_their_outputs() {
        let page = "Text\n\n<!-- file: a.c -->\n```c\nint x;\n```\n\n1. Item:\n\n       one \\\n           two\n       three\n\n\
                    ```text\nout … put\n```\n\nThe exit status is 1. More.\n\n<!-- not run -->\n    four\n\n```mlir\nx\n```\n";
        let commands = vec!["one two".to_owned(), "three".to_owned()];
        assert_eq!(
            parts(page),
            [
                Part::File { name: "a.c".to_owned(), text: "int x;\n".to_owned() },
                Part::Commands { line: 10, commands, outputs: vec!["out … put\n".to_owned()], status: 1 },
            ]
        );
    }

    #[test]
    fn output_agrees_in_order_but_for_what_is_left_out() {
        let printed = "first line\n  second 17 ns here\nthird\n";
        assert_eq!(missing("first\nline second … here\nthird", printed), None);
        assert_eq!(missing("...\nthird\n...", printed), None);
        assert_eq!(missing("third … first", printed).as_deref(), Some("first"));
        assert_eq!(missing("second here", printed).as_deref(), Some("second here"));
    }
}
