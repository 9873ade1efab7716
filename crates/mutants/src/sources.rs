// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The driver's sources as syntax: its functions by their paths, the places of code in them, and the sources with
//! branches for all changes. Code is compared as tokens, so that formatting and comments do not matter; a place is an
//! expression or whole statements, so that a branch fits there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::list::Mutant;
use xtask_core::error::{Context, Error, Result};

/// Folder of the driver's sources, relative to the project's folder. The driver's crates are in it.
pub const FOLDER: &str = "src";

/// The sources of all of the driver's crates.
pub struct Sources {
    sources: Vec<Source>,
    /// The driver's crates, the one that IREE links first.
    pub crates: Vec<Crate>,
}

/// A crate of the driver.
pub struct Crate {
    /// Name of the package.
    pub package: String,
    /// The crate's root module, relative to the project's folder.
    pub root: PathBuf,
}

#[derive(Deserialize)]
struct Manifest {
    package: Package,
    lib: Option<Library>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

#[derive(Deserialize)]
struct Library {
    path: Option<PathBuf>,
}

/// A source file. Ranges are bytes of its text.
#[derive(Default)]
struct Source {
    /// Path relative to the project's folder.
    file: PathBuf,
    text: String,
    tokens: Vec<Token>,
    functions: Vec<Function>,
    /// Expressions.
    expressions: BTreeSet<(usize, usize)>,
    /// Starts and ends of the statements of each block.
    blocks: Vec<(Vec<usize>, Vec<usize>)>,
    /// Constants and constant functions, in which a branch does not compile.
    constants: Vec<Range<usize>>,
}

struct Token {
    text: String,
    range: Range<usize>,
}

struct Function {
    /// The folders and file below [`FOLDER`], the inline modules, the type or trait, and the name, as in
    /// `ring::aql::AqlRing::room`.
    path: String,
    range: Range<usize>,
}

/// An occurrence of code.
struct Place<'a> {
    source: &'a Source,
    function: &'a Function,
    range: Range<usize>,
    /// True for whole statements.
    is_statements: bool,
}

impl Sources {
    /// Reads the sources of the driver's crates.
    ///
    /// # Errors
    /// When a file cannot be read or is malformed.
    pub fn read(root: &Path) -> Result<Self> {
        let mut sources = Self { sources: Vec::new(), crates: vec![Crate::read(root, Path::new(""))?] };
        sources.add_folder(root, Path::new(FOLDER))?;
        Ok(sources)
    }

    fn add_folder(&mut self, root: &Path, folder: &Path) -> Result<()> {
        for name in entries(&root.join(folder))? {
            let file = folder.join(&name);
            if root.join(&file).is_dir() {
                self.add_folder(root, &file)?;
            } else if name == "Cargo.toml" {
                self.crates.push(Crate::read(root, folder)?);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(root.join(&file)).context(|| format!("reading {}", file.display()))?;
                self.sources.push(Source::parse(file, text)?);
            }
        }
        Ok(())
    }

    /// Returns the text of each file that `mutants` change, with a branch for each change.
    ///
    /// # Errors
    /// When the code of a change is not in its function once, or overlaps the code of another change.
    pub fn with_branches(&self, mutants: &[Mutant]) -> Result<BTreeMap<PathBuf, String>> {
        let places = mutants.iter().map(|mutant| Ok((self.place(mutant)?, mutant))).collect::<Result<Vec<_>>>()?;
        let mut texts = BTreeMap::new();
        for source in &self.sources {
            let mut here: Vec<_> = places.iter().filter(|(place, _)| place.source.file == source.file).collect();
            if here.is_empty() {
                continue;
            }
            here.sort_by_key(|(place, mutant)| (place.range.start, mutant.number));
            let (mut text, mut end) = (String::new(), 0);
            for same in here.chunk_by(|(one, _), (other, _)| one.range == other.range) {
                let (place, mutant) = same[0];
                if place.range.start < end {
                    return Err(Error::setup(format!(
                        "the mutant '{}' replaces a part of what another one does: {place}",
                        mutant.name
                    )));
                }
                text += &source.text[end..place.range.start];
                text += &place.branches(same.iter().map(|(_, mutant)| *mutant));
                end = place.range.end;
            }
            texts.insert(source.file.clone(), text + &source.text[end..]);
        }
        Ok(texts)
    }

