// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Limits of workgroups and grids on a GPU. A packet processor that is given more stops its queue, which loses the
//! device, so that launches are checked when they are made.

use amdgpu_hsa::AgentInfo;

/// Limits of a launch on a GPU. Immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// The GPU's name in messages.
    pub gpu: String,
    /// Work-items of a workgroup (`HSA_AGENT_INFO_WORKGROUP_MAX_SIZE`).
    pub workgroup_size: u32,
    /// Work-items of a workgroup in each dimension (`HSA_AGENT_INFO_WORKGROUP_MAX_DIM`).
    pub workgroup_dims: [u16; 3],
    /// Bytes of LDS of a workgroup: the size of the agent's group segment.
    pub lds: u32,
    /// Workgroups in each dimension.
    ///
    /// From gfx12 on waves get their workgroup's Y and Z ids in 16 bits each (LLVM, "ttmp7" in `SIISelLowering.cpp`);
    /// with more workgroups, several would have the same id. The agents' limits of grids
    /// (`HSA_AGENT_INFO_GRID_MAX_DIM`) are not used: ROCR's releases differ, and the 65,535 work-items of later ones
    /// are less than earlier GPUs can run.
    pub workgroups: [u32; 3],
}

impl LaunchLimits {
    /// The limits of GPU `ordinal`, whose workgroups have so many bytes of LDS.
    pub fn new(ordinal: usize, agent: &AgentInfo, lds: usize) -> Self {
        let ids_in_16_bits = agent.name.starts_with("gfx12");
        Self {
            gpu: format!("GPU {ordinal} ({})", agent.name),
            workgroup_size: agent.workgroup_max_size,
            workgroup_dims: agent.workgroup_max_dim,
            lds: u32::try_from(lds).unwrap_or(u32::MAX),
            workgroups: if ids_in_16_bits { [u32::MAX, 1 << 16, 1 << 16] } else { [u32::MAX; 3] },
        }
    }

    /// Limits of a made-up GPU.
    #[cfg(any(test, feature = "testing"))]
    pub fn for_tests(ids_in_16_bits: bool) -> Self {
        let most = if ids_in_16_bits { 1 << 16 } else { u32::MAX };
        let workgroups = [u32::MAX, most, most];
        Self {
            gpu: "GPU 0 (gfx0000)".to_owned(),
            workgroup_size: 1024,
            workgroup_dims: [1024; 3],
            lds: 65_536,
            workgroups,
        }
    }
}
