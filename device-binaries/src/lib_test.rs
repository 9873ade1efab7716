// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

use super::*;
use device_build::{code_objects, expand, prebuilt_targets, selectors};
use object::{Object, ObjectSection, ObjectSymbol, read::elf::ElfFile64};
use proptest::prelude::*;
use std::path::Path;

const KERNARGS_H: &str = include_str!("../kernels/kernargs.h");
const KERNELS_C: &str = include_str!("../kernels/kernels.c");

/// The value that a C static assertion gives to `expression`.
fn asserted(expression: &str) -> usize {
    let line = format!("static_assert({expression} == ");
    let rest = KERNARGS_H.split_once(&line).unwrap_or_else(|| panic!("kernargs.h does not assert {expression}")).1;
    rest.split(')').next().unwrap().parse().unwrap()
}

#[test]
fn argument_structs_match_the_kernels_header() {
    let structs = [
        ("amdgpu_rs_fill_args_t", size_of::<FillArgs>(), FillArgs::FIELDS),
        ("amdgpu_rs_copy_args_t", size_of::<CopyArgs>(), CopyArgs::FIELDS),
        ("amdgpu_rs_patch_dispatch_args_t", size_of::<PatchDispatchArgs>(), PatchDispatchArgs::FIELDS),
        ("amdgpu_rs_fixup_t", size_of::<Fixup>(), Fixup::FIELDS),
        ("amdgpu_rs_bind_args_t", size_of::<BindArgs>(), BindArgs::FIELDS),
    ];
    let mut assertions = 0;
    for (name, size, fields) in structs {
        assert_eq!(asserted(&format!("sizeof({name})")), size, "{name}");
        for (field, offset) in fields {
            assert_eq!(asserted(&format!("offsetof({name}, {field})")), *offset, "{name}.{field}");
        }
        assertions += 1 + fields.len();
    }
    assert_eq!(KERNARGS_H.matches("static_assert(").count(), assertions, "a field of kernargs.h has no counterpart");
}

#[test]
fn arguments_are_stored_little_endian_at_their_offsets() {
    let args = PatchDispatchArgs {
        workgroup_count: 0x0102_0304_0506_0708,
        packet: 0x1112_1314_1516_1718,
        implicit_args: 0,
        header_setup: header_setups(0x2122_2324),
        workgroup_size: [0x31, 0x32, 0x33],
        reserved: 0,
    };
    let bytes = args.to_bytes();
    assert_eq!(bytes[0..8], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes[8], 0x18);
    assert_eq!(bytes[24..28], [0x24, 0x23, 0x22, 0x21]);
    assert_eq!(bytes[28..32], [3, 0x23, 0, 0], "a barrier-AND packet with the same barrier bit and fences");
    assert_eq!((bytes[32], bytes[36], bytes[40]), (0x31, 0x32, 0x33));
}

#[test]
fn each_address_of_a_table_has_a_work_item() {
    for (count, grid_size) in [(1, 64), (64, 64), (65, 128), (10_000, 157 * 64)] {
        let launch = plan_bind(BindArgs { target: 0, fixups: 0, table: 0, count, reserved: 0 });
        assert_eq!((launch.grid_size, launch.workgroup_size), (grid_size, 64), "{count}");
    }
}

fn metadata(elf: &[u8]) -> rmpv::Value {
    let file = ElfFile64::<object::Endianness>::parse(elf).unwrap();
    let note = file.section_by_name(".note").unwrap();
    let data = note.data().unwrap();
    // Note header: name size, descriptor size, type, then the name "AMDGPU" padded to 8 bytes.
    let size = u32::from_le_bytes(data[4..8].try_into().unwrap()) as usize;
    rmpv::decode::read_value(&mut &data[20..20 + size]).unwrap()
}

fn entry<'a>(map: &'a rmpv::Value, key: &str) -> &'a rmpv::Value {
    let entries = map.as_map().unwrap();
    &entries.iter().find(|(name, _)| name.as_str() == Some(key)).unwrap_or_else(|| panic!("no {key}")).1
}

