// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host code of hot programs, by templates: docs/design/jit.md.
//!
//! A block is a straight line of micro-operations. Its code keeps all state in the [`Wave`], as the interpreter does,
//! and calls the handler of each op that has no template. So the interpreter may take over, or give way, between any
//! two ops.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod access;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod emit;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod matrix;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod moves;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod scalar;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod vector;

use crate::exec::{self, Way};
use crate::fault::Access;
use crate::micro_op::{MicroOp, Stop};
use crate::wave::{Group, Row, Wave};
use sim_isa::{Format, Target};
use std::any::Any;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use std::mem::MaybeUninit;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Use of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jit {
    when: When,
    /// AVX-512 is not used, if the CPU has it.
    is_narrow: bool,
}

/// The programs that are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    Hot,
    Always,
    Checked,
}

impl Jit {
    /// The interpreter alone.
    pub const OFF: Self = Self::of(When::Never);
    /// Programs that run for long are compiled, if this host can run their code.
    pub const ON: Self = Self::of(When::Hot);
    /// All programs are compiled.
    pub const ALWAYS: Self = Self::of(When::Always);
    /// All programs are compiled, and each block also runs in the interpreter; a difference is a fault.
    pub const CHECK: Self = Self::of(When::Checked);

    const fn of(when: When) -> Self {
        Jit { when, is_narrow: false }
    }

    /// This use of compiled code, with AVX2 instead of AVX-512.
    pub fn with_avx2(self) -> Self {
        Jit { is_narrow: true, ..self }
    }

    /// The use of compiled code on this host where nothing else is asked for: [`Self::ON`] if the host can run it.
    pub fn of_host() -> Self {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if emit::width(false).is_some() {
            return Self::ON;
        }
        Self::OFF
    }

    /// The value of `HSA_SIM_JIT`, if it is one.
    pub fn parse(value: &str) -> Option<Self> {
        if let Some(value) = value.strip_suffix(",avx2") {
            return Some(Self::parse(value)?.with_avx2());
        }
        Some(match value {
            "0" => Self::OFF,
            "1" => Self::ON,
            "always" => Self::ALWAYS,
            "check" => Self::CHECK,
            _ => return None,
        })
    }

    pub(crate) fn is_off(self) -> bool {
        self.when == When::Never
    }

    /// Compares compiled code with the interpreter.
    pub(crate) fn is_checked(self) -> bool {
        self.when == When::Checked
    }

    /// Compiles programs before they run.
    pub(crate) fn is_eager(self) -> bool {
        matches!(self.when, When::Always | When::Checked)
    }

    pub(crate) fn is_narrow(self) -> bool {
        self.is_narrow
    }
}

/// Counts of the programs that this process has compiled.
#[derive(Debug, Default)]
pub struct Totals {
    /// Programs: a kernel's, and that of the functions beside it.
    pub kernels: AtomicU64,
    /// Micro-operations of these.
    pub ops: AtomicU64,
    /// Bytes of their code.
    pub bytes: AtomicU64,
    /// Nanoseconds that compiling took.
    pub ns: AtomicU64,
}

/// Counts since the process began.
pub static TOTALS: Totals =
    Totals { kernels: AtomicU64::new(0), ops: AtomicU64::new(0), bytes: AtomicU64::new(0), ns: AtomicU64::new(0) };

/// Code of a block, with the calling convention of System V: returns whether an op has stopped the wave, for the reason
/// in the context.
type Block<const L: usize> = unsafe extern "C" fn(&mut Wave<L>, &mut Group<'_>, *mut Row<L>, &mut Context<'_>) -> bool;

/// Places that a block's code knows at a time besides those that the wave keeps.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const LOCAL: usize = 16;

