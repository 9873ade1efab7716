// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask demo`: a classifier of handwritten digits (see `demo/README.md`), compiled by IREE's compiler, run
//! through IREE's `iree-run-module` and this driver, and compared with IREE's CPU backend.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::{Hsa, SimStats};
use xtask_core::iree::{Backend, Call, compile};
use xtask_core::layout::Layout;
use xtask_core::npy::{Array, Data};
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

const CLASSES: usize = 10;
/// Pictures in one row of the terminal, at two columns a pixel.
const PICTURES_PER_ROW: usize = 5;
/// Shades of ink from none to full.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// Maximum difference of a logit from the CPU's. Logits are up to about 20 in size and come from three layers of at
/// most 256 products each.
const TOLERANCE: f64 = 1e-3;

/// The test images: `count` of `height` × `width` pixels from 0 to 16.
struct Images {
    count: usize,
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}

/// The results of one backend.
struct Run {
    logits: Vec<f32>,
    stats: Option<SimStats>,
    /// Time of the whole `iree-run-module`.
    time: Duration,
}

/// Compiles and runs the model on `target` and on the CPU, and prints the results.
///
/// # Errors
/// When a program fails, or the two backends disagree.
pub fn run(layout: &Layout, steps: &Steps, target: &Target, hsa: &Hsa) -> Result<()> {
    let folder = layout.root.join("demo");
    let images = read_images(&folder.join("test_images.npy"))?;
    let labels = read_labels(&folder.join("test_labels.npy"), images.count)?;
    let module = |backend: Backend| {
        steps.step(&format!("Compiling the model for {backend}"), |step| {
            compile(layout, step, &folder.join("digits.mlir"), backend)
        })
    };
    let infer = |backend: Backend, module: &Path| {
        steps.step(&format!("Reading {} images on {backend}", images.count), |step| {
            infer(layout, step, hsa, backend, module, images.count)
        })
    };
    let gpu_module = module(Backend::Gpu(target))?;
    let cpu_module = module(Backend::Cpu)?;
    let gpu = infer(Backend::Gpu(target), &gpu_module)?;
    let cpu = infer(Backend::Cpu, &cpu_module)?;

    let read = predictions(&gpu.logits);
    print_pictures(&images, &labels, &read);
    let right = read.iter().zip(&labels).filter(|(read, label)| read == label).count();
    let same = read.iter().zip(predictions(&cpu.logits)).filter(|(gpu, cpu)| *gpu == cpu).count();
    let largest = largest_difference(&gpu.logits, &cpu.logits);
    print_summary(target, hsa, &gpu, images.count, right);
    println!("the CPU's answer      {same} of {} the same, logits differ by at most {largest:.1e}", images.count);
    // Written so that a NaN does not pass.
    if same == images.count && largest <= TOLERANCE {
        Ok(())
    } else {
        Err(Error::Failed(format!(
            "the results differ from the CPU backend's by more than {TOLERANCE:.0e} or in a prediction"
        )))
    }
}

fn infer(layout: &Layout, step: &Step, hsa: &Hsa, backend: Backend, module: &Path, count: usize) -> Result<Run> {
    let work = layout.build.join("demo");
    fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
    let output = work.join(format!("{}.npy", backend.device()));
    let call = Call {
        module,
        function: "classify",
        inputs: &[layout.root.join("demo/test_images.npy")],
        output: &output,
        results: 1,
        stats: &work.join("stats.json"),
        variables: &[],
        conditions: Conditions::DEFAULT,
    };
    let start = Instant::now();
    let stats = call.run(layout, step, backend, hsa)?;
    let time = start.elapsed();
    match Array::read_all(&output)?.as_slice() {
        [Array { shape, data: Data::F32(logits) }] if *shape == [count, CLASSES] => {
            Ok(Run { logits: logits.clone(), stats, time })
        }
        _ => Err(Error::Failed(format!("{}: not {count} x {CLASSES} logits", output.display()))),
    }
}

fn read_images(path: &Path) -> Result<Images> {
    match Array::read_all(path)?.pop() {
        Some(Array { shape, data: Data::F32(pixels) }) if shape.len() == 3 => {
            Ok(Images { count: shape[0], height: shape[1], width: shape[2], pixels })
        }
        _ => Err(Error::setup(format!("{}: not a batch of images", path.display()))),
    }
}

