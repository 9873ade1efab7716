// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The documentation agrees with itself and with the code.
//!
//! * Every relative link names a file that exists, and every anchor a heading. Pages of the book link to the book
//!   alone.
//! * Every path that begins with a folder of the project, in a line of text, names a file that exists.
//! * Every `cargo xtask` command, in a block or in a line of text, has a subcommand and options that exist,
//!   and every subcommand is named.
//! * `docs/SUMMARY.md` lists each page once.
//! * A page lists the variables and costs of the software GPU, and no others ([`KINDS`]).
//! * A cell of a table has at most 15 words, or is a list of names in backticks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clap::Command;
use clap::error::ErrorKind;

use xtask_core::error::{Context, Error, Result};

/// The folder of the book's pages.
const BOOK: &str = "docs/";

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Folders of workflows. Their commands are checked like the commands of pages.
const WORKFLOWS: [&str; 2] = ["docs/using", ".github/workflows"];

/// The page of the software GPU's variables.
const VARIABLES: &str = "docs/sim/variables.md";

/// Folders that hold no documentation of the project.
const SKIPPED: [&str; 4] = ["build", "target", "corpus", "node_modules"];

/// The archive's read-me, whose links are relative to the archive.
const ARCHIVE: &str = "xtask/src/dist/README.md";

/// Words in a cell of a table, at most.
const CELL_WORDS: usize = 15;

/// Text of a fault, with its file and the number of its line, from 1 on.
fn at(path: &str, line: usize, what: impl std::fmt::Display) -> String {
    format!("{path}:{line}: {what}")
}

/// A Markdown file, by its parts.
#[derive(Debug, Default, PartialEq)]
struct Page {
    /// The anchors of headings, as mdBook and GitHub make them.
    anchors: BTreeSet<String>,
    /// Targets of links and images, each with its line.
    links: Vec<(usize, String)>,
    /// Code, each piece with its line. Lines of a block that end in `\` are joined.
    code: Vec<Code>,
    /// Cells of tables with their lines.
    cells: Vec<(usize, String)>,
}

/// A line of a code block, or a code span.
#[derive(Debug, PartialEq)]
struct Code {
    line: usize,
    text: String,
    is_block: bool,
}

impl Page {
    /// Takes a text apart. Lines that are indented by four blanks are code.
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let (mut is_fenced, mut continues) = (false, false);
        let mut paragraph = (1, String::new());
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim_start();
            let is_fence = trimmed.starts_with("```");
            let is_code = is_fenced || line.starts_with("    ") && !trimmed.is_empty();
            let is_row = trimmed.starts_with('|') && !is_code;
            // A code span ends with its paragraph, its row or its heading at the latest.
            if is_fence || is_code || is_row || trimmed.is_empty() || trimmed.starts_with('#') {
                page.paragraph(&std::mem::take(&mut paragraph));
            }
            if is_fence {
                is_fenced = !is_fenced;
                continues = false;
            } else if is_code {
                page.code_line(number, trimmed, &mut continues);
            } else {
                continues = false;
                if let Some(heading) = trimmed.strip_prefix('#') {
                    page.anchor(heading);
                }
                if paragraph.1.is_empty() {
                    paragraph.0 = number;
                }
                paragraph.1.push_str(line);
                paragraph.1.push('\n');
                if is_row {
                    let cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
                    page.cells.extend(cells.map(|cell| (number, cell.to_owned())));
                    page.paragraph(&std::mem::take(&mut paragraph));
                }
            }
        }
        page.paragraph(&paragraph);
        page
    }

    fn code_line(&mut self, line: usize, text: &str, continues: &mut bool) {
        let (text, goes_on) = text.strip_suffix('\\').map_or((text, false), |text| (text, true));
        match self.code.last_mut() {
            Some(last) if *continues => last.text.push_str(text),
            _ => self.code.push(Code { line, text: text.to_owned(), is_block: true }),
        }
        *continues = goes_on;
    }

    /// Adds the anchor of a heading; of equal ones the second is `…-1`.
    fn anchor(&mut self, heading: &str) {
        let kept = heading.trim_start_matches('#').trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
        });
        let slug: String = kept.collect();
        let mut numbered = (1..).map(|n| format!("{slug}-{n}"));
        let is_new = self.anchors.insert(slug.clone());
        while !is_new && !self.anchors.insert(numbered.next().unwrap_or_default()) {}
    }

    /// Finds the code spans and links of some lines of text.
    fn paragraph(&mut self, (first, text): &(usize, String)) {
        let line = |offset: usize| first + text[..offset].matches('\n').count();
        let mut prose = String::new();
        let mut rest = 0;
        while let Some(begin) = text[rest..].find('`').map(|found| rest + found) {
            let ticks = text[begin..].len() - text[begin..].trim_start_matches('`').len();
            let inside = begin + ticks;
            let Some(end) = closing(&text[inside..], ticks).map(|found| inside + found) else { break };
            prose.push_str(&text[rest..begin]);
            // Blanks keep the offsets of later text.
            prose.extend(text[begin..end + ticks].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            let code = text[inside..end].replace('\n', " ");
            self.code.push(Code { line: line(begin), text: code, is_block: false });
            rest = end + ticks;
        }
        prose.push_str(&text[rest..]);
        for (offset, _) in prose.match_indices("](") {
            let target = prose[offset + 2..].split(')').next().unwrap_or_default();
            self.links.push((line(offset), target.trim().to_owned()));
        }
    }
}

