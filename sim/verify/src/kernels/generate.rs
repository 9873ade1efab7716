// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Random kernels in C, from a seed. Each is a sequence of phases with a barrier between them; a phase is statements on
//! the state of one work-item. On the host the phases run for one work-item after the other. `kernels.h` defines the
//! functions and types that the kernels use.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::expression::{Scope, Type, VARIABLES, condition, expression};
use random::Random;

/// Generator of one kernel. A seed gives the same statements, whichever of them are left out.
pub struct Generator<'a> {
    pub(super) random: Random,
    /// Numbers of statements to leave out.
    dropped: &'a BTreeSet<u32>,
    statements: u32,
    loops: u32,
    depth: u32,
}

/// Text of one kernel, and its number of statements.
pub struct Kernel {
    /// Functions for the GPU and for the host.
    pub text: String,
    /// Number of statements, including those left out.
    pub statements: u32,
    /// Number of work-items in a workgroup.
    pub group_size: u32,
    /// Number of workgroups.
    pub groups: u32,
}

/// Generates the kernel `name` from a seed, without the statements in `dropped`.
pub fn kernel(name: &str, seed: u64, dropped: &BTreeSet<u32>) -> Kernel {
    let mut generator = Generator { random: Random::new(seed), dropped, statements: 0, loops: 0, depth: 0 };
    generator.kernel(name)
}

