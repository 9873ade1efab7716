// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for vector compares.

use crate::machine::{Case, Machine, State, VCC, format, implemented};
use crate::num;
use crate::reference::{suffix, wide};
use crate::vector::{SOURCES, Variant, fill, modified, source};
use random::Random;
use sim_isa::{Format, Op};

/// True if `v_cmp_<predicate>_<type>` holds.
pub fn holds(name: &str, a: u64, b: u64) -> bool {
    let (stem, ty) = name.rsplit_once('_').unwrap();
    let predicate = stem.rsplit_once('_').unwrap().1;
    if let Some((_, format)) = suffix(name) {
        let (x, y) = (format.get(a), format.get(b));
        let unordered = x.is_nan() || y.is_nan();
        return match predicate {
            "class" => num::class(format, a) & b as u32 != 0,
            "f" => false,
            "lt" => x < y,
            "eq" => x == y,
            "le" => x <= y,
            "gt" => x > y,
            "lg" => !unordered && x != y,
            "ge" => x >= y,
            "o" => !unordered,
            "u" => unordered,
            "nge" => unordered || x < y,
            "nlg" => unordered || x == y,
            "ngt" => unordered || x <= y,
            "nle" => unordered || x > y,
            "neq" => unordered || x != y,
            "nlt" => unordered || x >= y,
            "t" => true,
            other => panic!("predicate {other}"),
        };
    }
    let bits: u32 = ty[1..].parse().unwrap();
    let (x, y) = (wide(a, bits, ty.starts_with('i')), wide(b, bits, ty.starts_with('i')));
    match predicate {
        "f" => false,
        "lt" => x < y,
        "eq" => x == y,
        "le" => x <= y,
        "gt" => x > y,
        "ne" => x != y,
        "ge" => x >= y,
        "t" => true,
        other => panic!("predicate {other}"),
    }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    use Variant::*;
    let variants = [
        Short,
        Short,
        Scalar(0),
        Scalar(1),
        Integer(0),
        Integer(1),
        Float(1),
        Literal(0),
        Literal(1),
        Neg(0),
        Neg(1),
        Abs(0),
        Abs(1),
        NegAbs(0),
        Long,
        Long,
        Halves(1),
        Halves(2),
        Halves(3),
    ];
    let compares = implemented(machine).filter(move |op| format(machine, *op) == Some(Format::Vopc));
    // Earlier targets compare low halves only.
    let variants = variants.into_iter().filter(|variant| !machine.before_gfx11() || !matches!(variant, Halves(_)));
    compares
        .flat_map(|op| variants.clone().map(|variant| case(machine, op, variant, random)).collect::<Vec<_>>())
        .collect()
}

fn case(machine: Machine, op: Op, variant: Variant, random: &mut Random) -> Case {
    let (name, info) = (op.name(), op.info());
    let exec_written = name.starts_with("v_cmpx_");
    let mut before = State::random(machine, random);
    for (at, ty) in info.src.iter().enumerate() {
        fill(&mut before, SOURCES[at], *ty, random);
    }
    // Equal operands are rare among random ones.
    for lane in 0..64 {
        if !random.one_in(3) {
            continue;
        }
        if name.contains("class") {
            before.v[4][lane] = 1 << random.below(10);
        } else {
            (before.v[4][lane], before.v[5][lane]) = (before.v[0][lane], before.v[1][lane]);
        }
    }
    let mut items = Vec::new();
    let short = variant == Variant::Short;
    // GFX9 writes both.
    let mask_written = !exec_written || machine.gfx9();
    if mask_written {
        items.push(if short { machine.vcc().to_owned() } else { machine.mask(20) });
    }
    let mut values = Vec::new();
    for (at, ty) in info.src.iter().enumerate() {
        let (lanes, text) = modified(source(machine, &before, at, *ty, variant), at, *ty, variant);
        values.push(lanes);
        items.push(text);
    }
    let mut after = before.clone();
    let mut mask = 0;
    for lane in before.active_lanes() {
        mask |= u64::from(holds(name, values[0][lane], values[1][lane])) << lane;
    }
    if exec_written {
        after.exec = mask;
    }
    if mask_written {
        after.set_mask(if short { VCC } else { 20 }, mask);
    }
    let text = format!("{}{} {}", op.name_on(machine.target), if short { "_e32" } else { "_e64" }, items.join(", "));
    let mut case = Case::new(text, before, after);
    case.optional = !short;
    case
}
