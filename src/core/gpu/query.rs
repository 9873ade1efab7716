// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Properties of a GPU by the names of IREE's C driver.

use amdgpu_code_object::{Feature, Processor, TargetId};

use super::Gpu;
use amdgpu_ffi::{Result, Status, status};

impl Gpu {
    /// A property of the GPU by its key in the category `amdgpu.device` of IREE's device queries.
    ///
    /// # Errors
    /// NOT_FOUND for unknown keys; UNAVAILABLE for a property that this GPU or its runtime does not have.
    pub fn query(&self, key: &str) -> Result<i64> {
        let agent = self.info.agent.info();
        let system = self.info.agent.library().system();
        let none = || unavailable(key, &agent.name);
        Ok(match key {
            "compute_unit_count" => i64::from(agent.compute_units),
            "wavefront_size" => i64::from(agent.wavefront_size),
            "dmabuf.supported" => i64::from(system.dmabuf_supported),
            "device_local.coarse_cpu_visible" => i64::from(self.info.host_access.is_some()),
            "device_local.fine_host_visible" => i64::from(self.info.fine_is_host_visible),
            "hdp.mem_flush_control" => agent.hdp_mem_flush.ok_or_else(none)?.address() as i64,
            "hdp.reg_flush_control" if agent.hdp_reg_flush == 0 => return Err(none()),
            "hdp.reg_flush_control" => agent.hdp_reg_flush as i64,
            "host.numa_node" => i64::from(self.cpu.agent.info().node),
            "hsa.agent.handle" => self.info.agent.handle().handle as i64,
            "hsa.driver_uid" => i64::from(agent.driver_uid.ok_or_else(none)?),
            "pci.domain" => i64::from(agent.pci.domain),
            "pci.bus" => i64::from(agent.pci.bus),
            "pci.device" => i64::from(agent.pci.device),
            "pci.function" => i64::from(agent.pci.function),
            "pci.bdfid" => {
                i64::from(agent.pci.bus) << 8 | i64::from(agent.pci.device) << 3 | i64::from(agent.pci.function)
            }
            "svm.accessible_by_default" => i64::from(system.svm_accessible_by_default),
            "svm.direct_host_access" => i64::from(agent.svm_direct_host_access),
            "svm.supported" => i64::from(system.svm_supported),
            "svm.xnack_enabled" => i64::from(system.xnack_enabled),
            _ => {
                let of_target = key.strip_prefix("target.").ok_or_else(|| unknown(key))?;
                // Best first, which is the GPU itself.
                target_figure(self.info.targets.first().ok_or_else(none)?, of_target).ok_or_else(|| unknown(key))?
            }
        })
    }
}

#[cold]
fn unknown(key: &str) -> Status {
    status!(NOT_FOUND, "unknown device configuration key 'amdgpu.device :: {key}'")
}

#[cold]
fn unavailable(key: &str, gpu: &str) -> Status {
    status!(UNAVAILABLE, "'amdgpu.device :: {key}' is not known of this {gpu}")
}

/// The C driver's number for the key of a GPU's target (`iree_hal_amdgpu_target_id_t`).
fn target_figure(target: &TargetId, key: &str) -> Option<i64> {
    let (kind, [major, minor, stepping]) = match target.processor {
        Processor::Exact { major, minor, stepping } => (0, [major, minor, stepping]),
        Processor::Generic { major, minor } => (1, [major, minor.unwrap_or(0), 0]),
    };
    Some(match key {
        "kind" => kind,
        "gfxip.major" => major.into(),
        "gfxip.minor" => minor.into(),
        "gfxip.stepping" => stepping.into(),
        "generic_version" => target.generic_version.into(),
        "sramecc" => setting(target.sramecc),
        "xnack" => setting(target.xnack),
        _ => return None,
    })
}

fn setting(feature: Feature) -> i64 {
    match feature {
        Feature::Any => 0,
        Feature::Unsupported => 1,
        Feature::Off => 2,
        Feature::On => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_by_the_numbers_of_the_c_driver() {
        let figures = |target: &str| {
            let target = target.parse().unwrap();
            ["kind", "gfxip.major", "gfxip.minor", "gfxip.stepping", "generic_version", "sramecc", "xnack"]
                .map(|key| target_figure(&target, key).unwrap())
        };
        assert_eq!(figures("gfx1100"), [0, 11, 0, 0, 0, 1, 1]);
        assert_eq!(figures("gfx90a:sramecc+:xnack-"), [0, 9, 0, 10, 0, 3, 2]);
        assert_eq!(figures("gfx942"), [0, 9, 4, 2, 0, 0, 0]);
        assert_eq!(figures("gfx9-4-generic")[..4], [1, 9, 4, 0]);
        assert_eq!(target_figure(&"gfx1100".parse().unwrap(), "name"), None);
    }
}
