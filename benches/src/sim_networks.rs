// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --sim --networks`: the CPU time of whole networks on the sim, with compiled code, beside IREE's
//! CPU backend: those that the caller has imported, and two that are made here, since a sum takes as long with any
//! weights.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use xtask_core::error::{Context, Error, Result};
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};

use crate::results::processor;
use crate::sim::{BERT, Call, TARGETS, compile, compiled, time};

/// A network that the caller has imported.
pub struct Network {
    /// Its name in the table.
    pub name: String,
    /// Name of the function.
    pub function: String,
    /// Values of `--input`.
    pub inputs: Vec<String>,
    /// Modules for the CPU backend and for each of [`TARGETS`].
    pub modules: [PathBuf; 3],
}

/// Measures the networks, and prints the table: `for_avx2` with code for AVX2 on all processors.
///
/// # Errors
/// When a network does not compile or run.
pub fn run(layout: &Layout, steps: &Steps, imported: Vec<Network>, repeat: u32, for_avx2: bool) -> Result<()> {
    let mut networks = imported;
    for (name, (text, inputs)) in [("bert-encoder", encoder(layout)?), ("resnet50", resnet50())] {
        networks.push(steps.step(&format!("Compiling {name}"), |step| made(layout, step, name, &text, inputs))?);
    }
    let jit = compiled(for_avx2);
    let mut text = format!(
        "{}, HSA_SIM_JIT={jit}, one thread; seconds of CPU time, the least of {repeat}\n\n| network | llvm-cpu |",
        processor()
    );
    let columns: String = TARGETS.iter().map(|target| format!(" {target} | times llvm-cpu |")).collect();
    let _ = writeln!(text, "{columns}\n|{}", "---|".repeat(6));
    for network in &networks {
        let [cpu, sims @ ..] = steps.step(&network.name, |step| measure(layout, step, network, repeat, jit))?;
        let cells: String = sims.iter().map(|sim| format!(" {sim:.3} | {:.1} |", sim / cpu)).collect();
        let _ = writeln!(text, "| {} | {cpu:.4} |{cells}", network.name);
    }
    print!("{text}");
    Ok(())
}

/// Seconds of the CPU backend, and of each target with compiled code.
fn measure(layout: &Layout, step: &Step, network: &Network, repeat: u32, jit: &str) -> Result<[f64; 3]> {
    let mut times = [0.0; 3];
    for (at, (module, time_of)) in network.modules.iter().zip(&mut times).enumerate() {
        let target = at.checked_sub(1).map(|at| TARGETS[at].parse()).transpose().map_err(Error::setup)?;
        let call = Call { module: module.clone(), function: &network.function, inputs: network.inputs.clone() };
        *time_of = 1e-3 * time(layout, step, &call, target.as_ref().map(|target| (target, jit)), repeat)?;
    }
    Ok(times)
}

/// Writes and compiles a network that is made here.
fn made(layout: &Layout, step: &Step, name: &str, text: &str, inputs: Vec<String>) -> Result<Network> {
    let folder = layout.of_compiler("bench").join("sim");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let source = folder.join(name).with_extension("mlir");
    // The modules of an unchanged source stay.
    if !fs::read_to_string(&source).is_ok_and(|old| old == text) {
        fs::write(&source, text).context(|| format!("writing {}", source.display()))?;
    }
    let mut modules = [(); 3].map(|()| PathBuf::new());
    modules[0] = compile(layout, step, &source, Backend::Cpu)?;
    for (module, target) in modules[1..].iter_mut().zip(TARGETS) {
        *module = compile(layout, step, &source, Backend::Gpu(&target.parse().map_err(Error::setup)?))?;
    }
    Ok(Network { name: name.to_owned(), function: "main".to_owned(), inputs, modules })
}

/// BERT-base's encoder, twelve times the layer of `benches/sim`, with its arguments.
fn encoder(layout: &Layout) -> Result<(String, Vec<String>)> {
    let path = layout.root.join("benches/sim/bert-layer.mlir");
    let layer = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    let text = repeated(&layer, 12).ok_or_else(|| Error::setup(format!("{} has no main", path.display())))?;
    Ok((text, BERT.map(str::to_owned).to_vec()))
}