impl Generator<'_> {
    fn kernel(&mut self, name: &str) -> Kernel {
        let group_size = self.pick(&[32, 64, 64, 96, 128, 256]);
        let groups = 1 + self.random.below(2);
        let phases = 1 + self.random.below(3);
        let mut text = String::new();
        let functions = 1 + self.random.below(3);
        let mut known = Vec::new();
        for index in 0..functions {
            let function = format!("{name}_f{index}");
            text += &self.function(&function, &mut known);
        }
        let scope = Scope { state: true, functions: &known, group_size, locals: &[] };
        for phase in 0..phases {
            let count = 3 + self.random.below(6);
            let body = self.block(&scope, count);
            let _ = writeln!(text, "INLINE void {name}_p{phase}(const env* e, state* s) {{\n{body}}}");
        }
        let (mut on_gpu, mut on_host) = (String::new(), String::new());
        for phase in 0..phases {
            // The words of LDS belong to the work-items in their order or the other way round.
            let place = if self.one_in(2) { "local" } else { &format!("{} - local", group_size - 1) };
            let _ = writeln!(on_gpu, "  {name}_p{phase}(&e, &s);\n  NEXT_PHASE({place});");
            let _ = writeln!(on_host, "  PHASE({name}_p{phase}, {place})");
            for _ in 0..self.random.below(3) {
                let (gpu, host) = self.crossing();
                on_gpu += &gpu;
                on_host += &host;
            }
        }
        let _ = writeln!(text, "#if DEVICE\nKERNEL({name}, {group_size})\n{on_gpu}END_KERNEL\n#else");
        let _ = writeln!(text, "HOST_KERNEL({name}, {group_size})\n{on_host}END_HOST_KERNEL\n#endif");
        Kernel { text, statements: self.statements, group_size, groups }
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.below(choices.len() as u32) as usize]
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.random.below(n) == 0
    }

    /// Generates a function of two to four arguments, with a loop in it.
    fn function(&mut self, name: &str, known: &mut Vec<(String, Type, Vec<Type>)>) -> String {
        let result = Type::scalar(self);
        let parameters: Vec<Type> = (0..2 + self.random.below(3)).map(|_| Type::any(self)).collect();
        let mut locals: Vec<(String, Type)> =
            parameters.iter().enumerate().map(|(n, &ty)| (format!("a{n}"), ty)).collect();
        locals.push(("r".to_owned(), result));
        let inner = known.clone();
        let scope = Scope { state: false, functions: &inner, group_size: 64, locals: &locals };
        let first = {
            let before = Scope { locals: &locals[..parameters.len()], ..scope };
            expression(self, &before, result, 2)
        };
        let again = expression(self, &scope, result, 3);
        let turns = 1 + self.random.below(4);
        let test = condition(self, &scope, 1);
        let listed: Vec<_> = parameters.iter().enumerate().map(|(n, ty)| format!("{} a{n}", ty.name())).collect();
        let kind = self.pick(&["NOINLINE", "NOINLINE", "INLINE"]);
        known.push((name.to_owned(), result, parameters));
        format!(
            "{kind} {ty} {name}({}) {{\n  {ty} r = {};\n  for (u32 i = 0; i < {turns}; ++i) {{\n    if ({test}) r = {};\n    else r = {};\n  }}\n  return r;\n}}\n",
            listed.join(", "),
            result.norm(&first),
            result.norm(&again),
            result.norm("r"),
            ty = result.name(),
        )
    }

    /// Generates an exchange between lanes, for the GPU and for the host, as one statement that can be left out.
    fn crossing(&mut self) -> (String, String) {
        let number = self.statements;
        self.statements += 1;
        let kind = self.pick(&[
            "swizzle",
            "dpp",
            "dpp",
            "dpp",
            "bpermute",
            "permute",
            "readlane",
            "first",
            "permlane",
            "permlanex",
            "ballot",
        ]);
        let bits = self.random.below(u32::MAX);
        let argument = match kind {
            "swizzle" if bits & 1 == 0 => 0x8000 | bits >> 8 & 0xff,
            "swizzle" => bits >> 8 & 0x7fff,
            "dpp" => {
                let n = 1 + self.random.below(15);
                let control = self.pick(&[bits & 0xff, 0x100 + n, 0x110 + n, 0x120 + n, 0x140, 0x141]);
                let masks = if self.one_in(3) { bits >> 12 & 0xff } else { 0xff };
                control | masks << 12 | (bits >> 31) << 20
            }
            _ => bits,
        };
        if self.dropped.contains(&number) {
            return (String::new(), String::new());
        }
        let host = if kind == "ballot" { "CROSS_BALLOT(" } else { &format!("CROSS_ALL({kind}, ") };
        let gpu = format!("  CROSS({kind}, {argument:#x}u)\n  MIX\n");
        (gpu, format!("  {host}{argument:#x}u)\n  MIX_ALL\n"))
    }

    fn block(&mut self, scope: &Scope, count: u32) -> String {
        self.depth += 1;
        let text = (0..count).map(|_| self.statement(scope)).collect();
        self.depth -= 1;
        text
    }

    fn statement(&mut self, scope: &Scope) -> String {
        let number = self.statements;
        self.statements += 1;
        let text = self.any_statement(scope);
        if self.dropped.contains(&number) { String::new() } else { text }
    }

    fn any_statement(&mut self, scope: &Scope) -> String {
        let nested = self.depth < 4;
        match self.random.below(if nested { 32 } else { 22 }) {
            0..=11 => self.assignment(scope),
            12 => self.array(scope),
            13 | 14 => {
                let (index, value) = (self.index(scope, 8), expression(self, scope, Type::U32, 2));
                format!("s->words[{index}] = {value};\n")
            }
            15 => {
                let (index, value) = (self.index(scope, 8), expression(self, scope, Type::U16, 2));
                format!("s->shorts[{index}] = {value};\n")
            }
            16 | 17 => self.shared_atomic(scope),
            18 => self.own_atomic(scope),
            19 => format!("e->shown[0] = {};\n", expression(self, scope, Type::U32, 2)),
            20 => {
                let ty = self.pick(&[Type::U8, Type::U16, Type::U32, Type::U64]);
                let (index, value) = (self.index(scope, 64 / ty.bytes()), expression(self, scope, ty, 2));
                format!("((GLOBAL {}*)e->row)[{index}] = {value};\n", ty.name())
            }
            21 => {
                let (lane, ty) = (self.random.below(4), self.pick(&[Type::I32, Type::F32, Type::U16]));
                let vector = ty.vector(4);
                let value = expression(self, scope, ty, 2);
                format!("s->{}_0[{}] = {};\n", vector.name(), lane, ty.norm(&value))
            }
            22..=25 => {
                let test = condition(self, scope, 2);
                let (yes, no) = (1 + self.random.below(3), self.random.below(3));
                let (yes, no) = (self.block(scope, yes), self.block(scope, no));
                format!("if ({test}) {{\n{yes}}} else {{\n{no}}}\n")
            }
            26..=28 if self.loops < 2 => {
                self.loops += 1;
                let number = self.statements;
                let turns = if self.one_in(2) {
                    (1 + self.random.below(5)).to_string()
                } else {
                    format!("1 + ({} & 3)", expression(self, scope, Type::U32, 2))
                };
                let count = 1 + self.random.below(3);
                let body = self.block(scope, count);
                let end = if self.one_in(2) {
                    let test = condition(self, scope, 1);
                    format!("if ({test}) {};\n", self.pick(&["break", "continue"]))
                } else {
                    String::new()
                };
                let more = self.assignment(scope);
                self.loops -= 1;
                format!(
                    "for (u32 turn{number} = 0, turns{number} = {turns}; turn{number} < turns{number}; ++turn{number}) {{\n{body}{end}{more}}}\n"
                )
            }
            29 | 30 => {
                let value = expression(self, scope, Type::U32, 2);
                let mut cases = String::new();
                for case in 0..self.random.below(4) + 2 {
                    let count = 1 + self.random.below(2);
                    let body = self.block(scope, count);
                    let end = if self.one_in(4) { "__attribute__((fallthrough));" } else { "break;" };
                    let _ = writeln!(cases, "case {case}:\n{body}{end}");
                }
                let last = self.assignment(scope);
                format!("switch ({value} & 7) {{\n{cases}default:\n{last}}}\n")
            }
            _ => self.assignment(scope),
        }
    }

    fn assignment(&mut self, scope: &Scope) -> String {
        let ty = if self.one_in(3) { Type::any(self) } else { Type::scalar(self) };
        let depth = 2 + self.random.below(3);
        let value = expression(self, scope, ty, depth);
        format!("s->{}_{} = {};\n", ty.name(), self.random.below(VARIABLES), ty.norm(&value))
    }

    fn index(&mut self, scope: &Scope, end: u32) -> String {
        if self.one_in(4) {
            return self.random.below(end).to_string();
        }
        let index = expression(self, scope, Type::U32, 1);
        self.place(&index, end)
    }

    /// A number below `end` that `index` decides.
    pub(super) fn place(&mut self, index: &str, end: u32) -> String {
        let operation = if end.is_power_of_two() { format!("& {}", end - 1) } else { format!("% {end}") };
        self.at_either_end(&format!("({index} {operation})"), end)
    }

    /// A number below `end`, counted from the beginning or from the end. When counted from the end, the last element's
    /// index is an immediate of the instruction and the number added to it is negative.
    pub(super) fn at_either_end(&mut self, number: &str, end: u32) -> String {
        match self.random.below(6) {
            0 | 1 => format!("{} - {number}", end - 1),
            2 => format!("{}l - (i64){number}", end - 1),
            _ => number.to_owned(),
        }
    }

    /// An array of the work-item's own, filled in a loop, written to once more and read at both ends.
    fn array(&mut self, scope: &Scope) -> String {
        let ty = self.pick(&[
            Type::U8,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::F32,
            Type::U16.vector(2),
            Type::U32.vector(4),
        ]);
        let (name, length, number) = (ty.name(), self.pick(&[8, 16, 24, 40]), self.statements);
        let turn = format!("at{number}");
        let locals: Vec<_> = scope.locals.iter().cloned().chain([(turn.clone(), Type::U32)]).collect();
        let value = ty.norm(&expression(self, &Scope { locals: &locals, ..*scope }, ty, 2));
        let once = ty.norm(&expression(self, scope, ty, 1));
        let [to, a, b] = [(); 3].map(|()| {
            let index = expression(self, scope, Type::U32, 1);
            self.place(&index, length)
        });
        let result = self.random.below(VARIABLES);
        let operator = if ty.is_float() { "-" } else { "^" };
        format!(
            "{{\n{name} array{number}[{length}];\n\
             for (u32 {turn} = 0; {turn} < {length}; ++{turn}) array{number}[{turn}] = {value};\n\
             array{number}[{to}] = {once};\n\
             s->{name}_{result} = {};\n}}\n",
            ty.norm(&format!("(array{number}[{a}] {operator} array{number}[{b}])"))
        )
    }

    /// Generates an atomic on a word that all work-items share. A word has one operation, which commutes with itself.
    fn shared_atomic(&mut self, scope: &Scope) -> String {
        let (cell, ty, operation) = self.pick(&[
            (0, Type::U32, "add"),
            (1, Type::U32, "and"),
            (2, Type::U32, "or"),
            (3, Type::U32, "xor"),
            (4, Type::U32, "min"),
            (5, Type::U32, "max"),
            (6, Type::I32, "min"),
            (7, Type::I32, "max"),
            (8, Type::U64, "add"),
            (9, Type::U64, "xor"),
            (10, Type::U64, "max"),
            (11, Type::I64, "min"),
            (12, Type::F32, "add"),
            (13, Type::F64, "add"),
            (14, Type::U16, "add"),
            (15, Type::U64, "sub"),
        ]);
        let value = match ty {
            // Small whole numbers, whose sum is exact in any order.
            Type::F32 | Type::F64 => format!("({})({} & 255)", ty.name(), expression(self, scope, Type::U32, 2)),
            _ => expression(self, scope, ty, 2),
        };
        let (space, cells, reach) =
            self.pick(&[("GLOBAL", "cells", "DEVICE"), ("GLOBAL", "cells", "SYSTEM"), ("LDS", "lds_cells", "WRKGRP")]);
        if ty == Type::U16 {
            return format!("ADD_U16({space}, e->{cells} + {cell}, {value}, {reach});\n");
        }
        format!("ATOMIC({operation}, ({space} {}*)(e->{cells} + {cell}), {value}, {reach});\n", ty.name())
    }

    /// Generates an atomic on a word that no other work-item uses, and uses the returned old value.
    fn own_atomic(&mut self, scope: &Scope) -> String {
        let ty = self.pick(&[Type::U32, Type::U64, Type::I32, Type::I64]);
        let operation = self.pick(&["add", "sub", "and", "or", "xor", "min", "max", "nand"]);
        let (name, value) = (ty.name(), expression(self, scope, ty, 2));
        let place = format!("(GLOBAL {name}*)(e->row + {})", self.random.below(8));
        let to = format!("s->{name}_{}", self.random.below(VARIABLES));
        match self.random.below(4) {
            0 => format!("{to} = EXCHANGE({place}, {value});\n"),
            1 => format!("{to} = COMPARE_EXCHANGE({name}, {place}, {to}, {value});\n"),
            _ => format!("{to} = ATOMIC({operation}, {place}, {value}, DEVICE);\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_kernel() {
        let text = |seed| kernel("k", seed, &BTreeSet::new()).text;
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn arrays_are_indexed_from_both_ends_and_waves_numbered() {
        let texts: String = (0..50).map(|seed| kernel("k", seed, &BTreeSet::new()).text).collect();
        for part in
            ["e->seen[63 - e->local]", "[63l - (i64)", "s->words[7 - (", "PHASE(255 - local)", "e->wave", "array"]
        {
            assert!(texts.contains(part), "{part}");
        }
    }

    #[test]
    fn statements_are_left_out_without_changing_others() {
        let whole = kernel("k", 7, &BTreeSet::new());
        let count = |dropped: BTreeSet<u32>| kernel("k", 7, &dropped).text.lines().count();
        assert!(whole.statements > 3);
        for number in 0..whole.statements {
            let less = kernel("k", 7, &BTreeSet::from([number]));
            assert_eq!(less.statements, whole.statements);
            let mut rest = whole.text.lines();
            assert!(less.text.lines().all(|line| rest.any(|other| other == line)), "{number}");
        }
        assert!(count((0..whole.statements).collect()) < whole.text.lines().count());
    }
}
