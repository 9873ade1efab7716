// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The C and C++ libraries of Debian 11, which a release is linked against. Programs that are linked against an old
//! glibc run with it and all later ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Archive};
use super::python::replace_link;
use crate::error::{Context, Result};
use crate::flavor::TRIPLE;
use crate::layout::Layout;
use crate::steps::Steps;

/// Version of Debian 11's glibc. A release uses no newer symbols.
pub const GLIBC: (u32, u32) = (2, 31);

const ARCHIVES: [Archive; 6] = [
    Archive {
        path: "pool/main/g/glibc/libc6_2.31-13+deb11u11_amd64.deb",
        sha256: "05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282",
    },
    Archive {
        path: "pool/main/g/glibc/libc6-dev_2.31-13+deb11u11_amd64.deb",
        sha256: "e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3",
    },
    Archive {
        path: "pool/main/l/linux/linux-libc-dev_5.10.223-1_amd64.deb",
        sha256: "e3be603bd12377bb90fcfb0f2048ca3a81c886e49d6f09945b82159d1c54f7b2",
    },
    Archive {
        path: "pool/main/g/gcc-10/libgcc-s1_10.2.1-6_amd64.deb",
        sha256: "e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf",
    },
    Archive {
        path: "pool/main/g/gcc-10/libgcc-10-dev_10.2.1-6_amd64.deb",
        sha256: "3b711374092b84e732c4e73cf33e02cff02e34a5f105eb6467de8d9038e4cd9d",
    },
    Archive {
        path: "pool/main/g/gcc-10/libstdc++-10-dev_10.2.1-6_amd64.deb",
        sha256: "20b1f56863dcc5f187d6cb53b2aa6149bd013be4ec67e10c2c31a22fda619a01",
    },
];

/// Folder of the libraries.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("sysroot")
}

/// Downloads and unpacks the libraries.
///
/// # Errors
/// The reason why no mirror has an archive, for each mirror.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
    if !folder.is_dir() {
        steps.step("The C library of Debian 11", |step| {
            debian::ensure(layout, step, &ARCHIVES, &folder, |archive, folder| {
                let mut dpkg = Command::new("dpkg-deb");
                dpkg.arg("--extract").arg(archive).arg(folder);
                dpkg
            })
        })?;
    }
    keep_links_inside(&folder.join("lib64"), "..")?;
    keep_links_inside(&folder.join("usr/lib/x86_64-linux-gnu"), "../../..")
}

/// Makes `cargo` link its products for [`TRIPLE`] against the libraries.
pub fn link_against(layout: &Layout, cargo: &mut Command) {
    portable_flags(layout, cargo);
    cargo.args(["--target", TRIPLE]);
}

/// Has a program that calls cargo link against it.
pub fn portable_flags(layout: &Layout, caller: &mut Command) {
    let sysroot = format!("-Clink-arg=--sysroot={}", folder(layout).display());
    let flags = ["-Clinker=clang-22", "-Clink-arg=-fuse-ld=lld", &sysroot];
    caller.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
}

/// Redirects absolute links in the folder `links` to files below `root`, because they would lead to this machine's own
/// files.
fn keep_links_inside(links: &Path, root: &str) -> Result<()> {
    for entry in fs::read_dir(links).context(|| format!("reading {}", links.display()))? {
        let link = entry.context(|| format!("reading {}", links.display()))?.path();
        let Ok(target) = fs::read_link(&link) else { continue };
        if let Ok(below) = target.strip_prefix("/") {
            replace_link(&Path::new(root).join(below), &link)?;
        }
    }
    Ok(())
}