/// The place of the next run of exactly `count` backticks.
fn closing(text: &str, count: usize) -> Option<usize> {
    let mut rest = 0;
    while let Some(begin) = text[rest..].find('`').map(|found| rest + found) {
        let ticks = text[begin..].len() - text[begin..].trim_start_matches('`').len();
        if ticks == count {
            return Some(begin);
        }
        rest = begin + ticks;
    }
    None
}

/// Markdown files by their paths from the root, with `/` between names.
type Pages = BTreeMap<String, Page>;

/// The path that a link of the page `from` names; `None` if it leaves the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Faults of the links of all pages.
fn links(pages: &Pages, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, page) in pages {
        for (line, link) in page.links.iter().filter(|(_, link)| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, name)| (file, Some(name)));
            let target = if file.is_empty() { Some(path.clone()) } else { resolve(path, file) };
            let Some(target) = target.filter(|target| exists(target)) else {
                wrong.push(at(path, *line, format_args!("no file {link}")));
                continue;
            };
            if path.starts_with(BOOK) && !target.starts_with(BOOK) {
                wrong.push(at(path, *line, format_args!("{link} is not in the book: write its path as code")));
            }
            let known = |anchor| pages.get(&target).is_some_and(|page| page.anchors.contains(anchor));
            if anchor.is_some_and(|anchor| !known(anchor)) {
                wrong.push(at(path, *line, format_args!("no heading for {link}")));
            }
        }
    }
    wrong
}

/// Top-level folders whose paths pages name as code.
const FOLDERS: [&str; 11] =
    ["src", "sim", "xtask", "tests", "crates", "examples", "benches", "mutants", "include", "cts", "models"];

/// Paths from the root that pages name as code, such as `src/lib.rs`, and that do not exist.
fn paths(path: &str, page: &Page, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let is_path = |text: &str| {
        let (folder, rest) = text.split_once('/').unwrap_or_default();
        let is_plain = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
        FOLDERS.contains(&folder) && is_plain && rest.rsplit('/').next().is_some_and(|name| name.contains('.'))
    };
    let spans = page.code.iter().filter(|code| !code.is_block && is_path(&code.text) && !exists(&code.text));
    spans.map(|code| at(path, code.line, format_args!("no file {}", code.text))).collect()
}

