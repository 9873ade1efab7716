// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Metadata and flatbuffers that are well formed in themselves but wrong, hostile or unsupported.

use amdgpu_code_object::{
    CodeObject, Container, CountPlaces, Error, Executable, ExecutableDef, HiddenValue, Metadata, ParameterKind,
    ValueKind, infer_format,
};
use rmpv::Value;

const GLOBALS: &[u8] = include_bytes!("../testdata/globals-gfx1100-v5.hsaco");

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

fn argument(kind: &str, offset: u32, size: u32) -> Value {
    map(&[(".value_kind", kind.into()), (".offset", offset.into()), (".size", size.into())])
}

/// A kernel's metadata with some fields replaced, added, or removed (nil).
fn kernel_with(changes: &[(&str, Value)]) -> Value {
    let mut fields = vec![
        (".symbol", "k.kd".into()),
        (".kernarg_segment_size", 24.into()),
        (".kernarg_segment_align", 8.into()),
        (".group_segment_fixed_size", 0.into()),
        (".private_segment_fixed_size", 0.into()),
        (".wavefront_size", 32.into()),
        (".max_flat_workgroup_size", 1024.into()),
        (".sgpr_count", 8.into()),
        (".vgpr_count", 4.into()),
        (".args", Value::Array(vec![argument("global_buffer", 0, 8), argument("hidden_block_count_x", 8, 4)])),
    ];
    for (key, value) in changes {
        fields.retain(|(present, _)| present != key);
        if !value.is_nil() {
            fields.push((key, value.clone()));
        }
    }
    map(&fields)
}

fn note(kernels: Vec<Value>) -> Vec<u8> {
    encode(&map(&[
        ("amdhsa.kernels", Value::Array(kernels)),
        ("amdhsa.version", Value::Array(vec![1.into(), 2.into()])),
    ]))
}

fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).expect("memory");
    bytes
}

#[test]
fn reads_metadata() {
    let changes = [(".reqd_workgroup_size", Value::Array(vec![64.into(), 2.into(), 1.into()])), (".name", "k".into())];
    let metadata = Metadata::parse(&note(vec![kernel_with(&changes)])).expect("valid");
    let kernel = &metadata.kernels[0];
    assert_eq!((kernel.name.as_str(), kernel.symbol.as_str()), ("k", "k.kd"));
    assert_eq!(kernel.required_workgroup_size, Some([64, 2, 1]));
    assert_eq!(kernel.arguments[1].value_kind, ValueKind::Hidden("hidden_block_count_x".into()));
    assert_eq!(metadata.target, None);
    // Without a name the symbol gives one; without arguments there are none.
    let metadata = Metadata::parse(&note(vec![kernel_with(&[(".args", Value::Nil)])])).expect("valid");
    assert_eq!((metadata.kernels[0].name.as_str(), metadata.kernels[0].arguments.len()), ("k", 0));
}

