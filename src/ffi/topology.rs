// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What IREE keeps of a pair of devices (`iree/hal/topology.h`).

use super::raw;

/// IREE's costs of copies that go through the host, as for pairs of drivers that know nothing of each other
/// (`iree/hal/topology_builder.c`).
const HOST_COPY_COST: u32 = 13;
const HOST_LATENCY_CLASS: u32 = 11;

/// Takes back what the two devices' capabilities promise of direct access. Symmetric, as the topology requires of link
/// classes.
pub fn stage_through_host(edge: &mut raw::iree_hal_topology_edge_t) {
    let direct = raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_PEER_COHERENT
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_DEVICE
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_SYSTEM;
    // SAFETY: pure functions of their arguments.
    edge.lo = unsafe {
        let capabilities = raw::iree_hal_topology_edge_capability_flags(edge.lo) & !(direct as u16);
        let lo = raw::iree_hal_topology_edge_set_capability_flags(edge.lo, capabilities);
        let lo = raw::iree_hal_topology_edge_set_link_class(lo, raw::IREE_HAL_TOPOLOGY_LINK_CLASS_HOST_STAGED as _);
        let lo = raw::iree_hal_topology_edge_set_copy_cost(lo, HOST_COPY_COST as _);
        raw::iree_hal_topology_edge_set_latency_class(lo, HOST_LATENCY_CLASS as _)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::strings;

    #[test]
    fn a_pair_without_access_promises_no_direct_copies() {
        // SAFETY: all-zero is a device without capabilities.
        let mut capabilities: raw::iree_hal_device_capabilities_t = unsafe { std::mem::zeroed() };
        capabilities.flags =
            (raw::IREE_HAL_DEVICE_CAPABILITY_P2P_COPY | raw::IREE_HAL_DEVICE_CAPABILITY_TIMELINE_SEMAPHORES).into();
        let name = strings::view("amdgpu_rs");
        // SAFETY: valid capabilities and names.
        let mut edge = unsafe {
            raw::iree_hal_topology_edge_from_capabilities(&raw const capabilities, &raw const capabilities, name, name)
        };
        // SAFETY: a pure function.
        let flags =
            |edge: &raw::iree_hal_topology_edge_t| unsafe { raw::iree_hal_topology_edge_capability_flags(edge.lo) };
        assert_ne!(flags(&edge) & raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY as u16, 0);
        stage_through_host(&mut edge);
        assert_eq!(flags(&edge) & raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY as u16, 0);
        assert_ne!(flags(&edge) & raw::IREE_HAL_TOPOLOGY_CAPABILITY_TIMELINE_SEMAPHORE as u16, 0);
        // SAFETY: a pure function.
        let link = unsafe { raw::iree_hal_topology_edge_link_class(edge.lo) };
        assert_eq!(u32::from(link), raw::IREE_HAL_TOPOLOGY_LINK_CLASS_HOST_STAGED);
    }
}
