// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A loaded kernel: its program, and how its waves start (AMDGPUUsage, "Initial Kernel Execution State").

use crate::exec::Level;
use crate::fault::{Fault, FaultKind};
use crate::hardware::{PRIVATE_BUFFER, mode, slot};
use crate::launch::Launch;
use crate::operand::Registers;
use crate::program::{NOWHERE, Program};
use crate::read_first::read_first;
use crate::sanitizer::{Line, PathReport, Plan, Uses, check_paths};
use crate::setup;
use crate::translate::translate;
use crate::wave::{Row, Wave};
use hsa_abi::KernelDescriptor;
use sim_isa::Target;
use std::ops::Range;
use std::sync::OnceLock;

/// A kernel ready to be launched, from any thread and any number of times.
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Code,
    pub(crate) start: Start,
    pub(crate) registers: Registers,
    /// Plan for launches with checks, made at the first of these.
    plan: OnceLock<Plan>,
    /// For launches with the check of uninitialized data.
    uses: OnceLock<Uses>,
    /// Vector registers that waves may read before they write them, for launches that nothing observes.
    read_first: OnceLock<Vec<Range<usize>>>,
}

/// A kernel's program for waves of its size.
pub(crate) enum Code {
    Wave32(Program<32>),
    Wave64(Program<64>),
}

/// Initial state of waves, as far as it differs between kernels and targets.
pub(crate) struct Start {
    target: Target,
    descriptor: KernelDescriptor,
    /// The MODE register.
    mode: u32,
}

impl Kernel {
    /// Byte offset of the kernel's first instruction in the code. The packet processor skips the prologue that loads
    /// preloaded arguments on older firmware (AMDGPUUsage, "Preloaded Kernel Arguments"), which gfx1250 never had.
    fn entry(
        target: Target,
        code_base: u64,
        code: &[u8],
        descriptor: &KernelDescriptor,
        descriptor_addr: u64,
    ) -> Result<u32, FaultKind> {
        const PRELOAD_PROLOGUE: u64 = 256;
        let mut entry = descriptor_addr.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        if target.has_unified_registers() && descriptor.kernarg_preload.length() != 0 {
            entry = entry.wrapping_add(PRELOAD_PROLOGUE);
        }
        let offset = entry.wrapping_sub(code_base);
        if !offset.is_multiple_of(4) || offset >= code.len() as u64 || code.len() > u32::MAX as usize / 2 {
            let end = code_base.wrapping_add(code.len() as u64);
            let what = format!("entry point {entry:#x} is not an instruction of the code at {code_base:#x}..{end:#x}");
            return Err(FaultKind::Launch(what));
        }
        Ok(offset as u32)
    }

    /// Decodes a kernel.
    ///
    /// `code` is the executable memory that holds the kernel and all it calls, loaded at address `code_base`;
    /// `descriptor` is the kernel's descriptor, loaded at `descriptor_addr`; `name` is used in messages. Instructions
    /// that are invalid or not implemented fault when they are reached, not here.
    ///
    /// # Errors
    /// [`FaultKind::Launch`] if the entry point is not in `code`, [`FaultKind::NotImplemented`] if the kernel needs a
    /// mode the simulator does not have.
    pub fn load(
        target: Target,
        code_base: u64,
        code: &[u8],
        descriptor: &KernelDescriptor,
        descriptor_addr: u64,
        name: &str,
    ) -> Result<Kernel, Box<Fault>> {
        let entry = Self::entry(target, code_base, code, descriptor, descriptor_addr)
            .map_err(|kind| Fault::outside(name, kind))?;
        let rsrc1 = descriptor.compute_pgm_rsrc1;
        if rsrc1.float_round_mode_32() != 0 || rsrc1.float_round_mode_16_64() != 0 {
            let what = "rounding other than to nearest even".to_owned();
            return Err(Fault::outside(name, FaultKind::NotImplemented(what)));
        }
        let mut mode = rsrc1.float_denorm_mode_32() << 4 | rsrc1.float_denorm_mode_16_64() << 6;
        // On gfx12 clamping always turns NaN into 0, and the bits that chose it mean other things.
        let gfx12 = target.is_gfx12();
        if gfx12 || rsrc1.enable_dx10_clamp() != 0 {
            mode |= mode::DX10_CLAMP;
        }
        if !gfx12 && rsrc1.enable_ieee_mode() != 0 {
            mode |= mode::IEEE;
        }
        if rsrc1.fp16_ovfl() != 0 {
            mode |= mode::FP16_OVERFLOW;
        }
        let wave32 = !target.is_gfx9() && descriptor.kernel_code_properties.enable_wavefront_size32() != 0;
        if target == Target::Gfx1250 && !wave32 {
            let what = "waves of 64 lanes, which gfx1250 does not have".to_owned();
            return Err(Fault::outside(name, FaultKind::NotImplemented(what)));
        }
        let (registers, level) = (allocated(target, descriptor, wave32), Level::detect());
        let code = if wave32 {
            Code::Wave32(translate(target, code_base, code, entry, registers, level))
        } else {
            Code::Wave64(translate(target, code_base, code, entry, registers, level))
        };
        let start = Start { target, descriptor: *descriptor, mode };
        let (plan, uses, read_first) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Kernel { name: name.to_owned(), code, start, registers, plan, uses, read_first })
    }
}

