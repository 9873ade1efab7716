// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for matrix ops of CDNA: every element of every block as the sum of its products.

use crate::machine::{Case, Machine, State};
use crate::num::{BF16, F16, F32, F64, Format};
use crate::reference::small_float;
use random::Random;
use sim_isa::{Op, Target, Ty};

const A: usize = 0;
const B: usize = 8;
const DST: usize = 32;

/// The type of an element.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Float(Format),
    /// 8 bits with so many of mantissa; of gfx942, or (true) of the Open Compute Project.
    Small(u32, bool),
    Int8,
    Int32,
}

impl Element {
    fn of(machine: Machine, name: &str) -> Element {
        match name {
            "f16" => Element::Float(F16),
            "bf16" => Element::Float(BF16),
            "f32" | "xf32" => Element::Float(F32),
            "f64" => Element::Float(F64),
            "fp8" => Element::Small(3, machine.has_ocp_floats()),
            "bf8" => Element::Small(2, machine.has_ocp_floats()),
            "i8" => Element::Int8,
            "i32" => Element::Int32,
            other => panic!("element {other}"),
        }
    }

    fn bits(self) -> usize {
        match self {
            Element::Float(format) => format.width as usize,
            Element::Small(..) | Element::Int8 => 8,
            Element::Int32 => 32,
        }
    }

    /// The bits of a small whole number.
    fn encode(self, value: i64) -> u64 {
        match self {
            Element::Float(format) => format.round(value as f64),
            Element::Small(..) => (0..256).find(|bits| *bits != 0x80 && self.decode(*bits) == value as f64).unwrap(),
            Element::Int8 => value as u8 as u64,
            Element::Int32 => value as u32 as u64,
        }
    }

    fn decode(self, bits: u64) -> f64 {
        match self {
            Element::Float(format) => format.get(bits & format.mask()),
            Element::Small(mantissa, ocp) => small_float(bits as u8, mantissa, ocp),
            Element::Int8 => f64::from(bits as i8),
            Element::Int32 => f64::from(bits as i32),
        }
    }
}

/// Parsed mnemonic: `v_mfma_f32_32x32x4_2b_f16`, `v_mfma_f32_16x16x16f16`, `v_mfma_f32_16x16x32_fp8_bf8`.
struct Shape {
    sum: Element,
    factors: [Element; 2],
    m: usize,
    k: usize,
    blocks: usize,
}

impl Shape {
    fn of(machine: Machine, op: Op) -> Shape {
        let parts: Vec<&str> = op.name().split('_').collect();
        let sum = Element::of(machine, parts[2]);
        let sizes: Vec<&str> = parts[3].splitn(3, 'x').collect();
        let digits = sizes[2].find(|c: char| !c.is_ascii_digit()).unwrap_or(sizes[2].len());
        let (k, attached) = sizes[2].split_at(digits);
        let mut inputs: Vec<Element> =
            parts[4..].iter().filter(|part| !part.ends_with('b')).map(|part| Element::of(machine, part)).collect();
        if inputs.is_empty() {
            inputs.push(Element::of(machine, attached));
        }
        let m: usize = sizes[0].parse().unwrap();
        let registers = usize::from(op.info().dst.dwords(true));
        Shape {
            sum,
            factors: [inputs[0], inputs[inputs.len() - 1]],
            m,
            k: k.parse().unwrap(),
            blocks: registers * 32 * 64 / (m * m * sum.bits()),
        }
    }

    /// Elements of a row of A that a lane holds.
    fn per_lane(&self) -> usize {
        self.k * self.m * self.blocks / 64
    }

    /// Lane and place in it of element `k` of row `i` of A, or of column `i` of B.
    fn factor(&self, block: usize, i: usize, k: usize) -> (usize, usize) {
        let per_lane = self.per_lane();
        (block * self.m + k / per_lane * self.m * self.blocks + i, k % per_lane)
    }

    /// Lane and place in it of an element of C or D: four rows of 32 bits, or one of 64, go to a lane before the next
    /// one.
    fn sum(&self, block: usize, i: usize, j: usize) -> (usize, usize) {
        let height = if self.sum.bits() == 64 { 1 } else { 4 };
        let beside = 64 / self.m;
        let blocks_beside = (64 * height / (self.m * self.m)).max(1);
        let place = block * (self.m * self.m / 64) + i / (height * beside) * height + i % height;
        let lane = block % blocks_beside * self.m + i / height % beside * blocks_beside * self.m + j;
        (lane, place)
    }
}

fn get(state: &State, first: usize, bits: usize, (lane, place): (usize, usize)) -> u64 {
    let at = place * bits;
    if bits == 64 {
        return state.v64(first + at / 32, lane);
    }
    u64::from(state.v[first + at / 32][lane]) >> (at % 32) & (u64::MAX >> (64 - bits))
}

