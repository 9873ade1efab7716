// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Measures wave-instructions a second on a compiled kernel.
//!
//! The kernel's arguments are pointers to buffers of pseudo-random f32 in -0.5..0.5, in the order given.

use hsa_abi::{HsaSignal, KernelDescriptor, KernelDispatchPacket, PacketHeader};
use object::{Object, ObjectSegment, ObjectSymbol};
use sim_isa::Target;
use sim_wave::{Counters, Jit, Kernel, Launch, Memory, Region, run};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

const HELP: &str = "\
usage: throughput FILE.hsaco [KERNEL [BLOCKS [THREADS [BYTES...]]]]

  KERNEL   name of the kernel, or `-` for the first one
  BLOCKS   workgroups in x,y,z      (default 16,1,1)
  THREADS  work-items of a workgroup (default 32,8,1)
  BYTES    size of each buffer      (default three of 262144)

The defaults are those of IREE's 256x256x256 f32 matmul. HOST_THREADS=n runs on n threads (default 1).";

/// All of the process's memory: a benchmark trusts its kernel.
struct Everything;

impl Memory for Everything {
    fn region(&self, _: u64) -> Option<Region> {
        Some(Region { base: 0, size: u64::MAX, host: 0, readable: true, writable: true })
    }

    fn generation(&self) -> &AtomicU64 {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        &NEVER
    }
}

fn triple(text: &str) -> Result<[u32; 3], String> {
    let parts: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let parts = parts.map_err(|error| format!("{text}: {error}"))?;
    <[u32; 3]>::try_from(parts).map_err(|_| format!("{text}: not three numbers"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args[0] == "--help" {
        println!("{HELP}");
        return Ok(());
    }
    let arg = |i: usize, default: &'static str| args.get(i).map_or(default, |s| s.as_str());
    let blocks = triple(arg(2, "16,1,1"))?;
    let threads = triple(arg(3, "32,8,1"))?;
    let sizes: Vec<usize> = match args.get(4..) {
        Some(sizes) if !sizes.is_empty() => sizes.iter().map(|s| s.parse()).collect::<Result<_, _>>()?,
        _ => vec![262_144; 3],
    };

    let file = std::fs::read(&args[0])?;
    let elf = object::File::parse(&*file)?;
    let size = elf.segments().map(|s| s.address() + s.size()).max().ok_or("no segments")?;
    let mut image = vec![0u8; size as usize + 4096];
    let skip = image.as_ptr().align_offset(4096);
    let image = &mut image[skip..];
    for segment in elf.segments() {
        let data = segment.data()?;
        image[segment.address() as usize..][..data.len()].copy_from_slice(data);
    }
    let wanted = arg(1, "-");
    let (name, offset) = elf
        .dynamic_symbols()
        .filter_map(|s| Some((s.name().ok()?.strip_suffix(".kd")?.to_owned(), s.address())))
        .find(|(name, _)| wanted == "-" || name == wanted)
        .ok_or("no such kernel")?;
    let base = image.as_ptr() as u64;
    // SAFETY: the symbol's 64 bytes are in the image, aligned like the image; any bits are a valid descriptor.
    let descriptor = unsafe { ((base + offset) as *const KernelDescriptor).read() };
    let object::FileFlags::Elf { e_flags, .. } = elf.flags() else { return Err("not an ELF file".into()) };
    // EF_AMDGPU_MACH of the processors and of the generic ones they run.
    let target = match e_flags & 0xff {
        0x2f | 0x51 => Target::Gfx906,
        0x30 => Target::Gfx908,
        0x3f => Target::Gfx90a,
        0x4c | 0x5f => Target::Gfx942,
        0x33 | 0x52 => Target::Gfx1010,
        0x36 | 0x53 => Target::Gfx1030,
        0x48 | 0x4e | 0x59 => Target::Gfx1200,
        _ => Target::Gfx11,
    };
    let kernel = Kernel::load(target, base, image, &descriptor, base + offset, &name)?;

    let mut seed = 1u32;
    let mut buffers: Vec<Vec<f32>> = sizes.iter().map(|bytes| vec![0.0; bytes / 4]).collect();
    for value in buffers.iter_mut().flatten() {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *value = (seed >> 8) as f32 / (1 << 24) as f32 - 0.5;
    }
    let kernargs: Vec<u64> = buffers.iter_mut().map(|b| b.as_mut_ptr() as u64).collect();
    let launch = Launch {
        packet: KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 3,
            workgroup_size: threads.map(|n| n as u16),
            reserved0: 0,
            grid_size: [0, 1, 2].map(|i| blocks[i] * threads[i]),
            private_segment_size: descriptor.private_segment_fixed_size,
            group_segment_size: descriptor.group_segment_fixed_size,
            kernel_object: base + offset,
            kernarg_address: kernargs.as_ptr() as u64,
            reserved2: 0,
            completion_signal: HsaSignal::default(),
        },
        packet_addr: 0,
        queue_addr: 0,
        dispatch_id: 0,
        user_registers: None,
        threads: std::env::var("HOST_THREADS").map_or(Ok(1), |n| n.parse())?,
        resident: 64,
        gws: None,
        jit: std::env::var("HSA_SIM_JIT").map_or(Some(Jit::ON), |value| Jit::parse(&value)).ok_or("HSA_SIM_JIT")?,
        cancel: None,
        watch: None,
    };
    let mut best = f64::INFINITY;
    let mut counters = Counters::default();
    for _ in 0..10 {
        let start = Instant::now();
        counters = run(&kernel, &launch, &Everything)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{name}: {} wave-instructions, {} waves, {:.3} ms, {:.1} M wave-instructions/s",
        counters.wave_instructions,
        counters.waves,
        best * 1e3,
        counters.wave_instructions as f64 / best / 1e6
    );
    if std::env::var_os("CHECK_MATMUL").is_some() {
        let (a, b, c) = (&buffers[0], &buffers[1], &buffers[2]);
        let mut worst = 0f64;
        for i in 0..256 {
            for j in 0..256 {
                let exact: f64 = (0..256).map(|k| f64::from(a[i * 256 + k]) * f64::from(b[k * 256 + j])).sum();
                worst = worst.max((exact - f64::from(c[i * 256 + j])).abs());
            }
        }
        println!("largest difference from the exact product: {worst:e}");
    }
    Ok(())
}
