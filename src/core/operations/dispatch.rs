// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Dispatches: the operation that launches one function with workgroup counts, bindings and constants.

use device_binaries::plan_patch_dispatch;

use crate::launch::{ArgumentLayout, Launch};
use amdgpu_ffi::profile::schema::{ProfileData, QueueEventKind};
use amdgpu_ffi::{
    Borrowed, Buffer, BufferHandle, BufferRefs, HalRef, RawExecutable, Result, RetainedBufferRefs, fallible, status,
};
use amdgpu_gpu::Gpu;
use amdgpu_memory::{device_address, own_address};
use amdgpu_profile::session::Session;
use amdgpu_profile::{EventInfo, LaunchInfo};
use amdgpu_queue::Queue;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::{Emitter, Order, SinglePacket, SinglePacketSpace};
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::kernargs::KernargCursor;
use amdgpu_queue::operation::{Operation, Planned, Progress, Submit};
use amdgpu_queue::retained::RetainedSet;
use amdgpu_ring::{KERNARG_ALIGNMENT, bytes_of};

/// Bytes of indirect workgroup counts: three u32.
pub const WORKGROUP_COUNT_LENGTH: usize = 12;

/// The source of workgroup counts.
#[derive(Debug, Clone, Copy)]
pub enum WorkgroupCount<'a> {
    /// Known to the host.
    Static([u32; 3]),
    /// Three u32 in a buffer, from this byte on, read by the device.
    Indirect(Buffer<'a>, usize),
}

/// The parameters of a dispatch.
#[derive(Clone, Copy)]
pub struct DispatchParams<'a> {
    /// The executable that the function belongs to.
    pub executable: Borrowed<'a, RawExecutable>,
    /// The function.
    pub launch: &'a Launch,
    /// The number of workgroups.
    pub count: WorkgroupCount<'a>,
    /// The bindings, all of which name buffers; for indirect arguments, the one buffer that holds them.
    pub bindings: BufferRefs<'a>,
    /// The constants.
    pub constants: &'a [u8],
    /// The caller keeps executable and buffers alive until the dispatch is complete.
    pub borrows: bool,
}

/// The number of addresses stored in a plan itself.
const INLINE_BINDINGS: usize = 8;

/// A dispatch's addresses and geometry, resolved.
#[derive(Debug, Default)]
struct Plan {
    inline: [u64; INLINE_BINDINGS],
    spilled: Vec<u64>,
    /// Packets: none without workgroups.
    packets: u32,
    grid: [u32; 3],
    count_address: u64,
    /// Bytes of its own kernargs.
    kernarg_length: usize,
}

impl Plan {
    /// Recycles the memory of the addresses.
    #[inline(always)]
    fn give_back(&mut self, queue: &Queue) {
        if !self.spilled.is_empty() {
            queue.vec_pools().recycle_addresses(std::mem::take(&mut self.spilled));
        }
    }
}

/// Fills in the device addresses of `bindings` for `gpu`, as many as there are `addresses`.
///
/// # Errors
/// As for [`device_address`].
#[inline(always)]
fn resolve(bindings: BufferRefs<'_>, addresses: &mut [u64], gpu: &Gpu) -> Result<()> {
    for (binding, address) in bindings.iter().zip(addresses) {
        let Some(buffer) = binding.buffer else { continue };
        *address = match own_address(buffer, binding.offset) {
            Some(address) => address,
            None => device_address(buffer, binding.offset, gpu)?,
        };
    }
    Ok(())
}

