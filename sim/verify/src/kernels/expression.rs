// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Random expressions of a type that are the same on all machines; see `kernels.h`.

use super::generate::Generator;

/// Variables of each type in a work-item's state.
pub const VARIABLES: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Element {
    Unsigned,
    Signed,
    Float,
}

/// A scalar, or a vector of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Type {
    element: Element,
    bits: u32,
    lanes: u32,
}

impl Type {
    pub const U8: Self = Self::of(Element::Unsigned, 8, 1);
    pub const U16: Self = Self::of(Element::Unsigned, 16, 1);
    pub const U32: Self = Self::of(Element::Unsigned, 32, 1);
    pub const U64: Self = Self::of(Element::Unsigned, 64, 1);
    pub const I8: Self = Self::of(Element::Signed, 8, 1);
    pub const I16: Self = Self::of(Element::Signed, 16, 1);
    pub const I32: Self = Self::of(Element::Signed, 32, 1);
    pub const I64: Self = Self::of(Element::Signed, 64, 1);
    pub const F16: Self = Self::of(Element::Float, 16, 1);
    pub const F32: Self = Self::of(Element::Float, 32, 1);
    pub const F64: Self = Self::of(Element::Float, 64, 1);

    pub const SCALARS: [Self; 11] = [
        Self::U32,
        Self::I32,
        Self::F32,
        Self::U64,
        Self::I64,
        Self::F64,
        Self::U16,
        Self::I16,
        Self::F16,
        Self::U8,
        Self::I8,
    ];
    pub const VECTORS: [Self; 17] = [
        Self::U8.vector(4),
        Self::I8.vector(4),
        Self::U16.vector(2),
        Self::I16.vector(2),
        Self::U16.vector(4),
        Self::I16.vector(4),
        Self::U32.vector(2),
        Self::I32.vector(2),
        Self::U32.vector(4),
        Self::I32.vector(4),
        Self::U64.vector(2),
        Self::I64.vector(2),
        Self::F16.vector(2),
        Self::F16.vector(4),
        Self::F32.vector(2),
        Self::F32.vector(4),
        Self::F64.vector(2),
    ];

    const fn of(element: Element, bits: u32, lanes: u32) -> Self {
        Self { element, bits, lanes }
    }

    pub const fn vector(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    fn lane(self) -> Self {
        self.vector(1)
    }

    fn unsigned(self) -> Self {
        Self { element: Element::Unsigned, ..self }
    }

    pub fn is_float(self) -> bool {
        self.element == Element::Float
    }

    pub fn bytes(self) -> u32 {
        self.bits / 8 * self.lanes
    }

    pub fn name(self) -> String {
        let letter = match self.element {
            Element::Unsigned => 'u',
            Element::Signed => 'i',
            Element::Float => 'f',
        };
        let lanes = if self.lanes == 1 { String::new() } else { format!("x{}", self.lanes) };
        format!("{letter}{}{lanes}", self.bits)
    }

    /// The value with one NaN only, as variables hold it.
    pub fn norm(self, value: &str) -> String {
        if self.is_float() { format!("norm_{}({value})", self.name()) } else { value.to_owned() }
    }

    pub fn scalar(generator: &mut Generator) -> Self {
        // The first are the commonest.
        let end = if generator.one_in(3) { Self::SCALARS.len() } else { 6 };
        generator.pick(&Self::SCALARS[..end])
    }

    pub fn any(generator: &mut Generator) -> Self {
        if generator.one_in(2) { Self::scalar(generator) } else { generator.pick(&Self::VECTORS) }
    }
}

/// Names that an expression may use.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// True if the work-item's state and IDs may be used.
    pub state: bool,
    /// Functions with their results and parameters.
    pub functions: &'a [(String, Type, Vec<Type>)],
    /// Number of work-items in a workgroup.
    pub group_size: u32,
    /// Other variables, with their types.
    pub locals: &'a [(String, Type)],
}

