// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! NumPy's `.npy` files: arrays of little-endian numbers in row-major order. Format:
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! The crate `npyz` does not do for this: its header has a blank behind the last comma of a shape, which IREE's reader
//! refuses, and its reader (0.9.1) multiplies the numbers of a shape without a check.

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// NumPy's name of the element type without the byte order, e.g. `f4`.
    pub kind: &'a str,
    /// Elements in row-major order, little-endian.
    pub elements: &'a [u8],
    /// The file behind the array. IREE's tools write arrays one after the other.
    pub rest: &'a [u8],
}

/// Parses the array at the start of a file.
///
/// # Errors
/// When there is none, or one of other elements or in another order. The message does not name the file.
pub fn parse(file: &[u8]) -> Result<Array<'_>, String> {
    let rest = file.strip_prefix(MAGIC).ok_or("no .npy file")?;
    let short = || "the file is too short".to_owned();
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(short)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(short)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => return Err(format!("version {other} of the format; 1 to 3 are known")),
    };
    let (header, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    let header = str::from_utf8(header).map_err(|error| format!("its header: {error}"))?;

    let descr = field(header, "descr")?.trim_start_matches('\'').split('\'').next().unwrap_or_default();
    let kind = descr.strip_prefix(['<', '|']).filter(|kind| kind.starts_with(['b', 'i', 'u', 'f', 'c', 'V']));
    let size = kind.and_then(|kind| kind.get(1..)?.parse::<usize>().ok());
    let (Some(kind), Some(size)) = (kind, size) else {
        return Err(format!("elements of the type {descr:?}; expected little-endian numbers, such as '<f4'"));
    };
    let inside = field(header, "shape")?.trim_start_matches('(').split(')').next().unwrap_or_default();
    let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
    let shape = numbers.map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>();
    let bytes = shape.iter().flatten().try_fold(size, |bytes, &number| bytes.checked_mul(number));
    let (Some(shape), Some(bytes)) = (shape, bytes) else { return Err(format!("the shape ({inside})")) };
    // NumPy may call an array of one dimension column-major.
    if field(header, "fortran_order")?.starts_with("True") && shape.len() > 1 {
        return Err("an array in column-major order; np.ascontiguousarray makes a row-major one".into());
    }
    let (elements, rest) = rest.split_at_checked(bytes).ok_or_else(short)?;
    Ok(Array { shape, kind, elements, rest })
}

/// Text of a header from the value of `name` on.
fn field<'a>(header: &'a str, name: &str) -> Result<&'a str, String> {
    let found = header.split_once(&format!("'{name}':")).map(|(_, rest)| rest.trim_start());
    found.ok_or_else(|| format!("its header lacks {name}"))
}

/// Returns a file with one array. `descr` is NumPy's name of the element type, e.g. `<f4`.
///
/// # Panics
/// When the shape has thousands of dimensions, for which a header has no room.
pub fn file(descr: &str, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|number| format!("{number},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Ten bytes are before the header. The elements begin at a multiple of 64.
    header += &" ".repeat(63 - (10 + header.len()) % 64);
    header.push('\n');
    let length = u16::try_from(header.len()).expect("NumPy's arrays have at most 64 dimensions");
    [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), elements].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_they_were_written() {
        let first = file("<f4", &[2], &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((first.len(), &first[8..10]), (128 + 8, &[118, 0][..]), "the header is padded");
        let both = [&first[..], &file("|u1", &[], &[9]), &file("<i8", &[0, 4], &[])].concat();
        let one = parse(&both).unwrap();
        assert_eq!((&one.shape[..], one.kind, one.elements), (&[2][..], "f4", &[1, 2, 3, 4, 5, 6, 7, 8][..]));
        let two = parse(one.rest).unwrap();
        assert_eq!((&two.shape[..], two.kind, two.elements), (&[][..], "u1", &[9][..]));
        let three = parse(two.rest).unwrap();
        assert_eq!((&three.shape[..], three.elements, three.rest), (&[0, 4][..], &[][..], &[][..]));
    }

    #[test]
    fn a_file_that_ends_early_is_refused() {
        let file = file("<i4", &[3], &[0; 12]);
        assert!(parse(&file).is_ok());
        for length in 0..file.len() {
            assert!(parse(&file[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn other_arrays_are_refused() {
        let with = |header: &str| {
            let header = format!("{header}\n");
            [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), &[0; 16]].concat()
        };
        let scalar = with("{'descr': '<i2', 'fortran_order': False, 'shape': (), }");
        assert_eq!(parse(&scalar).unwrap().elements, [0, 0]);
        assert!(parse(&with("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }")).is_ok());
        for wrong in [
            "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2,), }",
            "{}",
        ] {
            assert!(parse(&with(wrong)).is_err(), "{wrong}");
        }
    }
}
