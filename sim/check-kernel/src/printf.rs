// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Formats the output of kernels: C's conversions, and the vectors of OpenCL C.

use std::ffi::{CString, c_char};

/// An argument of `printf`.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The bits of a number or pointer, and its size in bytes.
    Bits(u64, usize),
    /// A string.
    Text(Vec<u8>),
}

/// Longest output of one conversion of a number.
const LONGEST: usize = 512;

/// Formats as `printf` does. `next` returns the next argument, given its conversion and the number of lanes of the
/// vector that it is one of, or 1; `None` if there is none, which ends the output.
pub fn format(text: &[u8], mut next: impl FnMut(u8, usize) -> Option<Argument>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|c| *c == b'%') {
        out.extend(&rest[..at]);
        rest = &rest[at + 1..];
        if let [b'%', after @ ..] = rest {
            out.push(b'%');
            rest = after;
            continue;
        }
        let mut spec = vec![b'%'];
        while let [c @ (b'-' | b'+' | b' ' | b'#' | b'0'..=b'9' | b'.' | b'*'), after @ ..] = rest {
            match c {
                b'*' => match next(b'd', 1) {
                    Some(Argument::Bits(bits, _)) => spec.extend((bits as i32).to_string().bytes()),
                    _ => return out,
                },
                _ => spec.push(*c),
            }
            rest = after;
        }
        let mut lanes: usize = 1;
        if let [b'v', after @ ..] = rest {
            let digits = after.iter().take_while(|c| c.is_ascii_digit()).count();
            lanes = String::from_utf8_lossy(&after[..digits]).parse().unwrap_or(1);
            rest = &after[digits..];
        }
        let length = rest.iter().take_while(|c| b"hlLjzt".contains(c)).count();
        let (length, after) = rest.split_at(length);
        let Some((&conversion, after)) = after.split_first() else { return out };
        rest = after;
        for lane in 0..lanes {
            if lane > 0 {
                out.push(b',');
            }
            let Some(argument) = next(conversion, lanes) else { return out };
            out.extend(convert(&spec, length, conversion, argument));
        }
    }
    out.extend(rest);
    out
}

/// Formats one argument.
fn convert(spec: &[u8], length: &[u8], conversion: u8, argument: Argument) -> Vec<u8> {
    let (bits, size) = match argument {
        Argument::Text(text) => return padded(spec, &text),
        Argument::Bits(bits, size) => (bits, size),
    };
    let wanted = match length {
        b"hh" => 1,
        b"h" => 2,
        b"" | b"hl" => 4,
        _ => 8,
    };
    let unused = 64 - 8 * wanted.min(size).clamp(1, 8) as u32;
    match conversion {
        b'd' | b'i' => number(spec, b"lld", (bits << unused).cast_signed() >> unused),
        b'u' | b'o' | b'x' | b'X' => number(spec, &[b'l', b'l', conversion], bits << unused >> unused),
        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => {
            let value = if size == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) };
            number(spec, &[conversion], value)
        }
        b'c' => padded(spec, &[bits as u8]),
        b'p' => padded(spec, format!("{bits:#x}").as_bytes()),
        _ => Vec::new(),
    }
}

/// Formats a number by C's `snprintf`, which takes it by value.
fn number<T>(spec: &[u8], conversion: &[u8], value: T) -> Vec<u8> {
    let Ok(format) = CString::new([spec, conversion].concat()) else { return Vec::new() };
    let mut buffer = [0_u8; LONGEST];
    // SAFETY: the buffer has the length that is passed; the conversion is of one argument of the type `T`, an i64, a
    // u64 or an f64.
    let length = unsafe { libc::snprintf(buffer.as_mut_ptr().cast::<c_char>(), LONGEST, format.as_ptr(), value) };
    buffer[..usize::try_from(length).unwrap_or(0).min(LONGEST - 1)].to_vec()
}

/// Cuts a text to its precision, and fills it to its width.
fn padded(spec: &[u8], text: &[u8]) -> Vec<u8> {
    let spec = String::from_utf8_lossy(&spec[1..]).into_owned();
    let is_left = spec.contains('-');
    let spec = spec.trim_start_matches(['-', '+', ' ', '#', '0']);
    let (width, precision) = spec.split_once('.').map_or((spec, None), |(width, precision)| (width, Some(precision)));
    let most = precision.map_or(text.len(), |precision| precision.parse().unwrap_or(0));
    let text = &text[..most.min(text.len())];
    let fill = vec![b' '; width.parse::<usize>().unwrap_or(0).min(LONGEST).saturating_sub(text.len())];
    if is_left { [text, &fill].concat() } else { [&fill, text].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: &str, arguments: &[Argument]) -> String {
        let mut arguments = arguments.iter().cloned();
        String::from_utf8(super::format(format.as_bytes(), |_, _| arguments.next())).unwrap()
    }

    #[test]
    fn conversions_are_those_of_c() {
        use Argument::{Bits, Text};
        assert_eq!(text("%d|%5u|%-4x|%%\n", &[Bits(0xffff_ffff, 8), Bits(7, 8), Bits(255, 8)]), "-1|    7|ff  |%\n");
        assert_eq!(text("%lld %hhd %hu", &[Bits(u64::MAX, 8), Bits(0x1ff, 8), Bits(0x1_0002, 8)]), "-1 -1 2");
        assert_eq!(text("%.3f %g", &[Bits(1.5_f64.to_bits(), 8), Bits(2.5_f32.to_bits().into(), 4)]), "1.500 2.5");
        assert_eq!(
            text("%s|%5s|%-5s|%.2s|%c", &["ab", "ab", "ab", "abc", "-"].map(|t| Text(t.into()))),
            "ab|   ab|ab   |ab|-"
        );
        assert_eq!(text("%*d %p", &[Bits(4, 8), Bits(9, 8), Bits(0x10, 8)]), "   9 0x10");
        assert_eq!(text("%v2hld!", &[Bits(1, 4), Bits(0xffff_fffe, 4)]), "1,-2!");
        // A missing argument ends the output.
        assert_eq!(text("a %d b", &[]), "a ");
        assert_eq!(text("a %", &[]), "a ");
    }
}