#[test]
fn rejects_wrong_metadata() {
    let args = |args: &[Value]| kernel_with(&[(".args", Value::Array(args.to_vec()))]);
    for (kernel, expected) in [
        (kernel_with(&[(".symbol", Value::Nil)]), "`.symbol` is missing or empty"),
        (kernel_with(&[(".symbol", 3.into())]), "`.symbol` is not a UTF-8 string"),
        (kernel_with(&[(".wavefront_size", 16.into())]), "wavefront size 16 is neither 32 nor 64"),
        (kernel_with(&[(".kernarg_segment_align", 3.into())]), "alignment 3 is not a power of two"),
        (kernel_with(&[(".kernarg_segment_size", Value::from(1_u64 << 32))]), "not a 32-bit number"),
        (kernel_with(&[(".reqd_workgroup_size", Value::Array(vec![1.into(), 0.into(), 1.into()]))]), "three positive"),
        (kernel_with(&[(".args", 1.into())]), "`.args` is not an array"),
        (args(&[argument("by_value", 20, 8)]), "exceeds the kernarg segment of 24 bytes"),
        (args(&[argument("by_value", u32::MAX, u32::MAX)]), "exceeds the kernarg segment"),
        (args(&[argument("by_value", 0, 8), argument("by_value", 4, 4)]), "overlaps another"),
        (args(&[map(&[(".offset", 0.into())])]), "`.size` is missing"),
        (Value::Nil, "not a map"),
        (Value::Map(vec![(1.into(), 1.into())]), "a key is not a string"),
        (map(&[(".symbol", "a".into()), (".symbol", "b".into())]), "field `.symbol` is repeated"),
    ] {
        let error = Metadata::parse(&note(vec![kernel])).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Metadata::parse(&note(vec![kernel_with(&[]), kernel_with(&[])])).unwrap_err().to_string();
    assert!(error.contains("two kernels have the symbol `k.kd`"), "{error}");
}

#[test]
fn hostile_messagepack_is_cheap_to_refuse() {
    // Arrays, maps and strings that claim four billion elements; nesting without end.
    for start in [[0xdd, 0xff, 0xff, 0xff, 0xff], [0xdf, 0xff, 0xff, 0xff, 0xff], [0xdb, 0xff, 0xff, 0xff, 0xff]] {
        assert!(matches!(Metadata::parse(&start), Err(Error::Malformed { .. })));
    }
    assert!(Metadata::parse(&[0x91; 1 << 20]).is_err());
    assert!(Metadata::parse(&[0x81; 1 << 20]).is_err());
    assert!(matches!(Metadata::parse(&vec![0xc0; 9 << 20]), Err(Error::Unsupported { .. })));
}

/// A flatbuffer value, written depth first so that all offsets point forward.
#[derive(Clone)]
enum Node {
    /// Fields by schema index; `None` is absent.
    Table(Vec<Option<Field>>),
    /// Element count and bytes of a string or scalar vector.
    Vector(u32, Vec<u8>),
    Tables(Vec<Node>),
    /// That many offsets to one node.
    Repeated(u32, Box<Node>),
}

#[derive(Clone)]
enum Field {
    Inline(Vec<u8>),
    Ref(Node),
}

fn string(text: &[u8]) -> Option<Field> {
    Some(Field::Ref(Node::Vector(text.len() as u32, text.to_vec())))
}

fn tables(nodes: Vec<Node>) -> Option<Field> {
    Some(Field::Ref(Node::Tables(nodes)))
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Makes the offset at `at` point to the end, where the next part is appended.
fn link(out: &mut Vec<u8>, at: usize) {
    out.resize(out.len().next_multiple_of(4), 0);
    let distance = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&distance.to_le_bytes());
}

fn write(out: &mut Vec<u8>, at: usize, node: &Node) {
    match node {
        Node::Vector(count, bytes) => {
            // The elements may be as large as this.
            out.resize((out.len() + 4).next_multiple_of(8) - 4, 0);
            link(out, at);
            out.extend(count.to_le_bytes());
            out.extend(bytes);
        }
        Node::Tables(nodes) => {
            link(out, at);
            out.extend((nodes.len() as u32).to_le_bytes());
            let start = out.len();
            out.resize(start + 4 * nodes.len(), 0);
            for (index, node) in nodes.iter().enumerate() {
                write(out, start + 4 * index, node);
            }
        }
        Node::Repeated(count, node) => {
            link(out, at);
            out.extend(count.to_le_bytes());
            let start = out.len();
            out.resize(start + 4 * *count as usize, 0);
            write(out, start, node);
            let first = u32::from_le_bytes([out[start], out[start + 1], out[start + 2], out[start + 3]]);
            for index in 1..*count {
                out[start + 4 * index as usize..][..4].copy_from_slice(&(first - 4 * index).to_le_bytes());
            }
        }
        Node::Table(fields) => {
            let vtable_size = 4 + 2 * fields.len();
            out.resize((out.len() + vtable_size).next_multiple_of(4) - vtable_size, 0);
            let vtable = out.len();
            out.resize(vtable + vtable_size, 0);
            link(out, at);
            let table = out.len();
            out.extend(((table - vtable) as u32).to_le_bytes());
            let mut children = Vec::new();
            for (index, field) in fields.iter().enumerate() {
                let Some(field) = field else { continue };
                let offset = (out.len() - table) as u16;
                out[vtable + 4 + 2 * index..][..2].copy_from_slice(&offset.to_le_bytes());
                match field {
                    Field::Inline(bytes) => out.extend(bytes),
                    Field::Ref(node) => {
                        children.push((out.len(), node));
                        out.extend([0; 4]);
                    }
                }
            }
            let size = (out.len() - table) as u16;
            out[vtable..][..2].copy_from_slice(&(vtable_size as u16).to_le_bytes());
            out[vtable + 2..][..2].copy_from_slice(&size.to_le_bytes());
            for (position, node) in children {
                write(out, position, node);
            }
        }
    }
}

/// File header and flatbuffer of AMD1.
fn file(root: &Node) -> Vec<u8> {
    file_of(b"AMD1", root)
}

/// File header and flatbuffer with the magic number `magic`.
fn file_of(magic: &[u8; 4], root: &Node) -> Vec<u8> {
    let mut content = [[0; 4], *magic].concat();
    write(&mut content, 0, root);
    let mut bytes = [*magic, [0; 4]].concat();
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(content);
    bytes
}

fn export(symbol: &str, workgroup_size: Option<[u32; 3]>, constants: u32, bindings: u32) -> Node {
    Node::Table(vec![
        string(symbol.as_bytes()),
        workgroup_size.map(|size| Field::Inline(words(&size))),
        Some(Field::Inline(words(&[constants]))),
        Some(Field::Ref(Node::Vector(bindings, vec![0; 8 * bindings as usize]))),
    ])
}

fn executable(exports: Vec<Node>, images: &[&[u8]]) -> Vec<u8> {
    let modules = images.iter().map(|image| Node::Table(vec![string(image)])).collect();
    file(&Node::Table(vec![string(b"gfx1100"), tables(exports), tables(modules)]))
}

fn parse_error(bytes: &[u8]) -> String {
    Executable::parse(bytes).expect_err("it is wrong").to_string()
}

#[test]
fn flatbuffer_counts_win() {
    let bytes = executable(vec![export("store.kd", Some([64, 1, 1]), 5, 2)], &[GLOBALS]);
    let executable = Executable::parse(&bytes).expect("valid");
    let store = &executable.functions[0];
    assert_eq!((store.constant_count, store.binding_count), (5, 2));
    assert_eq!((store.workgroup_size, store.dynamic_workgroup_size), ([64, 1, 1], false));
    assert_eq!(store.name, "store");
    // Every declared binding, also those that the metadata does not list or lists as something else.
    let bindings = store.parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Binding);
    assert_eq!(bindings.map(|parameter| parameter.offset).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(store.misplaced_parameter(), None);
    // 2 bindings and 5 constants, padded; the kernel's 24 bytes have no implicit arguments.
    assert_eq!((store.kernarg_layout.explicit_size, store.kernarg_layout.total_size), (40, 40));
    let declared = ExecutableDef::parse(&bytes).expect("valid");
    assert_eq!((declared.isa, declared.exports[0].binding_flags.as_slice()), ("gfx1100", [0, 0].as_slice()));
}

/// Constants are declared by a number alone: memory must not follow it.
#[test]
fn declared_constants_cost_no_memory() {
    let exports = (0..1000).map(|_| export("store.kd", Some([1, 1, 1]), 65_535, 1)).collect();
    let bytes = executable(exports, &[GLOBALS]);
    let executable = Executable::parse(&bytes).expect("valid");
    let parameters: usize = executable.functions.iter().map(|function| function.parameters.len()).sum();
    assert!(parameters <= 3 * executable.functions.len(), "{parameters}");
}

#[test]
fn rejects_wrong_executables() {
    let good = || export("store.kd", Some([1, 1, 1]), 3, 1);
    let one = |export| executable(vec![export], &[GLOBALS]);
    let mut version = executable(vec![good()], &[GLOBALS]);
    version[4] = 1;
    let mut identifier = executable(vec![good()], &[GLOBALS]);
    identifier[68] = b'X';
    for (bytes, expected) in [
        (executable(vec![good()], &[]), "it has 0 module images; exactly one is supported"),
        (executable(vec![good()], &[GLOBALS, GLOBALS]), "it has 2 module images"),
        (executable(vec![good()], &[b""]), "its module image is empty"),
        (
            executable(vec![good()], &[b"not an ELF file, but long enough to hold the header of one, if it were"]),
            "not an AMDGPU",
        ),
        (one(export("", Some([1, 1, 1]), 0, 0)), "it has no symbol name"),
        (one(export("store.kd", None, 3, 1)), "it has no workgroup size"),
        (one(export("store.kd", Some([1, 0, 1]), 3, 1)), "no dimension may be 0"),
        (one(export("other.kd", Some([1, 1, 1]), 3, 1)), "no kernel descriptor `other.kd`"),
        (one(export("counters", Some([1, 1, 1]), 3, 1)), "no kernel descriptor `counters`"),
        (one(export("store.kd", Some([1, 1, 1]), 2, 1)), "takes 3 constants but the export declares 2"),
        (one(export("store.kd", Some([1, 1, 1]), 3, 0)), "takes 1 bindings but the export declares 0"),
        (one(export("store.kd", Some([1, 1, 1]), 70000, 1)), "declares 70000 constants; at most 65535"),
        (version, "its version is 1, this build reads version 0"),
        (identifier, "its file identifier is not `AMD1`"),
        (b"AMD1".to_vec(), "AMD1 or HIP1 file header needs 64 bytes"),
        (b"MZ".to_vec(), "expected `AMD1` or `HIP1` (flatbuffer) or 7f 45 4c 46 (ELF code object)"),
        (Vec::new(), "not an AMDGPU executable"),
    ] {
        let error = parse_error(&bytes);
        assert!(error.contains(expected), "{error}");
    }
}

/// A HIP1 executable of one export, whose fields are those that `change` leaves.
fn hip(change: impl FnOnce(&mut Vec<Option<Field>>)) -> Vec<u8> {
    let word = |value: u32| Some(Field::Inline(words(&[value])));
    let mut fields = vec![
        word(0),
        string(b"store"),
        Some(Field::Inline(words(&[64, 2, 1]))),
        word(0),
        word(3),
        Some(Field::Ref(Node::Vector(1, vec![0; 8]))),
    ];
    change(&mut fields);
    let modules = vec![Node::Table(vec![string(GLOBALS)])];
    file_of(b"HIP1", &Node::Table(vec![tables(vec![Node::Table(fields)]), tables(modules)]))
}

#[test]
fn executables_for_hip_have_kernels_in_the_hals_order_too() {
    let bytes = hip(|_| {});
    let executable = Executable::parse(&bytes).expect("valid");
    assert_eq!(executable.container, Some(Container::Hip1));
    let store = &executable.functions[0];
    assert_eq!((store.name.as_str(), store.symbol.as_str()), ("store", "store.kd"));
    assert_eq!((store.constant_count, store.binding_count, store.workgroup_size), (3, 1, [64, 2, 1]));
    let inferred = infer_format(&bytes).expect("valid");
    assert_eq!((inferred.container, inferred.size), (Some(Container::Hip1), bytes.len() as u64));
    let wrong = |index: usize, field: Option<Field>| parse_error(&hip(|fields| fields[index] = field));
    let one = || Some(Field::Inline(words(&[1])));
    for (error, expected) in [
        (wrong(0, one()), "HIP1 flatbuffer, export 0: it is in module 1; exactly one is supported"),
        (wrong(1, None), "it has no kernel name"),
        (wrong(1, string(b"other")), "no kernel descriptor `other.kd`"),
        (wrong(2, None), "it has no workgroup size"),
        (wrong(3, one()), "1 bytes of shared memory"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
    let mut identifier = hip(|_| {});
    identifier[68] = b'X';
    assert!(parse_error(&identifier).contains("its file identifier is not `HIP1`"));
}

#[test]
fn a_small_flatbuffer_cannot_describe_a_huge_tree() {
    // 2^15 exports that are all the same table, with 2^13 bindings each: 2 GiB from 200 KiB.
    let exports = Node::Repeated(1 << 15, Box::new(export("store.kd", Some([1, 1, 1]), 3, 1 << 13)));
    let modules = tables(vec![Node::Table(vec![string(GLOBALS)])]);
    let root = |exports| file(&Node::Table(vec![string(b""), Some(Field::Ref(exports)), modules.clone()]));
    let error = parse_error(&root(exports));
    assert!(error.contains("referenced again and again"), "{error}");
    // Some sharing is legitimate.
    let shared = Node::Repeated(2, Box::new(export("store.kd", Some([1, 1, 1]), 3, 1)));
    assert_eq!(Executable::parse(&root(shared)).expect("valid").functions.len(), 2);
}

#[test]
fn reads_debug_information_and_sources() {
    let location = |file: &str, line| Node::Table(vec![string(file.as_bytes()), Some(Field::Inline(words(&[line])))]);
    let stage = |name: &str, location| Node::Table(vec![string(name.as_bytes()), Some(Field::Ref(location))]);
    let with_debug = |debug| {
        let Node::Table(mut fields) = export("store.kd", Some([1, 1, 1]), 3, 1) else { unreachable!() };
        fields.push(Some(Field::Ref(Node::Table(debug))));
        let source = Node::Table(vec![string(b"a.mlir"), string(b"module {}")]);
        let modules = tables(vec![Node::Table(vec![string(GLOBALS)])]);
        file(&Node::Table(vec![string(b""), tables(vec![Node::Table(fields)]), modules, tables(vec![source])]))
    };
    let own = Some(Field::Ref(location("a.mlir", 7)));
    let bytes = with_debug(vec![string(b"main$dispatch"), own.clone()]);
    let executable = Executable::parse(&bytes).expect("valid");
    assert_eq!(executable.functions[0].name, "main$dispatch");
    assert_eq!(executable.functions[0].location, Some(("a.mlir".into(), 7)));
    assert_eq!(
        (executable.source_files[0].path, executable.source_files[0].content),
        ("a.mlir", b"module {}".as_slice())
    );
    let bytes = with_debug(vec![string(b""), own, tables(vec![stage("flow", location("b.mlir", 9))])]);
    let executable = Executable::parse(&bytes).expect("valid");
    assert_eq!(
        (executable.functions[0].name.as_str(), &executable.functions[0].location),
        ("store", &Some(("b.mlir".into(), 9)))
    );
    assert!(parse_error(&with_debug(vec![None, Some(Field::Ref(location("", 1)))])).contains("no file name"));
}

/// The bare code object with its metadata replaced: by a note at its end, which its `PT_NOTE` names.
fn with_metadata(metadata: &[u8]) -> Vec<u8> {
    let mut bytes = GLOBALS.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let start = bytes.len();
    for word in [7, metadata.len() as u32, 32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"AMDGPU\0\0");
    bytes.extend(metadata);
    let size = (bytes.len() - start) as u64;
    // Program headers follow the file's, 56 bytes each: kind at 0, offset at 8, bytes in the file at 32.
    let header = (64..).step_by(56).find(|header| bytes[*header..][..4] == 4_u32.to_le_bytes()).expect("a PT_NOTE");
    bytes[header + 8..][..8].copy_from_slice(&(start as u64).to_le_bytes());
    bytes[header + 32..][..8].copy_from_slice(&size.to_le_bytes());
    bytes
}

#[test]
fn maps_arguments_to_parameters() {
    let kernel = |args: &[Value]| {
        let changes = [
            (".symbol", "store.kd".into()),
            (".kernarg_segment_size", 280.into()),
            (".args", Value::Array(args.to_vec())),
        ];
        with_metadata(&note(vec![kernel_with(&changes)]))
    };
    let bytes = kernel(&[argument("global_buffer", 0, 8), argument("by_value", 8, 12), argument("hidden_none", 24, 8)]);
    let executable = Executable::parse(&bytes).expect("valid");
    let function = &executable.functions[0];
    assert_eq!((function.binding_count, function.constant_count, function.parameters.len()), (1, 3, 2));
    // 8 + 12 bytes padded to 24; the rest of the 280 bytes are for hidden arguments.
    let layout = function.kernarg_layout;
    assert_eq!((layout.explicit_size, layout.total_size), (24, 280));
    assert!(function.hidden.places.is_empty() && function.hidden.unprovided.is_none());
    assert_eq!(function.misplaced_parameter(), None);
    for (wrong, expected) in [
        (argument("image", 0, 8), "argument 0 of kernel `store.kd`: kind `image`, 8 bytes"),
        (argument("dynamic_shared_pointer", 0, 4), "kind `dynamic_shared_pointer`"),
        (argument("global_buffer", 0, 4), "kind `global_buffer`, 4 bytes; supported are global_buffer of 8 bytes"),
        (argument("by_value", 0, 3), "kind `by_value`, 3 bytes"),
        (argument("by_value", 0, 256), "kind `by_value`, 256 bytes"),
    ] {
        let error = parse_error(&kernel(&[wrong]));
        assert!(error.contains(expected), "{error}");
    }
    // A required workgroup size is fixed.
    let changes = [
        (".symbol", "store.kd".into()),
        (".args", Value::Nil),
        (".reqd_workgroup_size", Value::Array(vec![64.into(), 1.into(), 1.into()])),
    ];
    let bytes = with_metadata(&note(vec![kernel_with(&changes)]));
    let executable = Executable::parse(&bytes).expect("valid");
    let function = &executable.functions[0];
    assert_eq!((function.workgroup_size, function.dynamic_workgroup_size), ([64, 1, 1], false));
    assert_eq!(function.kernarg_layout.total_size, 24);
}

#[test]
fn hidden_arguments_are_where_the_metadata_says() {
    let hidden = |arguments: &[(&str, u32, u32)]| {
        let arguments = arguments.iter().map(|(kind, offset, size)| argument(kind, *offset, *size)).collect();
        let changes =
            [(".symbol", "store.kd".into()), (".kernarg_segment_size", 280.into()), (".args", Value::Array(arguments))];
        let bytes = with_metadata(&note(vec![kernel_with(&changes)]));
        Executable::parse(&bytes).expect("valid").functions[0].hidden.clone()
    };
    // Version 5: a part of the usual places, behind a binding.
    let five = hidden(&[
        ("global_buffer", 0, 8),
        ("hidden_block_count_x", 8, 4),
        ("hidden_block_count_y", 12, 4),
        ("hidden_block_count_z", 16, 4),
        ("hidden_group_size_y", 22, 2),
        ("hidden_remainder_x", 26, 2),
        ("hidden_dynamic_lds_size", 128, 4),
    ]);
    assert_eq!(five.places.counts(), CountPlaces::InARow(8));
    let place = |value| five.places.get(value);
    assert_eq!(
        (place(HiddenValue::GroupSizeX), place(HiddenValue::GroupSizeY), place(HiddenValue::DynamicLdsSize)),
        (None, Some(22), Some(128))
    );
    assert_eq!(five.unprovided, None);
    // Version 4 has offsets of the grid in the same place, which are zero.
    let four = hidden(&[
        ("hidden_global_offset_x", 8, 8),
        ("hidden_none", 32, 8),
        ("hidden_default_queue", 40, 8),
        ("hidden_multigrid_sync_arg", 56, 8),
    ]);
    assert!(four.places.is_empty() && four.unprovided.is_none() && four.places.counts() == CountPlaces::Absent);
    // A compiler that does not know a kernel's reads lists everything.
    let guess = ["hidden_hostcall_buffer", "hidden_multigrid_sync_arg", "hidden_heap_v1", "hidden_default_queue"];
    let guess: Vec<_> = guess.iter().enumerate().map(|(index, kind)| (*kind, 88 + 8 * index as u32, 8)).collect();
    assert_eq!(hidden(&guess).unprovided, None);
    // No runtime provides it, nor a value of another size.
    let needs = hidden(&[("hidden_hostcall_buffer", 32, 8), ("hidden_heap_v1", 40, 8)]);
    assert_eq!(needs.unprovided.as_deref(), Some("hidden_hostcall_buffer"));
    assert_eq!(hidden(&[("hidden_grid_dims", 8, 4)]).unprovided.as_deref(), Some("hidden_grid_dims"));
    let apart = hidden(&[("hidden_block_count_x", 8, 4), ("hidden_block_count_z", 16, 4)]);
    assert_eq!(apart.places.counts(), CountPlaces::Apart);
}

#[test]
fn overlapping_relocation_sections_cannot_multiply() {
    // 64 KiB of R_AMDGPU_NONE, and 2,000 section headers that all call it relocations.
    let mut bytes = GLOBALS.to_vec();
    let table = bytes.len() as u64;
    bytes.resize(bytes.len() + (1 << 16), 0);
    let headers = bytes.len() as u64;
    for _ in 0..2000 {
        let mut header = [0; 64];
        header[4] = 4;
        header[8] = 2;
        header[24..32].copy_from_slice(&table.to_le_bytes());
        header[32..40].copy_from_slice(&(1_u64 << 16).to_le_bytes());
        bytes.extend(header);
    }
    bytes[40..48].copy_from_slice(&headers.to_le_bytes());
    bytes[60..62].copy_from_slice(&2000_u16.to_le_bytes());
    let error = parse_error(&bytes);
    assert!(error.contains("their sections together are larger than the file"), "{error}");
}

#[test]
fn symbols_cannot_have_names_without_end() {
    // A string table of one name of 4,000 bytes, and 20,000 symbols that all have it.
    let mut bytes = GLOBALS.to_vec();
    let strings = bytes.len() as u64;
    bytes.push(0);
    bytes.extend([b'n'; 4000]);
    bytes.push(0);
    let table = bytes.len() as u64;
    let symbol = [1_u32.to_le_bytes().as_slice(), &[1 << 4, 0, 0xf1, 0xff], &[0; 16]].concat();
    bytes.extend([0; 24]);
    bytes.extend(symbol.repeat(20_000));
    let sections = bytes.len() as u64;
    let section = |kind: u32, offset: u64, size: u64, link: u32| {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        header
    };
    bytes.extend(section(2, table, sections - table, 1));
    bytes.extend(section(3, strings, table - strings, 0));
    bytes[40..48].copy_from_slice(&sections.to_le_bytes());
    bytes[60..62].copy_from_slice(&2_u16.to_le_bytes());
    let error = CodeObject::parse(&bytes).expect_err("80 MB of names in half a megabyte").to_string();
    assert!(error.contains("their names are more than 16 times as long as the file"), "{error}");
}

#[test]
fn rejects_wrong_code_objects() {
    let patched = |edits: &[(usize, &[u8])]| {
        let mut bytes = GLOBALS.to_vec();
        for (offset, value) in edits {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        parse_error(&bytes)
    };
    // Program headers begin at 64, 56 bytes each, PT_LOADs are 1 to 4; .dynsym at 0x450, .rela.dyn at 0x618.
    let load = |index: usize, field: usize| 64 + 56 * index + field;
    for (error, expected) in [
        (patched(&[(4, &[1])]), "EI_CLASS is 1, expected 2"),
        (patched(&[(7, &[0])]), "EI_OSABI is 0, expected 64"),
        (patched(&[(18, &[62])]), "e_machine is 62, expected 224"),
        (patched(&[(16, &[1])]), "e_type is 1, not a shared object; link it with ld.lld -shared"),
        (patched(&[(8, &[0])]), "EI_ABIVERSION is 0; versions 1 to 4"),
        (patched(&[(48, &[0x20])]), "name processor 0x20"),
        (patched(&[(56, &[1, 1])]), "e_phnum is 257; at most 256"),
        (patched(&[(load(8, 0), &[0])]), "no NT_AMDGPU_METADATA note"),
        (patched(&[(load(2, 16), &[0, 1])]), "out of order or overlaps"),
        (patched(&[(load(1, 40), &[0, 1])]), "more bytes in the file than in memory"),
        (patched(&[(load(4, 44), &[2])]), "its segments span"),
        (patched(&[(load(4, 16), &[0xff; 8])]), "it exceeds the address space"),
        (patched(&[(load(4, 48), &[3])]), "its alignment is not a power of two"),
        (patched(&[(0x618, &[0, 0, 9])]), "is not inside a segment"),
        (patched(&[(0x618 + 8, &[99])]), "type 99; ABS32_LO"),
        (patched(&[(0x618 + 24 + 12, &[77])]), "names symbol 77 of 8"),
        (patched(&[(0x618 + 24 + 12, &[0])]), "names symbol 0 of 8"),
        (patched(&[(0x450 + 24 * 5 + 16, &[63])]), "ELF symbol `store.kd`: its 63 bytes"),
        (patched(&[(0x450 + 24 * 3 + 8, &[0, 0, 9])]), "ELF symbol `cursor`: its 8 bytes at address 0x90000"),
        (patched(&[(0x450 + 24, &[0xff])]), "ELF symbol name"),
    ] {
        assert!(error.contains(expected), "expected `{expected}`, found `{error}`");
    }
}
