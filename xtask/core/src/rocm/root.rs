// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The root folders with ROCm's programs, one for each release of HIP: packages of Debian, unpacked below `build/` and
//! not installed. apt fetches them from the mirror of this machine's Debian and checks their signatures; ROCm's
//! packages have a fixed version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::setup::lock;
use crate::steps::{Step, Steps};

use super::suites::Suite;

/// Keys that Debian's releases are signed with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Folders at the top of a system that are links into `usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];
/// Folder of libraries in the root.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Libraries with several implementations. Debian's installer adds the link from [`LIBRARIES`] to the one in a folder.
const ALTERNATIVES: [(&str, &str); 2] = [("blas", "libblas.so.3"), ("lapack", "liblapack.so.3")];

/// A release of HIP, with the Debian that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Hip {
    /// HIP 5.7 of Debian 13
    #[value(name = "5.7")]
    V5_7,
    /// HIP 6.4 of Debian unstable
    #[value(name = "6.4")]
    V6_4,
}

impl Hip {
    /// The option's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::V5_7 => "5.7",
            Self::V6_4 => "6.4",
        }
    }

    /// Folder of the root and of apt's files for it.
    fn home(self, layout: &Layout) -> PathBuf {
        layout.build.join(match self {
            Self::V5_7 => "rocm",
            Self::V6_4 => "rocm-6.4",
        })
    }

    /// Release of Debian, as its mirrors name it.
    fn suite(self) -> &'static str {
        match self {
            Self::V5_7 => "trixie",
            Self::V6_4 => "sid",
        }
    }

    /// More options of apt for the release. The lists of unstable are valid for a week, and mirrors may be older. Old
    /// lists do no harm, since the versions are fixed and the signature is still checked.
    fn options(self) -> &'static str {
        match self {
            Self::V5_7 => "",
            Self::V6_4 => " check-valid-until=no",
        }
    }

    /// Packages of each set: HIP's runtime, and programs of its start scripts.
    fn always(self) -> &'static [&'static str] {
        match self {
            Self::V5_7 => &["libamdhip64-5=5.7.1-6+deb13u1", "coreutils", "dash"],
            Self::V6_4 => &["libamdhip64-6=6.4.3-5", "libamd-comgr3=7.0.2+dfsg-3", "coreutils", "dash"],
        }
    }

    /// Packages of a set; none if this Debian lacks them for this release of HIP.
    fn packages(self, set: Set) -> &'static [&'static str] {
        match (self, set) {
            (_, Set::Runtime) => self.always(),
            (Self::V5_7, Set::Compiler) => &["hipcc=5.7.1-6+deb13u1", "rocminfo=6.1.2-2", "libc6-dev", "grep", "sed"],
            (Self::V6_4, Set::Compiler) => &[
                "hipcc=7.0.2+dfsg-3",
                "libamdhip64-dev=6.4.3-5",
                "rocm-device-libs-21=7.0.2+dfsg-3",
                "rocminfo=7.2.4-1",
                "libc6-dev",
                "grep",
                "sed",
            ],
            (Self::V5_7, Set::Tests(suite)) => match suite {
                Suite::Hipcub => &["libhipcub-tests=5.7.1-3"],
                Suite::Hipfft => &["libhipfft0-tests=6.1.2-3"],
                Suite::Hiprand => &["libhiprand1-tests=5.7.1-6"],
                Suite::Hipsparse => &["libhipsparse0-tests=5.7.1-1"],
                Suite::Rccl => &["librccl1-tests=5.4.3-3+b1"],
                Suite::Rocblas => &["librocblas0-tests=5.5.1+dfsg-7"],
                Suite::Rocfft => &["librocfft0-tests=6.1.2-1"],
                Suite::Rocprim => &["librocprim-tests=5.7.1-2"],
                Suite::Rocrand => &["librocrand1-tests=5.7.1-6"],
                Suite::Rocsparse => &["librocsparse0-tests=5.7.1-6"],
                Suite::Rocthrust => &["librocthrust-tests=5.7.1-3"],
            },
            (Self::V6_4, Set::Tests(suite)) => match suite {
                Suite::Hipcub => &["libhipcub-tests=6.4.3-2"],
                Suite::Hipfft => &["libhipfft0-tests=6.4.3-2"],
                Suite::Hiprand => &["libhiprand1-tests=6.4.3-1"],
                Suite::Hipsparse => &["libhipsparse1-tests=6.4.3-1"],
                Suite::Rccl => &[],
                Suite::Rocblas => &["librocblas4-tests=6.4.4-4"],
                Suite::Rocfft => &["librocfft0-tests=6.4.3-1+b1"],
                Suite::Rocprim => &["librocprim-tests=6.4.3-2"],
                Suite::Rocrand => &["librocrand1-tests=6.4.3-1"],
                Suite::Rocsparse => &["librocsparse1-tests=6.4.3-3"],
                Suite::Rocthrust => &["librocthrust-tests=6.4.4-1"],
            },
        }
    }
}

