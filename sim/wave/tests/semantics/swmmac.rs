// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for sparse matrix ops of RDNA4 and gfx1250: a dense product in which A has two elements other than zero among
//! each four.

use crate::machine::{Case, Float, Machine, State};
use crate::num::{F16, F32};
use crate::packed::{Element, list};
use random::Random;
use sim_isa::{Op, Target};

const A: usize = 0;
const B: usize = 8;
const INDEX: usize = 24;
const SUMS: usize = 28;
const PAIRS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

/// Puts the lowest bits of `value` at bit `at` of a lane's registers from `first` on.
fn put(state: &mut State, first: usize, lane: usize, at: usize, bits: usize, value: u64) {
    let mask = ((u64::MAX >> (64 - bits)) as u32) << (at % 32);
    let word = &mut state.v[first + at / 32][lane];
    *word = *word & !mask | (value as u32) << (at % 32) & mask;
}

/// The lane, before its 16 are added, and the element in it that a row of gfx1250's A or column of its B has at `k`:
/// runs of so many by turns in both lanes (AMD's hipconv for elements of 16 bits, its simulator rocjitsu for 8).
fn by_turns(k: usize, run: usize) -> (usize, usize) {
    (k / run % 2 * 16, k / (2 * run) * run + k % run)
}

/// `D += A·B`. Lanes 16 apart share a row of A or a column of B, each with one part of K; of A they have two elements
/// for four of B, and in the index register, in the set that `index_key` chooses, two bits for each that tell which of
/// the four it is (RDNA4 ISA 7.9, AMD's matrix instruction calculator).
///
/// On gfx1250 the indices of a row's first half are in the lower lane, those of its second half 16 lanes further. Both
/// indices of a pair may be the same if one of its elements is zero, as in hipconv's.
pub fn case(machine: Machine, op: Op, random: &mut Random) -> Case {
    let name = op.name();
    let parts: Vec<&str> = name.split('_').collect();
    let inner: usize = parts[3].rsplit('x').next().unwrap().parse().unwrap();
    let [a, b] = [Element::of(parts[4]), Element::of(parts[parts.len() - 1])];
    let output = Element::of(parts[2]);
    let lanes = machine.lanes;
    let gfx1250 = machine.target == Target::Gfx1250;
    let part = inner * 16 / lanes;
    // The smallest has A in the lower half of wave64's lanes, and B's parts in lanes 0, 32, 16 and 48.
    let half = machine.wave64() && op == Op::VSwmmacI3216x16x32Iu4;
    let part_of_a = if half { 16 } else { part };
    let lane_of_b = |part: usize| if half { [0, 32, 16, 48][part] } else { part * 16 };
    let sets = if gfx1250 { 1 } else { 32 / part_of_a };
    let set = random.below(sets as u32) as usize;
    let neg = if matches!(output, Element::Integer(_)) { random.below(4) as u8 } else { 0 };
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - lanes);
    let mut rows_of_a = [[0.0; 128]; 16];
    let mut columns_of_b = [[0.0; 128]; 16];
    for (row, (in_a, in_b)) in rows_of_a.iter_mut().zip(&mut columns_of_b).enumerate() {
        for group in 0..inner / 4 {
            let (lane, place) = match gfx1250 {
                true => by_turns(group * 4, 256 / b.bits()),
                false => (lane_of_b(group * 4 / part), group * 4 % part),
            };
            for k in 0..4 {
                let value = b.random(random);
                in_b[group * 4 + k] = b.get(value, neg & 2 != 0);
                put(&mut before, B, row + lane, (place + k) * b.bits(), b.bits(), value);
            }
            let (lane, place) = match gfx1250 {
                true => by_turns(group * 2, 128 / a.bits()),
                false => (group * 4 / part_of_a * 16, group * 4 % part_of_a / 2),
            };
            let (lane_of_index, index) = match gfx1250 {
                true => (group * 2 / (inner / 4) * 16, group * 2 % (inner / 4)),
                false => (lane, set * part_of_a / 2 + place),
            };
            let same = gfx1250 && random.one_in(8);
            let pair = if same { [random.below(4) as usize; 2] } else { PAIRS[random.below(6) as usize] };
            for (n, k) in pair.into_iter().enumerate() {
                let value = if same && n == 0 { 0 } else { a.random(random) };
                in_a[group * 4 + k] = a.get(value, neg & 1 != 0);
                put(&mut before, A, row + lane, (place + n) * a.bits(), a.bits(), value);
                put(&mut before, INDEX, row + lane_of_index, 2 * (index + n), 2, k as u64);
            }
        }
    }
    let rows = 256 / lanes;
    let bits = output.bits();
    for (lane, r) in (0..lanes).flat_map(|lane| (0..rows).map(move |r| (lane, r))) {
        let start = match output {
            Element::Float(format) => format.round(f64::from(random.below(64) as i32 - 32)),
            _ => u64::from(random.next() >> 4),
        };
        put(&mut before, SUMS, lane, r * bits, bits, start);
    }
    let mut after = before.clone();
    for (lane, r) in (0..lanes).flat_map(|lane| (0..rows).map(move |r| (lane, r))) {
        let (row, column) = (&rows_of_a[r + [0, 8, 4, 12][lane / 16]], &columns_of_b[lane % 16]);
        let start = u64::from(before.v[SUMS + r * bits / 32][lane] >> (r * bits % 32)) & (u64::MAX >> (64 - bits));
        let sum = row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>() + output.get(start, true);
        let new = match output {
            Element::Float(format) => format.round(sum),
            _ => sum as i64 as u64,
        };
        put(&mut after, SUMS, lane, r * bits, bits, new);
    }
    let tuple = |first: usize, bits: usize| match bits / 32 {
        0 | 1 => format!("v{first}"),
        count => format!("v[{first}:{}]", first + count - 1),
    };
    let text = format!(
        "{name} {}, {}, {}, {}{}{}",
        tuple(SUMS, rows * bits),
        tuple(A, part_of_a / 2 * a.bits()),
        tuple(B, part * b.bits()),
        tuple(INDEX, if gfx1250 { inner / 2 } else { 32 }),
        if set == 0 { String::new() } else { format!(" index_key:{set}") },
        list("neg_lo", neg, 3, 0),
    );
    let mut case = Case::new(text, before, after);
    let kind = match output {
        Element::Float(F32) => Some(Float::F32),
        Element::Float(F16) => Some(Float::F16(3)),
        Element::Float(_) => Some(Float::Bf16(3)),
        _ => None,
    };
    case.floats.extend(kind.into_iter().flat_map(|kind| (SUMS..SUMS + 8).map(move |n| (n, kind))));
    case
}
