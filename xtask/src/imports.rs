// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Layering of the software GPU's modules: each layer may name lower layers only. The driver's layers are crates, so
//! that the compiler refuses an import of a layer above.
//!
//! In the driver, IREE's raw bindings may be named only in the modules that read C's structs.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use xtask_core::error::{Context, Error, Result};

/// The layers of the software GPU (rooms, in messages), as paths of modules, from the bottom, with the highest layers
/// that each may name. A layer may also name whatever those may name. A file belongs to the layer with the longest
/// matching path. `machine` is the machine itself, of which the rooms above it start threads.
const ROOMS: [(&str, &[&str]); 21] = [
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

/// The crate with IREE's bindings, as Rust code names it, and the module of the raw ones.
const FFI: &str = "amdgpu_ffi";
const RAW: &str = "amdgpu_ffi::raw";

/// Folders and files below `src` that may name IREE's raw bindings: the safe wrappers, the functions that fill C's
/// vtables, and the files of objects with a vtable in the layers between.
const RAW_FILES: [&str; 8] = [
    "ffi/",
    "api/",
    "standalone.rs",
    "core/queue/semaphore.rs",
    "core/memory/buffer.rs",
    "core/memory/range_pool.rs",
    "core/memory/slab_provider.rs",
    "core/memory/transient.rs",
];

/// Checks the sources of the software GPU and of the driver. Tests and their helpers (files that end in `_test.rs`,
/// `testing.rs`) may name any module.
///
/// # Errors
/// The lines that name a higher layer, or raw bindings outside of [`RAW_FILES`].
pub fn check(root: &Path) -> Result<()> {
    let mut wrong = check_files(root, "sim/src", layers)?;
    wrong.extend(check_files(root, "src", raw_bindings)?);
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => {
            Err(Error::Failed(format!("{count} lines name a module that their layer may not:\n{}", wrong.join("\n"))))
        }
    }
}

/// The lines of a file, each with a message. Takes the file's path below the sources, and its text.
type Look = fn(&str, &str) -> syn::Result<Vec<(usize, String)>>;

/// The lines that `look` finds in the files of a folder.
fn check_files(root: &Path, folder: &str, look: Look) -> Result<Vec<String>> {
    let source = root.join(folder);
    let mut wrong = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(below) = folders.pop() {
        let context = || format!("reading {}", below.display());
        for entry in fs::read_dir(&below).context(context)? {
            let path = entry.context(context)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("_test.rs") && name != "testing.rs" {
                let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
                let file = path.strip_prefix(&source).unwrap_or(&path).to_string_lossy().into_owned();
                let at = format!("{folder}/{file}");
                let found = look(&file, &text).map_err(|error| Error::Failed(format!("{at}: {error}")))?;
                wrong.extend(found.into_iter().map(|(line, what)| format!("{at}:{line}: {what}")));
            }
        }
    }
    Ok(wrong)
}

/// The layer of a module.
fn room(module: &str) -> Option<&'static str> {
    ROOMS.iter().map(|(room, _)| *room).filter(|room| is_in(module, room)).max_by_key(|room| room.len())
}

fn is_in(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// True if `room` may name `other`.
fn may_name(room: &str, other: &str) -> bool {
    let below = ROOMS.iter().filter(|(name, _)| *name == room).flat_map(|(_, below)| *below);
    room == other || below.into_iter().any(|below| may_name(below, other))
}

/// Returns the lines of a file of the software GPU that name a layer above. Skips tests.
fn layers(file: &str, text: &str) -> syn::Result<Vec<(usize, String)>> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    let Some(own) = room(&module) else { return Ok(Vec::new()) };
    lines(&module, text, |path| {
        let other = room(path).filter(|other| !may_name(own, other))?;
        let place = |name| ROOMS.iter().position(|(room, _)| *room == name);
        let how = if place(other) > place(own) { "above" } else { "beside" };
        Some(format!("{other} is {how}"))
    })
}

/// Returns the lines of a file of the driver that name raw bindings and may not. Skips tests.
fn raw_bindings(file: &str, text: &str) -> syn::Result<Vec<(usize, String)>> {
    if RAW_FILES.iter().any(|allowed| file.starts_with(allowed)) {
        return Ok(Vec::new());
    }
    lines("", text, |path| is_in(path, RAW).then(|| "raw bindings".to_owned()))
}

/// Returns the lines of a module that name a path that `judge` has a message for.
fn lines(module: &str, text: &str, judge: impl Fn(&str) -> Option<String>) -> syn::Result<Vec<(usize, String)>> {
    let mut paths = Paths { module: module.split("::").map(str::to_owned).collect(), found: Vec::new() };
    paths.visit_file(&syn::parse_file(text)?);
    let mut wrong: Vec<_> =
        paths.found.iter().filter_map(|(line, path)| judge(path).map(|message| (*line, message))).collect();
    wrong.sort();
    wrong.dedup();
    Ok(wrong)
}