impl Kernel {
    /// Hash of the code that contains the kernel.
    pub fn code_hash(&self) -> u64 {
        match &self.code {
            Code::Wave32(program) => self.plan(program).hash,
            Code::Wave64(program) => self.plan(program).hash,
        }
    }

    /// Name of the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Vector registers of its waves' lanes, accumulation registers among them.
    pub fn vector_registers(&self) -> usize {
        self.registers.total()
    }

    /// The instruction at an offset.
    pub fn line(&self, offset: u32) -> Line {
        match &self.code {
            Code::Wave32(program) => Line::of(program, offset),
            Code::Wave64(program) => Line::of(program, offset),
        }
    }

    /// Bytes of the instruction at an offset.
    pub fn size(&self, offset: u32) -> u32 {
        let (target, words) = match &self.code {
            Code::Wave32(program) => (program.target, &program.words),
            Code::Wave64(program) => (program.target, &program.words),
        };
        let words = words.get(offset as usize / 4..).unwrap_or_default();
        sim_isa::decode(target, words).map_or(4, |inst| inst.size.into())
    }

    /// True if its waves may synchronize with others through memory.
    pub fn synchronizes(&self) -> bool {
        match &self.code {
            Code::Wave32(program) => self.plan(program).synchronizes,
            Code::Wave64(program) => self.plan(program).synchronizes,
        }
    }

    /// Reachable instructions, by offset.
    pub fn listing(&self) -> Vec<Line> {
        fn of<const L: usize>(program: &Program<L>) -> Vec<Line> {
            let offsets = (0..program.index.len()).filter(|at| program.index[*at] != NOWHERE).map(|at| 4 * at as u32);
            offsets.map(|offset| Line::of(program, offset)).collect()
        }
        match &self.code {
            Code::Wave32(program) => of(program),
            Code::Wave64(program) => of(program),
        }
    }

    /// Checks waits and wait states on every path of the kernel's code, and of the functions that it calls.
    pub fn check_paths(&self) -> PathReport {
        match &self.code {
            Code::Wave32(program) => check_paths(program, self.plan(program), &self.name),
            Code::Wave64(program) => check_paths(program, self.plan(program), &self.name),
        }
    }

    /// Plan of `program`, the kernel's code, for the checks.
    pub(crate) fn plan<const L: usize>(&self, program: &Program<L>) -> &Plan {
        self.plan.get_or_init(|| Plan::new(program, self.registers))
    }

    /// Register uses of `program`, the kernel's code.
    pub(crate) fn uses<const L: usize>(&self, program: &Program<L>) -> &Uses {
        self.uses.get_or_init(|| Uses::new(program, self.registers))
    }

    /// Vector registers that a wave of `program`, the kernel's code, may read before it has written them, if it begins
    /// with all lanes.
    pub(crate) fn read_first<const L: usize>(&self, program: &Program<L>) -> &[Range<usize>] {
        self.read_first.get_or_init(|| read_first(program, self.registers, self.start.ids()))
    }
}