#[test]
fn every_prebuilt_code_object_has_the_kernels_as_planned() {
    for code_object in CODE_OBJECTS {
        let name = code_object.target;
        let file = ElfFile64::<object::Endianness>::parse(code_object.elf).unwrap();
        let metadata = metadata(code_object.elf);
        assert_eq!(entry(&metadata, "amdhsa.target").as_str(), Some(format!("amdgcn-amd-amdhsa--{name}").as_str()));
        let kernels = entry(&metadata, "amdhsa.kernels").as_array().unwrap();
        assert_eq!(kernels.len(), Kernel::ALL.len(), "{name}");
        for kernel in Kernel::ALL {
            let symbol = kernel.symbol();
            assert!(file.symbols().any(|s| s.name() == Ok(symbol)), "{name} lacks {symbol}");
            let kernel_metadata = kernels.iter().find(|k| entry(k, ".symbol").as_str() == Some(symbol)).unwrap();
            let number = |key| entry(kernel_metadata, key).as_u64().unwrap();
            assert_eq!(number(".kernarg_segment_size"), kernel.kernarg_size() as u64, "{name} {symbol}");
            assert_eq!(number(".kernarg_segment_align"), 8, "{name} {symbol}");
            assert_eq!(number(".group_segment_fixed_size"), 0, "{name} {symbol}: LDS");
            assert_eq!(number(".private_segment_fixed_size"), 0, "{name} {symbol}: scratch");
            let wavefront_size = if name.starts_with("gfx9") { 64 } else { 32 };
            assert_eq!(number(".wavefront_size"), wavefront_size, "{name} {symbol}");
            assert!(
                entry(kernel_metadata, ".args").as_array().unwrap().len() == 1,
                "{name} {symbol}: hidden arguments"
            );
        }
    }
}

#[test]
fn all_prebuilt_code_objects_are_embedded_unless_some_are_selected() {
    let embedded: Vec<_> = CODE_OBJECTS.iter().map(|code_object| code_object.target).collect();
    let prebuilt: Vec<_> = prebuilt_targets().iter().map(ToString::to_string).collect();
    assert_eq!(embedded, prebuilt);
    assert!(CODE_OBJECTS.iter().all(|code_object| (code_object.elf.as_ptr() as usize).is_multiple_of(8)));
}

#[test]
fn only_generic_targets_need_an_hsa_runtime_that_knows_version_6() {
    for code_object in CODE_OBJECTS {
        // EI_ABIVERSION: 3 stands for version 5, 4 for 6 (AMDGPUUsage, "ELF Header").
        let expected = if code_object.target.ends_with("generic") { 4 } else { 3 };
        assert_eq!(code_object.elf[8], expected, "{}", code_object.target);
    }
}

#[test]
fn every_known_processor_has_a_code_object() {
    for info in amdgpu_code_object::PROCESSORS {
        let name = info.processor.to_string();
        // That one is a name for code, not of a GPU.
        assert_eq!(select(&name).is_err(), name == "gfx12-5-generic", "{name}");
    }
}

