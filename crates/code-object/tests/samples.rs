// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Real executables (see `testdata/README.md`), whole and damaged.

use std::borrow::Cow;

use amdgpu_code_object::{
    CodeObject, Error, Executable, Function, InferredFormat, ParameterKind, Patch, RelocationKind, SizeProbe, Symbol,
    SymbolKind, SymbolTable, for_agent, infer_format, probe_size,
};

const KERNELS_GFX1100: &[u8] = include_bytes!("../testdata/kernels-gfx1100.bin");
const KERNELS_GFX90A: &[u8] = include_bytes!("../testdata/kernels-gfx90a.bin");
const KERNELS_GFX942: &[u8] = include_bytes!("../testdata/kernels-gfx942.bin");
const GLOBALS_GENERIC: &[u8] = include_bytes!("../testdata/globals-gfx11-generic-v6.hsaco");
const GLOBALS_GFX1100: &[u8] = include_bytes!("../testdata/globals-gfx1100-v5.hsaco");
const GLOBALS_GFX906: &[u8] = include_bytes!("../testdata/globals-gfx906-v4.hsaco");

const SAMPLES: [(&[u8], &str, u8); 6] = [
    (KERNELS_GFX1100, "gfx1100", 5),
    (KERNELS_GFX90A, "gfx90a", 5),
    (KERNELS_GFX942, "gfx942", 5),
    (GLOBALS_GENERIC, "gfx11-generic", 6),
    (GLOBALS_GFX1100, "gfx1100", 5),
    (GLOBALS_GFX906, "gfx906", 4),
];

fn parse(bytes: &[u8]) -> Executable<'_> {
    Executable::parse(bytes).expect("the sample is valid")
}

#[test]
fn infers_format_and_size() {
    for (bytes, name, version) in SAMPLES {
        let InferredFormat { target, size, container: _ } = infer_format(bytes).expect(name);
        assert_eq!((target.to_string().as_str(), size), (name, bytes.len() as u64));
        let code_object = parse(bytes).code_object;
        assert_eq!((code_object.target, code_object.version), (target, version));
        // Bytes behind the executable in memory do not matter.
        let mut longer = bytes.to_vec();
        longer.extend([0xcc; 100]);
        assert_eq!(infer_format(&longer).expect(name).size, size);
        assert_eq!(parse(&longer).code_object.bytes, code_object.bytes);
    }
}

#[test]
fn probes_the_size_without_reading_further_than_the_end() {
    for (bytes, name, _) in SAMPLES {
        let mut prefix = 0;
        let size = loop {
            match probe_size(&bytes[..prefix]).expect(name) {
                SizeProbe::Size(size) => break size,
                SizeProbe::NeedPrefix(needed) => {
                    assert!(needed > prefix as u64, "{name} asks for less than it has");
                    prefix = needed as usize;
                }
            }
        };
        assert_eq!(size, bytes.len() as u64);
    }
    assert_eq!(probe_size(b"\x7fEL"), Ok(SizeProbe::NeedPrefix(4)));
    let error = probe_size(b"PK\x03\x04....").unwrap_err();
    assert!(matches!(&error, Error::UnknownFormat { found } if found == b"PK\x03\x04"), "{error}");
}

fn parameters(function: &Function) -> Vec<(ParameterKind, u16, u8, u32)> {
    function.parameters.iter().map(|p| (p.kind, p.offset, p.size, p.kernarg_offset)).collect()
}

#[test]
fn reflects_amd1_exports() {
    use ParameterKind::{Binding, Constant};
    for bytes in [KERNELS_GFX1100, KERNELS_GFX90A, KERNELS_GFX942] {
        let executable = parse(bytes);
        let [scale, copy] = executable.functions.as_slice() else { panic!("two functions") };
        assert_eq!((scale.name.as_str(), scale.symbol.as_str()), ("scale", "scale.kd"));
        assert_eq!((scale.workgroup_size, scale.dynamic_workgroup_size), ([1, 1, 1], false));
        assert_eq!((scale.binding_count, scale.constant_count), (2, 2));
        assert_eq!(
            parameters(scale),
            [(Binding, 0, 8, 0), (Binding, 1, 8, 8), (Constant, 0, 4, 16), (Constant, 4, 4, 20)]
        );
        assert_eq!((scale.kernarg_size, scale.kernarg_alignment), (24, 8));
        let layout = scale.kernarg_layout;
        assert_eq!((layout.explicit_size, layout.total_size), (24, 24));
        assert_eq!(scale.max_workgroup_size, 1);
        assert_eq!(scale.misplaced_parameter(), None);
        assert_eq!(scale.location.as_ref().map(|(file, _)| file.as_str()), Some("kernels.mlir"));

        assert_eq!((copy.name.as_str(), copy.binding_count, copy.constant_count), ("copy", 2, 0));
        assert_eq!(copy.kernarg_layout.total_size, 16);
    }
}

