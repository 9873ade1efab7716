// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Initialisation, system attributes, agents, instruction sets.

use std::ffi::{CStr, c_void};
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::*;
use crate::{alone, every_release, in_environment, release};

#[test]
fn the_last_of_several_shut_downs_ends_the_runtime() {
    alone(&[], || {
        let (mut value, mut signal) = (0_u64, HsaSignal::NULL);
        // SAFETY: valid places throughout.
        unsafe {
            assert_eq!(hsa_shut_down(), HsaStatus::ERROR_NOT_INITIALIZED);
            assert_eq!(hsa_init(), HsaStatus::SUCCESS);
            assert_eq!(hsa_init(), HsaStatus::SUCCESS);
            assert_eq!(hsa_shut_down(), HsaStatus::SUCCESS);
            let mut info = || hsa_system_get_info(HsaSystemInfo::TIMESTAMP, as_data(&mut value));
            assert_eq!(info(), HsaStatus::SUCCESS);
            assert_eq!(hsa_shut_down(), HsaStatus::SUCCESS);
            assert_eq!(info(), HsaStatus::ERROR_NOT_INITIALIZED);
            let status = hsa_iterate_agents(Some(push::<HsaAgent>), ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_NOT_INITIALIZED);
            let status = hsa_amd_signal_create(0, 0, ptr::null(), 0, &mut signal);
            assert_eq!(status, HsaStatus::ERROR_NOT_INITIALIZED);
            assert_eq!(hsa_amd_memory_pool_free(ptr::null_mut()), HsaStatus::ERROR_NOT_INITIALIZED);
            assert_eq!(hsa_shut_down(), HsaStatus::ERROR_NOT_INITIALIZED);
            assert_eq!(hsa_init(), HsaStatus::SUCCESS);
            assert_eq!(hsa_shut_down(), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn the_last_shut_down_takes_all_memory_and_queues() {
    alone(&[], || {
        let hsa = Hsa::new();
        let memory = hsa.host_memory::<u64>(1);
        let queue = Queue::new(hsa.gpu(), 64);
        drop(hsa);
        let again = Hsa::new();
        assert_eq!(free(memory.cast()), HsaStatus::ERROR_INVALID_ALLOCATION);
        // SAFETY: any pointer may be passed; the runtime looks it up.
        assert_eq!(unsafe { hsa_queue_destroy(queue.queue.cast()) }, HsaStatus::ERROR_INVALID_QUEUE);
        std::mem::forget(queue);
        drop(again);
    });
}

fn system<T: Copy + Default>(attribute: HsaSystemInfo) -> T {
    let mut value = T::default();
    // SAFETY: the tests ask with the attribute's type.
    assert_eq!(unsafe { hsa_system_get_info(attribute, as_data(&mut value)) }, HsaStatus::SUCCESS, "{attribute:?}");
    value
}

#[test]
fn versions_are_the_releases() {
    type S = HsaSystemInfo;
    for (name, minor, extension) in [("6.2", 14_u16, 6_u16), ("7.0", 18, 11)] {
        release(name, |_| {
            assert_eq!((system(S::VERSION_MAJOR), system(S::VERSION_MINOR)), (1_u16, minor));
            assert_eq!((system(S::AMD_EXT_VERSION_MAJOR), system(S::AMD_EXT_VERSION_MINOR)), (1_u16, extension));
        });
    }
}

#[test]
fn the_system_clock_counts_nanoseconds_since_boot() {
    every_release(|_| {
        assert_eq!(system::<u64>(HsaSystemInfo::TIMESTAMP_FREQUENCY), 1_000_000_000);
        assert_eq!(system::<u64>(HsaSystemInfo::SIGNAL_MAX_WAIT), u64::MAX);
        let now = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the place is valid.
            unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let times = [now(), system(HsaSystemInfo::TIMESTAMP), now()];
        assert!(times.is_sorted(), "{times:?}");
    });
}

#[test]
fn system_attributes_need_a_place_and_a_known_name() {
    every_release(|_| {
        let mut value = [0_u8; 128];
        // SAFETY: the place is large enough.
        unsafe {
            let status = hsa_system_get_info(HsaSystemInfo::TIMESTAMP, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_system_get_info(HsaSystemInfo(0x7777), as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            assert!(hsa_system_get_info(HsaSystemInfo::EXTENSIONS, as_data(&mut value)).is_ok());
        }
        assert_eq!(value[0x200 / 8] & 1, 1, "AMD's profiler is always among the extensions");
    });
}

#[test]
fn statuses_have_texts_without_a_runtime() {
    alone(&[], || {
        let text = |status| {
            let mut text = ptr::null();
            // SAFETY: the place is valid, and a text is a C string that stays.
            unsafe { hsa_status_string(status, &mut text).is_ok().then(|| CStr::from_ptr(text).to_str().unwrap()) }
        };
        let holes = [46, 0x101a, 0x101b, 0x101c, 0x101d, 0x101e, 0x101f];
        for status in [0, 1].into_iter().chain(40..=46).chain(0x1000..=0x1026) {
            let found = text(HsaStatus(status));
            assert_eq!(found.is_none(), holes.contains(&status), "{status:#x}: {found:?}");
            assert!(found.is_none_or(|found| found.starts_with("HSA_STATUS_")), "{found:?}");
        }
        assert_eq!(text(HsaStatus(0x1027)), None);
        // SAFETY: null is refused.
        let status = unsafe { hsa_status_string(HsaStatus::SUCCESS, ptr::null_mut()) };
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
    });
}

#[test]
fn agents_are_the_cpu_and_then_the_gpus() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx942,gfx1100")], |hsa| {
        let mut agents: Vec<HsaAgent> = Vec::new();
        // SAFETY: the callback gets the vector it expects.
        let status = unsafe { hsa_iterate_agents(Some(push::<HsaAgent>), as_data(&mut agents)) };
        assert_eq!(status, HsaStatus::SUCCESS);
        assert_eq!(agents, [hsa.cpu, hsa.gpus[0], hsa.gpus[1]]);
        assert_eq!(agent_text::<64>(agents[1], HsaAgentInfo::NAME), "gfx942");
        // SAFETY: null is refused.
        let status = unsafe { hsa_iterate_agents(None, ptr::null_mut()) };
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
    });
}

/// Callback that counts its calls, and ends the iteration at the second one.
unsafe extern "C" fn second<T>(_: T, data: *mut c_void) -> HsaStatus {
    // SAFETY: the tests pass a count.
    let count = unsafe { &mut *data.cast::<u32>() };
    *count += 1;
    if *count == 2 { HsaStatus::ERROR_FATAL } else { HsaStatus::SUCCESS }
}

#[test]
fn a_callback_ends_its_iteration_with_its_own_status() {
    every_release(|hsa| {
        let (mut agents, mut pools) = (0_u32, 0_u32);
        // SAFETY: the callback gets the count it expects.
        unsafe {
            assert_eq!(hsa_iterate_agents(Some(second::<HsaAgent>), as_data(&mut agents)), HsaStatus::ERROR_FATAL);
            let status =
                hsa_amd_agent_iterate_memory_pools(hsa.cpu, Some(second::<HsaMemoryPool>), as_data(&mut pools));
            assert_eq!(status, HsaStatus::ERROR_FATAL);
        }
        assert_eq!((agents, pools), (2, 2));
    });
}

#[test]
fn agent_attributes_need_a_place_an_agent_and_a_known_name() {
    every_release(|hsa| {
        let mut value = [0_u64; 16];
        // SAFETY: the place is large enough.
        unsafe {
            let status = hsa_agent_get_info(hsa.gpu(), HsaAgentInfo::NAME, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_agent_get_info(HsaAgent::NULL, HsaAgentInfo::NAME, as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
            let status = hsa_agent_get_info(hsa.gpu(), HsaAgentInfo(0x7777), as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        }
    });
}

#[test]
fn grids_have_had_limits_since_7_0() {
    let dims = |hsa: &Hsa| agent_info::<[u32; 3]>(hsa.gpu(), HsaAgentInfo::GRID_MAX_DIM);
    assert_eq!(release("6.2", dims), [u32::MAX; 3]);
    assert_eq!(release("7.0", dims), [0x7fff_ffff, 0xffff, 0xffff]);
}

#[test]
fn available_memory_is_what_is_not_allocated() {
    every_release(|hsa| {
        let available = || agent_info::<u64>(hsa.gpu(), HsaAgentInfo::AMD_MEMORY_AVAIL);
        let all = available();
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 5000).unwrap();
        assert_eq!(all - available(), 8192);
        assert_eq!(free(memory), HsaStatus::SUCCESS);
        assert_eq!(available(), all);
    });
}

#[test]
fn a_gpus_clock_is_not_the_systems() {
    every_release(|hsa| {
        assert_eq!(agent_info::<u64>(hsa.gpu(), HsaAgentInfo::AMD_TIMESTAMP_FREQUENCY), 100_000_000);
    });
}

fn isas(agent: HsaAgent) -> Vec<String> {
    let mut isas: Vec<HsaIsa> = Vec::new();
    // SAFETY: the callback gets the vector it expects.
    let status = unsafe { hsa_agent_iterate_isas(agent, Some(push::<HsaIsa>), as_data(&mut isas)) };
    assert_eq!(status, HsaStatus::SUCCESS);
    let name = |isa| {
        let mut length = 0_u32;
        // SAFETY: the places have the attributes' sizes.
        unsafe {
            assert!(hsa_isa_get_info_alt(isa, HsaIsaInfo::NAME_LENGTH, as_data(&mut length)).is_ok());
            let mut name = vec![0_u8; length as usize];
            assert!(hsa_isa_get_info_alt(isa, HsaIsaInfo::NAME, name.as_mut_ptr().cast()).is_ok());
            assert_eq!(name.pop(), Some(0), "the length counts the NUL");
            String::from_utf8(name).unwrap()
        }
    };
    isas.into_iter().map(name).collect()
}

#[test]
fn generic_instruction_sets_came_after_6_2() {
    release("6.2", |hsa| assert_eq!(isas(hsa.gpu()), ["amdgcn-amd-amdhsa--gfx1100"]));
    release("7.0", |hsa| {
        assert_eq!(isas(hsa.gpu()), ["amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--gfx11-generic"]);
        assert_eq!(isas(hsa.cpu), [""; 0]);
    });
}

#[test]
fn names_of_instruction_sets_have_features() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx942,gfx1010,gfx906")], |hsa| {
        let names = |gpu: usize| isas(hsa.gpus[gpu]).map_names();
        assert_eq!(names(0), ["gfx942:sramecc+:xnack-", "gfx9-4-generic:sramecc+:xnack-"]);
        assert_eq!(names(1), ["gfx1010:xnack-", "gfx10-1-generic:xnack-"]);
        assert_eq!(names(2), ["gfx906:sramecc+:xnack-", "gfx9-generic:xnack-"]);
        assert_eq!(agent_text::<64>(hsa.gpus[0], HsaAgentInfo::NAME), "gfx942", "an agent's name has none");
    });
}

trait MapNames {
    fn map_names(self) -> Vec<String>;
}

impl MapNames for Vec<String> {
    fn map_names(self) -> Vec<String> {
        self.into_iter().map(|name| name.replace("amdgcn-amd-amdhsa--", "")).collect()
    }
}

#[test]
fn attributes_of_instruction_sets_need_a_place_a_handle_and_a_known_name() {
    every_release(|hsa| {
        let mut value = [0_u64; 16];
        let isa: HsaIsa = agent_info(hsa.gpu(), HsaAgentInfo::ISA);
        // SAFETY: the place is large enough.
        unsafe {
            let status = hsa_isa_get_info_alt(isa, HsaIsaInfo::NAME, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_isa_get_info_alt(HsaIsa::NULL, HsaIsaInfo::NAME, as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ISA);
            let status = hsa_isa_get_info_alt(isa, HsaIsaInfo(0x7777), as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_agent_iterate_isas(hsa.gpu(), None, as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_agent_iterate_isas(HsaAgent::NULL, Some(push::<HsaIsa>), as_data(&mut value));
            assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
        }
    });
}
