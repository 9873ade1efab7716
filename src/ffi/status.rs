// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `iree_status_t` as a Rust error: owned, freed on drop, consumed once.

use core::ffi::{CStr, c_char, c_int};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::raw;

/// The result of fallible operations of the driver.
pub type Result<T> = core::result::Result<T, Status>;

/// A status code of `iree/base/status.h`.
///
/// C can pass any value of the low five bits, so that this is no enum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(raw::iree_status_code_t);

macro_rules! codes {
    ($($name:ident = $value:ident),* $(,)?) => {
        impl Code {
            $(
                #[doc = concat!("`", stringify!($value), "`.")]
                pub const $name: Self = Self(raw::$value as raw::iree_status_code_t);
            )*
        }

        impl fmt::Debug for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str(stringify!($name)),)*
                    Self(other) => write!(f, "code {other}"),
                }
            }
        }
    };
}

codes! {
    OK = IREE_STATUS_OK,
    CANCELLED = IREE_STATUS_CANCELLED,
    UNKNOWN = IREE_STATUS_UNKNOWN,
    INVALID_ARGUMENT = IREE_STATUS_INVALID_ARGUMENT,
    DEADLINE_EXCEEDED = IREE_STATUS_DEADLINE_EXCEEDED,
    NOT_FOUND = IREE_STATUS_NOT_FOUND,
    ALREADY_EXISTS = IREE_STATUS_ALREADY_EXISTS,
    PERMISSION_DENIED = IREE_STATUS_PERMISSION_DENIED,
    RESOURCE_EXHAUSTED = IREE_STATUS_RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION = IREE_STATUS_FAILED_PRECONDITION,
    ABORTED = IREE_STATUS_ABORTED,
    OUT_OF_RANGE = IREE_STATUS_OUT_OF_RANGE,
    UNIMPLEMENTED = IREE_STATUS_UNIMPLEMENTED,
    INTERNAL = IREE_STATUS_INTERNAL,
    UNAVAILABLE = IREE_STATUS_UNAVAILABLE,
    DATA_LOSS = IREE_STATUS_DATA_LOSS,
    UNAUTHENTICATED = IREE_STATUS_UNAUTHENTICATED,
    DEFERRED = IREE_STATUS_DEFERRED,
    INCOMPATIBLE = IREE_STATUS_INCOMPATIBLE,
}

impl Code {
    /// The number IREE uses.
    pub const fn to_raw(self) -> raw::iree_status_code_t {
        self.0
    }

    /// The code for a number from C; bits above the code's five are dropped.
    pub const fn from_raw(code: raw::iree_status_code_t) -> Self {
        Self(code & raw::IREE_STATUS_CODE_MASK as raw::iree_status_code_t)
    }
}

/// A failure: an `iree_status_t` that is not OK, owned.
///
/// The word's low five bits are the code, the rest points to storage or is zero (`iree/base/status.h`).
/// `Option<Status>` is that word itself, with OK as `None`.
#[must_use = "a status is an error: return it, or say why it is dropped"]
pub struct Status(NonNull<raw::iree_status_handle_t>);

const _: () = assert!(size_of::<Option<Status>>() == size_of::<raw::iree_status_t>());

// SAFETY: the storage behind a status belongs to its one owner, is allocated
// with the C allocator (no thread affinity) and is only read through `&self`.
unsafe impl Send for Status {}
// SAFETY: `&Status` only formats and clones, which read the storage.
unsafe impl Sync for Status {}

impl Status {
    /// A status that is only its code: allocates nothing, cannot fail.
    ///
    /// # Panics
    /// If `code` is OK, which is no failure.
    #[cold]
    pub fn from_code(code: Code) -> Self {
        let word = core::ptr::without_provenance_mut(code.0 as usize);
        Self(NonNull::new(word).expect("an error status needs a failing code"))
    }

    /// A status with a message. `file` must be the source file that reports
    /// it; use the macro [`status!`](crate::status!), which supplies it.
    ///
    /// The message is copied. Where IREE is built without status messages only the code is kept.
    #[cold]
    pub fn with_message(code: Code, file: &'static CStr, line: u32, message: &str) -> Self {
        Self::at(code, file.as_ptr(), line, message)
    }