fn set(state: &mut State, first: usize, bits: usize, (lane, place): (usize, usize), value: u64) {
    let at = place * bits;
    if bits == 64 {
        return state.set_v64(first + at / 32, lane, value);
    }
    let word = &mut state.v[first + at / 32][lane];
    *word = *word & !((u64::MAX >> (64 - bits) << (at % 32)) as u32) | (value << (at % 32)) as u32;
}

/// The lane of B that takes the place of `lane` (CDNA3 ISA 7.1.3, "BLGP").
fn permuted(lane: usize, blgp: usize) -> usize {
    match blgp {
        0 => lane,
        1 => lane & 31,
        2 => lane & 31 | 32,
        3 => (lane + 16) & 63,
        _ => lane & 15 | (blgp - 4) << 4,
    }
}

/// `v_smfmac_*`: of each four elements of A two are stored, and two bits each say which. `abid` chooses the bits,
/// unless `cbsz` is set.
pub fn sparse(machine: Machine, op: Op, random: &mut Random) -> Case {
    let shape = Shape::of(machine, op);
    let [a, b] = shape.factors;
    let mut before = State::random(machine, random);
    let number = |random: &mut Random| i64::from(random.below(13)) - 6;
    let per_lane = shape.per_lane();
    // Ops of gfx950 with twice the inner dimension: 8 registers of B, one set of indices of 8-bit elements.
    let wide = per_lane * b.bits() == 256;
    for lane in 0..64 {
        for place in 0..per_lane {
            set(&mut before, B, b.bits(), (lane, place), b.encode(number(random)));
            if place < per_lane / 2 {
                set(&mut before, A, a.bits(), (lane, place), a.encode(number(random)));
            }
        }
        // Two different places among four, in order.
        before.v[24][lane] = (0..8).map(|n| [4, 8, 12, 9, 13, 14][random.below(6) as usize] << (4 * n)).sum();
        for place in 0..usize::from(op.info().dst.dwords(true)) {
            set(&mut before, DST, 32, (lane, place), shape.sum.encode(i64::from(random.below(100)) - 50));
        }
    }
    let sets = (32 / per_lane).max(1);
    let (cbsz, abid) = (random.below(2), random.below(sets as u32) as usize);
    let shift = if cbsz == 0 { abid * per_lane } else { 0 };
    let mut after = before.clone();
    for i in 0..shape.m {
        for j in 0..shape.m {
            let products = (0..shape.k / 2).map(|n| {
                // Pair of elements of a lane, and the place among four of this one.
                let (lane, place) = (i + n / (per_lane / 2) * shape.m, n % (per_lane / 2));
                let among = before.v[24][lane] >> (shift + 2 * place) & 3;
                let row = a.decode(get(&before, A, a.bits(), (lane, place)));
                let (lane, place) = match wide {
                    false => shape.factor(0, j, n / 2 * 4 + among as usize),
                    true => wide_factor(&shape, lane / shape.m, place / 2, j, among as usize),
                };
                row * b.decode(get(&before, B, b.bits(), (lane, place)))
            });
            let at = shape.sum(0, i, j);
            let sum = products.sum::<f64>() + shape.sum.decode(get(&before, DST, 32, at));
            set(&mut after, DST, 32, at, shape.sum.encode(sum as i64));
        }
    }
    let last = DST + usize::from(op.info().dst.dwords(true)) - 1;
    let modifiers = format!(
        "{}{}",
        if cbsz == 0 { "" } else { " cbsz:1" },
        if abid == 0 { "".into() } else { format!(" abid:{abid}") }
    );
    let factors = if wide { "v[0:3], v[8:15]" } else { "v[0:1], v[8:11]" };
    Case::new(format!("{} v[{DST}:{last}], {factors}, v24{modifiers}", op.name()), before, after)
}

/// Lane and place in column `j` of B of the element that pair `pair` of A's group `group` of lanes chooses as number
/// `among` of four. The dense number of the pair is made of bits of both, whose order AMD's hip-fpsan measured on an
/// MI350; a lane of B has runs of eight elements by turns with the others.
fn wide_factor(shape: &Shape, group: usize, pair: usize, j: usize, among: usize) -> (usize, usize) {
    let bit = |value: usize, at: usize| value >> at & 1;
    let is_byte = shape.factors[1].bits() == 8;
    let number = match (is_byte, shape.m) {
        (false, _) => bit(pair, 0) | bit(pair, 1) << 1 | group << 2,
        (true, 16) => bit(pair, 0) | bit(pair, 2) << 1 | bit(group, 0) << 2 | bit(pair, 1) << 3 | bit(group, 1) << 4,
        (true, _) => bit(pair, 0) | bit(pair, 2) << 1 | bit(pair, 1) << 2 | group << 3,
    };
    let k = 4 * number + among;
    let groups = 64 / shape.m;
    (j + k / 8 % groups * shape.m, k / 8 / groups * 8 + k % 8)
}

