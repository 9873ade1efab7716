// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables: code objects loaded for agents, and the symbols in them (HSA Runtime 2.8).

use std::ffi::CString;
use std::sync::Arc;

use hsa_abi::{
    HsaAgent, HsaCodeObjectReader, HsaExecutable, HsaExecutableSymbol, HsaExecutableSymbolInfo, HsaLoadedCodeObject,
    HsaLoadedCodeObjectInfo, HsaStatus, HsaSymbolKind,
};

use super::error::{Error, Result, check, check_with, report};
use super::value::Value;
use super::{Agent, Library};

/// A code object loaded for one or more agents and frozen. Unloaded when dropped.
///
/// It must not be dropped while a dispatch of one of its kernels is pending.
#[derive(Debug)]
pub struct Executable {
    handle: HsaExecutable,
    reader: Reader,
    /// The loaded code objects, by agent.
    loaded: Vec<HsaLoadedCodeObject>,
}

/// The load address range of a code object on one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRange {
    /// The difference of a loaded address and the code object's address.
    pub delta: i64,
    /// Bytes in memory.
    pub size: u64,
}

/// A kernel of an executable, loaded on one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// For the dispatch packet: the address of the kernel descriptor, which the host can read.
    pub object: u64,
    /// Bytes of its kernel arguments.
    pub kernarg_size: u32,
    /// Alignment of the kernargs in bytes.
    pub kernarg_alignment: u32,
    /// Bytes of static group memory (LDS) of a workgroup.
    pub group_size: u32,
    /// Bytes of private memory (scratch) of a work-item.
    pub private_size: u32,
}

/// A variable of an executable, loaded on one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Address of the variable for the agent.
    pub address: u64,
    /// Size of the variable in bytes.
    pub size: u32,
}

impl Executable {
    /// Loads `code`, a code object (an ELF file for AMDGPU), for each of `agents`, and freezes the executable, which
    /// keeps the bytes.
    ///
    /// # Errors
    /// The status of the failed step, with the agent and its ISAs; INVALID_ARGUMENT if there is no agent.
    pub fn load(agents: &[&Agent], code: Arc<Vec<u8>>) -> Result<Self> {
        let Some(first) = agents.first() else {
            let status = HsaStatus::ERROR_INVALID_ARGUMENT;
            let details = "no agent to load a code object for".to_owned();
            return Err(Error::Call { call: "hsa_executable_create_alt", status, details });
        };
        let reader = Reader::new(first.library(), code)?;
        let mut executable = Self { handle: HsaExecutable::NULL, reader, loaded: Vec::with_capacity(agents.len()) };
        let symbols = &first.library().symbols;
        let info = first.info();
        // SAFETY: no options; the result goes to a field of ours.
        let status = unsafe {
            (symbols.hsa_executable_create_alt)(
                info.profile,
                info.float_rounding_mode,
                std::ptr::null(),
                &mut executable.handle,
            )
        };
        check("hsa_executable_create_alt", status)?;
        for agent in agents {
            executable.load_for(agent)?;
        }
        // SAFETY: the executable lives; no options.
        let status = unsafe { (symbols.hsa_executable_freeze)(executable.handle, std::ptr::null()) };
        check("hsa_executable_freeze", status)?;
        Ok(executable)
    }

    fn load_for(&mut self, agent: &Agent) -> Result<()> {
        let mut loaded = HsaLoadedCodeObject::NULL;
        // SAFETY: executable and reader live; no options; the result goes to a local.
        let status = unsafe {
            (self.library().symbols.hsa_executable_load_agent_code_object)(
                self.handle,
                agent.handle(),
                self.reader.handle,
                std::ptr::null(),
                &mut loaded,
            )
        };
        check_with("hsa_executable_load_agent_code_object", status, || {
            let isas: Vec<_> = agent.info().isas.iter().map(|isa| isa.name.as_str()).collect();
            let bytes = self.reader.code.len();
            format!("a code object of {bytes} bytes for {}, which executes {}", agent.info().product, isas.join(", "))
        })?;
        self.loaded.push(loaded);
        Ok(())
    }

    /// The bytes that it was loaded from.
    pub fn code(&self) -> &Arc<Vec<u8>> {
        &self.reader.code
    }

    /// The load address ranges, in the order of its agents; none if the runtime does not report them.
    ///
    /// # Errors
    /// The error of AMD's loader extension.
    pub fn load_ranges(&self) -> Result<Option<Vec<LoadRange>>> {
        type I = HsaLoadedCodeObjectInfo;
        let Some(get) = self.library().loader()?.and_then(|loader| loader.loaded_code_object_get_info) else {
            return Ok(None);
        };
        let info = |object, attribute: I| {
            let call = "hsa_ven_amd_loader_loaded_code_object_get_info";
            // SAFETY: `value` has room for every fixed-size attribute, and no other is asked for.
            Value::read(call, || format!("{attribute:?}"), |value| unsafe { get(object, attribute, value) })
        };
        let range = |object: &HsaLoadedCodeObject| {
            let delta = info(*object, I::LOAD_DELTA)?.u64().cast_signed();
            Ok(LoadRange { delta, size: info(*object, I::LOAD_SIZE)?.u64() })
        };
        self.loaded.iter().map(range).collect::<Result<_>>().map(Some)
    }

