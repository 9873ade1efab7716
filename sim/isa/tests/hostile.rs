// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Words that are no instruction.

use random::Random;
use sim_isa::{DecodeError, DecodeFault, Format, Target, decode};

const TARGETS: [Target; 12] = [
    Target::Gfx11,
    Target::Gfx1150,
    Target::Gfx1200,
    Target::Gfx1250,
    Target::Gfx900,
    Target::Gfx906,
    Target::Gfx908,
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx950,
    Target::Gfx1010,
    Target::Gfx1030,
];

#[test]
fn any_words_decode_or_fail_cleanly() {
    let mut random = Random(0xbad);
    let mut decoded = 0;
    for turn in 0..400_000 {
        let target = TARGETS[turn % TARGETS.len()];
        let words = [random.next(), random.next(), random.next()];
        let count = random.below(4) as usize;
        match decode(target, &words[..count]) {
            Ok(inst) => {
                decoded += 1;
                assert!(usize::from(inst.size) <= count * 4 && inst.size >= 4, "{inst} is {} bytes", inst.size);
                assert!(!inst.to_string().is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(decoded > 30_000, "only {decoded} random samples decode");
}

#[test]
fn code_that_ends_early_is_truncated() {
    let truncated = |words: &[u32]| decode(Target::Gfx11, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[]));
    assert!(truncated(&[0xd6130000])); // v_fma_f32, first dword
    assert!(truncated(&[0x7e0002ff])); // v_mov_b32 with a literal
    assert!(truncated(&[0x7e0002fa])); // v_mov_b32 with DPP
    assert!(truncated(&[0xc8000000])); // VOPD
    let truncated = |words: &[u32]| decode(Target::Gfx1200, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[0xc405007c, 0])); // buffer_load_b32, two of three dwords
    assert!(truncated(&[0xee05007c])); // global_load_b32, first dword
    assert!(truncated(&[0xf4000000])); // s_load_b32, first dword
    let truncated = |words: &[u32]| decode(Target::Gfx942, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[0x7e0002f9])); // v_mov_b32 with SDWA
    assert!(truncated(&[0xd3c00000])); // v_mfma_f32_32x32x1_2b_f32, first dword
    assert!(truncated(&[0xc0020000])); // s_load_dword, first dword
    assert!(truncated(&[0xdc508000])); // global_load_dword, first dword
    let truncated = |words: &[u32]| decode(Target::Gfx1030, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[0xd54b0000, 0x040200ff])); // v_fma_f32 with a literal
    assert!(truncated(&[0xf4000000])); // s_load_dword, first dword
}

#[test]
fn errors_tell_opcode_words_and_offset() {
    let error = decode(Target::Gfx11, &[0xbeff_7f00, 1, 2, 3]).unwrap_err().at(0x40);
    let fault = DecodeFault::Opcode { format: Format::Sop1, code: 0x7f };
    assert_eq!(error, DecodeError { target: Target::Gfx11, words: vec![0xbeff_7f00, 1, 2], offset: 0x40, fault });
    let text = error.to_string();
    assert!(text.contains("0x7f") && text.contains("0x40") && text.contains("beff7f00"), "{text}");
}

#[test]
fn reserved_operands_and_misaligned_tuples_are_refused() {
    let fault = |word: u32| decode(Target::Gfx11, &[word, 0]).unwrap_err().fault;
    assert!(matches!(fault(0xbe80_00d1), DecodeFault::Operand { code: 209, .. })); // s_mov_b32 s0, <209>
    assert!(matches!(fault(0xbe80_0103), DecodeFault::Operand { code: 3, .. })); // s_mov_b64 s[0:1], s[3:4]
}

