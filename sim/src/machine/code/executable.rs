// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Code object readers, executables, their symbols, and the kernels that packets can name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED, HsaAgent, HsaCodeObjectReader, HsaExecutable, HsaExecutableSymbol,
    HsaLoadedCodeObject, HsaStatus,
};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::machine::agent::Agent;
use crate::machine::agent_id::{AgentIndex, AgentMask};
use crate::machine::code::kernel::Kernel;
use crate::machine::code::loader::{self, Image, Symbol, SymbolKind};
use crate::machine::code::source::Sources;
use crate::machine::config::Config;
use crate::machine::config::checks::CheckConfig;
use crate::machine::memory::allocation::{Allocation, AllocationInfo};
use crate::machine::memory::map::MemoryMap;

/// Bytes of a code object in the host program's memory, valid while its reader exists.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Address.
    pub base: usize,
    /// Bytes.
    pub size: usize,
}

/// A code object loaded for an agent.
#[derive(Debug)]
pub struct LoadedCodeObject {
    /// The executable it is part of.
    pub executable: HsaExecutable,
    /// The agent.
    pub agent: HsaAgent,
    /// Bytes of the file.
    pub storage: Storage,
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Loaded address less address in the file.
    pub delta: i64,
}

/// A symbol of an executable.
#[derive(Debug)]
pub struct LoadedSymbol {
    /// The agent it is loaded for.
    pub agent: HsaAgent,
    /// The symbol.
    pub symbol: Symbol,
}

#[derive(Default)]
struct Executable {
    frozen: bool,
    code_objects: Vec<HsaLoadedCodeObject>,
    symbols: Vec<HsaExecutableSymbol>,
    /// Symbols by name, for each agent that they are loaded for.
    names: HashMap<u64, HashMap<String, HsaExecutableSymbol>>,
    /// Kernels by the address of their descriptor. Packets can name them once frozen.
    kernels: Vec<(u64, Arc<Kernel>)>,
    /// Bases of the memory map's entries, in the order of each image.
    segments: Vec<u64>,
}

/// All objects of the loader, by handle.
#[derive(Default)]
pub struct Executables {
    next_handle: AtomicU64,
    readers: Mutex<HashMap<u64, Storage>>,
    executables: Mutex<HashMap<u64, Executable>>,
    code_objects: RwLock<HashMap<u64, Arc<LoadedCodeObject>>>,
    symbols: RwLock<HashMap<u64, Arc<LoadedSymbol>>>,
    kernels: RwLock<FxHashMap<u64, Arc<Kernel>>>,
}

impl Executables {
    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Creates a reader of bytes that stay valid until it is destroyed.
    pub fn create_reader(&self, storage: Storage) -> HsaCodeObjectReader {
        let handle = self.handle();
        self.readers.lock().insert(handle, storage);
        HsaCodeObjectReader { handle }
    }

