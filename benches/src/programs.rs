// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Programs of the benchmark's cases: kernels in C, and models, compiled for the GPU that the sim models.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use xtask_core::error::{Context, Result};
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// Numbers of dispatches of the models, about the fewest and the most of real networks. The kernels themselves do not
/// matter here.
pub(super) const MODELS: [u32; 2] = [10, 800];

/// Compiles the missing programs, and returns their folder.
///
/// # Errors
/// When a compiler fails.
pub fn ensure(layout: &Layout, steps: &Steps, target: &Target) -> Result<PathBuf> {
    let folder = layout.of_compiler("bench").join(target.as_ref());
    let kernels = layout.root.join("benches/kernels.cl");
    let text = fs::read_to_string(&kernels).context(|| format!("reading {}", kernels.display()))?;
    let stamp = folder.join("made-of.txt");
    let wanted = format!("{text}\n{}", chain(MODELS[0]));
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(folder);
    }
    steps.step("The benchmark's kernels and models", |step| {
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        let mut clang = Command::new("clang-22");
        clang.args([
            "-x",
            "cl",
            "-cl-std=CL2.0",
            "-nogpulib",
            "-target",
            "amdgcn-amd-amdhsa",
            "-O2",
            "-fuse-ld=lld-22",
        ]);
        clang.args(["-mcode-object-version=5", "-fno-ident"]).arg(format!("-mcpu={target}"));
        clang.arg(&kernels).arg("-o").arg(folder.join("kernels.co"));
        step.run(clang)?;
        MODELS.iter().try_for_each(|dispatches| compile(layout, step, target, &folder, *dispatches))?;
        fs::write(&stamp, &wanted).context(|| format!("writing {}", stamp.display()))
    })?;
    Ok(folder)
}

fn compile(layout: &Layout, step: &Step, target: &Target, folder: &std::path::Path, dispatches: u32) -> Result<()> {
    let source = folder.join(format!("chain-{dispatches}.mlir"));
    fs::write(&source, chain(dispatches)).context(|| format!("writing {}", source.display()))?;
    let mut compiler = Command::new(layout.host_tool("iree-compile"));
    compiler.args(Backend::Gpu(target).flags());
    // Calls take fences and return when all is submitted.
    compiler.arg("--iree-execution-model=async-external");
    compiler.arg(&source).arg("-o").arg(source.with_extension("vmfb"));
    step.run(compiler)
}

/// Source of a function with `dispatches` matrix products, each a dispatch that depends on the one before.
pub(super) fn chain(dispatches: u32) -> String {
    const MATRIX: &str = "tensor<64x64xf32>";
    let mut text = format!(
        "func.func @chain(%x0: {MATRIX}, %w: {MATRIX}) -> {MATRIX} {{\n  %zero = arith.constant 0.0 : f32\n  \
         %empty = tensor.empty() : {MATRIX}\n  \
         %init = linalg.fill ins(%zero : f32) outs(%empty : {MATRIX}) -> {MATRIX}\n"
    );
    for index in 0..dispatches {
        let _ = writeln!(
            text,
            "  %x{} = linalg.matmul ins(%x{index}, %w : {MATRIX}, {MATRIX}) outs(%init : {MATRIX}) -> {MATRIX}",
            index + 1
        );
    }
    let _ = write!(text, "  return %x{dispatches} : {MATRIX}\n}}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_as_many_products() {
        let text = chain(3);
        assert_eq!(text.matches("linalg.matmul").count(), 3);
        assert!(text.ends_with("  return %x3 : tensor<64x64xf32>\n}\n"), "{text}");
    }
}
