// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Debian packages. Each is recognised by the files that it installs, so that a machine with the same files from
//! elsewhere needs no package manager.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::Steps;

struct Package {
    name: &'static str,
    purpose: &'static str,
    is_present: fn() -> bool,
}

/// Further package for [`Sanitized`](crate::flavor::Flavor::Sanitized) builds.
const SANITIZER_PACKAGE: Package = Package {
    name: "libclang-rt-22-dev",
    purpose: "the sanitizers' run-time libraries",
    is_present: || Path::new("/usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.asan-x86_64.a").exists(),
};

/// Bazel in Debian's release. Other releases in PATH do not fit.
pub const BAZEL: &str = "bazel-4";

/// Further packages for builds with Bazel.
const BAZEL_PACKAGES: &[Package] = &[
    Package {
        name: "bazel-bootstrap",
        purpose: "Bazel 4.2.3, which builds the driver's Bazel targets",
        is_present: || in_path(BAZEL),
    },
    Package {
        name: "bazel-skylib",
        purpose: "functions that Bazel rules of IREE load",
        is_present: || Path::new("/usr/share/bazel/tools/skylib").exists(),
    },
];

/// Further package for IREE's Python bindings.
const PYTHON_HEADERS: &[Package] = &[Package {
    name: "python3-dev",
    purpose: "Python's headers, which IREE's Python bindings are compiled with",
    is_present: || {
        let script = "import os, sysconfig; assert os.path.exists(sysconfig.get_path('include') + '/Python.h')";
        succeeds(Command::new("python3").args(["-c", script]))
    },
}];

/// An old compiler, whose encodings of some instructions are not those of later ones.
const OLD_CLANG: &[Package] = &[Package {
    name: "clang-14",
    purpose: "compiles random kernels as Debian 12 compiles them",
    is_present: || in_path("clang-14"),
}];

const PACKAGES: &[Package] = &[
    Package {
        name: "clang-22",
        purpose: "compiles IREE, the device kernels, and reads IREE's headers",
        is_present: || {
            in_path("clang-22") && in_path("clang++-22") && Path::new("/usr/lib/llvm-22/lib/libclang-22.so.1").exists()
        },
    },
    Package {
        name: "lld-22",
        purpose: "links IREE's tools and the device kernels",
        is_present: || in_path("ld.lld-22"),
    },
    Package {
        name: "llvm-22",
        purpose: "assembler and disassembler that the sim's instructions are checked against",
        is_present: || in_path("llvm-mc-22") && in_path("llvm-objdump-22"),
    },
    Package { name: "g++", purpose: "compiles IREE's runtime for what cargo links", is_present: || in_path("c++") },
    Package { name: "ninja-build", purpose: "runs IREE's build", is_present: || in_path("ninja") },
    Package {
        name: "googletest",
        purpose: "sources of the test framework that IREE's conformance tests use",
        is_present: || Path::new("/usr/src/googletest/CMakeLists.txt").exists(),
    },
    Package {
        name: "libhsa-runtime-dev",
        purpose: "HSA's headers, which a C program among the sim's tests is written against",
        is_present: || Path::new("/usr/include/hsa/hsa_ext_amd.h").exists(),
    },
    Package {
        name: "python3",
        purpose: "runs the Python environment with IREE's compiler",
        is_present: || in_path("python3"),
    },
    Package {
        name: "python3-venv",
        purpose: "makes the Python environment",
        is_present: || succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])),
    },
];

/// Installs the missing packages for the layout's flavor, after saying so.
///
/// # Errors
/// When apt-get is missing, may not be used, or fails.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let sanitizer = layout.flavor.sanitizer().map(|_| &SANITIZER_PACKAGE);
    install(steps, PACKAGES.iter().chain(sanitizer))
}

/// Installs the missing packages for Bazel builds, after saying so.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_bazel(steps: &Steps) -> Result<()> {
    install(steps, BAZEL_PACKAGES.iter())
}

/// Installs the missing packages for IREE's Python bindings, after saying so.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_python_headers(steps: &Steps) -> Result<()> {
    install(steps, PYTHON_HEADERS.iter())
}

/// Installs the old compiler if it is missing, after saying so.
///
/// # Errors
/// As [`ensure`], and on a distribution without the package.
pub fn ensure_old_clang(steps: &Steps) -> Result<()> {
    install(steps, OLD_CLANG.iter())
}

/// Packages of commands that not everyone runs, by the command.
const GROUPS: [(&str, &[Package]); 5] = [
    ("every command", PACKAGES),
    ("builds with --sanitizer", &[SANITIZER_PACKAGE]),
    ("cargo xtask bazel, test --all", BAZEL_PACKAGES),
    ("cargo xtask python", PYTHON_HEADERS),
    ("cargo xtask kernels --compiler clang-14, test --all", OLD_CLANG),
];