/// State of a block's code besides the wave's.
#[repr(C)]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
pub(crate) struct Context<'a> {
    stop: Option<Stop>,
    /// The payload of a handler's panic.
    panic: Option<Box<dyn Any + Send>>,
    /// The memory's generation.
    generation: &'a AtomicU64,
    /// Private memory of the wave, and its bytes for each lane.
    scratch: *mut u8,
    private_size: u32,
    /// A mask of the second and fourth four of 16 lanes.
    second_quads: u16,
    /// The bit of each lane in its half of a mask.
    lane_bits: [u32; 32],
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    places: [MaybeUninit<access::Place>; LOCAL],
}

impl<'a> Context<'a> {
    pub fn new<const L: usize>(wave: &mut Wave<L>, group: &Group<'a>) -> Self {
        Context {
            stop: None,
            panic: None,
            generation: group.memory.generation(),
            scratch: wave.scratch.as_mut_ptr().cast(),
            private_size: group.private_size,
            second_quads: 0xf0f0,
            lane_bits: std::array::from_fn(|lane| 1 << lane),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            places: [const { MaybeUninit::uninit() }; LOCAL],
        }
    }

    /// Why an op has stopped the wave. A panic of its handler goes on here: compiled code cannot be unwound.
    pub fn stop(&mut self) -> Stop {
        if let Some(panic) = self.panic.take() {
            std::panic::resume_unwind(panic);
        }
        self.stop.take().unwrap_or(Stop::Yield)
    }
}

/// Executes `count` ops from `op` on, for code without a template of them. Returns whether one has stopped the wave.
///
/// # Safety
/// `op` is the first of as many, which are those from [`Wave::next`] on, and this CPU has the level of their handlers.
unsafe extern "C" fn interpret<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: *const MicroOp<L>,
    count: usize,
    context: &mut Context<'_>,
) -> bool {
    // The wave is not used after a panic.
    let step = std::panic::catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by this function's contract.
        unsafe { std::slice::from_raw_parts(op, count) }.iter().try_for_each(|op| {
            wave.next += 1;
            wave.count += u64::from(op.count);
            // SAFETY: by this function's contract.
            unsafe { (op.run)(wave, group, op) }
        })
    }));
    match step {
        Ok(Ok(())) => return false,
        Ok(Err(stop)) => context.stop = Some(stop),
        Err(panic) => context.panic = Some(panic),
    }
    true
}

/// The parts of a program that code is made from.
#[derive(Clone, Copy)]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
pub(crate) struct Source<'a, const L: usize> {
    pub ops: &'a [MicroOp<L>],
    /// Micro-operation that waves begin with.
    pub entry: u32,
    /// Micro-operation that the wave goes on with for which the program is compiled.
    pub from: u32,
    /// Constants that vector instructions read in the rows from `first_constant` on.
    pub constants: &'a [u32],
    pub first_constant: usize,
    pub target: Target,
    /// The code is for AVX2.
    pub is_narrow: bool,
    /// Vector registers of a wave that runs the program: hints where its addresses lead.
    pub rows: &'a [Row<L>],
}

/// Executed micro-operations of a program, for each one that it has, after which it is compiled.
const WARM: u64 = 16;

/// Micro-operations of a program that are compiled at most. A larger program holds functions that are called by
/// registers, as RCCL's kernel has all of its collectives: millions of ops, which take half a minute.
const MOST: usize = 1 << 16;

/// Backward branches after which a wave of a program that is not compiled looks whether it is now.
pub(crate) const LOOK: u32 = 64;

/// The compiled code of a program, if it has any.
pub(crate) struct Compiled<const L: usize> {
    /// Instructions executed before it was compiled.
    executed: AtomicU64,
    /// A thread compiles it: the others interpret it meanwhile.
    is_under_way: AtomicBool,
    code: OnceLock<Option<Blocks<L>>>,
}

impl<const L: usize> Default for Compiled<L> {
    fn default() -> Self {
        Compiled { executed: AtomicU64::new(0), is_under_way: AtomicBool::new(false), code: OnceLock::new() }
    }
}

impl<const L: usize> Compiled<L> {
    /// The code, if the program is compiled.
    pub fn get(&self) -> Option<&Blocks<L>> {
        self.code.get()?.as_ref()
    }

