// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Registers by their names, expressions of them, and numbers as text.

use sim_wave::Stopped;

/// Numbers of scalar registers, as operands are encoded (RDNA3 ISA, table "Scalar operands").
const VCC: usize = 106;
const M0: usize = 125;
const EXEC: usize = 126;

/// Type and form of printed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Hexadecimal.
    Hex,
    /// Unsigned.
    Unsigned,
    /// Signed.
    Signed,
    /// `f32` or `f64`.
    Float,
    /// Two `f16`, the low half first.
    Half,
    /// Two `bf16`, the low half first.
    Brain,
}

impl Form {
    /// The form of a letter after `/`, or of a type after `:`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "x" | "hex" => Self::Hex,
            "u" | "u32" | "u64" => Self::Unsigned,
            "d" | "i32" | "i64" => Self::Signed,
            "f" | "f32" | "f64" => Self::Float,
            "h" | "f16" => Self::Half,
            "b" | "bf16" => Self::Brain,
            _ => {
                return Err(format!(
                    "{text:?} is not a format; there are x (hex), u (u32), d (i32), f (f32), h (f16), b (bf16)"
                ));
            }
        })
    }

    /// A number of 8, 16, 32 or 64 bits as text.
    pub fn text(self, value: u64, bits: u32) -> String {
        let half = |at: u32| (value >> (16 * at)) as u16;
        let halves = |of: fn(u16) -> f32| {
            let parts: Vec<String> = (0..bits.div_ceil(16)).map(|at| float(of(half(at)).into())).collect();
            if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
        };
        match self {
            Self::Hex => format!("{value:#x}"),
            Self::Unsigned => value.to_string(),
            Self::Signed => (((value << (64 - bits)) as i64) >> (64 - bits)).to_string(),
            Self::Float if bits == 64 => float(f64::from_bits(value)),
            Self::Float if bits == 32 => float(f32::from_bits(value as u32).into()),
            Self::Float | Self::Half => halves(half_to_f32),
            Self::Brain => halves(|bits| f32::from_bits(u32::from(bits) << 16)),
        }
    }
}

fn float(value: f64) -> String {
    // Widened from fewer bits: as many digits as an f32 needs.
    let narrow = value as f32;
    if f64::from(narrow) == value || value.is_nan() { format!("{narrow:?}") } else { format!("{value:?}") }
}

fn half_to_f32(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, u32::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction as f32 * 2_f32.powi(-24),
        0x1f => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((u32::from(exponent) + 112) << 23 | fraction << 13),
    };
    if sign == 1 { -size } else { size }
}

/// Value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number, of 32 or 64 bits.
    One(u64, u32),
    /// A number for each lane.
    Lanes(Vec<u64>, u32),
}

/// A parsed expression with its form.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Sum of terms, each with its sign.
    terms: Vec<(bool, Term)>,
    /// A comparison with another sum.
    compared: Option<(Comparison, Box<Expression>)>,
    /// The form after `:`.
    pub form: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    Greater,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(u64),
    /// First register, number of registers, and lane.
    Vector(bool, usize, usize, Option<usize>),
    Scalar(usize, usize),
    Scc,
    Mode,
    Pc,
}

const REGISTERS: &str = "registers are $v3, $v3[LANE], $v[2:3], $a3, $s4, $s[4:5], $ttmp7, $exec, $vcc, $scc, $m0, \
                         $mode, $pc";

impl Expression {
    /// Parses `TERM + TERM - … [== | != | < | > …][:FORM]`, of numbers and registers.
    pub fn parse(text: &str) -> Result<Self, String> {
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (sign, comparison) in comparisons {
            if let Some((left, right)) = text.split_once(sign) {
                let (mut left, right) = (Self::parse(left)?, Self::parse(right)?);
                left.compared = Some((comparison, Box::new(right)));
                return Ok(left);
            }
        }
        let (sum, form) = match text.rsplit_once(':') {
            Some((sum, form)) if !form.contains(']') => (sum, Some(Form::parse(form.trim())?)),
            _ => (text, None),
        };
        let mut terms = Vec::new();
        let mut rest = sum.trim();
        let mut is_minus = false;
        loop {
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            terms.push((is_minus, term(rest[..end].trim())?));
            if end == rest.len() {
                break;
            }
            is_minus = rest[end..].starts_with('-');
            rest = &rest[end + 1..];
        }
        Ok(Self { terms, compared: None, form })
    }