/// Registers that a descriptor allocates (AMDGPUUsage, `GRANULATED_WORKITEM_VGPR_COUNT` and `ACCUM_OFFSET`).
fn allocated(target: Target, descriptor: &KernelDescriptor, wave32: bool) -> Registers {
    let granules = descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count() as usize + 1;
    if target.has_unified_registers() {
        let total = (8 * granules).min(512);
        let vector = (descriptor.accum_offset() as usize).min(total).min(256);
        return Registers { vector, accumulation: (total - vector).min(256) };
    }
    let granule = match target {
        Target::Gfx1250 => 16,
        _ if wave32 => 8,
        _ => 4,
    };
    // Those beyond 256 are operands after `s_set_vgpr_msb` only.
    let vector = (granule * granules).min(if target == Target::Gfx1250 { 1024 } else { 256 });
    // gfx908 has as many of one kind as of the other.
    Registers { vector, accumulation: if target == Target::Gfx908 { vector } else { 0 } }
}

impl Start {
    /// Offset of the preloaded dwords in the kernel's arguments, and their number.
    pub fn preloaded(&self) -> (u64, usize) {
        let preload = self.descriptor.kernarg_preload;
        let preloads = self.target.has_unified_registers() || self.target == Target::Gfx1250;
        let count = if preloads { preload.length().into() } else { 0 };
        (4 * u64::from(preload.offset()), count)
    }

    /// Named barriers of each workgroup (AMDGPUUsage, `NAMED_BAR_CNT`: in fours).
    pub fn named_barriers(&self) -> usize {
        match self.target {
            Target::Gfx1250 => 4 * (self.descriptor.compute_pgm_rsrc3 as usize >> 14 & 7),
            _ => 0,
        }
    }

    /// Bytes of the kernel's arguments.
    pub fn arguments_size(&self) -> u64 {
        self.descriptor.kernarg_size.into()
    }

    /// True if the waves of a workgroup run on several compute units: WGP mode, and CDNA's threadgroup split.
    pub fn is_split(&self) -> bool {
        match self.target.is_gfx9() {
            true => self.target.has_unified_registers() && self.descriptor.tg_split(),
            false => self.descriptor.compute_pgm_rsrc1.wgp_mode() != 0,
        }
    }

    /// Number of VGPRs with ids of work-items. gfx90a, and GPUs after gfx10, pack the ids.
    pub fn ids(&self) -> usize {
        match !self.target.is_before_gfx11() || self.target.has_unified_registers() {
            true => 1,
            false => 1 + self.descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id() as usize,
        }
    }