    /// Counts instructions that the interpreter has executed, and compiles the program if these are many. Returns
    /// whether it has been tried to compile it.
    pub fn heat(&self, program: Source<'_, L>, instructions: u64) -> bool {
        // Relaxed: a hint.
        let executed = self.executed.fetch_add(instructions, Ordering::Relaxed) + instructions;
        if self.code.get().is_some() {
            return true;
        }
        // Relaxed: the code is published by the cell.
        let is_hot =
            executed > WARM * program.ops.len().min(MOST) as u64 && !self.is_under_way.swap(true, Ordering::Relaxed);
        if is_hot {
            self.compile(program, false);
        }
        is_hot
    }

    /// Compiles the program unless it has been. `apart`: ops without a template end a block.
    pub fn compile(&self, program: Source<'_, L>, apart: bool) -> Option<&Blocks<L>> {
        let compile = || {
            let start = Instant::now();
            let blocks = Blocks::new(program, apart)?;
            // Relaxed: counts alone.
            for (total, add) in [
                (&TOTALS.kernels, 1),
                (&TOTALS.ops, blocks.ops),
                (&TOTALS.bytes, blocks.size()),
                (&TOTALS.ns, start.elapsed().as_nanos() as u64),
            ] {
                total.fetch_add(add, Ordering::Relaxed);
            }
            Some(blocks)
        };
        self.code.get_or_init(compile).as_ref()
    }
}

/// Marks micro-operations where no block starts.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const NONE: u32 = u32::MAX;

