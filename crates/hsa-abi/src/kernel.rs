// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernel descriptors (AMDGPUUsage "Kernel Descriptor").

/// The 64-byte kernel descriptor: the symbol `<kernel>.kd`. The `kernel_object` of a dispatch packet is its loaded
/// address, 64-byte aligned.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// Bytes of static group memory for each workgroup.
    pub group_segment_fixed_size: u32,
    /// Bytes of static private memory for each work-item.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments; zero in older code objects means unknown.
    pub kernarg_size: u32,
    /// Zero.
    pub reserved0: [u8; 4],
    /// Bytes from the descriptor to the kernel's first instruction, 256-byte aligned.
    pub kernel_code_entry_byte_offset: i64,
    /// Zero.
    pub reserved1: [u8; 20],
    /// `COMPUTE_PGM_RSRC3`; its fields differ between gfx90a/gfx942, gfx10–gfx11 and gfx12.
    pub compute_pgm_rsrc3: u32,
    /// `COMPUTE_PGM_RSRC1`.
    pub compute_pgm_rsrc1: Rsrc1,
    /// `COMPUTE_PGM_RSRC2`.
    pub compute_pgm_rsrc2: Rsrc2,
    /// The user SGPRs that the kernel needs, and its wave size.
    pub kernel_code_properties: KernelCodeProperties,
    /// Preload of kernel arguments into user SGPRs.
    pub kernarg_preload: KernargPreload,
    /// Zero.
    pub reserved3: [u8; 4],
}

assert_layout!(KernelDescriptor, size 64,
    group_segment_fixed_size @ 0, private_segment_fixed_size @ 4, kernarg_size @ 8,
    kernel_code_entry_byte_offset @ 16, compute_pgm_rsrc3 @ 44, compute_pgm_rsrc1 @ 48,
    compute_pgm_rsrc2 @ 52, kernel_code_properties @ 56, kernarg_preload @ 58);

