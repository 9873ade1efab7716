// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Test cases: instructions, the state before, and the state that must be there after.

use random::Random;
use sim_isa::{Format, Op, Target, decode};
use sim_llvm::assemble;
use sim_wave::{FaultKind, Jit, Memory, Probe, Region, Run, is_implemented};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

/// VGPRs that cases may use.
pub const VGPRS: usize = 64;
/// Operand code of VCC_LO.
pub const VCC: usize = 106;
/// Operand code of M0.
pub const M0: usize = 125;
/// Operand code of EXEC_HI, a plain register in wave32.
pub const EXEC_HI: usize = 127;
/// MODE with denormals kept, DX10_CLAMP and IEEE.
pub const MODE: u32 = 0x3f0;
/// Bytes of scratch in each lane.
pub const SCRATCH: u32 = 256;

/// Machine of a case: a target, and the lanes of its waves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub target: Target,
    pub lanes: usize,
}

impl Machine {
    /// True if floats of 8 bits are those of the Open Compute Project.
    pub fn has_ocp_floats(self) -> bool {
        self.target.is_gfx12() || self.target == Target::Gfx950
    }

    /// True if the target is of the GFX9 family.
    pub fn gfx9(self) -> bool {
        self.target.is_gfx9()
    }

    /// True if the target has no names for halves of VGPRs, lane crossing in the short encodings only, and SDWA there.
    pub fn before_gfx11(self) -> bool {
        self.target.is_before_gfx11()
    }

    /// True if the target has the op.
    pub fn has(self, op: Op) -> bool {
        op.encodings(self.target).next().is_some()
    }

    /// True if waves have 64 lanes.
    pub fn wave64(self) -> bool {
        self.lanes == 64
    }

    /// The lane mask in SGPR `n`, and the one after it in wave64.
    pub fn mask(self, n: usize) -> String {
        if self.wave64() { format!("s[{n}:{}]", n + 1) } else { format!("s{n}") }
    }

    /// The lane mask VCC.
    pub fn vcc(self) -> &'static str {
        if self.wave64() { "vcc" } else { "vcc_lo" }
    }
}

/// The scalar registers of a [`State`].
fn scalars(lanes: usize) -> impl Iterator<Item = usize> {
    (0..108).chain([M0]).chain((lanes == 32).then_some(EXEC_HI))
}

/// One register of all lanes; in wave32 only the first 32 count.
pub type Lanes = [u32; 64];

/// All that an instruction can read or change.
#[derive(Clone)]
pub struct State {
    pub target: Target,
    pub lanes: usize,
    pub v: Vec<Lanes>,
    /// SGPRs, VCC, M0 and EXEC_HI at their operand codes.
    pub s: [u32; 128],
    pub exec: u64,
    pub scc: bool,
    pub mode: u32,
    pub lds: Vec<u8>,
    /// Mapped memory; its address is [`State::address`] as long as it is not reallocated.
    pub memory: Vec<u8>,
}

impl State {
    /// Random registers, every lane active or some of them.
    pub fn random(machine: Machine, random: &mut Random) -> State {
        let lanes = machine.lanes;
        let mut state = State {
            target: machine.target,
            lanes,
            v: (0..VGPRS).map(|_| std::array::from_fn(|_| random.next())).collect(),
            s: [0; 128],
            exec: u64::MAX >> (64 - lanes),
            scc: random.one_in(2),
            mode: MODE,
            lds: Vec::new(),
            memory: Vec::new(),
        };
        for n in scalars(lanes) {
            state.s[n] = random.next();
        }
        if random.one_in(2) {
            state.exec &= u64::from(random.next()) | u64::from(random.next()) << 32;
        }
        state
    }

    /// Becomes another state, with the same address of memory.
    pub fn restore(&mut self, other: &State) {
        let mut memory = std::mem::take(&mut self.memory);
        memory.copy_from_slice(&other.memory);
        *self = State { memory, ..other.clone() };
    }

    /// True if a lane is active.
    pub fn active(&self, lane: usize) -> bool {
        self.exec >> lane & 1 != 0
    }

    /// The lanes.
    pub fn lanes(&self) -> std::ops::Range<usize> {
        0..self.lanes
    }

    /// The active lanes.
    pub fn active_lanes(&self) -> impl Iterator<Item = usize> + use<> {
        let exec = self.exec;
        self.lanes().filter(move |lane| exec >> lane & 1 != 0)
    }