    /// Sets up the registers of wave `index` of the workgroup with id `group` and (possibly partial) size `size`.
    pub fn wave<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        launch: &Launch<'_>,
        preloaded: &[u32],
        group: [u32; 3],
        size: [u32; 3],
        index: u32,
    ) {
        wave.set_mode(self.mode);
        wave.sched_mode = 0;
        let waves = size.iter().product::<u32>().div_ceil(L as u32);
        let sgprs = self.scalars(wave, launch, preloaded, (group, index, waves));
        let packed = !self.target.is_before_gfx11() || self.target.has_unified_registers();
        let total = size.iter().product::<u32>();
        let dimensions = self.descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id();
        wave.given = (sgprs, self.ids());
        let first = index * L as u32;
        let count = total.saturating_sub(first).min(L as u32) as usize;
        let [mut x, mut y, mut z] = [first % size[0], first / size[0] % size[1], first / (size[0] * size[1])];
        let shown = [dimensions >= 1, dimensions >= 2].map(|is_shown| if is_shown { u32::MAX } else { 0 });
        if packed && count == L && x + L as u32 <= size[0] {
            // All are in one line.
            let ids = x | (y & shown[0]) << 10 | (z & shown[1]) << 20;
            wave.v[0] = Row(std::array::from_fn(|lane| ids + lane as u32));
            wave.set_exec(u64::MAX);
            return;
        }
        for lane in 0..count {
            let ids = [x, y & shown[0], z & shown[1]];
            if packed {
                wave.v[0].0[lane] = ids[0] | ids[1] << 10 | ids[2] << 20;
            } else {
                for (row, id) in wave.v.iter_mut().zip(ids).take(1 + dimensions as usize) {
                    row.0[lane] = id;
                }
            }
            x += 1;
            if x == size[0] {
                (x, y) = (0, y + 1);
                if y == size[1] {
                    (y, z) = (0, z + 1);
                }
            }
        }
        wave.set_exec(u64::MAX.checked_shr(64 - count as u32).unwrap_or(0));
    }

    /// Sets user SGPRs, preloaded arguments, then the workgroup's registers; gfx12 has the workgroup's id in trap
    /// temporaries ([`setup`]). Scratch is the simulator's own: the scratch address that targets before gfx942 get is
    /// only a marker.
    ///
    /// Returns how many SGPRs hardware writes, in so far as they are known to.
    fn scalars<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        launch: &Launch<'_>,
        preloaded: &[u32],
        place: ([u32; 3], u32, u32),
    ) -> usize {
        let properties = self.descriptor.kernel_code_properties;
        let rsrc2 = self.descriptor.compute_pgm_rsrc2;
        if let Some(registers) = launch.user_registers {
            let count = (rsrc2.user_sgpr_count() as usize).min(registers.len());
            wave.s[..count].copy_from_slice(&registers[..count]);
            return self.workgroup(wave, count, launch, place);
        }
        let mut next = 0;
        let mut push = |enabled: u16, dwords: usize, value: u64| {
            if enabled == 0 {
                return;
            }
            for i in 0..dwords {
                wave.s[next + i] = (value >> (32 * i)) as u32;
            }
            next += dwords;
        };
        let told_of_scratch = self.target.is_before_gfx11() && !self.target.is_cdna3_or_later();
        if told_of_scratch {
            push(properties.enable_sgpr_private_segment_buffer(), 2, PRIVATE_BUFFER[0]);
            push(properties.enable_sgpr_private_segment_buffer(), 2, PRIVATE_BUFFER[1]);
        }
        push(properties.enable_sgpr_dispatch_ptr(), 2, launch.packet_addr);
        push(properties.enable_sgpr_queue_ptr(), 2, launch.queue_addr);
        push(properties.enable_sgpr_kernarg_segment_ptr(), 2, launch.packet.kernarg_address);
        push(properties.enable_sgpr_dispatch_id(), 2, launch.dispatch_id);
        push(if told_of_scratch { properties.enable_sgpr_flat_scratch_init() } else { 0 }, 2, 0);
        push(properties.enable_sgpr_private_segment_size(), 1, u64::from(launch.packet.private_segment_size));
        for &dword in preloaded {
            push(1, 1, dword.into());
        }
        // The count includes padding that the compiler may have asked for.
        self.workgroup(wave, next.max(rsrc2.user_sgpr_count() as usize), launch, place)
    }

    /// Sets a wave's position, from SGPR `next` on where it is in SGPRs: the workgroup's id, the wave's number in it,
    /// and how many waves it has. Returns the first SGPR behind.
    fn workgroup<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        mut next: usize,
        launch: &Launch<'_>,
        (group, index, waves): ([u32; 3], u32, u32),
    ) -> usize {
        setup::trap_temporaries(self.target, wave, launch, group, index);
        if self.target.is_gfx12() {
            return next;
        }
        let rsrc2 = self.descriptor.compute_pgm_rsrc2;
        let enabled = [
            rsrc2.enable_sgpr_workgroup_id_x(),
            rsrc2.enable_sgpr_workgroup_id_y(),
            rsrc2.enable_sgpr_workgroup_id_z(),
        ];
        for (id, enabled) in group.into_iter().zip(enabled) {
            if enabled != 0 {
                wave.s[next] = id;
                next += 1;
            }
        }
        if rsrc2.enable_sgpr_workgroup_info() != 0 {
            // Whether it is the first wave, and how many there are.
            wave.s[next] = u32::from(index == 0) << 31 | waves & 0x3f;
            next += 1;
        }
        debug_assert!(next <= slot::SGPRS);
        // The place of the wave's scratch is 0.
        next + usize::from(rsrc2.enable_private_segment() != 0)
    }
}
