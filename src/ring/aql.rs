// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The AQL ring: packets on their way to the packet processor.
//!
//! Writer: the thread that holds the queue's submission lock. Reader: the packet processor, which takes packets in
//! order, stops at a packet whose header says INVALID, and sets headers back to INVALID when it is done with them (HSA
//! System Architecture 1.2, 2.8). Order of a publication: the body of a packet, then its header with a 32-bit release
//! store (header in the low half, setup in the high half). The header of a reservation's first packet comes last of
//! all: until then the packet processor stops there, whatever is behind. A ring in the GPU's memory, which the host
//! writes through write-combining buffers, has a store fence before that header and before the doorbell. Then one
//! doorbell store with the index of the last packet. The write index is stored when slots are reserved. Both indices
//! only grow; a slot is free when `write - read < size`. The read index is cached and only loaded again when the ring
//! seems full.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hsa_abi::{AmdQueue, HsaFenceScope, HsaPacketType, KernelDispatchPacket, PacketHeader};

/// The first 32 bits of a packet: its header, and above it 16 bits of setup (kernel dispatch: grid dimensions; vendor
/// packets: format).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderWord(pub u32);

impl HeaderWord {
    /// The word of `header` and `setup`.
    pub const fn new(header: PacketHeader, setup: u16) -> Self {
        Self(header.0 as u32 | (setup as u32) << 16)
    }
}

/// One 64-byte packet of a ring. Never referenced: only its address is handed around.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PacketSlot([u64; 8]);

/// The 64 bytes of a packet, of which the first 32 bits, header and setup, do not count.
pub type PacketBody = [u64; 8];

/// The 64 bytes of a packet. The first 32 bits, header and setup, are ignored.
///
/// # Safety
/// The type has no padding: each of its bytes is initialised.
pub unsafe trait Packet: Copy {}
// SAFETY: its fields, integers all, are 64 bytes (`hsa-abi` asserts their offsets).
unsafe impl Packet for hsa_abi::BarrierAndPacket {}
// SAFETY: as above.
unsafe impl Packet for hsa_abi::AmdBarrierValuePacket {}
// SAFETY: as above.
unsafe impl Packet for hsa_abi::AmdPm4IbPacket {}

/// The packet's bytes.
#[inline(always)]
pub fn body_of<P: Packet>(packet: &P) -> PacketBody {
    const { assert!(size_of::<P>() == size_of::<PacketSlot>()) };
    // SAFETY: `Packet` promises that every byte is initialised.
    unsafe { std::mem::transmute_copy(packet) }
}

/// The bytes of a dispatch, composed of its fields, which are mostly in registers: storing fields one by one and
/// loading words of several would take longer.
#[inline(always)]
pub fn body_of_dispatch(packet: &KernelDispatchPacket) -> PacketBody {
    let [x, y, z] = packet.workgroup_size.map(u64::from);
    let [columns, rows, layers] = packet.grid_size.map(u64::from);
    [
        u64::from(packet.header.0) | u64::from(packet.setup) << 16 | x << 32 | y << 48,
        z | u64::from(packet.reserved0) << 16 | columns << 32,
        rows | layers << 32,
        u64::from(packet.private_segment_size) | u64::from(packet.group_segment_size) << 32,
        packet.kernel_object,
        packet.kernarg_address,
        packet.reserved2,
        packet.completion_signal.handle,
    ]
}

/// Where a queue's ring lives; all of it in memory shared with the packet processor.
#[derive(Debug, Clone, Copy)]
pub struct AqlMemory {
    /// The memory of a queue's ring; all of it is shared with the packet processor.
    pub slots: NonNull<PacketSlot>,
    /// Number of packets, a power of two.
    pub size: u32,
    /// `amd_queue_t.write_dispatch_id`.
    pub write_index: NonNull<u64>,
    /// `amd_queue_t.read_dispatch_id`.
    pub read_index: NonNull<u64>,
    /// The word behind the doorbell signal (`amd_signal_t.hardware_doorbell_ptr`).
    pub doorbell: NonNull<u64>,
    /// The packets are in memory of the GPU (`HSA_ALLOCATE_QUEUE_DEV_MEM=1`), which the host writes through
    /// write-combining buffers: their stores are ordered by fences alone.
    pub is_write_combined: bool,
}

