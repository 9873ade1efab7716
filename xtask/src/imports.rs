// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Layering of the modules inside a crate: of the driver (`src/core`, `src/api`) and of the software GPU. Each layer
//! may name lower layers only, until the layers are crates of their own and the compiler refuses the rest. That is so
//! for the driver's lowest layers: `src/ring`, `src/ffi`, `src/hsa` and `src/collectives` are crates.
//!
//! IREE's raw bindings may be named only in the modules that read C's structs.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use xtask_core::error::{Context, Error, Result};

/// Layers (rooms, in messages), as paths of modules, from the bottom, with the highest layers that each may name. A
/// layer may also name whatever those may name. A file belongs to the layer with the longest matching path.
type Rooms = &'static [(&'static str, &'static [&'static str])];

/// A crate whose modules are layered.
#[derive(Clone, Copy)]
struct Tree {
    /// Folder of its sources.
    source: &'static str,
    rooms: Rooms,
    /// Modules that may name IREE's raw bindings.
    raw: &'static [&'static str],
}

const DRIVER: Tree = Tree { source: "src", rooms: &ROOMS, raw: &RAW };
const SIM: Tree = Tree { source: "sim/src", rooms: &SIM_ROOMS, raw: &[] };

/// The layers of the software GPU. `machine` is the machine itself, of which the rooms above it start threads.
const SIM_ROOMS: [(&str, &[&str]); 21] = [
    ("inject", &[]),
    ("machine::clock", &[]),
    ("machine::agent_id", &[]),
    ("machine::worker", &[]),
    ("machine::product", &["machine::clock"]),
    ("machine::config", &["machine::product", "inject"]),
    ("machine::memory", &["machine::agent_id", "machine::product"]),
    ("machine::signal", &["machine::memory"]),
    ("machine::events", &["machine::memory"]),
    ("machine::handlers", &["machine::signal", "machine::events"]),
    ("machine::agent", &["machine::memory"]),
    ("machine::code", &["machine::agent", "machine::config"]),
    ("machine::queue", &["machine::code", "machine::signal"]),
    ("machine::report", &["machine::queue"]),
    ("machine", &["machine::report", "machine::handlers", "machine::worker"]),
    ("machine::leaks", &["machine"]),
    ("machine::processor", &["machine"]),
    ("machine::lifecycle", &["machine::leaks", "machine::processor", "inject"]),
    ("machine::exports", &["machine::lifecycle"]),
    ("hsa", &["machine::exports"]),
    ("lib", &["hsa"]),
];

/// The layers of the driver. The first three are crates: the compiler keeps them apart, but every module of the driver
/// could name them. `ffi` is no room, because every other may name it.
const ROOMS: [(&str, &[&str]); 11] = [
    ("collectives", &[]),
    ("ring", &[]),
    ("hsa", &[]),
    ("core::gpu", &["hsa", "collectives"]),
    ("core::profile", &["core::gpu"]),
    ("core::memory", &["core::profile"]),
    ("core::queue", &["core::memory", "ring"]),
    ("core::operations", &["core::queue"]),
    ("core::program", &["core::operations"]),
    ("core", &["core::program"]),
    ("api", &["core"]),
];

/// Beginning of the names of the driver's crates, as Rust code names them.
const CRATES: &str = "amdgpu_";

/// Modules that may name IREE's raw bindings: the safe wrappers, the functions that fill C's vtables, and the files of
/// objects with a vtable in the layers between.
const RAW: [&str; 7] = [
    "ffi",
    "api",
    "core::queue::semaphore",
    "core::memory::buffer",
    "core::memory::range_pool",
    "core::memory::slab_provider",
    "core::memory::transient",
];

/// Checks the sources of both crates. Tests (`src/testing.rs`, files that end in `_test.rs`) may name any module.
///
/// # Errors
/// The lines that name a higher layer, or raw bindings outside of [`RAW`].
pub fn check(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for tree in [DRIVER, SIM] {
        wrong.extend(check_tree(root, tree)?);
    }
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => {
            Err(Error::Failed(format!("{count} lines name a module that their layer may not:\n{}", wrong.join("\n"))))
        }
    }
}

