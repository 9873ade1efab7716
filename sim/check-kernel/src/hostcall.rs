// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Calls of the host by kernels, as ROCm's device library makes them: `printf` and `assert` of HIP and Triton, through
//! the hidden argument `hidden_hostcall_buffer`; and OpenCL's `printf`, which writes to `hidden_printf_buffer`.
//!
//! The hostcall buffer has a pointer to headers, a pointer to payloads, a doorbell signal, a stack of free packets, a
//! stack of ready ones, and the mask of the packets' numbers, 8 bytes each. A wave pops a free packet, writes the
//! number of a service and 8 words for each of its lanes, marks it ready, pushes it on the ready stack, adds 1 to the
//! doorbell, and waits until the mark is gone. (Layout: `ockl.bc`, `__ockl_hostcall_internal`.)

use std::collections::HashMap;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use amdgpu_code_object::{Kernel, PrintfFormat, ValueKind};
use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::printf::{self, Argument};

/// Bytes of OpenCL's print buffer, as OpenCL's runtime of ROCm has them.
pub const PRINT_BUFFER: usize = 1 << 20;

/// Most packets: more than the waves that a GPU runs at once.
const MOST_PACKETS: u64 = 1 << 14;

/// Bytes of the buffer, a header and a payload. Headers begin at a multiple of 64.
const BUFFER: usize = 64;
const HEADER: usize = 24;
const PAYLOAD: usize = 64 * 8 * 8;

/// Offsets in the buffer (READY) and in a header.
const READY: usize = 32;
const ACTIVE: usize = 8;
const SERVICE: usize = 16;
const CONTROL: usize = 20;

/// The service that prints.
const PRINTF: u32 = 2;

/// True if the kernel may call the host.
pub fn calls_host(kernel: &Kernel) -> bool {
    has_hidden(kernel, "hidden_hostcall_buffer")
}

/// True if the kernel may print by OpenCL's `printf`.
pub fn prints(kernel: &Kernel) -> bool {
    has_hidden(kernel, "hidden_printf_buffer")
}

fn has_hidden(kernel: &Kernel, name: &str) -> bool {
    kernel.arguments.iter().any(|argument| matches!(&argument.value_kind, ValueKind::Hidden(own) if own == name))
}

/// Number of packets for a grid of this many waves: a wave holds one at most.
pub fn packets(waves: u64) -> u64 {
    waves.clamp(1, MOST_PACKETS).next_power_of_two()
}

/// Bytes of a buffer with this many packets.
pub fn size(packets: u64) -> usize {
    BUFFER + packets as usize * (HEADER + PAYLOAD) + 64
}

/// A hostcall buffer. It belongs to one launch.
pub struct HostCalls {
    address: usize,
    headers: usize,
    payloads: usize,
    mask: u64,
    doorbell: HsaSignal,
    is_over: AtomicBool,
}

impl HostCalls {
    /// Initializes `size(packets)` bytes at an address, which is a multiple of 64.
    ///
    /// # Safety
    /// The memory is the caller's, and stays until no kernel uses the buffer.
    pub unsafe fn new(address: u64, packets: u64) -> Result<Self, String> {
        let mut doorbell = HsaSignal::NULL;
        // SAFETY: no consumers, and the output is a valid place.
        let status = unsafe { hsa_amd_signal_create(0, 0, ptr::null(), 0, &mut doorbell) };
        if status != HsaStatus::SUCCESS {
            return Err("making a signal for calls of the host".into());
        }
        let address = address as usize;
        let headers = address + BUFFER;
        let payloads = (headers + packets as usize * HEADER).next_multiple_of(64);
        let calls = Self { address, headers, payloads, mask: packets - 1, doorbell, is_over: AtomicBool::new(false) };
        // Pointers have a tag above the packet's number, which is never 0 as a whole.
        for packet in 0..packets {
            let next = if packet == 0 { 0 } else { packets + packet - 1 };
            calls.word(headers + packet as usize * HEADER).store(next, Ordering::Relaxed);
        }
        let words = [headers as u64, payloads as u64, doorbell.handle, 2 * packets - 1, 0, packets - 1];
        for (at, word) in words.into_iter().enumerate() {
            calls.word(address + 8 * at).store(word, Ordering::Release);
        }
        Ok(calls)
    }

