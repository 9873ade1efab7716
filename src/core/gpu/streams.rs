// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The GPUs that run recordings as PM4 streams, and the register state that kernels need in a stream.
//!
//! A dispatch packet names a kernel by its descriptor, from which the packet processor sets the shader registers. A
//! stream sets them itself. It can therefore only run kernels that need nothing but their code, arguments and LDS,
//! which are known when the stream is made. Kernels that use scratch, or need the dispatch packet, the queue or the
//! dispatch id, run as packets.
//!
//! Kernels with preloaded arguments begin with code that loads them, for packet processors that do not preload
//! (AMDGPUUsage, "Preloaded Kernel Arguments"). A stream starts them there, so that it does not depend on the
//! arguments.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};

use amdgpu_code_object::{CodeObject, Symbol};
use hsa_abi::{KernelCodeProperties, KernelDescriptor, Rsrc2};
use parking_lot::RwLock;

use crate::options::{CommandBufferMode, Options, Pm4Publication};
use amdgpu_ffi::{Result, Status, messages, status};
use amdgpu_hsa::AgentInfo;

/// Bytes of an LDS unit in `COMPUTE_PGM_RSRC2` (Mesa's `sid.h`, from gfx7 on; gfx950 has another).
const LDS_GRANULE: u32 = 512;

/// The shift of the LDS units in `COMPUTE_PGM_RSRC2`, and the most units of a workgroup on these GPUs: 64 KiB. With
/// more, a workgroup would never start; a packet processor refuses such a packet.
const LDS_SIZE: (u32, u32) = (15, 128);

/// `TRAP_PRESENT` of `COMPUTE_PGM_RSRC2`. Packet processors set it if the runtime has installed a trap handler
/// (AMDGPUUsage, "compute_pgm_rsrc2 for GFX6-GFX12"), as ROCR does on each GPU. AMD's `kfdtest`, which makes streams,
/// sets it, too. Without it, traps do nothing, and waves cannot be saved when another process gets the GPU.
const TRAP_PRESENT: u32 = 1 << 6;

/// Fewest dispatches of a recording that [`CommandBufferMode::Auto`] makes a stream.
///
/// For 16 dispatches, the host submits a stream with half the instructions of packets, and the instructions to make it
/// equal the savings of about four executions (`cargo xtask bench --counts`); for longer recordings a stream saves
/// nearly all of them. The packet processor reads one packet and some 50 dwords per dispatch instead of a packet per
/// dispatch, and invalidates caches twice more.
const WORTH_IT: usize = 16;

/// The stream format of a generation of packet processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The format of gfx9.
    Gfx9,
    /// The format from gfx10 on.
    Gfx10,
}

impl Dialect {
    /// The dialect of the GPUs of this name; none if they do not run recordings as streams.
    ///
    /// Excluded are: gfx906 and gfx908, which are untested; gfx950, whose LDS has other units; gfx10, whose packet
    /// processors need a system register set before caches are invalidated (`CP_COHER_START_DELAY` in Mesa); gfx12.5,
    /// whose commands have other fields.
    fn of(name: &str) -> Option<Self> {
        match name {
            "gfx90a" | "gfx942" => Some(Self::Gfx9),
            _ if ["gfx11", "gfx120"].iter().any(|family| name.starts_with(family)) && name.len() == 7 => {
                Some(Self::Gfx10)
            }
            _ => None,
        }
    }
}

/// True if IREE's authors have run streams on such a GPU (`physical_device_capabilities.c` of the C driver).
fn is_tried(name: &str) -> bool {
    matches!(name, "gfx942" | "gfx1100")
}