#[test]
fn tuples_may_touch_the_last_register_but_not_pass_it() {
    // global_load_b32 v0, v255, s[4:5]: one VGPR of address; without the scalar base it would be two.
    assert!(decode(Target::Gfx11, &[0xdc52_0000, 0x0004_00ff]).is_ok());
    let error = decode(Target::Gfx11, &[0xdc52_0000, 0x007c_00ff]).unwrap_err();
    assert!(matches!(error.fault, DecodeFault::Operand { code: 255, .. }), "{error}");
    // buffer_load_b128 v[252:255], v255, s[4:7], 0 offen, then the same with v[253:256].
    assert!(decode(Target::Gfx11, &[0xe05c_0000, 0x8041_fcff]).is_ok());
    assert!(decode(Target::Gfx11, &[0xe05c_0000, 0x8041_fdff]).is_err());
}

#[test]
fn gfx9_refuses_what_it_reserves() {
    let fault = |target: Target, words: &[u32]| decode(target, words).map(|inst| inst.to_string()).unwrap_err().fault;
    let reserved = |target: Target, words: &[u32]| matches!(fault(target, words), DecodeFault::Operand { .. });
    // v_fma_f32 v0, <literal>, v0, v0: literals are for the short encodings.
    assert!(reserved(Target::Gfx942, &[0xd1cb_0000, 0x0402_00ff, 0]));
    // v_mov_b32_sdwa with selector 7, and with value 3 of the field for unused bits.
    assert!(reserved(Target::Gfx906, &[0x7e00_02f9, 0x0007_0600]));
    assert!(reserved(Target::Gfx906, &[0x7e00_02f9, 0x0006_1e00]));
    // v_mov_b32_dpp row_newbcast:0 came with gfx90a.
    assert!(reserved(Target::Gfx908, &[0x7e00_02fa, 0xff01_5000]));
    assert!(decode(Target::Gfx90a, &[0x7e00_02fa, 0xff01_5000]).is_ok());
    // v_trunc_f64_dpp quad_perm:[0,0,0,0] is no longer there on gfx90a.
    assert!(reserved(Target::Gfx90a, &[0x7e00_2efa, 0xff00_0000]));
    // s_mov_b32 s0, <125>: there is no null register.
    assert!(reserved(Target::Gfx942, &[0xbe80_007d]));
    // global_load_dwordx2 v[1:2], v[0:1], off: tuples are aligned from gfx90a on.
    assert!(reserved(Target::Gfx90a, &[0xdc54_8000, 0x017f_0000]));
    assert!(decode(Target::Gfx908, &[0xdc54_8000, 0x017f_0000]).is_ok());
    // ds_add_u32 gds: none from gfx90a on.
    assert_eq!(fault(Target::Gfx90a, &[0xd801_0000, 0]), DecodeFault::Encoding);
    // v_mfma_f32_32x32x1f32 is not in gfx906.
    assert!(matches!(fault(Target::Gfx906, &[0xd3c0_0000, 0]), DecodeFault::Opcode { code: 0x40, .. }));
}

#[test]
fn accumulators_are_where_the_fields_say() {
    let text = |target: Target, words: &[u32]| decode(target, words).unwrap().to_string();
    // The same words: accumulators are AGPRs on gfx908, and by a bit of the encoding later.
    let words = [0xd3c5_0000, 0x0412_0501];
    assert_eq!(text(Target::Gfx908, &words), "v_mfma_f32_16x16x4f32 a[0:3], v1, v2, a[4:7]");
    assert_eq!(text(Target::Gfx942, &words), "v_mfma_f32_16x16x4_f32 v[0:3], v1, v2, v[4:7]");
    let words = [0xd3c5_8000, 0x1c12_0501];
    assert_eq!(text(Target::Gfx90a, &words), "v_mfma_f32_16x16x4f32 a[0:3], a1, a2, a[4:7]");
    assert_eq!(text(Target::Gfx90a, &[0xdc50_8000, 0x04ff_0002]), "global_load_dword a4, v[2:3], off");
}

