// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! List of the driver's lock-free structures. A model checker runs each, and sanitizers run them unchanged.

use std::fs;
use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::imports::{attributes, is_test};
use xtask_core::error::{Context, Error, Result};

/// Files below `src` with a structure that two host threads share. They use the types of `crates/sync` and have
/// a module `loom_tests`.
const MODELS: [&str; 5] =
    ["core/memory/one_shot.rs", "core/queue/last_signal.rs", "ffi/blocks.rs", "ring/epoch.rs", "ring/kernarg.rs"];

/// Other files below `src` that use atomics or cells, with the reason why they need no model.
const OTHERS: [(&str, &str); 17] = [
    ("api/command_buffer.rs", "recorded by one thread, then published once by a flag that stays"),
    ("api/device.rs", "a pointer that is only replaced"),
    ("api/topology.rs", "structs that C reads, written under a lock before anybody has their address"),
    ("collectives/rccl/gates.rs", "words of HIP's signal memory, whose other end is the GPU"),
    (
        "core/memory/transient.rs",
        "flags and an address, which guard nothing without a lock; the reservation is in a `OneShot`",
    ),
    ("core/operations/files.rs", "a flag that is set once and stays; what it guards has a lock"),
    ("core/profile/mod.rs", "a flag beside a lock that guards what it tells of"),
    ("core/queue/deferred.rs", "a countdown, of which the last one goes on; what it guards has a lock"),
    ("core/queue/gate.rs", "a flag that is set once and stays; the buffers have a lock"),
    ("core/queue/groups.rs", "the address of a list behind a lock, compared alone: who changes it wakes the others"),
    ("core/queue/mod.rs", "a flag that is set once and stays"),
    ("core/queue/semaphore.rs", "words of IREE's semaphore, which IREE's lock orders"),
    ("ffi/frontier.rs", "memory that IREE links into its lists, under its lock; IREE's reference count, only read"),
    ("ffi/object.rs", "IREE's reference count, in IREE's orders"),
    ("ffi/pool.rs", "an operation of IREE's proactor, which uses it until it calls back"),
    ("ffi/semaphore.rs", "memory that IREE links into its lists, under its lock; one of two flags comes second"),
    ("ring/aql.rs", "the other end is the packet processor, which the sim and the mutants of fences stand for"),
];

/// Checks the sources below `root`/src, except for code of tests.
///
/// # Errors
/// The files that use atomics or cells and are on no list, that have no model, or that leave code out under a
/// sanitizer.
pub fn check(root: &Path) -> Result<()> {
    let source = root.join("src");
    let (mut wrong, mut ordering) = (Vec::new(), Vec::new());
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        let context = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).context(context)? {
            let path = entry.context(context)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let file = path.strip_prefix(&source).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("_test.rs") {
                let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
                let found = look(&file, &text).map_err(|error| Error::Failed(format!("src/{file}: {error}")))?;
                wrong.extend(found.wrong.map(|what| format!("src/{file}: {what}")));
                ordering.extend(found.orders.then_some(file));
            }
        }
    }
    let listed = MODELS.into_iter().chain(OTHERS.map(|(file, _)| file));
    let stale = listed.filter(|listed| !ordering.iter().any(|file| file == listed));
    wrong.extend(stale.map(|file| format!("src/{file}: on the list of xtask/src/lock_free.rs, but orders nothing")));
    wrong.sort();
    match wrong.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} files with unchecked lock-free code:\n{}", wrong.join("\n")))),
    }
}

/// Findings in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// True if the file uses atomics or cells.
    orders: bool,
    wrong: Option<&'static str>,
}

/// Reads the file `file` below `src`.
fn look(file: &str, text: &str) -> syn::Result<Found> {
    let mut names = Names::default();
    names.visit_file(&syn::parse_file(text)?);
    let wrong = if names.is_sanitized && file != "ffi/blocks.rs" {
        Some("is something else under a sanitizer, which then checks something else than what runs")
    } else if !names.orders || OTHERS.iter().any(|(other, _)| *other == file) {
        None
    } else if !MODELS.contains(&file) {
        Some(
            "orders memory without a lock: write it with the types of crates/sync, give it a module `loom_tests` and add it to \
             MODELS in xtask/src/lock_free.rs; or say in OTHERS why it needs no model",
        )
    } else if !names.has_model {
        Some("has no module `loom_tests` with tests")
    } else if names.is_std {
        Some("uses atomics of the standard library, which its model does not see")
    } else {
        None
    };
    Ok(Found { orders: names.orders, wrong })
}