/// The lines of a crate with imports that are not allowed.
fn check_tree(root: &Path, tree: Tree) -> Result<Vec<String>> {
    let source = root.join(tree.source);
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
                let at = format!("{}/{file}", tree.source);
                let found = look(tree, &file, &text).map_err(|error| Error::Failed(format!("{at}: {error}")))?;
                wrong.extend(found.into_iter().map(|(line, what)| format!("{at}:{line}: {what}")));
            }
        }
    }
    Ok(wrong)
}

/// The layer of a module.
fn room(rooms: Rooms, module: &str) -> Option<&'static str> {
    rooms.iter().map(|(room, _)| *room).filter(|room| is_in(module, room)).max_by_key(|room| room.len())
}

fn is_in(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// True if `room` may name `other`.
fn may_name(rooms: Rooms, room: &str, other: &str) -> bool {
    let below = rooms.iter().filter(|(name, _)| *name == room).flat_map(|(_, below)| *below);
    room == other || below.into_iter().any(|below| may_name(rooms, below, other))
}

/// The module of a file, a path below the crate's sources.
fn module(file: &str) -> String {
    file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// Returns the lines of a file, a path below the crate's sources, that name a forbidden module, each with a message.
/// Skips tests.
fn look(tree: Tree, file: &str, text: &str) -> syn::Result<Vec<(usize, String)>> {
    let (module, rooms) = (module(file), tree.rooms);
    let Some(room) = room(rooms, &module) else { return Ok(Vec::new()) };
    let raw_is_allowed = tree.raw.iter().any(|room| is_in(&module, room));
    let module = module.split("::").map(str::to_owned).collect();
    let mut paths = Paths { module, found: Vec::new() };
    paths.visit_file(&syn::parse_file(text)?);
    let mut wrong = Vec::new();
    for (line, path) in paths.found {
        let other = self::room(rooms, &path);
        if let Some(other) = other.filter(|other| !may_name(rooms, room, other)) {
            let place = |name| rooms.iter().position(|(room, _)| *room == name);
            let how = if place(other) > place(room) { "above" } else { "beside" };
            wrong.push((line, format!("{other} is {how}")));
        }
        if !raw_is_allowed && is_in(&path, "ffi::raw") {
            wrong.push((line, "raw bindings".to_owned()));
        }
    }
    wrong.sort();
    wrong.dedup();
    Ok(wrong)
}

/// Visitor that collects all paths from the crate's root, from the module itself or its parents, or from `raw::`, in
/// code, in macros and in documentation.
struct Paths {
    /// Module path of the file.
    module: Vec<String>,
    /// Lines and paths from the crate's root.
    found: Vec<(usize, String)>,
}

impl Paths {
    /// Records a path as it is written in the source.
    fn name(&mut self, span: Span, path: &[String]) {
        let relative = path.iter().take_while(|part| matches!(part.as_str(), "crate" | "self" | "super")).count();
        let ups = path[..relative].iter().filter(|part| *part == "super").count();
        let (before, rest) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), relative),
            Some("self" | "super") => (self.module[..self.module.len().saturating_sub(ups)].to_vec(), relative),
            // Imported by this name.
            Some("raw") if path.len() > 1 => (vec!["ffi".to_owned()], 0),
            // A crate of the driver by its own name.
            Some(name) if name.starts_with(CRATES) => (vec![name[CRATES.len()..].to_owned()], 1),
            _ => return,
        };
        let absolute = [before, path[rest..].to_vec()].concat();
        self.found.push((span.start().line, absolute.join("::")));
    }

    fn name_use(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.name_use(&with(&path.ident), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.name_use(before, tree)),
            syn::UseTree::Name(name) if name.ident == "self" => self.name(name.span(), before),
            syn::UseTree::Name(name) => self.name(name.span(), &with(&name.ident)),
            syn::UseTree::Rename(rename) => self.name(rename.span(), &with(&rename.ident)),
            syn::UseTree::Glob(glob) => self.name(glob.span(), before),
        }
    }

    /// Records the paths in a macro's arguments or body, or in a `use` tree behind the prefix `before`.
    fn name_tokens(&mut self, before: &[String], tokens: TokenStream) {
        let begin = || (before.to_vec(), if before.is_empty() { 0 } else { 2 });
        let ((mut path, mut colons), mut span) = (begin(), Span::call_site());
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.name(span, &path);
                        path.clear();
                    }
                    span = ident.span();
                    path.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Group(group) if colons == 2 && group.delimiter() == Delimiter::Brace => {
                    self.name_tokens(&path, group.stream());
                }
                TokenTree::Group(group) => {
                    self.name(span, &path);
                    self.name_tokens(&[], group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) if path != before => self.name(span, &path),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            (path, colons) = begin();
        }
        if path != before {
            self.name(span, &path);
        }
    }

    /// Records the paths from the crate's root in a text.
    fn name_in_text(&mut self, span: Span, text: &str) {
        for path in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            if ["crate::", "raw::", CRATES].iter().any(|first| path.starts_with(first)) {
                self.name(span, &path.split("::").map(str::to_owned).collect::<Vec<_>>());
            }
        }
    }
}

