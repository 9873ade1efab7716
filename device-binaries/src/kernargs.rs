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
            /// The arguments as they lie in kernarg memory, which is aligned to 16 bytes.
            #[inline]
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
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

impl Store for u64 {
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

impl<Word: Store, const N: usize> Store for [Word; N] {
    #[inline]
    fn store(self, bytes: &mut [u8]) {
        for (word, bytes) in self.into_iter().zip(bytes.chunks_exact_mut(size_of::<Word>())) {
            word.store(bytes);
        }
    }
}

kernargs! {
    /// Arguments of [`Kernel::Fill`](crate::Kernel::Fill).
    FillArgs: 56 {
        /// Begin of the first tile, aligned to 16; the tiles end where the range's last whole block does.
        target: u64 = 0,
        /// Tiles that hold the range's whole blocks.
        tile_count: u32 = 8,
        /// Waves in the grid; at least 1.
        wave_count: u32 = 12,
        /// Offset of the first whole block in the first tile.
        first: u32 = 16,
        /// Bytes to write outside of whole blocks: bit i is byte i of the block at `head`, bit 16 + i byte i of the one
        /// at `tail`.
        edges: u32 = 20,
        /// The byte at address A becomes byte A % 16 of these 16.
        pattern: [u64; 2] = 24,
        /// The block in which the range begins.
        head: u64 = 40,
        /// The block in which the range ends.
        tail: u64 = 48,
    }
}

kernargs! {
    /// Arguments of [`Kernel::Copy`](crate::Kernel::Copy).
    CopyArgs: 40 {
        /// Address of the first tile in the source; with no tiles, the first byte to read.
        source: u64 = 0,
        /// Address of the first tile in the target; with no tiles, the first byte to write.
        target: u64 = 8,
        /// Tiles that hold the range; 0 for one below 16 bytes.
        tile_count: u32 = 16,
        /// Waves in the grid; at least 1.
        wave_count: u32 = 20,
        /// Offset of the range's first byte in the first tile.
        first: u32 = 24,
        /// Offset of the range's last 16 bytes in the last tile.
        last: u32 = 28,
        /// With no tiles, bytes to copy; else 0.
        byte_count: u32 = 32,
        /// Zero.
        reserved: u32 = 36,
    }
}

kernargs! {
    /// Arguments of [`Kernel::PatchDispatch`](crate::Kernel::PatchDispatch).
    PatchDispatchArgs: 48 {
        /// Address of three u32 workgroup counts; aligned to 4.
        workgroup_count: u64 = 0,
        /// Address of the AQL kernel dispatch packet to complete and publish.
        packet: u64 = 8,
        /// Address of that dispatch's implicit arguments, or 0.
        implicit_args: u64 = 16,
        /// First 32 bits of the packet to publish, see [`header_setups`].
        header_setup: u64 = 24,
        /// Work-items per workgroup of that dispatch.
        workgroup_size: [u32; 3] = 32,
        /// Zero.
        reserved: u32 = 44,
    }
}

/// [`PatchDispatchArgs::header_setup`] for a dispatch whose packet begins with `dispatch` (header low, setup high):
/// `dispatch`, followed by the first word of the barrier-AND packet that replaces it if there is nothing to do, with
/// the same barrier bit and fences.
pub fn header_setups(dispatch: u32) -> u64 {
    /// The packet type, bits 0 to 7 of a header, and barrier-AND (HSA System Architecture 1.2, section 2.9.1).
    const TYPE: u32 = 0xff;
    const BARRIER_AND: u32 = 3;
    let header = dispatch & 0xffff;
    u64::from(dispatch) | u64::from(header & !TYPE | BARRIER_AND) << 32
}

kernargs! {
    /// An address in kernel arguments that [`Kernel::Bind`](crate::Kernel::Bind) writes.
    Fixup: 16 {
        /// Added to the address in the table.
        offset: u64 = 0,
        /// The target of the address, in bytes from [`BindArgs::target`] on; a multiple of 8.
        target: u32 = 8,
        /// The index in the table.
        index: u32 = 12,
    }
}

kernargs! {
    /// Arguments of [`Kernel::Bind`](crate::Kernel::Bind).
    BindArgs: 32 {
        /// Kernel arguments of a recording's dispatches; aligned to 8.
        target: u64 = 0,
        /// Address of `count` times [`Fixup`]; aligned to 16.
        fixups: u64 = 8,
        /// The addresses of an execution's bindings, 8 bytes each; aligned to 8.
        table: u64 = 16,
        /// Addresses to write.
        count: u32 = 24,
        /// Zero.
        reserved: u32 = 28,
    }
}
