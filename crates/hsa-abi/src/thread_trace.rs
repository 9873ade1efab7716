// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Thread traces of the SQ block: registers (as dword offsets from the first register of all), and their fields.
//!
//! Registers and fields are from the kernel driver's `gc_9_4_2`, `gc_11_0_0` and `gc_12_0_0` headers; tokens are from
//! its `soc21_enum.h` and from ROCm's `gfx9_primitives.h`. Each shader engine has a trace of its own.

/// Shader register that enables traces of a queue's waves, from gfx10 on.
pub const COMPUTE_THREAD_TRACE_ENABLE: u32 = 0x2e1e;
/// User data: values written here go to the trace. There are four such registers, from two before this one on.
pub const SQ_THREAD_TRACE_USERDATA_2: u32 = 0xc342;

/// Bytes of a page: addresses and lengths of buffers are in these.
pub const PAGE: u64 = 1 << 12;
/// Bytes that the write pointer counts.
pub const BLOCK: u64 = 32;

/// Up to gfx9.
pub mod gfx9 {
    /// The buffer's first page, lower 32 bits.
    pub const SQ_THREAD_TRACE_BASE: u32 = 0xc330;
    /// The buffer's length in pages.
    pub const SQ_THREAD_TRACE_SIZE: u32 = 0xc331;
    /// The compute unit and the SIMD units whose instructions are traced.
    pub const SQ_THREAD_TRACE_MASK: u32 = 0xc332;
    /// The types of tokens that are traced.
    pub const SQ_THREAD_TRACE_TOKEN_MASK: u32 = 0xc333;
    /// [`RESET_BUFFER`].
    pub const SQ_THREAD_TRACE_CTRL: u32 = 0xc335;
    /// Switches the trace on or off: [`MODE`].
    pub const SQ_THREAD_TRACE_MODE: u32 = 0xc336;
    /// The buffer's first page, upper 4 bits.
    pub const SQ_THREAD_TRACE_BASE2: u32 = 0xc337;
    /// The instructions that have tokens.
    pub const SQ_THREAD_TRACE_TOKEN_MASK2: u32 = 0xc338;
    /// The amount written, in [`super::BLOCK`]s.
    pub const SQ_THREAD_TRACE_WPTR: u32 = 0xc339;
    /// [`BUSY`], [`FULL`].
    pub const SQ_THREAD_TRACE_STATUS: u32 = 0xc33a;
    /// The fill level at which waves wait for the trace.
    pub const SQ_THREAD_TRACE_HIWATER: u32 = 0xc33b;
    /// The number of lost tokens.
    pub const SQ_THREAD_TRACE_CNTR: u32 = 0xc33c;

    /// CTRL: restarts the buffer.
    pub const RESET_BUFFER: u32 = 1 << 31;
    /// MODE: the field; 1 is on.
    pub const MODE: u32 = 3 << 21;
    /// MODE, on.
    pub const MODE_ON: u32 = 1 << 21;
    /// MODE: compute shaders are traced; data is written out early.
    pub const MASK_CS_AND_AUTOFLUSH: u32 = 1 << 18 | 1 << 25;
    /// STATUS: tokens are being written.
    pub const BUSY: u32 = 1 << 30;
    /// STATUS: there was no room for all tokens.
    pub const FULL: u32 = 1 << 31;
    /// WPTR: the field.
    pub const OFFSET: u32 = (1 << 30) - 1;
    /// Tokens by their types, which are bits of TOKEN_MASK.
    pub const TOKEN_MISC: u32 = 0;
    /// The time.
    pub const TOKEN_TIME: u32 = 1;
    /// A register was written.
    pub const TOKEN_REG: u32 = 2;
    /// A wave begins.
    pub const TOKEN_WAVE_START: u32 = 3;
    /// A register of compute shaders was written.
    pub const TOKEN_REG_CS: u32 = 5;
    /// A wave ends.
    pub const TOKEN_WAVE_END: u32 = 6;
    /// An instruction was executed.
    pub const TOKEN_INST: u32 = 10;
    /// A jump of a wave.
    pub const TOKEN_INST_PC: u32 = 11;
    /// A wave's own data.
    pub const TOKEN_USERDATA: u32 = 12;
    /// Instructions were issued.
    pub const TOKEN_ISSUE: u32 = 13;
    /// A register of compute shaders was written by privileged code.
    pub const TOKEN_REG_CS_PRIV: u32 = 15;
}

