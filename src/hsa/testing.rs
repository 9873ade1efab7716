// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! HSA runtimes for tests: this project's software runtime, or small ones that are compiled for a test and misbehave as
//! wanted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::symbols::REQUIRED_SYMBOLS;
use super::{Agent, Library};

/// Environment variable that names the library to test on, in place of the software runtime.
pub const LIBRARY_VARIABLE: &str = "AMDGPU_RS_TEST_HSA";

/// The library to test on.
pub fn library_path() -> PathBuf {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        return PathBuf::from(path);
    }
    // Tests are in `<target>/<profile>/deps`, the library in `<target>/<profile>`.
    let program = std::env::current_exe().expect("a test has a file");
    program.ancestors().nth(2).expect("a test is two directories deep").join("libhsa_runtime64.so")
}

/// The library under test, loaded. Fails the test if it is missing.
pub fn library() -> Arc<Library> {
    Library::load(&[library_path()]).unwrap_or_else(|error| {
        panic!(
            "{error}\nTests run on the software runtime; build it with `cargo build -p hsa-sim`, or set \
             {LIBRARY_VARIABLE}."
        )
    })
}

/// The first GPU of the library under test.
pub fn gpu(library: &Arc<Library>) -> Agent {
    let agents = library.agents().expect("agents are listed");
    agents.into_iter().find(Agent::is_gpu).expect("there is a GPU")
}

/// A directory for one test, removed afterwards.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Makes the directory; `test` must be unique among tests.
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("amdgpu_rs-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    /// The path of `name` in the directory.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a library at `path` that has every required function except `without`: those that the C text `code`
/// defines, and for the rest ones that fail.
pub fn compile(path: &Path, without: &[&str], code: &str) {
    let mut source = code.to_owned();
    for name in REQUIRED_SYMBOLS.iter().filter(|name| !without.contains(name)) {
        if !code.contains(&format!(" {name}(")) {
            source.push_str(&format!("unsigned {name}(void) {{ return 0x1000; }}\n"));
        }
    }
    let source_path = path.with_extension("c");
    std::fs::write(&source_path, source).expect("the source is written");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([path, &source_path])
        .output()
        .unwrap_or_else(|error| panic!("this test needs a C compiler, and {compiler} cannot be run: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
