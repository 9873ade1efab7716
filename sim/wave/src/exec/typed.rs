// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Buffer accesses that convert: `tbuffer_*` by the format in the instruction, `buffer_*_format_*` by that of the
//! resource, which also selects components (Vega, RDNA2, RDNA3 ISA, chapters on vector memory buffer instructions).

use super::access::{check_host, load_local, store_local};
use super::address::{Buffer, Lanes, addresses, unknown};
use super::float::{f32_to_half, f32_to_half_rtz, half_to_f32};
use super::lanes::each_lane;
use crate::fault::Access;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::wave::{Group, Wave};
use sim_isa::{Op, Target};

/// Meaning of a component's bits.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

/// Format of an element in memory: bits of its components from the lowest on, and their meaning.
#[derive(Clone, Copy)]
struct Format {
    bits: [u32; 4],
    kind: Kind,
}

use Kind::{Float, Sint, Snorm, Sscaled, Uint, Unorm, Uscaled};

const FIXED: &[Kind] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint];
const ALL: &[Kind] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint, Float];
const WORDS: &[Kind] = &[Uint, Sint, Float];

type Formats = [([u32; 4], &'static [Kind]); 14];

/// GFX9's data formats from 1 on with the kinds they come in. RDNA2's formats are these pairs, numbered in turn. LLVM
/// writes the names of the components from the highest bits down: this 11, 11, 10 is `10_11_11`.
static GFX10: Formats = [
    ([8, 0, 0, 0], FIXED),
    ([16, 0, 0, 0], ALL),
    ([8, 8, 0, 0], FIXED),
    ([32, 0, 0, 0], WORDS),
    ([16, 16, 0, 0], ALL),
    ([11, 11, 10, 0], ALL),
    ([10, 11, 11, 0], ALL),
    ([2, 10, 10, 10], FIXED),
    ([10, 10, 10, 2], FIXED),
    ([8, 8, 8, 8], FIXED),
    ([32, 32, 0, 0], WORDS),
    ([16, 16, 16, 16], ALL),
    ([32, 32, 32, 0], WORDS),
    ([32, 32, 32, 32], WORDS),
];

/// RDNA3 has fewer of the packed ones.
static GFX11: Formats = {
    let mut formats = GFX10;
    formats[5].1 = &[Float];
    formats[6].1 = &[Float];
    formats[7].1 = &[Unorm, Snorm, Uint, Sint];
    formats
};

impl Format {
    /// The format that a field of an instruction or resource means.
    fn numbered(target: Target, number: u32) -> Option<Self> {
        if target.is_gfx9() {
            let (bits, kinds) = GFX10[(number as usize & 15).checked_sub(1).filter(|at| *at < GFX10.len())?];
            let kind = *[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint].get(number as usize >> 4).unwrap_or(&Float);
            return (number >> 4 != 6 && kinds.contains(&kind)).then_some(Format { bits, kind });
        }
        let formats = if target.is_before_gfx11() { &GFX10 } else { &GFX11 };
        let mut pairs = formats.iter().flat_map(|(bits, kinds)| kinds.iter().map(|kind| (*bits, *kind)));
        let (bits, kind) = pairs.nth((number as usize).checked_sub(1)?)?;
        Some(Format { bits, kind })
    }

    /// Bytes of an element.
    fn size(self) -> u32 {
        self.bits.iter().sum::<u32>() / 8
    }

    /// Bits below component `at`.
    fn below(self, at: usize) -> u32 {
        self.bits[..at].iter().sum()
    }

    /// One as a component is loaded: a float unless the format is of integers.
    fn one(self) -> u32 {
        if matches!(self.kind, Uint | Sint) { 1 } else { 1f32.to_bits() }
    }

    /// Component `at` of an element, as a float or integer of 32 bits. A missing one is 0, or 1 in the last place.
    fn load(self, element: u128, at: usize) -> u32 {
        let bits = self.bits[at];
        if bits == 0 {
            return if at == 3 { self.one() } else { 0 };
        }
        let value = (element >> self.below(at)) as u32 & (u32::MAX >> (32 - bits));
        let signed = (value << (32 - bits)) as i32 >> (32 - bits);
        let float = match self.kind {
            Uint => return value,
            Sint => return signed as u32,
            Float => return float_bits(value, bits),
            Unorm => f64::from(value) / f64::from(u32::MAX >> (32 - bits)),
            Snorm => (f64::from(signed) / f64::from(u32::MAX >> (33 - bits))).max(-1.0),
            Uscaled => f64::from(value),
            Sscaled => f64::from(signed),
        };
        (float as f32).to_bits()
    }

    /// The bits of component `at`, from a float or integer of 32 bits, clamped to the nearest that fits.
    fn store(self, value: u32, at: usize) -> u32 {
        let bits = self.bits[at];
        let (greatest, positive) = (u32::MAX >> (32 - bits), u32::MAX >> (33 - bits).min(31));
        let float = f64::from(f32::from_bits(value));
        // Casts saturate, and make a NaN zero.
        let signed = |value: f64| (value as i64).clamp(-i64::from(positive) - 1, positive.into()) as u32 & greatest;
        match self.kind {
            Uint => value.min(greatest),
            Sint => signed(f64::from(value as i32)),
            Unorm => (float.clamp(0.0, 1.0) * f64::from(greatest)).round_ties_even() as u32,
            Snorm => signed((float.clamp(-1.0, 1.0) * f64::from(positive)).round_ties_even()),
            Uscaled => (float as u32).min(greatest),
            Sscaled => signed(float.trunc()),
            Float => match bits {
                32 => value,
                16 => f32_to_half(f32::from_bits(value)).into(),
                _ => small_unsigned(float, bits - 5),
            },
        }
    }
}

/// A float of 32, 16, 11 or 10 bits as one of 32. The smaller ones are halves without the sign and the lowest bits.
fn float_bits(value: u32, bits: u32) -> u32 {
    match bits {
        32 => value,
        16 => half_to_f32(value as u16).to_bits(),
        _ => half_to_f32((value << (15 - bits)) as u16).to_bits(),
    }
}

/// The nearest float without a sign, of five bits of exponent and `mantissa` bits.
fn small_unsigned(value: f64, mantissa: u32) -> u32 {
    let infinity = 31 << mantissa;
    if value.is_nan() {
        return infinity | 1 << (mantissa - 1);
    }
    let value = value.max(0.0);
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-14);
    let steps = (value / f64::powi(2.0, exponent - mantissa as i32)).round_ties_even();
    // A leading one counts as the first step of the exponent.
    let encoded = (f64::from(exponent + 14) * f64::powi(2.0, mantissa as i32) + steps) as u32;
    encoded.min(infinity)
}

/// How an instruction's registers hold components.
#[derive(Clone, Copy, PartialEq)]
enum Registers {
    /// One in each.
    Whole,
    /// Two of 16 bits in each.
    Halves,
    /// One in the upper half of one.
    High,
}

/// Parsed mnemonic.
#[derive(Clone, Copy)]
struct What {
    /// The format is in the instruction.
    typed: bool,
    components: usize,
    registers: Registers,
}

/// The handler of a converting access.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op.info().encodings[0].format {
        sim_isa::Format::Mtbuf => find::<true, L>(op),
        sim_isa::Format::Mubuf => find::<false, L>(op),
        _ => None,
    }
}

