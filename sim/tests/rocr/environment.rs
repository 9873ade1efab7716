// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! ROCR's own environment variables, and the sim's variable for the release.

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::*;
use crate::{alone, in_environment};

#[test]
fn only_known_releases_can_be_chosen() {
    for value in ["", "6", "7.x", "6.2 ", "latest"] {
        alone(&[("HSA_SIM_ROCR", value)], || {
            // SAFETY: no preconditions.
            assert_eq!(unsafe { hsa_init() }, HsaStatus::ERROR_INVALID_ARGUMENT, "{value:?}");
        });
    }
}

#[test]
fn visible_devices_are_chosen_and_ordered() {
    let agents = ("HSA_SIM_AGENTS", "gfx1100,gfx942,gfx906");
    let names =
        |hsa: &Hsa| -> Vec<_> { hsa.gpus.iter().map(|&gpu| agent_text::<64>(gpu, HsaAgentInfo::NAME)).collect() };
    let uuid = in_environment(&[agents], |hsa| agent_text::<21>(hsa.gpus[2], HsaAgentInfo::AMD_UUID));
    let list = format!("1,{uuid}");
    in_environment(&[agents, ("ROCR_VISIBLE_DEVICES", &list)], |hsa| {
        assert_eq!(names(hsa), ["gfx942", "gfx906"]);
        assert_eq!(agent_text::<21>(hsa.gpus[1], HsaAgentInfo::AMD_UUID), uuid, "a GPU keeps its UUID");
        let nodes = hsa.gpus.iter().map(|&gpu| agent_info(gpu, HsaAgentInfo::NODE));
        assert_eq!(nodes.collect::<Vec<u32>>(), [2, 3], "and its node");
    });
    in_environment(&[agents, ("ROCR_VISIBLE_DEVICES", "2,0,2,1")], |hsa| assert_eq!(names(hsa), ["gfx906", "gfx1100"]));
    in_environment(&[agents, ("ROCR_VISIBLE_DEVICES", "")], |hsa| assert_eq!(names(hsa), [""; 0]));
}

#[test]
fn without_interrupts_no_signal_has_one() {
    for (value, interrupts) in [("0", false), ("1", true), ("off", true)] {
        in_environment(&[("HSA_ENABLE_INTERRUPT", value)], |_| {
            let one = signal(0);
            // SAFETY: the signal is live.
            unsafe {
                assert_eq!((*one.as_ptr()).event_mailbox_ptr != 0, interrupts, "{value}");
                assert!(hsa_signal_destroy(one).is_ok());
            }
        });
    }
}