    /// Destroys a reader. Code objects that were loaded from it stay.
    pub fn destroy_reader(&self, reader: HsaCodeObjectReader) -> Result<(), HsaStatus> {
        let removed = self.readers.lock().remove(&reader.handle);
        removed.map(drop).ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT_READER)
    }

    /// Returns a reader's bytes.
    pub fn storage(&self, reader: HsaCodeObjectReader) -> Result<Storage, HsaStatus> {
        let readers = self.readers.lock();
        readers.get(&reader.handle).copied().ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT_READER)
    }

    /// Creates an empty executable.
    pub fn create(&self) -> HsaExecutable {
        let handle = self.handle();
        self.executables.lock().insert(handle, Executable::default());
        HsaExecutable { handle }
    }

    /// Checks that code objects can be loaded into an executable.
    pub fn check_not_frozen(&self, executable: HsaExecutable) -> Result<(), HsaStatus> {
        self.with(executable, |executable| match executable.frozen {
            true => Err(HsaStatus::ERROR_FROZEN_EXECUTABLE),
            false => Ok(()),
        })
    }

    /// Loads a code object for a GPU agent into an executable that is not frozen.
    pub fn load(
        &self,
        (config, memory): (&Config, &MemoryMap),
        executable: HsaExecutable,
        agent: &Agent,
        storage: Storage,
        bytes: &[u8],
    ) -> Result<HsaLoadedCodeObject, HsaStatus> {
        // No instruction set is a CPU's.
        let target = agent.target().ok_or(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS)?;
        self.check_not_frozen(executable)?;
        let external = |name: &str| {
            let symbol = self.find_symbol(executable, name, agent.handle()).and_then(|symbol| self.symbol(symbol));
            symbol.ok().map(|symbol| symbol.symbol.address)
        };
        let image = loader::load(bytes, target, config.rocr, &external).map_err(|error| {
            eprintln!(
                "hsa-sim: cannot load a code object of {} bytes on agent {} ({}): {}",
                bytes.len(),
                agent.index.0,
                target.name,
                error.text
            );
            error.status
        })?;
        for symbol in &image.symbols {
            if self.find_symbol(executable, &symbol.name, agent.handle()).is_ok() {
                eprintln!("hsa-sim: the executable has a symbol '{}' for agent {} already", symbol.name, agent.index.0);
                return Err(HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
            }
        }
        let code_object = HsaLoadedCodeObject { handle: self.handle() };
        let is_watched = config.profile.is_some()
            || config.trace.is_some()
            || config.debug.is_some()
            || config.checks != CheckConfig::default();
        // A kernel that is stopped at a time limit was stopped at some line.
        let are_wanted = is_watched || config.timeout.is_some();
        let sources = are_wanted.then(|| Arc::new(Sources::new(bytes, image.delta)));
        let kernels = kernels(&image, agent, sources.as_ref())?;
        let base = image.mapping.base() as u64;
        let symbols: Vec<_> = image
            .symbols
            .iter()
            .map(|symbol| {
                let symbol = LoadedSymbol { agent: agent.handle(), symbol: symbol.clone() };
                (self.handle(), Arc::new(symbol))
            })
            .collect();
        // Of several of a name the first is found.
        let mut names = HashMap::with_capacity(symbols.len());
        for (handle, symbol) in &symbols {
            names.entry(symbol.symbol.name.clone()).or_insert(HsaExecutableSymbol { handle: *handle });
        }
        let loaded =
            LoadedCodeObject { executable, agent: agent.handle(), storage, base, size: image.size, delta: image.delta };
        self.with(executable, |executable| {
            executable.code_objects.push(code_object);
            let handles = symbols.iter().map(|&(handle, _)| HsaExecutableSymbol { handle });
            executable.symbols.extend(handles);
            executable.names.entry(agent.handle().handle).or_default().extend(names);
            executable.kernels.extend(kernels);
            executable.segments.extend(image.segments.iter().map(|segment| segment.base));
            Ok(())
        })?;
        self.symbols.write().extend(symbols);
        self.code_objects.write().insert(code_object.handle, Arc::new(loaded));
        add_to_map(memory, agent, image);
        Ok(code_object)
    }

    /// Defines a variable of the program, which code objects that are loaded for the agent later may declare.
    pub fn define(
        &self,
        executable: HsaExecutable,
        agent: HsaAgent,
        name: &str,
        address: u64,
    ) -> Result<(), HsaStatus> {
        self.check_not_frozen(executable)?;
        if self.find_symbol(executable, name, agent).is_ok() {
            return Err(HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
        }
        let kind = SymbolKind::Variable { size: 0, writable: false };
        let symbol = LoadedSymbol { agent, symbol: Symbol { name: name.to_owned(), address, kind } };
        let handle = HsaExecutableSymbol { handle: self.handle() };
        self.symbols.write().insert(handle.handle, Arc::new(symbol));
        self.with(executable, |executable| {
            executable.symbols.push(handle);
            executable.names.entry(agent.handle).or_default().insert(name.to_owned(), handle);
            Ok(())
        })
    }

    /// The symbols of an executable.
    pub fn symbols(&self, executable: HsaExecutable) -> Result<Vec<HsaExecutableSymbol>, HsaStatus> {
        self.with(executable, |executable| Ok(executable.symbols.clone()))
    }

    /// Freezes an executable. Packets can name its kernels from now on.
    pub fn freeze(&self, executable: HsaExecutable) -> Result<(), HsaStatus> {
        let kernels = self.with(executable, |executable| {
            if std::mem::replace(&mut executable.frozen, true) {
                return Err(HsaStatus::ERROR_FROZEN_EXECUTABLE);
            }
            Ok(executable.kernels.clone())
        })?;
        self.kernels.write().extend(kernels);
        Ok(())
    }

    /// Destroys an executable and frees its memory.
    pub fn destroy(&self, memory: &MemoryMap, handle: HsaExecutable) -> Result<(), HsaStatus> {
        let executable = self.executables.lock().remove(&handle.handle);
        let executable = executable.ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE)?;
        for (address, _) in &executable.kernels {
            self.kernels.write().remove(address);
        }
        for symbol in &executable.symbols {
            self.symbols.write().remove(&symbol.handle);
        }
        for code_object in &executable.code_objects {
            self.code_objects.write().remove(&code_object.handle);
        }
        for &base in &executable.segments {
            memory.remove(base, |_| true);
        }
        Ok(())
    }

    /// The symbol of this name that is loaded for `agent`.
    pub fn find_symbol(
        &self,
        executable: HsaExecutable,
        name: &str,
        agent: HsaAgent,
    ) -> Result<HsaExecutableSymbol, HsaStatus> {
        self.with(executable, |executable| {
            let found = executable.names.get(&agent.handle).and_then(|names| names.get(name));
            found.copied().ok_or(HsaStatus::ERROR_INVALID_SYMBOL_NAME)
        })
    }

    /// The symbol that a handle names.
    pub fn symbol(&self, handle: HsaExecutableSymbol) -> Result<Arc<LoadedSymbol>, HsaStatus> {
        let symbol = self.symbols.read().get(&handle.handle).cloned();
        symbol.ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL)
    }

    /// The code objects of an executable.
    pub fn code_objects(&self, executable: HsaExecutable) -> Result<Vec<HsaLoadedCodeObject>, HsaStatus> {
        self.with(executable, |executable| Ok(executable.code_objects.clone()))
    }

    /// The loaded code object that a handle names.
    pub fn code_object(&self, handle: HsaLoadedCodeObject) -> Result<Arc<LoadedCodeObject>, HsaStatus> {
        let code_object = self.code_objects.read().get(&handle.handle).cloned();
        code_object.ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT)
    }

    /// The loaded code object that contains `address`.
    pub fn code_object_at(&self, address: u64) -> Option<Arc<LoadedCodeObject>> {
        let code_objects = self.code_objects.read();
        let inside = |object: &&Arc<LoadedCodeObject>| address.wrapping_sub(object.base) < object.size;
        code_objects.values().find(inside).cloned()
    }

    /// The kernel that a packet's `kernel_object` names.
    pub fn kernel(&self, kernel_object: u64) -> Option<Arc<Kernel>> {
        self.kernels.read().get(&kernel_object).cloned()
    }

    /// The kernel of frozen executables that is loaded for `agent` and begins at `entry`.
    pub fn kernel_at(&self, agent: AgentIndex, entry: u64) -> Option<Arc<Kernel>> {
        let kernels = self.kernels.read();
        kernels.values().find(|kernel| kernel.agent == agent && kernel.entry() == entry).cloned()
    }

    /// Executables that are not destroyed, by handle, with the names of their kernels.
    pub fn live(&self) -> Vec<(u64, Vec<String>)> {
        let names =
            |executable: &Executable| executable.kernels.iter().map(|(_, kernel)| kernel.name.clone()).collect();
        let executables = self.executables.lock();
        let mut live: Vec<_> = executables.iter().map(|(&handle, executable)| (handle, names(executable))).collect();
        live.sort();
        live
    }

    /// Readers that are not destroyed, by handle, with their bytes.
    pub fn readers(&self) -> Vec<(u64, Storage)> {
        let readers = self.readers.lock();
        let mut live: Vec<_> = readers.iter().map(|(&handle, &storage)| (handle, storage)).collect();
        live.sort_by_key(|&(handle, _)| handle);
        live
    }

    fn with<T>(
        &self,
        executable: HsaExecutable,
        use_it: impl FnOnce(&mut Executable) -> Result<T, HsaStatus>,
    ) -> Result<T, HsaStatus> {
        let mut executables = self.executables.lock();
        use_it(executables.get_mut(&executable.handle).ok_or(HsaStatus::ERROR_INVALID_EXECUTABLE)?)
    }
}

