// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A loaded kernel: its program, and how its waves start (AMDGPUUsage, "Initial Kernel Execution State").

use crate::exec::Level;
use crate::fault::{Fault, FaultKind};
use crate::launch::Launch;
use crate::program::Program;
use crate::wave::{Wave, mode, slot};
use hsa_abi::KernelDescriptor;
use sim_isa::Target;

/// A kernel ready to be launched, from any thread and any number of times.
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) program: Program<32>,
    pub(crate) start: Start,
    pub(crate) vgprs: usize,
}

/// What differs between kernels, and between targets, in the state that waves start with.
pub(crate) struct Start {
    target: Target,
    descriptor: KernelDescriptor,
    /// The MODE register.
    mode: u32,
}

impl Kernel {
    /// Decodes a kernel.
    ///
    /// `code` is the executable memory that holds the kernel and all it calls, loaded at address `code_base`; `descriptor` is the
    /// kernel's descriptor, loaded at `descriptor_addr`; `name` is used in messages. Instructions that are invalid or not implemented
    /// fault when they are reached, not here.
    ///
    /// # Errors
    /// [`FaultKind::Launch`] if the entry point is not in `code`, [`FaultKind::NotImplemented`] if the kernel needs a mode the simulator
    /// does not have.
    pub fn load(
        target: Target,
        code_base: u64,
        code: &[u8],
        descriptor: &KernelDescriptor,
        descriptor_addr: u64,
        name: &str,
    ) -> Result<Kernel, Box<Fault>> {
        let entry = descriptor_addr.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        let offset = entry.wrapping_sub(code_base);
        if !offset.is_multiple_of(4) || offset >= code.len() as u64 || code.len() > u32::MAX as usize / 2 {
            let end = code_base.wrapping_add(code.len() as u64);
            let what = format!("entry point {entry:#x} is not an instruction of the code at {code_base:#x}..{end:#x}");
            return Err(Fault::outside(name, FaultKind::Launch(what)));
        }
        let rsrc1 = descriptor.compute_pgm_rsrc1;
        if rsrc1.float_round_mode_32() != 0 || rsrc1.float_round_mode_16_64() != 0 {
            let what = "rounding other than to nearest even".to_owned();
            return Err(Fault::outside(name, FaultKind::NotImplemented(what)));
        }
        let mut mode = rsrc1.float_denorm_mode_32() << 4 | rsrc1.float_denorm_mode_16_64() << 6;
        // On gfx12 clamping always turns NaN into 0, and the bits that chose it mean other things.
        let gfx12 = target == Target::Gfx12;
        if gfx12 || rsrc1.enable_dx10_clamp() != 0 {
            mode |= mode::DX10_CLAMP;
        }
        if !gfx12 && rsrc1.enable_ieee_mode() != 0 {
            mode |= mode::IEEE;
        }
        if descriptor.kernel_code_properties.enable_wavefront_size32() == 0 {
            return Err(Fault::outside(name, FaultKind::NotImplemented("wave64 kernels".to_owned())));
        }
        // Allocated in granules of 8 in wave32.
        let vgprs = (8 * (rsrc1.granulated_workitem_vgpr_count() as usize + 1)).min(256);
        let program = Program::new(target, code_base, code, offset as u32, vgprs, Level::detect());
        let start = Start { target, descriptor: *descriptor, mode };
        Ok(Kernel { name: name.to_owned(), program, start, vgprs })
    }
}

impl Start {
    /// Sets up the registers of wave `index` of the workgroup with id `group` and (possibly partial) size `size`.
    pub fn wave<const L: usize>(
        &self,
        wave: &mut Wave<L>,
        launch: &Launch<'_>,
        group: [u32; 3],
        size: [u32; 3],
        index: u32,
    ) {
        wave.set_mode(self.mode);
        self.scalars(wave, launch, group);
        let total = size.iter().product::<u32>();
        let dimensions = self.descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id();
        let mut exec = 0u64;
        for lane in 0..L {
            let item = index * L as u32 + lane as u32;
            if item >= total {
                break;
            }
            exec |= 1 << lane;
            let x = item % size[0];
            let y = if dimensions >= 1 { item / size[0] % size[1] } else { 0 };
            let z = if dimensions >= 2 { item / (size[0] * size[1]) } else { 0 };
            // The ids are packed on gfx11 (and gfx90a, gfx942, gfx12).
            wave.v[0].0[lane] = x | y << 10 | z << 20;
        }
        wave.set_exec(exec);
    }

    /// User SGPRs, then the workgroup's id; on gfx12 that is in ttmp9 (x) and ttmp7 (y in the low half, z in the high one).
    fn scalars<const L: usize>(&self, wave: &mut Wave<L>, launch: &Launch<'_>, group: [u32; 3]) {
        let properties = self.descriptor.kernel_code_properties;
        let rsrc2 = self.descriptor.compute_pgm_rsrc2;
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
        push(properties.enable_sgpr_dispatch_ptr(), 2, launch.packet_addr);
        push(properties.enable_sgpr_queue_ptr(), 2, launch.queue_addr);
        push(properties.enable_sgpr_kernarg_segment_ptr(), 2, launch.packet.kernarg_address);
        push(properties.enable_sgpr_dispatch_id(), 2, launch.dispatch_id);
        push(properties.enable_sgpr_private_segment_size(), 1, u64::from(launch.packet.private_segment_size));
        if self.target == Target::Gfx12 {
            wave.s[slot::TTMP + 9] = group[0];
            wave.s[slot::TTMP + 7] = group[1] & 0xffff | group[2] << 16;
            return;
        }
        // The count includes padding that the compiler may have asked for.
        let mut next = next.max(rsrc2.user_sgpr_count() as usize);
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
        debug_assert!(next <= slot::SGPRS);
    }
}