fn read_labels(path: &Path, count: usize) -> Result<Vec<usize>> {
    match Array::read_all(path)?.pop().map(|array| array.data) {
        Some(Data::I32(labels)) if labels.len() == count => Ok(labels.iter().map(|&label| label as usize).collect()),
        _ => Err(Error::setup(format!("{}: not {count} labels", path.display()))),
    }
}

/// Class with the largest logit for each image.
fn predictions(logits: &[f32]) -> Vec<usize> {
    let (rows, _) = logits.as_chunks::<CLASSES>();
    let largest = |row: &[f32; CLASSES]| (0..CLASSES).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    rows.iter().map(|row| largest(row).unwrap_or_default()).collect()
}

/// Largest absolute difference; NaN if either side has a NaN.
fn largest_difference(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs())
        .fold(0.0, |largest, x| if x.is_nan() || x > largest { x } else { largest })
}

/// Prints the first image of each digit.
fn print_pictures(images: &Images, labels: &[usize], read: &[usize]) {
    let chosen: Vec<usize> = (0..CLASSES).filter_map(|digit| labels.iter().position(|&label| label == digit)).collect();
    for row in chosen.chunks(PICTURES_PER_ROW) {
        println!();
        for y in 0..images.height {
            let lines = row.iter().map(|&image| picture_line(images, image, y));
            println!("  {}", lines.collect::<Vec<_>>().join("   ").trim_end());
        }
        let captions = row.iter().map(|&image| {
            let mark = if read[image] == labels[image] { "" } else { " (wrong)" };
            format!("{:<1$}", format!("read: {}{mark}", read[image]), 2 * images.width)
        });
        println!("  {}", captions.collect::<Vec<_>>().join("   ").trim_end());
    }
    println!();
}

fn picture_line(images: &Images, image: usize, y: usize) -> String {
    let start = (image * images.height + y) * images.width;
    let pixels = &images.pixels[start..start + images.width];
    let shade = |ink: f32| SHADES[(ink / 16.0 * 4.0).round().clamp(0.0, 4.0) as usize];
    pixels.iter().flat_map(|&ink| [shade(ink); 2]).collect()
}

fn print_summary(target: &Target, hsa: &Hsa, gpu: &Run, count: usize, right: usize) {
    let percent = 100.0 * right as f64 / count as f64;
    println!("read correctly        {right} of {count} ({percent:.1} %)");
    let seconds = gpu.time.as_secs_f64();
    match (&gpu.stats, hsa) {
        (Some(stats), _) => {
            let kernels = Duration::from_nanos(stats.execute_ns).as_secs_f64();
            let rate = stats.wave_instructions as f64 / kernels / 1e6;
            println!("time on the sim       {kernels:.2} s in kernels; {seconds:.2} s for all of iree-run-module");
            println!(
                "work on the sim       {} dispatches, {} packets, {} wave-instructions of {target} ({rate:.0} million a second)",
                stats.dispatches, stats.packets, stats.wave_instructions
            );
        }
        (None, Hsa::Path(path)) => {
            println!("time                  {seconds:.2} s for all of iree-run-module, on {}", path.display());
        }
        (None, Hsa::Sim | Hsa::Rocr) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_logit_is_the_prediction() {
        let mut logits = vec![-1.0; 2 * CLASSES];
        logits[3] = 0.5;
        logits[CLASSES + 9] = 2.0;
        assert_eq!(predictions(&logits), [3, 9]);
    }

    #[test]
    fn a_nan_is_no_agreement() {
        assert_eq!(largest_difference(&[1.0, 2.0], &[1.5, 2.0]), 0.5);
        assert!(largest_difference(&[f32::NAN, 2.0], &[1.0, 2.0]).is_nan());
        assert!(largest_difference(&[1.0, f32::NAN], &[1.0, 2.0]).is_nan());
    }

    #[test]
    fn the_checked_in_images_and_labels_fit() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo");
        let images = read_images(&folder.join("test_images.npy")).unwrap();
        assert!(images.count >= 200);
        let labels = read_labels(&folder.join("test_labels.npy"), images.count).unwrap();
        assert!((0..CLASSES).all(|digit| labels.contains(&digit)));
        assert_eq!(picture_line(&images, 0, 0).chars().count(), 2 * images.width);
    }
}
