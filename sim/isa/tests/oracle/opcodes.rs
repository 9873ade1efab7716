// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Opcodes that LLVM's disassembler knows beyond the rows of the table.
//!
//! LLVM has no list of opcodes to ask for: each opcode of each encoding is tried with random operands, and counts as
//! known if LLVM takes any of them for one instruction.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use sim_isa::{DecodeFault, Target, decode};

use crate::{GFX9, GFX10, RDNA};
use random::Random;
use sim_llvm::disassemble;

/// Operands tried for each opcode.
const TRIES: usize = 32;

/// How targets encode.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Gfx9,
    Gfx10,
    Gfx11,
    Gfx12,
}

impl Family {
    fn of(target: Target) -> Self {
        match target {
            target if target.is_gfx9() => Family::Gfx9,
            target if target.is_before_gfx11() => Family::Gfx10,
            target if target.is_gfx12() => Family::Gfx12,
            _ => Family::Gfx11,
        }
    }
}

/// Every opcode that LLVM knows has a row, or its mnemonic is in `names.txt` and in the decoder's error.
///
/// The file that `SIM_ISA_KNOWN` names gets a line for each opcode LLVM knows: the processor, the encoding, the opcode,
/// the mnemonic; of the processor in `SIM_ISA_TARGET` alone if that is set, and `names.txt` is then not compared. The
/// file that `SIM_ISA_NAMES` names gets the new contents of `names.txt`, which is then not compared either.
/// `cargo xtask isa` sets them.
#[test]
fn what_llvm_knows_and_the_table_does_not_is_named() {
    let (mut lines, mut wrong) = (String::new(), String::new());
    let mut names: BTreeMap<(&str, u32, String), Vec<String>> = BTreeMap::new();
    let chosen = std::env::var("SIM_ISA_TARGET").ok();
    let targets = GFX9.into_iter().chain(GFX10).chain(RDNA);
    for (target, cpu) in targets.filter(|(_, cpu)| chosen.as_deref().is_none_or(|chosen| chosen == *cpu)) {
        for ((encoding, code), (name, words)) in known(target, cpu) {
            let _ = writeln!(lines, "{cpu} {encoding} {code} {name}");
            let Err(error) = decode(target, &words) else { continue };
            if !matches!(error.fault, DecodeFault::Encoding | DecodeFault::Opcode { .. }) {
                continue;
            }
            if error.mnemonic() != Some(&name) {
                let _ = writeln!(wrong, "{name} on {cpu}: {error}");
            }
            names.entry((encoding, code, name)).or_default().push(format!("{target:?}"));
        }
    }
    write("SIM_ISA_KNOWN", &lines);
    let mut text = String::new();
    for ((encoding, code, name), targets) in names {
        let _ = writeln!(text, "{encoding} {code:#04x} {} {name}", targets.join("|"));
    }
    if write("SIM_ISA_NAMES", &text) || chosen.is_some() {
        return;
    }
    let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) =
        (include_str!("../../src/names.txt").lines().collect(), text.lines().collect());
    let differing: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "names.txt is out of date (`cargo xtask isa --names` writes it) in {differing:#?}");
    assert!(wrong.is_empty(), "the decoder's errors lack the names of:\n{wrong}");
}

/// Writes the file that an environment variable names, if it does.
fn write(variable: &str, text: &str) -> bool {
    let Some(path) = std::env::var_os(variable) else { return false };
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
    true
}

/// The opcodes that LLVM knows, by encoding: the mnemonic and the words of one instruction.
fn known(target: Target, cpu: &str) -> BTreeMap<(&'static str, u32), (String, Vec<u32>)> {
    let mut known = BTreeMap::new();
    let family = Family::of(target);
    for (format, first, last) in formats(family) {
        let mut random = Random(0x5eed);
        let codes: Vec<u32> = (first..=last).flat_map(|code| std::iter::repeat_n(code, TRIES)).collect();
        let samples: Vec<_> = codes.iter().map(|code| sample(family, format, *code, &mut random)).collect();
        for ((code, words), text) in codes.into_iter().zip(&samples).zip(disassemble(cpu, &samples)) {
            // Texts that LLVM itself calls malformed do not count.
            let Some(text) = text.filter(|text| !text.contains("Invalid")) else { continue };
            let name = text.split(' ').next().unwrap_or_default();
            let suffixes = ["_e32", "_e64", "_dpp", "_sdwa"];
            let name = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            known.entry((format, code)).or_insert_with(|| (name.to_owned(), words.clone()));
        }
    }
    known
}