/// An expression of exactly this type.
pub fn expression(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    if depth == 0 {
        return leaf(g, scope, ty);
    }
    let depth = depth - 1;
    if g.one_in(12) {
        let fitting: Vec<_> = scope.functions.iter().filter(|(_, result, _)| *result == ty).collect();
        if let [.., (name, _, parameters)] = fitting[..] {
            let arguments: Vec<_> = parameters.iter().map(|&ty| expression(g, scope, ty, depth.min(1))).collect();
            return format!("{name}({})", arguments.join(", "));
        }
    }
    match (ty.lanes, ty.element) {
        (1, Element::Float) => float(g, scope, ty, depth),
        (1, _) => integer(g, scope, ty, depth),
        (_, Element::Float) => floats(g, scope, ty, depth),
        _ => integers(g, scope, ty, depth),
    }
}

/// A truth value.
pub fn condition(g: &mut Generator, scope: &Scope, depth: u32) -> String {
    match g.random.below(8) {
        0 => format!("({} & {})", expression(g, scope, Type::U32, depth), 1 << g.random.below(6)),
        1 if depth > 0 => {
            let (a, b) = (condition(g, scope, depth - 1), condition(g, scope, depth - 1));
            format!("({a} {} {b})", g.pick(&["&&", "||"]))
        }
        2 if depth > 0 => format!("!{}", condition(g, scope, depth - 1)),
        3 if scope.state => {
            let (number, end) = g.pick(&[("e->local", scope.group_size), ("e->wave", scope.group_size.div_ceil(32))]);
            let bound = g.random.below(end);
            format!("({number} {} {bound})", g.pick(&["<", ">", "==", "!="]))
        }
        _ => {
            let ty = Type::scalar(g);
            let (a, b) = (expression(g, scope, ty, depth), expression(g, scope, ty, depth));
            format!("({a} {} {b})", g.pick(&["<", ">", "<=", ">=", "==", "!="]))
        }
    }
}

fn leaf(g: &mut Generator, scope: &Scope, ty: Type) -> String {
    let fitting: Vec<&str> = scope.locals.iter().filter(|(_, of)| *of == ty).map(|(name, _)| name.as_str()).collect();
    if !fitting.is_empty() && !g.one_in(3) {
        return g.pick(&fitting).to_owned();
    }
    let name = ty.name();
    if !scope.state {
        return if ty.lanes > 1 { splat(g, scope, ty) } else { literal(g, ty) };
    }
    match g.random.below(10) {
        0 if ty == Type::U32 => g.pick(&["e->item", "e->local", "e->group", "e->wave", "e->arg32"]).to_owned(),
        0 if ty == Type::U64 => "e->arg64".to_owned(),
        0 if ty == Type::F32 => "e->argf".to_owned(),
        1 if ty.lanes == 1 => literal(g, ty),
        2 if ty.is_float() && ty.lanes == 1 => {
            format!("of_bits_{name}((({}*)e->in)[{}])", qualified(ty.unsigned()), g.random.below(64))
        }
        2 if !ty.is_float() => {
            format!("(({name})(({}*)e->in)[{}])", qualified(ty), g.random.below(64))
        }
        _ => format!("s->{name}_{}", g.random.below(VARIABLES)),
    }
}

fn qualified(ty: Type) -> String {
    format!("const GLOBAL {}", ty.name())
}

fn splat(g: &mut Generator, scope: &Scope, ty: Type) -> String {
    let lanes = (0..ty.lanes).map(|_| leaf(g, scope, ty.lane())).collect();
    vector(ty, lanes)
}

/// A vector of these. clang may not see where f16 are from: of a constant -0 beside another value it makes +0.
fn vector(ty: Type, mut lanes: Vec<String>) -> String {
    if ty.lane() == Type::F16 {
        lanes.iter_mut().for_each(|lane| *lane = format!("hidden_f16({lane})"));
    }
    format!("(({}){{{}}})", ty.name(), lanes.join(", "))
}

