// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The packets of a submission: their order and fences, and the emitter with which operations write them.

use std::sync::Arc;

use device_binaries::{CopyArgs, DeviceShape, PatchDispatchArgs};
use hsa_abi::{
    AmdBarrierValuePacket, AmdFormat, AmdPm4IbPacket, AmdVendorHeader, BarrierAndPacket, HsaFenceScope, HsaPacketType,
    HsaSignal, HsaSignalCondition, KernelDispatchPacket, PacketHeader,
};

use crate::epoch_wait::QueueOrdering;
use crate::kernargs::{KernargCursor, Kernargs};
use crate::pm4;
use crate::trace::Trace;
use amdgpu_gpu::{DeviceWait, Gpu, coherent};
use amdgpu_profile::LaunchInfo;
use amdgpu_ring::{HeaderWord, KernargSpan, PacketBody, Reservation, body_of, body_of_dispatch, bytes_of};

/// The order of a packet within its submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Starts only when every earlier packet of the queue is complete.
    pub barrier: bool,
    /// Fence before it starts.
    pub acquire: HsaFenceScope,
    /// Fence before it completes.
    pub release: HsaFenceScope,
}

impl Order {
    /// The header of a kernel dispatch that is neither the first nor the last of its submission.
    #[inline(always)]
    pub fn header(self) -> PacketHeader {
        PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, self.barrier, self.acquire, self.release)
    }

    /// The order of an operation's only launch: its submission orders it.
    pub const ALONE: Self = Self { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::AGENT };

    /// The order of a barrier packet behind everything before it. It acquires nothing, because it reads nothing: later
    /// packets acquire for themselves.
    #[inline(always)]
    fn of_barrier(release: HsaFenceScope) -> Self {
        Self { barrier: true, acquire: HsaFenceScope::NONE, release }
    }

    /// The order of the first packet of a submission's own. It has the barrier bit if the submission has to wait for
    /// the queue's earlier work, including waits in front of it, and if it carries the epoch, so that epochs complete
    /// in order. It acquires from the system, whatever the waits are for: the host, or another GPU in a way that only
    /// the host knows of, may have written before the submission was made, without a semaphore.
    #[inline(always)]
    fn of_first(order: Self, ordering: QueueOrdering, is_last: bool) -> Self {
        let barrier = order.barrier || ordering == QueueOrdering::AfterPrior || is_last;
        Order { barrier, acquire: HsaFenceScope::SYSTEM, ..order }
    }
}

/// The release fence of a packet. The last packet makes the submission's results visible to the host.
#[inline(always)]
fn release_of(is_last: bool, scope: HsaFenceScope) -> HsaFenceScope {
    if is_last { HsaFenceScope::SYSTEM } else { scope }
}

/// The only packet of a submission. Most submissions have one packet, which is fully known when it is written.
#[derive(Debug)]
pub enum SinglePacket {
    /// Nothing runs.
    Barrier,
    /// A launch, without a header and a completion signal.
    Dispatch(KernelDispatchPacket),
    /// PM4 commands: their address and number of dwords.
    Command(u64, u32),
}

/// The ring space of a [`SinglePacket`].
#[derive(Debug)]
pub struct SinglePacketSpace {
    /// Kernargs of the packet.
    pub kernargs: KernargCursor,
    commands: Option<KernargSpan>,
}

impl SinglePacketSpace {
    #[inline(always)]
    pub(super) fn new(kernargs: KernargSpan, commands: Option<KernargSpan>) -> Self {
        Self { kernargs: KernargCursor::new(kernargs), commands }
    }

    /// The packet that runs `command`, for which the demand's `has_commands` asked.
    #[inline(always)]
    pub fn command(&mut self, command: &[u32]) -> SinglePacket {
        let (address, dwords) = write_command(&mut self.commands, command);
        SinglePacket::Command(address, dwords)
    }
}

