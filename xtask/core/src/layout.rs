// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Paths: the project's folder, the products of set-up under `build/`, and the IREE tree in use.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use build_support::plain_path;

use crate::error::{Error, Result};
use crate::flavor::Flavor;

/// Environment variable with an IREE checkout to use instead of the default tree.
pub const IREE_SOURCE_VARIABLE: &str = "IREE_SOURCE_DIR";
/// Environment variable by which this driver and the C driver find the HSA library.
pub const LIBHSA_VARIABLE: &str = "IREE_HAL_AMDGPU_LIBHSA_PATH";
/// LLVM's libraries as Debian's packages place them.
pub const LLVM_DIR: &str = "/usr/lib/llvm-22";

/// The versions of IREE's compiler that set-up can install, the default first (`xtask/requirements.txt`).
pub const COMPILERS: &[&str] = &["3.13.0", "3.12.0"];

/// The folders of one checkout of this project with one IREE tree, built one way.
#[derive(Clone)]
pub struct Layout {
    /// The project's folder.
    pub root: PathBuf,
    /// Folder of all products of set-up: `build/`.
    pub build: PathBuf,
    /// The user's checkout from `IREE_SOURCE_DIR`, if given.
    pub user_tree: Option<PathBuf>,
    /// Build of IREE.
    pub flavor: Flavor,
}

impl Layout {
    /// The layout for this project and the environment's `IREE_SOURCE_DIR`.
    ///
    /// # Errors
    /// When `IREE_SOURCE_DIR` names something that is not an IREE checkout.
    pub fn from_environment() -> Result<Self> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"));
        let root = plain_path(project).map_err(Error::setup)?;
        let user_tree = env::var_os(IREE_SOURCE_VARIABLE).map(|path| checked_tree(Path::new(&path))).transpose()?;
        Ok(Self { build: root.join("build"), root, user_tree, flavor: Flavor::Plain })
    }

    /// Layout of this checkout with another build of IREE.
    pub fn with(&self, flavor: Flavor) -> Self {
        Self { flavor, ..self.clone() }
    }

    /// IREE's sources.
    pub fn iree_tree(&self) -> PathBuf {
        match &self.user_tree {
            Some(tree) => tree.clone(),
            None => self.build.join("iree"),
        }
    }

    /// A name below `build/` that belongs to the IREE tree in use, so that two trees never share build products.
    pub fn of_tree(&self, name: &str) -> PathBuf {
        match &self.user_tree {
            Some(tree) => {
                let mut hasher = DefaultHasher::new();
                tree.hash(&mut hasher);
                self.build.join(format!("{name}-{:08x}", hasher.finish() as u32))
            }
            None => self.build.join(name),
        }
    }

    /// Version of IREE's compiler that fits the tree in use, whose tests need it: the version with the same minor
    /// version, or the default if set-up knows none.
    pub fn compiler(&self) -> &'static str {
        let of_tree = |tree: &PathBuf| {
            let text = fs::read_to_string(tree.join("runtime/version.json")).ok()?;
            let json: serde_json::Value = serde_json::from_str(&text).ok()?;
            let version = json["package-version"].as_str()?;
            COMPILERS.iter().copied().find(|known| minor(known) == minor(version))
        };
        self.user_tree.as_ref().and_then(of_tree).unwrap_or(COMPILERS[0])
    }

    /// Name below `build/` that belongs to the compiler's version.
    pub fn of_compiler(&self, name: &str) -> PathBuf {
        match self.compiler() {
            default if default == COMPILERS[0] => self.build.join(name),
            other => self.build.join(format!("{name}-{other}")),
        }
    }

    /// The CMake build folder of IREE with this driver.
    pub fn cmake(&self) -> PathBuf {
        self.of_tree(&format!("cmake{}", self.flavor.suffix()))
    }

    /// One of IREE's tools built with this driver.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.cmake().join("tools").join(name)
    }

    /// A program of the Python environment.
    pub fn venv_program(&self, name: &str) -> PathBuf {
        self.build.join("venv/bin").join(name)
    }

    /// The folder of IREE's host tools.
    pub fn host_tools(&self) -> PathBuf {
        self.of_compiler("hostbin")
    }

    /// One of IREE's host tools (compiler, embedder).
    pub fn host_tool(&self, name: &str) -> PathBuf {
        self.host_tools().join(name)
    }

    /// Path of the sim, under the name that HSA programs load.
    pub fn sim_library(&self) -> PathBuf {
        let folder = match self.flavor {
            Flavor::Plain | Flavor::BesideC | Flavor::Python | Flavor::Traced => "sim".to_owned(),
            Flavor::Sanitized(_) | Flavor::Portable => format!("sim{}", self.flavor.suffix()),
        };
        self.build.join(folder).join("libhsa-runtime64.so.1")
    }

    /// Path of the sim's counter library, beside the sim, under the name that programs load.
    pub fn counters_library(&self) -> PathBuf {
        self.sim_library().with_file_name("libhsa-amd-aqlprofile64.so.1")
    }

    /// Cargo's folder for build products of this flavor only.
    pub fn cargo_target(&self) -> PathBuf {
        self.root.join("target").join(self.flavor.suffix().trim_start_matches('-'))
    }

    /// Path of the sim's machine with the interface of `libhsakmt`, which AMD's HSA runtime loads.
    pub fn thunk_library(&self) -> PathBuf {
        self.build.join("rocr/libhsakmt.so.1")
    }

    /// Path of the library that simulates `/dev/kfd`, beside the sim.
    pub fn kfd_library(&self) -> PathBuf {
        self.sim_library().with_file_name("libkfd.so")
    }

    /// Creates a command with this IREE tree and the right libclang in its environment: for cargo, and for CMake, which
    /// calls cargo.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // Logs and messages stay free of control codes.
        command.current_dir(&self.root).env("CARGO_TERM_COLOR", "never");
        if env::var_os("LIBCLANG_PATH").is_none() {
            command.env("LIBCLANG_PATH", Path::new(LLVM_DIR).join("lib/libclang-22.so.1"));
        }
        if let Some(tree) = &self.user_tree {
            command.env(IREE_SOURCE_VARIABLE, tree);
        }
        command
    }

    /// The cargo that runs this command.
    pub fn cargo(&self) -> Command {
        self.command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }
}

