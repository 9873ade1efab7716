// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stands in for aqlprofile-sdk/aql_profile_v2.h, which no package of Debian
// has. IREE's C driver compares its own declarations with this header's sizes
// and constants when it is compiled, and uses nothing else of it: libaqlprofile
// is loaded at run time, for hardware counters and traces.

#ifndef AQL_PROFILE_V2_H_
#define AQL_PROFILE_V2_H_

#include <stdint.h>

#include "third_party/hsa-runtime-headers/include/hsa/hsa_ven_amd_aqlprofile.h"

#define AQLPROFILE_VERSION_MAJOR 1

// Members of the aqlprofile_att_parameter_name_ext_t enum.
#define AQLPROFILE_ATT_PARAMETER_NAME_BUFFER_SIZE_HIGH 11
#define AQLPROFILE_ATT_PARAMETER_NAME_RT_TIMESTAMP 12

// Structs by their sizes only.
typedef uint64_t aqlprofile_handle_t;
typedef uint32_t aqlprofile_version_t[3];
typedef uint32_t aqlprofile_buffer_desc_flags_t;
typedef uint32_t aqlprofile_att_parameter_t[2];
typedef uint64_t aqlprofile_att_profile_t[3];
typedef uint32_t aqlprofile_pmc_event_flags_t;
typedef uint32_t aqlprofile_pmc_event_t[4];
typedef uint64_t aqlprofile_agent_info_v1_t[4];
typedef uint64_t aqlprofile_agent_handle_t;
typedef uint64_t aqlprofile_pmc_profile_t[3];
typedef hsa_ext_amd_aql_pm4_packet_t aqlprofile_pmc_aql_packets_t[3];
typedef hsa_ext_amd_aql_pm4_packet_t aqlprofile_att_control_aql_packets_t[2];
typedef uint64_t aqlprofile_att_codeobj_data_t[5];

#endif  // AQL_PROFILE_V2_H_
