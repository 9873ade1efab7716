// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The mutation test of the checks: every wait, barrier and cache control of compiled kernels is taken out of their
//! machine code, one at a time, and the checks must find that, unless it is among those that `not_found` names with a
//! reason. In the kernels as they are they must find nothing, and these must compute the same with late results.

mod not_found;

use std::collections::{BTreeMap, BTreeSet};

use device_binaries::{
    DeviceShape, PatchDispatchArgs, header_setups, plan_copy, plan_fill, plan_patch_dispatch, select,
};
use hsa_abi::KernelDescriptor;
use object::{Object, ObjectSegment, ObjectSymbol};
use sim_isa::Target;
use sim_wave::{CheckSet, Checks, Kernel, Launch, Watch, run};

use crate::rig::{Everything, Found, launch};

/// The processors whose kernels are looked at.
const TARGETS: [&str; 4] = ["gfx1100", "gfx1201", "gfx90a", "gfx942"];

/// `s_nop 0` on all of them.
const NOP: u32 = 0xbf80_0000;

/// The kernels of `shared.c`.
const SHARED: [&str; 8] = ["reduce", "transpose", "histogram", "scan", "pipeline", "exchange", "last", "pass"];

/// Bytes that kernels read and write.
const BYTES: usize = 1 << 16;

/// A code object, where a program would have loaded it.
struct Image {
    /// Aligned to a page; one that kernels use no absolute addresses of.
    words: Vec<u64>,
    kernels: Vec<(String, u64)>,
    functions: Vec<(String, u64, u64)>,
    target: Target,
}

impl Image {
    fn new(target: Target, elf: &[u8]) -> Self {
        let file = object::File::parse(elf).unwrap();
        let size = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap();
        let mut words = vec![0u64; size.div_ceil(8) as usize];
        for segment in file.segments() {
            for (n, byte) in segment.data().unwrap().iter().enumerate() {
                let at = segment.address() as usize + n;
                words[at / 8] |= u64::from(*byte) << (8 * (at % 8));
            }
        }
        let symbols = || file.dynamic_symbols().map(|symbol| (symbol.name().unwrap().to_owned(), symbol));
        let kernels = symbols()
            .filter_map(|(name, symbol)| Some((name.strip_suffix(".kd")?.to_owned(), symbol.address())))
            .collect();
        let functions = symbols()
            .filter(|(_, symbol)| symbol.kind() == object::SymbolKind::Text)
            .map(|(name, symbol)| (name, symbol.address(), symbol.size()))
            .collect();
        Image { words, kernels, functions, target }
    }

    fn base(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    fn dword(&self, at: u64) -> u32 {
        (self.words[at as usize / 8] >> (8 * (at % 8))) as u32
    }

    fn set_dword(&mut self, at: u64, value: u32) {
        let shift = 8 * (at % 8);
        let word = &mut self.words[at as usize / 8];
        *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
    }

    /// Ordering instructions of a kernel: offsets in the kernel and in the image, dwords, and texts.
    fn orders(&self, kernel: &str) -> Vec<Order> {
        let (_, start, size) = self.functions.iter().find(|(name, ..)| name == kernel).unwrap();
        let mut orders = Vec::new();
        let mut at = *start;
        while at < start + size {
            let words: Vec<u32> = (0..4).map(|n| self.dword((at + 4 * n).min(start + size - 4))).collect();
            let inst = sim_isa::decode(self.target, &words).unwrap();
            let text = inst.to_string();
            let dwords = u64::from(inst.size) / 4;
            if kind(&text).is_some() {
                orders.push(Order { offset: at - start, at, dwords, text });
            }
            at += 4 * dwords;
        }
        orders
    }

    fn load(&self, kernel: &str) -> (Kernel, KernelDescriptor) {
        let (_, descriptor_at) = self.kernels.iter().find(|(name, _)| name == kernel).unwrap();
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let raw: [u8; 64] = bytes[*descriptor_at as usize..][..64].try_into().unwrap();
        // SAFETY: a descriptor is 64 bytes of integers.
        let descriptor: KernelDescriptor = unsafe { std::mem::transmute(raw) };
        let base = self.base();
        (Kernel::load(self.target, base, &bytes, &descriptor, base + descriptor_at, kernel).unwrap(), descriptor)
    }
}

/// Kind of an ordering instruction; `None` for all others. A removal of several wait states leaves one, because every
/// instruction takes one.
fn kind(text: &str) -> Option<&'static str> {
    let is = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    match text {
        "s_nop 0" => None,
        _ if is(&["s_nop", "s_waitcnt_depctr", "s_wait_alu", "v_nop"]) => Some("between instructions"),
        _ if is(&["s_wait"]) => Some("waits"),
        _ if is(&["s_barrier"]) => Some("barriers"),
        _ => is(&["buffer_gl", "buffer_inv", "buffer_wb", "global_inv", "global_wb"]).then_some("cache controls"),
    }
}