/// True if `tree` imports the standard library's atomics or cells.
fn is_of_std(tree: &syn::UseTree) -> bool {
    fn names(tree: &syn::UseTree, name: &str) -> bool {
        match tree {
            syn::UseTree::Path(path) => path.ident == name || names(&path.tree, name),
            syn::UseTree::Group(group) => group.items.iter().any(|tree| names(tree, name)),
            syn::UseTree::Name(syn::UseName { ident }) | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                ident == name
            }
            syn::UseTree::Glob(_) => false,
        }
    }
    let is_std = matches!(tree, syn::UseTree::Path(path) if path.ident == "std" || path.ident == "core");
    is_std && ["atomic", "UnsafeCell"].iter().any(|name| names(tree, name))
}

/// Visitor that collects the names that a file uses outside of its tests.
#[derive(Default)]
struct Names {
    orders: bool,
    is_std: bool,
    is_sanitized: bool,
    has_model: bool,
}

impl Names {
    fn name(&mut self, ident: &Ident) {
        let name = ident.to_string();
        self.orders |= ["Acquire", "Release", "AcqRel", "SeqCst", "UnsafeCell"].contains(&&*name);
        self.is_sanitized |= name.contains("sanitize");
    }

    fn name_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => self.name(&ident),
                TokenTree::Group(group) => self.name_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Mod(module) if module.ident == "loom_tests" => {
                let items = module.content.iter().flat_map(|(_, items)| items);
                self.has_model = items.flat_map(attributes).any(|attribute| attribute.path().is_ident("test"));
            }
            // Where names are from, and counters that numbers are taken from.
            syn::Item::Use(item) => self.is_std |= is_of_std(&item.tree),
            syn::Item::Static(_) => {}
            item if is_test(attributes(item)) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.name(ident);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.name_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.name_tokens(list.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "use amdgpu_sync::{AtomicU64, Ordering};\nfn f(a: &AtomicU64) { a.load(Ordering::Acquire); }\n\
                         #[cfg(all(test, loom))]\nmod loom_tests {\n    #[test]\n    fn g() {}\n}\n";

    fn wrong(file: &str, text: &str) -> Option<&'static str> {
        look(file, text).unwrap().wrong
    }

    #[test]
    fn what_orders_memory_has_a_model_or_a_reason() {
        assert_eq!(look("ring/epoch.rs", MODEL).unwrap(), Found { orders: true, wrong: None });
        assert_eq!(wrong("ring/aql.rs", MODEL), None);
        let is_unlisted = |text| wrong("core/new.rs", text).is_some_and(|what| what.starts_with("orders memory"));
        assert!(is_unlisted(MODEL));
        assert!(is_unlisted("struct A(std::cell::UnsafeCell<u8>);"));
        assert!(is_unlisted("fn f() { assert!(x.swap(1, Ordering::AcqRel)) }"));
        for nothing in [
            "use std::sync::atomic::{AtomicU64, Ordering::{Acquire, Release}};",
            "fn f() { NEXT_ID.fetch_add(1, Ordering::Relaxed); }",
            "#[cfg(test)]\nmod tests { fn f() { a.load(Ordering::Acquire) } }",
        ] {
            assert_eq!(look("core/new.rs", nothing).unwrap(), Found::default(), "{nothing}");
        }
    }

    #[test]
    fn a_model_is_of_what_runs() {
        let std = MODEL.replace("amdgpu_sync", "std::sync::atomic");
        assert!(wrong("ring/epoch.rs", &std).is_some_and(|what| what.contains("standard library")));
        for without in [MODEL.replace("loom_tests", "tests"), MODEL.replace("#[test]", "")] {
            assert!(wrong("ring/epoch.rs", &without).is_some_and(|what| what.contains("no module")), "{without}");
        }
        for other in ["fn f() -> bool { cfg!(sanitized) }", "#[cfg(not(address_sanitizer))]\nfn f() {}"] {
            assert!(wrong("core/new.rs", other).is_some_and(|what| what.contains("under a sanitizer")), "{other}");
        }
    }

    #[test]
    fn the_lists_are_those_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root).unwrap_or_else(|error| panic!("{error}"));
    }
}