impl AqlMemory {
    /// The ring of a queue made by an HSA runtime.
    ///
    /// # Safety
    /// `queue` is alive; `doorbell` is the word behind its doorbell signal; `is_write_combined` is true if its packets
    /// are in GPU memory.
    pub unsafe fn of_queue(queue: NonNull<AmdQueue>, doorbell: NonNull<u64>, is_write_combined: bool) -> Self {
        let queue = queue.as_ptr();
        // SAFETY: alive by contract; ring address and size never change, of the indices only the addresses are taken.
        unsafe {
            Self {
                slots: NonNull::new_unchecked((&raw const (*queue).hsa_queue.base_address).read().cast()),
                size: (&raw const (*queue).hsa_queue.size).read(),
                write_index: NonNull::new_unchecked(&raw mut (*queue).write_dispatch_id),
                read_index: NonNull::new_unchecked(&raw mut (*queue).read_dispatch_id),
                doorbell,
                is_write_combined,
            }
        }
    }
}

/// Makes all earlier stores of this thread, including those to write-combined memory, arrive before later ones.
#[inline]
fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// The producer's end of a hardware queue.
#[derive(Debug)]
pub struct AqlRing {
    memory: AqlMemory,
    write: u64,
    /// The read index when it was last loaded.
    read: u64,
}

// SAFETY: the ring's memory is shared with a device anyway; on the host it has one producer at a time (`&mut self`).
unsafe impl Send for AqlRing {}

impl AqlRing {
    /// The producer's end of the queue at `memory`.
    ///
    /// # Safety
    /// The pointers stay valid until the ring is dropped, `size` is a power of two, and only the ring writes packets
    /// and the write index.
    pub unsafe fn new(memory: AqlMemory) -> Self {
        // SAFETY: valid by contract; the index is naturally aligned.
        let write = unsafe { AtomicU64::from_ptr(memory.write_index.as_ptr()) }.load(Ordering::Relaxed);
        let mut ring = Self { memory, write, read: 0 };
        ring.look();
        ring
    }

    /// Packets the ring holds.
    pub fn size(&self) -> u32 {
        self.memory.size
    }

    /// Loads the read index.
    #[cold]
    fn look(&mut self) {
        // SAFETY: valid by the contract of `new`. Acquire: the packet processor's accesses to a slot happen before its
        // reuse.
        self.read = unsafe { AtomicU64::from_ptr(self.memory.read_index.as_ptr()) }.load(Ordering::Acquire);
    }

    /// Slots that were free when the read index was last loaded.
    fn known_free(&self) -> u32 {
        self.memory.size - (self.write - self.read) as u32
    }

    /// Room for `count` consecutive packets; none when they are not free now.
    #[inline(always)]
    pub fn room(&mut self, count: u32) -> Option<AqlRoom<'_>> {
        if count > self.known_free() {
            self.look();
            if count > self.known_free() {
                return None;
            }
        }
        Some(AqlRoom { ring: self, count })
    }

    /// The slots of the ring.
    #[inline(always)]
    fn slots(&self) -> Slots {
        Slots { first: self.memory.slots, size: self.memory.size }
    }

    /// Orders earlier writes to packets before later writes.
    #[inline(always)]
    fn order_packets(&self) {
        if self.memory.is_write_combined {
            store_fence();
        }
    }

    #[inline]
    fn ring_doorbell(&self, last: u64) {
        self.order_packets();
        // SAFETY: valid by the contract of `new`; doorbells take whole 64-bit stores.
        unsafe { AtomicU64::from_ptr(self.memory.doorbell.as_ptr()) }.store(last, Ordering::Release);
    }
}

/// Free packets of a ring. There is one at a time for each ring, because it borrows the producer's end.
#[derive(Debug)]
pub struct AqlRoom<'a> {
    ring: &'a mut AqlRing,
    count: u32,
}

impl<'a> AqlRoom<'a> {
    /// Reserves the packets.
    #[inline(always)]
    pub fn reserve(self) -> Reservation<'a> {
        let Self { ring, count } = self;
        let first = ring.write;
        ring.write += u64::from(count);
        // SAFETY: valid by the contract of `AqlRing::new`. Headers in the new slots say INVALID, so the packet
        // processor waits.
        unsafe { AtomicU64::from_ptr(ring.memory.write_index.as_ptr()) }.store(ring.write, Ordering::Release);
        Reservation { ring, first, count, written: 0, header: None, published: false }
    }
}

/// The slots of a ring.
#[derive(Clone, Copy)]
struct Slots {
    first: NonNull<PacketSlot>,
    size: u32,
}

impl Slots {
    #[inline(always)]
    fn slot(&self, index: u64) -> NonNull<PacketSlot> {
        let position = (index & u64::from(self.size - 1)) as usize;
        // SAFETY: `position` is below `size`, so the slot is in the ring.
        unsafe { self.first.add(position) }
    }

