// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Access between GPUs of different logical devices, for IREE's device topology (`iree/hal/topology.h`).

use std::sync::Arc;

use hsa_abi::{HsaLinkType, HsaMemoryPoolAccess, HsaMemoryPoolLinkInfo};

use crate::Gpu;
use amdgpu_ffi::Result;
use amdgpu_ffi::topology::{LinkClass, Reach};

/// The access of all `sources` to the memory of all `owners`: IREE has one answer for all pairs.
///
/// # Errors
/// The error of HSA.
pub fn reach(sources: &[Arc<Gpu>], owners: &[Arc<Gpu>]) -> Result<Reach> {
    let mut all = Reach::BEST;
    for source in sources {
        for owner in owners {
            all = all.and(reach_of(source, owner)?);
        }
    }
    Ok(all)
}

fn reach_of(source: &Gpu, owner: &Gpu) -> Result<Reach> {
    let info = owner.info();
    let pool = source.agent().access_to(&info.coarse)?;
    // Where there is no coarse pool, the fine one is in its place.
    let coarse = match info.coarse.info().is_coarse_grained() {
        true => pool.access,
        false => HsaMemoryPoolAccess::NEVER_ALLOWED,
    };
    let fine = match &info.fine {
        Some(fine) => source.agent().access_to(fine)?.access,
        None => HsaMemoryPoolAccess::NEVER_ALLOWED,
    };
    Ok(of_links([coarse, fine], &pool.links))
}

/// Rates accesses to coarse and fine memory over `links`.
fn of_links([coarse, fine]: [HsaMemoryPoolAccess; 2], links: &[HsaMemoryPoolLinkInfo]) -> Reach {
    let any = |wanted| coarse == wanted || fine == wanted;
    let (by_default, allowed) = (HsaMemoryPoolAccess::ALLOWED_BY_DEFAULT, HsaMemoryPoolAccess::DISALLOWED_BY_DEFAULT);
    let is_accessible = any(by_default) || any(allowed);
    let link = links.iter().map(|link| class(link.link_type)).max().unwrap_or(LinkClass::SameDie);
    Reach {
        link: if is_accessible { link } else { LinkClass::HostStaged },
        numa_distance: links.iter().map(|link| numa_distance(link.numa_distance)).max().unwrap_or(0),
        coarse_by_default: coarse == by_default,
        fine_by_default: fine == by_default,
        needs_grant: any(allowed),
        is_accessible,
        coherent: links.iter().all(|link| link.coherent_support),
        atomics_32: links.iter().all(|link| link.atomic_support_32bit),
        atomics_64: links.iter().all(|link| link.atomic_support_64bit),
    }
}

fn class(link: HsaLinkType) -> LinkClass {
    match link {
        HsaLinkType::XGMI => LinkClass::Interconnect,
        HsaLinkType::PCIE => LinkClass::PcieSameRoot,
        // Between CPUs.
        HsaLinkType::QPI | HsaLinkType::HYPERTRANSPORT => LinkClass::PcieCrossRoot,
        HsaLinkType::INFINIBAND => LinkClass::Fabric,
        _ => LinkClass::Other,
    }
}

/// Maps HSA's distance, which starts at 10 as in ACPI, to IREE's scale of 0 to 15 (`iree/hal/topology_builder.c`).
fn numa_distance(of_hsa: u32) -> u8 {
    (of_hsa.saturating_sub(10) / 2).min(15) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(link_type: HsaLinkType, coherent: bool, numa_distance: u32) -> HsaMemoryPoolLinkInfo {
        HsaMemoryPoolLinkInfo {
            min_latency: 0,
            max_latency: 0,
            min_bandwidth: 0,
            max_bandwidth: 0,
            atomic_support_32bit: true,
            atomic_support_64bit: true,
            coherent_support: coherent,
            link_type,
            numa_distance,
        }
    }

    #[test]
    fn a_way_is_as_good_as_its_worst_link() {
        const ALLOWED: HsaMemoryPoolAccess = HsaMemoryPoolAccess::DISALLOWED_BY_DEFAULT;
        const NEVER: HsaMemoryPoolAccess = HsaMemoryPoolAccess::NEVER_ALLOWED;
        let way = [link(HsaLinkType::PCIE, false, 20), link(HsaLinkType::QPI, true, 32)];
        let reach = of_links([ALLOWED, NEVER], &way);
        assert_eq!((reach.link, reach.numa_distance), (LinkClass::PcieCrossRoot, 11));
        assert!(reach.is_accessible && reach.needs_grant && !reach.coarse_by_default && !reach.coherent);
        let none = of_links([NEVER, NEVER], &way);
        assert_eq!(none.link, LinkClass::HostStaged, "whatever links there are");
        assert!(!none.is_accessible && !none.needs_grant);
        assert_eq!(of_links([HsaMemoryPoolAccess::ALLOWED_BY_DEFAULT; 2], &[]), Reach::BEST);
    }

    #[test]
    fn distances_end_at_fifteen() {
        assert_eq!([0, 10, 12, 20, 40, 255].map(numa_distance), [0, 0, 1, 5, 15, 15]);
    }
}