/// From gfx11 on.
pub mod gfx11 {
    /// gfx11: the buffer's first page, lower 32 bits.
    pub const SQ_THREAD_TRACE_BUF0_BASE: u32 = 0xd9e8;
    /// gfx11: the upper 4 bits, and from bit 8 on its length in pages.
    pub const SQ_THREAD_TRACE_BUF0_SIZE: u32 = 0xd9e9;
    /// Switches the trace on or off: [`MODE`].
    pub const SQ_THREAD_TRACE_CTRL: u32 = 0xd9ec;
    /// The work-group processor and SIMD unit whose instructions are traced.
    pub const SQ_THREAD_TRACE_MASK: u32 = 0xd9ed;
    /// The types of tokens that are not traced.
    pub const SQ_THREAD_TRACE_TOKEN_MASK: u32 = 0xd9ee;
    /// The amount written, in [`super::BLOCK`]s; on gfx11 plus the buffer's own address.
    pub const SQ_THREAD_TRACE_WPTR: u32 = 0xd9ef;
    /// [`BUSY`].
    pub const SQ_THREAD_TRACE_STATUS: u32 = 0xd9f4;
    /// [`BUF0_FULL`].
    pub const SQ_THREAD_TRACE_STATUS2: u32 = 0xd9f5;
    /// The number of lost tokens.
    pub const SQ_THREAD_TRACE_DROPPED_CNTR: u32 = 0xd9fa;

    /// CTRL: the field; 1 is on.
    pub const MODE: u32 = 3;
    /// MASK: waves of compute shaders.
    pub const WTYPE_INCLUDE_CS: u32 = 1 << 16;
    /// STATUS: events that end the trace are pending.
    pub const FINISH_PENDING: u32 = 0xfff;
    /// STATUS: tokens are being written.
    pub const BUSY: u32 = 1 << 25;
    /// STATUS2: there was no room for all tokens.
    pub const BUF0_FULL: u32 = 1;
    /// WPTR: the field.
    pub const OFFSET: u32 = (1 << 29) - 1;

    // TOKEN_MASK: tokens that there are not.
    /// Vector memory executes.
    pub const EXCLUDE_VMEMEXEC: u32 = 1 << 0;
    /// An ALU executes.
    pub const EXCLUDE_ALUEXEC: u32 = 1 << 1;
    /// Vector instructions.
    pub const EXCLUDE_VALUINST: u32 = 1 << 2;
    /// Waves begin and end.
    pub const EXCLUDE_WAVESTARTEND: u32 = 1 << 4;
    /// Instructions that no unit executes.
    pub const EXCLUDE_IMMEDIATE: u32 = 1 << 5;
    /// Registers are written.
    pub const EXCLUDE_REG: u32 = 1 << 6;
    /// Events.
    pub const EXCLUDE_EVENT: u32 = 1 << 7;
    /// Other instructions.
    pub const EXCLUDE_INST: u32 = 1 << 8;
    /// How busy units are.
    pub const EXCLUDE_UTILCTR: u32 = 1 << 9;
    /// Waves get their registers.
    pub const EXCLUDE_WAVEALLOC: u32 = 1 << 10;
    /// Registers that are wanted: those of compute shaders.
    pub const REG_INCLUDE_COMP: u32 = 1 << (16 + 3);
}

/// gfx12.0, where it differs from gfx11.
pub mod gfx12 {
    /// The buffer's length in pages.
    pub const SQ_THREAD_TRACE_BUF0_SIZE: u32 = 0xd9e6;
    /// First page of the buffer, lower 32 bits.
    pub const SQ_THREAD_TRACE_BUF0_BASE_LO: u32 = 0xd9e7;
    /// The upper bits.
    pub const SQ_THREAD_TRACE_BUF0_BASE_HI: u32 = 0xd9e8;
}
