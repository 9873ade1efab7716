// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Opaque handles. Zero is never a valid handle (HSA Runtime 2.1.1 and the object sections).

/// Declares opaque 64-bit handle types.
macro_rules! handles {
    ($($(#[$meta:meta])* $name:ident,)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Opaque value; zero is the null handle.
            pub handle: u64,
        }

        impl $name {
            /// The null handle.
            pub const NULL: Self = Self { handle: 0 };

            /// True for the null handle.
            pub const fn is_null(self) -> bool {
                self.handle == 0
            }
        }

        assert_layout!($name, size 8, handle @ 0);
    )*};
}

handles! {
    /// `hsa_agent_t`: a device that takes part in the HSA memory model (HSA Runtime 2.2).
    HsaAgent,
    /// `hsa_signal_t`: a signal; with ROCR the address of an [`AmdSignal`](crate::AmdSignal)
    /// (HSA Runtime 2.4, `amd_hsa_signal.h`).
    HsaSignal,
    /// `hsa_region_t`: a memory region (HSA Runtime 2.7).
    HsaRegion,
    /// `hsa_amd_memory_pool_t`: a memory pool (`hsa_ext_amd.h`).
    HsaMemoryPool,
    /// `hsa_isa_t`: an instruction set architecture (HSA Runtime 2.8).
    HsaIsa,
    /// `hsa_cache_t`: a cache of an agent (HSA Runtime 2.2).
    HsaCache,
    /// `hsa_code_object_reader_t`: a source of code object bytes (HSA Runtime 2.8).
    HsaCodeObjectReader,
    /// `hsa_executable_t`: loaded code objects (HSA Runtime 2.8).
    HsaExecutable,
    /// `hsa_loaded_code_object_t`: one code object loaded into an executable (HSA Runtime 2.8).
    HsaLoadedCodeObject,
    /// `hsa_executable_symbol_t`: a kernel or variable of an executable (HSA Runtime 2.8).
    HsaExecutableSymbol,
    /// `hsa_amd_vmem_alloc_handle_t`: physical memory of the virtual memory API (`hsa_ext_amd.h`).
    HsaVmemAllocHandle,
}
