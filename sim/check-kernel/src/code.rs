// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels in files: code objects (ELF), IREE's executables, modules (`.vmfb`) and uncompressed bundles, in which code
//! objects lie one after the other.

use amdgpu_code_object::{CodeObject, Kernel, Metadata, PrintfFormat, Processor, TargetId, infer_format};
use hsa_runtime64::machine::product::target;

/// Beginning of an ELF file of 64 bits, little-endian.
const ELF: &[u8] = b"\x7fELF\x02\x01";

/// Beginning of a bundle that clang has compressed.
const COMPRESSED: &[u8] = b"CCOB";

/// A code object, with the GPUs of the sim that run it.
pub struct Code<'a> {
    /// The ELF file.
    pub bytes: &'a [u8],
    /// Kernels of the code object.
    pub metadata: Metadata,
    /// Processor that it is for.
    processor: Processor,
    /// Values of `HSA_SIM_AGENTS` for the GPUs that run it: one, or the members of a generic target. Can be empty.
    pub agents: Vec<&'static str>,
}

impl Code<'_> {
    /// The given GPU if it runs the code object, or the first one that does if none is given.
    fn agent(&self, given: Option<&str>) -> Option<&'static str> {
        self.agents.iter().copied().find(|name| given.is_none_or(|given| given == *name))
    }

    /// Rank among code objects that a GPU runs: code for one GPU comes before code for its generic target.
    fn rank(&self) -> bool {
        matches!(self.processor, Processor::Generic { .. })
    }
}

/// Finds all code objects for AMD GPUs in a file.
///
/// # Errors
/// When there is none, or one is malformed.
pub fn objects(file: &[u8]) -> Result<Vec<Code<'_>>, String> {
    if file.starts_with(COMPRESSED) {
        return Err("a compressed bundle of code objects; `clang-offload-bundler --unbundle` takes one out, and \
                    `--no-gpu-bundle-output` makes none"
            .into());
    }
    let is_whole = file.starts_with(ELF);
    let mut found = Vec::new();
    let mut problem = None;
    let mut at = 0;
    while let Some(next) = file[at..].windows(ELF.len()).position(|bytes| bytes == ELF) {
        at += next;
        // Code for the host in a bundle or a module is no concern of anyone here.
        match parse(&file[at..]) {
            Ok((code, size)) => {
                found.push(code);
                at += size.max(ELF.len());
            }
            Err(error) => {
                problem.get_or_insert(error);
                at += ELF.len();
            }
        }
        if is_whole {
            break;
        }
    }
    match problem {
        Some(error) if found.is_empty() => Err(error),
        None if found.is_empty() => Err(CodeObject::parse(file).map(|_| ()).map_or_else(
            |error| format!("no code object for AMD GPUs is in it: {error}"),
            |()| "no code object for AMD GPUs is in it".into(),
        )),
        _ => Ok(found),
    }
}

/// Parses the code object at the beginning of `bytes`. Returns its size, too.
fn parse(bytes: &[u8]) -> Result<(Code<'_>, usize), String> {
    let size = infer_format(bytes).map_or(bytes.len(), |format| format.size as usize);
    let bytes = &bytes[..size];
    let code = CodeObject::parse(bytes).map_err(|error| error.to_string())?;
    let metadata = code.metadata().map_err(|error| error.to_string())?;
    let processor = code.target.processor;
    Ok((Code { bytes, metadata, processor, agents: agents_for(processor) }, size))
}

/// Values of `HSA_SIM_AGENTS` for the GPUs of the sim that run code for `target`.
fn agents_for(target: Processor) -> Vec<&'static str> {
    let runs = |name: &&'static str| {
        let Ok(processor) = name.parse::<Processor>() else { return false };
        processor == target || TargetId::new(processor).generic().is_some_and(|generic| generic.processor == target)
    };
    target::names().into_iter().filter(runs).collect()
}

/// Message that no GPU of the sim, or not the given one, runs any of the code objects.
pub fn not_for<'a>(codes: impl IntoIterator<Item = &'a Code<'a>>, agent: Option<&str>) -> String {
    let processors: Vec<_> = codes.into_iter().map(|code| code.processor.to_string()).collect();
    let (of, names) = (processors.join(", "), target::names().join(", "));
    match agent {
        Some(agent) => format!("the code object is for {of}, which {agent} does not run"),
        None => format!("the code object is for {of}, which the sim does not simulate; it simulates {names}"),
    }
}

/// A kernel, and the code object that has it.
pub struct Found<'a> {
    /// The ELF file.
    pub bytes: &'a [u8],
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Formats of OpenCL's `printf`.
    pub printf: &'a [PrintfFormat],
    /// Value of `HSA_SIM_AGENTS` for a GPU that runs it.
    pub agent: &'static str,
}

