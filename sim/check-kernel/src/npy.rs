// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! NumPy's `.npy` files: the elements of one row-major array
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

const MAGIC: &[u8] = b"\x93NUMPY";

/// Returns the elements of an array, as they lie in memory.
///
/// # Errors
/// When the file holds no array of plain little-endian numbers in row-major order.
pub fn elements(file: &[u8]) -> Result<&[u8], String> {
    let short = || "the file is too short".to_owned();
    if !file.starts_with(MAGIC) {
        return Err("no .npy file".into());
    }
    let major = file.get(6).ok_or_else(short)?;
    let (length, start) = match (major, file.get(8..12)) {
        (1, Some(bytes)) => (usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), 10),
        (_, Some(bytes)) => (u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize, 12),
        (_, None) => return Err(short()),
    };
    let header = file.get(start..).and_then(|rest| rest.get(..length)).ok_or_else(short)?;
    let header = String::from_utf8_lossy(header);
    let field = |name: &str| header.split_once(&format!("'{name}':")).map(|(_, rest)| rest.trim_start());
    let descr = field("descr").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next()).unwrap_or_default();
    let size = descr.get(2..).and_then(|size| size.parse::<usize>().ok());
    let (Some(size), true) = (size, descr.starts_with(['<', '|']) && !descr.contains(['O', 'U', 'S'])) else {
        return Err(format!("elements of the type {descr:?}; expected little-endian numbers, such as '<f4'"));
    };
    let shape = field("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).unwrap_or_default();
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes = sizes.map(|size| size.parse::<usize>().ok()).collect::<Option<Vec<_>>>();
    let bytes = sizes.as_ref().and_then(|sizes| sizes.iter().try_fold(size, |bytes, size| bytes.checked_mul(*size)));
    let (Some(sizes), Some(bytes)) = (sizes, bytes) else { return Err(format!("the shape ({shape})")) };
    if field("fortran_order").is_some_and(|rest| rest.starts_with("True")) && sizes.len() > 1 {
        return Err("an array in column-major order; np.ascontiguousarray makes a row-major one".into());
    }
    file[start + length..].get(..bytes).ok_or_else(short)
}

/// Returns a file with a one-dimensional array of elements of `descr`, which have `size` bytes each.
pub fn file(descr: &str, size: usize, elements: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},), }}", elements.len() / size);
    // The elements begin at a multiple of 64.
    header += &" ".repeat(63 - (10 + header.len()) % 64);
    header.push('\n');
    [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), elements].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = file("<f4", 4, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(file.len(), 128 + 8);
        assert_eq!(elements(&file), Ok(&[1, 2, 3, 4, 5, 6, 7, 8][..]));
        assert!(
            elements(&file[..file.len() - 1]).is_err() && elements(b"\x93NUMPY").is_err() && elements(b"").is_err()
        );
    }

    #[test]
    fn other_arrays_are_refused() {
        let with = |header: &str| {
            let header = format!("{header}\n");
            [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), &[0; 16]].concat()
        };
        let scalar = with("{'descr': '<i2', 'fortran_order': False, 'shape': (), }");
        assert_eq!(elements(&scalar), Ok(&[0, 0][..]));
        for wrong in [
            "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 2), }",
            "{}",
        ] {
            assert!(elements(&with(wrong)).is_err(), "{wrong}");
        }
    }
}