#[test]
fn reflects_a_bare_code_object() {
    use ParameterKind::{Binding, Constant};
    let executable = parse(GLOBALS_GFX1100);
    let [store] = executable.functions.as_slice() else { panic!("one function") };
    assert_eq!((store.name.as_str(), store.symbol.as_str()), ("store", "store.kd"));
    assert_eq!((store.workgroup_size, store.dynamic_workgroup_size), ([1, 1, 1], true));
    assert_eq!((store.binding_count, store.constant_count), (1, 3));
    assert_eq!(parameters(store), [(Binding, 0, 8, 0), (Constant, 0, 4, 8), (Constant, 4, 8, 16)]);
    // A 64-bit constant after a 32-bit one is padded by the compiler but not by the HAL.
    assert_eq!(store.misplaced_parameter().map(|p| p.kernarg_offset), Some(16));
    let kernel = &executable.code_object.metadata().expect("metadata").kernels[0];
    assert_eq!((kernel.wavefront_size, kernel.max_flat_workgroup_size), (32, 1024));
    assert!(kernel.vgpr_count > 0 && kernel.sgpr_count > 0);
    assert_eq!(kernel.required_workgroup_size, None);
    assert_eq!(parse(GLOBALS_GFX906).code_object.metadata().expect("metadata").kernels[0].wavefront_size, 64);
}

/// Against `llvm-readelf -lrsW globals-gfx1100-v5.hsaco`.
#[test]
fn reads_segments_symbols_and_relocations() {
    let object = CodeObject::parse(GLOBALS_GFX1100).expect("valid");
    let segments: Vec<_> = object
        .segments
        .iter()
        .map(|s| (s.address, s.data.len(), s.memory_size, s.writable, s.executable, s.alignment))
        .collect();
    assert_eq!(
        segments,
        [
            (0x0, 0x700, 0x700, false, false, 0x1000),
            (0x1700, 0x280, 0x280, false, true, 0x1000),
            (0x2980, 0xc0, 0x680, true, false, 0x1000),
            (0x3a40, 0x30, 0x10030, true, false, 0x1000),
        ]
    );
    assert_eq!(object.load_range(), 0..0x13a70);
    // The last one; the one before it is for relocations.
    assert!(object.has_writable_data);
    assert!(!parse(KERNELS_GFX1100).code_object.has_writable_data);

    let listed = |symbols: &[Symbol<'static>]| -> Vec<_> {
        symbols.iter().map(|s| (s.name, s.kind, s.address, s.size, s.defined)).collect()
    };
    let defined = [
        ("store", SymbolKind::Function, 0x1700, 176, true),
        ("cursor", SymbolKind::Variable, 0x3a50, 8, true),
        ("scratch", SymbolKind::Variable, 0x3a70, 65536, true),
        ("store.kd", SymbolKind::Kernel, 0x6c0, 64, true),
        ("counters", SymbolKind::Variable, 0x3a40, 16, true),
        ("hidden_cursor", SymbolKind::Variable, 0x3a60, 8, true),
        ("external_cursor", SymbolKind::Variable, 0x3a68, 8, true),
    ];
    let provided = [("provided_by_loader", SymbolKind::Other, 0, 0, false)];
    // Without `_DYNAMIC`, which is local.
    assert_eq!(object.names_from, Some(SymbolTable::Static));
    assert_eq!(listed(&object.symbols), [&defined[..], &provided].concat());
    assert_eq!(listed(&object.dynamic_symbols), [&provided[..], &defined].concat());
    assert_eq!(object.symbol("provided_by_loader"), None);
    assert_eq!(object.data_at(0x3a40, 16).expect("counters"), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(object.data_at(0x3a70, 1), None);

    let relocations: Vec<_> = object
        .relocations
        .iter()
        .map(|r| (r.address, r.kind, r.symbol.map(|index| object.dynamic_symbols[index].name), r.addend))
        .collect();
    assert_eq!(
        relocations,
        [
            (0x3a60, RelocationKind::Relative64, None, 0x3a58),
            (0x3a68, RelocationKind::Abs64, Some("provided_by_loader"), 0),
            (0x2a30, RelocationKind::Abs64, Some("cursor"), 0),
            (0x2a38, RelocationKind::Abs64, Some("scratch"), 0),
            (0x3a50, RelocationKind::Abs64, Some("counters"), 8),
        ]
    );
}

#[test]
fn a_stripped_code_object_is_refused_with_a_remedy() {
    const SHT_SYMTAB: u32 = 2;
    let mut stripped = GLOBALS_GFX1100.to_vec();
    let table = u64::from_le_bytes(stripped[40..48].try_into().unwrap()) as usize;
    let types = (0..stripped[60]).map(|index| table + 64 * usize::from(index) + 4);
    let symtab = types.into_iter().find(|&at| stripped[at..at + 4] == SHT_SYMTAB.to_le_bytes()).expect("a .symtab");
    stripped[symtab..symtab + 4].fill(0);

    let object = CodeObject::parse(&stripped).expect("it is well formed");
    assert_eq!((object.symbols.len(), object.names_from, object.symbol("store.kd")), (0, None, None));
    assert_eq!(
        Executable::parse(&stripped).unwrap_err().to_string(),
        "ELF code object: it is stripped: the section `.symtab` is missing, by which HSA finds kernels such as `store.kd`; link it \
         without `--strip-all`, do not run `strip` on it (`--discard-all` does no harm), or set LOADER_USE_DYNSYM=1 in the \
         environment"
    );
}

#[test]
fn code_for_a_generic_target_is_labelled_for_agents_that_know_none() {
    let relabelled = |elf: &'static [u8], isas: &[&str]| {
        let isas: Vec<_> = isas.iter().map(|isa| isa.parse().expect("a target id")).collect();
        for_agent(elf, &isas).expect("a code object")
    };
    let old = relabelled(GLOBALS_GENERIC, &["gfx1103"]);
    let parsed = parse(&old);
    assert_eq!((parsed.code_object.target.to_string().as_str(), parsed.code_object.version), ("gfx1103", 5));
    let changed: Vec<_> = (0..old.len()).filter(|&at| old[at] != GLOBALS_GENERIC[at]).collect();
    // The ABI version, the processor and the generic version.
    assert_eq!((old.len(), changed), (GLOBALS_GENERIC.len(), vec![8, 48, 51]));
    // An agent that lists the generic target, code for a processor, and an agent that does not run the code.
    for (elf, isas) in [
        (GLOBALS_GENERIC, &["gfx1103", "gfx11-generic"][..]),
        (GLOBALS_GFX1100, &["gfx1100"]),
        (GLOBALS_GENERIC, &["gfx1030"]),
    ] {
        assert!(matches!(relabelled(elf, isas), Cow::Borrowed(_)), "{isas:?}");
    }
}