/// Finds a kernel by its name, its symbol, or its name in C++, with or without parameters. `agent` chooses among code
/// objects for several GPUs.
///
/// # Errors
/// When there is none or more than one, or no GPU of the sim runs it.
pub fn find<'a>(codes: &'a [Code<'a>], name: &str, agent: Option<&str>) -> Result<Found<'a>, String> {
    let all = || codes.iter().flat_map(|code| code.metadata.kernels.iter().map(move |kernel| (code, kernel)));
    let exactly = |kernel: &Kernel| kernel.name == name || kernel.symbol == name;
    let mut matching: Vec<_> = all().filter(|(_, kernel)| exactly(kernel)).collect();
    if matching.is_empty() {
        matching = all().filter(|(_, kernel)| is_called(&kernel.name, name)).collect();
    }
    let in_cpp = |kernel: &Kernel| demangled(&kernel.name).unwrap_or_else(|| kernel.name.clone());
    let Some(&(_, first)) = matching.first() else {
        let mut names: Vec<_> = all().map(|(_, kernel)| in_cpp(kernel)).collect();
        names.dedup();
        return Err(format!("no kernel {name}; there are: {}", names.join(", ")));
    };
    if matching.iter().any(|(_, kernel)| kernel.name != first.name) {
        let names: Vec<_> = matching.iter().map(|(_, kernel)| in_cpp(kernel)).collect();
        return Err(format!("{name} is the name of several kernels: {}", names.join(", ")));
    }
    let playable: Vec<_> = matching.iter().filter(|(code, _)| !code.agents.is_empty()).collect();
    let mut chosen: Vec<_> =
        playable.iter().filter_map(|&&(code, kernel)| Some((code, kernel, code.agent(agent)?))).collect();
    chosen.sort_by_key(|(code, ..)| code.rank());
    match chosen[..] {
        [(code, kernel, agent), ..] if chosen.iter().all(|(.., other)| *other == agent) => {
            Ok(Found { bytes: code.bytes, kernel, printf: &code.metadata.printf, agent })
        }
        [] if playable.is_empty() => Err(not_for(matching.iter().map(|(code, _)| *code), None)),
        [] if playable.len() == 1 => Err(not_for(matching.iter().map(|(code, _)| *code), agent)),
        _ => {
            let agents: Vec<_> = playable.iter().flat_map(|(code, _)| code.agents.iter().copied()).collect();
            Err(format!("the file has {name} for {}: choose one with --target", agents.join(", ")))
        }
    }
}

/// True if a mangled name is this one in C++: `ns::scale(float*, int)`, `ns::scale` or `scale`.
fn is_called(mangled: &str, name: &str) -> bool {
    let Some(full) = demangled(mangled) else { return false };
    let spaceless = |text: &str| text.replace(' ', "");
    if spaceless(&full) == spaceless(name) {
        return true;
    }
    let path = unparameterized(&full);
    path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with("::"))
}

/// A function's name without its parameters, and without the return type that templates have in front.
fn unparameterized(full: &str) -> &str {
    // The parameters' bracket is the first that is within no other and in no template argument.
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in full.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && !full[at..].starts_with("(anonymous namespace)") => return &full[start..at],
            ' ' if depth == 0 && !full[..at].ends_with("(anonymous") => start = at + 1,
            _ => {}
        }
    }
    &full[start..]
}

/// The name in C++ of a symbol that is mangled as the Itanium ABI says.
pub fn demangled(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    cpp_demangle::Symbol::new(symbol).ok()?.demangle(&Default::default()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_names_in_cpp() {
        let scale = "_ZN2ns5scaleEPfi";
        for name in ["ns::scale(float*, int)", "ns::scale(float*,int)", "ns::scale", "scale"] {
            assert!(is_called(scale, name), "{name}");
        }
        for name in ["ns::scal", "cale", "ns::scale(float*)", "ns"] {
            assert!(!is_called(scale, name), "{name}");
        }
        // A template has its result's type in front.
        let add = "_Z3addIfEvPT_S1_";
        assert_eq!(demangled(add).as_deref(), Some("void add<float>(float*, float*)"));
        assert!(is_called(add, "add<float>") && !is_called(add, "void"));
        assert!(!is_called("scale", "scale(float*)"));
    }

    #[test]
    fn files_without_code_objects_are_refused() {
        for file in [&b""[..], b"CCOB1234", b"AMD1", b"\x7fELF\x02\x01 and no more"] {
            assert!(objects(file).is_err(), "{file:?}");
        }
    }
}