/// The code of a program's blocks.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
pub(crate) struct Blocks<const L: usize> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    code: sim_jit::Code,
    /// Offsets in the code of the block that starts with a micro-operation: with all lanes active, and with some.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    starts: Vec<[u32; 2]>,
    /// The first of these micro-operations.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    first: u32,
    /// Number of micro-operations that were compiled.
    ops: u64,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl<const L: usize> Blocks<L> {
    /// Compiles a program. `None` if this host cannot run the code, or there would be none.
    fn new(program: Source<'_, L>, apart: bool) -> Option<Self> {
        let emit::Emitted { code, starts, first, ops } = emit::compile(program, apart)?;
        Some(Blocks { code: sim_jit::Code::new(&code).ok()?, starts, first, ops })
    }

    /// Bytes of code.
    fn size(&self) -> u64 {
        self.code.size() as u64
    }

    /// The block that starts with a micro-operation, for a wave in this state.
    #[inline(always)]
    pub fn at(&self, at: u32, wave: &Wave<L>) -> Option<Block<L>> {
        let start = self.starts.get(at.wrapping_sub(self.first) as usize)?[usize::from(!wave.full)];
        if start == NONE || wave.flush32 {
            return None;
        }
        // SAFETY: `emit::compile` put a function of this type there.
        Some(unsafe { std::mem::transmute::<*const u8, Block<L>>(self.code.at(start as usize)) })
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
impl<const L: usize> Blocks<L> {
    fn new(_: Source<'_, L>, _: bool) -> Option<Self> {
        None
    }

    fn size(&self) -> u64 {
        0
    }

    #[inline(always)]
    pub fn at(&self, _: u32, _: &Wave<L>) -> Option<Block<L>> {
        None
    }
}

/// State of a wave that blocks without calls can change.
struct State<const L: usize> {
    v: Vec<Row<L>>,
    s: Vec<u32>,
    scc: bool,
    next: u32,
    count: u64,
    global_accesses: u64,
}

impl<const L: usize> State<L> {
    fn of(wave: &Wave<L>) -> Self {
        let &Wave { ref v, s, scc, next, count, global_accesses, .. } = wave;
        State { v: v.clone(), s: s.to_vec(), scc, next, count, global_accesses }
    }

    fn restore(self, wave: &mut Wave<L>) {
        wave.v = self.v;
        wave.s.copy_from_slice(&self.s);
        (wave.scc, wave.next, wave.count) = (self.scc, self.next, self.count);
        wave.global_accesses = self.global_accesses;
    }

    /// The first difference. `any_nan`: not one between two NaNs.
    fn difference(&self, other: &Self, any_nan: bool) -> Option<String> {
        let is_nan = |bits: u32| any_nan && f32::from_bits(bits).is_nan();
        let differs = |mine: u32, theirs: u32| mine != theirs && !(is_nan(mine) && is_nan(theirs));
        for (n, (mine, theirs)) in self.v.iter().zip(&other.v).enumerate() {
            if let Some(lane) = (0..L).find(|&lane| differs(mine.0[lane], theirs.0[lane])) {
                return Some(format!("v{n} lane {lane}: {:#x}, expected {:#x}", mine.0[lane], theirs.0[lane]));
            }
        }
        if let Some(n) = (0..self.s.len()).find(|&n| self.s[n] != other.s[n]) {
            return Some(format!("s{n}: {:#x}, expected {:#x}", self.s[n], other.s[n]));
        }
        let rest = |state: &Self| (state.scc, state.next, state.count, state.global_accesses);
        (rest(self) != rest(other)).then(|| format!("{:?}, expected {:?}", rest(self), rest(other)))
    }
}

/// The bytes that an op stores to, as they are now; none if it stores nothing.
fn stored<const L: usize>(op: &MicroOp<L>, wave: &mut Wave<L>, group: &mut Group<'_>) -> Vec<u8> {
    let Some(code) = op.code.filter(|code| code.name().contains("_store_")) else { return Vec::new() };
    let format = code.info().encodings[0].format;
    match format {
        Format::Ds => return group.lds.clone(),
        Format::Scratch => return wave.scratch.iter().flat_map(|row| row.0).flat_map(u32::to_le_bytes).collect(),
        _ => {}
    }
    let bits = code.name().split('_').find_map(|part| part.strip_prefix('b')?.parse::<u32>().ok());
    let size = bits.unwrap_or(0) / 8;
    let mut bytes = Vec::new();
    let reach = exec::reach(format, Way::Plain, wave, group, op, size);
    for lane in exec::lanes_of(reach.map_or(0, |reach| reach.memory)) {
        if let Ok(host) = group.memory.check(wave.addresses[lane], size, Access::Read, lane) {
            // SAFETY: `check` found `size` bytes from here on readable.
            bytes.extend((0..size as usize).map(|n| unsafe { (host as *const u8).add(n).read_volatile() }));
        }
    }
    bytes
}

/// Runs a block without calls, and the same ops in the interpreter, whose results stay. Returns why one of these has
/// stopped the wave.
///
/// # Errors
/// The first difference.
pub(crate) fn check<const L: usize>(
    ops: &[MicroOp<L>],
    run: Block<L>,
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
) -> Result<Option<Stop>, String> {
    let before = State::of(wave);
    let first = wave.next as usize;
    let rows = wave.v.as_mut_ptr();
    let mut context = Context::new(wave, group);
    // SAFETY: the code is of this program, and `rows` are the wave's.
    let stopped = unsafe { run(wave, group, rows, &mut context) };
    let compiled = State::of(wave);
    before.restore(wave);
    let ops = &ops[first..(compiled.next as usize).max(first)];
    // A store has a block of its own.
    let bytes = ops.first().map(|op| stored(op, wave, group));
    let mut context = Context::new(wave, group);
    // SAFETY: these are the ops from `next` on; handlers were selected for a level that this CPU has.
    let expected = unsafe { interpret(wave, group, ops.as_ptr(), ops.len(), &mut context) } || ops.is_empty();
    let names: Vec<_> = ops.iter().filter_map(|op| op.code).map(|code| code.name()).collect();
    // The NaN that wins in a sum, product or FMA depends on how a handler was compiled: Rust leaves it open.
    let is_float = |op: &MicroOp<L>| op.code.is_some_and(|code| code.name().ends_with("_f32"));
    if bytes != ops.first().map(|op| stored(op, wave, group)) {
        return Err(format!("compiled code of {names:?} stores other bytes"));
    }
    match compiled.difference(&State::of(wave), ops.iter().any(is_float)) {
        None if stopped == expected => Ok(expected.then(|| context.stop())),
        None => Err(format!("compiled code of {names:?} has stopped, or not")),
        Some(difference) => Err(format!("compiled code of {names:?}: {difference}")),
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::exec::Level;
    use crate::memory::{Memory, Region, Translator};
    use crate::micro_op::Step;
    use crate::observer::NoObserver;
    use crate::operand::Registers;
    use crate::program::Program;
    use crate::translate::translate;

    struct Nothing(AtomicU64);

    impl Memory for Nothing {
        fn region(&self, _: u64) -> Option<Region> {
            None
        }

        fn generation(&self) -> &AtomicU64 {
            &self.0
        }
    }

    fn panics(_: &mut Wave<32>, _: &mut Group<'_>, _: &MicroOp<32>) -> Step {
        panic!("a handler's panic");
    }

    /// Runs a turn of a wave from the program's entry on, with compiled code.
    fn turn(program: &Program<32>) -> (Wave<32>, std::thread::Result<Stop>) {
        let memory = Nothing(AtomicU64::new(0));
        let mut group = Group {
            memory: Translator::new(&memory),
            lds: Vec::new(),
            beyond_lds: [0; 16],
            code_base: 0,
            private_size: 0,
            waves: 1,
            arrived: 0,
            named: Vec::new(),
            gws: None,
            target: Target::Gfx11,
        };
        let mut wave = Wave::new(4, 0);
        wave.set_constants(&program.constants);
        wave.set_exec(u64::MAX);
        let run = || program.run_slice(&mut wave, &mut group, 0, 1, &mut NoObserver(Jit::ALWAYS));
        let stop = std::panic::catch_unwind(AssertUnwindSafe(run));
        (wave, stop)
    }

    fn program(code: &[u32]) -> Program<32> {
        let code: Vec<_> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers { vector: 4, accumulation: 0 };
        translate::<32>(Target::Gfx11, 0, &code, 0, registers, Level::detect())
    }

    #[test]
    fn a_panic_of_a_handler_passes_through_compiled_code() {
        // v_mov_b32 v0, v1; v_exp_f32 v1, v0; s_endpgm
        let mut program = program(&[0x7e00_0301, 0x7e02_4b00, 0xbfb0_0000]);
        program.ops[1].run = panics;
        let (wave, stop) = turn(&program);
        assert_eq!(stop.unwrap_err().downcast_ref(), Some(&"a handler's panic"));
        // The code ran up to the handler.
        assert_eq!((wave.next, wave.count), (2, 2));
    }

    #[test]
    fn functions_that_a_wave_of_a_large_program_cannot_branch_to_are_not_compiled() {
        // v_mov_b32 v0, v1; s_cbranch_scc0 back to it; s_setpc_b64 s[2:3]; v_mov_b32 v0, v1; ...
        let mut code = vec![0x7e00_0301, 0xbfa1_fffe, 0xbe80_4802];
        code.resize(code.len() + MOST, 0x7e00_0301);
        let program = program(&code);
        let (wave, stop) = turn(&program);
        assert!(matches!(stop.unwrap(), Stop::Yield) && wave.next == 0);
        let blocks = program.compiled.get().unwrap();
        assert!(blocks.at(0, &wave).is_some() && blocks.at(3, &wave).is_none());
        assert_eq!(blocks.ops, 3);
    }

    #[test]
    fn a_large_program_is_compiled_in_part() {
        let program = program(&vec![0x7e00_0301; MOST + 9]);
        let (wave, _) = turn(&program);
        let blocks = program.compiled.get().unwrap();
        assert!(blocks.at(0, &wave).is_some());
        assert_eq!(blocks.ops, MOST as u64);
    }
}