/// A set of packages. Their dependencies come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// HIP's runtime alone.
    Runtime,
    /// HIP's compiler, and programs that show the GPUs.
    Compiler,
    /// A library and its tests.
    Tests(Suite),
}

impl Set {
    fn name(self) -> String {
        match self {
            Self::Runtime => "runtime".to_owned(),
            Self::Compiler => "compiler".to_owned(),
            Self::Tests(suite) => suite.to_string().to_lowercase(),
        }
    }
}

/// The root folder of a release, which [`ensure`] fills.
pub fn folder(layout: &Layout, hip: Hip) -> PathBuf {
    hip.home(layout).join("root")
}

/// Folder of a suite's programs in the root. Debian names it after the package.
pub fn tests(hip: Hip, suite: Suite) -> Option<PathBuf> {
    let (package, _) = hip.packages(Set::Tests(suite)).first()?.split_once('=')?;
    Some(Path::new("usr/libexec/rocm").join(package))
}

/// Downloads and unpacks a set, unless it is there.
///
/// # Errors
/// When Debian has no such packages for this HIP, no mirror that apt uses has their versions, or there is no room.
pub fn ensure(layout: &Layout, steps: &Steps, hip: Hip, set: Set) -> Result<()> {
    let home = hip.home(layout);
    if hip.packages(set).is_empty() {
        return Err(Error::setup(format!(
            "no packages of {} for HIP {} are known; give another --hip",
            set.name(),
            hip.name()
        )));
    }
    let _lock = lock::take(layout, steps)?;
    let packages = [hip.always(), hip.packages(set)].concat();
    let stamp = home.join(set.name());
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return furnish(&folder(layout, hip));
    }
    steps.step(&format!("Debian's packages of ROCm ({})", set.name()), |step| {
        let apt = Apt::prepare(&home, hip, step)?;
        let mut install = apt.command();
        install.args(["install", "--yes", "--no-install-recommends", "--download-only"]).args(&packages);
        if let Err(error) = step.run(install) {
            return Err(Error::setup(format!("{error}{}", gone(hip))));
        }
        unpack(step, &apt.archives(), &folder(layout, hip))?;
        furnish(&folder(layout, hip))?;
        fs::write(&stamp, &wanted).context(|| format!("writing {}", stamp.display()))
    })?;
    steps.say(&format!("{} holds ROCm's programs for the sim, {} MB", home.display(), megabytes(&home)));
    Ok(())
}

/// More about a failed download.
fn gone(hip: Hip) -> &'static str {
    match hip {
        Hip::V5_7 => "",
        Hip::V6_4 => {
            "\nIf apt does not find a version: Debian unstable keeps the newest only. snapshot.debian.org has all; name \
             newer versions in xtask/core/src/rocm/root.rs, or use --hip 5.7."
        }
    }
}

/// apt with separate lists and archives, independent of the machine's packages.
struct Apt {
    home: PathBuf,
}

impl Apt {
    /// Finds a mirror that has the release, and fetches its list of packages.
    fn prepare(home: &Path, hip: Hip, step: &Step) -> Result<Self> {
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
        let (suite, options) = (hip.suite(), hip.options());
        let mut problems = String::new();
        for mirror in mirrors(step)? {
            write("sources.list", &format!("deb [signed-by={KEYRING}{options}] {mirror} {suite} main\n"))?;
            let mut update = apt.command();
            update.args(["update", "--error-on=any"]);
            match step.run(update) {
                Ok(()) => return Ok(apt),
                Err(error) => problems.push_str(&format!("\n{mirror}: {error}")),
            }
        }
        Err(Error::setup(format!("no Debian mirror that apt uses gives {suite}:{problems}")))
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
        if fs::symlink_metadata(&link).is_err() {
            symlink(format!("usr/{name}"), link).context(shown)?;
        }
    }
    for (folder, name) in ALTERNATIVES {
        let (target, link) = (Path::new(folder).join(name), root.join(LIBRARIES).join(name));
        if root.join(LIBRARIES).join(&target).exists() && !link.is_symlink() {
            symlink(target, link).context(shown)?;
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
    fn a_root_gets_the_links_of_debians_installer_once() {
        let root = std::env::temp_dir().join(format!("xtask-root-{}", std::process::id()));
        let blas = root.join(LIBRARIES).join("blas");
        fs::create_dir_all(&blas).unwrap();
        fs::write(blas.join("libblas.so.3"), "blas").unwrap();
        for _ in 0..2 {
            furnish(&root).unwrap();
            assert_eq!(fs::read_to_string(root.join("lib/x86_64-linux-gnu/libblas.so.3")).unwrap(), "blas");
            assert!(!root.join(LIBRARIES).join("liblapack.so.3").exists());
            assert_eq!(fs::read_to_string(root.join("sys/module/amdgpu/initstate")).unwrap(), "live\n");
        }
        fs::remove_dir_all(root).unwrap();
    }

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
