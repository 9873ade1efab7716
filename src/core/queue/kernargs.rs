// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The kernargs of a submission while they are written.

use device_binaries::{CopyArgs, DeviceShape, UPDATE_PAYLOAD_OFFSET};
use hsa_abi::KernelDispatchPacket;

use amdgpu_gpu::Gpu;
use amdgpu_ring::{KERNARG_ALIGNMENT, KernargSpan, bytes_of};

/// One span of kernargs being filled.
#[derive(Debug)]
pub struct Kernargs {
    span: KernargSpan,
    length: usize,
}

impl Kernargs {
    /// The first `length` bytes of `span`, which has at least as many.
    #[inline(always)]
    pub(super) fn new(span: KernargSpan, length: usize) -> Self {
        Self { span, length }
    }

    /// Address of the first byte, for the packet and for the device.
    #[inline]
    pub fn address(&self) -> u64 {
        self.span.base.as_ptr() as u64
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline(always)]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset.checked_add(bytes.len()).is_some_and(|end| end <= self.length),
            "kernargs written out of their span"
        );
        // SAFETY: in bounds as asserted; the span's epoch is published only after the emitter is done.
        unsafe { self.span.write(offset, bytes) };
    }

    /// Writes the first 64-byte block of the span, whatever the length of its arguments: the submission owns whole
    /// blocks.
    ///
    /// # Panics
    /// When the span is empty.
    #[inline(always)]
    pub fn write_block(&mut self, block: &[u64; 8]) {
        const { assert!(size_of::<[u64; 8]>() as u64 == KERNARG_ALIGNMENT) };
        assert!(self.length > 0, "kernargs written to an empty span");
        // SAFETY: spans are whole blocks and this one has at least one; its epoch is published only after the emitter
        // is done.
        unsafe { self.span.write(0, bytes_of(block)) };
    }
}

/// Where kernel arguments are written: a ring, or memory of the host's that is copied later.
pub trait KernargSink {
    /// Writes `bytes` at `offset`, where they fit.
    fn write_bytes(&mut self, offset: usize, bytes: &[u8]);
}

impl KernargSink for Kernargs {
    #[inline(always)]
    fn write_bytes(&mut self, offset: usize, bytes: &[u8]) {
        // For the usual sizes of constants, the compiler emits register moves instead of a call.
        match bytes.len() {
            4 => self.write(offset, &bytes[..4]),
            8 => self.write(offset, &bytes[..8]),
            16 => self.write(offset, &bytes[..16]),
            _ => self.write(offset, bytes),
        }
    }
}

/// The kernargs of a part of a submission that are not taken yet.
#[derive(Debug, Clone, Copy)]
pub struct KernargCursor(KernargSpan);

impl KernargCursor {
    /// All of `span`, which is the submission's alone.
    #[inline(always)]
    pub(super) fn new(span: KernargSpan) -> Self {
        Self(span)
    }

    /// Takes the next `length` bytes, aligned to [`KERNARG_ALIGNMENT`].
    ///
    /// # Panics
    /// When the part's [`Demand`](crate::demand::Demand) asked for less.
    #[inline(always)]
    pub fn take(&mut self, length: usize) -> Kernargs {
        Kernargs::new(self.0.take((length as u64).next_multiple_of(KERNARG_ALIGNMENT)), length)
    }

    /// Copies `args` to the next span and returns its address.
    #[inline(always)]
    pub fn arguments(&mut self, args: &[u8]) -> u64 {
        let mut kernargs = self.take(args.len());
        kernargs.write(0, args);
        kernargs.address()
    }

    /// The packet of an update on `gpu`. Writes kernargs with `bytes` behind the arguments of the copy that `plan`
    /// makes for their address.
    #[inline]
    pub fn update(
        &mut self,
        gpu: &Gpu,
        bytes: &[u8],
        plan: impl FnOnce(DeviceShape, u64) -> device_binaries::Launch<CopyArgs>,
    ) -> KernelDispatchPacket {
        let mut kernargs = self.take(UPDATE_PAYLOAD_OFFSET + bytes.len());
        kernargs.write(UPDATE_PAYLOAD_OFFSET, bytes);
        let launch = plan(gpu.shape(), kernargs.address() + UPDATE_PAYLOAD_OFFSET as u64);
        kernargs.write(0, &launch.args.to_bytes());
        gpu.library_packet(&launch, kernargs.address())
    }
}
