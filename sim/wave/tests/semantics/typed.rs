// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for buffer accesses that convert. LLVM's names for the formats define them, and its assembler which
//! numbers they have.

use crate::machine::{Case, Float, Machine, State, cpu, format, implemented};
use crate::num::F16;
use random::Random;
use sim_isa::{Format, Op, Ty};
use sim_llvm::assemble;

const DATA: usize = 4;
const DST: usize = 16;
const RESOURCE: usize = 44;
/// Elements of a buffer, 16 bytes apart; lanes also look beyond.
const RECORDS: usize = 20;

/// Parsed name of a format: widths of the components from the lowest bits on, and their type.
#[derive(Clone)]
struct Element {
    name: String,
    number: u32,
    bits: Vec<u32>,
    kind: &'static str,
}

/// The formats that a target has.
fn formats(machine: Machine) -> Vec<Element> {
    let mut elements = Vec::new();
    let layouts =
        "8 16 8_8 32 16_16 10_11_11 11_11_10 10_10_10_2 2_10_10_10 8_8_8_8 32_32 16_16_16_16 32_32_32 32_32_32_32";
    for layout in layouts.split(' ') {
        let bits: Vec<u32> = layout.split('_').rev().map(|bits| bits.parse().unwrap()).collect();
        for kind in ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "FLOAT"] {
            // GFX9 has a field for each part, which can say more than there is.
            let exists = match (kind, bits[0]) {
                ("FLOAT", width) => width > 10 || bits == [10, 11, 11],
                (kind, 32) => kind.ends_with("INT"),
                _ => true,
            };
            let name = match machine.gfx9() {
                true => format!("BUF_DATA_FORMAT_{layout}, BUF_NUM_FORMAT_{kind}"),
                false => format!("BUF_FMT_{layout}_{kind}"),
            };
            if exists {
                elements.push(Element { name, number: 0, bits: bits.clone(), kind });
            }
        }
    }
    let zero = if machine.target.is_gfx12() { "null" } else { "0" };
    let line =
        |element: &Element| format!("tbuffer_load_format_x v0, v0, s[4:7], {zero} format:[{}] idxen", element.name);
    let lines: Vec<String> = elements.iter().map(line).collect();
    let mut known = Vec::new();
    for (mut element, words) in elements.into_iter().zip(assemble(cpu(machine), &lines)) {
        let Some(words) = words else { continue };
        element.number = if machine.target.is_gfx12() { words[1] >> 23 & 0x7f } else { words[0] >> 19 & 0x7f };
        known.push(element);
    }
    assert!(known.len() > 60, "LLVM knows {} formats only", known.len());
    known
}

impl Element {
    fn bytes(&self) -> usize {
        self.bits.iter().sum::<u32>() as usize / 8
    }

    fn is_integer(&self) -> bool {
        self.kind.ends_with("INT")
    }

    /// One, in a register.
    fn one(&self) -> u32 {
        if self.is_integer() { 1 } else { 1f32.to_bits() }
    }