/// Names the packages that are missing on this machine, in a text for the user, and tells if the first group is whole.
/// Installs nothing.
pub fn missing() -> (String, bool) {
    report(&GROUPS)
}

fn report(groups: &[(&str, &[Package])]) -> (String, bool) {
    let (mut text, mut is_ready) = (String::new(), true);
    for (index, (users, packages)) in groups.iter().enumerate() {
        let missing: Vec<_> = packages.iter().filter(|package| !(package.is_present)()).collect();
        if missing.is_empty() {
            continue;
        }
        is_ready &= index > 0;
        let names: Vec<_> = missing.iter().map(|package| package.name).collect();
        let names = names.join(" ");
        text += &format!(
            "missing for {users}:\n{}\n  as root: apt-get install --no-install-recommends {names}\n",
            list(&missing)
        );
    }
    if text.is_empty() {
        text = "no Debian package is missing\n".to_owned();
    }
    (text, is_ready)
}

fn install(steps: &Steps, packages: impl Iterator<Item = &'static Package>) -> Result<()> {
    let missing: Vec<_> = packages.filter(|package| !(package.is_present)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|package| package.name).collect();
    let names = names.join(" ");
    if !in_path("apt-get") {
        return Err(Error::setup(format!(
            "missing on this machine, which has no apt-get to install it with:\n{}\n\
             Install the counterparts of these Debian packages (LLVM 22 under /usr/lib/llvm-22, \
             googletest's sources under /usr/src/googletest, HSA's headers in /usr/include/hsa).",
            list(&missing)
        )));
    }
    steps.say(&format!("These Debian packages will now be installed:\n{}", list(&missing)));
    let sudo = sudo_prefix(&names)?;
    steps.step("Debian packages", |step| {
        let apt = |arguments: &[&str]| {
            let mut words = sudo.to_vec();
            words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            words.extend(arguments);
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            step.run(command)
        };
        apt(&["update"])?;
        let mut arguments = vec!["install", "-y", "--no-install-recommends"];
        arguments.extend(missing.iter().map(|package| package.name));
        apt(&arguments)
    })?;
    match missing.iter().find(|package| !(package.is_present)()) {
        None => Ok(()),
        Some(package) => Err(Error::setup(format!(
            "the package {} was installed, and what it should bring is still not found; \
             is another installation earlier in PATH?",
            package.name
        ))),
    }
}

/// Command prefix that gives apt-get its rights: none for root, else `sudo`, which may ask for a password here.
fn sudo_prefix(names: &str) -> Result<&'static [&'static str]> {
    let id = Command::new("id").arg("-u").output().context(|| "running `id -u`".to_owned())?;
    if id.stdout.trim_ascii() == b"0" {
        return Ok(&[]);
    }
    let manual = format!("Have an administrator run: apt-get install {names}");
    if !in_path("sudo") {
        return Err(Error::setup(format!("installing packages needs root, and there is no sudo. {manual}")));
    }
    let granted = Command::new("sudo").arg("-v").status().context(|| "running sudo".to_owned())?;
    if granted.success() {
        Ok(&["sudo"])
    } else {
        Err(Error::setup(format!("sudo refused the right to install packages. {manual}")))
    }
}

fn list(packages: &[&Package]) -> String {
    let lines = packages.iter().map(|package| format!("  {:18} {}", package.name, package.purpose));
    lines.collect::<Vec<_>>().join("\n")
}

fn in_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn package(name: &'static str, is_present: fn() -> bool) -> Package {
        Package { name, purpose: "builds things", is_present }
    }

    #[test]
    fn the_container_recipe_has_all_packages() {
        let recipe = include_str!("../../../../Containerfile");
        for package in GROUPS.iter().flat_map(|(_, packages)| *packages) {
            assert!(recipe.split_whitespace().any(|word| word == package.name), "{}", package.name);
        }
    }

    #[test]
    fn missing_packages_are_named_with_their_users_and_their_purpose() {
        const MISSING: &[Package] = &[package("a", || false), package("b", || true), package("c", || false)];
        const PRESENT: &[Package] = &[package("d", || true)];
        let (text, is_ready) = report(&[("every command", PRESENT), ("cargo xtask bazel", MISSING)]);
        assert!(is_ready);
        assert!(text.starts_with("missing for cargo xtask bazel:\n  a "), "{text}");
        assert!(text.contains("builds things"), "{text}");
        assert!(text.ends_with("apt-get install --no-install-recommends a c\n"), "{text}");
        assert!(!report(&[("every command", MISSING)]).1);
        assert_eq!(report(&[("every command", PRESENT)]), ("no Debian package is missing\n".to_owned(), true));
    }
}
