// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The profile that `HSA_SIM_PROFILE` requests.

use std::path::PathBuf;

/// Format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Columns.
    Text,
    /// One object a line.
    Json,
    /// A page.
    Html,
}

/// Requested file and format of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    /// File.
    pub path: PathBuf,
    /// Format of the file.
    pub form: Form,
}

impl ProfileConfig {
    /// Derives the format from the file's name. The error lists the accepted names.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt") => Form::Text,
            Some("json") => Form::Json,
            Some("html") => Form::Html,
            _ => return Err("expected a file that ends in .txt, .json or .html".into()),
        };
        Ok(Self { path, form })
    }
}