    #[inline(always)]
    fn write_body(&self, index: u64, body: &PacketBody) {
        let words = self.slot(index).cast::<u64>();
        // SAFETY: the slot has eight aligned words, is reserved, and its header or that of its reservation's first
        // packet says INVALID, so that the packet processor does not read the rest yet. Atomics: the memory belongs to
        // a device too.
        unsafe {
            AtomicU32::from_ptr(words.cast::<u32>().add(1).as_ptr()).store((body[0] >> 32) as u32, Ordering::Relaxed);
            for (i, word) in body.iter().enumerate().skip(1) {
                AtomicU64::from_ptr(words.add(i).as_ptr()).store(*word, Ordering::Relaxed);
            }
        }
    }

    /// Writes a packet, its own header last. The header of the reservation's first packet still is INVALID.
    #[inline(always)]
    fn write(&self, index: u64, body: &PacketBody) {
        let [first, rest @ ..] = *body;
        let words = self.slot(index).cast::<u64>();
        // SAFETY: the slot has eight aligned words and is reserved; the packet processor reads it only behind the
        // header of its reservation's first packet, whose release store comes after these. No atomics but for the
        // header: of the others the compiler makes stores of several words.
        unsafe {
            words.add(1).cast::<[u64; 7]>().write(rest);
            AtomicU64::from_ptr(words.as_ptr()).store(first, Ordering::Release);
        }
    }

    #[inline(always)]
    fn store_header(&self, index: u64, header: HeaderWord) {
        // SAFETY: the first word of a slot is aligned and shared with the packet processor, which accesses it
        // atomically.
        unsafe { AtomicU32::from_ptr(self.slot(index).cast::<u32>().as_ptr()) }.store(header.0, Ordering::Release);
    }
}

/// Reserved slots, filled in order. If dropped unpublished, the slots become empty barrier packets, so that the queue
/// continues.
#[derive(Debug)]
pub struct Reservation<'a> {
    ring: &'a mut AqlRing,
    first: u64,
    count: u32,
    written: u32,
    /// The header of the first packet.
    header: Option<HeaderWord>,
    published: bool,
}

impl Reservation<'_> {
    /// Slots written.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Slots not written yet.
    pub fn remaining(&self) -> u32 {
        self.count - self.written
    }

    /// The device address of the slot `distance` after the next one to be written.
    pub fn slot_address(&self, distance: u32) -> u64 {
        self.ring.slots().slot(self.first + u64::from(self.written + distance)).as_ptr() as u64
    }

    /// Writes the next packet. A header of `None` stays INVALID: an earlier packet of the reservation publishes it on
    /// the device.
    ///
    /// # Panics
    /// When every reserved slot is written: the plan and the reservation disagree.
    #[inline(always)]
    pub fn write(&mut self, body: &PacketBody, header: Option<HeaderWord>) {
        assert!(self.written < self.count, "more packets written than reserved");
        let index = self.first + u64::from(self.written);
        self.ring.slots().write_body(index, body);
        match header {
            _ if self.written == 0 => self.header = header,
            // Not read before the first one.
            Some(header) => self.ring.slots().store_header(index, header),
            None => {}
        }
        self.written += 1;
    }

    /// Writes at most `most` consecutive packets, none of which is the reservation's first, with the headers in their
    /// first words. Returns their number.
    ///
    /// # Panics
    /// When the first packet was not written, or fewer than `most` slots are left.
    #[inline(always)]
    pub fn write_run(&mut self, most: u32, packets: impl Iterator<Item = PacketBody>) -> u32 {
        assert!(self.written > 0, "the first packet publishes the others");
        assert!(most <= self.remaining(), "more packets written than reserved");
        // Private copies: they stay in registers.
        let (ring, begin) = (self.ring.slots(), self.first + u64::from(self.written));
        let mut index = begin;
        for body in packets.take(most as usize) {
            ring.write(index, &body);
            index += 1;
        }
        let written = (index - begin) as u32;
        self.written += written;
        written
    }

    /// Publishes the packets, once: stores the header of the first one, then rings the doorbell.
    ///
    /// # Panics
    /// When a slot was not written.
    #[inline(always)]
    pub fn publish(&mut self) {
        debug_assert!(!self.published);
        assert!(self.written == self.count, "packets reserved and not written");
        if let Some(header) = self.header {
            self.ring.order_packets();
            self.ring.slots().store_header(self.first, header);
        }
        self.published = true;
        self.ring.ring_doorbell(self.first + u64::from(self.count) - 1);
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.published && self.count > 0 {
            self.fill();
        }
    }
}