    /// `file` is null or a static string.
    fn at(code: Code, file: *const c_char, line: u32, message: &str) -> Self {
        let length = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
        // SAFETY: the format takes one precision and one string of at least
        // that many bytes; `file` is null or static as the storage borrows it.
        let word = unsafe {
            raw::iree_status_allocate_f(code.0, file, line, c"%.*s".as_ptr(), length, message.as_ptr().cast::<c_char>())
        };
        NonNull::new(word).map_or_else(|| Self::from_code(code), Self)
    }

    /// Takes ownership of a status word: `Ok` when it is OK.
    ///
    /// # Safety
    /// `word` came from IREE and the caller owns it and will not use it again.
    ///
    /// # Errors
    /// The status itself.
    pub unsafe fn check(word: raw::iree_status_t) -> Result<()> {
        NonNull::new(word).map_or(Ok(()), |status| Err(Self(status)))
    }

    /// Gives up ownership: the receiver frees the status.
    #[inline]
    pub fn into_raw(self) -> raw::iree_status_t {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The status word, borrowed for C calls that only read it.
    pub fn as_raw(&self) -> raw::iree_status_t {
        self.0.as_ptr()
    }

    /// The status code.
    pub fn code(&self) -> Code {
        Code::from_raw(self.0.as_ptr().addr() as raw::iree_status_code_t)
    }

    /// Adds a line of context.
    #[cold]
    pub fn annotate(self, message: &str) -> Self {
        #[cfg(iree_status_annotations)]
        {
            let length = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
            let code = self.code();
            // SAFETY: the word's ownership goes in and the result's comes
            // out; the format's arguments are as it says, and are copied.
            let word = unsafe {
                raw::iree_status_annotate_f(
                    self.into_raw(),
                    c"%.*s".as_ptr(),
                    length,
                    message.as_ptr().cast::<c_char>(),
                )
            };
            NonNull::new(word).map_or_else(|| Self::from_code(code), Self)
        }
        #[cfg(not(iree_status_annotations))]
        {
            let _ = message;
            self
        }
    }

    /// Adds a second failure to this one as context; the code stays.
    #[cold]
    pub fn join(self, other: Self) -> Self {
        let code = self.code();
        // SAFETY: both words' ownership goes in, the result's comes out.
        let word = unsafe { raw::iree_status_join(self.into_raw(), other.into_raw()) };
        NonNull::new(word).map_or_else(|| Self::from_code(code), Self)
    }
}

/// A clone has the annotations in its message, and no source position: IREE's own clones, which waiters of a failed
/// semaphore get, drop annotations and keep the message.
impl Clone for Status {
    fn clone(&self) -> Self {
        // SAFETY: reads a live status and returns a new one.
        let word = unsafe { raw::iree_status_clone(self.as_raw()) };
        let plain = NonNull::new(word).map_or_else(|| Self::from_code(self.code()), Self);
        let (full, short) = (text(format_args!("{self}")), text(format_args!("{plain}")));
        let Some(annotations) = full.strip_prefix(&short).filter(|rest| !rest.is_empty()) else { return plain };
        // "file:line: CODE; message"
        let message = short.split_once("; ").map_or("", |(_, message)| message);
        let message = text(format_args!("{message}{annotations}"));
        Self::at(self.code(), core::ptr::null(), 0, message.trim_start_matches("; "))
    }
}

impl Drop for Status {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: owned, and not used after.
        unsafe { raw::iree_status_free(self.as_raw()) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut length = 0;
        // SAFETY: a null buffer of capacity 0 asks for the length, without the terminating NUL.
        let measured = unsafe { raw::iree_status_format(self.as_raw(), 0, core::ptr::null_mut(), &raw mut length) };
        if !measured {
            return fmt::Debug::fmt(&self.code(), f);
        }
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(length + 1).is_err() {
            return fmt::Debug::fmt(&self.code(), f);
        }
        buffer.resize(length + 1, 0_u8);
        // SAFETY: the buffer has the stated capacity.
        let formatted = unsafe {
            raw::iree_status_format(self.as_raw(), buffer.len(), buffer.as_mut_ptr().cast::<c_char>(), &raw mut length)
        };
        if !formatted {
            return fmt::Debug::fmt(&self.code(), f);
        }
        buffer.truncate(length);
        f.write_str(&String::from_utf8_lossy(&buffer))
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Status {}

/// Context for errors on their way up.
pub trait Annotate<T> {
    /// Adds a line to the status of a failure. `message` is called only then.
    ///
    /// # Errors
    /// The error of `self`, annotated.
    fn annotate<M: AsRef<str>>(self, message: impl FnOnce() -> M) -> Result<T>;
}

impl<T> Annotate<T> for Result<T> {
    fn annotate<M: AsRef<str>>(self, message: impl FnOnce() -> M) -> Self {
        self.map_err(|status| status.annotate(message().as_ref()))
    }
}

/// The return value of a vtable slot.
#[inline]
pub fn into_raw(result: Result<()>) -> raw::iree_status_t {
    result.map_or_else(Status::into_raw, |()| core::ptr::null_mut())
}

/// The text of a message, or as much of it as memory allows.
#[cold]
pub fn text(arguments: fmt::Arguments<'_>) -> String {
    struct Text(String);

    impl fmt::Write for Text {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0.try_reserve(part.len()).map_err(|_| fmt::Error)?;
            self.0.push_str(part);
            Ok(())
        }
    }

    let mut text = Text(String::new());
    let _ = fmt::Write::write_fmt(&mut text, arguments);
    text.0
}

/// Builds a [`Status`] with a formatted message and this source position:
/// `status!(INVALID_ARGUMENT, "offset {offset} is past the end {length}")`.
#[macro_export]
macro_rules! status {
    ($code:ident, $($message:tt)+) => {
        $crate::Status::with_message(
            $crate::Code::$code,
            const {
                match ::core::ffi::CStr::from_bytes_with_nul(concat!(file!(), "\0").as_bytes()) {
                    Ok(file) => file,
                    Err(_) => c"",
                }
            },
            line!(),
            &$crate::status::text(::core::format_args!($($message)+)),
        )
    };
}

/// Calls a function of IREE that returns a status and turns it into a
/// [`Result`]: `iree!(raw::iree_hal_buffer_map_range(buffer, ...))?`.
///
/// Stands inside the caller's `unsafe` block.
#[macro_export]
macro_rules! iree {
    ($call:expr) => {
        $crate::Status::check($call)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_and_code_come_back() {
        let error = crate::status!(NOT_FOUND, "no agent {}", 7);
        assert_eq!(error.code(), Code::NOT_FOUND);
        let text = error.to_string();
        assert!(text.contains("no agent 7"), "{text}");
        assert!(text.contains("NOT_FOUND"), "{text}");
        assert!(text.contains("status.rs"), "{text}");
    }

    #[test]
    fn percent_signs_are_text() {
        let error = crate::status!(INTERNAL, "100%s").annotate("and %d more");
        let text = error.to_string();
        assert!(text.contains("100%s") && text.contains("and %d more"), "{text}");
    }

    #[test]
    fn words_round_trip() {
        let word = Status::from_code(Code::ABORTED).into_raw();
        assert_eq!(word.addr(), 10);
        // SAFETY: the word was just given up.
        let back = unsafe { Status::check(word) }.unwrap_err();
        assert_eq!(back.code(), Code::ABORTED);
        // SAFETY: OK owns nothing.
        unsafe { Status::check(core::ptr::null_mut()) }.unwrap();
        assert!(into_raw(Ok(())).is_null());
    }

    #[test]
    fn clones_of_clones_keep_annotations() {
        let error = crate::status!(DATA_LOSS, "a; b").annotate("while reading").annotate("for c").clone();
        // SAFETY: reads a live status; the new one is owned.
        let copy = unsafe { Status::check(raw::iree_status_clone(error.as_raw())) }.unwrap_err();
        assert_eq!(copy.code(), Code::DATA_LOSS);
        let text = copy.to_string();
        for part in ["a; b", "while reading", "for c"] {
            assert_eq!(text.matches(part).count(), 1, "{text}");
        }
        assert_eq!(Status::from_code(Code::ABORTED).annotate("why").clone().code(), Code::ABORTED);
    }

    #[test]
    fn clone_and_join_keep_the_first_code() {
        let first = crate::status!(DATA_LOSS, "first");
        let joined = first.clone().join(crate::status!(CANCELLED, "second"));
        drop(first);
        assert_eq!(joined.code(), Code::DATA_LOSS);
        let text = joined.to_string();
        assert!(text.contains("first") && text.contains("second"), "{text}");
    }
}