/// Encodings, and first and last opcode in them that is not another encoding's, nor a short one's in 64 bits.
fn formats(family: Family) -> Vec<(&'static str, u32, u32)> {
    let (smem, mubuf, typed, flat) = match family {
        Family::Gfx9 => (0xff, 0x7f, (0, 0xf), 0x7f),
        Family::Gfx10 => (0xff, 0xff, (0, 0xf), 0x7f),
        Family::Gfx11 => (0xff, 0xff, (0, 0xf), 0x7f),
        Family::Gfx12 => (0x3f, 0x7f, (0x80, 0x8f), 0xff),
    };
    let mut formats = vec![
        ("Sop1", 0, 0xff),
        ("Sop2", 0, 0x5f),
        ("Sopc", 0, 0x7f),
        ("Sopk", 0, 0x1c),
        ("Sopp", 0, 0x7f),
        ("Vop1", 0, 0x7f),
        ("Vop2", 0, 0x3d),
        ("Vopc", 0, 0xff),
        ("Vop3p", 0, if family == Family::Gfx12 { 0xff } else { 0x7f }),
        ("Ds", 0, 0xff),
        ("Smem", 0, smem),
        ("Mubuf", 0, mubuf),
        ("Mtbuf", typed.0, typed.1),
        ("Flat", 0, flat),
        ("Global", 0, flat),
        ("Scratch", 0, flat),
    ];
    formats.extend(match family {
        Family::Gfx9 => vec![("Vop3", 0x1c0, 0x37f), ("Mimg", 0, 0xff), ("Vintrp", 0, 3)],
        _ => vec![("Vop3", 0x140, 0x17f), ("Vop3", 0x200, 0x3ff)],
    });
    formats.extend(match family {
        Family::Gfx9 => vec![],
        Family::Gfx10 => vec![("Mimg", 0, 0xff), ("Vintrp", 0, 3)],
        Family::Gfx11 => vec![("Mimg", 0, 0xff), ("Vinterp", 0, 0x7f), ("Ldsdir", 0, 3)],
        Family::Gfx12 => vec![("Vimage", 0, 0xff), ("Vsample", 0, 0xff), ("Vinterp", 0, 0x7f), ("Ldsdir", 0, 3)],
    });
    formats.push(("Exp", 0, 0));
    formats
}

