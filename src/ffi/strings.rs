// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `iree_string_view_t` and Rust strings.

use std::borrow::Cow;

use super::raw;

/// The bytes of a view; empty for a null one.
///
/// # Safety
/// The view is valid, and stays so for `'a`.
pub unsafe fn bytes<'a>(view: raw::iree_string_view_t) -> &'a [u8] {
    if view.data.is_null() || view.size == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for `size` bytes at `data`.
    unsafe { core::slice::from_raw_parts(view.data.cast::<u8>(), view.size) }
}

/// The text of a view. Bytes that are not UTF-8 are replaced, so that texts from users can be shown, but must not be
/// compared after that.
///
/// # Safety
/// The view is valid, and stays so for `'a`.
#[inline]
pub unsafe fn text<'a>(view: raw::iree_string_view_t) -> Cow<'a, str> {
    // SAFETY: the same contract.
    String::from_utf8_lossy(unsafe { bytes(view) })
}

/// A view of a Rust string. It borrows: C must not keep it past `text`.
pub const fn view(text: &str) -> raw::iree_string_view_t {
    raw::iree_string_view_t { data: text.as_ptr().cast(), size: text.len() }
}

/// The empty view.
pub const EMPTY: raw::iree_string_view_t = raw::iree_string_view_t { data: core::ptr::null(), size: 0 };

/// True if `text` matches a pattern of `*` and `?`, as in IREE.
pub fn matches(text: &str, pattern: &str) -> bool {
    // SAFETY: both views are valid during the call.
    unsafe { raw::iree_string_view_match_pattern(view(text), view(pattern)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_round_trip() {
        // SAFETY: the views borrow literals.
        unsafe {
            assert_eq!(text(view("gfx1100")), "gfx1100");
            assert_eq!(text(EMPTY), "");
            let broken = raw::iree_string_view_t { data: b"a\xffb".as_ptr().cast(), size: 3 };
            assert_eq!(text(broken), "a\u{fffd}b");
        }
    }
}
