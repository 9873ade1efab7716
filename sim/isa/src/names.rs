// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Mnemonics of instructions that have no row, so that an error can name them.
//!
//! `names.txt` has a line for each encoding and opcode: the encoding, the opcode, the targets as rows name them, LLVM's
//! mnemonic. The oracle test compares it with LLVM's disassembler, and `cargo xtask isa --names` writes it anew.

use crate::bits::bits;
use crate::encoding::Format;
use crate::target::Target;

static NAMES: &str = include_str!("names.txt");

/// LLVM's mnemonic of an opcode that the table lacks, if there is one.
pub(crate) fn of_opcode(target: Target, format: Format, code: u16) -> Option<&'static str> {
    find(target, &format!("{format:?}"), code.into())
}

/// The mnemonic of the instruction that starts with `word`, if it is one of graphics.
pub(crate) fn of_graphics(target: Target, word: u32) -> Option<&'static str> {
    let (encoding, code) = graphics(target, word)?;
    find(target, encoding, code)
}

fn find(target: Target, encoding: &str, code: u32) -> Option<&'static str> {
    NAMES.lines().find_map(|line| {
        let mut parts = line.split(' ');
        let same = parts.next()? == encoding && parts.next()? == format!("{code:#04x}");
        let mut targets = parts.next()?.split('|');
        (same && targets.any(|name| name == format!("{target:?}"))).then(|| parts.next())?
    })
}

/// Encoding and opcode of instructions that are not decoded: images, exports, interpolation and LDS parameters.
fn graphics(target: Target, word: u32) -> Option<(&'static str, u32)> {
    let long = bits(word, 18, 7) | (word & 1) << 7;
    let (gfx9, gfx10, gfx12) = (target.is_gfx9(), target.is_before_gfx11() && !target.is_gfx9(), target.is_gfx12());
    Some(match word >> 26 {
        0b11_0001 if gfx9 => ("Exp", 0),
        0b11_0101 if gfx9 => ("Vintrp", bits(word, 16, 2)),
        0b11_0010 if gfx10 => ("Vintrp", bits(word, 16, 2)),
        0b11_1100 if gfx9 || gfx10 => ("Mimg", long),
        0b11_1100 if !gfx12 => ("Mimg", bits(word, 18, 8)),
        0b11_1110 => ("Exp", 0),
        0b11_0100 if gfx12 => ("Vimage", bits(word, 14, 8)),
        0b11_1001 if gfx12 => ("Vsample", bits(word, 14, 8)),
        0b11_0011 if bits(word, 24, 2) == 1 => ("Vinterp", bits(word, 16, 7)),
        0b11_0011 if bits(word, 24, 2) == 2 => ("Ldsdir", bits(word, 20, 2)),
        _ => return None,
    })
}