/// Handler of an op, by the part of its mnemonic after the space: one line serves MUBUF and MTBUF.
fn find<const TYPED: bool, const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! access {
        ($run:ident, $components:literal, $registers:ident) => {
            |wave, group, op| {
                let registers = Registers::$registers;
                $run(wave, group, op, What { typed: TYPED, components: $components, registers })
            }
        };
    }
    let (_, what) = op.name().split_once('_')?;
    Some(match what {
        "load_format_x" => access!(load, 1, Whole),
        "load_format_xy" => access!(load, 2, Whole),
        "load_format_xyz" => access!(load, 3, Whole),
        "load_format_xyzw" => access!(load, 4, Whole),
        "load_d16_format_x" => access!(load, 1, Halves),
        "load_d16_format_xy" => access!(load, 2, Halves),
        "load_d16_format_xyz" => access!(load, 3, Halves),
        "load_d16_format_xyzw" => access!(load, 4, Halves),
        "load_d16_hi_format_x" => access!(load, 1, High),
        "store_format_x" => access!(store, 1, Whole),
        "store_format_xy" => access!(store, 2, Whole),
        "store_format_xyz" => access!(store, 3, Whole),
        "store_format_xyzw" => access!(store, 4, Whole),
        "store_d16_format_x" => access!(store, 1, Halves),
        "store_d16_format_xy" => access!(store, 2, Halves),
        "store_d16_format_xyz" => access!(store, 3, Halves),
        "store_d16_format_xyzw" => access!(store, 4, Halves),
        "store_d16_hi_format_x" => access!(store, 1, High),
        _ => return None,
    })
}

/// The format of an access, and where its components come from: 0 and 1 are themselves, 4 to 7 the element's X to W.
fn format<const L: usize>(
    wave: &Wave<L>,
    target: Target,
    op: &MicroOp<L>,
    what: What,
) -> Result<(Format, [u32; 4]), Stop> {
    let word = wave.s[op.src[2].reg as usize + 3];
    let number = match what.typed {
        true => op.mem.buffer_format.into(),
        false if target.is_gfx9() => word >> 15 & 15 | (word >> 12 & 7) << 4,
        false if target.is_before_gfx11() => word >> 12 & 0x7f,
        false => word >> 12 & 0x3f,
    };
    let selects = if what.typed { [4, 5, 6, 7] } else { std::array::from_fn(|at| word >> (3 * at) & 7) };
    let format = Format::numbered(target, number).ok_or_else(|| unknown(&format!("buffer format {number}")))?;
    match selects[..what.components].iter().find(|select| matches!(select, 2 | 3)) {
        Some(select) => Err(unknown(&format!("component selection {select} of a buffer resource"))),
        None => Ok((format, selects)),
    }
}