/// Makes a function that calls a module's `main` again and again, each time with the last result as its first argument.
fn repeated(module: &str, times: u32) -> Option<String> {
    let (_, rest) = module.split_once("@main(")?;
    let (arguments, rest) = rest.split_once(") -> ")?;
    let (result, _) = rest.split_once(" {")?;
    let (names, types): (Vec<_>, Vec<_>) = arguments.split(", ").filter_map(|of| of.split_once(": ")).unzip();
    let mut text = module.replacen("func.func @main(", "func.func private @layer(", 1);
    let _ = writeln!(text, "func.func @main({arguments}) -> {result} {{");
    let mut last = names[0].to_owned();
    for n in 0..times {
        let others = names[1..].join(", ");
        let _ = writeln!(text, "  %r{n} = call @layer({last}, {others}) : ({}) -> {result}", types.join(", "));
        last = format!("%r{n}");
    }
    let _ = writeln!(text, "  return {last} : {result}\n}}");
    Some(text)
}

/// ResNet50 at 224², with the normalizations folded into biases, as a module and its arguments. Layers of a shape share
/// their weights.
fn resnet50() -> (String, Vec<String>) {
    let mut made = Maker::default();
    let (mut x, mut size) = (made.convolution("%x", (224, 3), (64, 7, 2), None), 112);
    x = made.padded(&x, (size, 64), 1, "%ninf");
    size = 56;
    let window = made.line("tensor.empty() : tensor<3x3xf32>");
    let start = made.filled("tensor<1x56x56x64xf32>", "%ninf");
    x = made.line(&format!(
        "linalg.pooling_nhwc_max {{dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}} ins({x}, \
         {window} : tensor<1x114x114x64xf32>, tensor<3x3xf32>) outs({start} : tensor<1x56x56x64xf32>) -> \
         tensor<1x56x56x64xf32>"
    ));
    let mut channels = 64;
    for (count, width, first_stride) in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)] {
        for block in 0..count {
            let stride = if block == 0 { first_stride } else { 1 };
            let inner = made.convolution(&x, (size, channels), (width, 1, 1), None);
            let inner = made.convolution(&inner, (size, width), (width, 3, stride), None);
            let around = match block {
                0 => made.product(&x, (size, channels), (4 * width, 1, stride)),
                _ => x,
            };
            size /= stride;
            x = made.convolution(&inner, (size, width), (4 * width, 1, 1), Some(&around));
            channels = 4 * width;
        }
    }
    let start = made.filled("tensor<1x2048xf32>", "%zero");
    let sum = made.line(&format!(
        "linalg.reduce ins({x} : tensor<1x7x7x2048xf32>) outs({start} : tensor<1x2048xf32>) dimensions = [1, 2] \
         (%in: f32, %out: f32) {{ %sum = arith.addf %in, %out : f32 linalg.yield %sum : f32 }}"
    ));
    made.arguments.insert("%w".to_owned(), "2048x1000xf32".to_owned());
    let start = made.filled("tensor<1x1000xf32>", "%zero");
    let last = made.line(&format!(
        "linalg.matmul ins({sum}, %w : tensor<1x2048xf32>, tensor<2048x1000xf32>) outs({start} : tensor<1x1000xf32>) -> \
         tensor<1x1000xf32>"
    ));
    made.end(&last)
}

/// Text of a network's function.
#[derive(Default)]
struct Maker {
    body: String,
    values: u32,
    /// Arguments after `%x`, with their shapes.
    arguments: std::collections::BTreeMap<String, String>,
}

impl Maker {
    /// Adds an operation, and returns its value's name.
    fn line(&mut self, operation: &str) -> String {
        self.values += 1;
        let value = format!("%v{}", self.values);
        let _ = writeln!(self.body, "  {value} = {operation}");
        value
    }

    fn filled(&mut self, shape: &str, value: &str) -> String {
        let empty = self.line(&format!("tensor.empty() : {shape}"));
        self.line(&format!("linalg.fill ins({value} : f32) outs({empty} : {shape}) -> {shape}"))
    }