    /// The only place of a change.
    fn place(&self, mutant: &Mutant) -> Result<Place<'_>> {
        let code = tokens(&mutant.code).map_err(|error| {
            Error::setup(format!("the code of the mutant '{}' is not Rust code: {error}", mutant.name))
        })?;
        let is_named = |function: &Function| function.is_named(&mutant.function);
        let sources = self.sources.iter().filter(|source| source.functions.iter().any(is_named));
        let found: Vec<_> =
            sources.flat_map(|source| source.places(&code)).filter(|place| is_named(place.function)).collect();
        let [place] = <[Place; 1]>::try_from(found).map_err(|found| self.not_once(mutant, &code, &found))?;
        if place.source.constants.iter().any(|constant| covers(constant, &place.range)) {
            return Err(Error::setup(format!(
                "the mutant '{}' changes a constant, in which a branch does not compile: {place}",
                mutant.name
            )));
        }
        Ok(place)
    }

    /// The error for code that is not once where it has to be. It names the candidates.
    fn not_once(&self, mutant: &Mutant, code: &[Token], found: &[Place]) -> Error {
        let named = |path: &str| -> Vec<_> {
            let functions = |source: &Source| {
                let named = source.functions.iter().filter(|function| function.is_named(path));
                named.map(|function| source.line(&function.path, function.range.start)).collect::<Vec<_>>()
            };
            self.sources.iter().flat_map(functions).collect()
        };
        let last = mutant.function.rsplit("::").next().unwrap_or_default();
        let functions = [&mutant.function, last].map(named).into_iter().find(|functions| !functions.is_empty());
        let elsewhere: Vec<_> = self.sources.iter().flat_map(|source| source.places(code)).collect();
        let lines = |places: &[Place]| places.iter().map(ToString::to_string).collect();
        let (heading, candidates): (_, Vec<_>) = match (found, &elsewhere[..]) {
            ([], []) => ("functions of this name", functions.unwrap_or_default()),
            ([], elsewhere) => ("it is elsewhere", lines(elsewhere)),
            (found, _) => ("it is in", lines(found)),
        };
        let mut text = format!(
            "the code that the mutant '{}' replaces is {} times in `{}` as an expression or whole statements, where it \
             has to be once:\n{}\n{heading}: {}",
            mutant.name,
            found.len(),
            mutant.function,
            mutant.code,
            if candidates.is_empty() { "none" } else { "" }
        );
        candidates.iter().for_each(|candidate| text += &format!("\n  {candidate}"));
        Error::setup(text)
    }
}

impl Crate {
    fn read(root: &Path, folder: &Path) -> Result<Self> {
        let path = root.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
        let manifest: Manifest =
            toml::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
        let library = manifest.lib.and_then(|library| library.path).unwrap_or_else(|| "src/lib.rs".into());
        Ok(Self { package: manifest.package.name, root: folder.join(library) })
    }
}

impl Source {
    fn parse(file: PathBuf, text: String) -> Result<Self> {
        let trouble = |error: &dyn std::fmt::Display| Error::setup(format!("{}: {error}", file.display()));
        let stream = TokenStream::from_str(&text).map_err(|error| trouble(&error))?;
        let parsed: syn::File = syn::parse2(stream.clone()).map_err(|error| trouble(&error))?;
        let mut source = Self::default();
        flatten(stream, &mut source.tokens);
        let module = file.strip_prefix(FOLDER).unwrap_or(&file).with_extension("");
        let names = module.iter().map(|name| name.to_string_lossy().into_owned());
        let path = names.filter(|name| !["mod", "lib", "src"].contains(&name.as_str())).collect();
        let mut reader = Reader { path, source: &mut source };
        reader.visit_file(&parsed);
        Ok(Self { file, text, ..source })
    }

    /// Expressions and statements that are `code`.
    fn places(&self, code: &[Token]) -> Vec<Place<'_>> {
        let ranges = occurrences(&self.tokens, code);
        let place = |range: Range<usize>| {
            let is_statements =
                self.blocks.iter().any(|(starts, ends)| starts.contains(&range.start) && ends.contains(&range.end));
            if !is_statements && !self.expressions.contains(&(range.start, range.end)) {
                return None;
            }
            let around = self.functions.iter().filter(|function| covers(&function.range, &range));
            let function = around.min_by_key(|function| function.range.len())?;
            Some(Place { source: self, function, range, is_statements })
        };
        ranges.filter_map(place).collect()
    }

    /// Formats a function's path with the place in the file.
    fn line(&self, function: &str, at: usize) -> String {
        let line = 1 + self.text[..at].matches('\n').count();
        format!("{function} ({}:{line})", self.file.display())
    }
}

impl Function {
    /// True if `path` is the end of the function's path.
    fn is_named(&self, path: &str) -> bool {
        self.path.strip_suffix(path).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source.line(&self.function.path, self.range.start))
    }
}

impl Place<'_> {
    /// The code with a branch for each of `mutants`.
    fn branches<'m>(&self, mutants: impl Iterator<Item = &'m Mutant>) -> String {
        let mut branches = String::new();
        for mutant in mutants {
            branches += &format!("if crate::mutant::is({}) {{ {} }} else ", mutant.number, mutant.replacement);
        }
        branches += &format!("{{ {} }}", &self.source.text[self.range.clone()]);
        // As an operand, too.
        if self.is_statements { branches } else { format!("({branches})") }
    }
}