impl SinglePacket {
    /// The packet and its header for the ring. The packet carries the epoch.
    #[inline(always)]
    pub(super) fn packet(self, ordering: QueueOrdering, epoch_signal: HsaSignal) -> (PacketBody, HeaderWord) {
        let (body, kind, order, setup) = match self {
            Self::Barrier => {
                let order = Order::of_barrier(HsaFenceScope::NONE);
                (body_of(&barrier_packet(epoch_signal)), HsaPacketType::BARRIER_AND, order, 0)
            }
            Self::Dispatch(mut packet) => {
                packet.completion_signal = epoch_signal;
                let order = Order::of_first(Order::ALONE, ordering, true);
                (body_of_dispatch(&packet), HsaPacketType::KERNEL_DISPATCH, order, packet.setup)
            }
            Self::Command(address, dwords) => {
                let body = body_of(&ib_packet(address, dwords, epoch_signal));
                let order = Order::of_first(Order::ALONE, ordering, true);
                (body, HsaPacketType::VENDOR_SPECIFIC, order, u16::from(AmdFormat::PM4_IB.0))
            }
        };
        let header = PacketHeader::new(kind, order.barrier, order.acquire, release_of(true, order.release));
        (body, HeaderWord::new(header, setup))
    }
}

/// Writes the packets of one part of a submission into reserved slots, headers last.
#[derive(Debug)]
pub struct Emitter<'ring> {
    gpu: &'ring Arc<Gpu>,
    packets: Reservation<'ring>,
    /// Packets in front of the operation's own.
    waits: u32,
    /// Kernargs not taken yet.
    room: KernargCursor,
    /// The part has kernargs.
    has_kernargs: bool,
    /// PM4 commands that are not taken yet; none where packet processors run no PM4.
    commands: Option<KernargSpan>,
    epoch_signal: HsaSignal,
    overlapping: bool,
    ordering: QueueOrdering,
    /// The trace that gives packets signals of their own; set while a profiled operation writes.
    trace: Option<Box<Trace>>,
}

impl<'ring> Emitter<'ring> {
    #[inline(always)]
    pub(super) fn new(
        gpu: &'ring Arc<Gpu>,
        packets: Reservation<'ring>,
        (kernargs, commands): (KernargSpan, Option<KernargSpan>),
        epoch_signal: HsaSignal,
        (overlapping, ordering): (bool, QueueOrdering),
    ) -> Self {
        let (room, has_kernargs) = (KernargCursor::new(kernargs), kernargs.length > 0);
        Self { gpu, packets, waits: 0, room, has_kernargs, commands, epoch_signal, overlapping, ordering, trace: None }
    }

