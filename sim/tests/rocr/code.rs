// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Code object readers, executables and symbols.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::code::{GFX11, load_code};
use crate::common::*;
use crate::{every_release, in_environment, release};

static GFX942: &[u8] = include_bytes!("../kernels/kernels.gfx942.co");

/// Offsets in an ELF file's header.
const ABI_VERSION: usize = 8;
const FLAGS: usize = 48;

/// Returns a code object with another header: ABI version, and bits of its flags.
fn patched(bytes: &[u8], abi: u8, flags: impl FnOnce(u32) -> u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[ABI_VERSION] = abi;
    let place = &mut bytes[FLAGS..FLAGS + 4];
    let new = flags(u32::from_le_bytes(place.try_into().unwrap()));
    place.copy_from_slice(&new.to_le_bytes());
    bytes
}

/// [`GFX11`] for another processor. Releases differ in their checks of the processor.
fn for_machine(machine: u32) -> Vec<u8> {
    patched(GFX11, 4, |flags| flags & !0xff | machine)
}

/// The test's kernels as a code object for gfx1100 itself, which every release loads.
pub(crate) fn for_gfx1100() -> Vec<u8> {
    for_machine(0x41)
}

fn reader(bytes: &[u8]) -> HsaCodeObjectReader {
    let mut reader = HsaCodeObjectReader::NULL;
    // SAFETY: the bytes outlive the reader in each test.
    let status = unsafe { hsa_code_object_reader_create_from_memory(bytes.as_ptr().cast(), bytes.len(), &mut reader) };
    assert_eq!(status, HsaStatus::SUCCESS);
    reader
}

fn executable() -> HsaExecutable {
    let mut executable = HsaExecutable::NULL;
    // SAFETY: the output is a valid place.
    let status = unsafe {
        hsa_executable_create_alt(HsaProfile::BASE, HsaFloatRoundingMode::NEAR, ptr::null(), &mut executable)
    };
    assert_eq!(status, HsaStatus::SUCCESS);
    executable
}

fn load(executable: HsaExecutable, agent: HsaAgent, reader: HsaCodeObjectReader, options: Option<&CStr>) -> HsaStatus {
    let options = options.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the options are a C string or null, and no result is asked for.
    unsafe { hsa_executable_load_agent_code_object(executable, agent, reader, options, ptr::null_mut()) }
}

fn freeze(executable: HsaExecutable) -> HsaStatus {
    // SAFETY: no options.
    unsafe { hsa_executable_freeze(executable, ptr::null()) }
}

fn symbol(executable: HsaExecutable, name: &str, agent: Option<&HsaAgent>) -> Result<HsaExecutableSymbol, HsaStatus> {
    let name = CString::new(name).unwrap();
    let (agent, mut symbol) = (agent.map_or(ptr::null(), ptr::from_ref), HsaExecutableSymbol::NULL);
    // SAFETY: the name is a C string, the agent null or valid, the output a valid place.
    let status = unsafe { hsa_executable_get_symbol_by_name(executable, name.as_ptr(), agent, &mut symbol) };
    if status.is_ok() { Ok(symbol) } else { Err(status) }
}

/// Status of loading a code object.
fn outcome(hsa: &Hsa, bytes: &[u8]) -> HsaStatus {
    load_code(hsa.gpu(), bytes).err().unwrap_or(HsaStatus::SUCCESS)
}

