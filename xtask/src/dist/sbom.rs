// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The SBOM of a release, in CycloneDX's JSON format: the crates in its libraries, with the checksums that `Cargo.lock`
//! has for them, and the C and C++ sources in its tools.
//!
//! `cargo-cyclonedx` would write the first part. Its build takes minutes, and it writes beside each manifest of the
//! workspace.

use serde_json::{Value, json};

use xtask_core::error::{Error, Result};

/// Version of the format.
const SPECIFICATION: &str = "1.5";

/// A component: its name, its version if it is known, and its licence as an SPDX expression.
pub type Component = (String, Option<String>, String);

/// Returns the text of the SBOM. `lock` is the text of `Cargo.lock`; each of `crates` is in it.
///
/// # Errors
/// When `lock` cannot be read, or has no checksum for a crate.
pub fn text(crates: &[Component], parts: &[Component], lock: &str) -> Result<String> {
    let lock: toml::Table =
        toml::from_str(lock).map_err(|error| Error::setup(format!("reading Cargo.lock: {error}")))?;
    let locked = lock.get("package").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut components = Vec::new();
    for (name, version, license) in crates {
        let version = version.as_deref().unwrap_or_default();
        let text = |package: &toml::Value, key| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let is_it = |package: &&toml::Value| {
            text(package, "name").as_ref() == Some(name) && text(package, "version").as_deref() == Some(version)
        };
        let checksum = locked.iter().find(is_it).and_then(|package| text(package, "checksum"));
        let checksum =
            checksum.ok_or_else(|| Error::setup(format!("Cargo.lock has no checksum of {name} {version}")))?;
        let mut component = component(name, Some(version), license);
        let purl = format!("pkg:cargo/{name}@{version}");
        component["bom-ref"] = purl.clone().into();
        component["purl"] = purl.into();
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        components.push(component);
    }
    components.extend(parts.iter().map(|(name, version, license)| component(name, version.as_deref(), license)));
    let mut subject = component("amdgpu_rs", Some(env!("CARGO_PKG_VERSION")), "Apache-2.0 WITH LLVM-exception");
    subject["type"] = "application".into();
    let sbom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": { "component": subject },
        "components": components,
    });
    serde_json::to_string_pretty(&sbom).map_err(|error| Error::setup(format!("writing the SBOM: {error}")))
}

fn component(name: &str, version: Option<&str>, license: &str) -> Value {
    // Some crates write `MIT/Apache-2.0`, which is no SPDX expression.
    let license = license.replace('/', " OR ");
    let mut component = json!({ "type": "library", "name": name, "licenses": [{ "expression": license }] });
    if let Some(version) = version {
        component["version"] = version.into();
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\nchecksum = \"aa\"\n\
                        [[package]]\nname = \"libc\"\nversion = \"0.2.2\"\nchecksum = \"bb\"\n";

    fn of(name: &str, version: Option<&str>, license: &str) -> Component {
        (name.to_owned(), version.map(str::to_owned), license.to_owned())
    }

    #[test]
    fn an_sbom_names_crates_with_their_checksums_and_other_parts() {
        let crates = [of("libc", Some("0.2.2"), "MIT/Apache-2.0")];
        let sbom = text(&crates, &[of("flatcc", None, "Apache-2.0")], LOCK).unwrap();
        let sbom: Value = serde_json::from_str(&sbom).unwrap();
        let [libc, flatcc] = &sbom["components"].as_array().unwrap()[..] else { panic!("{sbom}") };
        assert_eq!(libc["hashes"][0]["content"], "bb");
        assert_eq!(libc["purl"], "pkg:cargo/libc@0.2.2");
        assert_eq!(libc["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!((&flatcc["name"], flatcc.get("version")), (&Value::from("flatcc"), None));
    }

    #[test]
    fn a_crate_without_a_checksum_is_an_error() {
        let error = text(&[of("libc", Some("0.3.0"), "MIT")], &[], LOCK).unwrap_err().to_string();
        assert!(error.contains("libc 0.3.0"), "{error}");
    }

    #[test]
    fn the_projects_lock_file_has_checksums() {
        let lock = include_str!("../../../Cargo.lock");
        let version =
            lock.split("name = \"libc\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let sbom = text(&[of("libc", Some(version), "MIT")], &[], lock).unwrap();
        assert!(sbom.contains("SHA-256"), "{sbom}");
    }
}
