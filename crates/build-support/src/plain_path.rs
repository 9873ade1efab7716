// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Paths that IREE's build accepts.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A path to `folder` that IREE's CMake files and the first lines of Python's scripts accept: `folder` itself, or a
/// link to it if its path has a blank or another character that they do not quote.
///
/// # Errors
/// The error of making the link.
pub fn plain_path(folder: &Path) -> Result<PathBuf, String> {
    let is_plain = |path: &Path| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
        path.as_os_str().as_encoded_bytes().iter().all(plain)
    };
    if is_plain(folder) {
        return Ok(folder.to_path_buf());
    }
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let caches = caches.filter(|path| path.is_absolute() && is_plain(path)).unwrap_or_else(|| "/var/tmp".into());
    let link = caches.join(format!("amdgpu_rs-{:016x}", hasher.finish()));
    fs::create_dir_all(&caches).map_err(|error| format!("making {}: {error}", caches.display()))?;
    match std::os::unix::fs::symlink(folder, &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(format!("making {}, a path to {} without blanks: {error}", link.display(), folder.display()))
        }
        _ if fs::read_link(&link).is_ok_and(|found| found == folder) => Ok(link),
        _ => Err(format!("{} is in the way: it should be a link to {}", link.display(), folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_blanks_is_reached_by_a_path_without() {
        let plain = env::temp_dir().join(format!("xtask-plain-{}", std::process::id()));
        assert_eq!(plain_path(&plain).unwrap(), plain);
        let folder = plain.join("mön clone");
        fs::create_dir_all(&folder).unwrap();
        let path = plain_path(&folder).unwrap();
        assert!(!path.to_string_lossy().contains([' ', 'ö']), "{}", path.display());
        assert_eq!(path.canonicalize().unwrap(), folder.canonicalize().unwrap());
        assert_eq!(plain_path(&folder).unwrap(), path, "the same each time");
        fs::remove_file(path).unwrap();
        fs::remove_dir_all(plain).unwrap();
    }
}
