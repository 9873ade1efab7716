// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Products of matrices of RDNA (WMMA), and the elements of matrices.

use super::list;
use crate::machine::{Case, Float, Machine, State};
use crate::num::{self, BF16, F16, F32};
use crate::reference::{self, wide};
use random::Random;
use sim_isa::{Op, Target};

/// Type of a matrix op's elements.
#[derive(Clone, Copy, PartialEq)]
pub enum Element {
    Float(num::Format),
    /// 8 bits with so many of mantissa.
    Small(u32),
    Integer(u32),
}

impl Element {
    pub fn of(name: &str) -> Element {
        match name {
            "f32" => Element::Float(F32),
            "f16" => Element::Float(F16),
            "bf16" => Element::Float(BF16),
            "fp8" => Element::Small(3),
            "bf8" => Element::Small(2),
            "i32" => Element::Integer(32),
            "iu8" => Element::Integer(8),
            "iu4" => Element::Integer(4),
            other => panic!("element {other}"),
        }
    }

    pub fn bits(self) -> usize {
        match self {
            Element::Float(format) => format.width as usize,
            Element::Small(_) => 8,
            Element::Integer(bits) => bits as usize,
        }
    }

    /// A small whole number, or random bits of an integer.
    pub fn random(self, random: &mut Random) -> u64 {
        let whole = f64::from(random.below(13) as i32 - 6);
        match self {
            Element::Float(format) => format.round(whole),
            Element::Small(mantissa) => reference::to_small_float(whole, mantissa, true),
            Element::Integer(bits) => u64::from(random.next()) & ((1 << bits) - 1),
        }
    }

    pub fn get(self, bits: u64, signed: bool) -> f64 {
        match self {
            Element::Float(format) => format.get(bits & format.mask()),
            Element::Small(mantissa) => reference::small_float(bits as u8, mantissa, true),
            Element::Integer(width) => wide(bits, width, signed) as f64,
        }
    }
}

/// A matrix product. RDNA3 (ISA 7.9): lane `i` holds row `i % 16` of A and column `i % 16` of B; C and D go through the
/// lanes, then the registers. RDNA4: lanes 16 apart share a row or column, each with one part of it; C and D go through
/// the registers, then the lanes. gfx1250: the same, but parts of eight elements of 16 bits alternate.
pub fn case(machine: Machine, op: Op, random: &mut Random) -> Case {
    let name = op.name();
    let parts: Vec<&str> = name.split('_').collect();
    let inner: usize = parts[3].rsplit('x').next().unwrap().parse().unwrap();
    let factors = [Element::of(parts[4]), Element::of(parts[parts.len() - 1])];
    let output = Element::of(parts[2]);
    let (bits, lanes) = (factors[0].bits(), machine.lanes);
    let split = machine.target.is_gfx12();
    let eights = machine.target == Target::Gfx1250 && bits < 32;
    // Lane, before the row's number is added, and place in it of an element.
    let home = |k: usize| match (split, eights) {
        (false, _) => (0, k),
        (true, true) => (k / 8 % 2 * 16, k / 16 * 8 + k % 8),
        (true, false) => {
            // Whole registers: of RDNA4's smallest the upper lanes of wave64 have none.
            let part = (inner * 16 / lanes).max(32 / bits);
            (k / part * 16, k % part)
        }
    };
    let mut before = State::random(machine, random);
    // All lanes take part.
    before.exec = u64::MAX >> (64 - lanes);
    let of_factors = (inner * bits / 32).div_ceil(if split { lanes / 16 } else { 1 });
    // First registers of B and C.
    let (b, c) = if of_factors > 8 { (16, 32) } else { (8, 24) };
    let mut tiles = [[[0u64; 128]; 16]; 2];
    for (at, first) in [0, b].into_iter().enumerate() {
        for (row, line) in tiles[at].iter_mut().enumerate() {
            for (k, value) in line[..inner].iter_mut().enumerate() {
                *value = factors[at].random(random);
                let (lane, place) = home(k);
                let copies = if split { lane + row..lane + row + 1 } else { row..lanes };
                for lane in copies.step_by(16) {
                    let word = &mut before.v[first + place * bits / 32][lane];
                    let shift = place * bits % 32;
                    let mask = ((u64::MAX >> (64 - bits)) as u32) << shift;
                    *word = *word & !mask | (*value << shift) as u32;
                }
            }
        }
    }
    let rows = 256 / lanes;
    let half = output.bits() == 16;
    let high = half && !split && random.one_in(2);
    // Register and shift of an element of C.
    let place = |r: usize| match (half, split) {
        (true, true) => (c + r / 2, 16 * (r % 2)),
        (true, false) => (c + r, if high { 16 } else { 0 }),
        _ => (c + r, 0),
    };
    let mask = (u64::MAX >> (64 - output.bits())) as u32;
    let neg = if matches!(output, Element::Integer(_)) { random.below(4) as u8 } else { 0 };
    for (lane, r) in (0..lanes).flat_map(|lane| (0..rows).map(move |r| (lane, r))) {
        let start = match output {
            Element::Float(format) => format.round(f64::from(random.below(64) as i32 - 32)) as u32,
            _ => random.next() >> 4,
        };
        let (register, shift) = place(r);
        let word = &mut before.v[register][lane];
        *word = *word & !(mask << shift) | start << shift;
    }
    let mut after = before.clone();
    for (lane, r) in (0..lanes).flat_map(|lane| (0..rows).map(move |r| (lane, r))) {
        // Of wave64 AMD's matrix instruction calculator has rows 4 to 7 from lane 32 on, and 8 to 11 from lane 16 on.
        let row = if split { r + [0, 8, 4, 12][lane / 16] } else { r * (lanes / 16) + lane / 16 };
        let (register, shift) = place(r);
        let products = (0..inner).map(|k| {
            let get = |at: usize, row: usize| factors[at].get(tiles[at][row][k], neg >> at & 1 != 0);
            get(0, row) * get(1, lane % 16)
        });
        let start = before.v[register][lane] >> shift & mask;
        let sum = products.sum::<f64>() + output.get(start.into(), true);
        let new = match output {
            Element::Float(format) => format.round(sum) as u32,
            _ => sum as i64 as u32,
        };
        let word = &mut after.v[register][lane];
        *word = *word & !(mask << shift) | new << shift;
    }
    let tuple = |first: usize, count: usize| {
        if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
    };
    let of_sums = if half && split { rows / 2 } else { rows };
    let text = format!(
        "{name} {d}, {}, {}, {d}{}{}",
        tuple(0, of_factors),
        tuple(b, of_factors),
        list("neg_lo", neg, 3, 0),
        if high { " op_sel:[0,0,1]" } else { "" },
        d = tuple(c, of_sums)
    );
    let mut case = Case::new(text, before, after);
    let kind = match output {
        Element::Float(F32) => Some(Float::F32),
        Element::Float(F16) => Some(Float::F16(3)),
        Element::Float(_) => Some(Float::Bf16(3)),
        _ => None,
    };
    case.floats.extend(kind.into_iter().flat_map(|kind| (c..c + 8).map(move |n| (n, kind))));
    case
}
