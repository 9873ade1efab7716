// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The tests as `import_tests.py` leaves them below `build/onnx`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::judge::hash;
use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::npy::Raw;
use crate::steps::Steps;

const SCRIPT: &str = include_str!("import_tests.py");
const REQUIREMENTS: &str = include_str!("../../requirements-onnx.txt");

/// One test.
pub struct Test {
    /// ONNX's name of it.
    pub name: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// How it can be run, in the order to try.
    pub ways: Vec<Way>,
    /// What is expected.
    pub outputs: Vec<Tensor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    ways: Vec<Way>,
    outputs: Vec<Tensor>,
}

/// A model for the compiler, or why there is none.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Way {
    /// What the importer made.
    Imported {
        /// The file.
        mlir: PathBuf,
        /// The function to call.
        function: String,
        /// Its arguments.
        inputs: Vec<Tensor>,
    },
    /// It made nothing.
    Refused {
        /// The first line of its error.
        refused: String,
    },
}

/// An argument or an expected result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// An `.npy` file, or one of bare elements if `kind` is given.
    pub file: PathBuf,
    /// IREE's name of an element type that NumPy lacks, e.g. `bf16`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The dimensions.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// The tensor of a file in `folder`. A file without a header has this shape.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, folder: &Path) -> Result<Raw> {
        let path = folder.join(&self.file);
        match &self.kind {
            None => Raw::read(&path),
            Some(kind) => {
                let bytes = fs::read(&path).context(|| format!("reading {}", path.display()))?;
                Ok(Raw { shape: self.shape.clone(), kind: kind.clone(), bytes })
            }
        }
    }
}

/// Imports the tests that match one of `globs`, if that was not done before.
///
/// # Errors
/// When the importer cannot be run, or nothing matches.
pub fn import(layout: &Layout, steps: &Steps, globs: &[&str]) -> Result<Vec<Test>> {
    // Tests that another script made may have other files.
    let folder = layout.of_compiler("onnx").join(format!("tests-{:08x}", hash(&[SCRIPT, REQUIREMENTS]) as u32));
    steps.step("Importing ONNX's tests", |step| {
        let mut python = Command::new(layout.venv_program("python3"));
        python.arg(layout.root.join("xtask/src/onnx/import_tests.py")).arg(&folder).args(globs);
        step.run(python)
    })?;
    let names: Vec<String> = read_json(&folder.join("selected.json"))?;
    if names.is_empty() {
        return Err(Error::setup(format!("none of ONNX's tests matches {}", globs.join(" "))));
    }
    let read = |name: String| {
        let folder = folder.join(&name);
        let File { ways, outputs } = read_json(&folder.join("test.json"))?;
        Ok(Test { name, folder, ways, outputs })
    };
    names.into_iter().map(read).collect()
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))
}