    fn library(&self) -> &Arc<Library> {
        &self.reader.library
    }

    /// The kernel `name` (with its suffix `.kd`) as loaded on `agent`.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such symbol, INVALID_ARGUMENT if it is not a kernel; the name is in the message.
    pub fn kernel(&self, name: &str, agent: HsaAgent) -> Result<Kernel> {
        type I = HsaExecutableSymbolInfo;
        let symbol = self.symbol(name, agent, HsaSymbolKind::KERNEL)?;
        Ok(Kernel {
            object: self.symbol_info(symbol, I::KERNEL_OBJECT)?.u64(),
            kernarg_size: self.symbol_info(symbol, I::KERNEL_KERNARG_SEGMENT_SIZE)?.u32(),
            kernarg_alignment: self.symbol_info(symbol, I::KERNEL_KERNARG_SEGMENT_ALIGNMENT)?.u32(),
            group_size: self.symbol_info(symbol, I::KERNEL_GROUP_SEGMENT_SIZE)?.u32(),
            private_size: self.symbol_info(symbol, I::KERNEL_PRIVATE_SEGMENT_SIZE)?.u32(),
        })
    }

    /// The variable `name` as loaded on `agent`.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such symbol, INVALID_ARGUMENT if it is not a variable; the name is in the message.
    pub fn variable(&self, name: &str, agent: HsaAgent) -> Result<Variable> {
        type I = HsaExecutableSymbolInfo;
        let symbol = self.symbol(name, agent, HsaSymbolKind::VARIABLE)?;
        Ok(Variable {
            address: self.symbol_info(symbol, I::VARIABLE_ADDRESS)?.u64(),
            size: self.symbol_info(symbol, I::VARIABLE_SIZE)?.u32(),
        })
    }

    fn symbol(&self, name: &str, agent: HsaAgent, kind: HsaSymbolKind) -> Result<HsaExecutableSymbol> {
        let call = "hsa_executable_get_symbol_by_name";
        let Ok(c_name) = CString::new(name) else {
            let details = format!("a NUL in the name {name:?}");
            return Err(Error::Call { call, status: HsaStatus::ERROR_INVALID_SYMBOL_NAME, details });
        };
        let mut symbol = HsaExecutableSymbol::NULL;
        // SAFETY: the executable lives; name and agent are only read; the result goes to a local.
        let status = unsafe {
            (self.library().symbols.hsa_executable_get_symbol_by_name)(
                self.handle,
                c_name.as_ptr(),
                &agent,
                &mut symbol,
            )
        };
        check_with(call, status, || format!("'{name}'"))?;
        let found = HsaSymbolKind(self.symbol_info(symbol, HsaExecutableSymbolInfo::TYPE)?.u32());
        if found != kind {
            let details = format!("'{name}' is a {found:?}, not a {kind:?}");
            return Err(Error::Call { call, status: HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL, details });
        }
        Ok(symbol)
    }

    fn symbol_info(&self, symbol: HsaExecutableSymbol, attribute: HsaExecutableSymbolInfo) -> Result<Value> {
        Value::read(
            "hsa_executable_symbol_get_info",
            || format!("{attribute:?}"),
            |value| {
                // SAFETY: `value` has room for every fixed-size attribute, and no other is asked for.
                unsafe { (self.library().symbols.hsa_executable_symbol_get_info)(symbol, attribute, value) }
            },
        )
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        // SAFETY: made by this runtime and not destroyed before; the reader goes after it.
        let status = unsafe { (self.library().symbols.hsa_executable_destroy)(self.handle) };
        report("hsa_executable_destroy", status);
    }
}

/// The runtime's reader of a code object. The bytes must live while anything loaded from them is in use.
#[derive(Debug)]
struct Reader {
    library: Arc<Library>,
    handle: HsaCodeObjectReader,
    code: Arc<Vec<u8>>,
}

impl Reader {
    fn new(library: &Arc<Library>, code: Arc<Vec<u8>>) -> Result<Self> {
        let mut handle = HsaCodeObjectReader::NULL;
        // SAFETY: the bytes live as long as the reader, and are not written.
        let status = unsafe {
            (library.symbols.hsa_code_object_reader_create_from_memory)(code.as_ptr().cast(), code.len(), &mut handle)
        };
        let details = || format!("{} bytes", code.len());
        check_with("hsa_code_object_reader_create_from_memory", status, details)?;
        Ok(Self { library: library.clone(), handle, code })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: made by this runtime and not destroyed before; executables that were loaded through it are gone.
        let status = unsafe { (self.library.symbols.hsa_code_object_reader_destroy)(self.handle) };
        report("hsa_code_object_reader_destroy", status);
    }
}