/// Whole numbers small enough that all sums are exact.
pub fn case(machine: Machine, op: Op, random: &mut Random) -> Case {
    let shape = Shape::of(machine, op);
    let mut before = State::random(machine, random);
    let number = |random: &mut Random| i64::from(random.below(13)) - 6;
    for (first, element) in [A, B].into_iter().zip(shape.factors) {
        for lane in 0..64 {
            for place in 0..shape.per_lane() {
                set(&mut before, first, element.bits(), (lane, place), element.encode(number(random)));
            }
        }
    }
    let bits = shape.sum.bits();
    let registers = usize::from(op.info().dst.dwords(true));
    for lane in 0..64 {
        for place in 0..registers * 32 / bits {
            set(&mut before, DST, bits, (lane, place), shape.sum.encode(i64::from(random.below(100)) - 50));
        }
    }
    // gfx908 takes no constant there.
    let constant = machine.target != Target::Gfx908 && random.one_in(4);
    let wide = bits == 64;
    let cbsz = if shape.blocks > 1 && !wide { random.below(shape.blocks.trailing_zeros() + 1) as usize } else { 0 };
    let abid = random.below(1 << cbsz) as usize;
    // The f64 ones of gfx942 have signs there.
    let field = random.below(8) as usize;
    let (blgp, neg) = match (wide, machine.target) {
        (true, target) if target.is_cdna3_or_later() => (0, field),
        (true, _) => (0, 0),
        _ if matches!(shape.factors[0], Element::Int8 | Element::Small(..)) || op.name().contains("xf32") => (0, 0),
        _ => (field, 0),
    };
    let sign = |at: usize| if neg >> at & 1 != 0 { -1.0 } else { 1.0 };
    let mut after = before.clone();
    for block in 0..shape.blocks {
        for i in 0..shape.m {
            for j in 0..shape.m {
                let at = shape.sum(block, i, j);
                let products = (0..shape.k).map(|k| {
                    let [a, b] = shape.factors;
                    let from = block >> cbsz << cbsz | abid;
                    let row = a.decode(get(&before, A, a.bits(), shape.factor(from, i, k)));
                    let (lane, place) = shape.factor(block, j, k);
                    row * b.decode(get(&before, B, b.bits(), (permuted(lane, blgp), place)))
                });
                let start = if constant { 2.0 } else { shape.sum.decode(get(&before, DST, bits, at)) };
                let value = sign(0) * sign(1) * products.sum::<f64>() + sign(2) * start;
                set(&mut after, DST, bits, at, shape.sum.encode(value as i64));
            }
        }
    }
    let tuple = |file: char, first: usize, count: usize| {
        if count == 1 { format!("{file}{first}") } else { format!("{file}[{first}:{}]", first + count - 1) }
    };
    let width = |ty: Ty| usize::from(ty.dwords(true));
    let (a, b) = (tuple('v', A, width(op.info().src[0])), tuple('v', B, width(op.info().src[1])));
    // gfx908 adds up in AGPRs only, later targets where they are told.
    let agprs = machine.target == Target::Gfx908 || random.one_in(2);
    let d = if agprs { tuple('a', 4, registers) } else { tuple('v', DST, registers) };
    let c = match (constant, shape.sum) {
        (false, _) => d.clone(),
        (true, Element::Int32) => "2".to_owned(),
        (true, _) => "2.0".to_owned(),
    };
    let mut modifiers = String::new();
    for (name, value) in [("cbsz", cbsz), ("abid", abid), ("blgp", blgp)] {
        if value != 0 {
            modifiers += &format!(" {name}:{value}");
        }
    }
    if neg != 0 {
        modifiers += &format!(" neg:[{},{},{}]", neg & 1, neg >> 1 & 1, neg >> 2 & 1);
    }
    let mut lines = vec![format!("{} {d}, {a}, {b}, {c}{modifiers}", op.name_on(machine.target))];
    if agprs {
        // EXEC holds for the copies.
        (before.exec, after.exec) = (u64::MAX, u64::MAX);
        let mut copies: Vec<_> =
            (0..registers).map(|n| format!("v_accvgpr_write_b32 a{}, v{}", 4 + n, DST + n)).collect();
        copies.append(&mut lines);
        copies.extend((0..registers).map(|n| format!("v_accvgpr_read_b32 v{}, a{}", DST + n, 4 + n)));
        lines = copies;
    }
    Case::new(lines.join("\n"), before, after)
}