impl Reservation<'_> {
    /// Publishes empty barrier packets in place of any written ones.
    #[cold]
    fn fill(&mut self) {
        let no_op = PacketHeader::new(HsaPacketType::BARRIER_AND, false, HsaFenceScope::NONE, HsaFenceScope::NONE);
        // The first one last: until then the others are not read.
        for i in (0..u64::from(self.count)).rev() {
            self.ring.slots().write_body(self.first + i, &[0; 8]);
            self.ring.order_packets();
            self.ring.slots().store_header(self.first + i, HeaderWord::new(no_op, 0));
        }
        self.ring.ring_doorbell(self.first + u64::from(self.count) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue in plain host memory; the test plays the packet processor.
    struct FakeQueue {
        slots: Vec<PacketSlot>,
        write: Box<u64>,
        read: Box<u64>,
        doorbell: Box<u64>,
    }

    impl FakeQueue {
        fn new(size: u32) -> Self {
            let slots = (0..size).map(|_| PacketSlot([1, 0, 0, 0, 0, 0, 0, 0])).collect();
            Self { slots, write: Box::new(0), read: Box::new(0), doorbell: Box::new(u64::MAX) }
        }

        fn memory(&mut self) -> AqlMemory {
            AqlMemory {
                size: self.slots.len() as u32,
                slots: NonNull::new(self.slots.as_mut_ptr()).unwrap(),
                write_index: NonNull::from(&mut *self.write),
                read_index: NonNull::from(&mut *self.read),
                doorbell: NonNull::from(&mut *self.doorbell),
                is_write_combined: false,
            }
        }
    }

    #[test]
    fn a_dispatch_is_what_its_fields_make() {
        let packet = KernelDispatchPacket {
            header: PacketHeader(0x1502),
            setup: 0x0304,
            workgroup_size: [0x1112, 0x2122, 0x3132],
            reserved0: 0x4142,
            grid_size: [0x5152_5354, 0x6162_6364, 0x7172_7374],
            private_segment_size: 0x8182_8384,
            group_segment_size: 0x9192_9394,
            kernel_object: 0xA1A2_A3A4_A5A6_A7A8,
            kernarg_address: 0xB1B2_B3B4_B5B6_B7B8,
            reserved2: 0xC1C2_C3C4_C5C6_C7C8,
            completion_signal: hsa_abi::HsaSignal { handle: 0xD1D2_D3D4_D5D6_D7D8 },
        };
        // SAFETY: packets are 64 bytes of integers without padding.
        assert_eq!(body_of_dispatch(&packet), unsafe {
            std::mem::transmute::<KernelDispatchPacket, PacketBody>(packet)
        });
    }

    #[test]
    fn publishes_in_order_and_keeps_the_capacity() {
        let mut queue = FakeQueue::new(4);
        let memory = queue.memory();
        // SAFETY: the queue outlives the ring.
        let mut ring = unsafe { AqlRing::new(memory) };
        assert!(ring.room(5).map(AqlRoom::reserve).is_none());
        let mut packets = ring.room(3).map(AqlRoom::reserve).unwrap();
        // SAFETY: plays the packet processor on memory that lives on.
        let words = |i: usize| unsafe { memory.slots.add(i).cast::<[u32; 16]>().read_volatile() };
        for (i, header) in [Some(HeaderWord(0x1503)), None, Some(HeaderWord(0x3_0000 | 0x1502))].into_iter().enumerate()
        {
            packets.write(&[(i as u64) << 32 | i as u64; 8], header);
            assert_eq!(words(0)[0], 1, "the first one is INVALID until all are published");
        }
        packets.publish();
        drop(packets);
        assert_eq!(ring.known_free(), 1);
        // SAFETY: `memory` lives on, and no packet processor reads or writes it.
        unsafe {
            assert_eq!(memory.write_index.read_volatile(), 3);
            assert_eq!(memory.doorbell.read_volatile(), 2);
            assert_eq!(words(0)[0], 0x1503);
            assert_eq!(words(1)[0], 1, "left INVALID");
            assert_eq!(words(2)[1..], [2; 15]);
            memory.read_index.write_volatile(2);
        }
        assert_eq!(ring.known_free(), 1, "the read index is not looked at as long as there is room");
        assert!(ring.room(3).is_some() && ring.room(4).is_none());
    }

    #[test]
    fn packets_in_a_row_are_published_by_the_first_one() {
        let mut queue = FakeQueue::new(4);
        let memory = queue.memory();
        // SAFETY: the queue outlives the ring.
        let mut ring = unsafe { AqlRing::new(memory) };
        let mut packets = ring.room(4).map(AqlRoom::reserve).unwrap();
        // SAFETY: plays the packet processor on memory that lives on.
        let words = |i: usize| unsafe { memory.slots.add(i).cast::<[u32; 16]>().read_volatile() };
        packets.write(&[0; 8], Some(HeaderWord(0x1503)));
        let mut body = [0x0707_0707_0707_0707; 8];
        body[0] = 0x0808_0808_0003_1502;
        assert_eq!(packets.write_run(3, [body; 2].into_iter()), 2);
        assert_eq!((words(0)[0], words(1)[0], words(2)[0]), (1, 0x3_1502, 0x3_1502));
        let mut expected = vec![0x0707_0707; 15];
        expected[0] = 0x0808_0808;
        assert_eq!((words(2)[1..].to_vec(), words(3)[1]), (expected, 0));
        packets.write(&[0; 8], Some(HeaderWord(0x1504)));
        packets.publish();
        assert_eq!((words(0)[0], words(3)[0]), (0x1503, 0x1504));
    }

    #[test]
    fn an_abandoned_reservation_becomes_no_ops() {
        let mut queue = FakeQueue::new(2);
        let memory = queue.memory();
        // SAFETY: the queue outlives the ring.
        let mut ring = unsafe { AqlRing::new(memory) };
        let mut packets = ring.room(2).map(AqlRoom::reserve).unwrap();
        packets.write(&[9; 8], None);
        drop(packets);
        for i in 0..2 {
            // SAFETY: plays the packet processor on memory that lives on.
            let words = unsafe { memory.slots.add(i).cast::<[u32; 16]>().read_volatile() };
            assert_eq!(words[0], u32::from(HsaPacketType::BARRIER_AND.0));
            assert_eq!(words[1..], [0; 15]);
        }
        // SAFETY: `memory` lives on, and nothing else writes it.
        assert_eq!(unsafe { memory.doorbell.read_volatile() }, 1);
    }

    /// All orders in which a few packets are reserved and freed, in rings of a few slots, from positions at the
    /// wrap-around and at the end of the index range: the free slots are those that the packet processor has passed, no
    /// slot is reserved twice, and a reservation that does not fit takes nothing.
    #[test]
    fn slots_are_reserved_once_until_the_packet_processor_has_passed_them() {
        for (size, start) in
            [1_u32, 2, 4, 8].into_iter().flat_map(|size| [0, 1, 7, u64::MAX - 64].map(|start| (size, start)))
        {
            let mut queue = FakeQueue::new(size);
            let memory = queue.memory();
            let mut states = std::collections::BTreeSet::from([(start, start)]);
            let mut new: Vec<_> = states.iter().copied().collect();
            while let Some((read, write)) = new.pop() {
                let mut after = Vec::new();
                for count in 0..=size + 1 {
                    // SAFETY: the queue outlives the ring; the test plays the packet processor on memory that lives on.
                    let mut ring = unsafe {
                        memory.read_index.write_volatile(read);
                        memory.write_index.write_volatile(write);
                        AqlRing::new(memory)
                    };
                    let used = (write - read) as u32;
                    assert_eq!(ring.known_free(), size - used, "{read} {write} of {size}");
                    let taken = ring.room(count).map(AqlRoom::reserve).map(|mut packets| {
                        let slots: Vec<_> = (0..count).map(|distance| packets.slot_address(distance)).collect();
                        packets.published = true;
                        slots
                    });
                    // SAFETY: `memory` lives on, and nothing else writes it.
                    let end = unsafe { memory.write_index.read_volatile() };
                    let fits = count + used <= size;
                    assert_eq!((taken.is_some(), end), (fits, if fits { write + u64::from(count) } else { write }));
                    let slot = |index: u64| memory.slots.as_ptr() as u64 + index % u64::from(size) * 64;
                    assert_eq!(
                        taken.unwrap_or_default(),
                        (write..end).map(slot).collect::<Vec<_>>(),
                        "{write} of {size}"
                    );
                    after.push((read, end));
                }
                after.extend((read..=write).map(|read| (read, write)));
                new.extend(
                    after.into_iter().filter(|state| state.1 <= start + 3 * u64::from(size) && states.insert(*state)),
                );
            }
            assert!(states.len() > 2 * size as usize);
        }
    }
}
