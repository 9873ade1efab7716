// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Channels: a rank's view of a group of ranks (`iree/hal/channel.h`), and the operations that command buffers record.

use std::ffi::c_void;
use std::sync::Arc;

use amdgpu_collectives::bootstrap::{Provider, Request};
use amdgpu_collectives::{Element, Kind, Membership, Operation, Reduction};
use amdgpu_ffi::{Allocator, HalObject, HalRef, Header, Out, Result, iree, lists, raw, status, strings, thunk};

/// `iree_hal_channel_t` of this driver.
#[repr(C)]
pub struct Channel {
    header: Header,
    host_allocator: Allocator,
    membership: Arc<Membership>,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for Channel {
    type Raw = raw::iree_hal_channel_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_channel_vtable_t = raw::iree_hal_channel_vtable_t {
    destroy: thunk::destroy::<Channel, _>(),
    split: thunk::method(Channel::split),
    query_rank_and_count: thunk::method(Channel::query_rank_and_count),
};

impl Channel {
    /// A channel of the group `membership`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(host_allocator: Allocator, membership: Arc<Membership>) -> Result<HalRef<Self>> {
        HalRef::new(Self { header: Header::new::<Self>(), host_allocator, membership })
    }

    /// The rank's membership in the channel's group.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Splits the group. A rank without a colour takes part and gets no channel. Waits for the other ranks only if this
    /// channel is itself of a split that is not complete.
    fn split(&self, color: i32, key: i32, _flags: u64, out: Out<'_, *mut raw::iree_hal_channel_t>) -> Result<()> {
        let part = self.membership.communicator()?.split(color, key)?;
        if color < 0 {
            out.set(std::ptr::null_mut());
        } else {
            out.give(Self::create(self.host_allocator, part)?);
        }
        Ok(())
    }

    /// Waits for the split that made the channel. After a failure the rank is −1 and the count 0.
    fn query_rank_and_count(&self, rank: Out<'_, i32>, count: Out<'_, i32>) {
        let group = self.membership.communicator();
        rank.set(group.as_ref().map_or(-1, |group| group.rank() as i32));
        count.set(group.map_or(0, |group| group.count() as i32));
    }
}

/// The parameters of a channel, from C.
///
/// # Safety
/// `params` is valid during the call.
///
/// # Errors
/// INVALID_ARGUMENT for a rank or count below the default's −1.
pub unsafe fn request(params: &raw::iree_hal_channel_params_t) -> Result<Request> {
    let number = |value: i32, name: &str| match u32::try_from(value) {
        Ok(number) => Ok(Some(number)),
        Err(_) if value == -1 => Ok(None),
        Err(_) => Err(status!(INVALID_ARGUMENT, "a channel's {name} is {value}")),
    };
    // SAFETY: the caller's contract.
    let (id, group) = unsafe { (lists::slice(params.id.data, params.id.data_length), strings::text(params.group)) };
    let (rank, count) = (number(params.rank, "rank")?, number(params.count, "count")?);
    Ok(Request { id: id.to_vec(), group: group.into_owned(), rank, count })
}

/// The embedder's channel provider.
pub struct ChannelProvider(pub HalRef<raw::iree_hal_channel_provider_t>);

impl Provider for ChannelProvider {
    fn rank_and_count(&self) -> Result<(Option<u32>, Option<u32>)> {
        let (mut rank, mut count) = (-1, -1);
        // SAFETY: the provider is held; the results go to locals.
        unsafe {
            iree!(raw::iree_hal_channel_provider_query_default_rank_and_count(
                self.0.as_ptr(),
                &raw mut rank,
                &raw mut count
            ))
        }?;
        // Defaults are negative: the provider does not know.
        Ok((u32::try_from(rank).ok(), u32::try_from(count).ok()))
    }