/// Declares a register of bit fields with an accessor for each: `name @ shift, width`.
macro_rules! bit_fields {
    (
        $(#[$meta:meta])*
        $name:ident: $repr:ty {
            $($(#[$field_meta:meta])* $field:ident @ $shift:literal, $width:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(
            /// The register's bits.
            pub $repr,
        );

        impl $name {$(
            $(#[$field_meta])*
            pub const fn $field(self) -> $repr {
                self.0 >> $shift & ((1 << $width) - 1)
            }
        )*}
    };
}

bit_fields! {
    /// `COMPUTE_PGM_RSRC1` of a kernel descriptor.
    Rsrc1: u32 {
        /// VGPRs in granules, less one: granule 8 on gfx90a/gfx942 and wave32, 4 on wave64 of gfx10+.
        granulated_workitem_vgpr_count @ 0, 6;
        /// SGPRs in granules of 8, less one, doubled on gfx9; zero on gfx10+.
        granulated_wavefront_sgpr_count @ 6, 4;
        /// Rounding of f32: 0 nearest even, 1 up, 2 down, 3 toward zero.
        float_round_mode_32 @ 12, 2;
        /// Rounding of f16 and f64: as `float_round_mode_32`.
        float_round_mode_16_64 @ 14, 2;
        /// Denormals of f32: 0 flush in and out, 1 flush out, 2 flush in, 3 keep.
        float_denorm_mode_32 @ 16, 2;
        /// Denormals of f16 and f64: as `float_denorm_mode_32`.
        float_denorm_mode_16_64 @ 18, 2;
        /// Clamping turns NaN into zero (gfx6–gfx11).
        enable_dx10_clamp @ 21, 1;
        /// IEEE mode: quiet signalling NaNs (gfx6–gfx11).
        enable_ieee_mode @ 23, 1;
        /// f16 results that overflow become the largest finite value (gfx9+).
        fp16_ovfl @ 26, 1;
        /// Workgroups span a workgroup processor rather than a compute unit (gfx10+).
        wgp_mode @ 29, 1;
        /// Loads return in order (gfx10+).
        mem_ordered @ 30, 1;
        /// Waves make forward progress (gfx10+).
        fwd_progress @ 31, 1;
    }
}

bit_fields! {
    /// `COMPUTE_PGM_RSRC2` of a kernel descriptor.
    Rsrc2: u32 {
        /// The kernel uses scratch memory.
        enable_private_segment @ 0, 1;
        /// User SGPRs requested, with preloaded arguments.
        user_sgpr_count @ 1, 5;
        /// The workgroup id X is set up (an SGPR before gfx12, ttmp9 from gfx12 on).
        enable_sgpr_workgroup_id_x @ 7, 1;
        /// The workgroup id Y is set up.
        enable_sgpr_workgroup_id_y @ 8, 1;
        /// The workgroup id Z is set up.
        enable_sgpr_workgroup_id_z @ 9, 1;
        /// The workgroup info SGPR is set up.
        enable_sgpr_workgroup_info @ 10, 1;
        /// Work-item ids in VGPRs: 0 X, 1 X and Y, 2 X, Y and Z.
        enable_vgpr_workitem_id @ 11, 2;
        /// Zero in a descriptor; the packet processor fills it in from the dispatch packet.
        granulated_lds_size @ 15, 9;
    }
}

bit_fields! {
    /// `kernel_code_properties` of a kernel descriptor. Enabled user SGPRs are laid out in this order.
    KernelCodeProperties: u16 {
        /// 4 SGPRs: private segment buffer resource (not with architected flat scratch).
        enable_sgpr_private_segment_buffer @ 0, 1;
        /// 2 SGPRs: address of the dispatch packet.
        enable_sgpr_dispatch_ptr @ 1, 1;
        /// 2 SGPRs: address of the `amd_queue_t`.
        enable_sgpr_queue_ptr @ 2, 1;
        /// 2 SGPRs: address of the kernel arguments.
        enable_sgpr_kernarg_segment_ptr @ 3, 1;
        /// 2 SGPRs: id of the dispatch.
        enable_sgpr_dispatch_id @ 4, 1;
        /// 2 SGPRs: flat scratch set-up (not with architected flat scratch).
        enable_sgpr_flat_scratch_init @ 5, 1;
        /// 1 SGPR: private segment bytes per work-item.
        enable_sgpr_private_segment_size @ 6, 1;
        /// Waves have 32 lanes (gfx10+).
        enable_wavefront_size32 @ 10, 1;
        /// The private segment size is only a guess: the call stack is dynamic.
        uses_dynamic_stack @ 11, 1;
    }
}

bit_fields! {
    /// `kernarg_preload` of a kernel descriptor.
    KernargPreload: u16 {
        /// Dwords preloaded into SGPRs after the other user SGPRs.
        length @ 0, 7;
        /// Dwords into the kernel arguments where preloading starts.
        offset @ 7, 9;
    }
}

impl KernelDescriptor {
    /// gfx90a and gfx942: first AccVGPR, as 4 × (field + 1).
    pub const fn accum_offset(&self) -> u32 {
        ((self.compute_pgm_rsrc3 & 0x3f) + 1) * 4
    }

    /// gfx90a and gfx942: waves of a workgroup may be on different compute units.
    pub const fn tg_split(&self) -> bool {
        self.compute_pgm_rsrc3 & (1 << 16) != 0
    }

    /// gfx10 and gfx11: shared VGPRs of a wave64, in granules of 8.
    pub const fn shared_vgpr_count(&self) -> u32 {
        self.compute_pgm_rsrc3 & 0xf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The descriptor that llvm-mc 22 makes for gfx1100 of `.amdhsa_next_free_vgpr 16`, `.amdhsa_wavefront_size32 1`,
    /// `.amdhsa_user_sgpr_dispatch_ptr 1`, `.amdhsa_user_sgpr_kernarg_segment_ptr 1`,
    /// `.amdhsa_system_sgpr_workgroup_id_{x,y} 1` and `.amdhsa_system_vgpr_workitem_id 1`.
    #[test]
    fn fields_are_where_llvm_puts_them() {
        let rsrc1 = Rsrc1(0xe0ac_0001);
        assert_eq!(rsrc1.granulated_workitem_vgpr_count(), 1);
        assert_eq!(rsrc1.float_round_mode_32(), 0);
        assert_eq!(rsrc1.float_denorm_mode_32(), 0);
        assert_eq!(rsrc1.float_denorm_mode_16_64(), 3);
        assert_eq!((rsrc1.enable_dx10_clamp(), rsrc1.enable_ieee_mode()), (1, 1));
        assert_eq!((rsrc1.wgp_mode(), rsrc1.mem_ordered(), rsrc1.fwd_progress()), (1, 1, 1));
        let rsrc2 = Rsrc2(0x0000_0988);
        assert_eq!((rsrc2.enable_private_segment(), rsrc2.user_sgpr_count()), (0, 4));
        assert_eq!(rsrc2.enable_sgpr_workgroup_id_x(), 1);
        assert_eq!(rsrc2.enable_sgpr_workgroup_id_y(), 1);
        assert_eq!(rsrc2.enable_sgpr_workgroup_id_z(), 0);
        assert_eq!(rsrc2.enable_vgpr_workitem_id(), 1);
        let properties = KernelCodeProperties(0x040a);
        assert_eq!(properties.enable_sgpr_dispatch_ptr(), 1);
        assert_eq!(properties.enable_sgpr_kernarg_segment_ptr(), 1);
        assert_eq!(properties.enable_sgpr_queue_ptr(), 0);
        assert_eq!(properties.enable_wavefront_size32(), 1);
        let preload = KernargPreload(2 << 7 | 5);
        assert_eq!((preload.length(), preload.offset()), (5, 2));
    }
}
