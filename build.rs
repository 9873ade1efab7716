// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Build script of the crate `amdgpu-ffi`: makes the bindings to IREE's runtime (`src/ffi/raw.rs`) and compiles the
//! C file that holds out-of-line copies of its static inline functions.
//!
//! Input: the tree that `build_support::find_tree` finds; with the feature `standalone`, what `crates/iree-runtime` has
//! built. Output, in `OUT_DIR`: `iree.rs`, `libamdgpu_rs_inlines.a`. What differs between checkouts and configurations
//! becomes a cfg: `iree_command_buffer_flush` (command buffers have the slots `flush_buffer` and `invalidate_buffer`),
//! `iree_retain_dispatch_metadata` (there is a command buffer mode of that name), `iree_status_annotations`
//! (statuses carry text, that is `IREE_STATUS_MODE` is 2 or more), `iree_tracing` (IREE is built with tracing),
//! `iree_device_tracing` (its trace has rows for devices).

#[path = "build_support/iree_config.rs"]
mod iree_config;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use iree_config::Config;

fn main() {
    if let Err(message) = run() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    // The crate is in `src/ffi`.
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = manifest_dir.ancestors().nth(2).ok_or("the crate is two folders deep")?;
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    let wrapper = root.join("wrapper.h");
    println!("cargo::rerun-if-changed={}", wrapper.display());
    println!("cargo::rerun-if-changed={}", root.join("build.rs").display());
    println!("cargo::rerun-if-changed={}", root.join("build_support").display());

    // Flags of rustc's: this sanitizer is told of memory that is kept for later.
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    emit_cfg("address_sanitizer", flags.contains("sanitizer=address"));

    let is_standalone = cfg!(feature = "standalone");
    let config = if is_standalone { standalone_config(root)? } else { Config::from_environment(root)? };
    let inlines = out_dir.join("inlines.c");
    let bindings = generate(&config, &wrapper, &inlines)?;
    emit_cfg("iree_command_buffer_flush", has_flush_slots(&bindings));
    let mode = "pub const IREE_HAL_COMMAND_BUFFER_MODE_RETAIN_DISPATCH_METADATA:";
    emit_cfg("iree_retain_dispatch_metadata", bindings.contains(mode));
    emit_cfg("iree_status_annotations", bindings.contains("pub fn iree_status_annotate_f("));
    let is_traced = bindings.contains("pub fn iree_tracing_zone_begin_external_impl(");
    emit_cfg("iree_tracing", is_traced);
    emit_cfg("iree_device_tracing", bindings.contains("pub fn iree_tracing_gpu_zone_notify("));
    let bindings_path = out_dir.join("iree.rs");
    std::fs::write(&bindings_path, bindings)
        .map_err(|error| format!("writing {}: {error}", bindings_path.display()))?;

    let mut compiler = config.compiler();
    compiler.include(root).file(&inlines).opt_level(2);
    if is_traced {
        let macros = root.join("src/ffi/tracing.c");
        println!("cargo::rerun-if-changed={}", macros.display());
        compiler.file(macros);
    }
    if is_standalone {
        let registration = root.join("registration/driver_module.c");
        println!("cargo::rerun-if-changed={}", registration.display());
        compiler.file(registration);
    }
    compiler.try_compile("amdgpu_rs_inlines").map_err(|error| format!("compiling IREE's inline functions: {error}"))
}

/// How `crates/iree-runtime` was compiled. Rust sees IREE's runtime library and
/// the driver's registration besides what the driver uses.
fn standalone_config(root: &Path) -> Result<Config, String> {
    let mut config = Config::from_file(Path::new(&variable("DEP_IREE_RUNTIME_CONFIG")?))?;
    config.includes.push(root.join("include"));
    config.defines.push("AMDGPU_RS_STANDALONE".to_owned());
    Ok(config)
}

fn emit_cfg(name: &str, value: bool) {
    println!("cargo::rustc-check-cfg=cfg({name})");
    if value {
        println!("cargo::rustc-cfg={name}");
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn generate(config: &Config, wrapper: &Path, inlines: &Path) -> Result<String, String> {
    let builder = bindgen::Builder::default()
        .header(wrapper.display().to_string())
        .clang_args(config.includes.iter().map(|folder| format!("-I{}", folder.display())))
        .clang_args(config.defines.iter().map(|item| format!("-D{item}")))
        .clang_args(&config.options)
        .clang_arg("-std=gnu11")
        // Rebuild when a header changes.
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .allowlist_item("iree_.*")
        .allowlist_var("IREE_.*|amdgpu_rs_.*")
        .allowlist_recursively(true)
        // An enum value that C knows and Rust does not would be undefined
        // behaviour in a Rust enum: constants of the integer type instead.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .layout_tests(true)
        // `_Atomic` members appear as plain integers, so a copy of such a struct would be a torn read: they and all
        // that holds them by value are not Copy.
        .no_copy("iree_hal_(resource|fence|slab_provider)_t|iree_atomic_.*")
        .no_copy("iree_(slim_mutex|notification|arena_block_pool)_t")
        .no_copy("iree_async_(semaphore|operation|notification|proactor)_t")
        .no_copy("iree_async_(event|file|region|slab|socket)_t")
        .no_copy("iree_vm_(module|ref_object)_t")
        .derive_default(false)
        .derive_debug(false)
        .use_core()
        .wrap_static_fns(true)
        .wrap_static_fns_path(inlines)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024);
    // bindgen panics where it finds no libclang: its text is an error's, without a backtrace.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let generated = std::panic::catch_unwind(AssertUnwindSafe(|| builder.generate()));
    std::panic::set_hook(hook);
    // One line: cargo takes no more of a message.
    let one_line = |text: String| text.replace('\n', " ");
    let bindings = generated
        .map_err(|panic| {
            let text = panic.downcast_ref::<String>().map_or("", String::as_str);
            one_line(format!(
                "reading IREE's headers needs libclang (Debian: libclang1-22); where bindgen does not find it, set LIBCLANG_PATH to \
                 the library or its folder. bindgen said: {text}"
            ))
        })?
        .map_err(|error| {
            let tree = config.runtime_source_dir().unwrap_or(Path::new("?")).display();
            one_line(format!("reading IREE's headers in {tree} (3.12 or newer is needed): {error}"))
        })?;
    Ok(bindings.to_string())
}

/// IREE 3.12 has no flush and invalidate slots in its command buffers.
fn has_flush_slots(bindings: &str) -> bool {
    let Some(start) = bindings.find("pub struct iree_hal_command_buffer_vtable_t {") else {
        return false;
    };
    let body = &bindings[start..];
    let end = body.find("\n}").unwrap_or(body.len());
    body[..end].contains("pub flush_buffer") && body[..end].contains("pub invalidate_buffer")
}