fn literal(g: &mut Generator, ty: Type) -> String {
    let name = ty.name();
    if ty.is_float() {
        let small = i64::from(g.random.below(129)) - 64;
        let value = g.pick(&["0.5", "1.0", "-1.0", "2.0", "-4.0", "0.1", "-0.0", "3.0e4", "1.0e-5", "1.5", "-2.75"]);
        return if g.one_in(2) { format!("({name})({small})") } else { format!("({name})({value})") };
    }
    let bits = u64::from(g.random.below(u32::MAX)) << 32 | u64::from(g.random.below(u32::MAX));
    match g.random.below(5) {
        0 => format!("({name}){:#x}ul", bits >> (64 - ty.bits)),
        1 => format!("({name})({})", i64::from(g.random.below(129)) - 64),
        2 => format!("({name})(1ul << {})", g.random.below(ty.bits)),
        3 => format!("({name})((1ul << {}) - 1)", g.random.below(ty.bits)),
        _ => format!("({name}){}", g.random.below(17)),
    }
}

/// A vector's element at an index that is known or not.
fn element(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let fitting: Vec<Type> = Type::VECTORS.into_iter().filter(|vector| vector.lane() == ty).collect();
    let vector = g.pick(&fitting);
    let value = expression(g, scope, vector, depth);
    let index = if g.one_in(3) && depth > 0 {
        format!("{} & {}", expression(g, scope, Type::U32, 1), vector.lanes - 1)
    } else {
        g.random.below(vector.lanes).to_string()
    };
    format!("({value})[{index}]")
}

fn integer(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let name = ty.name();
    // The unsigned type in which C computes.
    let wide = if ty.bits == 64 { "u64" } else { "u32" };
    let sub = |g: &mut Generator, ty| expression(g, scope, ty, depth);
    match g.random.below(30) {
        0..=5 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            let operator = g.pick(&["+", "-", "*", "&", "|", "^", "+", "*"]);
            format!("({name})(({wide}){a} {operator} ({wide}){b})")
        }
        6 => {
            let (a, b, c) = (sub(g, ty), sub(g, ty), sub(g, ty));
            let (first, second) = (g.pick(&["*", "+", "^", "<<"]), g.pick(&["+", "-", "|", "^"]));
            let b = if first == "<<" { g.random.below(ty.bits.min(32)).to_string() } else { format!("({wide}){b}") };
            format!("({name})((({wide}){a} {first} {b}) {second} ({wide}){c})")
        }
        7 | 8 => {
            let (a, n) = (sub(g, ty), sub(g, Type::U32));
            let mask = ty.bits - 1;
            if g.one_in(2) {
                format!("({name})(({wide}){a} << ({n} & {mask}))")
            } else {
                format!("({name})({a} >> ({n} & {mask}))")
            }
        }
        9 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            format!("{}_{name}({a}, {b})", g.pick(&["div", "rem"]))
        }
        10 | 11 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            limited(g, ty, &a, &b)
        }
        12 => {
            let a = sub(g, ty);
            match g.random.below(5) {
                0 => format!("({name})__builtin_elementwise_popcount({a})"),
                1 => format!("({name})__builtin_elementwise_bitreverse({a})"),
                2 => format!("({name})__builtin_clzg(({}){a}, {})", ty.unsigned().name(), ty.bits),
                3 => format!("({name})__builtin_ctzg(({}){a}, {})", ty.unsigned().name(), ty.bits),
                _ if ty.element == Element::Signed => format!("({name})__builtin_elementwise_abs({a})"),
                _ if ty == Type::U64 => format!("not_u64({a})"),
                _ => format!("({name})~{a}"),
            }
        }
        13 => {
            let (a, b, n) = (sub(g, ty), sub(g, ty), sub(g, ty));
            format!("({name})__builtin_elementwise_{}({a}, {b}, {n})", g.pick(&["fshl", "fshr"]))
        }
        14 | 15 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            format!("({name})({} ? {a} : {b})", condition(g, scope, 1.min(depth)))
        }
        16 | 17 => {
            let from = Type::scalar(g);
            let value = sub(g, from);
            if from.is_float() { from_float(g, ty, from, &value) } else { format!("({name}){value}") }
        }
        18 => {
            let from = g.pick(&[Type::F16, Type::F32, Type::F64]);
            format!("({name})bits_{}({})", from.name(), sub(g, from))
        }
        19 | 20 => element(g, scope, ty, depth),
        21 => {
            let fitting: Vec<Type> = Type::VECTORS.into_iter().filter(|vector| vector.lane() == ty).collect();
            let value = {
                let vector = g.pick(&fitting);
                sub(g, vector)
            };
            format!("({name})__builtin_reduce_{}({value})", g.pick(&["add", "xor", "or", "and", "min", "max", "mul"]))
        }
        22 if scope.state => {
            let index = sub(g, Type::U32);
            match g.random.below(5) {
                0 => format!("({name})s->words[{}]", g.place(&index, 8)),
                1 => format!("({name})s->shorts[{}]", g.place(&index, 8)),
                2 => format!("({name})e->seen[{}]", g.at_either_end("e->local", scope.group_size)),
                _ => format!("({name})e->seen[{}]", g.place(&index, scope.group_size)),
            }
        }
        23 if scope.state => {
            let from = g.pick(&[Type::U8, Type::I8, Type::U16, Type::I16, Type::U32, Type::U64, ty]);
            let index = sub(g, Type::U32);
            format!("({name})(({}*)e->in)[{}]", qualified(from), g.place(&index, 1024))
        }
        _ => special(g, scope, ty, depth),
    }
}