fn expanded(list: &str) -> Vec<String> {
    expand(list).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn selectors_are_processors_generic_targets_families_and_bundles() {
    assert_eq!(expanded("gfx1100"), ["gfx11-generic"]);
    assert_eq!(expanded("gfx908"), ["gfx908"]);
    assert_eq!(expanded("gfx9-4-generic"), ["gfx9-4-generic"]);
    assert_eq!(expanded("gfx110X-all"), ["gfx11-generic"]);
    assert_eq!(expanded("dcgpu-all"), ["gfx908", "gfx90a", "gfx9-4-generic"]);
    assert_eq!(expanded("igpu-all"), ["gfx9-generic", "gfx10-3-generic", "gfx11-generic"]);
    assert_eq!(expanded("gfx1201; gfx90a,gfx1200 gfx90a"), ["gfx90a", "gfx12-generic"], "each once, oldest first");
    assert_eq!(expanded("gfx125X-all"), ["gfx1250", "gfx1251"]);
    assert_eq!(expanded("gfx1201 gfx1251 gfx12-5-generic"), ["gfx12-generic", "gfx1251", "gfx12-5-generic"]);
    assert_eq!(expanded("all"), expanded("default"), "every processor has a prebuilt code object");
    assert_eq!(expanded("default"), expanded(" ,"));
    assert_eq!(expanded("default").len(), 10);
}

#[test]
fn every_selector_selects_something_and_appears_once() {
    let names = selectors();
    for name in &names {
        assert!(!expand(name).unwrap().is_empty(), "{name}");
    }
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn unknown_selectors_fail_with_the_nearest_names() {
    for (name, nearest) in
        [("gfx1105", "gfx1100"), ("gfx110X", "gfx110X-all"), ("dgpu", "dgpu-all"), ("gfx90A", "gfx90a")]
    {
        let error = expand(&format!("gfx1201,{name}")).unwrap_err();
        assert_eq!(error.name, name);
        assert!(error.to_string().contains(nearest), "{error}");
    }
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Error of a build with these variables. Mode `source` needs no folder to write to before it finds its tools.
fn refused(selectors: &str, mode: &str, toolchain: &str) -> String {
    code_objects(folder(), Path::new("/nonexistent"), selectors, mode, toolchain).unwrap_err()
}

#[test]
fn a_build_embeds_what_its_variables_choose() {
    let chosen = |selectors, mode| {
        let chosen = code_objects(folder(), Path::new("/nonexistent"), selectors, mode, "nonsense").unwrap();
        assert!(chosen.iter().all(|(target, file)| file.ends_with(format!("prebuilt/{target}.co")) && file.is_file()));
        chosen.iter().map(|(target, _)| target.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(chosen("igpu-all", ""), ["gfx9-generic", "gfx10-3-generic", "gfx11-generic"]);
    assert_eq!(chosen(";;,\n", "prebuilt").len(), 10);
    assert_eq!(chosen(&"gfx900,".repeat(20_000), "prebuilt"), ["gfx9-generic"]);
}

#[test]
fn a_build_refuses_variables_that_say_nothing() {
    for (mode, toolchain, said) in [
        ("debug", "", "AMDGPU_RS_DEVICE_BINARY_BUILD_MODE=debug: the modes are `prebuilt` and `source`"),
        ("Source", "", "AMDGPU_RS_DEVICE_BINARY_BUILD_MODE=Source"),
        ("source", "gcc", "AMDGPU_RS_DEVICE_TOOLCHAIN: `gcc` names no toolchain; there are `clang-22`"),
        ("source", "clang-22:x", "`clang-22:x` names no toolchain"),
        ("source", "rocm:/nowhere", "no clang and ld.lld in /nowhere/llvm/bin or /nowhere/lib/llvm/bin"),
        ("source", "rocm:no\0where", "no clang and ld.lld in"),
    ] {
        let error = refused("gfx1100", mode, toolchain);
        assert!(error.contains(said), "{error}");
    }
    let long = refused(&"a".repeat(100_000), "", "");
    assert!(long.contains("AMDGPU_RS_DEVICE_BINARY_TARGETS: `aaa") && long.len() < 400, "{long}");
}

#[test]
fn a_target_that_is_not_prebuilt_is_named_with_what_to_do() {
    for (selector, rest) in [
        ("gfx12-5-generic", None),
        ("gfx12-5-generic,gfx1201", Some("AMDGPU_RS_DEVICE_BINARY_TARGETS=gfx12-generic")),
        ("all gfx12-5-generic", Some("=gfx9-generic,gfx908,gfx90a,")),
    ] {
        let error = refused(selector, "", "");
        assert!(error.contains("no prebuilt code object for gfx12-5-generic in"), "{error}");
        assert!(error.contains("AMDGPU_RS_DEVICE_BINARY_BUILD_MODE=source"), "{error}");
        assert_eq!(error.contains("what is prebuilt of the selection"), rest.is_some(), "{error}");
        assert!(error.contains(rest.unwrap_or_default()), "{error}");
    }
}

#[test]
fn mode_source_compiles_and_says_what_to_do_where_it_cannot() {
    let out_dir = std::env::temp_dir().join(format!("device-binaries-source-{}", std::process::id()));
    std::fs::create_dir(&out_dir).unwrap();
    let compiled = |selector| code_objects(folder(), &out_dir, selector, "source", "");
    let gfx1100 = compiled("gfx1100").map(|made| std::fs::read(&made[0].1).unwrap());
    let gfx12_5 = compiled("gfx12-5-generic");
    std::fs::remove_dir_all(&out_dir).unwrap();
    let embedded = CODE_OBJECTS.iter().find(|code_object| code_object.target == "gfx11-generic").unwrap();
    assert!(gfx1100.unwrap() == embedded.elf, "another file than the prebuilt one");
    let error = gfx12_5.unwrap_err();
    assert!(error.contains("clang-22") && error.contains("leave the target out of"), "{error}");
}

/// An ELF header that states a target; `features` are the values of the fields `EF_AMDGPU_FEATURE_{XNACK,SRAMECC}_V4`.
fn header(mach: u32, abi_version: u8, features: u32, generic_version: u32) -> &'static [u8] {
    let mut elf = vec![0; 64];
    elf[8] = abi_version;
    elf[48..52].copy_from_slice(&(mach | features << 8 | generic_version << 24).to_le_bytes());
    elf.leak()
}

#[test]
fn the_most_specific_code_object_that_runs_is_selected() {
    // xnack: 1 any, 2 off, 3 on; sramecc: the same times 4.
    let generic = CodeObject { target: "gfx9-4-generic", elf: header(0x5f, 4, 5, 1) };
    let processor = CodeObject { target: "gfx942", elf: header(0x4c, 3, 5, 0) };
    let full = CodeObject { target: "gfx942:sramecc+:xnack-", elf: header(0x4c, 3, 0xe, 0) };
    let damaged = CodeObject { target: "damaged", elf: &[0x7f] };
    let all = [damaged, full, generic, processor];
    let selected =
        |isa, from: &[CodeObject]| select_from(from, isa).map(|found| found.target).map_err(|e| e.to_string());
    assert_eq!(selected("gfx942:sramecc+:xnack-", &all), Ok("gfx942:sramecc+:xnack-"));
    assert_eq!(selected("gfx942:sramecc+:xnack+", &all), Ok("gfx942"), "xnack+ does not run code for xnack-");
    assert_eq!(selected("amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-", &all), Ok("gfx9-4-generic"));
    let error = selected("gfx942:xnack+", &[full]).unwrap_err();
    assert!(error.contains("`gfx942:xnack+` (embedded: gfx942:sramecc+:xnack-)"), "{error}");
    assert!(error.contains("add gfx942 to AMDGPU_RS_DEVICE_BINARY_TARGETS"), "{error}");
}

#[test]
fn code_for_a_feature_setting_runs_on_that_setting_alone() {
    // The setting of sramecc, then of xnack; the fields as above.
    let code = |name, features| CodeObject { target: name, elf: header(0x3f, 3, features, 0) };
    let (sramecc, xnack, any) = (code("sramecc+", 0xd), code("xnack-", 0x6), code("any", 0x5));
    let selected = |isa, from: &[CodeObject]| select_from(from, isa).map(|found| found.target).ok();
    for (isa, runs) in [
        ("gfx90a:sramecc+:xnack+", &["sramecc+", "any"][..]),
        ("gfx90a:sramecc+:xnack-", &["sramecc+", "xnack-", "any"]),
        ("gfx90a:sramecc-:xnack-", &["xnack-", "any"]),
        ("gfx90a:sramecc-:xnack+", &["any"]),
        ("gfx90a", &["any"]),
    ] {
        for code_object in [sramecc, xnack, any] {
            let expected = runs.contains(&code_object.target).then_some(code_object.target);
            assert_eq!(selected(isa, &[code_object]), expected, "{isa}");
        }
        // One setting that fits is better than none, wherever it stands.
        let expected = selected(isa, &[any, sramecc]);
        assert_eq!(selected(isa, &[sramecc, any]), expected, "{isa}");
        assert_eq!(expected == Some("sramecc+"), runs.contains(&"sramecc+"), "{isa}");
    }
}

#[test]
fn a_generic_code_object_needs_a_version_that_covers_the_gpu() {
    let generic = |version| CodeObject { target: "gfx11-generic", elf: header(0x54, 4, 0, version) };
    for info in amdgpu_code_object::PROCESSORS {
        let Some((family, minimum)) = info.generic.filter(|(family, _)| family.to_string() == "gfx11-generic") else {
            continue;
        };
        let isa = info.processor.to_string();
        assert_eq!(select_from(&[generic(minimum.into())], &isa).unwrap().target, "gfx11-generic");
        // No version 0 of a generic target exists; LLVM counts from 1.
        assert!(select_from(&[generic(u32::from(minimum) - 1)], &isa).is_err(), "{family} for {isa}");
    }
    for other in ["gfx1030", "gfx1201", "gfx12-generic"] {
        assert!(select_from(&[generic(1)], other).is_err(), "{other}");
    }
}

#[test]
fn select_takes_isa_names_target_ids_and_processors() {
    let selected = |isa| select(isa).unwrap().target;
    assert_eq!(selected("amdgcn-amd-amdhsa--gfx1100"), "gfx11-generic");
    assert_eq!(selected("gfx1201"), "gfx12-generic");
    assert_eq!(selected("gfx11-generic"), "gfx11-generic");
    assert_eq!(selected("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"), "gfx90a");
    assert_eq!(selected("gfx942:sramecc+"), "gfx9-4-generic");
    assert_eq!(selected("gfx906"), "gfx9-generic");
    assert_eq!(selected("gfx908"), "gfx908");
    assert_eq!(selected("amdgcn-amd-amdhsa--gfx1250"), "gfx1250");
    assert_eq!(selected("gfx1251"), "gfx1251");
}

/// Tests that execute one of them cover the other.
#[test]
fn gfx1250_and_gfx1251_have_the_same_instructions() {
    let code = |name: &str| {
        let elf = CODE_OBJECTS.iter().find(|code_object| code_object.target == name).unwrap().elf;
        let file = ElfFile64::<object::Endianness>::parse(elf).unwrap();
        file.section_by_name(".text").unwrap().data().unwrap().to_vec()
    };
    assert!(!code("gfx1250").is_empty());
    assert!(code("gfx1250") == code("gfx1251"));
}

#[test]
fn select_names_what_is_missing_and_what_there_is() {
    for isa in ["gfx12-5-generic", "gfx1310", "gfx803", "", "--", "gfx1100x", "nonsense--gfx"] {
        let error = select(isa).unwrap_err().to_string();
        assert!(error.contains(&format!("`{isa}`")), "{error}");
        assert!(error.contains("gfx9-generic, gfx908"), "{error}");
        let known = isa == "gfx12-5-generic";
        let remedy = if known { "add gfx12-5-generic to AMDGPU_RS_DEVICE_BINARY_TARGETS" } else { "CONTRIBUTING.md" };
        assert!(error.contains(remedy), "{error}");
    }
}

const GPU: DeviceShape = DeviceShape { wavefront_size: 32, compute_units: 96 };

#[test]
fn a_tile_is_what_the_kernels_say() {
    assert!(KERNELS_C.contains("#define BLOCKS_PER_ITEM 4\n"));
    let waves = |device, target, length| plan_copy(device, 0x10000, target, length).unwrap().args.wave_count;
    assert_eq!(waves(GPU, 0x20000, 2048), 1);
    assert_eq!(waves(GPU, 0x20000, 2048 + 16), 2);
    assert_eq!(waves(GPU, 0x2000f, 2048 - 15), 1);
    let wave64 = DeviceShape { wavefront_size: 64, ..GPU };
    assert_eq!(waves(wave64, 0x20000, 4096), 1);
    assert_eq!(waves(wave64, 0x20000, 4096 + 16), 2);
}

#[test]
fn tiles_end_where_the_transfer_does() {
    let args = plan_copy(GPU, 0x10007, 0x20001, 2048 + 100).unwrap().args;
    assert_eq!((args.target, args.first, args.tile_count), (0x20870 - 4096, 0x20001 - (0x20870 - 4096), 2));
    assert_eq!(args.source + u64::from(args.first), 0x10007);
    assert_eq!(args.target + 2048 + u64::from(args.last) + 16, 0x20001 + 2048 + 100);
    let args = plan_copy(GPU, 0x10007, 0x20001, 15).unwrap().args;
    assert_eq!((args.source, args.target, args.tile_count, args.byte_count), (0x10007, 0x20001, 0, 15));
}

#[test]
fn a_fill_has_the_bytes_outside_of_whole_blocks_in_its_edges() {
    let edges = |target, length| plan_fill(GPU, target, length, &[1]).unwrap().args.edges;
    assert_eq!(edges(0x20000, 64), 0);
    assert_eq!(edges(0x20005, 5), 0b11_1110_0000, "inside of one block");
    assert_eq!(edges(0x20005, 11), 0xffe0, "to the end of a block");
    assert_eq!(edges(0x20000, 3), 0b111 << 16, "from the begin of a block");
    assert_eq!(edges(0x2000f, 16 + 3), 0x8000 | 0b11 << 16);
    let args = plan_fill(GPU, 0x2000f, 16 + 3, &[1]).unwrap().args;
    assert_eq!((args.head, args.tail), (0x20000, 0x20020));
    assert_eq!((args.target + u64::from(args.first), args.tile_count), (0x20010, 1));
}

#[test]
fn waves_are_bounded_by_the_gpu() {
    let plan = plan_copy(GPU, 0x1_0000_0000, 0x2_0000_0000, 64 << 20).unwrap();
    assert_eq!((plan.grid_size, plan.workgroup_size, plan.args.wave_count), (96 * 16 * 32, 32, 96 * 16));
    let huge = DeviceShape { wavefront_size: 64, compute_units: u32::MAX };
    let plan = plan_fill(huge, 0, MAX_TRANSFER_LENGTH, &[0]).unwrap();
    assert_eq!(plan.grid_size, plan.args.wave_count * 64);
}

#[test]
fn an_empty_transfer_is_one_wave() {
    assert_eq!(plan_fill(GPU, 0x1003, 0, &[1]).unwrap().grid_size, 32);
    assert_eq!(plan_copy(GPU, 1, 2, 0).unwrap().grid_size, 32);
}

#[test]
fn patterns_of_other_lengths_are_refused() {
    for length in [0, 3, 5, 7, 32] {
        let error = plan_fill(GPU, 0, 64, &vec![0; length]).unwrap_err();
        assert_eq!(error, PlanError::PatternLength(length));
    }
}

#[test]
fn ranges_beyond_the_limits_are_refused() {
    assert_eq!(plan_fill(GPU, 0, MAX_TRANSFER_LENGTH + 1, &[0]), Err(PlanError::Length(MAX_TRANSFER_LENGTH + 1)));
    assert_eq!(plan_copy(GPU, 0, 0, u64::MAX), Err(PlanError::Length(u64::MAX)));
    let high = u64::MAX - 100;
    assert_eq!(plan_fill(GPU, high, 100, &[0]), Err(PlanError::Range { address: high, length: 100 }));
    assert_eq!(plan_copy(GPU, high, 0, 100), Err(PlanError::Range { address: high, length: 100 }));
}

#[test]
fn a_patch_is_a_work_item_for_each_word() {
    assert!(KERNELS_C.contains("#define PACKET_BODY_WORDS 13\n"));
    let args = PatchDispatchArgs {
        workgroup_count: 4,
        packet: 64,
        implicit_args: 0,
        header_setup: 1,
        workgroup_size: [1; 3],
        reserved: 0,
    };
    let plan = plan_patch_dispatch(args);
    assert_eq!((plan.kernel, plan.grid_size, plan.workgroup_size), (Kernel::PatchDispatch, 13, 13));
}

proptest! {
    #[test]
    fn the_pattern_of_a_fill_is_in_phase_with_addresses(target in 0u64..1 << 47, size in 0u32..5, pattern: [u8; 16], offset in 0u64..64) {
        let pattern = &pattern[..1 << size];
        let args = plan_fill(GPU, target, 64, pattern).unwrap().args;
        let block: Vec<u8> = args.pattern.iter().flat_map(|half| half.to_le_bytes()).collect();
        let written = block[((target + offset) % 16) as usize];
        prop_assert_eq!(written, pattern[offset as usize % pattern.len()]);
    }
}