impl DispatchParams<'_> {
    /// True if there are no workgroups: the dispatch is legal and does nothing.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        matches!(self.count, WorkgroupCount::Static(count) if count.contains(&0))
    }

    /// Fills in `plan` and returns its demand of ring space.
    ///
    /// # Errors
    /// As for [`device_address`] and [`Launch::grid`]; INVALID_ARGUMENT for parameters that are not aligned.
    #[inline(always)]
    fn prepare(&self, plan: &mut Plan, queue: &Queue) -> Result<Demand> {
        if self.is_empty() {
            return Ok(Demand { overlapping: true, ..Demand::default() });
        }
        let count = self.bindings.len();
        if count <= INLINE_BINDINGS {
            resolve(self.bindings, &mut plan.inline[..count], queue.gpu())?;
        } else {
            self.resolve_many(plan, queue)?;
        }
        let mut demand = Demand { packets: 1, ..Demand::default() };
        match self.count {
            WorkgroupCount::Static(count) => plan.grid = self.launch.grid(count)?,
            WorkgroupCount::Indirect(buffer, offset) => {
                self.launch.check_indirect_counts()?;
                plan.count_address = device_address(buffer, offset, queue.gpu())?;
                check_count_address(plan.count_address)?;
                demand = Demand { packets: 2, kernarg_bytes: KERNARG_ALIGNMENT, ..Demand::default() };
            }
        }
        plan.kernarg_length = match self.launch.layout {
            ArgumentLayout::Indirect(needs) => {
                needs.check_address(plan.inline[0])?;
                0
            }
            _ => self.launch.kernarg_length(count, self.constants.len()),
        };
        demand.kernarg_bytes += (plan.kernarg_length as u64).next_multiple_of(KERNARG_ALIGNMENT);
        plan.packets = demand.packets;
        Ok(demand)
    }

    #[inline(never)]
    fn resolve_many(&self, plan: &mut Plan, queue: &Queue) -> Result<()> {
        if plan.spilled.is_empty() {
            plan.spilled = queue.vec_pools().take_addresses(self.bindings.len())?;
        }
        resolve(self.bindings, &mut plan.spilled, queue.gpu())
    }

    #[inline(always)]
    fn emit(&self, plan: &Plan, emitter: &mut Emitter<'_>) {
        if plan.packets == 0 {
            return;
        }
        emitter.launches(u32::from(matches!(self.count, WorkgroupCount::Indirect(..))), || Some(self.launch_info()));
        let kernargs = self.write_kernargs(plan, emitter.room());
        // Made in place, where it goes: in the one that most take it stays in registers.
        let packet = || self.launch.packet(plan.grid, kernargs);
        match self.count {
            WorkgroupCount::Static(_) => emitter.dispatch(&packet(), Order::ALONE),
            WorkgroupCount::Indirect(..) => {
                let header = emitter.published_header(Order::ALONE);
                let args = self.launch.patch_args(plan.count_address, emitter.packet_address(1), header, kernargs);
                emitter.patch_and_dispatch(&plan_patch_dispatch(args), &packet(), Order::ALONE);
            }
        }
    }

    /// The packet of a dispatch that is a single packet.
    #[inline(always)]
    fn write_single(&self, plan: &Plan, room: &mut KernargCursor) -> SinglePacket {
        if plan.packets == 0 {
            return SinglePacket::Barrier;
        }
        let kernargs = self.write_kernargs(plan, room);
        SinglePacket::Dispatch(self.launch.packet(plan.grid, kernargs))
    }

    /// Writes the kernargs, unless a buffer holds them, and returns their address.
    #[inline(always)]
    fn write_kernargs(&self, plan: &Plan, room: &mut KernargCursor) -> u64 {
        if matches!(self.launch.layout, ArgumentLayout::Indirect(_)) {
            return plan.inline[0];
        }
        let (length, bindings) = (plan.kernarg_length, self.bindings.len());
        let mut kernargs = room.take(length);
        if bindings > INLINE_BINDINGS {
            kernargs.write(0, bytes_of(&plan.spilled));
        } else if bindings > 0 {
            // A block of them with zeros behind: a few moves, however many there are.
            kernargs.write_block(&plan.inline);
        }
        let count = || match self.count {
            WorkgroupCount::Static(count) => count,
            WorkgroupCount::Indirect(..) => [0; 3],
        };
        self.launch.write_constants(&mut kernargs, size_of::<u64>() * bindings, length, self.constants, count);
        kernargs.address()
    }

    #[inline(always)]
    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        if self.borrows {
            return Ok(RetainedSet::NONE);
        }
        let own = Some(self.executable.retain_resource());
        let buffers = self.bindings.iter().map(|binding| binding.buffer.map(Borrowed::retain_resource));
        match self.count {
            WorkgroupCount::Static(_) => RetainedSet::new(queue.vec_pools(), own, buffers.len(), buffers),
            WorkgroupCount::Indirect(counts, _) => {
                let counts = std::iter::once(Some(counts.retain_resource()));
                RetainedSet::new(queue.vec_pools(), own, buffers.len() + 1, buffers.chain(counts))
            }
        }
    }

    fn launch_info(&self) -> LaunchInfo {
        let (workgroup_count, indirect) = match self.count {
            WorkgroupCount::Static(count) => (count, false),
            WorkgroupCount::Indirect(..) => ([0; 3], true),
        };
        LaunchInfo {
            function: self.launch.function,
            command_index: u32::MAX,
            workgroup_count,
            workgroup_size: self.launch.shape.size.map(u32::from),
            indirect,
        }
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        // Nothing else asks for it.
        let is_asked_for = session.wants(ProfileData::HOST_EXECUTION_EVENTS) || session.watches_launches();
        let launch = is_asked_for.then(|| self.launch_info());
        EventInfo { launch, ..EventInfo::one(QueueEventKind::Dispatch, 0) }
    }
}