/// An instruction that orders something.
struct Order {
    /// In the kernel.
    offset: u64,
    /// In the image.
    at: u64,
    dwords: u64,
    text: String,
}

/// One launch of a kernel.
struct Run {
    kernel: &'static str,
    kernargs: Vec<u8>,
    grid_size: u32,
    workgroup_size: u16,
}

fn of<const N: usize>(launch: device_binaries::Launch<impl Sized>, kernargs: [u8; N]) -> Run {
    let (kernel, kernargs) = (launch.kernel.symbol().strip_suffix(".kd").unwrap(), kernargs.to_vec());
    Run { kernel, kernargs, grid_size: launch.grid_size, workgroup_size: launch.workgroup_size }
}

/// Memory that runs work on.
struct Buffers {
    source: Vec<u64>,
    target: Vec<u64>,
}

impl Buffers {
    fn new() -> Self {
        let source = (0..BYTES as u64 / 8).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        Buffers { source, target: vec![0; BYTES / 8] }
    }

    fn addresses(&mut self) -> (u64, u64) {
        let source = self.source.as_ptr().expose_provenance() as u64;
        (source, self.target.as_mut_ptr().expose_provenance() as u64)
    }

    /// Runs of the device library that cover all paths through its kernels.
    fn of_library(&mut self, wavefront_size: u32) -> Vec<Run> {
        let device = DeviceShape { wavefront_size, compute_units: 4 };
        let (source, target) = self.addresses();
        let mut runs = Vec::new();
        for (from, to, length) in
            [(0, 0, 1), (1, 3, 300), (0, 0, 4096), (5, 3, 20_001), (16, 9, 8200), (4, 0, 5000), (2, 6, 40_000)]
        {
            let launch = plan_copy(device, source + from, target + to, length).unwrap();
            runs.push(of(launch, launch.args.to_bytes()));
            for pattern in [1, 2, 4, 8, 16] {
                let (to, length) = (to & !(pattern - 1), length & !(pattern - 1));
                let bytes: Vec<u8> = (1..=pattern as u8).collect();
                if length != 0 {
                    let launch = plan_fill(device, target + to, length, &bytes).unwrap();
                    runs.push(of(launch, launch.args.to_bytes()));
                }
            }
        }
        for (counts, implicit) in [(0, 0), (0, 128), (256, 0), (256, 128)] {
            let launch = plan_patch_dispatch(PatchDispatchArgs {
                workgroup_count: source + counts,
                packet: target + 64,
                implicit_args: if implicit == 0 { 0 } else { target + implicit },
                header_setup: header_setups(3 << 16 | 0x1502),
                workgroup_size: [8, 3, 2],
                reserved: 0,
            });
            runs.push(of(launch, launch.args.to_bytes()));
        }
        runs
    }

    /// A kernel with two pointers and two numbers, over 100 items.
    fn of_two(&mut self, kernel: &'static str) -> Run {
        let (source, target) = self.addresses();
        let words = [source, target, u64::from(2f32.to_bits()) | 100 << 32];
        let kernargs = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Run { kernel, kernargs, grid_size: 128, workgroup_size: 64 }
    }

    /// A kernel with two pointers, whose workgroups have 256 items.
    fn of_shared(&mut self, kernel: &'static str) -> Run {
        let (source, target) = self.addresses();
        let kernargs = [source, target].iter().flat_map(|word| word.to_le_bytes()).collect();
        Run { kernel, kernargs, grid_size: 4 * 256, workgroup_size: 256 }
    }

    /// A kernel with one pointer and two numbers, over 100 items.
    fn of_one(&mut self, kernel: &'static str) -> Run {
        let (_, target) = self.addresses();
        let words = [target, 7 | 100 << 32];
        let kernargs = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Run { kernel, kernargs, grid_size: 128, workgroup_size: 64 }
    }
}

/// Runs a kernel. Returns the findings, faults among them, and the contents of the target afterwards.
fn run_all(
    image: &Image,
    runs: &[Run],
    kernel: &str,
    buffers: &mut Buffers,
    seed: Option<u64>,
) -> (Vec<String>, Vec<u64>) {
    let (loaded, descriptor) = image.load(kernel);
    let found = Found::default();
    let mut faults = Vec::new();
    buffers.target.fill(0);
    for run_of in runs.iter().filter(|run| run.kernel == kernel) {
        // Aligned as kernel arguments are.
        let words: Vec<u128> = run_of
            .kernargs
            .chunks(16)
            .map(|chunk| u128::from_le_bytes(std::array::from_fn(|n| chunk.get(n).copied().unwrap_or(0))))
            .collect();
        let watch = Watch::Checks(Checks {
            set: CheckSet {
                wait: true,
                sync: true,
                race: true,
                hazard: true,
                bounds: true,
                // Of the kernels as they are, which run with seeds.
                init: seed.is_some(),
                ..CheckSet::default()
            },
            memory: &Everything,
            seed,
            fatal: false,
            sink: &found,
        });
        let mut launch =
            Launch { watch: Some(watch), ..launch([run_of.grid_size, 1, 1], [run_of.workgroup_size, 1, 1], &words) };
        launch.packet.private_segment_size = descriptor.private_segment_fixed_size;
        launch.packet.group_segment_size = descriptor.group_segment_fixed_size;
        faults.extend(run(&loaded, &launch, &Everything).err().map(|fault| fault.to_string()));
    }
    let findings = found.into_all().into_iter().map(|(finding, _)| finding.to_string());
    (faults.into_iter().chain(findings).collect(), buffers.target.clone())
}