/// True if an item with these attributes is compiled for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.parse_args::<TokenStream>().map(|tokens| tokens.to_string().replace(' ', ""));
        condition.is_ok_and(|condition| condition == "test" || condition.starts_with("all(test,"))
    })
}

/// The attributes of an item.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(syn::ItemConst { attrs, .. })
        | syn::Item::Enum(syn::ItemEnum { attrs, .. })
        | syn::Item::Fn(syn::ItemFn { attrs, .. })
        | syn::Item::Impl(syn::ItemImpl { attrs, .. })
        | syn::Item::Macro(syn::ItemMacro { attrs, .. })
        | syn::Item::Mod(syn::ItemMod { attrs, .. })
        | syn::Item::Static(syn::ItemStatic { attrs, .. })
        | syn::Item::Struct(syn::ItemStruct { attrs, .. })
        | syn::Item::Trait(syn::ItemTrait { attrs, .. })
        | syn::Item::Type(syn::ItemType { attrs, .. })
        | syn::Item::Use(syn::ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.name_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.name(path.span(), &path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.name_tokens(&[], called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
                ..
            }) => self.name_in_text(attribute.span(), &text.value()),
            _ => visit::visit_attribute(self, attribute),
        }
    }

    /// Skips visibilities, which name the module itself or its parents.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<(usize, String)> {
        look(DRIVER, file, text).unwrap()
    }

    #[test]
    fn raw_bindings_are_for_the_rooms_of_c() {
        let text = "use crate::ffi::{HalRef, raw};\nfn f(a: *mut raw::iree_hal_device_t) { g(&raw const X) }\n\
                    #[cfg(test)]\nfn g() { raw::f() }\n";
        let raw = |lines: &[usize]| lines.iter().map(|line| (*line, "raw bindings".to_owned())).collect::<Vec<_>>();
        assert_eq!(lines("core/operations/files.rs", text), raw(&[1, 2]));
        assert_eq!(lines("core/memory/buffer_test.rs", text), raw(&[1, 2]));
        for (file, nothing) in [("core/memory/buffer.rs", text), ("api/queue.rs", text), ("testing.rs", text)] {
            assert_eq!(lines(file, nothing), [], "{file}");
        }
        for escape in [
            "use crate::ffi::raw::iree_status_t;",
            "use crate::ffi::raw as bindings;",
            "use amdgpu_ffi::raw as bindings;",
            "fn f(a: amdgpu_ffi::raw::iree_status_t) {}",
            "use crate::ffi::raw::*;",
            "use crate::{\nffi::raw};",
            "fn f() { iree!(raw::iree_hal_device_release(p)) }",
        ] {
            assert_eq!(lines("core/device.rs", escape).len(), 1, "{escape}");
        }
    }

    #[test]
    fn a_room_may_name_what_is_below_it() {
        let text = "use crate::ffi::Result;\nuse crate::core::queue::{Queue, waits::Place};\nuse crate::core::program;\n\
                    fn f() { crate::api::driver::register(crate::hsa::load()) }\n\n#[cfg(test)]\nuse crate::api;\n";
        let above = |line, room| (line, format!("{room} is above"));
        let both = [above(3, "core::program"), above(4, "api")];
        assert_eq!(lines("core/operations/files.rs", text), both);
        assert_eq!(lines("core/device/profiling.rs", text), [above(4, "api")]);
        assert_eq!(lines("core/device.rs", text), [above(4, "api")]);
        assert_eq!(lines("core/queue/mod.rs", text), both);
        assert_eq!(lines("api/queue.rs", text), []);
        assert_eq!(lines("lib.rs", text), []);
    }

    #[test]
    fn however_a_room_is_named() {
        for (text, line) in [
            ("use crate::core::{\n    queue::Queue,\n    program::Program,\n};", 3),
            ("use crate::{api::driver, core::queue};", 1),
            ("use crate::{\n    core::{self, queue}};", 2),
            ("use super::super::program::Program;", 1),
            ("use super::super::{program as recorded};", 1),
            ("use super::super::*;", 1),
            ("mod inner {\n    use super::super::super::super::api;\n}", 2),
            ("fn f() -> super::super::program::Program { g() }", 1),
            ("use self::super::super::program;", 1),
            ("#[cfg(test)]\nmod tests {\n    use crate::api;\n}\nuse crate::api;", 5),
            ("fn f() {\n    trace!(\"{}\", crate::api::NAME);\n}", 2),
            ("macro_rules! m {\n    () => {{\n        use $crate::{core::queue, api::driver,};\n    }};\n}", 3),
            ("/// See [`crate::api::driver`].\nfn f() {}", 1),
            ("fn f<T: crate::api::Trait>() {}", 1),
            ("const _: () = <() as crate::api::Trait>::X;", 1),
        ] {
            let found = lines("core/operations/files.rs", text);
            assert!(matches!(&found[..], [(at, _)] if *at == line), "{text}: {found:?}");
        }
        for text in [
            "use crate::core::{gpu::Gpu, queue::Queue};\nuse super::transfer;\npub(in super::super) fn f() {}",
            "impl A {\n    #[cfg(test)]\n    fn f() { crate::api::g() }\n}\nmod a { use super::super::transfer; }",
            "#[cfg(all(test, not(loom)))]\nmod tests { use crate::api; }",
            "fn f() { println!(\"crate::api\") } // crate::api",
            "use core::ffi::c_void;\nuse std::raw::x;",
        ] {
            assert_eq!(lines("core/operations/files.rs", text), [], "{text}");
        }
    }

    #[test]
    fn the_picture_of_the_rooms_is_the_staircase() {
        let (mut picture, mut next, mut step, mut drawn) = (String::new(), ROOMS.last(), 0, 0);
        while let Some((room, below)) = next {
            let beside = below.get(1).map_or_else(String::new, |room| format!(", beside it {room}"));
            let foot = if step == 0 { "" } else { "└─ " };
            picture.push_str(&format!("{:1$}{foot}{room}{beside}\n", "", 3 * usize::saturating_sub(step, 1)));
            (step, drawn) = (step + 1, drawn + below.len().max(1));
            next = ROOMS.iter().find(|(room, _)| below.first() == Some(room));
        }
        let text = include_str!("../../docs/design/architecture.md");
        assert!(text.contains(&format!("```text\n{picture}```")), "not in docs/design/architecture.md:\n{picture}");
        assert_eq!(drawn, ROOMS.len());
    }

    #[test]
    fn the_software_gpu_is_layered_too() {
        let look = |file, text| look(SIM, file, text).unwrap();
        let above = |room: &str| vec![(1, format!("{room} is above"))];
        assert_eq!(look("machine/memory/map.rs", "use crate::machine::Machine;"), above("machine"));
        assert_eq!(look("machine/memory/map.rs", "use crate::machine::report::race;"), above("machine::report"));
        assert_eq!(look("machine/mod.rs", "use crate::machine::processor::run;"), above("machine::processor"));
        assert_eq!(look("machine/processor/dispatch.rs", "use crate::machine::{Machine, memory::map};"), []);
        assert_eq!(look("machine/memory/map.rs", "use super::svm::Svm;\n#[cfg(test)]\nuse crate::hsa;"), []);
    }

    #[test]
    fn the_ring_stands_beside_the_lower_steps() {
        for text in ["use crate::ring::Ring;", "use amdgpu_ring::Ring;"] {
            for file in ["core/gpu/mod.rs", "core/profile/mod.rs", "core/memory/heaps.rs"] {
                assert_eq!(lines(file, text), [(1, "ring is beside".to_owned())], "{file}");
            }
            assert_eq!(lines("core/queue/mod.rs", text), []);
        }
    }
}
