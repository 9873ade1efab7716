// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! GPUs with settings of `HSA_SIM_AGENTS`: their pools, and access between agents. The expected values are ROCR's
//! (`MemoryRegion::GetAccessInfo`, `GpuAgent::InitRegionList`).

mod common;

use std::sync::atomic::Ordering;

use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

const COARSE: u32 = HSA_GLOBAL_FLAG_COARSE_GRAINED;
const EXTENDED: u32 = HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED;
const FINE: u32 = HSA_GLOBAL_FLAG_FINE_GRAINED;

type Access = HsaMemoryPoolAccess;
const NEVER: Access = Access::NEVER_ALLOWED;
const ON_REQUEST: Access = Access::DISALLOWED_BY_DEFAULT;

/// HSA with these agents.
fn with(agents: &str) -> Hsa {
    // SAFETY: the only test of this binary calls it, and no other thread of it looks at the environment.
    unsafe { std::env::set_var("HSA_SIM_AGENTS", agents) };
    Hsa::new()
}

fn flags(agent: HsaAgent) -> Vec<u32> {
    let global =
        |pool: &HsaMemoryPool| pool_info::<HsaAmdSegment>(*pool, HsaMemoryPoolInfo::SEGMENT) == HsaAmdSegment::GLOBAL;
    pools(agent).into_iter().filter(global).map(|pool| pool_info(pool, HsaMemoryPoolInfo::GLOBAL_FLAGS)).collect()
}

/// Access of `agent` to a pool, and the type of the link to it.
fn access(agent: HsaAgent, pool: HsaMemoryPool) -> (Access, Option<HsaLinkType>) {
    let (mut access, mut hops) = (NEVER, 0_u32);
    let mut link = std::mem::MaybeUninit::<HsaMemoryPoolLinkInfo>::uninit();
    let query = |attribute, value| {
        // SAFETY: the values have the attributes' types.
        let status = unsafe { hsa_amd_agent_memory_pool_get_info(agent, pool, attribute, value) };
        assert_eq!(status, HsaStatus::SUCCESS);
    };
    query(HsaAgentMemoryPoolInfo::ACCESS, as_data(&mut access));
    query(HsaAgentMemoryPoolInfo::NUM_LINK_HOPS, as_data(&mut hops));
    query(HsaAgentMemoryPoolInfo::LINK_INFO, as_data(&mut link));
    // SAFETY: the runtime wrote a link, of zeroes where there is none.
    let link = unsafe { link.assume_init() };
    assert!(hops <= 1);
    (access, (hops == 1).then_some(link.link_type))
}

#[test]
fn gpus_are_as_they_are_built_in() {
    discrete_gpus();
    hives_and_partitions();
    one_memory();
    a_late_read_index();
}

fn discrete_gpus() {
    let pcie = Some(HsaLinkType::PCIE);
    let hsa = with("gfx1100,gfx1201,gfx1100:bar=small,gfx1100:bar=none,gfx1100:peers=no,pools=coarse+fine");
    let [xtx, rdna4, small, none, alone] = hsa.gpus[..] else { panic!("five GPUs") };
    assert_eq!(flags(xtx), [COARSE, EXTENDED]);
    assert_eq!(flags(rdna4), [COARSE]);
    assert_eq!(flags(alone), [COARSE, FINE]);

    for (agent, has_registers) in [(xtx, true), (small, true), (none, false), (hsa.cpu, false)] {
        let hdp: HsaAmdHdpFlush = agent_info(agent, HsaAgentInfo::AMD_HDP_FLUSH);
        assert_eq!((!hdp.mem_flush_cntl.is_null(), !hdp.reg_flush_cntl.is_null()), (has_registers, has_registers));
    }
    let host = hsa.pool(hsa.cpu, FINE);
    assert!(pool_info::<bool>(host, HsaMemoryPoolInfo::ACCESSIBLE_BY_ALL));
    for gpu in [xtx, rdna4, small, none, alone] {
        let coarse = hsa.pool(gpu, COARSE);
        assert!(!pool_info::<bool>(coarse, HsaMemoryPoolInfo::ACCESSIBLE_BY_ALL));
        assert_eq!(access(gpu, coarse), (Access::ALLOWED_BY_DEFAULT, None));
        assert_eq!(access(gpu, host), (ON_REQUEST, pcie), "all GPUs reach the host's memory");
    }
    for (pool, from_host, from_peer) in [
        (hsa.pool(xtx, COARSE), ON_REQUEST, ON_REQUEST),
        (hsa.pool(xtx, EXTENDED), ON_REQUEST, ON_REQUEST),
        (hsa.pool(small, COARSE), NEVER, NEVER),
        (hsa.pool(none, EXTENDED), NEVER, NEVER),
        (hsa.pool(alone, FINE), ON_REQUEST, NEVER),
    ] {
        let link = |access| if access == NEVER { None } else { pcie };
        assert_eq!(access(hsa.cpu, pool), (from_host, link(from_host)));
        assert_eq!(access(rdna4, pool), (from_peer, link(from_peer)));
    }
}

