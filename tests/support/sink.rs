// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A profile sink that keeps its input, for tests.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use amdgpu_rs::ffi::{Code, HalRef, Result, Status, iree, raw, status, strings};

use crate::support::{BufferRef, ExecutableRef, Points, Rig};

/// Kernels of `faults.c`; `write_at` with an index in bounds is one that works.
pub const KERNELS: &[u8] = include_bytes!("../testdata/faults.gfx1100.co");

/// Launches `write_at`, for index 0.
pub fn launch(rig: &Rig, queue: u64, signals: Points<'_>, kernels: &ExecutableRef, target: &BufferRef) -> Result<()> {
    rig.dispatch(queue, &[], signals, (kernels, "write_at"), &0_u64.to_le_bytes(), &[target])
}

/// One chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub content: String,
    pub stream: u64,
    pub gpu: u32,
    pub queue: u32,
    pub truncated: bool,
    pub dropped: u64,
    pub bytes: Vec<u8>,
}

/// Records that the sink has received.
#[derive(Debug, Default)]
pub struct Seen {
    pub begun: usize,
    pub ended: Vec<Code>,
    pub destroyed: bool,
    pub session: u64,
    pub chunks: Vec<Chunk>,
    /// The content that the sink refuses.
    pub refuse: Option<&'static str>,
}

#[repr(C)]
struct Object {
    resource: raw::iree_hal_resource_t,
    seen: Arc<Mutex<Seen>>,
}

static VTABLE: raw::iree_hal_profile_sink_vtable_t = raw::iree_hal_profile_sink_vtable_t {
    destroy: Some(destroy),
    begin_session: Some(begin_session),
    write: Some(write),
    end_session: Some(end_session),
};

/// A sink and a view of its input, which outlives it.
pub struct Sink {
    pub sink: HalRef<raw::iree_hal_profile_sink_t>,
    pub seen: Arc<Mutex<Seen>>,
}

impl Sink {
    pub fn new() -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        // SAFETY: all-zero is valid; the call below initialises the resource.
        let object = Box::into_raw(Box::new(Object { resource: unsafe { std::mem::zeroed() }, seen: seen.clone() }));
        // SAFETY: the object begins with its resource; its one reference is taken over.
        let sink = unsafe {
            raw::iree_hal_resource_initialize((&raw const VTABLE).cast::<c_void>(), object.cast());
            HalRef::from_owned(object.cast()).expect("a box is not null")
        };
        Self { sink, seen }
    }

    /// Begins a session of `families` with options that `change` changes.
    pub fn begin_options(
        &self,
        rig: &Rig,
        families: u32,
        change: impl FnOnce(&mut raw::iree_hal_device_profiling_options_t),
    ) -> Result<()> {
        // SAFETY: all-zero options ask for nothing; live objects.
        unsafe {
            let mut options: raw::iree_hal_device_profiling_options_t = std::mem::zeroed();
            options.data_families = families.into();
            options.sink = self.sink.as_ptr();
            change(&mut options);
            iree!(raw::iree_hal_device_profiling_begin(rig.device.as_ptr(), &raw const options))
        }
    }

    /// Begins a session of `families` with the filter that `change` makes.
    pub fn begin_with(
        &self,
        rig: &Rig,
        families: u32,
        change: impl FnOnce(&mut raw::iree_hal_profile_capture_filter_t),
    ) -> Result<()> {
        self.begin_options(rig, families, |options| change(&mut options.capture_filter))
    }

    pub fn begin(&self, rig: &Rig, families: u32) -> Result<()> {
        self.begin_options(rig, families, |_| {})
    }

    /// The records of all chunks of `content`.
    pub fn records<R: Copy>(&self, content: &str) -> Vec<R> {
        let mut records = Vec::new();
        for chunk in self.chunks(content) {
            assert_eq!(chunk.bytes.len() % size_of::<R>(), 0, "{content} holds whole records");
            for bytes in chunk.bytes.chunks_exact(size_of::<R>()) {
                let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(length as usize, size_of::<R>(), "the length in a record of {content}");
                // SAFETY: records are plain data of this size.
                records.push(unsafe { bytes.as_ptr().cast::<R>().read_unaligned() });
            }
        }
        records
    }

    pub fn chunks(&self, content: &str) -> Vec<Chunk> {
        self.seen.lock().unwrap().chunks.iter().filter(|chunk| chunk.content == content).cloned().collect()
    }

    /// Contents in the order of their chunks.
    pub fn contents(&self) -> Vec<String> {
        self.seen.lock().unwrap().chunks.iter().map(|chunk| chunk.content.clone()).collect()
    }

    pub fn ended(&self) -> Vec<Code> {
        self.seen.lock().unwrap().ended.clone()
    }
}

