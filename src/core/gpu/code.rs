// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Code objects loaded on a GPU, each once. Executables of the same bytes share the loaded code for as long as one of
//! them lives.
//!
//! Code objects with variables are loaded anew for each executable. Otherwise the kernels of one executable would see
//! the writes of another's kernels, and of applications that look variables up to write them.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use amdgpu_code_object::{CodeObject, Symbol, SymbolKind};
use parking_lot::Mutex;

use crate::Gpu;
use amdgpu_ffi::{Annotate, Result, Status, fallible, status};
use amdgpu_hsa::{self as hsa, LoadRange};

/// Code objects that executables share on a GPU, keyed by the bytes that the runtime was given. Holds no strong
/// references.
#[derive(Debug, Default)]
pub struct SharedCode(Mutex<HashMap<Bytes, Weak<LoadedCode>>>);

/// Bytes that are hashed and compared by content.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bytes(Arc<Vec<u8>>);

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A code object loaded on one GPU. Unloaded when dropped, which must not be while a kernel of it is pending.
#[derive(Debug)]
pub struct LoadedCode {
    gpu: Arc<Gpu>,
    loaded: hsa::Executable,
    /// Kernels by the symbols of their descriptors.
    kernels: HashMap<Box<str>, hsa::Kernel>,
    range: Option<LoadRange>,
    is_shared: bool,
}

impl LoadedCode {
    /// Loads `code` on `gpu`, unless it is loaded there already. Loads under the lock, so that no other thread loads
    /// it, too.
    ///
    /// # Errors
    /// The error of the HSA call that failed.
    pub fn load(gpu: &Arc<Gpu>, code: &CodeObject<'_>) -> Result<Arc<Self>> {
        let bytes = gpu.info().loadable(code.bytes)?;
        if code.has_writable_data || code.symbols.iter().any(|symbol| symbol.kind == SymbolKind::Variable) {
            return Ok(Arc::new(Self::new(gpu, code, fallible::shared(bytes)?, false)?));
        }
        let mut shared = gpu.shared_code().0.lock();
        if let Some(loaded) = shared.get(&*bytes).and_then(Weak::upgrade) {
            return Ok(loaded);
        }
        let loaded = Arc::new(Self::new(gpu, code, fallible::shared(bytes)?, true)?);
        shared.insert(Bytes(loaded.bytes().clone()), Arc::downgrade(&loaded));
        Ok(loaded)
    }

    fn new(gpu: &Arc<Gpu>, code: &CodeObject<'_>, bytes: Arc<Vec<u8>>, is_shared: bool) -> Result<Self> {
        let loaded = hsa::Executable::load(&[gpu.agent()], bytes)?;
        let range = loaded.load_ranges()?.and_then(|ranges| ranges.first().copied());
        let is_kernel = |symbol: &&Symbol<'_>| symbol.defined && symbol.kind == SymbolKind::Kernel;
        let mut kernels = HashMap::new();
        for symbol in code.symbols.iter().filter(is_kernel) {
            kernels.insert(symbol.name.into(), loaded.kernel(symbol.name, gpu.agent().handle())?);
        }
        if let Some(streams) = gpu.streams() {
            let symbols = code.symbols.iter().filter(is_kernel);
            streams.add(code, symbols.map(|symbol| (symbol, kernels[symbol.name].object)));
        }
        Ok(Self { gpu: gpu.clone(), loaded, kernels, range, is_shared })
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The bytes that the runtime was given.
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        self.loaded.code()
    }

    /// The load address range; none if the runtime does not report it.
    pub fn range(&self) -> Option<LoadRange> {
        self.range
    }

    /// The kernel whose descriptor has the symbol `name`.
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn kernel(&self, name: &str) -> Result<hsa::Kernel> {
        let kernel = self.kernels.get(name).copied();
        kernel.ok_or_else(|| status!(NOT_FOUND, "the code object has no kernel descriptor '{name}'"))
    }

    /// The variable `name`.
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn variable(&self, name: &str) -> Result<hsa::Variable> {
        let found = self.loaded.variable(name, self.gpu.agent().handle());
        found.map_err(Status::from).annotate(|| format!("looking up the global '{name}'"))
    }
}

impl Drop for LoadedCode {
    fn drop(&mut self) {
        if let Some(streams) = self.gpu.streams() {
            streams.remove(self.kernels.values().map(|kernel| kernel.object));
        }
        if self.is_shared {
            let mut shared = self.gpu.shared_code().0.lock();
            // Unless somebody has loaded it again meanwhile.
            if shared.get(self.bytes().as_slice()).is_some_and(|loaded| loaded.strong_count() == 0) {
                shared.remove(self.bytes().as_slice());
            }
        }
    }
}
