// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Edges of IREE's device topology, each for a pair of devices (`iree/hal/topology.h`).

use super::raw;

/// Classes of links between devices, best first (`IREE_HAL_TOPOLOGY_LINK_CLASS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkClass {
    /// No link: the memory is the device's own.
    SameDie,
    /// XGMI.
    Interconnect,
    /// PCIe below one root.
    PcieSameRoot,
    /// PCIe and a link between CPUs.
    PcieCrossRoot,
    /// Only copies through host memory.
    HostStaged,
    /// A network.
    Fabric,
    /// A link of an unknown kind.
    Other,
}

impl LinkClass {
    /// IREE's number of the class, with the classes of copy cost and latency that IREE's own AMD driver uses for it.
    fn figures(self) -> (u32, u8, u8) {
        match self {
            Self::SameDie => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_SAME_DIE, 0, 0),
            Self::Interconnect => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_NVLINK_IF, 3, 3),
            Self::PcieSameRoot => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_PCIE_SAME_ROOT, 7, 7),
            Self::PcieCrossRoot => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_PCIE_CROSS_ROOT, 9, 9),
            Self::HostStaged => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_HOST_STAGED, 13, 11),
            Self::Fabric => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_FABRIC, 15, 14),
            Self::Other => (raw::IREE_HAL_TOPOLOGY_LINK_CLASS_OTHER, 11, 10),
        }
    }
}

/// The access of one GPU, or of all GPUs of a device, to the memory of another: the worst of all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Class of the worst link.
    pub link: LinkClass,
    /// Distance between NUMA nodes on IREE's scale of 0 to 15.
    pub numa_distance: u8,
    /// Coarse memory is accessible without a grant.
    pub coarse_by_default: bool,
    /// Fine memory is accessible without a grant.
    pub fine_by_default: bool,
    /// Memory is accessible after a grant for each allocation.
    pub needs_grant: bool,
    /// Memory of at least one kind is accessible, by default or after a grant.
    pub is_accessible: bool,
    /// All links keep caches coherent.
    pub coherent: bool,
    /// All links carry atomics of 32 bits.
    pub atomics_32: bool,
    /// All links carry atomics of 64 bits.
    pub atomics_64: bool,
}

impl Reach {
    /// The link of a device to its own memory. No other link is better.
    pub const BEST: Self = Self {
        link: LinkClass::SameDie,
        numa_distance: 0,
        coarse_by_default: true,
        fine_by_default: true,
        needs_grant: false,
        is_accessible: true,
        coherent: true,
        atomics_32: true,
        atomics_64: true,
    };

    /// The worse of the two in each respect.
    pub fn and(self, other: Self) -> Self {
        Self {
            link: self.link.max(other.link),
            numa_distance: self.numa_distance.max(other.numa_distance),
            coarse_by_default: self.coarse_by_default && other.coarse_by_default,
            fine_by_default: self.fine_by_default && other.fine_by_default,
            needs_grant: self.needs_grant || other.needs_grant,
            is_accessible: self.is_accessible && other.is_accessible,
            coherent: self.coherent && other.coherent,
            atomics_32: self.atomics_32 && other.atomics_32,
            atomics_64: self.atomics_64 && other.atomics_64,
        }
    }

    fn capabilities(self) -> u32 {
        let direct = [
            (true, raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY),
            (self.coherent, raw::IREE_HAL_TOPOLOGY_CAPABILITY_PEER_COHERENT),
            (self.atomics_32, raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_DEVICE),
            (self.atomics_64, raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_SYSTEM),
        ];
        let direct = direct.into_iter().filter(|(holds, _)| *holds && self.is_accessible).map(|(_, bit)| bit);
        let grant = self.needs_grant.then_some(raw::IREE_HAL_TOPOLOGY_CAPABILITY_PEER_ACCESS_REQUIRES_GRANT);
        direct.chain(grant).fold(0, |bits, bit| bits | bit)
    }
}

/// Replaces the edge that IREE made of the two devices' capabilities by the known properties of the pair.
pub fn refine(edge: &mut raw::iree_hal_topology_edge_t, reach: Reach) {
    const KNOWN: u32 = raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_PEER_COHERENT
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_DEVICE
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_ATOMIC_SYSTEM
        | raw::IREE_HAL_TOPOLOGY_CAPABILITY_PEER_ACCESS_REQUIRES_GRANT;
    let mode = |by_default: bool| match by_default {
        true => raw::IREE_HAL_TOPOLOGY_INTEROP_MODE_NATIVE as _,
        false => raw::IREE_HAL_TOPOLOGY_INTEROP_MODE_COPY as _,
    };
    let (coarse, fine) = (mode(reach.coarse_by_default), mode(reach.fine_by_default));
    let (class, copy_cost, latency) = reach.link.figures();
    // SAFETY: pure functions of their arguments.
    edge.lo = unsafe {
        let distance = raw::iree_hal_topology_edge_numa_distance(edge.lo).max(reach.numa_distance);
        let kept = raw::iree_hal_topology_edge_capability_flags(edge.lo) & !(KNOWN as u16);
        let lo = raw::iree_hal_topology_edge_set_buffer_read_mode_noncoherent(edge.lo, coarse);
        let lo = raw::iree_hal_topology_edge_set_buffer_write_mode_noncoherent(lo, coarse);
        let lo = raw::iree_hal_topology_edge_set_buffer_read_mode_coherent(lo, fine);
        let lo = raw::iree_hal_topology_edge_set_buffer_write_mode_coherent(lo, fine);
        let lo = raw::iree_hal_topology_edge_set_link_class(lo, class as _);
        let lo = raw::iree_hal_topology_edge_set_copy_cost(lo, copy_cost);
        let lo = raw::iree_hal_topology_edge_set_latency_class(lo, latency);
        let lo = raw::iree_hal_topology_edge_set_numa_distance(lo, distance);
        raw::iree_hal_topology_edge_set_capability_flags(lo, kept | reach.capabilities() as u16)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings;

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
        let none = Reach {
            link: LinkClass::HostStaged,
            coarse_by_default: false,
            fine_by_default: false,
            is_accessible: false,
            ..Reach::BEST
        };
        refine(&mut edge, none);
        assert_eq!(u32::from(flags(&edge)) & none.capabilities(), 0);
        assert_eq!(flags(&edge) & raw::IREE_HAL_TOPOLOGY_CAPABILITY_P2P_COPY as u16, 0);
        assert_ne!(flags(&edge) & raw::IREE_HAL_TOPOLOGY_CAPABILITY_TIMELINE_SEMAPHORE as u16, 0);
        // SAFETY: a pure function.
        let link = unsafe { raw::iree_hal_topology_edge_link_class(edge.lo) };
        assert_eq!(u32::from(link), raw::IREE_HAL_TOPOLOGY_LINK_CLASS_HOST_STAGED);
    }

    #[test]
    fn several_pairs_are_as_good_as_the_worst() {
        let xgmi = Reach { link: LinkClass::Interconnect, coarse_by_default: false, needs_grant: true, ..Reach::BEST };
        let pcie = Reach { link: LinkClass::PcieSameRoot, coherent: false, numa_distance: 5, ..Reach::BEST };
        let both = xgmi.and(pcie);
        assert_eq!(both, pcie.and(xgmi));
        assert_eq!((both.link, both.numa_distance), (LinkClass::PcieSameRoot, 5));
        assert!(both.needs_grant && !both.coherent && !both.coarse_by_default && both.atomics_64);
    }
}