    /// A float of `width` bits without a sign and with five bits of exponent.
    fn small(bits: u32, width: u32) -> f64 {
        let mantissa = width - 5;
        let (exponent, fraction) = (bits >> mantissa, f64::from(bits & ((1 << mantissa) - 1)));
        match exponent {
            0 => fraction * f64::powi(2.0, -14 - mantissa as i32),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction / f64::powi(2.0, mantissa as i32)) * f64::powi(2.0, exponent as i32 - 15),
        }
    }

    /// Component `at` of an element, as it is loaded.
    fn load(&self, bytes: &[u8], at: usize) -> u32 {
        let Some(&width) = self.bits.get(at) else { return if at == 3 { self.one() } else { 0 } };
        let first: u32 = self.bits[..at].iter().sum();
        let bit = |n: u32| u32::from(bytes[(first + n) as usize / 8] >> ((first + n) % 8) & 1);
        let value = (0..width).fold(0, |value, n| value | bit(n) << n);
        let signed = i64::from(value) - if bit(width - 1) != 0 { 1 << width } else { 0 };
        let most = |bits: u32| f64::powi(2.0, bits as i32) - 1.0;
        let float = match self.kind {
            "UINT" => return value,
            "SINT" => return signed as u32,
            "UNORM" => f64::from(value) / most(width),
            "SNORM" => (signed as f64 / most(width - 1)).max(-1.0),
            "USCALED" => f64::from(value),
            "SSCALED" => signed as f64,
            _ if width == 32 => return value,
            _ if width == 16 => F16.get(value.into()),
            _ => Self::small(value, width),
        };
        (float as f32).to_bits()
    }

    /// The bits of component `at` for a value in a register.
    fn store(&self, value: u32, at: usize) -> u32 {
        let width = self.bits[at];
        let float = f64::from(f32::from_bits(value));
        let greatest = ((1u64 << width) - 1) as i64;
        let (least, most) = (-(greatest / 2) - 1, greatest / 2);
        let number = match self.kind {
            "UINT" => i64::from(value).min(greatest),
            "SINT" => i64::from(value as i32).clamp(least, most),
            "UNORM" => (float.clamp(0.0, 1.0) * greatest as f64).round_ties_even() as i64,
            "SNORM" => (float.clamp(-1.0, 1.0) * most as f64).round_ties_even() as i64,
            "USCALED" => (float.trunc() as i64).clamp(0, greatest),
            "SSCALED" => (float.trunc() as i64).clamp(least, most),
            _ if width == 32 => value.into(),
            _ if width == 16 => F16.round(float) as i64,
            _ => {
                // The nearest of all, the even one of two.
                let numbers = 0..31 << (width - 5);
                let far = |bits: &u32| ((Self::small(*bits, width) - float.max(0.0)).abs(), bits & 1);
                numbers.min_by(|a, b| far(a).partial_cmp(&far(b)).unwrap()).unwrap().into()
            }
        };
        (number & greatest) as u32
    }

    /// Something to store: around the limits of the format, or anything.
    fn value(&self, width: u32, random: &mut Random) -> u32 {
        let limit = 1i64 << width.min(31);
        let near = i64::from(random.below(6)) - 3 + [0, limit / 2, limit, -limit / 2][random.below(4) as usize];
        match (self.kind, random.below(3)) {
            ("UINT" | "SINT", 0) => random.next(),
            ("UINT" | "SINT", _) => near as u32,
            ("UNORM" | "SNORM", 0) => [f32::NAN, -0.0, f32::INFINITY][random.below(3) as usize].to_bits(),
            ("UNORM" | "SNORM", _) => (random.below(3000) as f32 / 1000.0 - 1.5).to_bits(),
            ("USCALED" | "SSCALED", _) => (near as f32 + random.below(4) as f32 / 4.0).to_bits(),
            // Of all sizes that halves and smaller ones have.
            _ => {
                (((f64::from(random.next()) - 1e9) * f64::powi(2.0, -(random.below(52) as i32) - 16)) as f32).to_bits()
            }
        }
    }
}

/// Where an instruction has its components.
#[derive(Clone, Copy, PartialEq)]
enum Registers {
    Whole,
    Halves,
    High,
}

impl Registers {
    fn of(op: Op) -> Registers {
        match op.name() {
            name if name.contains("d16_hi") => Registers::High,
            name if name.contains("d16") => Registers::Halves,
            _ => Registers::Whole,
        }
    }

    fn put(self, state: &mut State, lane: usize, first: usize, at: usize, value: u32, element: &Element) {
        let float = f64::from(f32::from_bits(value));
        let half = match element.kind {
            _ if element.is_integer() => value & 0xffff,
            // Floats of 32 bits are cut off, all else is rounded (CDNA5 ISA 9.3.1).
            "FLOAT" if element.bits[0] == 32 => F16.truncate(float) as u32,
            _ => F16.round(float) as u32,
        };
        let (register, shift) = match self {
            Registers::Whole => return state.v[first + at][lane] = value,
            Registers::Halves => (first + at / 2, 16 * (at % 2)),
            Registers::High => (first, 16),
        };
        let word = &mut state.v[register][lane];
        *word = *word & !(0xffff << shift) | half << shift;
    }

    fn get(self, state: &State, lane: usize, first: usize, at: usize, element: &Element) -> u32 {
        let half = match self {
            Registers::Whole => return state.v[first + at][lane],
            Registers::Halves => state.v[first + at / 2][lane] >> (16 * (at % 2)) & 0xffff,
            Registers::High => state.v[first][lane] >> 16,
        };
        match element.kind {
            "UINT" => half,
            "SINT" => half as i16 as u32,
            _ => (F16.get(half.into()) as f32).to_bits(),
        }
    }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let converts = |op: &Op| op.name().contains("_format_");
    let ops: Vec<Op> = implemented(machine).filter(converts).collect();
    if ops.is_empty() {
        return Vec::new();
    }
    let formats = formats(machine);
    let mut cases = Vec::new();
    for (n, element) in formats.iter().enumerate() {
        // Each op with some of the formats, each format with some of the ops.
        for op in ops.iter().skip(n % 3).step_by(3) {
            cases.extend(case(machine, *op, element, random));
        }
    }
    cases
}