/// Faults of the table of contents.
fn summary(pages: &Pages) -> Vec<String> {
    let Some(summary) = pages.get(SUMMARY) else { return vec![format!("{SUMMARY}: no such file")] };
    let listed: Vec<_> = summary.links.iter().filter_map(|(_, link)| resolve(SUMMARY, link)).collect();
    let book = pages.keys().filter(|path| path.starts_with(BOOK) && *path != SUMMARY);
    let count = |path: &String| listed.iter().filter(|other| *other == path).count();
    let wrong = book.map(|path| (path, count(path))).filter(|(_, count)| *count != 1);
    wrong.map(|(path, count)| format!("{SUMMARY}: {path} is listed {count} times")).collect()
}

/// The words of a command line: blanks separate, quotes hold together. A comment, a pipe, a redirection or
/// a bracket around what may be left out ends it.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '>' | '&' | '[') => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Faults of the `cargo xtask` commands in `page`. `command` is the parser of their arguments; `kernel_flags` are the
/// options of `check-kernel`, which passes them on.
fn commands(path: &str, page: &Page, command: &Command, kernel_flags: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for code in &page.code {
        for rest in code.text.split("cargo xtask").skip(1).filter(|rest| rest.starts_with(' ')) {
            let mut words = words(rest);
            // An ellipsis stands for arguments that the page does not show.
            words.retain(|word| word != "…");
            if words.is_empty() {
                continue;
            }
            let is_short = |word: &str| word.contains(['…', '<', '$']);
            let is_kernel = words.first().is_some_and(|word| word == "check-kernel");
            let arguments = std::iter::once("cargo xtask").chain(words.iter().map(String::as_str));
            if let Err(error) = command.clone().try_get_matches_from(arguments) {
                let is_fine = match error.kind() {
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                    // Text names a command without all of its arguments.
                    ErrorKind::MissingRequiredArgument => !code.is_block || rest.contains('…'),
                    ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                        !code.is_block && rest.contains('…') || words.iter().any(|word| is_short(word))
                    }
                    _ => false,
                };
                if !is_fine {
                    let message = error.to_string();
                    let reason = message.lines().next().unwrap_or_default();
                    wrong.push(at(path, code.line, format_args!("cargo xtask {}: {reason}", words.join(" "))));
                }
            }
            if is_kernel {
                let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
                for flag in flags.map(|flag| flag.split('=').next().unwrap_or_default()) {
                    if !kernel_flags.contains(flag) {
                        wrong.push(at(path, code.line, format_args!("check-kernel has no option --{flag}")));
                    }
                }
            }
        }
    }
    wrong
}