    fn exchange(&self, id: &mut [u8]) -> Result<()> {
        let span = raw::iree_byte_span_t { data: id.as_mut_ptr(), data_length: id.len() };
        // SAFETY: the provider is held, and the span is writable during the call.
        unsafe { iree!(raw::iree_hal_channel_provider_exchange_default_id(self.0.as_ptr(), span)) }
    }
}

/// The operation that C's packed word, parameter and count describe.
///
/// # Errors
/// INVALID_ARGUMENT for unknown kinds, reductions and types, and for a reduction where there is none or the reverse.
pub fn operation(op: raw::iree_hal_collective_op_t, param: u32, count: usize) -> Result<Operation> {
    // SAFETY: every bit pattern is a packed word.
    let packed = unsafe { op.packed };
    let [kind, reduction, element, _] = packed.to_le_bytes().map(u32::from);
    let peer = |half: u32| match half as u16 as i16 {
        -1 => Ok(None),
        rank => u32::try_from(rank).map(Some).map_err(|_| status!(INVALID_ARGUMENT, "a collective names rank {rank}")),
    };
    let kind = match kind {
        raw::IREE_HAL_COLLECTIVE_KIND_ALL_GATHER => Kind::AllGather,
        raw::IREE_HAL_COLLECTIVE_KIND_ALL_REDUCE => Kind::AllReduce,
        raw::IREE_HAL_COLLECTIVE_KIND_ALL_TO_ALL => Kind::AllToAll,
        raw::IREE_HAL_COLLECTIVE_KIND_BROADCAST => Kind::Broadcast { root: param },
        raw::IREE_HAL_COLLECTIVE_KIND_REDUCE => Kind::Reduce { root: param },
        raw::IREE_HAL_COLLECTIVE_KIND_REDUCE_SCATTER => Kind::ReduceScatter,
        raw::IREE_HAL_COLLECTIVE_KIND_SEND => Kind::Send { target: param },
        raw::IREE_HAL_COLLECTIVE_KIND_RECV => Kind::Receive { source: param },
        raw::IREE_HAL_COLLECTIVE_KIND_SEND_RECV => {
            Kind::SendReceive { target: peer(param)?, source: peer(param >> 16)? }
        }
        _ => return Err(status!(INVALID_ARGUMENT, "collectives have no kind {kind}")),
    };
    let reduction = match reduction {
        raw::IREE_HAL_COLLECTIVE_REDUCTION_NONE => None,
        raw::IREE_HAL_COLLECTIVE_REDUCTION_SUM => Some(Reduction::Sum),
        raw::IREE_HAL_COLLECTIVE_REDUCTION_PRODUCT => Some(Reduction::Product),
        raw::IREE_HAL_COLLECTIVE_REDUCTION_MINIMUM => Some(Reduction::Minimum),
        raw::IREE_HAL_COLLECTIVE_REDUCTION_MAXIMUM => Some(Reduction::Maximum),
        raw::IREE_HAL_COLLECTIVE_REDUCTION_AVERAGE => Some(Reduction::Average),
        _ => return Err(status!(INVALID_ARGUMENT, "collectives have no reduction {reduction}")),
    };
    let element = match element {
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_SINT_8 => Element::S8,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_8 => Element::U8,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_SINT_16 => Element::S16,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_16 => Element::U16,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_SINT_32 => Element::S32,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_32 => Element::U32,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_SINT_64 => Element::S64,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_64 => Element::U64,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_FLOAT_16 => Element::F16,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_FLOAT_32 => Element::F32,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_FLOAT_64 => Element::F64,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_BFLOAT_16 => Element::Bf16,
        _ => return Err(status!(INVALID_ARGUMENT, "collectives have no element type {element}")),
    };
    let reduces = matches!(kind, Kind::AllReduce | Kind::Reduce { .. } | Kind::ReduceScatter);
    if reduces != reduction.is_some() {
        return Err(status!(INVALID_ARGUMENT, "{kind:?} with the reduction {reduction:?}"));
    }
    Ok(Operation { kind, reduction, element, count })
}