/// A choice between two integers, or a sum or a difference that ends at the limits.
fn limited(g: &mut Generator, ty: Type, a: &str, b: &str) -> String {
    let what = g.pick(&["min", "max", "min", "max", "add_sat", "sub_sat"]);
    let name = ty.name();
    if ty.bits == 64 && what.ends_with("sat") {
        return format!("{what}_{name}({a}, {b})");
    }
    format!("(({name})__builtin_elementwise_{what}({a}, {b}))")
}

/// Integers by a function of `kernels.h`.
fn special(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    const U32: Type = Type::U32;
    const I32: Type = Type::I32;
    const U64: Type = Type::U64;
    const I64: Type = Type::I64;
    let functions: &[(&str, &[Type])] = &[
        ("mulhi_u32", &[U32, U32]),
        ("mulhi_i32", &[I32, I32]),
        ("mulhi_u64", &[U64, U64]),
        ("mulhi_i64", &[I64, I64]),
        ("widemul_u32", &[U32, U32, U64]),
        ("widemul_i32", &[I32, I32, I64]),
        ("mul24_u32", &[U32, U32, U32]),
        ("mul24_i32", &[I32, I32, I32]),
        ("carry_u32", &[U32, U32, U32]),
        ("borrow_u64", &[U64, U64, U64]),
        ("overflow_i32", &[I32, I32, I32]),
        ("field_u32", &[U32, U32, U32]),
        ("insert_u32", &[U32, U32, U32]),
        ("rotate_u64", &[U64, U32]),
        ("swap_u32", &[U32]),
        ("swap_u64", &[U64]),
        ("med3_u32", &[U32, U32, U32]),
        ("med3_i32", &[I32, I32, I32]),
        ("sad_u8", &[U32, U32, U32]),
        ("msad_u8", &[U32, U32, U32]),
        ("sad_u16", &[U32, U32, U32]),
        ("lerp_u8", &[U32, U32, U32]),
        ("perm_b32", &[U32, U32, U32]),
        ("alignbit_b32", &[U32, U32, U32]),
        ("alignbyte_b32", &[U32, U32, U32]),
        ("ubfe_u32", &[U32, U32, U32]),
        ("sbfe_i32", &[I32, U32, U32]),
        ("dot4_u8", &[U32, U32, U32]),
        ("dot8_u4", &[U32, U32, U32]),
        ("dot4_i8", &[I32, I32, I32]),
        ("dot2_i16", &[Type::I16.vector(2), Type::I16.vector(2), I32]),
        ("exponent_f32", &[Type::F32]),
        ("exponent_f64", &[Type::F64]),
        ("class_f32", &[Type::F32]),
        ("class_f64", &[Type::F64]),
    ];
    let (function, parameters) = g.pick(functions);
    let arguments: Vec<_> = parameters.iter().map(|&ty| expression(g, scope, ty, depth)).collect();
    format!("({}){function}({})", ty.name(), arguments.join(", "))
}