/// Against `llvm-readelf -h` of the output of clang 22 for the processor with `-mcode-object-version=5`.
#[test]
fn labelled_code_has_the_flags_of_the_compiler() {
    // EF_AMDGPU_MACH of the generic target, its settings of sramecc and xnack, the agent, and the flags.
    for (mach, sramecc, xnack, agent, flags) in [
        (0x51, 0, 2, "gfx906:sramecc+:xnack-", 0x62f_u32),
        (0x51, 0, 1, "gfx906:sramecc+:xnack-", 0x52f),
        (0x5f, 1, 1, "gfx942:sramecc+:xnack-", 0x54c),
        (0x52, 0, 1, "gfx1010:xnack-", 0x133),
        (0x59, 0, 0, "gfx1201", 0x4e),
    ] {
        let mut elf = GLOBALS_GENERIC.to_vec();
        elf[48..52].copy_from_slice(&(1 << 24 | sramecc << 10 | xnack << 8 | mach as u32).to_le_bytes());
        let labelled = for_agent(&elf, &[agent.parse().expect("a target id")]).expect("a code object");
        assert_eq!(labelled[48..52], flags.to_le_bytes(), "{agent}");
    }
}

#[test]
fn computes_relocated_values() {
    let object = CodeObject::parse(GLOBALS_GFX1100).expect("valid");
    let mut relocation = object.relocations[4];
    let base = 0x7000_0000_0000;
    assert_eq!(relocation.patch(base, base + 0x3a40), Patch::U64(base + 0x3a48));
    relocation.kind = RelocationKind::Abs32High;
    assert_eq!(relocation.patch(base, base + 0x3a40), Patch::U32(0x7000));
    relocation.kind = RelocationKind::Abs32Low;
    assert_eq!(relocation.patch(base, base + 0x3a40), Patch::U32(0x3a48));
    assert_eq!(object.relocations[0].patch(base, 0), Patch::U64(base + 0x3a58));
}

#[test]
fn every_truncation_is_an_error() {
    for (bytes, name, _) in SAMPLES {
        for length in 0..bytes.len() {
            assert!(Executable::parse(&bytes[..length]).is_err(), "{name} cut to {length} bytes");
            assert!(infer_format(&bytes[..length]).is_err(), "{name} cut to {length} bytes");
        }
    }
    let error = Executable::parse(&GLOBALS_GFX1100[..3000]).unwrap_err().to_string();
    assert_eq!(
        error,
        "ELF section headers needs 1216 bytes at offset 3208 but the data ends after 3000 bytes; it is truncated or \
         corrupted"
    );
}

#[test]
fn no_corrupted_byte_panics() {
    for bytes in [KERNELS_GFX1100, GLOBALS_GFX1100] {
        let mut damaged = bytes.to_vec();
        for offset in 0..bytes.len() {
            for value in [0x00, 0xff, 0x7f, bytes[offset] ^ 0x01, bytes[offset] ^ 0x80] {
                damaged[offset] = value;
                if let Ok(executable) = Executable::parse(&damaged) {
                    let range = executable.code_object.load_range();
                    assert!(range.end - range.start <= 4 << 30);
                }
                let _ = infer_format(&damaged);
                let _ = probe_size(&damaged[..offset]);
            }
            damaged[offset] = bytes[offset];
        }
    }
}