#[test]
fn readers_need_bytes_and_a_place() {
    every_release(|_| {
        let (bytes, mut out) = (GFX11.as_ptr().cast::<c_void>(), HsaCodeObjectReader::NULL);
        // SAFETY: wrong arguments are refused.
        unsafe {
            let create = |bytes, size, out| hsa_code_object_reader_create_from_memory(bytes, size, out);
            assert_eq!(create(ptr::null(), 8, &mut out), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(create(bytes, 0, &mut out), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(create(bytes, 8, ptr::null_mut()), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(create(bytes, 8, &mut out), HsaStatus::SUCCESS, "they are looked at when they are loaded");
            assert_eq!(hsa_code_object_reader_destroy(out), HsaStatus::SUCCESS);
            let none = HsaCodeObjectReader::NULL;
            assert_eq!(hsa_code_object_reader_destroy(none), HsaStatus::ERROR_INVALID_CODE_OBJECT_READER);
        }
    });
}

#[test]
fn executables_need_a_known_profile_and_rounding_mode_and_a_place() {
    every_release(|_| {
        let mut out = HsaExecutable::NULL;
        let (base, near, wrong) = (HsaProfile::BASE, HsaFloatRoundingMode::NEAR, HsaStatus::ERROR_INVALID_ARGUMENT);
        // SAFETY: wrong arguments are refused.
        unsafe {
            assert_eq!(hsa_executable_create_alt(HsaProfile(2), near, ptr::null(), &mut out), wrong);
            assert_eq!(hsa_executable_create_alt(base, HsaFloatRoundingMode(3), ptr::null(), &mut out), wrong);
            assert_eq!(hsa_executable_create_alt(base, near, ptr::null(), ptr::null_mut()), wrong);
            let null = HsaExecutable::NULL;
            assert_eq!(hsa_executable_destroy(null), HsaStatus::ERROR_INVALID_EXECUTABLE);
            assert_eq!(freeze(null), HsaStatus::ERROR_INVALID_EXECUTABLE);
        }
    });
}

#[test]
fn a_load_is_checked_in_order() {
    every_release(|hsa| {
        let code = for_gfx1100();
        let (reader, executable, gpu) = (reader(&code), executable(), hsa.gpu());
        let (no_reader, no_executable) = (HsaCodeObjectReader::NULL, HsaExecutable::NULL);
        assert_eq!(load(no_executable, gpu, no_reader, None), HsaStatus::ERROR_INVALID_EXECUTABLE);
        assert_eq!(load(executable, gpu, no_reader, None), HsaStatus::ERROR_INVALID_CODE_OBJECT_READER);
        assert_eq!(load(executable, gpu, reader, Some(c"-no-such-option")), HsaStatus::ERROR);
        for no_gpu in [hsa.cpu, HsaAgent { handle: 1 }] {
            assert_eq!(load(executable, no_gpu, reader, None), HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS);
        }
        assert_eq!(load(executable, gpu, reader, Some(c"")), HsaStatus::SUCCESS);
        assert_eq!(load(executable, gpu, reader, None), HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
        assert_eq!(freeze(executable), HsaStatus::SUCCESS);
        assert_eq!(freeze(executable), HsaStatus::ERROR_FROZEN_EXECUTABLE);
        assert_eq!(load(executable, gpu, reader, Some(c"-no")), HsaStatus::ERROR_FROZEN_EXECUTABLE);
        // SAFETY: destroyed once; loaded code stays without its reader.
        unsafe {
            assert_eq!(hsa_code_object_reader_destroy(reader), HsaStatus::SUCCESS);
            symbol(executable, "fill.kd", Some(&gpu)).unwrap();
            assert_eq!(hsa_executable_destroy(executable), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn code_is_loaded_for_each_agent_by_itself() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx1100,gfx1100")], |hsa| {
        let (reader, executable) = (reader(GFX11), executable());
        for gpu in &hsa.gpus {
            assert_eq!(load(executable, *gpu, reader, None), HsaStatus::SUCCESS);
        }
        let addresses = hsa.gpus.iter().map(|gpu| {
            let mut address = 0_u64;
            let symbol = symbol(executable, "fill.kd", Some(gpu)).unwrap();
            let attribute = HsaExecutableSymbolInfo::KERNEL_OBJECT;
            // SAFETY: the place has the attribute's type.
            let status = unsafe { hsa_executable_symbol_get_info(symbol, attribute, as_data(&mut address)) };
            assert_eq!(status, HsaStatus::SUCCESS, "before the executable is frozen");
            address
        });
        let addresses: Vec<_> = addresses.collect();
        assert_ne!(addresses[0], addresses[1]);
    });
}

#[test]
fn generic_code_objects_load_from_7_0_on_if_they_have_a_generic_version() {
    type S = HsaStatus;
    release("6.2", |hsa| {
        assert_eq!(outcome(hsa, GFX11), S::ERROR_INVALID_ISA_NAME);
        assert_eq!(outcome(hsa, &for_machine(0x51)), S::ERROR_INVALID_ISA_NAME, "gfx9-generic");
        assert_eq!(outcome(hsa, &for_machine(0x5f)), S::ERROR_INVALID_CODE_OBJECT, "gfx9-4-generic");
        assert_eq!(outcome(hsa, &for_machine(0x59)), S::ERROR_INVALID_CODE_OBJECT, "gfx12-generic");
        assert_eq!(outcome(hsa, &for_gfx1100()), S::SUCCESS);
    });
    release("7.0", |hsa| {
        assert_eq!(outcome(hsa, GFX11), S::SUCCESS);
        assert_eq!(outcome(hsa, &patched(GFX11, 4, |flags| flags | 0x0700_0000)), S::SUCCESS, "a later version");
        assert_eq!(outcome(hsa, &patched(GFX11, 4, |flags| flags & 0x00ff_ffff)), S::ERROR_INCOMPATIBLE_ARGUMENTS);
        assert_eq!(outcome(hsa, &patched(GFX11, 3, |flags| flags)), S::ERROR_INCOMPATIBLE_ARGUMENTS, "version 5");
        assert_eq!(outcome(hsa, &for_machine(0x59)), S::ERROR_INCOMPATIBLE_ARGUMENTS, "gfx12-generic");
        assert_eq!(outcome(hsa, &for_gfx1100()), S::SUCCESS);
    });
}

#[test]
fn processors_are_unknown_or_another_agents() {
    type S = HsaStatus;
    for (name, gfx940, gfx950) in [
        ("6.2", S::ERROR_INCOMPATIBLE_ARGUMENTS, S::ERROR_INVALID_CODE_OBJECT),
        ("7.0", S::ERROR_INVALID_CODE_OBJECT, S::ERROR_INCOMPATIBLE_ARGUMENTS),
    ] {
        release(name, |hsa| {
            assert_eq!(outcome(hsa, &for_machine(0x40)), gfx940);
            assert_eq!(outcome(hsa, &for_machine(0x4f)), gfx950);
            assert_eq!(outcome(hsa, &for_machine(0x42)), S::ERROR_INCOMPATIBLE_ARGUMENTS, "gfx1013");
            assert_eq!(outcome(hsa, &for_machine(0xfe)), S::ERROR_INVALID_CODE_OBJECT);
        });
    }
}

#[test]
fn code_object_versions_are_3_to_6() {
    every_release(|hsa| {
        for abi in [1, 2, 3, 4] {
            let code = patched(GFX11, abi, |_| 0x41);
            assert_eq!(outcome(hsa, &code), HsaStatus::SUCCESS, "version {}", abi + 2);
        }
        for abi in [0, 5, 255] {
            let code = patched(GFX11, abi, |_| 0x41);
            assert_eq!(outcome(hsa, &code), HsaStatus::ERROR_INVALID_CODE_OBJECT, "ABI version {abi}");
        }
    });
}

#[test]
fn features_that_a_code_object_needs_must_be_the_agents() {
    type S = HsaStatus;
    in_environment(&[("HSA_SIM_AGENTS", "gfx942")], |hsa| {
        let code = |xnack: u32, sramecc: u32| patched(GFX942, 2, |_| 0x4c | xnack << 8 | sramecc << 10);
        for (xnack, sramecc, status) in [
            (1, 1, S::SUCCESS),
            (2, 3, S::SUCCESS),
            (0, 0, S::SUCCESS),
            (3, 1, S::ERROR_INCOMPATIBLE_ARGUMENTS),
            (1, 2, S::ERROR_INCOMPATIBLE_ARGUMENTS),
        ] {
            assert_eq!(outcome(hsa, &code(xnack, sramecc)), status, "xnack {xnack}, sramecc {sramecc}");
        }
        let version_3 = |bits: u32| patched(GFX942, 1, |_| 0x4c | bits);
        assert_eq!(outcome(hsa, &version_3(0x200)), S::SUCCESS, "sramecc+");
        assert_eq!(outcome(hsa, &version_3(0x300)), S::ERROR_INCOMPATIBLE_ARGUMENTS, "xnack+");
        assert_eq!(outcome(hsa, &version_3(0)), S::ERROR_INCOMPATIBLE_ARGUMENTS, "sramecc-, as none of them is any");
    });
    in_environment(&[], |hsa| {
        let code = patched(GFX11, 2, |_| 0x41 | 3 << 8);
        assert_eq!(outcome(hsa, &code), S::ERROR_INVALID_ISA_NAME, "gfx1100 has no xnack");
    });
}

#[test]
fn what_is_no_code_object_is_told_apart_from_what_is_for_others() {
    every_release(|hsa| {
        let mut other = GFX11.to_vec();
        other[18..20].copy_from_slice(&62_u16.to_le_bytes());
        assert_eq!(outcome(hsa, &other), HsaStatus::ERROR_INVALID_CODE_OBJECT, "x86-64");
        let mut mesa = GFX11.to_vec();
        mesa[7] = 66;
        assert_eq!(outcome(hsa, &mesa), HsaStatus::ERROR_INVALID_CODE_OBJECT, "of another OS ABI");
        assert_eq!(
            outcome(hsa, b"no ELF file at all, but long enough to be the header of one: 64 bytes"),
            HsaStatus::ERROR_INVALID_CODE_OBJECT
        );
    });
}

#[test]
fn a_relocation_needs_its_symbol() {
    let undefined = include_bytes!("../../../crates/code-object/testdata/globals-gfx1100-v5.hsaco");
    every_release(|hsa| assert_eq!(outcome(hsa, undefined), HsaStatus::ERROR_VARIABLE_UNDEFINED));
}

#[test]
fn symbols_are_an_agents() {
    every_release(|hsa| {
        let code = load_code(hsa.gpu(), &for_gfx1100()).unwrap();
        let missing = Err(HsaStatus::ERROR_INVALID_SYMBOL_NAME);
        assert!(symbol(code.executable, "fill.kd", Some(&hsa.gpu())).is_ok());
        assert_eq!(symbol(code.executable, "fill.kd", None), missing);
        assert_eq!(symbol(code.executable, "fill.kd", Some(&hsa.cpu)), missing);
        assert_eq!(symbol(code.executable, "fill.kd", Some(&HsaAgent { handle: 1 })), missing);
        assert_eq!(symbol(code.executable, "fill", Some(&hsa.gpu())), missing);
        assert_eq!(symbol(code.executable, "", Some(&hsa.gpu())), missing);
        let null = Err(HsaStatus::ERROR_INVALID_EXECUTABLE);
        assert_eq!(symbol(HsaExecutable::NULL, "fill.kd", Some(&hsa.gpu())), null);
        let mut out = HsaExecutableSymbol::NULL;
        // SAFETY: null is refused.
        unsafe {
            let status = hsa_executable_get_symbol_by_name(code.executable, ptr::null(), &hsa.gpu(), &mut out);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let (name, none) = (c"fill.kd".as_ptr(), ptr::null_mut());
            let status = hsa_executable_get_symbol_by_name(code.executable, name, &hsa.gpu(), none);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        }
    });
}

#[test]
fn variables_among_read_only_data_can_be_written() {
    const PROGRAM_HEADERS: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    let mut bytes = for_gfx1100();
    let count = usize::from(bytes[56]);
    for header in bytes[PROGRAM_HEADERS..].chunks_mut(PROGRAM_HEADER).take(count) {
        // The flag for writing, in the second word.
        header[4] &= !2;
    }
    every_release(|hsa| {
        let code = load_code(hsa.gpu(), &bytes).unwrap();
        let table: u64 = code.info("test_table", HsaExecutableSymbolInfo::VARIABLE_ADDRESS);
        let table = ptr::with_exposed_provenance_mut::<u32>(table as usize);
        let (source, done, gpu) = (hsa.host_memory::<u32>(1), signal(1), hsa.gpu());
        // SAFETY: the memory is this test's own, and the variable has a word.
        unsafe {
            source.write(0x1234_5678);
            let (to, from) = (table.cast(), source.cast_const().cast());
            assert_eq!(hsa_amd_memory_async_copy(to, gpu, from, gpu, 4, 0, ptr::null(), done), HsaStatus::SUCCESS);
            wait_for(done, 0);
            assert_eq!(table.read_volatile(), 0x1234_5678);
        }
        destroy(&[done]);
    });
}

#[test]
fn kernels_and_variables_have_an_address_under_either_name() {
    type I = HsaExecutableSymbolInfo;
    every_release(|hsa| {
        let code = load_code(hsa.gpu(), &for_gfx1100()).unwrap();
        for name in ["fill.kd", "test_table"] {
            assert_eq!(code.info::<u64>(name, I::KERNEL_OBJECT), code.info::<u64>(name, I::VARIABLE_ADDRESS));
            assert_eq!(code.info::<HsaAgent>(name, I::AGENT), hsa.gpu());
            assert_eq!(code.info::<u32>(name, I::NAME_LENGTH), name.len() as u32, "without a NUL");
        }
        assert_eq!(code.info::<u32>("fill.kd", I::KERNEL_KERNARG_SEGMENT_ALIGNMENT), 16, "whatever the kernel needs");
        let get = |name: &str, attribute, value: *mut c_void| {
            // SAFETY: the place is large enough or null.
            unsafe { hsa_executable_symbol_get_info(code.symbol(name).unwrap(), attribute, value) }
        };
        assert!(code.info::<bool>("test_table", I::VARIABLE_IS_CONST), "though it can be written");
        let mut value = [0_u64; 8];
        let wrong = HsaStatus::ERROR_INVALID_ARGUMENT;
        assert_eq!(get("fill.kd", I::VARIABLE_SIZE, as_data(&mut value)), wrong);
        assert_eq!(get("test_table", I::KERNEL_GROUP_SEGMENT_SIZE, as_data(&mut value)), wrong);
        assert_eq!(get("fill.kd", HsaExecutableSymbolInfo(99), as_data(&mut value)), wrong);
        assert_eq!(get("fill.kd", I::TYPE, ptr::null_mut()), wrong);
        // SAFETY: the place is large enough.
        let status = unsafe { hsa_executable_symbol_get_info(HsaExecutableSymbol::NULL, I::TYPE, as_data(&mut value)) };
        assert_eq!(status, HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL);
    });
}
