// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The tests that the scripts beside this file write below `build/onnx`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::runner::{Call, hash};
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::npy::Raw;
use xtask_core::steps::Steps;

const SCRIPTS: [&str; 2] = [include_str!("import_tests.py"), include_str!("common.py")];
const REQUIREMENTS: &str = include_str!("../../requirements-onnx.txt");

/// One test of ONNX.
pub struct Test {
    /// ONNX's name of the test.
    pub name: String,
    /// Folder of its files.
    pub folder: PathBuf,
    /// Ways to run it, in the order to try.
    pub ways: Vec<Way>,
    /// Expected results.
    pub outputs: Vec<Tensor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    ways: Vec<Way>,
    outputs: Vec<Tensor>,
}

/// A model for the compiler, or the importer's error.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Way {
    /// Output of the importer.
    Imported {
        /// File of the model.
        mlir: PathBuf,
        /// The function to call.
        function: String,
        /// Arguments of the function.
        inputs: Vec<Tensor>,
    },
    /// The importer failed.
    Refused {
        /// First line of the importer's error.
        refused: String,
    },
}

/// An argument or an expected result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// An `.npy` file, or a file of bare elements if `kind` is given.
    pub file: PathBuf,
    /// IREE's name of an element type that NumPy lacks, e.g. `bf16`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The dimensions.
    pub shape: Vec<usize>,
}

impl Test {
    /// Reads the test that a script wrote to `folder`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let File { ways, outputs } = read_json(&folder.join("test.json"))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, folder: folder.to_path_buf(), ways, outputs })
    }

    /// Returns the first way to run the test.
    ///
    /// # Errors
    /// When the importer refused the model.
    pub fn call(&self) -> Result<Call<'_>> {
        match self.ways.first() {
            Some(Way::Imported { mlir, function, inputs }) => {
                Ok(Call { folder: &self.folder, mlir, function, inputs, outputs: &self.outputs })
            }
            Some(Way::Refused { refused }) => Err(Error::Failed(refused.clone())),
            None => Err(Error::setup(format!("{}: no way to run it", self.folder.display()))),
        }
    }
}

impl Tensor {
    /// Reads the tensor's file in `folder`. A file without a header has the tensor's own shape.
    ///
    /// # Errors
    /// When the file cannot be read.
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

/// Imports the tests that match one of `globs`, unless that is done already.
///
/// # Errors
/// When the importer cannot be run, or nothing matches.
pub fn import(layout: &Layout, steps: &Steps, globs: &[&str]) -> Result<Vec<Test>> {
    // Tests that another script made may have other files.
    let folder = layout.of_compiler("onnx").join(format!("tests-{:08x}", hash(&(SCRIPTS, REQUIREMENTS)) as u32));
    steps.step("Importing ONNX's tests", |step| {
        let mut python = Command::new(layout.venv_program("python3"));
        python.arg(layout.root.join("xtask/src/onnx/import_tests.py")).arg(&folder).args(globs);
        step.run(python)
    })?;
    let names: Vec<String> = read_json(&folder.join("selected.json"))?;
    if names.is_empty() {
        return Err(Error::setup(format!("none of ONNX's tests matches {}", globs.join(" "))));
    }
    names.iter().map(|name| Test::read(&folder.join(name))).collect()
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))
}