/// `3.12` of `3.12.0.dev`.
fn minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.split('.');
    Some((parts.next()?, parts.next()?))
}

fn checked_tree(path: &Path) -> Result<PathBuf> {
    let tree = path
        .canonicalize()
        .map_err(|error| Error::setup(format!("{IREE_SOURCE_VARIABLE}={}: {error}", path.display())))?;
    if tree.join("runtime/src/iree/hal/api.h").is_file() {
        Ok(tree)
    } else {
        Err(Error::setup(format!(
            "{IREE_SOURCE_VARIABLE}={} is not an IREE checkout: it has no runtime/src/iree/hal/api.h",
            path.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flavor::Sanitizer;

    #[test]
    fn a_folder_that_is_not_iree_is_refused() {
        let error = checked_tree(&env::temp_dir()).unwrap_err().to_string();
        assert!(error.contains("is not an IREE checkout"), "{error}");
        let error = checked_tree(Path::new("/nonexistent/iree")).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_trees_tests_are_compiled_by_its_own_compiler() {
        let tree = env::temp_dir().join(format!("xtask-version-{}", std::process::id()));
        fs::create_dir_all(tree.join("runtime")).unwrap();
        let layout = Layout {
            root: "/p".into(),
            build: "/p/build".into(),
            user_tree: Some(tree.clone()),
            flavor: Flavor::Plain,
        };
        for (version, compiler) in [("3.12.0.dev", "3.12.0"), ("3.13.0rc1", "3.13.0"), ("3.99.0", "3.13.0")] {
            fs::write(tree.join("runtime/version.json"), format!("{{\"package-version\": \"{version}\"}}")).unwrap();
            assert_eq!(layout.compiler(), compiler, "{version}");
        }
        assert_eq!(layout.host_tools(), Path::new("/p/build/hostbin"));
        fs::remove_dir_all(tree).unwrap();
        assert_eq!(layout.compiler(), "3.13.0", "a tree that does not say");
    }

    #[test]
    fn trees_and_flavors_do_not_share_build_folders() {
        let layout = |tree: Option<&str>| Layout {
            root: "/p".into(),
            build: "/p/build".into(),
            user_tree: tree.map(Into::into),
            flavor: Flavor::Plain,
        };
        assert_eq!(layout(None).cmake(), Path::new("/p/build/cmake"));
        assert_ne!(layout(Some("/a")).cmake(), layout(Some("/b")).cmake());
        let beside_c = layout(None).with(Flavor::BesideC);
        assert_eq!(beside_c.cmake(), Path::new("/p/build/cmake-amdgpu"));
        assert_eq!(beside_c.sim_library(), layout(None).sim_library());
        let python = layout(None).with(Flavor::Python);
        assert_eq!(python.cmake(), Path::new("/p/build/cmake-python"));
        assert_eq!(python.sim_library(), layout(None).sim_library());
        let address = layout(None).with(Flavor::Sanitized(Sanitizer::Address));
        assert_eq!(address.cmake(), Path::new("/p/build/cmake-address"));
        assert_ne!(address.sim_library(), layout(None).sim_library());
    }
}