/// Words of an opcode with random operands, mostly such as instructions have.
fn sample(family: Family, format: &str, code: u32, random: &mut Random) -> Vec<u32> {
    let gfx9 = family == Family::Gfx9;
    let scalar = |random: &mut Random| random.below(26) * 4;
    let lane = |random: &mut Random| random.below(120) * 2;
    // A register that may be missing.
    let maybe = |random: &mut Random| if random.below(2) == 0 { 0 } else { lane(random) };
    match format {
        "Sop1" => vec![0xbe80_0000 | scalar(random) << 16 | code << 8 | scalar(random)],
        "Sop2" => vec![0x8000_0000 | code << 23 | scalar(random) << 16 | scalar(random) << 8 | scalar(random)],
        "Sopc" => vec![0xbf00_0000 | code << 16 | scalar(random) << 8 | scalar(random)],
        "Sopk" => vec![0xb000_0000 | code << 23 | scalar(random) << 16 | random.below(0x1_0000), 0],
        "Sopp" => vec![0xbf80_0000 | code << 16 | [0, 1, random.below(0x1_0000)][random.below(3) as usize]],
        "Vop1" => {
            let source = if random.below(3) == 0 { scalar(random) } else { 256 + random.below(64) * 2 };
            vec![0x7e00_0000 | lane(random) << 17 | code << 9 | source]
        }
        "Vop2" => vec![code << 25 | lane(random) << 17 | lane(random) << 9 | (256 + lane(random))],
        "Vopc" => vec![0x7c00_0000 | code << 17 | lane(random) << 9 | (256 + lane(random))],
        "Vop3" => {
            let mut sources = [0; 3];
            let count = 1 + random.below(3) as usize;
            for source in &mut sources[..count] {
                *source = if random.below(3) == 0 { scalar(random) } else { 256 + lane(random) };
            }
            let base = if gfx9 { 0xd000_0000 } else { 0xd400_0000 };
            let dst = if random.below(2) == 0 { scalar(random) } else { lane(random) };
            let second = if random.below(4) == 0 { scalar(random) << 8 } else { 0 };
            vec![base | code << 16 | dst | second, sources[0] | sources[1] << 9 | sources[2] << 18]
        }
        "Vop3p" => {
            let tuple = |random: &mut Random| 256 + random.below(25) * 8;
            let mut sources = [tuple(random), tuple(random), tuple(random)];
            match random.below(4) {
                0 => sources[2] = 128,
                1 => (sources[1], sources[2]) = (0, 0),
                _ => {}
            }
            let base = if gfx9 { 0xd380_0000 } else { 0xcc00_0000 };
            if family == Family::Gfx12 && matches!(code, 0x35 | 0x3a) {
                // Scales alone: their matrix op follows in two further dwords.
                return vec![base | code << 16, sources[0] | sources[1] << 9 | 256 << 18];
            }
            let (low, high) = if random.below(2) == 0 { (0, 0) } else { (1 << 14, 3 << 27) };
            let accumulates = if gfx9 && code >= 0x40 && random.below(2) == 0 { 1 << 15 } else { 0 };
            let dst = random.below(25) * 8;
            vec![base | code << 16 | low | accumulates | dst, sources[0] | sources[1] << 9 | sources[2] << 18 | high]
        }
        "Ds" => {
            let offset = if random.below(2) == 0 { 0 } else { random.below(256) };
            let high = lane(random) | maybe(random) << 8 | maybe(random) << 16 | maybe(random) << 24;
            vec![0xd800_0000 | code << if gfx9 { 17 } else { 18 } | offset, high]
        }
        "Smem" => {
            let data = random.below(13) << if random.below(2) == 0 { 7 } else { 8 };
            let low = random.below(26) * 2 + data;
            match family {
                Family::Gfx9 => vec![0xc002_0000 | code << 18 | low, random.below(256)],
                Family::Gfx10 => vec![0xf400_0000 | code << 18 | low, 125 << 25],
                Family::Gfx11 => vec![0xf400_0000 | code << 18 | low, 124 << 25],
                Family::Gfx12 => vec![0xf400_0000 | code << 13 | low, 124 << 25 | random.below(256)],
            }
        }
        // The tensor unit's two.
        "Vimage" if matches!(code, 0xc4 | 0xc5) => {
            vec![0xd040_0001 | code << 14, 0x7c00_0000, 0x7c7c_0400]
        }
        "Mimg" | "Vimage" | "Vsample" | "Exp" | "Vintrp" | "Vinterp" | "Ldsdir" => {
            graphics(family, format, code, random)
        }
        "Mubuf" | "Mtbuf" => buffer(family, format == "Mtbuf", code, random),
        _ => flat(family, format, code, random),
    }
}

fn buffer(family: Family, typed: bool, code: u32, random: &mut Random) -> Vec<u32> {
    let (resource, data, address) = (random.below(25), random.below(120) * 2, random.below(120) * 2);
    let addressing = random.below(4);
    let address = if addressing == 0 { 0 } else { address };
    let data_format = if typed { 1 + random.below(60) } else { 0 };
    if family == Family::Gfx12 {
        let hint = random.below(2) << 20;
        let high = data | resource << 11 | addressing << 30 | hint | data_format << 23;
        return vec![0xc400_0000 | code << 14 | 124, high, address];
    }
    // Instructions without operands need zeros.
    if !typed && random.below(4) == 0 {
        return vec![0xe000_0000 | code << 18, 0];
    }
    let returns = random.below(2) << 14;
    let lds = if !typed && family != Family::Gfx11 && random.below(4) == 0 { 1 << 16 } else { 0 };
    let data = if lds != 0 { 0 } else { data };
    let (in_low, in_high) = if family == Family::Gfx11 { (0, addressing << 22) } else { (addressing << 12, 0) };
    let low = match (typed, family) {
        (false, _) => 0xe000_0000 | code << 18 | lds,
        (true, Family::Gfx10) => 0xe800_0000 | (code & 7) << 16 | data_format << 19,
        (true, _) => 0xe800_0000 | code << 15 | data_format << 19,
    };
    let upper_code = if typed && family == Family::Gfx10 { (code >> 3) << 21 } else { 0 };
    vec![low | in_low | returns, address | data << 8 | resource << 16 | in_high | upper_code | 128 << 24]
}