fn hives_and_partitions() {
    let xgmi = Some(HsaLinkType::XGMI);
    let hsa = with("gfx942:partitions=4,gfx942,bar=none");
    assert_eq!(hsa.gpus.len(), 5);
    let (parts, whole) = (&hsa.gpus[..4], hsa.gpus[4]);
    let number = |agent, attribute| agent_info::<u32>(agent, attribute);
    for part in parts {
        assert_eq!(number(*part, HsaAgentInfo::AMD_COMPUTE_UNIT_COUNT), 304 / 4);
        assert_eq!(number(*part, HsaAgentInfo::AMD_NUM_XCC), 2);
        assert_eq!(number(*part, HsaAgentInfo::AMD_NUM_SHADER_ENGINES), 2 * 4);
        assert_eq!(number(*part, HsaAgentInfo::AMD_BDFID), number(parts[0], HsaAgentInfo::AMD_BDFID));
        let uuid = |agent| agent_text::<21>(agent, HsaAgentInfo::AMD_UUID);
        assert_eq!(uuid(*part), uuid(parts[0]), "one device has one id");
    }
    let mut uids: Vec<_> = hsa.gpus.iter().map(|gpu| number(*gpu, HsaAgentInfo::AMD_DRIVER_UID)).collect();
    uids.dedup();
    assert_eq!(uids.len(), 5);
    assert_ne!(number(whole, HsaAgentInfo::AMD_BDFID), number(parts[0], HsaAgentInfo::AMD_BDFID));
    assert_eq!(flags(whole), [COARSE, EXTENDED, FINE]);
    // XGMI needs no PCI aperture, and the host is not in the hive.
    for flag in [COARSE, EXTENDED, FINE] {
        assert_eq!(access(parts[0], hsa.pool(whole, flag)), (ON_REQUEST, xgmi));
        assert_eq!(access(hsa.cpu, hsa.pool(whole, flag)), (NEVER, None));
    }
    assert_eq!(access(hsa.cpu, hsa.pool(parts[1], COARSE)).0, ON_REQUEST);
    assert_eq!(access(hsa.cpu, hsa.pool(parts[1], FINE)).0, NEVER);
}

fn one_memory() {
    let hsa = with("gfx942:memory=shared,cus=228");
    let coarse = hsa.pool(hsa.gpu(), COARSE);
    assert_eq!(access(hsa.cpu, coarse), (ON_REQUEST, Some(HsaLinkType::XGMI)));
    let size = |pool| pool_info::<usize>(pool, HsaMemoryPoolInfo::SIZE);
    assert_eq!(size(coarse), size(hsa.pool(hsa.cpu, FINE)));
}

/// Packets complete before the read index passes them, and it eventually passes them.
fn a_late_read_index() {
    let hsa = with("gfx1100:read_index=late");
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(0);
    let read_index = || queue.read_index().load(Ordering::Acquire);
    let mut late = 0;
    for id in 0..200 {
        store(done, 1);
        queue.submit(&barrier_and(&[], done));
        wait_for(done, 0);
        late += u32::from(read_index() <= id);
        while read_index() <= id {
            std::thread::yield_now();
        }
    }
    assert_ne!(late, 0);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