#[test]
fn gfx10_has_a_null_register_and_no_dpp_in_long_encodings() {
    let text = |words: &[u32]| decode(Target::Gfx1030, words).unwrap().to_string();
    assert_eq!(text(&[0xbe80_037d]), "s_mov_b32 s0, null");
    assert_eq!(text(&[0xbe80_037c]), "s_mov_b32 s0, m0");
    assert_eq!(text(&[0xd54b_0000, 0x0402_00ff, 0x4049_0fdb]), "v_fma_f32 v0, 0x40490fdb, v0, v0");
    let fault = |words: &[u32]| decode(Target::Gfx1030, words).unwrap_err().fault;
    assert!(matches!(fault(&[0xd54b_0000, 0x0402_00fa, 0]), DecodeFault::Operand { code: 250, .. }));
    // FLAT's offset is 11 bits, and sending loads to LDS is not decoded.
    assert_eq!(fault(&[0xdc30_0800, 0x007d_0000]), DecodeFault::Encoding);
    assert_eq!(fault(&[0xdc30_a000, 0x007d_0000]), DecodeFault::Encoding);
}

#[test]
fn gfx1250_has_its_own_opcodes_literals_and_tuples() {
    let text = |words: &[u32]| decode(Target::Gfx1250, words).unwrap().to_string();
    let fault = |words: &[u32]| decode(Target::Gfx1250, words).unwrap_err().fault;
    assert_eq!(text(&[0xbfc5_0000]), "s_wait_xcnt 0x0");
    assert!(decode(Target::Gfx1200, &[0xbfc5_0000]).is_err());
    assert_eq!(text(&[0x7e04_3a04]), "v_mov_b64_e32 v[2:3], s[4:5]");
    // s_waitcnt and gfx12's matrix instructions are gone.
    assert!(matches!(fault(&[0xbf89_0000]), DecodeFault::Opcode { format: Format::Sopp, code: 9 }));
    assert!(matches!(fault(&[0xcc40_4000, 0x1c02_0900]), DecodeFault::Opcode { format: Format::Vop3p, code: 0x40 }));
    // Literals of two dwords are for operands of as many, and not for long encodings.
    let literal = [0x5566_7788, 0x1122_3344];
    assert_eq!(text(&[0xbe82_01fe, literal[0], literal[1]]), "s_mov_b64 s[2:3], 0x1122334455667788");
    assert!(matches!(fault(&[0xbe82_00fe, literal[0], literal[1]]), DecodeFault::Operand { code: 254, .. }));
    assert!(matches!(fault(&[0xd51f_0002, 0x0002_08fe, 0, 0]), DecodeFault::Operand { code: 254, .. }));
    assert_eq!(fault(&[0xbe82_01fe, literal[0]]), DecodeFault::Truncated);
    assert!(decode(Target::Gfx1200, &[0xbe82_01fe, literal[0], literal[1]]).is_err());
    assert_eq!(text(&[0xbe80_00e6]), "s_mov_b32 s0, src_flat_scratch_base_lo");
    // The upper half alone is no pair, and before gfx1250 there is neither.
    assert!(matches!(fault(&[0xbe80_01e7]), DecodeFault::Operand { code: 231, .. }));
    assert!(decode(Target::Gfx1200, &[0xbe80_00e6]).is_err());
    // global_load_b64 v[1:2], v2, s[4:5]
    assert!(matches!(fault(&[0xee05_4004, 1, 2]), DecodeFault::Operand { code: 1, .. }));
    // Of 1024 registers a tuple may have some before and some behind v256.
    assert_eq!(text(&[0xdbfc_11b0, 0xfe00_0082]), "ds_load_b128 v[254:257], v130 offset:4528");
    assert_eq!(text(&[0xec05_0004, 1, 2]), "flat_load_b32 v1, v2, s[4:5]");
    // global_load_b32 v1, v2, s[4:5] offset:16 scale_offset th:TH_LOAD_NT scope:SCOPE_SYS nv
    let words = [0xee05_0084, 0x001d_0001, 0x0000_1002];
    assert_eq!(text(&words), "global_load_b32 v1, v2, s[4:5] offset:16 scale_offset th:TH_LOAD_NT scope:SCOPE_SYS nv");
}
