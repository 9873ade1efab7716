// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The root folder with ROCm's programs: packages of Debian 13, unpacked below `build/` and not installed. apt fetches
//! them from the mirror of this machine's Debian and checks their signatures; ROCm's packages have a fixed version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::{Step, Steps};

/// Release of Debian.
const SUITE: &str = "trixie";
/// Keys that Debian's releases are signed with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Folders at the top of a system that are links into `usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// A set of packages, as apt's arguments. Their dependencies come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// HIP's runtime alone.
    Runtime,
    /// HIP's compiler, and programs that show the GPUs.
    Compiler,
    /// rocRAND and its tests.
    RocRand,
    /// RCCL and its tests.
    Rccl,
}

impl Set {
    fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Compiler => "compiler",
            Self::RocRand => "rocrand",
            Self::Rccl => "rccl",
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Runtime => &[],
            Self::Compiler => &["hipcc=5.7.1-6+deb13u1", "rocminfo=6.1.2-2", "libc6-dev", "grep", "sed"],
            Self::RocRand => &["librocrand1-tests=5.7.1-6"],
            Self::Rccl => &["librccl1-tests=5.4.3-3+b1"],
        }
    }
}

/// Packages of each set: HIP's runtime, and programs of its start scripts.
const ALWAYS: [&str; 3] = ["libamdhip64-5=5.7.1-6+deb13u1", "coreutils", "dash"];

/// The root folder, which [`ensure`] fills.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("rocm/root")
}

/// Downloads and unpacks a set, unless it is there.
///
/// # Errors
/// When no mirror that apt uses has the packages, or there is no room.
pub fn ensure(layout: &Layout, steps: &Steps, set: Set) -> Result<()> {
    let home = layout.build.join("rocm");
    let packages = [&ALWAYS, set.packages()].concat();
    let stamp = home.join(set.name());
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    steps.step(&format!("Debian's packages of ROCm ({})", set.name()), |step| {
        let apt = Apt::prepare(&home, step)?;
        let mut install = apt.command();
        install.args(["install", "--yes", "--no-install-recommends", "--download-only"]).args(&packages);
        step.run(install)?;
        unpack(step, &apt.archives(), &folder(layout))?;
        furnish(&folder(layout))?;
        fs::write(&stamp, &wanted).context(|| format!("writing {}", stamp.display()))
    })?;
    steps.say(&format!("{} holds ROCm's programs for the sim, {} MB", home.display(), megabytes(&home)));
    Ok(())
}

/// apt with separate lists and archives, independent of the machine's packages.
struct Apt {
    home: PathBuf,
}

impl Apt {
    /// Finds a mirror that has the release, and fetches its list of packages.
    fn prepare(home: &Path, step: &Step) -> Result<Self> {
        let apt = Self { home: home.to_owned() };
        let write = |name: &str, text: &str| {
            let path = home.join(name);
            fs::write(&path, text).context(|| format!("writing {}", path.display()))
        };
        for folder in ["lists/partial", "archives/partial"] {
            let path = home.join(folder);
            fs::create_dir_all(&path).context(|| format!("making {}", path.display()))?;
        }
        let shown = home.display();
        write(
            "apt.conf",
            &format!(
                "Dir::State::lists \"{shown}/lists\";\nDir::State::status \"{shown}/status\";\n\
                 Dir::Cache \"{shown}\";\nDir::Cache::archives \"{shown}/archives\";\n\
                 Dir::Etc::sourcelist \"{shown}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::Etc::preferencesparts \"/dev/null\";\nAPT::Architecture \"amd64\";\n\
                 APT::Sandbox::User \"\";\nAcquire::Languages \"none\";\n\
                 Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
            ),
        )?;
        write("status", "")?;
        let mut problems = String::new();
        for mirror in mirrors(step)? {
            write("sources.list", &format!("deb [signed-by={KEYRING}] {mirror} {SUITE} main\n"))?;
            let mut update = apt.command();
            update.args(["update", "--error-on=any"]);
            match step.run(update) {
                Ok(()) => return Ok(apt),
                Err(error) => problems.push_str(&format!("\n{mirror}: {error}")),
            }
        }
        Err(Error::setup(format!("no Debian mirror that apt uses gives Debian 13 ({SUITE}):{problems}")))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", self.home.join("apt.conf"));
        command
    }

    fn archives(&self) -> PathBuf {
        self.home.join("archives")
    }
}

/// Mirrors of Debian's main archive that apt uses.
fn mirrors(step: &Step) -> Result<Vec<String>> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(SUITE)", "Created-By: Packages"]);
    let output = String::from_utf8_lossy(&step.capture(targets)?).into_owned();
    let mut mirrors: Vec<_> = output.lines().filter_map(mirror).collect();
    mirrors.sort_unstable();
    mirrors.dedup();
    if mirrors.is_empty() {
        Err(Error::setup("apt knows no mirror of Debian; run apt-get update"))
    } else {
        Ok(mirrors)
    }
}

/// The mirror of an index, if it is of one of Debian's releases and not of updates to it.
fn mirror(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let &[uri, "Debian", suite] = &*words else { return None };
    let is_release = ["oldoldstable", "oldstable", "stable", "testing", "unstable"].contains(&suite);
    (uri.starts_with("http") && is_release).then(|| uri.to_owned())
}

/// Unpacks the archives that are not in the root yet.
fn unpack(step: &Step, archives: &Path, root: &Path) -> Result<()> {
    let entries = fs::read_dir(archives).context(|| format!("reading {}", archives.display()))?;
    let mut archives: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    archives.sort();
    fs::create_dir_all(root).context(|| format!("making {}", root.display()))?;
    for (done, archive) in archives.iter().enumerate() {
        let stamp = archive.with_extension("unpacked");
        if stamp.exists() {
            continue;
        }
        step.progress(done as u64, archives.len() as u64, &archive.display().to_string());
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(archive).arg(root);
        step.run(unpack)?;
        fs::write(&stamp, "").context(|| format!("writing {}", stamp.display()))?;
    }
    Ok(())
}

/// Adds the files that Debian's installer and the kernel would add.
fn furnish(root: &Path) -> Result<()> {
    let shown = || format!("furnishing {}", root.display());
    for name in MERGED {
        let link = root.join(name);
        if !link.exists() {
            symlink(format!("usr/{name}"), link).context(shown)?;
        }
    }
    for folder in ["dev", "sys/module/amdgpu", "var"] {
        fs::create_dir_all(root.join(folder)).context(shown)?;
    }
    // rocminfo looks for the driver of AMD's GPUs.
    fs::write(root.join("dev/kfd"), "").context(shown)?;
    fs::write(root.join("sys/module/amdgpu/initstate"), "live\n").context(shown)
}

/// Size of a folder on the disk.
fn megabytes(folder: &Path) -> u64 {
    let output = Command::new("du").args(["--summarize", "--block-size=MB"]).arg(folder).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split("MB").next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_of_updates_and_of_others_are_left_out() {
        assert_eq!(mirror("http://m/debian/ Debian oldstable").as_deref(), Some("http://m/debian/"));
        assert_eq!(mirror("http://m/debian/ Debian oldstable-updates"), None);
        assert_eq!(mirror("http://m/security/ Debian stable-security"), None);
        assert_eq!(mirror("file:/cd/ Debian stable"), None);
        assert_eq!(mirror("http://m/ Ubuntu stable"), None);
        assert_eq!(mirror("http://m/ "), None);
    }
}