    /// The lane mask in SGPR `n`, and the one after it in wave64.
    pub fn mask(&self, n: usize) -> u64 {
        if self.lanes == 64 { self.s64(n) } else { self.s[n].into() }
    }

    pub fn set_mask(&mut self, n: usize, value: u64) {
        self.s[n] = value as u32;
        if self.lanes == 64 {
            self.s[n + 1] = (value >> 32) as u32;
        }
    }

    /// Two SGPRs.
    pub fn s64(&self, n: usize) -> u64 {
        u64::from(self.s[n]) | u64::from(self.s[n + 1]) << 32
    }

    pub fn set_s64(&mut self, n: usize, value: u64) {
        self.s[n] = value as u32;
        self.s[n + 1] = (value >> 32) as u32;
    }

    /// Two VGPRs of a lane.
    pub fn v64(&self, n: usize, lane: usize) -> u64 {
        u64::from(self.v[n][lane]) | u64::from(self.v[n + 1][lane]) << 32
    }

    pub fn set_v64(&mut self, n: usize, lane: usize, value: u64) {
        self.v[n][lane] = value as u32;
        self.v[n + 1][lane] = (value >> 32) as u32;
    }
}

/// How a float register is compared: NaNs are all alike, and approximations may be some units in the last place off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Float {
    /// The given halves of the register: 1 low, 2 high, 3 both.
    F16(u8),
    Bf16(u8),
    F32,
    F64,
}

/// An instruction and its expected effect.
pub struct Case {
    /// Assembly, one instruction a line.
    pub text: String,
    pub before: State,
    pub after: State,
    /// VGPRs that hold floats.
    pub floats: Vec<(usize, Float)>,
    /// Units in the last place by which floats may differ.
    pub ulps: u64,
    /// LLVM may refuse the text: not every op has every modifier.
    pub optional: bool,
}

impl Case {
    pub fn new(text: impl Into<String>, before: State, after: State) -> Case {
        Case { text: text.into(), before, after, floats: Vec::new(), ulps: 0, optional: false }
    }
}

struct Block(Region);

impl Memory for Block {
    fn region(&self, addr: u64) -> Option<Region> {
        (addr.wrapping_sub(self.0.base) < self.0.size).then_some(self.0)
    }

    fn generation(&self) -> &AtomicU64 {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        &NEVER
    }
}

/// Machines of all cases: each target, and each size of its waves in some generation.
pub const MACHINES: [Machine; 14] = [
    Machine { target: Target::Gfx11, lanes: 32 },
    Machine { target: Target::Gfx11, lanes: 64 },
    Machine { target: Target::Gfx1150, lanes: 32 },
    Machine { target: Target::Gfx1200, lanes: 32 },
    Machine { target: Target::Gfx1200, lanes: 64 },
    Machine { target: Target::Gfx1250, lanes: 32 },
    Machine { target: Target::Gfx900, lanes: 64 },
    Machine { target: Target::Gfx906, lanes: 64 },
    Machine { target: Target::Gfx908, lanes: 64 },
    Machine { target: Target::Gfx90a, lanes: 64 },
    Machine { target: Target::Gfx942, lanes: 64 },
    Machine { target: Target::Gfx950, lanes: 64 },
    Machine { target: Target::Gfx1010, lanes: 32 },
    Machine { target: Target::Gfx1030, lanes: 64 },
];

/// LLVM's name for a processor of the target, with the wave size if the target has a choice.
pub fn cpu(machine: Machine) -> &'static str {
    match (machine.target, machine.lanes) {
        (Target::Gfx11, 32) => "gfx1100",
        (Target::Gfx11, _) => "gfx1100,+wavefrontsize64",
        (Target::Gfx1150, _) => "gfx1151",
        (Target::Gfx1200, 32) => "gfx1201",
        (Target::Gfx1200, _) => "gfx1201,+wavefrontsize64",
        (Target::Gfx1250, _) => "gfx1250",
        (Target::Gfx900, _) => "gfx90c",
        (Target::Gfx906, _) => "gfx906",
        (Target::Gfx908, _) => "gfx908",
        (Target::Gfx90a, _) => "gfx90a",
        (Target::Gfx942, _) => "gfx942",
        (Target::Gfx950, _) => "gfx950",
        (Target::Gfx1010, 32) => "gfx1010",
        (Target::Gfx1010, _) => "gfx1010,+wavefrontsize64",
        (Target::Gfx1030, 32) => "gfx1030",
        (Target::Gfx1030, _) => "gfx1030,+wavefrontsize64",
    }
}