/// Reads a lane's element.
fn read<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    lanes: &Lanes,
    lane: usize,
    size: u32,
) -> Result<u128, Stop> {
    let mut bytes = [0; 16];
    if lanes.local >> lane & 1 != 0 {
        load_local(wave, group, lane, &mut bytes[..size as usize])?;
    } else {
        for (at, byte) in bytes[..size as usize].iter_mut().enumerate() {
            // SAFETY: `check_host` found this lane's bytes readable.
            *byte = unsafe { (wave.addresses[lane] as *const u8).add(at).read() };
        }
    }
    Ok(u128::from_le_bytes(bytes))
}

fn load<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, what: What) -> Step {
    let (format, selects) = format(wave, group.target, op, what)?;
    let lanes = addresses::<Buffer, L>(wave, group, op, format.size())?;
    if lanes.host != 0 {
        check_host(wave, group, &lanes, format.size(), Access::Read)?;
    }
    for lane in each_lane(lanes.host | lanes.beyond | lanes.local) {
        let inside = lanes.beyond >> lane & 1 == 0;
        let element = if inside { read(wave, group, &lanes, lane, format.size())? } else { 0 };
        for (at, select) in selects[..what.components].iter().enumerate() {
            let value = match select {
                1 => format.one(),
                // Beyond the buffer all else is zero.
                4.. if inside => format.load(element, *select as usize - 4),
                _ => 0,
            };
            put(wave, op.dst as usize, lane, at, value, format, what.registers);
        }
    }
    Ok(())
}

/// Puts component `at` into a lane's registers.
fn put<const L: usize>(
    wave: &mut Wave<L>,
    first: usize,
    lane: usize,
    at: usize,
    value: u32,
    format: Format,
    registers: Registers,
) {
    let (register, shift) = match registers {
        Registers::Whole => {
            wave.v[first + at].0[lane] = value;
            return;
        }
        Registers::Halves => (first + at / 2, at % 2 * 16),
        Registers::High => (first, 16),
    };
    let half = match format.kind {
        Uint | Sint => value as u16,
        // Floats of 32 bits alone are cut off (CDNA5 ISA 9.3.1, as RDNA4's).
        Float if format.bits[0] == 32 => f32_to_half_rtz(f32::from_bits(value)),
        _ => f32_to_half(f32::from_bits(value)),
    };
    let old = &mut wave.v[register].0[lane];
    *old = *old & !(0xffff << shift) | u32::from(half) << shift;
}

/// Component `at` of a lane's data as a float or integer of 32 bits.
fn get<const L: usize>(
    wave: &Wave<L>,
    first: usize,
    lane: usize,
    at: usize,
    format: Format,
    registers: Registers,
) -> u32 {
    let half = match registers {
        Registers::Whole => return wave.v[first + at].0[lane],
        Registers::Halves => wave.v[first + at / 2].0[lane] >> (at % 2 * 16),
        Registers::High => wave.v[first].0[lane] >> 16,
    } as u16;
    match format.kind {
        Uint => half.into(),
        Sint => i32::from(half as i16) as u32,
        _ => half_to_f32(half).to_bits(),
    }
}

fn store<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, what: What) -> Step {
    let (format, selects) = format(wave, group.target, op, what)?;
    let size = format.size();
    let lanes = addresses::<Buffer, L>(wave, group, op, size)?;
    if lanes.host != 0 {
        check_host(wave, group, &lanes, size, Access::Write)?;
    }
    for lane in each_lane(lanes.host | lanes.local) {
        let (mut element, mut written) = (0, 0);
        for (at, bits) in format.bits.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            // The data that a load would get from here.
            let Some(from) = selects[..what.components].iter().position(|select| *select as usize == 4 + at) else {
                continue;
            };
            let value = get(wave, op.src[1].reg as usize, lane, from, format, what.registers);
            element |= u128::from(format.store(value, at)) << format.below(at);
            written |= u128::from(u32::MAX >> (32 - bits)) << format.below(at);
        }
        let masks = &written.to_le_bytes()[..size as usize];
        if masks.iter().any(|mask| !matches!(mask, 0 | 0xff)) {
            return Err(unknown("a store of some components of a packed buffer format"));
        }
        for (at, byte) in element.to_le_bytes().into_iter().enumerate().take(size as usize) {
            if masks[at] == 0 {
                continue;
            }
            if lanes.local >> lane & 1 != 0 {
                wave.addresses[lane] += at as u64;
                store_local(wave, group, lane, &[byte])?;
                wave.addresses[lane] -= at as u64;
            } else {
                // SAFETY: `check_host` found this lane's bytes writable.
                unsafe { (wave.addresses[lane] as *mut u8).add(at).write(byte) };
            }
        }
    }
    Ok(())
}
