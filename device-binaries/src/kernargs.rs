// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernel arguments as the kernels read them: the Rust side of `kernels/kernargs.h`, which documents every field.

use std::mem::{offset_of, size_of};

/// Declares an argument struct without padding, asserts its layout, and gives it `to_bytes`.
macro_rules! kernargs {
    ($(#[$doc:meta])* $name:ident: $size:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty = $offset:literal,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size && size_of::<$name>() == 0 $(+ size_of::<$type>())*);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };

        impl $name {
            /// The arguments as they lie in kernarg memory, which is aligned to 8 bytes.
            pub fn to_bytes(self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $(self.$field.store(&mut bytes[$offset..$offset + size_of::<$type>()]);)*
                bytes
            }

            #[cfg(test)]
            pub(crate) const FIELDS: &[(&str, usize)] = &[$((stringify!($field), offset_of!($name, $field))),*];
        }
    };
}

/// Stores a value in the little-endian form that the device reads.
trait Store {
    fn store(self, bytes: &mut [u8]);
}

impl Store for u32 {
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

impl Store for u64 {
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

impl<Word: Store, const N: usize> Store for [Word; N] {
    fn store(self, bytes: &mut [u8]) {
        for (word, bytes) in self.into_iter().zip(bytes.chunks_exact_mut(size_of::<Word>())) {
            word.store(bytes);
        }
    }
}

kernargs! {
    /// Arguments of [`Kernel::Fill`](crate::Kernel::Fill).
    FillArgs: 40 {
        /// First byte to write; any alignment.
        target: u64 = 0,
        /// Bytes to write.
        length: u64 = 8,
        /// The byte at address A becomes byte A % 16 of these 16.
        pattern: [u64; 2] = 16,
        /// Waves in the grid: at least 4, or one for each tile and piece; at least 1.
        wave_count: u32 = 32,
        /// Zero.
        reserved: u32 = 36,
    }
}

kernargs! {
    /// Arguments of [`Kernel::Copy`](crate::Kernel::Copy).
    CopyArgs: 32 {
        /// First byte to read; any alignment.
        source: u64 = 0,
        /// First byte to write; any alignment.
        target: u64 = 8,
        /// Bytes to copy.
        length: u64 = 16,
        /// Waves in the grid: at least 4, or one for each tile and piece; at least 1.
        wave_count: u32 = 24,
        /// Zero.
        reserved: u32 = 28,
    }
}

kernargs! {
    /// Arguments of [`Kernel::PatchDispatch`](crate::Kernel::PatchDispatch).
    PatchDispatchArgs: 40 {
        /// Address of three u32 workgroup counts; aligned to 4.
        workgroup_count: u64 = 0,
        /// Address of the AQL kernel dispatch packet to complete and publish.
        packet: u64 = 8,
        /// Address of that dispatch's implicit arguments, or 0.
        implicit_args: u64 = 16,
        /// First 32 bits of the packet to publish: header low, setup high.
        header_setup: u32 = 24,
        /// Work-items per workgroup of that dispatch.
        workgroup_size: [u32; 3] = 28,
    }
}