/// The ops that the executor claims and the target has.
pub fn implemented(machine: Machine) -> impl Iterator<Item = Op> {
    Op::all().filter(move |op| is_implemented(*op) && format(machine, *op).is_some())
}

/// The cases' machine code; `None` where an optional one is refused.
pub fn machine_code(machine: Machine, cases: &[Case]) -> Vec<Option<Vec<u32>>> {
    let lines: Vec<String> = cases.iter().flat_map(|case| case.text.lines()).map(str::to_owned).collect();
    let mut words = assemble(cpu(machine), &lines).into_iter();
    let code = cases.iter().map(|case| {
        let parts: Vec<_> = words.by_ref().take(case.text.lines().count()).collect();
        let code: Option<Vec<_>> = parts.into_iter().collect();
        assert!(code.is_some() || case.optional, "LLVM does not assemble `{}`", case.text);
        Some(code?.concat())
    });
    code.collect()
}

/// Runs the cases and fails if any state differs. Returns how many ran.
pub fn check(machine: Machine, cases: Vec<Case>) -> usize {
    let code = machine_code(machine, &cases);
    check_code(machine, cases, code)
}

/// [`check`] with other machine code than LLVM's.
pub fn check_code(machine: Machine, cases: Vec<Case>, code: Vec<Option<Vec<u32>>>) -> usize {
    let mut wrong = Vec::new();
    let mut ran = 0;
    for (mut case, code) in cases.into_iter().zip(code) {
        let Some(code) = code else { continue };
        ran += 1;
        // At times without the host's vector extensions, else with code for AVX-512, if it has that, and for AVX2.
        let ways = if ran % 4 == 0 { &[None][..] } else { &[Some(Jit::CHECK), Some(Jit::CHECK.with_avx2())] };
        let start = case.before.clone();
        for jit in ways {
            case.before.restore(&start);
            let result = run(machine, &mut case.before, &code, *jit);
            if case.optional && matches!(result, Err(FaultKind::NotImplemented(_))) {
                ran -= 1;
                break;
            } else if let Err(error) = result {
                wrong.push(format!("`{}` faults: {error}", case.text));
            } else if let Some(difference) = difference(&case) {
                wrong.push(format!("`{}` (exec {:#x}): {difference}", case.text, case.after.exec));
            }
        }
    }
    let shown = wrong.len().min(4000);
    assert!(wrong.is_empty(), "{} of {ran} cases are wrong:\n{}", wrong.len(), wrong[..shown].join("\n"));
    ran
}

/// Runs code on a state, in place; without the host's vector extensions if compiled code is `None`.
///
/// # Errors
/// The fault, if it ends with one.
pub fn run(machine: Machine, state: &mut State, code: &[u32], jit: Option<Jit>) -> Result<u64, FaultKind> {
    if machine.wave64() {
        run_lanes::<64>(machine.target, state, code, jit)
    } else {
        run_lanes::<32>(machine.target, state, code, jit)
    }
}

fn run_lanes<const L: usize>(
    target: Target,
    state: &mut State,
    code: &[u32],
    jit: Option<Jit>,
) -> Result<u64, FaultKind>
where
    Probe<L>: Run,
{
    let mut probe = Probe::<L>::new(SCRATCH);
    probe.jit = jit;
    for (n, lanes) in state.v.iter().enumerate() {
        probe.set_vgpr(n, std::array::from_fn(|lane| lanes[lane]));
    }
    for n in scalars(L) {
        probe.set_sgpr(n, state.s[n]);
    }
    probe.set_exec(state.exec);
    probe.set_scc(state.scc);
    probe.set_mode(state.mode);
    probe.lds = std::mem::take(&mut state.lds);
    let base = state.memory.as_ptr() as u64;
    let block = Block(Region { base, size: state.memory.len() as u64, host: base, readable: true, writable: true });
    let result = probe.run(target, code, &block);
    for (n, lanes) in state.v.iter_mut().enumerate() {
        lanes[..L].copy_from_slice(&probe.vgpr(n));
    }
    for n in scalars(L) {
        state.s[n] = probe.sgpr(n);
    }
    state.exec = probe.exec();
    state.scc = probe.scc();
    state.mode = probe.mode();
    state.lds = std::mem::take(&mut probe.lds);
    result
}