/// Code objects of a target, with the kernels of them that run.
fn images(target: &str, buffers: &mut Buffers) -> Vec<(Image, Vec<Run>)> {
    let table = Target::from_processor(target).unwrap();
    let wave = if table.is_gfx9() { 64 } else { 32 };
    let examples: &[(&[u8], &'static str)] = match target {
        "gfx1100" => &[
            (include_bytes!("../../../../examples/hsaco/saxpy.gfx1100.hsaco"), "saxpy"),
            (include_bytes!("../../../../examples/custom-dispatch/leaky_relu.gfx1100.hsaco"), "leaky_relu"),
        ],
        "gfx942" => &[
            (include_bytes!("../../../../examples/hsaco/saxpy.gfx942.hsaco"), "saxpy"),
            (include_bytes!("../../../../examples/custom-dispatch/leaky_relu.gfx942.hsaco"), "leaky_relu"),
        ],
        _ => &[],
    };
    let tests: &[u8] = match target {
        "gfx1100" => include_bytes!("../../../tests/kernels/kernels.gfx11-generic.co"),
        "gfx1201" => include_bytes!("../../../tests/kernels/kernels.gfx12-generic.co"),
        "gfx90a" => include_bytes!("../../../tests/kernels/kernels.gfx90a.co"),
        _ => include_bytes!("../../../tests/kernels/kernels.gfx942.co"),
    };
    let mut images = vec![(Image::new(table, select(target).unwrap().elf), buffers.of_library(wave))];
    images.extend(examples.iter().map(|(elf, kernel)| (Image::new(table, elf), vec![buffers.of_two(kernel)])));
    let shared: &[u8] = match target {
        "gfx1100" => include_bytes!("../../../tests/kernels/shared.gfx1100.co"),
        "gfx1201" => include_bytes!("../../../tests/kernels/shared.gfx1201.co"),
        "gfx90a" => include_bytes!("../../../tests/kernels/shared.gfx90a.co"),
        _ => include_bytes!("../../../tests/kernels/shared.gfx942.co"),
    };
    images.push((Image::new(table, shared), SHARED.map(|kernel| buffers.of_shared(kernel)).into()));
    images.push((Image::new(table, tests), ["fill", "count_items"].map(|kernel| buffers.of_one(kernel)).into()));
    images
}

#[test]
fn everything_that_orders_is_missed() {
    let mut left = Vec::new();
    let mut kernels = 0;
    // Taken out and found, by kind.
    let mut counts = BTreeMap::<&str, (u32, u32)>::new();
    for target in TARGETS {
        let mut buffers = Buffers::new();
        for (mut image, runs) in images(target, &mut buffers) {
            let names: BTreeSet<&str> = runs.iter().map(|run| run.kernel).collect();
            for kernel in names {
                kernels += 1;
                let (found, right) = run_all(&image, &runs, kernel, &mut buffers, None);
                assert!(found.is_empty(), "{target}: {}", found[0]);
                for seed in 0..4 {
                    let (found, late) = run_all(&image, &runs, kernel, &mut buffers, Some(seed));
                    assert!(found.is_empty(), "{target}: {}", found[0]);
                    assert!(late == right, "{target}: {kernel} computes something else with late results");
                }
                for Order { offset, at, dwords, text } in image.orders(kernel) {
                    let words: Vec<u32> = (0..dwords).map(|n| image.dword(at + 4 * n)).collect();
                    (0..dwords).for_each(|n| image.set_dword(at + 4 * n, NOP));
                    let (found, _) = run_all(&image, &runs, kernel, &mut buffers, None);
                    words.iter().zip(0..).for_each(|(word, n)| image.set_dword(at + 4 * n, *word));
                    let count = counts.entry(kind(&text).unwrap()).or_default();
                    count.0 += 1;
                    count.1 += u32::from(!found.is_empty());
                    if found.is_empty() {
                        left.push(format!("{target} {kernel} +{offset:#x} {text}"));
                    }
                }
            }
        }
    }
    println!("{kernels} kernels; taken out and found: {counts:?}");
    let reasons: Vec<String> = not_found::NOT_FOUND.iter().map(|(order, _)| (*order).to_owned()).collect();
    assert_eq!(left, reasons, "what is not missed, and what is known not to be");
}