    /// The value in a wave.
    pub fn value(&self, at: &dyn Stopped, wave: u32) -> Result<Value, String> {
        let mut sum: Option<Value> = None;
        for (is_minus, term) in &self.terms {
            let value = term.value(at, wave)?;
            let add = |a: u64, b: u64| if *is_minus { a.wrapping_sub(b) } else { a.wrapping_add(b) };
            sum = Some(match sum {
                None if *is_minus => combine(Value::One(0, 64), value, add),
                None => value,
                Some(sum) => combine(sum, value, add),
            });
        }
        let value = sum.unwrap_or(Value::One(0, 32));
        let Some((comparison, right)) = &self.compared else { return Ok(value) };
        let holds = |a: u64, b: u64| match comparison {
            Comparison::Equal => u64::from(a == b),
            Comparison::Unequal => u64::from(a != b),
            Comparison::Less => u64::from(a < b),
            Comparison::Greater => u64::from(a > b),
        };
        Ok(combine(value, right.value(at, wave)?, holds))
    }

    /// The value as one number: of a vector register, in the chosen lane.
    pub fn number(&self, at: &dyn Stopped, wave: u32, lane: u32) -> Result<u64, String> {
        Ok(match self.value(at, wave)? {
            Value::One(value, _) => value,
            Value::Lanes(values, _) => values[lane as usize],
        })
    }
}

fn combine(left: Value, right: Value, by: impl Fn(u64, u64) -> u64) -> Value {
    let masked = |a, b, bits: u32| by(a, b) & u64::MAX >> (64 - bits);
    match (left, right) {
        (Value::One(a, n), Value::One(b, m)) => Value::One(masked(a, b, n.max(m)), n.max(m)),
        (Value::Lanes(a, n), Value::One(b, _)) => Value::Lanes(a.into_iter().map(|a| masked(a, b, n)).collect(), n),
        (Value::One(a, _), Value::Lanes(b, n)) => Value::Lanes(b.into_iter().map(|b| masked(a, b, n)).collect(), n),
        (Value::Lanes(a, n), Value::Lanes(b, m)) => {
            Value::Lanes(a.into_iter().zip(b).map(|(a, b)| masked(a, b, n.max(m))).collect(), n.max(m))
        }
    }
}

/// Parses an unsigned number, decimal or hexadecimal.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a number"))
}

fn term(text: &str) -> Result<Term, String> {
    let Some(name) = text.strip_prefix('$') else {
        return number(text).map(Term::Number).map_err(|error| format!("{error}, nor a register; {REGISTERS}"));
    };
    let unknown = || format!("no register ${name}; {REGISTERS}");
    Ok(match name {
        "exec" => Term::Scalar(EXEC, 2),
        "exec_lo" => Term::Scalar(EXEC, 1),
        "exec_hi" => Term::Scalar(EXEC + 1, 1),
        "vcc" => Term::Scalar(VCC, 2),
        "vcc_lo" => Term::Scalar(VCC, 1),
        "vcc_hi" => Term::Scalar(VCC + 1, 1),
        "m0" => Term::Scalar(M0, 1),
        "scc" => Term::Scc,
        "mode" => Term::Mode,
        "pc" => Term::Pc,
        _ => {
            let letters = name.find(|c: char| !c.is_ascii_alphabetic()).ok_or_else(unknown)?;
            let (file, rest) = name.split_at(letters);
            let (registers, lane) = match rest.strip_prefix('[') {
                // A range of registers in brackets, and perhaps a lane behind it.
                Some(rest) => {
                    let (range, rest) = rest.split_once(']').ok_or_else(unknown)?;
                    (range, rest)
                }
                None => rest.split_at(rest.find('[').unwrap_or(rest.len())),
            };
            let lane = match lane {
                "" => None,
                lane => {
                    let lane = lane.strip_prefix('[').and_then(|lane| lane.strip_suffix(']')).ok_or_else(unknown)?;
                    Some(number(lane)? as usize)
                }
            };
            let (first, last) = registers.split_once(':').unwrap_or((registers, registers));
            let (first, last) = (number(first).map_err(|_| unknown())?, number(last).map_err(|_| unknown())?);
            let count = last.wrapping_sub(first).wrapping_add(1);
            if !(1..=2).contains(&count) || last > 1023 {
                return Err(format!("${name}: expected one register or two"));
            }
            let (first, count) = (first as usize, count as usize);
            match file {
                "v" => Term::Vector(false, first, count, lane),
                "a" => Term::Vector(true, first, count, lane),
                "s" if lane.is_none() && first + count <= VCC => Term::Scalar(first, count),
                "ttmp" if lane.is_none() && first + count <= 16 => Term::Scalar(VCC + 2 + first, count),
                _ => return Err(unknown()),
            }
        }
    })
}

