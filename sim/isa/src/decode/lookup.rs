// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From opcodes to ops.

use std::sync::OnceLock;

use crate::encoding::Format;
use crate::op::Op;
use crate::target::Target;

/// Opcode to op, for each encoding of one target.
struct Lookup {
    by_format: Vec<Vec<Option<Op>>>,
}

impl Lookup {
    fn new(target: Target) -> Self {
        let mut lookup = Lookup { by_format: vec![Vec::new(); Format::Vimage as usize + 1] };
        for op in Op::all() {
            for encoding in op.encodings(target) {
                lookup.insert(encoding.format, encoding.code, op);
                let vop3_base = match encoding.format {
                    Format::Vopc => 0,
                    Format::Vop2 => 0x100,
                    Format::Vop1 if target.is_gfx9() => 0x140,
                    Format::Vop1 => 0x180,
                    Format::Vop3sd => {
                        lookup.insert(Format::Vop3, encoding.code, op);
                        continue;
                    }
                    _ => continue,
                };
                if !op.is_short_only(target) {
                    lookup.insert(Format::Vop3, vop3_base + encoding.code, op);
                }
            }
        }
        lookup
    }

    fn insert(&mut self, format: Format, code: u16, op: Op) {
        let ops = &mut self.by_format[format as usize];
        let at = usize::from(code);
        if ops.len() <= at {
            ops.resize(at + 1, None);
        }
        assert!(ops[at].replace(op).is_none_or(|old| old == op), "two rows share {format:?} {code:#x}");
    }

    fn get(&self, format: Format, code: u32) -> Option<Op> {
        self.by_format[format as usize].get(code as usize).copied().flatten()
    }
}

/// In the order of [`Target`]; each is made when the first instruction of its target is decoded.
static LOOKUPS: [OnceLock<Lookup>; Target::COUNT] = [const { OnceLock::new() }; Target::COUNT];

/// The op of an opcode, if the target has it.
pub(super) fn lookup(target: Target, format: Format, code: u32) -> Option<Op> {
    LOOKUPS[target as usize].get_or_init(|| Lookup::new(target)).get(format, code)
}