/// The register state that a stream sets for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelState {
    /// Address of its first instruction.
    pub entry: u64,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2` without LDS.
    rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// Waves have 32 lanes.
    pub is_wave32: bool,
    /// User registers in front of the arguments' address, which the kernel does not read; none if it takes no
    /// arguments.
    pub before_kernargs: Option<u32>,
}

impl KernelState {
    /// The state of the kernel whose descriptor is loaded at `object`; none if a stream cannot run it.
    fn new(object: u64, descriptor: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(descriptor.get(at..at + 4)?.try_into().ok()?));
        let offset: [u8; 8] =
            descriptor.get(offset_of!(KernelDescriptor, kernel_code_entry_byte_offset)..)?.first_chunk().copied()?;
        let entry = object.wrapping_add_signed(i64::from_le_bytes(offset));
        let rsrc2 = word(offset_of!(KernelDescriptor, compute_pgm_rsrc2))?;
        let properties = KernelCodeProperties(word(offset_of!(KernelDescriptor, kernel_code_properties))? as u16);
        let scratch = word(offset_of!(KernelDescriptor, private_segment_fixed_size))?;
        // The descriptor of a buffer for scratch is among the registers of each kernel before gfx11, gfx942 aside;
        // without scratch nothing reads it.
        let known = [
            properties.enable_sgpr_private_segment_buffer(),
            properties.enable_sgpr_kernarg_segment_ptr() << 3,
            properties.enable_wavefront_size32() << 10,
        ];
        let has_others = properties.0 & !known.iter().fold(0, |bits, bit| bits | bit) != 0;
        let Rsrc2(bits) = Rsrc2(rsrc2);
        if has_others || scratch != 0 || Rsrc2(bits).enable_private_segment() != 0 || !entry.is_multiple_of(256) {
            return None;
        }
        let before = 4 * u32::from(properties.enable_sgpr_private_segment_buffer());
        Some(Self {
            entry,
            rsrc1: word(offset_of!(KernelDescriptor, compute_pgm_rsrc1))?,
            rsrc2: bits | TRAP_PRESENT,
            rsrc3: word(offset_of!(KernelDescriptor, compute_pgm_rsrc3))?,
            is_wave32: properties.enable_wavefront_size32() != 0,
            before_kernargs: (properties.enable_sgpr_kernarg_segment_ptr() != 0).then_some(before),
        })
    }

    /// The state of a made-up kernel.
    #[cfg(any(test, feature = "testing"))]
    pub const fn for_tests(entry: u64, resources: [u32; 3], is_wave32: bool, before_kernargs: Option<u32>) -> Self {
        let [rsrc1, rsrc2, rsrc3] = resources;
        Self { entry, rsrc1, rsrc2: rsrc2 | TRAP_PRESENT, rsrc3, is_wave32, before_kernargs }
    }

    /// `COMPUTE_PGM_RSRC2` for workgroups with `lds` bytes of LDS; none if the field cannot hold them.
    pub fn rsrc2(&self, lds: u32) -> Option<u32> {
        let (shift, most) = LDS_SIZE;
        let units = lds.div_ceil(LDS_GRANULE);
        (units <= most).then_some(self.rsrc2 | units << shift)
    }
}

/// The streams of a GPU: their options and the kernels that they can run.
#[derive(Debug)]
pub struct Streams {
    dialect: Dialect,
    least: usize,
    publication: Pm4Publication,
    /// Kernels by the addresses that dispatch packets name. A tree: with few kernels, a lookup is faster than a hash.
    kernels: RwLock<BTreeMap<u64, KernelState>>,
    /// A recording has no stream, and that was reported.
    is_missing: AtomicBool,
}

impl Streams {
    /// The streams of a GPU; none if all its recordings are packets.
    ///
    /// A GPU of several dies runs a queue on all of them, and each die runs its part of a dispatch. Each die's packet
    /// processor reads a stream, whose barriers cover only that die: nothing in the stream waits for the other dies
    /// (`tinygrad` has one more wait for each barrier in its streams, and uses AQL packets on queues that divide
    /// dispatches). Packet processors wait for each other only between packets. So these GPUs get packets.
    ///
    /// # Errors
    /// UNIMPLEMENTED when streams are required and the GPU runs none.
    pub fn choose(gpu: &AgentInfo, options: &Options) -> Result<Option<Self>> {
        let mode = options.command_buffer_mode;
        if mode == CommandBufferMode::Aql {
            return Ok(None);
        }
        let (name, dies) = (gpu.name.as_str(), gpu.dies);
        let dialect = Dialect::of(name).filter(|_| dies == 1);
        let Some(dialect) = dialect else {
            if mode == CommandBufferMode::Auto {
                return Ok(None);
            }
            let why = match Dialect::of(name) {
                None => "there are PM4 command buffers on gfx90a, gfx942, gfx11 and gfx12.0".to_owned(),
                Some(_) => format!("this partition has {dies} dies, and PM4 barriers are of one"),
            };
            return Err(status!(UNIMPLEMENTED, "option command_buffer_mode=pm4 on {name}: {why}; use aql or auto"));
        };
        let least = match mode {
            CommandBufferMode::Auto if !is_tried(name) && !options.experimental_pm4_command_buffers => return Ok(None),
            CommandBufferMode::Auto => WORTH_IT,
            CommandBufferMode::Pm4 | CommandBufferMode::Aql => 1,
        };
        let publication = options.pm4_command_buffer_publication_mode;
        let (kernels, is_missing) = (RwLock::default(), AtomicBool::new(false));
        Ok(Some(Self { dialect, least, publication, kernels, is_missing }))
    }

    /// The format of the streams.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Fewest dispatches of a stream.
    pub fn least(&self) -> usize {
        self.least
    }

    /// The publication of the streams' commands.
    pub fn publication(&self) -> Pm4Publication {
        self.publication
    }

    /// Adds kernels of a code object, by the symbols of their descriptors and the addresses that these are loaded at.
    pub fn add<'a>(&self, code: &CodeObject<'a>, kernels: impl IntoIterator<Item = (&'a Symbol<'a>, u64)>) {
        let state = |(symbol, object): (&Symbol<'_>, u64)| {
            let descriptor = code.data_at(symbol.address, symbol.size)?;
            Some((object, KernelState::new(object, descriptor)?))
        };
        self.kernels.write().extend(kernels.into_iter().filter_map(state));
    }

    /// Reports on standard error, once, that a recording is packets in place of a stream, and why.
    pub fn tell_missing(&self, status: &Status) {
        if !self.is_missing.swap(true, Ordering::Relaxed) {
            messages::emit(&format!("a command buffer is AQL packets, as there is no PM4 stream for it: {status}"));
        }
    }

    /// Removes the kernels at `objects`, which are unloaded.
    pub fn remove(&self, objects: impl IntoIterator<Item = u64>) {
        let mut kernels = self.kernels.write();
        for object in objects {
            kernels.remove(&object);
        }
    }

    /// The state of the kernel at `object` for a stream; none if a stream cannot run it.
    pub fn kernel(&self, object: u64) -> Option<KernelState> {
        self.kernels.read().get(&object).copied()
    }
}

#[cfg(test)]
mod tests {
    use amdgpu_code_object::SymbolKind;

    use super::*;

    #[test]
    fn gpus_have_streams_in_the_form_of_their_generation() {
        for (name, dialect) in [
            ("gfx906", None),
            ("gfx908", None),
            ("gfx90a", Some(Dialect::Gfx9)),
            ("gfx942", Some(Dialect::Gfx9)),
            ("gfx950", None),
            ("gfx1030", None),
            ("gfx1100", Some(Dialect::Gfx10)),
            ("gfx1151", Some(Dialect::Gfx10)),
            ("gfx1201", Some(Dialect::Gfx10)),
            ("gfx1250", None),
        ] {
            assert_eq!(Dialect::of(name), dialect, "{name}");
        }
    }

    /// A descriptor with these properties, `COMPUTE_PGM_RSRC2`, scratch and offset of the code.
    fn descriptor(properties: u16, rsrc2: u32, scratch: u32, entry: i64) -> [u8; 64] {
        let mut bytes = [0; 64];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(4, &scratch.to_le_bytes());
        put(16, &entry.to_le_bytes());
        put(44, &3_u32.to_le_bytes());
        put(48, &1_u32.to_le_bytes());
        put(52, &rsrc2.to_le_bytes());
        put(56, &properties.to_le_bytes());
        bytes
    }

    #[test]
    fn kernels_that_want_what_no_stream_has_are_left_to_packets() {
        const OBJECT: u64 = 0x7f00_0000_1040;
        let state =
            |properties, rsrc2, scratch| KernelState::new(OBJECT, &descriptor(properties, rsrc2, scratch, 0xfc0));
        let plain = state(1 << 10 | 1 << 3, 0x84, 0).expect("arguments alone");
        let expected = KernelState::for_tests(0x7f00_0000_2000, [1, 0x84, 3], true, Some(0));
        assert_eq!(plain, expected);
        let with_buffer = state(1 << 3 | 1, 0x8c, 0).expect("a buffer that nobody reads");
        assert_eq!((with_buffer.is_wave32, with_buffer.before_kernargs), (false, Some(4)));
        assert_eq!(state(0, 0x80, 0).expect("no arguments").before_kernargs, None);
        // The packet, the queue, the dispatch's id, scratch by other names, a stack that grows.
        for bit in [1, 2, 4, 5, 6, 11] {
            assert_eq!(state(1 << bit | 1 << 3, 0x84, 0), None, "{bit}");
        }
        assert_eq!(state(1 << 3, 0x84, 16), None, "scratch");
        assert_eq!(state(1 << 3, 0x85, 0), None, "scratch that the registers ask for");
        assert_eq!(KernelState::new(OBJECT, &descriptor(1 << 3, 0x84, 0, 0xfc4)), None, "code at no such address");
        assert_eq!(KernelState::new(OBJECT, &[0; 16]), None, "a part of a descriptor");
    }

    #[test]
    fn lds_is_counted_in_units() {
        let state = KernelState::for_tests(0, [0; 3], true, None);
        assert_eq!(state.rsrc2(0), Some(TRAP_PRESENT));
        assert_eq!(state.rsrc2(1), Some(TRAP_PRESENT | 1 << 15));
        assert_eq!(state.rsrc2(65_536), Some(TRAP_PRESENT | 128 << 15));
        assert_eq!(state.rsrc2(65_537), None, "more than a workgroup has");
    }

    /// Each kernel is visited once, and not searched for among the symbols of its code object, of which there are none
    /// here: the search took 1.7 s for 4,000 kernels.
    #[test]
    fn kernels_are_added_without_a_search() {
        const COUNT: usize = 4_000;
        let mut code = CodeObject::parse(include_bytes!("../../../tests/testdata/kernels.gfx1100.co")).unwrap();
        let symbols = std::mem::take(&mut code.symbols);
        let kernel = symbols.iter().find(|symbol| symbol.kind == SymbolKind::Kernel).expect("a kernel");
        let streams = Streams {
            dialect: Dialect::Gfx10,
            least: 1,
            publication: Pm4Publication::Copy,
            kernels: RwLock::default(),
            is_missing: AtomicBool::new(false),
        };
        let mut visited = 0;
        let objects = (0..COUNT as u64).map(|index| kernel.address + 256 * index);
        streams.add(&code, objects.map(|object| (kernel, object)).inspect(|_| visited += 1));
        assert_eq!((visited, streams.kernels.read().len()), (COUNT, COUNT));
    }
}