    fn word(&self, address: usize) -> &AtomicU64 {
        // SAFETY: every address that is asked for is a multiple of 8 in the memory that `new` was given, which the GPU
        // accesses too.
        unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(address)) }
    }

    fn half(&self, address: usize) -> &AtomicU32 {
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address)) }
    }

    /// Answers calls until [`Self::end`].
    pub fn serve(&self) {
        let mut messages = Messages::default();
        let mut seen = 0;
        loop {
            // Calls before the end are answered: their kernel has ended, or has failed.
            let is_over = self.is_over.load(Ordering::Acquire);
            let mut ready = Vec::new();
            let mut pointer = self.word(self.address + READY).swap(0, Ordering::AcqRel);
            while pointer != 0 {
                let header = self.headers + (pointer & self.mask) as usize * HEADER;
                ready.push((header, self.payloads + (pointer & self.mask) as usize * PAYLOAD));
                pointer = self.word(header).load(Ordering::Relaxed);
            }
            // The last on the stack came first.
            for (header, payload) in ready.into_iter().rev() {
                self.answer(header, payload, &mut messages);
                self.half(header + CONTROL).store(0, Ordering::Release);
            }
            if is_over {
                return;
            }
            let (condition, state) = (HsaSignalCondition::NE, HsaWaitState::BLOCKED);
            // SAFETY: the signal is live.
            seen = unsafe { hsa_signal_wait_scacquire(self.doorbell, condition, seen, u64::MAX, state) };
        }
    }

    /// Ends [`Self::serve`]. The kernel has ended.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        // SAFETY: the signal is live.
        unsafe { hsa_signal_add_screlease(self.doorbell, 1) };
    }

    fn answer(&self, header: usize, payload: usize, messages: &mut Messages) {
        let service = self.half(header + SERVICE).load(Ordering::Relaxed);
        let active = self.word(header + ACTIVE).load(Ordering::Relaxed);
        for lane in (0..64).filter(|lane| active >> lane & 1 != 0) {
            let words = payload + 64 * lane;
            let given: [u64; 8] = std::array::from_fn(|at| self.word(words + 8 * at).load(Ordering::Relaxed));
            let result = match service {
                PRINTF => messages.append(given, write),
                _ => 0,
            };
            self.word(words).store(result, Ordering::Relaxed);
            self.word(words + 8).store(0, Ordering::Relaxed);
        }
        if service != PRINTF {
            write(
                true,
                format!("note: a host call of service {service} was ignored: only printf is supported\n").as_bytes(),
            );
        }
    }
}

impl Drop for HostCalls {
    fn drop(&mut self) {
        // SAFETY: no kernel uses the signal any more.
        let _ = unsafe { hsa_signal_destroy(self.doorbell) };
    }
}

/// Prints to standard output or error. A closed one does not matter.
fn write(is_error: bool, text: &[u8]) {
    let _ = if is_error { std::io::stderr().write_all(text) } else { std::io::stdout().write_all(text) };
}

/// Messages of which a part has come, by number.
#[derive(Default)]
struct Messages {
    parts: HashMap<u64, Vec<u64>>,
    count: u64,
}

impl Messages {
    /// Appends the words of one lane. The first describes the others: bit 0 begins a message, bit 1 ends it, bits 5 to
    /// 7 count the words, and the bits above have the message's number. Returns the description of the lane's next
    /// words, or the number of bytes printed.
    fn append(&mut self, [description, words @ ..]: [u64; 8], print: impl FnOnce(bool, &[u8])) -> u64 {
        let mut number = description >> 8;
        if description & 1 != 0 {
            self.count += 1;
            number = self.count;
        }
        let message = self.parts.entry(number).or_default();
        message.extend(&words[..(description >> 5 & 7) as usize]);
        if description & 2 == 0 {
            return number << 8;
        }
        let message = self.parts.remove(&number).unwrap_or_default();
        let (is_error, text) = printed(&message);
        print(is_error, &text);
        text.len() as u64
    }
}

/// Text of a message: the stream, 1 for standard error, then the format and the arguments. Strings lie among the words,
/// up to a zero and filled up to 8 bytes.
fn printed(message: &[u64]) -> (bool, Vec<u8>) {
    let Some((stream, words)) = message.split_first() else { return (false, Vec::new()) };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut at = 0;
    let string = |at: &mut usize| {
        let rest = bytes.get(*at..).unwrap_or_default();
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        *at += (text.len() + 1).next_multiple_of(8);
        text
    };
    let format = string(&mut at);
    let text = printf::format(&format, |conversion, _| {
        if conversion == b's' {
            return (at < bytes.len()).then(|| Argument::Text(string(&mut at)));
        }
        let word = words.get(at / 8)?;
        at += 8;
        Some(Argument::Bits(*word, 8))
    });
    (*stream == 1, text)
}