/// The subcommands of `command` that no page names.
fn unnamed(pages: &Pages, command: &Command) -> Vec<String> {
    let texts: Vec<_> = pages.values().flat_map(|page| &page.code).map(|code| code.text.as_str()).collect();
    let is_named = |name: &str| {
        let call = format!("cargo xtask {name}");
        texts
            .iter()
            .flat_map(|text| text.match_indices(&call).map(|(begin, call)| &text[begin + call.len()..]))
            .any(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-'))
    };
    let names = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help" && !is_named(name));
    names.map(|name| format!("docs: no page names cargo xtask {name}")).collect()
}

/// The long options that a program's clap arguments declare: fields behind `#[arg(long…)]`.
fn long_flags(source: &str) -> BTreeSet<String> {
    let flag = |rest: &str| {
        let named = rest.strip_prefix(" = \"").and_then(|rest| rest.split('"').next());
        let field = || rest.lines().nth(1)?.trim().split(':').next();
        named.or_else(field).map(|name| name.replace('_', "-"))
    };
    let flags = source.split("#[arg(long").skip(1).filter_map(flag);
    flags.chain(["help".to_owned()]).collect()
}

/// The cells that are too long for a table. Lists of names in backticks are not.
fn cells(path: &str, page: &Page) -> Vec<String> {
    let words = |cell: &str| cell.split_whitespace().count();
    let is_list = |cell: &str| cell.split(", ").all(|item| item.starts_with('`') && item.ends_with('`'));
    let long = page.cells.iter().filter(|(_, cell)| words(cell) > CELL_WORDS && !is_list(cell));
    long.map(|(line, cell)| at(path, *line, format_args!("a cell of {} words is prose", words(cell)))).collect()
}

/// Names that the code reads and that pages list, by their kind: the heading of the table's first column.
#[derive(Debug, Default, PartialEq)]
struct Names(BTreeMap<&'static str, BTreeSet<String>>);

/// The kinds of names, and the page that lists each.
const KINDS: [(&str, &str); 2] = [("variable", VARIABLES), ("cost", VARIABLES)];

impl Names {
    fn add(&mut self, kind: &'static str, names: impl IntoIterator<Item = impl Into<String>>) {
        self.0.entry(kind).or_default().extend(names.into_iter().map(Into::into));
    }

    /// Adds the names in a source file of the software GPU: literals `"HSA_SIM_…"` and the array of costs. Tests at the
    /// file's end do not count.
    fn add_sim(&mut self, source: &str) {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for literal in source.split('"').skip(1).step_by(2) {
            let is_name = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            if literal.strip_prefix("HSA_SIM_").is_some_and(is_name) {
                self.add("variable", [literal]);
            }
        }
        for list in source.split("; ").flat_map(|part| part.split_once("] = [").map(|(_, rest)| rest)) {
            let items: Vec<_> = list.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2).collect();
            if items.contains(&"dispatch_packets") {
                self.add("cost", items);
            }
        }
    }

    /// Names in the first cells of the tables of the page `path`.
    fn add_page(&mut self, path: &str, text: &str) {
        let mut kind = None;
        for line in text.lines() {
            let Some(first) = line.strip_prefix("| ").and_then(|row| row.split(" |").next()) else {
                kind = kind.filter(|_| line.starts_with('|'));
                continue;
            };
            match KINDS.iter().find(|(name, page)| *name == first && *page == path) {
                Some((name, _)) => kind = Some(*name),
                None => kind.into_iter().for_each(|kind| self.add(kind, first.split('`').skip(1).step_by(2))),
            }
        }
    }

    /// How `documented` differs from the code's names.
    fn compare(&self, documented: &Self) -> Vec<String> {
        let none = BTreeSet::new();
        let differ = |(kind, path): (&str, &str)| {
            let [code, page] = [self, documented].map(|names| names.0.get(kind).unwrap_or(&none));
            let empty = code.is_empty().then(|| format!("{path}: no {kind} found in the sources"));
            let missing = code.difference(page).map(|name| format!("{path}: no row for the {kind} {name}"));
            let extra = page.difference(code).map(|name| format!("{path}: the sources have no {kind} {name}"));
            empty.into_iter().chain(missing).chain(extra).collect::<Vec<_>>()
        };
        KINDS.into_iter().flat_map(differ).collect()
    }
}

/// Calls `each` with the path from `root` and the text of each file below `folder` whose name ends with `end`.
pub fn read(root: &Path, folder: &Path, end: &str, each: &mut impl FnMut(String, String)) -> Result<()> {
    let context = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).context(context)? {
        let entry = entry.context(context)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().context(context)?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                read(root, &path, end, each)?;
            }
        } else if name.ends_with(end) {
            let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
            let from_root = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            each(from_root, text);
        }
    }
    Ok(())
}