impl Term {
    fn value(&self, at: &dyn Stopped, wave: u32) -> Result<Value, String> {
        Ok(match *self {
            Self::Number(number) => Value::One(number, if number > u64::from(u32::MAX) { 64 } else { 32 }),
            Self::Scc => Value::One(at.scc(wave).into(), 32),
            Self::Mode => Value::One(at.mode(wave).into(), 32),
            Self::Pc => Value::One(at.pc(wave), 64),
            Self::Scalar(first, count) => {
                // Masks of lanes are as wide as the wave.
                let is_mask = matches!(first, EXEC | VCC);
                let count = if is_mask && at.lanes() == 32 { 1 } else { count };
                let dword = |at_dword| at.scalar(wave, at_dword).map(u64::from).unwrap_or_default();
                let high = if count == 2 { dword(first + 1) << 32 } else { 0 };
                Value::One(dword(first) | high, 32 * count as u32)
            }
            Self::Vector(is_accumulation, first, count, lane) => {
                let (vectors, accumulations) = at.vector_registers();
                let (base, limit, file) =
                    if is_accumulation { (vectors, accumulations, "a") } else { (0, vectors, "v") };
                if first + count > limit {
                    return Err(format!("no register ${file}{}: the kernel has {limit}", first + count - 1));
                }
                let row = |register| at.vector(wave, base + register).unwrap_or_default();
                let mut values: Vec<u64> = row(first).iter().map(|value| u64::from(*value)).collect();
                if count == 2 {
                    values.iter_mut().zip(row(first + 1)).for_each(|(value, high)| *value |= u64::from(*high) << 32);
                }
                let bits = 32 * count as u32;
                match lane {
                    None => Value::Lanes(values, bits),
                    Some(lane) => {
                        let value = values.get(lane).ok_or_else(|| format!("a wave has {} lanes", at.lanes()))?;
                        Value::One(*value, bits)
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_types() {
        assert_eq!(Form::Hex.text(255, 32), "0xff");
        assert_eq!(Form::Signed.text(0xffff_ffff, 32), "-1");
        assert_eq!(Form::Signed.text(0xff, 8), "-1");
        assert_eq!(Form::Float.text(0x3fc0_0000, 32), "1.5");
        assert_eq!(Form::Float.text(0x3ff8_0000_0000_0000, 64), "1.5");
        assert_eq!(Form::Half.text(0xc000_3c00, 32), "(1.0, -2.0)");
        assert_eq!(Form::Half.text(0x0001, 16), "5.9604645e-8");
        assert_eq!(Form::Half.text(0x7c00, 16), "inf");
        assert_eq!(Form::Brain.text(0x4040_3f80, 32), "(1.0, 3.0)");
    }

    #[test]
    fn registers_have_names() {
        let one = |text: &str| Expression::parse(text).map(|expression| expression.terms[0].1.clone());
        assert_eq!(one("$v3"), Ok(Term::Vector(false, 3, 1, None)));
        assert_eq!(one("$v[2:3][7]"), Ok(Term::Vector(false, 2, 2, Some(7))));
        assert_eq!(one("$a5[0]"), Ok(Term::Vector(true, 5, 1, Some(0))));
        assert_eq!(one("$s[4:5]"), Ok(Term::Scalar(4, 2)));
        assert_eq!(one("$ttmp9"), Ok(Term::Scalar(117, 1)));
        assert_eq!(one("0x10"), Ok(Term::Number(16)));
        assert_eq!(Expression::parse("$v3[1]:f32").unwrap().form, Some(Form::Float));
        assert_eq!(Expression::parse("$s[4:5] + 8 - 4").unwrap().terms.len(), 3);
        for wrong in
            ["$", "$v", "$v[", "$vx", "$s106", "$s4[1]", "$v[3:2]", "$v[0:4]", "x", "", "$v3:f8", "1 +", "$v3[x]"]
        {
            assert!(Expression::parse(wrong).is_err(), "{wrong}");
        }
    }
}