/// One dispatch.
pub struct Dispatch<'a> {
    request: DispatchParams<'a>,
    plan: Plan,
}

impl<'a> Dispatch<'a> {
    /// A dispatch with these parameters.
    #[inline(always)]
    pub fn new(request: DispatchParams<'a>) -> Self {
        Self { request, plan: Plan::default() }
    }
}

impl Submit for Dispatch<'_> {
    type Owned = LaterDispatch;

    fn into_owned(self) -> Result<LaterDispatch> {
        let DispatchParams { executable, launch, count, bindings, constants, borrows } = self.request;
        Ok(LaterDispatch {
            executable: executable.retain(),
            launch: *launch,
            count: match count {
                WorkgroupCount::Static(count) => LaterCount::Static(count),
                WorkgroupCount::Indirect(buffer, offset) => LaterCount::Indirect(buffer.retain(), offset),
            },
            bindings: bindings.retain()?,
            constants: fallible::copy(constants)?,
            borrows,
            plan: self.plan,
        })
    }
}

impl Operation for Dispatch<'_> {
    #[inline(always)]
    fn plan(&mut self, queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        self.request.prepare(&mut self.plan, queue).map(Planned::Ready)
    }

    #[inline(always)]
    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        self.request.emit(&self.plan, emitter);
        Progress::Done
    }

    #[inline(always)]
    fn write_single(&mut self, _gpu: &Gpu, room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        Some(self.request.write_single(&self.plan, &mut room.kernargs))
    }

    #[inline(always)]
    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        self.request.retained_resources(queue)
    }

    #[inline(always)]
    fn on_submitted(&mut self, queue: &Queue, _epoch: u64) {
        self.plan.give_back(queue);
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        self.request.profile_event(session)
    }
}

/// The source of the workgroup counts of a [`LaterDispatch`].
enum LaterCount {
    Static([u32; 3]),
    Indirect(BufferHandle, usize),
}

/// The owned form of a dispatch.
pub struct LaterDispatch {
    executable: HalRef<RawExecutable>,
    launch: Launch,
    count: LaterCount,
    bindings: RetainedBufferRefs,
    constants: Vec<u8>,
    borrows: bool,
    plan: Plan,
}

impl LaterDispatch {
    /// The parameters of the dispatch.
    fn request(&self) -> DispatchParams<'_> {
        DispatchParams {
            executable: self.executable.borrow(),
            launch: &self.launch,
            count: match &self.count {
                LaterCount::Static(count) => WorkgroupCount::Static(*count),
                LaterCount::Indirect(buffer, offset) => WorkgroupCount::Indirect(buffer.borrow(), *offset),
            },
            bindings: self.bindings.borrow(),
            constants: &self.constants,
            borrows: self.borrows,
        }
    }
}

impl Operation for LaterDispatch {
    fn plan(&mut self, queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        let mut plan = std::mem::take(&mut self.plan);
        let demand = self.request().prepare(&mut plan, queue);
        self.plan = plan;
        demand.map(Planned::Ready)
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        self.request().emit(&self.plan, emitter);
        Progress::Done
    }

    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        self.request().retained_resources(queue)
    }

    fn on_submitted(&mut self, queue: &Queue, _epoch: u64) {
        self.plan.give_back(queue);
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        self.request().profile_event(session)
    }
}

/// Checks the device address of indirect workgroup counts.
///
/// # Errors
/// INVALID_ARGUMENT when it is not aligned.
pub fn check_count_address(address: u64) -> Result<()> {
    if !address.is_multiple_of(4) {
        return Err(status!(INVALID_ARGUMENT, "indirect workgroup counts at {address:#x} are not aligned to 4"));
    }
    Ok(())
}