    /// The GPU of the queue.
    pub fn gpu(&self) -> &'ring Arc<Gpu> {
        self.gpu
    }

    /// The submission's kernargs that are not taken yet.
    #[inline(always)]
    pub fn room(&mut self) -> &mut KernargCursor {
        &mut self.room
    }

    /// Copies `args` to the next kernargs of the submission and returns their address.
    pub fn arguments(&mut self, args: &[u8]) -> u64 {
        self.room.arguments(args)
    }

    /// As [`KernargCursor::update`].
    pub fn update(
        &mut self,
        bytes: &[u8],
        plan: impl FnOnce(DeviceShape, u64) -> device_binaries::Launch<CopyArgs>,
    ) -> KernelDispatchPacket {
        self.room.update(self.gpu, bytes, plan)
    }

    /// True when the packet `distance` after the next one to be written carries the submission's epoch.
    #[inline(always)]
    fn is_last(&self, distance: u32) -> bool {
        self.packets.remaining() == 1 + distance
    }

    #[inline(always)]
    fn completion(&mut self) -> HsaSignal {
        if self.is_last(0) {
            return self.epoch_signal;
        }
        match &mut self.trace {
            Some(trace) => trace.next_signal(),
            None => HsaSignal::NULL,
        }
    }

    /// Packets written so far.
    pub fn written(&self) -> u32 {
        self.packets.written()
    }

    /// Begins the packets of a profiled operation.
    pub fn begin_trace(&mut self, trace: Box<Trace>) {
        self.trace = Some(trace);
    }

    /// Ends the packets of the profiled operation; returns its trace.
    pub fn end_trace(&mut self) -> Option<Box<Trace>> {
        let mut trace = self.trace.take()?;
        while trace.take_owed() {
            self.barrier_with(HsaSignal::NULL);
        }
        if let Some(signal) = trace.end_part() {
            self.barrier_with(signal);
        }
        Some(trace)
    }

    /// Announces to the profile, if there is one, that `before` packets come next and then the launch that `note`
    /// describes, if it is a launch.
    #[inline]
    pub fn launches(&mut self, before: u32, note: impl FnOnce() -> Option<LaunchInfo>) {
        if let Some(trace) = &mut self.trace {
            trace.launches(before, note);
        }
    }

    #[inline(always)]
    fn push(&mut self, body: &PacketBody, kind: HsaPacketType, order: Order, setup: u16) {
        let header = PacketHeader::new(kind, order.barrier, order.acquire, order.release);
        self.packets.write(body, Some(HeaderWord::new(header, setup)));
    }

    /// The order of the next packet; that of [`Order::of_first`] for the first of the submission's own.
    #[inline(always)]
    fn begin(&self, order: Order) -> Order {
        if self.packets.written() > self.waits {
            return order;
        }
        Order::of_first(order, self.ordering, self.is_last(0))
    }

    /// The fence of the packet `distance` after the next one to be written.
    #[inline(always)]
    fn release(&self, distance: u32, scope: HsaFenceScope) -> HsaFenceScope {
        release_of(self.is_last(distance), scope)
    }

    /// Writes a kernel dispatch. `packet.header` and `packet.completion_signal` are filled in here.
    #[inline(always)]
    pub fn dispatch(&mut self, packet: &KernelDispatchPacket, order: Order) {
        let counts = self.counts();
        let order = if counts { self.start_counting(order) } else { order };
        let mut packet = *packet;
        packet.completion_signal = self.completion();
        let order = Order { release: self.release(0, order.release), ..self.begin(order) };
        self.push(&body_of_dispatch(&packet), HsaPacketType::KERNEL_DISPATCH, order, packet.setup);
        if counts {
            self.stop_counting();
        }
    }

    /// True if a profile counts or traces launches.
    #[inline(always)]
    fn counts(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.is_counting())
    }

    /// Writes the packets that start counting and tracing the next launch, if a profile wants that. Counted and traced
    /// launches run alone: returns the order for that. The launch acquires for its submission itself, as it does behind
    /// waiting packets: packets with commands are not specified to acquire.
    #[cold]
    fn start_counting(&mut self, order: Order) -> Order {
        let is_first = self.packets.written() <= self.waits;
        for packet in self.trace.as_mut().map(|trace| trace.start_counting()).into_iter().flatten() {
            self.counter_packet(&packet);
        }
        Order { barrier: true, acquire: if is_first { HsaFenceScope::SYSTEM } else { order.acquire }, ..order }
    }

    /// Writes the packets that stop counting and tracing the launch just written, if that is under way.
    #[cold]
    fn stop_counting(&mut self) {
        for packet in self.trace.as_mut().map(|trace| trace.stop_counting()).into_iter().flatten() {
            self.counter_packet(&packet);
        }
    }

    /// Writes a packet that starts, reads or stops hardware counters or a trace. It waits for all packets before it. It
    /// uses no memory of kernels.
    #[cold]
    pub fn counter_packet(&mut self, packet: &AmdPm4IbPacket) {
        let packet = AmdPm4IbPacket { completion_signal: HsaSignal::NULL, ..*packet };
        let order = Order { barrier: true, acquire: HsaFenceScope::NONE, release: HsaFenceScope::AGENT };
        self.push(&body_of(&packet), HsaPacketType::VENDOR_SPECIFIC, self.begin(order), u16::from(AmdFormat::PM4_IB.0));
    }

    /// True when the next packet is neither the first of the submission's own nor its last, and nothing is profiled:
    /// its order is the operation's alone, and nothing is signaled.
    #[inline(always)]
    pub fn is_inner(&self) -> bool {
        self.packets.written() > self.waits && !self.is_last(0) && self.trace.is_none()
    }

    /// Writes kernel dispatches while [`Self::is_inner`] and returns their number. `body` makes each packet, with its
    /// header, of an item of `dispatches` and the remaining kernargs.
    #[inline(always)]
    pub fn inner_dispatches<D>(
        &mut self,
        dispatches: impl Iterator<Item = D>,
        mut body: impl FnMut(&mut KernargCursor, D) -> PacketBody,
    ) -> u32 {
        debug_assert!(self.is_inner());
        let most = self.packets.remaining() - 1;
        // A private copy: it stays in registers.
        let mut room = self.room;
        let written = self.packets.write_run(most, dispatches.map(|dispatch| body(&mut room, dispatch)));
        self.room = room;
        written
    }

    /// Writes the launch of the device library's patch kernel and, after it, the dispatch that the kernel completes
    /// with workgroup counts and publishes on the device. The dispatch's header stays INVALID here;
    /// [`Self::published_header`] is the header that the kernel stores, with the setup bits above it. Takes
    /// [`amdgpu_ring::KERNARG_ALIGNMENT`] bytes of kernargs.
    pub fn patch_and_dispatch(
        &mut self,
        patch: &device_binaries::Launch<PatchDispatchArgs>,
        packet: &KernelDispatchPacket,
        order: Order,
    ) {
        let mut kernargs = self.room.take(size_of::<PatchDispatchArgs>());
        kernargs.write(0, &patch.args.to_bytes());
        let patch = self.gpu.library_packet(patch, kernargs.address());
        // The kernel makes its own writes visible.
        self.dispatch(&patch, Order { release: HsaFenceScope::NONE, ..order });
        let counts = self.counts();
        if counts {
            self.start_counting(order);
        }
        let mut packet = *packet;
        packet.completion_signal = self.completion();
        self.packets.write(&body_of_dispatch(&packet), None);
        if counts {
            self.stop_counting();
        }
    }

    /// The header of a dispatch that the device publishes, as the packet after the next one to be written. The next
    /// packet waits and acquires as `order` says, and has completed by then. This dispatch only has to acquire its
    /// writes, and has the barrier bit only to keep epochs in order or to be counted.
    pub fn published_header(&self, order: Order) -> PacketHeader {
        let release = self.release(1, order.release);
        let barrier = self.is_last(1) || self.counts();
        PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, barrier, HsaFenceScope::AGENT, release)
    }

    /// Device address of the packet `distance` after the next one to be written, for kernels that patch it.
    pub fn packet_address(&self, distance: u32) -> u64 {
        let more = self.trace.as_ref().map_or(0, |trace| trace.packets_within(distance));
        self.packets.slot_address(distance + more)
    }

    /// Writes a barrier packet that waits for everything before it.
    pub fn barrier(&mut self) {
        let signal = self.completion();
        self.barrier_with(signal);
    }

    /// Writes a barrier packet with a completion signal of its own.
    pub fn barrier_with(&mut self, completion_signal: HsaSignal) {
        let order = Order::of_barrier(self.release(0, HsaFenceScope::NONE));
        self.push(&body_of(&barrier_packet(completion_signal)), HsaPacketType::BARRIER_AND, order, 0);
    }

    /// Writes the two packets of a gate. The first lowers `begin` by 1 behind everything before it, for readers outside
    /// of the queue. The second waits until `end` is 0. It acquires nothing: the next packet does.
    pub fn gate(&mut self, begin: HsaSignal, end: HsaSignal) {
        let order = Order::of_barrier(HsaFenceScope::SYSTEM);
        self.push(&body_of(&barrier_packet(begin)), HsaPacketType::BARRIER_AND, order, 0);
        let mut packet = barrier_packet(self.completion());
        packet.dep_signal[0] = end;
        let order = Order::of_barrier(self.release(0, HsaFenceScope::NONE));
        self.push(&body_of(&packet), HsaPacketType::BARRIER_AND, order, 0);
    }

    /// Writes a packet that waits until `signal` is less than `threshold`, in the GPU's way ([`DeviceWait`]). Comes
    /// before all other packets.
    ///
    /// It does not acquire: a PM4-IB packet would acquire before its commands wait. The next packet acquires, after the
    /// wait. If it is the last, it releases as others do.
    pub(super) fn wait_below(&mut self, signal: HsaSignal, threshold: i64) {
        let release = self.release(0, HsaFenceScope::NONE);
        let (body, format) = match self.gpu.device_wait() {
            Some(DeviceWait::Pm4) => self.wait_by_pm4(signal, threshold),
            Some(DeviceWait::BarrierValue) | None => self.wait_by_barrier_value(signal, threshold),
        };
        let order = Order { barrier: true, acquire: HsaFenceScope::NONE, release };
        self.push(&body, HsaPacketType::VENDOR_SPECIFIC, order, u16::from(format.0));
        self.waits += 1;
    }

    /// ROCR `hsa_amd_barrier_value_packet_t`.
    fn wait_by_barrier_value(&mut self, signal: HsaSignal, threshold: i64) -> (PacketBody, AmdFormat) {
        let packet = AmdBarrierValuePacket {
            header: vendor_header(AmdFormat::BARRIER_VALUE),
            reserved0: 0,
            signal,
            value: threshold,
            mask: -1,
            condition: HsaSignalCondition::LT,
            reserved1: 0,
            reserved2: [0; 2],
            completion_signal: self.completion(),
        };
        (body_of(&packet), packet.header.format)
    }

    fn wait_by_pm4(&mut self, signal: HsaSignal, threshold: i64) -> (PacketBody, AmdFormat) {
        let completion_signal = self.completion();
        self.pm4_packet(&pm4::wait_below(signal, threshold), completion_signal)
    }

    /// Writes a packet that runs `command`, for which the demand's `has_commands` asked.
    pub fn command(&mut self, command: &[u32], order: Order) {
        // Nothing says when commands begin and end: a profile that began to end after the operation was made has no
        // times of it.
        let completion_signal = if self.is_last(0) { self.epoch_signal } else { HsaSignal::NULL };
        let (body, format) = self.pm4_packet(command, completion_signal);
        let order = Order { release: self.release(0, order.release), ..self.begin(order) };
        self.push(&body, HsaPacketType::VENDOR_SPECIFIC, order, u16::from(format.0));
    }

    /// Writes a barrier packet that makes earlier writes, including those of command packets, visible to later packets
    /// with the barrier bit: it starts when the fence is complete. Not the last packet of a submission.
    pub fn acquire(&mut self) {
        let order =
            Order { barrier: true, acquire: HsaFenceScope::SYSTEM, release: self.release(0, HsaFenceScope::NONE) };
        let signal = self.completion();
        self.push(&body_of(&barrier_packet(signal)), HsaPacketType::BARRIER_AND, order, 0);
    }

    /// Writes a packet that runs the `dwords` of commands at `address`. They must stay there until it is complete.
    pub fn stream(&mut self, address: u64, dwords: u32, order: Order) {
        let packet = ib_packet(address, dwords, self.completion());
        let order = Order { release: self.release(0, order.release), ..self.begin(order) };
        self.push(&body_of(&packet), HsaPacketType::VENDOR_SPECIFIC, order, u16::from(AmdFormat::PM4_IB.0));
    }

    #[inline(always)]
    fn pm4_packet(&mut self, command: &[u32], completion_signal: HsaSignal) -> (PacketBody, AmdFormat) {
        let (address, dwords) = write_command(&mut self.commands, command);
        let packet = ib_packet(address, dwords, completion_signal);
        (body_of(&packet), packet.header.format)
    }

    /// Ends the operation's packets. Writes the barrier that carries the epoch, if it needs one.
    ///
    /// # Panics
    /// If it has written fewer packets than it asked for.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        if self.overlapping {
            self.barrier();
        }
        assert!(self.packets.remaining() == 0, "packets reserved and not written");
    }

    /// Stores the headers and rings the doorbell, once.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        if self.has_kernargs {
            self.gpu.publish_kernargs();
        }
        coherent::publish();
        self.packets.publish();
    }
}