fn kernels(image: &Image, agent: &Agent, sources: Option<&Arc<Sources>>) -> Result<Vec<(u64, Arc<Kernel>)>, HsaStatus> {
    let mut kernels = Vec::new();
    for symbol in &image.symbols {
        let SymbolKind::Kernel(descriptor) = symbol.kind else { continue };
        let entry = symbol.address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        let holds_entry =
            |segment: &&loader::Segment| segment.executable && entry.wrapping_sub(segment.base) < segment.size;
        let Some(code) = image.segments.iter().find(holds_entry) else {
            eprintln!("hsa-sim: the entry point of kernel '{}' is not in code", symbol.name);
            return Err(HsaStatus::ERROR_INVALID_CODE_OBJECT);
        };
        let name = symbol.name.trim_end_matches(".kd").to_owned();
        let mut kernel = Kernel::new(agent.index, name, symbol.address, descriptor, *code);
        kernel.sources = sources.cloned();
        kernels.push((symbol.address, Arc::new(kernel)));
    }
    Ok(kernels)
}

fn add_to_map(memory: &MemoryMap, agent: &Agent, image: Image) {
    // The last entry owns the memory, because entries are removed in order.
    let last = image.segments.len() - 1;
    let mut mapping = Some(image.mapping);
    for (index, segment) in image.segments.into_iter().enumerate() {
        let info = AllocationInfo {
            read_only: if segment.writable { AgentMask::default() } else { AgentMask::ALL },
            global_flags: HSA_GLOBAL_FLAG_COARSE_GRAINED,
            ..AllocationInfo::new(segment.base, segment.size, agent.index, AgentMask::of(agent.index))
        };
        let mapping = if index == last { mapping.take() } else { None };
        memory.insert(Allocation { mapping, ..info.into() });
    }
}