/// Reads a file's functions, expressions, statements and constants.
struct Reader<'a> {
    path: Vec<String>,
    source: &'a mut Source,
}

impl Reader<'_> {
    fn below(&mut self, name: Option<String>, visit: impl FnOnce(&mut Self)) {
        let depth = self.path.len();
        self.path.extend(name);
        visit(self);
        self.path.truncate(depth);
    }

    fn function(&mut self, item: &dyn Spanned, signature: &syn::Signature, visit: impl FnOnce(&mut Self)) {
        let range = item.span().byte_range();
        if signature.constness.is_some() {
            self.source.constants.push(range.clone());
        }
        self.below(Some(signature.ident.to_string()), |this| {
            this.source.functions.push(Function { path: this.path.join("::"), range });
            visit(this);
        });
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.below(Some(item.ident.to_string()), |this| visit::visit_item_mod(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.below(Some(item.ident.to_string()), |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.below(type_name(&item.self_ty), |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(item, &item.sig, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(item, &item.sig, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(item, &item.sig, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.source.constants.push(item.span().byte_range());
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.source.constants.push(item.span().byte_range());
        visit::visit_item_static(self, item);
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        let range = expression.span().byte_range();
        self.source.expressions.insert((range.start, range.end));
        visit::visit_expr(self, expression);
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let ranges: Vec<_> = block.stmts.iter().map(|statement| statement.span().byte_range()).collect();
        self.source.blocks.push(ranges.into_iter().map(|range| (range.start, range.end)).unzip());
        visit::visit_block(self, block);
    }
}

/// Name of the type that an `impl` is for, without its module and parameters.
fn type_name(kind: &syn::Type) -> Option<String> {
    match kind {
        syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// The tokens of `code`.
fn tokens(code: &str) -> std::result::Result<Vec<Token>, proc_macro2::LexError> {
    let mut tokens = Vec::new();
    flatten(TokenStream::from_str(code)?, &mut tokens);
    Ok(tokens)
}

/// True if two pieces of code have the same tokens.
#[cfg(test)]
pub fn is_same(one: &str, other: &str) -> bool {
    let texts = |code| tokens(code).unwrap().into_iter().map(|token| token.text).collect::<Vec<_>>();
    texts(one) == texts(other)
}

/// Appends the tokens of `stream`, with delimiters as tokens. A comma in front of a closing delimiter is left out,
/// because the formatting decides on it.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            tokens.push(Token { text: tree.to_string(), range: tree.span().byte_range() });
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        tokens.push(Token { text: open.to_owned(), range: group.span_open().byte_range() });
        flatten(group.stream(), tokens);
        tokens.pop_if(|token| token.text == ",");
        tokens.push(Token { text: close.to_owned(), range: group.span_close().byte_range() });
    }
}

/// Ranges of the source that consist of the tokens `code`.
fn occurrences(source: &[Token], code: &[Token]) -> impl Iterator<Item = Range<usize>> {
    let is_code = move |window: &&[Token]| window.iter().zip(code).all(|(one, other)| one.text == other.text);
    let windows = source.windows(code.len().max(1)).filter(move |window| !code.is_empty() && is_code(window));
    windows.map(|window| window[0].range.start..window[window.len() - 1].range.end)
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Names of a folder's entries, in order.
pub fn entries(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let context = || format!("reading {}", folder.display());
    let entries = fs::read_dir(folder).context(context)?;
    let mut names = entries.map(|entry| Ok(entry.context(context)?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let parse = |(file, text): &(&str, &str)| Source::parse(file.into(), (*text).to_owned()).unwrap();
        Sources { sources: files.iter().map(parse).collect(), crates: Vec::new() }
    }

    fn mutant(number: usize, function: &str, code: &str, replacement: &str) -> Mutant {
        let (name, function) = (format!("m{number}"), function.to_owned());
        Mutant { number, name, function, code: code.into(), replacement: replacement.into(), ..Mutant::default() }
    }

    /// The text of the only changed file.
    fn changed(files: &[(&str, &str)], mutants: &[Mutant]) -> String {
        let mut texts = sources(files).with_branches(mutants).unwrap();
        assert_eq!(texts.len(), 1);
        texts.pop_first().unwrap().1
    }

    fn error(files: &[(&str, &str)], mutant: Mutant) -> String {
        sources(files).with_branches(&[mutant]).unwrap_err().to_string()
    }

    #[test]
    fn places_become_branches() {
        let mutants = [
            mutant(0, "f", "g();", ""),
            mutant(1, "f", "a + 1", "a"),
            mutant(2, "f", "a + 1", "a + 2"),
            mutant(3, "f", "h(); i();", "i(); h();"),
        ];
        let text = changed(&[("src/lib.rs", "fn f() { g(); h(); i(); 2 * (a + 1) }")], &mutants);
        let expected = "fn f() { if crate::mutant::is(0) {  } else { g(); } \
             if crate::mutant::is(3) { i(); h(); } else { h(); i(); } \
             2 * ((if crate::mutant::is(1) { a } else if crate::mutant::is(2) { a + 2 } else { a + 1 })) }";
        assert_eq!(text, expected);
    }

    #[test]
    fn code_is_found_whatever_its_file_format_and_comments_are() {
        let one = mutant(0, "Queue::f", "g(a, b);", "");
        for (file, text) in [
            ("src/lib.rs", "impl Queue { fn f() { g(a, b); } }"),
            ("src/core/queue/mod.rs", "impl<'a> crate::Queue<'a> { fn f() { h(); g(\n    a, // one\n    b,\n); } }"),
            ("src/ring/aql.rs", "mod inner { impl Drop for &Queue { fn f() { if x { g(a /* 1 */, b); } } } }"),
        ] {
            assert!(changed(&[(file, text)], std::slice::from_ref(&one)).contains("crate::mutant::is(0)"), "{text}");
        }
    }

    #[test]
    fn a_path_ends_in_the_names_that_are_given() {
        let files = [("src/ring/aql.rs", "fn f() { g(); }"), ("src/ring/pm4/mod.rs", "fn f() { g(); } fn xf() {}")];
        for (function, file) in [("aql::f", "src/ring/aql.rs"), ("ring::pm4::f", "src/ring/pm4/mod.rs")] {
            let texts = sources(&files).with_branches(&[mutant(0, function, "g();", "")]).unwrap();
            assert_eq!(texts.keys().collect::<Vec<_>>(), [Path::new(file)]);
        }
        let text = error(&files, mutant(0, "f", "g();", ""));
        for part in
            ["'m0'", "2 times", "g();", "ring::aql::f (src/ring/aql.rs:1)", "ring::pm4::f (src/ring/pm4/mod.rs:1)"]
        {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn code_that_is_not_there_is_an_error_with_the_candidates() {
        let file = [("src/a.rs", "fn f() {\n  g();\n}\nfn h() {}")];
        assert!(error(&file, mutant(0, "h", "g();", "")).contains("elsewhere: \n  a::f (src/a.rs:2)"));
        assert!(error(&file, mutant(0, "b::f", "i();", "")).contains("functions of this name: \n  a::f (src/a.rs:1)"));
        assert!(error(&file, mutant(0, "i", "i();", "")).contains("functions of this name: none"));
        assert!(error(&file, mutant(0, "f", "g(", "")).contains("not Rust code"));
    }

    #[test]
    fn a_part_of_an_expression_or_a_constant_is_no_place() {
        for code in ["b + c", "g() h()", "g("] {
            let file = [("src/a.rs", "fn f() { a * b + c; x.g().h(); }")];
            assert!(sources(&file).with_branches(&[mutant(0, "f", code, "")]).is_err(), "{code}");
        }
        for text in ["const fn f() -> u32 { 1 + 2 }", "fn f() { const N: u32 = 1 + 2; }"] {
            assert!(error(&[("src/a.rs", text)], mutant(0, "f", "1 + 2", "")).contains("constant"), "{text}");
        }
    }

    #[test]
    fn crates_below_the_folder_are_the_drivers() {
        let root = std::env::temp_dir().join(format!("mutants-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        file("Cargo.toml", "[package]\nname = 'driver'\n");
        file("src/lib.rs", "fn f() { g(); }");
        file("src/ring/Cargo.toml", "[package]\nname = 'ring'\n[lib]\npath = 'mod.rs'\n");
        file("src/ring/mod.rs", "fn f() { g(); }");
        let sources = Sources::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let crates: Vec<_> =
            sources.crates.iter().map(|one| (one.package.as_str(), one.root.to_str().unwrap())).collect();
        assert_eq!(crates, [("driver", "src/lib.rs"), ("ring", "src/ring/mod.rs")]);
        let texts = sources.with_branches(&[mutant(0, "ring::f", "g();", "")]).unwrap();
        assert_eq!(texts.keys().collect::<Vec<_>>(), [Path::new("src/ring/mod.rs")]);
    }

    #[test]
    fn code_that_overlaps_is_an_error() {
        for second in ["f();", "g();", "g(); h();"] {
            let mutants = [mutant(0, "x", "f(); g();", ""), mutant(1, "x", second, "")];
            assert!(sources(&[("src/a.rs", "fn x() { f(); g(); h(); }")]).with_branches(&mutants).is_err(), "{second}");
        }
    }
}