/// Writes `command` to the ring of `commands` and returns its address and number of dwords.
///
/// The ring is host memory and keeps the command while the submission is in flight. It is not the GPU's own memory:
/// packet processors read that through the GPU's L2, which may hold old contents until an acquire fence, and waiting
/// packets have none.
#[inline(always)]
fn write_command(commands: &mut Option<KernargSpan>, command: &[u32]) -> (u64, u32) {
    let commands = commands.as_mut().expect("a GPU that takes PM4 commands has a ring for them");
    let span = commands.take(amdgpu_ring::KERNARG_ALIGNMENT);
    let mut buffer = Kernargs::new(span, size_of_val(command));
    buffer.write(0, bytes_of(command));
    (buffer.address(), command.len() as u32)
}

/// A barrier packet without dependency signals.
#[inline(always)]
fn barrier_packet(completion_signal: HsaSignal) -> BarrierAndPacket {
    BarrierAndPacket {
        header: PacketHeader::INVALID,
        reserved0: 0,
        reserved1: 0,
        dep_signal: [HsaSignal::NULL; 5],
        reserved2: 0,
        completion_signal,
    }
}

/// The packet that runs the `dwords` of PM4 commands at `address`.
#[inline(always)]
fn ib_packet(address: u64, dwords: u32, completion_signal: HsaSignal) -> AmdPm4IbPacket {
    AmdPm4IbPacket {
        header: vendor_header(AmdFormat::PM4_IB),
        ib_jump_command: pm4::jump(address, dwords),
        dw_cnt_remain: AmdPm4IbPacket::DW_CNT_REMAIN,
        reserved: [0; 8],
        completion_signal,
    }
}

fn vendor_header(format: AmdFormat) -> AmdVendorHeader {
    AmdVendorHeader { header: PacketHeader::INVALID, format, reserved: 0 }
}
