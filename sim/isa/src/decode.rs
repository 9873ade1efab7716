// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From dwords to [`Inst`]: the choice among encodings.
//!
//! Field positions and operand codes: AMD "RDNA3 Instruction Set Architecture" and "RDNA4 Instruction Set
//! Architecture", chapters 15; for GFX9 "Vega Instruction Set Architecture", chapter 13, and those of CDNA1 to CDNA3.
//!
//! Modules name only those before them: `lookup`, `reader`, `lanes`, `scalar`, `vector`, `memory`, `gfx9` and `gfx10`,
//! this one.

use crate::bits::bits;
use crate::error::{DecodeError, DecodeFault};
use crate::inst::Inst;
use crate::target::Target;
use reader::Reader;

mod gfx10;
mod gfx9;
mod lanes;
mod lookup;
mod memory;
mod reader;
mod scalar;
mod vector;

/// Decodes the instruction at the start of `words`; its length is in [`Inst::size`].
///
/// Any `words` are safe to pass. Words beyond the instruction are ignored.
///
/// # Errors
/// [`DecodeError`] if the words are no instruction of `target`, or end too early.
pub fn decode(target: Target, words: &[u32]) -> Result<Inst, DecodeError> {
    let mut reader = Reader::new(target, words);
    let inst = reader.word().and_then(|word| reader.encoding(word)).and_then(|inst| reader.finish(inst));
    inst.map_err(|fault| DecodeError { target, words: words.iter().take(3).copied().collect(), offset: 0, fault })
}

impl Reader<'_> {
    fn encoding(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        match self.target {
            Target::Gfx1010 | Target::Gfx1030 => return self.encoding10(word),
            target if target.is_gfx9() => return self.encoding9(word),
            _ => {}
        }
        let gfx12 = self.target.is_gfx12();
        match word >> 26 {
            0b11_0101 => self.vop3(word),
            0b11_0011 if self.target == Target::Gfx1250 && bits(word, 24, 2) == 3 => self.vopd3(word),
            0b11_0011 => self.vop3p(word),
            0b11_0010 => self.vopd(word),
            0b11_0110 => self.ds(word),
            0b11_0001 if gfx12 => self.vbuffer(word),
            0b11_1011 if gfx12 => self.vflat(word),
            0b11_0100 if self.target == Target::Gfx1250 => self.vimage(word),
            0b11_1101 if gfx12 => self.smem12(word),
            0b11_0111 if !gfx12 => self.flat(word),
            0b11_1000 if !gfx12 => self.mubuf(word),
            0b11_1010 if !gfx12 => self.mtbuf(word),
            0b11_1101 => self.smem(word),
            0b11_0000..=0b11_1111 => Err(DecodeFault::Encoding),
            0b10_0000..=0b10_1111 => self.scalar(word),
            _ => self.vop_short(word),
        }
    }
}