fn case(machine: Machine, op: Op, element: &Element, random: &mut Random) -> Option<Case> {
    let typed = format(machine, op) == Some(Format::Mtbuf);
    let load = op.name().contains("load");
    let registers = Registers::of(op);
    let count = op.name().rsplit('_').next().unwrap().len();
    let mut selects = [4, 5, 6, 7];
    if !typed {
        // Components change places; a load may take constants for some of them.
        selects[..element.bits.len()].rotate_left(random.below(4) as usize % element.bits.len());
        if load && random.one_in(2) {
            selects[random.below(4) as usize] = random.below(2);
        }
    }
    let stored = |at: usize| selects[..count].iter().position(|select| *select == 4 + at as u32);
    let whole_bytes = element.bits.iter().all(|bits| bits % 8 == 0);
    if !load && !whole_bytes && (0..element.bits.len()).any(|at| stored(at).is_none()) {
        return None;
    }
    let indexed = random.one_in(2);
    let mut before = State::random(machine, random);
    before.memory = (0..1024).map(|_| random.next() as u8).collect();
    let start = before.memory.as_ptr() as u64 + 64;
    before.s[RESOURCE] = start as u32;
    before.s[RESOURCE + 1] = (start >> 32) as u32 | if indexed { 16 << 16 } else { 0 };
    before.s[RESOURCE + 2] = (if indexed { RECORDS } else { RECORDS * 16 }) as u32;
    let number = match machine.gfx9() {
        true => (element.number & 15) << 3 | element.number >> 4,
        false => element.number,
    };
    let select = (0..4).fold(0, |word, at| word | selects[at] << (3 * at));
    let bounds = match (machine.gfx9(), indexed) {
        (true, _) => 0,
        (false, true) => 1 << 28,
        (false, false) => 3 << 28,
    };
    before.s[RESOURCE + 3] = select | bounds | if typed { 0 } else { number << 12 };
    let element_of = |lane: usize| (lane * 7 + 3) % 32;
    for lane in 0..64 {
        before.v[0][lane] = (element_of(lane) * if indexed { 1 } else { 16 }) as u32;
        for at in 0..count {
            let value = element.value(*element.bits.get(at).unwrap_or(&8), random);
            registers.put(&mut before, lane, DATA, at, value, element);
        }
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let inside = element_of(lane) < RECORDS;
        let first = 64 + 16 * element_of(lane);
        if load {
            for (at, select) in selects[..count].iter().enumerate() {
                let value = match select {
                    1 => element.one(),
                    0 => 0,
                    _ if !inside => 0,
                    select => element.load(&before.memory[first..], *select as usize - 4),
                };
                registers.put(&mut after, lane, DST, at, value, element);
            }
        } else if inside {
            let mut bit = 0;
            for (at, width) in element.bits.iter().enumerate() {
                if let Some(from) = stored(at) {
                    let value = element.store(registers.get(&before, lane, DATA, from, element), at);
                    for n in 0..*width {
                        let (byte, mask) = (first + (bit + n) as usize / 8, 1 << ((bit + n) % 8));
                        after.memory[byte] = after.memory[byte] & !mask | if value >> n & 1 != 0 { mask } else { 0 };
                    }
                }
                bit += width;
            }
        }
    }
    assert!(element.bytes() <= 16);
    let (data, ty) = if load { (DST, op.info().dst) } else { (DATA, op.info().src[1]) };
    let tuple = match ty {
        Ty::B32 => format!("v{data}"),
        ty => format!("v[{data}:{}]", data + usize::from(ty.dwords(false)) - 1),
    };
    let text = format!(
        "{} {tuple}, v0, s[{RESOURCE}:{}], {}{} {}",
        op.name_on(machine.target),
        RESOURCE + 3,
        if machine.target.is_gfx12() { "null" } else { "0" },
        if typed { format!(" format:[{}]", element.name) } else { String::new() },
        if indexed { "idxen" } else { "offen" },
    );
    let mut case = Case::new(text, before, after);
    if load && !element.is_integer() {
        let kind = if registers == Registers::Whole { Float::F32 } else { Float::F16(3) };
        case.floats.extend((DST..DST + 4).map(|n| (n, kind)));
    }
    Some(case)
}