/// Checks the documentation below `root`. `command` parses the arguments of `cargo xtask`.
///
/// # Errors
/// The faults, each with its file and line.
pub fn check(root: &Path, command: &Command) -> Result<()> {
    let mut pages = Pages::new();
    let mut documented = Names::default();
    read(root, root, ".md", &mut |path, text| {
        documented.add_page(&path, &text);
        if path != ARCHIVE {
            pages.insert(path, Page::parse(&text));
        }
    })?;
    let mut names = Names::default();
    let mut kernel_flags = BTreeSet::new();
    read(root, &root.join("sim"), ".rs", &mut |path, text| {
        if path.contains("/src/") {
            names.add_sim(&text);
        }
        if path.starts_with("sim/check-kernel/src/") {
            kernel_flags.append(&mut long_flags(&text));
        }
    })?;
    let mut wrong = links(&pages, |path| root.join(path).exists());
    wrong.extend(summary(&pages));
    wrong.extend(unnamed(&pages, command));
    wrong.extend(names.compare(&documented));
    for (path, page) in &pages {
        wrong.extend(commands(path, page, command, &kernel_flags));
        wrong.extend(paths(path, page, |path| root.join(path).exists()));
        wrong.extend(cells(path, page));
    }
    for folder in WORKFLOWS {
        read(root, &root.join(folder), ".yml", &mut |path, text| {
            wrong.extend(commands(&path, &Page::parse(&text), command, &kernel_flags));
        })?;
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} faults in the documentation:\n{}", wrong.join("\n")))),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn book(files: &[(&str, &str)]) -> Pages {
        files.iter().map(|(path, text)| ((*path).to_owned(), Page::parse(text))).collect()
    }

    fn link_faults(files: &[(&str, &str)]) -> Vec<String> {
        let pages = book(files);
        links(&pages, |path| pages.contains_key(path) || path == "docs/heat.png" || path == "src")
    }

    fn command_faults(text: &str) -> Vec<String> {
        let flags = BTreeSet::from(["grid".to_owned(), "arg".to_owned()]);
        commands("README.md", &Page::parse(text), &crate::Arguments::command(), &flags)
    }

    #[test]
    fn the_documentation_of_this_tree_is_fine() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root, &crate::Arguments::command()).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn links_and_anchors_that_exist_are_fine() {
        let readme =
            "# A\n[b](docs/b.md), [c](docs/b.md#two-words), ![p](docs/heat.png)\n[a](#a) [out](https://a.b/c#d)";
        let page =
            "# B\n\n## Two `words`!\n\n## Two words\n\nSee [B](b.md), [second](#two-words-1).\n\n    [no](link)\n";
        assert_eq!(link_faults(&[("README.md", readme), ("docs/b.md", page)]), [""; 0]);
    }

    #[test]
    fn links_and_anchors_that_do_not_exist_are_named_with_their_lines() {
        let readme = "# A\n\n[b](docs/c.md)\n`code` and\na [link\nof two lines](docs/b.md#three)\n[x](../a.md)";
        let wrong = link_faults(&[("README.md", readme), ("docs/b.md", "[out](../src)\n[self](#b)")]);
        assert_eq!(
            wrong,
            [
                "README.md:3: no file docs/c.md",
                "README.md:6: no heading for docs/b.md#three",
                "README.md:7: no file ../a.md",
                "docs/b.md:1: ../src is not in the book: write its path as code",
                "docs/b.md:2: no heading for #b",
            ]
        );
    }

    #[test]
    fn paths_in_text_that_do_not_exist_are_named() {
        let page = Page::parse(
            "`src/lib.rs`, `src/no.rs` and `src/gone/`, `runtime/src/x.c`, `tests/*.rs`\n\n    src/block.rs\n",
        );
        assert_eq!(paths("a.md", &page, |path| path == "src/lib.rs"), ["a.md:1: no file src/no.rs"]);
    }

    #[test]
    fn each_page_is_listed_once() {
        let wrong = summary(&book(&[
            (SUMMARY, "- [A](a.md)\n- [B](x/b.md)\n- [B again](x/b.md)"),
            ("docs/a.md", ""),
            ("docs/x/b.md", ""),
            ("docs/x/c.md", ""),
            ("README.md", ""),
        ]));
        assert_eq!(
            wrong,
            ["docs/SUMMARY.md: docs/x/b.md is listed 2 times", "docs/SUMMARY.md: docs/x/c.md is listed 0 times"]
        );
        assert_eq!(summary(&Pages::new()), ["docs/SUMMARY.md: no such file"]);
    }

    #[test]
    fn commands_that_parse_are_fine() {
        for text in [
            "    cargo xtask cts --filter '*Semaphore*' --repeat 200   # a comment of `words`",
            "    IREE_SOURCE_DIR=~/iree cargo xtask test",
            "```console\n$ cargo xtask run --target gfx1100 -- \\\n    iree-run-module --device=x | tail\n```",
            "Use `cargo xtask run` or `cargo xtask soak --sanitizer …`, or `cargo xtask --help`.",
            "`cargo xtask\nbench --guard` over two lines, and `cargo xtask` alone",
            "    cargo xtask check-kernel kernel.hsaco NAME --grid 4 --arg buffer:4096=iota-f32",
        ] {
            assert_eq!(command_faults(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn commands_that_do_not_parse_are_named() {
        for (text, named) in [
            ("a\n\n    cargo xtask tests", "README.md:3: cargo xtask tests: "),
            ("`cargo xtask cts --fliter x`", "--fliter"),
            ("    cargo xtask cts --repeat", "--repeat"),
            ("`cargo xtask cts --repeat 0`", "--repeat"),
            ("    cargo xtask run", "required"),
            ("```\ncargo xtask bench --guard \\\n  --counts\n```", "README.md:2: "),
            ("`cargo xtask check-kernel k.co NAME --gird 4`", "check-kernel has no option --gird"),
        ] {
            let wrong = command_faults(text);
            assert!(matches!(&wrong[..], [fault] if fault.contains(named)), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn subcommands_that_no_page_names_are_named() {
        let command = Command::new("cargo xtask").subcommands(["cts", "check", "run"].map(Command::new));
        let pages =
            book(&[("a.md", "`cargo xtask check-kernel`\n\n    A=b cargo xtask cts\n    cargo xtask run -- x")]);
        assert_eq!(unnamed(&pages, &command), ["docs: no page names cargo xtask check"]);
    }

    #[test]
    fn long_cells_are_prose() {
        let page = Page::parse(&format!("| a | b |\n|---|---|\n| {0}| {0} {0}|\n\n    | {0} {0} |", "word ".repeat(8)));
        assert_eq!(cells("a.md", &page), ["a.md:3: a cell of 16 words is prose"]);
        let names =
            Page::parse(&format!("| {} |\n| {} end |", ["`gfx1100`"; 16].join(", "), ["`gfx1100`"; 16].join(", ")));
        assert_eq!(cells("a.md", &names), ["a.md:2: a cell of 17 words is prose"]);
    }

    #[test]
    fn options_of_clap_are_found() {
        let source =
            "#[arg(long, value_name = \"X\")]\n    dynamic_lds: u32,\n    #[arg(long = \"arg\", x)]\n    arguments: X,";
        assert_eq!(long_flags(source), ["arg", "dynamic-lds", "help"].map(str::to_owned).into());
    }

    #[test]
    fn names_of_the_code_and_of_the_page_are_compared() {
        let mut code = Names::default();
        code.add_sim(
            "f(\"HSA_SIM_SEED\"); g(\"HSA_SIM_TRACE={x}\"); const C: [&str; 2] = [\"wait\", \"hazard\"];\n\
             const D: [&str; 2] = [\n\"dispatch_packets\",\n\"interrupts\"];\n\
             #[cfg(test)] \"HSA_SIM_SEAD\"",
        );
        let names = |kind: &str| code.0[kind].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(names("variable"), ["HSA_SIM_SEED"]);
        assert_eq!(names("cost"), ["dispatch_packets", "interrupts"]);
        let mut page = Names::default();
        page.add_page(
            VARIABLES,
            "| variable | x |\n|---|---|\n| `HSA_SIM_SEDE` | 1 |\n\n| check | x |\n| `wait`, `hazard` | |\n\n\
             | cost | x |\n| `dispatch_packets` | |\n| `interrupts` | |\n\n\
             | key | x |\n| `other` | |",
        );
        assert_eq!(
            code.compare(&page),
            [
                "docs/sim/variables.md: no row for the variable HSA_SIM_SEED",
                "docs/sim/variables.md: the sources have no variable HSA_SIM_SEDE",
            ]
        );
        assert_eq!(Names::default().compare(&Names::default()).len(), KINDS.len());
    }
}