pub fn flush(rig: &Rig) -> Result<()> {
    // SAFETY: a live device.
    unsafe { iree!(raw::iree_hal_device_profiling_flush(rig.device.as_ptr())) }
}

pub fn end(rig: &Rig) -> Result<()> {
    // SAFETY: a live device.
    unsafe { iree!(raw::iree_hal_device_profiling_end(rig.device.as_ptr())) }
}

/// The last part of a content type.
fn content(metadata: &raw::iree_hal_profile_chunk_metadata_t) -> String {
    // SAFETY: valid during the call.
    let text = unsafe { strings::text(metadata.content_type) };
    text.strip_prefix("application/vnd.iree.hal.profile.").expect("a content type of profiles").to_owned()
}

/// # Safety
/// A sink of [`Sink::new`].
unsafe fn with_seen<R>(sink: *mut raw::iree_hal_profile_sink_t, see: impl FnOnce(&mut Seen) -> R) -> R {
    // SAFETY: the caller's contract.
    see(&mut unsafe { &*sink.cast::<Object>() }.seen.lock().unwrap())
}

unsafe extern "C" fn destroy(sink: *mut raw::iree_hal_profile_sink_t) {
    // SAFETY: the last reference is gone.
    let object = unsafe { Box::from_raw(sink.cast::<Object>()) };
    object.seen.lock().unwrap().destroyed = true;
}

unsafe extern "C" fn begin_session(
    sink: *mut raw::iree_hal_profile_sink_t,
    metadata: *const raw::iree_hal_profile_chunk_metadata_t,
) -> raw::iree_status_t {
    // SAFETY: IREE's call with valid arguments.
    let metadata = unsafe { &*metadata };
    let content = content(metadata);
    // SAFETY: IREE calls with the sink that `sink` made.
    let result = unsafe {
        with_seen(sink, |seen| {
            if seen.refuse == Some("session") {
                return Err(status!(ABORTED, "the sink takes no session"));
            }
            assert_eq!(content, "session");
            seen.begun += 1;
            seen.session = metadata.session_id;
            Ok(())
        })
    };
    result.map_or_else(Status::into_raw, |()| std::ptr::null_mut())
}

unsafe extern "C" fn write(
    sink: *mut raw::iree_hal_profile_sink_t,
    metadata: *const raw::iree_hal_profile_chunk_metadata_t,
    count: usize,
    spans: *const raw::iree_const_byte_span_t,
) -> raw::iree_status_t {
    // SAFETY: IREE's call with valid arguments.
    let metadata = unsafe { &*metadata };
    let mut bytes = Vec::new();
    for index in 0..count {
        // SAFETY: the spans are valid during the call.
        bytes.extend_from_slice(unsafe {
            let span = &*spans.add(index);
            std::slice::from_raw_parts(span.data, span.data_length)
        });
    }
    let chunk = Chunk {
        content: content(metadata),
        stream: metadata.stream_id,
        gpu: metadata.physical_device_ordinal,
        queue: metadata.queue_ordinal,
        truncated: metadata.flags & u64::from(raw::IREE_HAL_PROFILE_CHUNK_FLAG_TRUNCATED) != 0,
        dropped: metadata.dropped_record_count,
        bytes,
    };
    // SAFETY: IREE calls with the sink that it was given.
    let result = unsafe {
        with_seen(sink, |seen| {
            assert_eq!((seen.begun, seen.ended.len()), (1, 0), "chunks are within a session");
            assert_eq!(seen.session, metadata.session_id);
            if seen.refuse == Some(&chunk.content) {
                return Err(status!(DATA_LOSS, "the sink takes no {}", chunk.content));
            }
            seen.chunks.push(chunk);
            Ok(())
        })
    };
    result.map_or_else(Status::into_raw, |()| std::ptr::null_mut())
}

unsafe extern "C" fn end_session(
    sink: *mut raw::iree_hal_profile_sink_t,
    metadata: *const raw::iree_hal_profile_chunk_metadata_t,
    code: raw::iree_status_code_t,
) -> raw::iree_status_t {
    // SAFETY: IREE's call with valid arguments.
    unsafe {
        assert_eq!(content(&*metadata), "session");
        with_seen(sink, |seen| seen.ended.push(Code::from_raw(code)));
    }
    std::ptr::null_mut()
}
