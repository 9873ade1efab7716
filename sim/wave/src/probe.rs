// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One wave without a kernel: for tests of single instructions.

use crate::exec::Level;
use crate::fault::FaultKind;
use crate::hardware::mode;
use crate::jit::Jit;
use crate::memory::{Memory, Translator};
use crate::micro_op::Stop;
use crate::observer::NoObserver;
use crate::operand::Registers;
use crate::program::BRANCH_BUDGET;
use crate::translate::translate;
use crate::wave::{Group, Named, Row, Wave};
use sim_isa::Target;

/// The registers of a probe's lanes; gfx1250 has VGPRs in place of the AGPRs.
const REGISTERS: Registers = Registers { vector: 256, accumulation: 256 };

/// Number of named barriers of the probe on gfx1250.
const NAMED_BARRIERS: usize = 8;

/// A wave of `L` lanes (32 or 64) whose registers can be set and read: 256 VGPRs and as many AGPRs, which follow them
/// in number, denormals kept, every lane active, all else zero.
pub struct Probe<const L: usize> {
    wave: Wave<L>,
    /// The group segment, as long as the probe's LDS is to be.
    pub lds: Vec<u8>,
    /// Use of compiled code. `None`: without the host's vector extensions, too, as on a CPU that has none.
    pub jit: Option<Jit>,
}

impl<const L: usize> Default for Probe<L> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<const L: usize> Probe<L> {
    /// A wave with `private_size` bytes of scratch in each lane.
    pub fn new(private_size: u32) -> Self {
        let mut wave = Wave::new(REGISTERS.total(), private_size);
        wave.set_mode(mode::DENORM_32 | mode::DENORM_16_64 | mode::DX10_CLAMP | mode::IEEE);
        wave.set_exec(u64::MAX);
        Probe { wave, lds: Vec::new(), jit: Some(Jit::CHECK) }
    }

    /// VGPR `n` of all lanes.
    pub fn vgpr(&self, n: usize) -> [u32; L] {
        self.wave.v[n].0
    }

    /// Sets VGPR `n`.
    pub fn set_vgpr(&mut self, n: usize, lanes: [u32; L]) {
        self.wave.v[n] = Row(lanes);
    }

    /// Scalar register `n`, numbered as operands are encoded: 0–105 SGPRs, 106 VCC, 125 M0, 126 EXEC.
    pub fn sgpr(&self, n: usize) -> u32 {
        self.wave.s[n]
    }

    /// Sets scalar register `n`.
    pub fn set_sgpr(&mut self, n: usize, value: u32) {
        self.wave.set_s(n, value);
    }

    /// The active lanes.
    pub fn exec(&self) -> u64 {
        self.wave.exec()
    }

    /// Sets the active lanes.
    pub fn set_exec(&mut self, exec: u64) {
        self.wave.set_exec(exec);
    }

    /// The scalar condition code.
    pub fn scc(&self) -> bool {
        self.wave.scc
    }

    /// Sets the scalar condition code.
    pub fn set_scc(&mut self, scc: bool) {
        self.wave.scc = scc;
    }

    /// The MODE register.
    pub fn mode(&self) -> u32 {
        self.wave.mode
    }

    /// Sets the MODE register: denormals in bits 4–7, DX10_CLAMP in bit 8, IEEE in bit 9.
    pub fn set_mode(&mut self, mode: u32) {
        self.wave.set_mode(mode);
    }

    fn execute(&mut self, target: Target, code: &[u32], memory: &dyn Memory) -> Result<u64, FaultKind> {
        // s_endpgm
        let end = if target.is_before_gfx11() { 0xbf81_0000 } else { 0xbfb0_0000 };
        let bytes: Vec<u8> = code.iter().chain([&end]).flat_map(|word| word.to_le_bytes()).collect();
        let level = self.jit.map_or(Level::Base, |_| Level::detect());
        let registers = match target {
            Target::Gfx1250 => Registers { vector: REGISTERS.total(), accumulation: 0 },
            _ => REGISTERS,
        };
        let program = translate::<L>(target, 0, &bytes, 0, registers, level);
        self.wave.set_constants(&program.constants);
        let mut group = Group {
            memory: Translator::new(memory),
            lds: std::mem::take(&mut self.lds),
            beyond_lds: [0; 16],
            code_base: 0,
            private_size: 4 * self.wave.scratch.len() as u32,
            waves: 1,
            arrived: 0,
            named: vec![Named::default(); if target == Target::Gfx1250 { NAMED_BARRIERS } else { 0 }],
            gws: None,
            target,
        };
        self.wave.next = program.entry;
        self.wave.count = 0;
        let jit = self.jit.unwrap_or(Jit::OFF);
        let result = loop {
            match program.run_slice(&mut self.wave, &mut group, 0, BRANCH_BUDGET, &mut NoObserver(jit)) {
                Stop::End => break Ok(self.wave.count - 1),
                Stop::Fault(kind) => break Err(*kind),
                _ => {}
            }
        };
        self.lds = group.lds;
        result
    }
}

/// Running of a probe. The executor of either wave size is compiled in this crate alone. A function of [`Probe`] for
/// any `L` would be compiled, and the executor with it, in each crate that calls it.
pub trait Run {
    /// Runs machine code at address 0 until it ends (by `s_endpgm`, or after its last instruction), and counts its
    /// instructions.
    ///
    /// # Errors
    /// The fault. Barriers are passed; leaving the code by a jump is [`FaultKind::PcOutOfRange`].
    fn run(&mut self, target: Target, code: &[u32], memory: &dyn Memory) -> Result<u64, FaultKind>;
}

impl Run for Probe<32> {
    fn run(&mut self, target: Target, code: &[u32], memory: &dyn Memory) -> Result<u64, FaultKind> {
        self.execute(target, code, memory)
    }
}

impl Run for Probe<64> {
    fn run(&mut self, target: Target, code: &[u32], memory: &dyn Memory) -> Result<u64, FaultKind> {
        self.execute(target, code, memory)
    }
}