/// Text that a kernel has written to OpenCL's print buffer: the number of bytes, the buffer's size, then records of a
/// format's number and its arguments, each filled up to 4 bytes.
pub fn print_buffer(bytes: &[u8], formats: &[PrintfFormat]) -> Vec<u8> {
    let half = |at: usize| bytes.get(at..at + 4).map(|half| u32::from_le_bytes([half[0], half[1], half[2], half[3]]));
    let end = half(0).map_or(0, |written| 8 + written as usize).min(bytes.len());
    let mut out = Vec::new();
    let mut at = 8;
    while at < end {
        let Some(format) = half(at).and_then(|id| formats.iter().find(|format| format.id == id)) else { break };
        at += 4;
        let mut sizes = format.sizes.iter();
        // A vector is one argument, of which each conversion of a lane takes a part.
        let mut lanes: Vec<Argument> = Vec::new();
        out.extend(printf::format(&format.text, |conversion, count| {
            if lanes.is_empty() {
                let size = *sizes.next()? as usize;
                let argument = bytes.get(at..at + size)?;
                at += size.next_multiple_of(4);
                if conversion == b's' {
                    return Some(Argument::Text(argument.split(|byte| *byte == 0).next()?.to_vec()));
                }
                // Vectors of three have the size of those of four.
                let lane = size / if size.is_multiple_of(count) { count } else { count.next_power_of_two() };
                let value = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                lanes.extend(argument.chunks(lane.max(1)).rev().map(|bytes| Argument::Bits(value(bytes), bytes.len())));
            }
            lanes.pop()
        }));
        // Arguments that the format does not name.
        at += sizes.map(|size| (*size as usize).next_multiple_of(4)).sum::<usize>();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a string, with its zero.
    fn string(text: &str) -> Vec<u64> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((text.len() + 1).next_multiple_of(8), 0);
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn messages_come_in_parts() {
        let mut messages = Messages::default();
        let nothing = |_: bool, _: &[u8]| panic!("not yet");
        let call = |description: u64, words: &[u64]| {
            let mut all = [0; 8];
            all[0] = description | (words.len() as u64) << 5;
            all[1..=words.len()].copy_from_slice(words);
            all
        };
        let first = messages.append(call(1, &[0]), nothing);
        let other = messages.append(call(1, &[1]), nothing);
        assert_ne!(first, other);
        let format = string("%d and %s, %.1f\n");
        assert_eq!(messages.append(call(first, &format), nothing), first);
        assert_eq!(
            messages.append(call(other | 2, &string("bad")), |is_error, text| {
                assert!(is_error && text == b"bad");
            }),
            3
        );
        messages.append(call(first, &[[5].to_vec(), string("text")].concat()), nothing);
        let mut told = String::new();
        let length = messages.append(call(first | 2, &[2.5_f64.to_bits()]), |is_error, text| {
            assert!(!is_error);
            told = String::from_utf8(text.to_vec()).unwrap();
        });
        assert_eq!((told.as_str(), length), ("5 and text, 2.5\n", 16));
    }

    #[test]
    fn records_of_opencl_have_sizes() {
        let formats = [
            PrintfFormat { id: 1, sizes: vec![4, 8], text: b"%d %f\n".to_vec() },
            PrintfFormat { id: 2, sizes: vec![8, 1], text: b"%v2d %c\n".to_vec() },
        ];
        let record = |id: u32, parts: &[&[u8]]| [&id.to_le_bytes()[..], &parts.concat()].concat();
        let records = [
            record(2, &[&1_u32.to_le_bytes(), &2_u32.to_le_bytes(), b"x\0\0\0"]),
            record(1, &[&(-3_i32).to_le_bytes(), &0.5_f64.to_le_bytes()]),
        ]
        .concat();
        let head = [(records.len() as u32).to_le_bytes(), 1000_u32.to_le_bytes()].concat();
        let text = print_buffer(&[&head[..], &records, &[9; 8]].concat(), &formats);
        assert_eq!(String::from_utf8(text).unwrap(), "1,2 x\n-3 0.500000\n");
        // A record of no format ends the output.
        assert_eq!(print_buffer(&[&[4, 0, 0, 0][..], &[0; 4], &[7, 0, 0, 0]].concat(), &formats), b"");
        assert_eq!(print_buffer(&[], &formats), b"");
    }
}