fn flat(family: Family, format: &str, code: u32, random: &mut Random) -> Vec<u32> {
    let segment = ["Flat", "Scratch", "Global"].iter().position(|name| *name == format).unwrap_or_default() as u32;
    let register = |random: &mut Random| if random.below(2) == 0 { 0 } else { random.below(120) * 2 };
    let (address, data, dst) = (register(random), register(random), register(random));
    let none = match family {
        Family::Gfx9 => 127,
        Family::Gfx10 => 125,
        Family::Gfx11 | Family::Gfx12 => 124,
    };
    // GFX9's flat accesses have no scalar address: the field is zero.
    let base = match (segment, family) {
        (0, Family::Gfx9) => 0,
        (0, _) => none,
        _ if random.below(2) == 0 => none,
        _ => random.below(26) * 4,
    };
    let returns = random.below(2);
    match family {
        Family::Gfx12 => {
            let has_address = if segment == 1 { random.below(2) << 17 } else { 0 };
            vec![
                0xec00_0000 | segment << 24 | code << 14 | base,
                dst | data << 23 | returns << 20 | has_address,
                address,
            ]
        }
        Family::Gfx11 => {
            let has_address = if segment == 1 { random.below(2) << 23 } else { 0 };
            let low = 0xdc00_0000 | code << 18 | segment << 16 | returns << 14;
            vec![low, address | data << 8 | base << 16 | dst << 24 | has_address]
        }
        _ => {
            let low = 0xdc00_0000 | code << 18 | segment << 14 | returns << 16;
            vec![low, address | data << 8 | base << 16 | dst << 24]
        }
    }
}

/// Graphics instructions, which no compute kernel has.
fn graphics(family: Family, format: &str, code: u32, random: &mut Random) -> Vec<u32> {
    let register = |random: &mut Random| random.below(50) * 4;
    let (data, address) = (register(random), register(random));
    let (resource, dimension) = (random.below(12) * 2, random.below(8));
    // Instructions without a sampler need zeros. Rays need all components, and resources of four registers.
    let sampler = random.below(2) * 4;
    let rays = random.below(3) == 0;
    let components = if rays { 15 } else { 1 << random.below(4) };
    let image = |rays_too: u32, dimension: u32| components << 8 | if rays { rays_too } else { dimension };
    match (format, family) {
        ("Exp", Family::Gfx9) => vec![0xc400_000f, 0x0302_0100],
        ("Exp", _) => vec![0xf800_000f, 0x0302_0100],
        ("Vintrp", Family::Gfx9) => vec![0xd400_0000 | register(random) << 18 | code << 16 | address],
        ("Vintrp", _) => vec![0xc800_0000 | register(random) << 18 | code << 16 | address],
        ("Vinterp", _) => vec![0xcd00_0000 | code << 16 | data, 0x0402_0100 | 1 << 26 | 1 << 17 | 1 << 8],
        ("Ldsdir", _) => vec![0xce00_0000 | code << 20 | data],
        ("Mimg", Family::Gfx9 | Family::Gfx10) => {
            let fields = image(0x9000, if family == Family::Gfx9 { 0 } else { dimension << 3 });
            let low = 0xf000_0000 | (code & 0x7f) << 18 | code >> 7 | fields;
            vec![low, address | data << 8 | resource << 16 | sampler << 21]
        }
        ("Mimg", _) => {
            let low = 0xf000_0000 | code << 18 | image(0x8080, dimension << 2);
            vec![low, address | data << 8 | resource << 16 | sampler << 26]
        }
        (_, _) => {
            let base = if format == "Vimage" { 0xd000_0000 } else { 0xe400_0000 };
            let low = base | components << 22 | code << 14 | if rays { 1 << 4 } else { dimension };
            let more = 0x0c08_0400 & (u32::MAX >> (8 * random.below(4)));
            vec![low, data | resource << 11 | sampler << 23, address | more]
        }
    }
}