    /// A square picture with a border.
    fn padded(&mut self, x: &str, (size, channels): (u32, u32), by: u32, value: &str) -> String {
        let to = size + 2 * by;
        self.line(&format!(
            "tensor.pad {x} low[0, {by}, {by}, 0] high[0, {by}, {by}, 0] {{ ^bb0(%a: index, %b: index, %c: index, %d: \
             index): tensor.yield {value} : f32 }} : tensor<1x{size}x{size}x{channels}xf32> to \
             tensor<1x{to}x{to}x{channels}xf32>"
        ))
    }

    /// A convolution with a bias: channels, width of the window, stride.
    fn product(&mut self, x: &str, (size, channels): (u32, u32), (to, width, stride): (u32, u32, u32)) -> String {
        let border = width / 2;
        let x = if border > 0 { self.padded(x, (size, channels), border, "%zero") } else { x.to_owned() };
        let (from, size) = (size + 2 * border, size / stride);
        let (weights, shape) = (format!("%w{width}x{channels}x{to}"), format!("{width}x{width}x{channels}x{to}xf32"));
        let (bias, result) = (format!("%b{to}"), format!("tensor<1x{size}x{size}x{to}xf32>"));
        self.arguments.insert(weights.clone(), shape.clone());
        self.arguments.insert(bias.clone(), format!("{to}xf32"));
        let empty = self.line(&format!("tensor.empty() : {result}"));
        let start = self.line(&format!(
            "linalg.broadcast ins({bias} : tensor<{to}xf32>) outs({empty} : {result}) dimensions = [0, 1, 2]"
        ));
        self.line(&format!(
            "linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>}} \
             ins({x}, {weights} : tensor<1x{from}x{from}x{channels}xf32>, tensor<{shape}>) outs({start} : {result}) -> \
             {result}"
        ))
    }

    /// A convolution and what is above zero of it, or of its sum with `other`.
    fn convolution(&mut self, x: &str, from: (u32, u32), to: (u32, u32, u32), other: Option<&str>) -> String {
        let size = from.0 / to.2;
        let shape = format!("tensor<1x{size}x{size}x{}xf32>", to.0);
        let mut value = self.product(x, from, to);
        let empty = self.line(&format!("tensor.empty() : {shape}"));
        if let Some(other) = other {
            value = self.line(&format!(
                "linalg.map {{ arith.addf }} ins({value}, {other} : {shape}, {shape}) outs({empty} : {shape})"
            ));
        }
        let zeros = self.filled(&shape, "%zero");
        self.line(&format!(
            "linalg.map {{ arith.maximumf }} ins({value}, {zeros} : {shape}, {shape}) outs({empty} : {shape})"
        ))
    }

    /// The module with its function, and the arguments' values.
    fn end(self, last: &str) -> (String, Vec<String>) {
        let arguments: String =
            self.arguments.iter().map(|(name, shape)| format!(", {name}: tensor<{shape}>")).collect();
        let text = format!(
            "func.func @main(%x: tensor<1x224x224x3xf32>{arguments}) -> tensor<1x1000xf32> {{\n  %zero = arith.constant \
             0.0 : f32\n  %ninf = arith.constant 0xFF800000 : f32\n{}  return {last} : tensor<1x1000xf32>\n}}\n",
            self.body
        );
        let inputs = std::iter::once("1x224x224x3xf32=0.5".to_owned())
            .chain(self.arguments.values().map(|shape| format!("{shape}=0.01")))
            .collect();
        (text, inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_with_its_last_result() {
        let text = "func.func @main(%x: f32, %w: i8) -> f32 {\n  return %x : f32\n}\n";
        let made = repeated(text, 2).unwrap();
        let expected = "func.func private @layer(%x: f32, %w: i8) -> f32 {\n  return %x : f32\n}\n\
            func.func @main(%x: f32, %w: i8) -> f32 {\n  %r0 = call @layer(%x, %w) : (f32, i8) -> f32\n  \
            %r1 = call @layer(%r0, %w) : (f32, i8) -> f32\n  return %r1 : f32\n}\n";
        assert_eq!(made, expected);
    }

    #[test]
    fn resnet50_has_its_53_convolutions() {
        let (text, inputs) = resnet50();
        assert_eq!(text.matches("linalg.conv_2d_nhwc_hwcf").count(), 53);
        // The picture, 20 shapes of weights, biases of 6 widths, the last layer's weights.
        assert_eq!(inputs.len(), 28);
    }
}