/// First difference between the state after the run (in `before`) and the expected state.
fn difference(case: &Case) -> Option<String> {
    let (is, must) = (&case.before, &case.after);
    if is.exec != must.exec || is.scc != must.scc || is.mode != must.mode {
        let show = |s: &State| format!("exec {:#x} scc {} mode {:#x}", s.exec, s.scc, s.mode);
        return Some(format!("{}, not {}", show(is), show(must)));
    }
    for n in scalars(is.lanes) {
        if is.s[n] != must.s[n] {
            return Some(format!("scalar {n} is {:#x}, not {:#x}", is.s[n], must.s[n]));
        }
    }
    for n in 0..VGPRS {
        let float =
            case.floats.iter().find(|(register, kind)| *register == n || *kind == Float::F64 && *register + 1 == n);
        for lane in is.lanes() {
            if is.v[n][lane] == must.v[n][lane] {
                continue;
            }
            let close = float.is_some_and(|(register, kind)| close(is, must, *register, *kind, lane, case.ulps));
            if !close {
                let (is, must) = (is.v[n][lane], must.v[n][lane]);
                let sources: Vec<_> =
                    [0, 1, 4, 5, 8, 9].iter().map(|r| format!("{:#x}", case.after.v[*r][lane])).collect();
                return Some(format!(
                    "v{n} lane {lane} is {is:#x}, not {must:#x}; v0 v1 v4 v5 v8 v9: {}",
                    sources.join(" ")
                ));
            }
        }
    }
    let memory = |name: &str, is: &[u8], must: &[u8]| {
        let at = (0..must.len()).find(|at| is[*at] != must[*at])?;
        Some(format!("{name} byte {at:#x} is {:#x}, not {:#x}", is[at], must[at]))
    };
    memory("LDS", &is.lds, &must.lds).or_else(|| memory("memory", &is.memory, &must.memory))
}

fn close(is: &State, must: &State, register: usize, kind: Float, lane: usize, ulps: u64) -> bool {
    let word = |s: &State| u64::from(s.v[register][lane]);
    match kind {
        Float::F64 => near(is.v64(register, lane), must.v64(register, lane), 52, 64, ulps),
        Float::F32 => near(word(is), word(must), 23, 32, ulps),
        Float::F16(halves) | Float::Bf16(halves) => (0..2).all(|half| {
            let part = |s: &State| word(s) >> (16 * half) & 0xffff;
            let mantissa = if matches!(kind, Float::Bf16(_)) { 7 } else { 10 };
            part(is) == part(must) || halves >> half & 1 != 0 && near(part(is), part(must), mantissa, 16, ulps)
        }),
    }
}

/// True if two floats of `width` bits are both NaN, or within `ulps` of each other.
fn near(a: u64, b: u64, mantissa: u32, width: u32, ulps: u64) -> bool {
    let magnitude = |x: u64| x & ((1 << (width - 1)) - 1);
    let infinity = magnitude(u64::MAX) >> mantissa << mantissa;
    let nan = |x: u64| magnitude(x) > infinity;
    let ordered = |x: u64| if x >> (width - 1) != 0 { -(magnitude(x) as i64) } else { magnitude(x) as i64 };
    if nan(a) || nan(b) { nan(a) && nan(b) } else { ordered(a).abs_diff(ordered(b)) <= ulps }
}

/// The op's shortest encoding on the target, if it has it.
pub fn format(machine: Machine, op: Op) -> Option<Format> {
    op.encodings(machine.target).next().map(|encoding| encoding.format)
}

/// The ops of the cases' instructions that LLVM takes.
pub fn ops(machine: Machine, cases: &[Case]) -> BTreeSet<Op> {
    let mut ops = BTreeSet::new();
    for code in machine_code(machine, cases).into_iter().flatten() {
        let mut rest = code.as_slice();
        while !rest.is_empty() {
            let inst = decode(machine.target, rest).unwrap_or_else(|error| panic!("{error}"));
            ops.insert(inst.op);
            ops.extend(inst.dual.map(|dual| dual.op));
            rest = &rest[usize::from(inst.size) / 4..];
        }
    }
    ops
}