/// A float converted to an integer, for every value of the float.
fn from_float(g: &mut Generator, ty: Type, from: Type, value: &str) -> String {
    let functions: &[&str] = match from {
        Type::F32 => &["to_i32_f32", "to_u32_f32", "to_i64_f32", "to_u64_f32", "to_all_i32_f32"],
        Type::F64 => &["to_i32_f64", "to_u32_f64", "to_i64_f64", "to_u64_f64", "to_all_u32_f64"],
        _ => &["to_i32_f16", "to_u32_f16"],
    };
    format!("({}){}({value})", ty.name(), g.pick(functions))
}

fn float(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let name = ty.name();
    let sub = |g: &mut Generator, ty| expression(g, scope, ty, depth);
    match g.random.below(26) {
        0..=6 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            match g.pick(&["+", "-", "*", "*", "+", "/"]) {
                "/" => format!("quotient_{name}({a}, {b})"),
                operator => format!("({name})({a} {operator} {b})"),
            }
        }
        7..=9 => {
            let (a, b, c) = (sub(g, ty), sub(g, ty), sub(g, ty));
            let signs = [(); 3].map(|()| g.pick(&["", "", "-"]));
            format!("fma_{name}({}({a}), {}({b}), {}({c}))", signs[0], signs[1], signs[2])
        }
        10 => format!("(-({}))", sub(g, ty)),
        11 => format!("(({name})__builtin_elementwise_abs({}))", sub(g, ty)),
        12 | 13 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            let what = g.pick(&["minimum", "maximum", "minimumnum", "maximumnum"]);
            format!("(({name})__builtin_elementwise_{what}({a}, {b}))")
        }
        14 => {
            let what = g.pick(&["floor", "ceil", "trunc", "roundeven", "rint", "round"]);
            format!("(({name})__builtin_elementwise_{what}({}))", sub(g, ty))
        }
        15 => format!("sqrt_{name}({})", sub(g, ty)),
        16 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            format!("copysign_{name}({a}, {b})")
        }
        17 | 18 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            format!("({} ? {a} : {b})", condition(g, scope, 1.min(depth)))
        }
        19 | 20 => {
            let from = Type::scalar(g);
            converted(ty, &format!("({name})({})", sub(g, from)))
        }
        21 => format!("of_bits_{name}({})", sub(g, ty.unsigned())),
        22 => element(g, scope, ty, depth),
        _ if ty == Type::F32 => {
            let (a, b) = (sub(g, ty), sub(g, Type::I32));
            match g.random.below(4) {
                0 => format!("ldexp_f32({a}, {b})"),
                1 => format!("mantissa_f32({a})"),
                2 => format!("clamp_f32({a})"),
                _ => {
                    let (x, y) = (sub(g, Type::F16), sub(g, Type::F16));
                    format!("mix_f32({x}, {y}, {a})")
                }
            }
        }
        _ if ty == Type::F64 => {
            let (a, b) = (sub(g, ty), sub(g, Type::I32));
            if g.one_in(2) { format!("ldexp_f64({a}, {b})") } else { format!("mantissa_f64({a})") }
        }
        _ => converted(ty, &format!("(f16)({})", sub(g, Type::F32))),
    }
}

/// A conversion to `ty`: an f16 has no sign of zero then.
fn converted(ty: Type, value: &str) -> String {
    if ty.lane() == Type::F16 { format!("converted_{}({value})", ty.name()) } else { format!("({value})") }
}

fn shuffled(g: &mut Generator, ty: Type, a: &str, b: &str) -> String {
    let lanes: String = (0..ty.lanes).map(|_| format!(", {}", g.random.below(2 * ty.lanes))).collect();
    format!("__builtin_shufflevector({a}, {b}{lanes})")
}

fn built(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let lanes = (0..ty.lanes).map(|_| expression(g, scope, ty.lane(), depth.min(1))).collect();
    vector(ty, lanes)
}

