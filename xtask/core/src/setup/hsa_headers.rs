// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! HSA's headers for compiling IREE's C driver, from Debian 13's libhsa-runtime-dev. This driver has its own
//! declarations.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::debian::{self, Archive};
use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::steps::Steps;

const ARCHIVE: Archive = Archive {
    path: "pool/main/r/rocr-runtime/libhsa-runtime-dev_6.1.2-3_amd64.deb",
    sha256: "210550164784b6f12067b6cfd8a9386f6855d12a5fdd768b14839c85c35e48c0",
};

/// Definitions that the C driver uses and ROCR 6.1.2 lacks: two enumerators, with their values in later versions'
/// `hsa_ext_amd.h`, and the enum of a function's parameter.
pub const C_FLAGS: &str = "-DHSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG=4 -DHSA_EXT_POINTER_TYPE_HSA_VMEM=6 \
     -Dhsa_queue_info_attribute_t=uint32_t -Wno-error=switch";

/// Folder of the headers, in place of IREE's submodule.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("hsa-runtime-headers")
}

/// Downloads and unpacks the headers, and adds one that Debian lacks.
///
/// # Errors
/// The reason why no mirror has the archive, for each mirror.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
    if !folder.join("usr/include/hsa/hsa.h").is_file() {
        steps.step("HSA's headers", |step| {
            debian::ensure(layout, step, &[ARCHIVE], &folder, |archive, folder| {
                let mut dpkg = Command::new("dpkg-deb");
                dpkg.arg("--extract").arg(archive).arg(folder);
                dpkg
            })
        })?;
    }
    let sdk = folder.join("include/aqlprofile-sdk");
    fs::create_dir_all(&sdk).context(|| format!("making {}", sdk.display()))?;
    super::python::replace_link(&folder.join("usr/include/hsa"), &folder.join("include/hsa"))?;
    let stub = layout.root.join("xtask/core/src/setup/aql_profile_v2.h");
    super::python::replace_link(&stub, &sdk.join("aql_profile_v2.h"))
}
