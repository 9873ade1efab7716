// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Words that are no instruction.

mod common;

use common::Random;
use sim_isa::{DecodeError, DecodeFault, Format, Target, decode};

#[test]
fn any_words_decode_or_fail_cleanly() {
    let mut random = Random(0xbad);
    let mut decoded = 0;
    for turn in 0..200_000 {
        let target = if turn % 2 == 0 { Target::Gfx11 } else { Target::Gfx12 };
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
    assert!(decoded > 10_000, "only {decoded} random samples decode");
}

#[test]
fn code_that_ends_early_is_truncated() {
    let truncated = |words: &[u32]| decode(Target::Gfx11, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[]));
    assert!(truncated(&[0xd6130000])); // v_fma_f32, first dword
    assert!(truncated(&[0x7e0002ff])); // v_mov_b32 with a literal
    assert!(truncated(&[0x7e0002fa])); // v_mov_b32 with DPP
    assert!(truncated(&[0xc8000000])); // VOPD
    let truncated = |words: &[u32]| decode(Target::Gfx12, words).unwrap_err().fault == DecodeFault::Truncated;
    assert!(truncated(&[0xc405007c, 0])); // buffer_load_b32, two of three dwords
    assert!(truncated(&[0xee05007c])); // global_load_b32, first dword
    assert!(truncated(&[0xf4000000])); // s_load_b32, first dword
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