/// Visitor that collects all paths from the crate's root, from the module itself or its parents, or of the bindings, in
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
            Some("raw") if path.len() > 1 => (vec![FFI.to_owned()], 0),
            Some(FFI) => (Vec::new(), 0),
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

    /// Records the paths from the crate's root, and those of the bindings, in a text.
    fn name_in_text(&mut self, span: Span, text: &str) {
        for path in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            if ["crate::", "raw::", FFI].iter().any(|first| path.starts_with(first)) {
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

    fn found(text: &str) -> Vec<(usize, String)> {
        layers("machine/memory/map.rs", text).unwrap()
    }

    #[test]
    fn raw_bindings_are_for_the_files_of_c() {
        let text = "use amdgpu_ffi::{HalRef, raw};\nfn f(a: *mut raw::iree_hal_device_t) { g(&raw const X) }\n\
                    #[cfg(test)]\nfn g() { raw::f() }\n";
        let found = |file, text| raw_bindings(file, text).unwrap();
        let raw = |lines: &[usize]| lines.iter().map(|line| (*line, "raw bindings".to_owned())).collect::<Vec<_>>();
        for file in ["core/operations/files.rs", "hsa/mod.rs", "core/memory/mod.rs", "lib.rs"] {
            assert_eq!(found(file, text), raw(&[1, 2]), "{file}");
        }
        for file in ["core/memory/buffer.rs", "api/queue.rs", "ffi/object.rs", "standalone.rs"] {
            assert_eq!(found(file, text), [], "{file}");
        }
        for escape in [
            "use amdgpu_ffi::raw::iree_status_t;",
            "use amdgpu_ffi::raw as bindings;",
            "fn f(a: amdgpu_ffi::raw::iree_status_t) {}",
            "use amdgpu_ffi::raw::*;",
            "use {\namdgpu_ffi::raw};",
            "fn f() { iree!(raw::iree_hal_device_release(p)) }",
            "/// See [`amdgpu_ffi::raw::iree_status_t`].\nfn f() {}",
        ] {
            assert_eq!(found("core/device.rs", escape).len(), 1, "{escape}");
        }
        assert_eq!(found("core/device.rs", "use core::ffi::c_void;\nuse std::raw::x;\nuse amdgpu_ffi::raw_size;"), []);
    }

    #[test]
    fn a_room_may_name_what_is_below_it() {
        let above = |line, room| (line, format!("{room} is above"));
        let text = "use crate::machine::product::Product;\nuse crate::machine::queue::{Queue, ring::Ring};\n\
                    fn f() { crate::hsa::init() }\n\n#[cfg(test)]\nuse crate::hsa;\n";
        assert_eq!(found(text), [above(2, "machine::queue"), above(3, "hsa")]);
        assert_eq!(layers("machine/queue/mod.rs", text).unwrap(), [above(3, "hsa")]);
        assert_eq!(layers("hsa/queue.rs", text).unwrap(), []);
        assert_eq!(layers("other.rs", text).unwrap(), []);
        assert_eq!(found("use crate::machine::config::Config;"), [(1, "machine::config is beside".to_owned())]);
        assert_eq!(found("use crate::machine::Machine;"), [above(1, "machine")]);
        let own = |file, text| layers(file, text).unwrap();
        assert_eq!(own("machine/mod.rs", "use crate::machine::processor::run;"), [above(1, "machine::processor")]);
        assert_eq!(own("machine/processor/dispatch.rs", "use crate::machine::{Machine, memory::map};"), []);
    }

    #[test]
    fn however_a_room_is_named() {
        for (text, line) in [
            ("use crate::machine::{\n    product::Product,\n    queue::Queue,\n};", 3),
            ("use crate::{hsa::init, machine::product};", 1),
            ("use crate::{\n    machine::{queue, product}};", 2),
            ("use super::super::queue::Queue;", 1),
            ("use super::super::{queue as other};", 1),
            ("use super::super::*;", 1),
            ("mod inner {\n    use super::super::super::super::hsa;\n}", 2),
            ("fn f() -> super::super::queue::Queue { g() }", 1),
            ("use self::super::super::queue;", 1),
            ("#[cfg(test)]\nmod tests {\n    use crate::hsa;\n}\nuse crate::hsa;", 5),
            ("fn f() {\n    trace!(\"{}\", crate::hsa::NAME);\n}", 2),
            ("macro_rules! m {\n    () => {{\n        use $crate::{machine::product, hsa::init,};\n    }};\n}", 3),
            ("/// See [`crate::hsa::init`].\nfn f() {}", 1),
            ("fn f<T: crate::hsa::Trait>() {}", 1),
            ("const _: () = <() as crate::hsa::Trait>::X;", 1),
        ] {
            let found = found(text);
            assert!(matches!(&found[..], [(at, _)] if *at == line), "{text}: {found:?}");
        }
        for text in [
            "use crate::machine::{agent_id::AgentId, product::Product};\nuse super::svm;\npub(in super::super) fn f() {}",
            "impl A {\n    #[cfg(test)]\n    fn f() { crate::hsa::g() }\n}\nmod a { use super::super::svm; }",
            "#[cfg(all(test, not(loom)))]\nmod tests { use crate::hsa; }",
            "fn f() { println!(\"crate::hsa\") } // crate::hsa",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
