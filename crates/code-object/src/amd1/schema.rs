// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The tables of IREE's `schemas/amdgpu_executable_def.fbs`, `schemas/hip_executable_def.fbs` and
//! `schemas/executable_debug_info.fbs`, for the `flatbuffers` crate. Its verifier checks everything reachable once;
//! after that, accessors read unchecked. This is the crate's only unsafe code.
//!
//! Fields have the schemas' names and order; the number is a field's position there. All are optional.

use flatbuffers::{
    Follow, ForwardsUOffset, InvalidFlatbuffer, Table, Vector, Verifiable, Verifier, VerifierOptions, root_with_opts,
};

use crate::error::{Error, Result};

/// Maximum total size of the tables for each byte of the buffer. Strings and tables may be shared, but a small buffer
/// must not describe a huge tree.
const SHARING: usize = 16;

/// The smallest size of a table that is used once: an offset to it and one to its vtable.
const LEAST_TABLE: usize = 8;

type Text<'a> = ForwardsUOffset<&'a str>;
type Bytes<'a> = ForwardsUOffset<Vector<'a, u8>>;
type Tables<'a, T> = ForwardsUOffset<Vector<'a, ForwardsUOffset<T>>>;

/// The root table of a flatbuffer, which is verified as a whole. Errors name it `what`.
pub(super) fn root<'a, T: Follow<'a, Inner = T> + Verifiable + 'a>(content: &'a [u8], what: &'static str) -> Result<T> {
    let options = VerifierOptions {
        max_tables: content.len() / LEAST_TABLE,
        max_apparent_size: content.len().saturating_mul(SHARING),
        // Rust's strings have a length.
        ignore_missing_null_terminator: true,
        ..VerifierOptions::default()
    };
    root_with_opts::<T>(&options, content).map_err(|invalid| Error::malformed(what, problem(&invalid)))
}

fn problem(invalid: &InvalidFlatbuffer) -> String {
    match invalid {
        InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge => {
            "it describes far more data than it has bytes: its parts are referenced again and again".to_owned()
        }
        // One line per table on the way.
        other => other.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

/// Where vtables have the offset of a table's field (FlatBuffers' "Internals": behind two sizes, 16 bits each).
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

macro_rules! tables {
    ($($name:ident<$buffer:lifetime> { $($field:ident: $type:ty = $number:literal),* })*) => {$(
        #[derive(Clone, Copy)]
        pub(super) struct $name<$buffer>(Table<$buffer>);

        impl<$buffer> Follow<$buffer> for $name<$buffer> {
            type Inner = Self;

            unsafe fn follow(buffer: &$buffer [u8], position: usize) -> Self {
                // SAFETY: the caller's promise: a table of this kind is there, with a vtable.
                Self(unsafe { Table::new(buffer, position) })
            }
        }

        impl<$buffer> Verifiable for $name<$buffer> {
            fn run_verifier(verifier: &mut Verifier, position: usize) -> std::result::Result<(), InvalidFlatbuffer> {
                verifier.visit_table(position)?$(.visit_field::<$type>(stringify!($field), slot($number), false)?)*.finish();
                Ok(())
            }
        }

        impl<$buffer> $name<$buffer> {
            $(pub(super) fn $field(&self) -> Option<<$type as Follow<$buffer>>::Inner> {
                // SAFETY: tables come from `root`, which verified that a field at this place is of this type.
                unsafe { self.0.get::<$type>(slot($number), None) }
            })*
        }
    )*};
}

tables! {
    ExecutableDef<'a> {
        isa: Text<'a> = 0,
        exports: Tables<'a, ExportDef<'a>> = 1,
        modules: Tables<'a, ModuleDef<'a>> = 2,
        source_files: Tables<'a, SourceFileDef<'a>> = 3
    }
    ExportDef<'a> {
        symbol_name: Text<'a> = 0,
        workgroup_size: Dims = 1,
        constant_count: u32 = 2,
        binding_flags: ForwardsUOffset<Vector<'a, u64>> = 3,
        debug_info: ForwardsUOffset<DebugExportDef<'a>> = 4
    }
    // The schemas call images strings, but their bytes are an ELF file. That of HIP names it `hsaco_image`.
    ModuleDef<'a> { image: Bytes<'a> = 0 }
    // Those of HIP, in whose schema they have the names of the others.
    HipExecutableDef<'a> {
        exports: Tables<'a, HipExportDef<'a>> = 0,
        modules: Tables<'a, ModuleDef<'a>> = 1,
        source_files: Tables<'a, SourceFileDef<'a>> = 2
    }
    HipExportDef<'a> {
        module_ordinal: u32 = 0,
        kernel_name: Text<'a> = 1,
        block_dims: Dims = 2,
        block_shared_memory_size: u32 = 3,
        constant_count: u32 = 4,
        binding_flags: ForwardsUOffset<Vector<'a, u64>> = 5,
        debug_info: ForwardsUOffset<DebugExportDef<'a>> = 6
    }
    // `ExportDef` in the schema of debug information.
    DebugExportDef<'a> {
        name: Text<'a> = 0,
        location: ForwardsUOffset<FileLineLocDef<'a>> = 1,
        stage_locations: Tables<'a, StageLocationDef<'a>> = 2
    }
    FileLineLocDef<'a> { filename: Text<'a> = 0, line: i32 = 1 }
    StageLocationDef<'a> { stage: Text<'a> = 0, location: ForwardsUOffset<FileLineLocDef<'a>> = 1 }
    SourceFileDef<'a> { path: Text<'a> = 0, content: Bytes<'a> = 1 }
}

/// A struct of three words.
pub(super) struct Dims;

impl Follow<'_> for Dims {
    type Inner = [u32; 3];

    unsafe fn follow(buffer: &[u8], position: usize) -> [u32; 3] {
        let word = |index: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&buffer[position + 4 * index..][..4]);
            u32::from_le_bytes(bytes)
        };
        [word(0), word(1), word(2)]
    }
}

impl Verifiable for Dims {
    fn run_verifier(verifier: &mut Verifier, position: usize) -> std::result::Result<(), InvalidFlatbuffer> {
        verifier.in_buffer::<[u32; 3]>(position)
    }
}