fn integers(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let (name, unsigned) = (ty.name(), ty.unsigned().name());
    let sub = |g: &mut Generator, ty| expression(g, scope, ty, depth);
    match g.random.below(16) {
        0..=4 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            let operator = g.pick(&["+", "-", "*", "&", "|", "^", "+", "*"]);
            format!("(({name})(({unsigned}){a} {operator} ({unsigned}){b}))")
        }
        5 => {
            let (a, b, c) = (sub(g, ty), sub(g, ty), sub(g, ty));
            format!("(({name})(({unsigned}){a} * ({unsigned}){b} + ({unsigned}){c}))")
        }
        6 => {
            let (a, n) = (sub(g, ty), sub(g, ty.unsigned()));
            let mask = format!("({unsigned})({})", ty.bits - 1);
            if g.one_in(2) {
                format!("(({name})(({unsigned}){a} << ({n} & {mask})))")
            } else {
                format!("(({name})({a} >> ({name})({n} & {mask})))")
            }
        }
        7 | 8 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            limited(g, ty, &a, &b)
        }
        9 => {
            let a = sub(g, ty);
            let what =
                if ty.element == Element::Signed && g.one_in(2) { "abs" } else { g.pick(&["popcount", "bitreverse"]) };
            format!("__builtin_elementwise_{what}({a})")
        }
        10 => {
            let (a, b, c) = (sub(g, ty), sub(g, ty), sub(g, ty));
            format!("({a} {} {b} ? {c} : {b})", g.pick(&["<", ">", "==", "!="]))
        }
        11 => {
            let fitting: Vec<Type> =
                Type::VECTORS.into_iter().filter(|from| from.lanes == ty.lanes && !from.is_float()).collect();
            let value = {
                let from = g.pick(&fitting);
                sub(g, from)
            };
            converted(ty, &format!("__builtin_convertvector({value}, {name})"))
        }
        12 => {
            let fitting: Vec<Type> =
                Type::VECTORS.into_iter().filter(|from| from.bytes() == ty.bytes() && !from.is_float()).collect();
            let value = {
                let from = g.pick(&fitting);
                sub(g, from)
            };
            format!("(({name}){value})")
        }
        13 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            shuffled(g, ty, &a, &b)
        }
        14 if scope.state => {
            let index = sub(g, Type::U32);
            format!("(({name})(({}*)e->in)[{}])", qualified(ty), g.place(&index, 256))
        }
        _ => built(g, scope, ty, depth),
    }
}

fn floats(g: &mut Generator, scope: &Scope, ty: Type, depth: u32) -> String {
    let name = ty.name();
    let sub = |g: &mut Generator, ty| expression(g, scope, ty, depth);
    match g.random.below(14) {
        0..=4 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            format!("({a} {} {b})", g.pick(&["+", "-", "*", "+", "*"]))
        }
        5 | 6 => {
            let (a, b, c) = (sub(g, ty), sub(g, ty), sub(g, ty));
            format!("fma_{name}({a}, {}({b}), {c})", g.pick(&["", "", "-"]))
        }
        7 | 8 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            let what = g.pick(&["minimum", "maximum", "minimumnum", "maximumnum"]);
            format!("__builtin_elementwise_{what}({a}, {b})")
        }
        9 => {
            let what = g.pick(&["abs", "floor", "ceil", "trunc", "roundeven", "rint"]);
            format!("__builtin_elementwise_{what}({})", sub(g, ty))
        }
        10 => format!("(-{})", sub(g, ty)),
        11 => {
            let fitting: Vec<Type> = Type::VECTORS.into_iter().filter(|from| from.lanes == ty.lanes).collect();
            let value = {
                let from = g.pick(&fitting);
                sub(g, from)
            };
            converted(ty, &format!("__builtin_convertvector({value}, {name})"))
        }
        12 => {
            let (a, b) = (sub(g, ty), sub(g, ty));
            shuffled(g, ty, &a, &b)
        }
        _ => built(g, scope, ty, depth),
    }
}
