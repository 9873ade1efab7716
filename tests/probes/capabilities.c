// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Capabilities of two devices, each a GPU, and of the link between them
// when a group is made of them.
//
// agents: gfx1100,gfx1100
//
// expect flags: 0x995
// expect semaphores: export 0x0, import 0x0
// expect buffers: export 0x8, import 0x8
// expect NUMA node: 0
// expect has a UUID: yes
// expect has a handle: yes
// expect is in a device group: no
// expect edge 0 to 0: wait 0, signal 0, read 0, write 0, link 0, copy 0, latency 0, NUMA 0
// expect edge 0 to 0, all bits: 00000000009ff000 0000000001010101
// expect edge 0 to 1: wait 2, signal 2, read 2, write 2, link 2, copy 7, latency 7, NUMA 5
// expect edge 0 to 1, all bits: 0002577aa19ddaaa 0000000008080000
// expect edge 1 to 0: wait 2, signal 2, read 2, write 2, link 2, copy 7, latency 7, NUMA 5
// expect edge 1 to 0, all bits: 0002577aa19ddaaa 0000000008080000
// expect edge 1 to 1: wait 0, signal 0, read 0, write 0, link 0, copy 0, latency 0, NUMA 0
// expect edge 1 to 1, all bits: 00000000009ff000 0000000001010101

#include "probe.h"

PROBE(capabilities) {
  iree_hal_device_t* devices[2] = {NULL, NULL};
  REQUIRE(probe_create("0", NULL, &devices[0]));
  REQUIRE(probe_create("1", NULL, &devices[1]));
  iree_hal_device_capabilities_t own;
  REQUIRE(iree_hal_device_query_capabilities(devices[0], &own));
  fact("flags", "0x%llx", (unsigned long long)own.flags);
  fact("semaphores", "export 0x%x, import 0x%x", own.semaphore_export_types, own.semaphore_import_types);
  fact("buffers", "export 0x%x, import 0x%x", own.buffer_export_types, own.buffer_import_types);
  fact("NUMA node", "%u", own.numa_node);
  fact_bool("has a UUID", own.has_physical_device_uuid);
  fact_bool("has a handle", own.driver_device_handle != 0);
  fact_bool("is in a device group", own.has_device_group);

  // As when a group is made of them, which the C driver refuses.
  for (uint32_t from = 0; from < 2; ++from) {
    for (uint32_t to = 0; to < 2; ++to) {
      iree_hal_device_capabilities_t source, target;
      REQUIRE(iree_hal_device_query_capabilities(devices[from], &source));
      REQUIRE(iree_hal_device_query_capabilities(devices[to], &target));
      iree_hal_topology_edge_t edge = iree_hal_topology_edge_from_capabilities(&source, &target, IREE_SV("amdgpu"), IREE_SV("amdgpu"));
      if (from != to) REQUIRE(iree_hal_device_refine_topology_edge(devices[from], devices[to], &edge));
      char name[64];
      snprintf(name, sizeof(name), "edge %u to %u", from, to);
      fact(name, "wait %u, signal %u, read %u, write %u, link %u, copy %u, latency %u, NUMA %u",
           (unsigned)iree_hal_topology_edge_wait_mode(edge.lo), (unsigned)iree_hal_topology_edge_signal_mode(edge.lo),
           (unsigned)iree_hal_topology_edge_buffer_read_mode_noncoherent(edge.lo),
           (unsigned)iree_hal_topology_edge_buffer_write_mode_noncoherent(edge.lo),
           (unsigned)iree_hal_topology_edge_link_class(edge.lo), iree_hal_topology_edge_copy_cost(edge.lo),
           iree_hal_topology_edge_latency_class(edge.lo), iree_hal_topology_edge_numa_distance(edge.lo));
      snprintf(name, sizeof(name), "edge %u to %u, all bits", from, to);
      fact(name, "%016llx %016llx", (unsigned long long)edge.lo, (unsigned long long)edge.hi);
    }
  }
  iree_hal_device_release(devices[0]);
  iree_hal_device_release(devices[1]);
}
