// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers of a device to iree_hal_device_query_i64.
//
// expect hal.device concurrency: 2
// expect hal.dispatch concurrency: 96
// expect hal.device.id amdgpu*: 1
// expect hal.executable.format amdgcn-amd-amdhsa--gfx1100: 1
// expect hal.executable.format amdgcn-amd-amdhsa--gfx942: 0
// expect no.such.category key: NOT_FOUND
// expect amdgpu.device physical_device.count: 1
// expect amdgpu.device dmabuf.supported: 1
// expect amdgpu.device hsa.driver_uid: 16657
// expect amdgpu.device pci.domain: 0
// expect amdgpu.device pci.bus: 1
// expect amdgpu.device pci.device: 0
// expect amdgpu.device pci.function: 0
// expect amdgpu.device pci.bdfid: 256
// expect amdgpu.device host.numa_node: 0
// expect amdgpu.device compute_unit_count: 96
// expect amdgpu.device wavefront_size: 32
// expect amdgpu.device target.kind: 0
// expect amdgpu.device target.gfxip.major: 11
// expect amdgpu.device target.gfxip.minor: 0
// expect amdgpu.device target.gfxip.stepping: 0
// expect amdgpu.device target.generic_version: 0
// expect amdgpu.device target.sramecc: 1
// expect amdgpu.device target.xnack: 1
// expect amdgpu.device svm.supported: 1
// expect amdgpu.device svm.accessible_by_default: 0
// expect amdgpu.device svm.xnack_enabled: 0
// expect amdgpu.device svm.direct_host_access: 0
// expect amdgpu.device device_local.fine_host_visible: 1
// expect amdgpu.device device_local.coarse_cpu_visible: 1
// expect amdgpu.device no.such.key: NOT_FOUND
// expect amdgpu.device hsa.agent.handle: an address
// expect amdgpu.device hdp.mem_flush_control: an address
// expect amdgpu.device hdp.reg_flush_control: an address

#include "probe.h"

static void query(iree_hal_device_t* device, const char* category, const char* key, bool is_address) {
  char name[128];
  snprintf(name, sizeof(name), "%s %s", category, key);
  int64_t value = -1;
  iree_status_t status = iree_hal_device_query_i64(device, iree_make_cstring_view(category),
                                                   iree_make_cstring_view(key), &value);
  if (!iree_status_is_ok(status)) {
    fact_status(name, status);
  } else if (is_address) {
    fact(name, "%s", value ? "an address" : "null");
  } else {
    fact(name, "%lld", (long long)value);
  }
}

PROBE(queries) {
  static const char* const numbers[] = {
      "physical_device.count", "dmabuf.supported", "hsa.driver_uid", "pci.domain", "pci.bus", "pci.device",
      "pci.function", "pci.bdfid", "host.numa_node", "compute_unit_count", "wavefront_size", "target.kind",
      "target.gfxip.major", "target.gfxip.minor", "target.gfxip.stepping", "target.generic_version", "target.sramecc",
      "target.xnack", "svm.supported", "svm.accessible_by_default", "svm.xnack_enabled", "svm.direct_host_access",
      "device_local.fine_host_visible", "device_local.coarse_cpu_visible", "no.such.key",
  };
  static const char* const addresses[] = {"hsa.agent.handle", "hdp.mem_flush_control", "hdp.reg_flush_control"};
  probe_device_t device = probe_open(NULL);
  query(device.device, "hal.device", "concurrency", false);
  query(device.device, "hal.dispatch", "concurrency", false);
  query(device.device, "hal.device.id", "amdgpu*", false);
  query(device.device, "hal.executable.format", "amdgcn-amd-amdhsa--gfx1100", false);
  query(device.device, "hal.executable.format", "amdgcn-amd-amdhsa--gfx942", false);
  query(device.device, "no.such.category", "key", false);
  for (size_t i = 0; i < IREE_ARRAYSIZE(numbers); ++i) query(device.device, "amdgpu.device", numbers[i], false);
  for (size_t i = 0; i < IREE_ARRAYSIZE(addresses); ++i) query(device.device, "amdgpu.device", addresses[i], true);
  probe_close(&device);
}
