// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host code of hot programs, by templates: docs/design/jit.md.
//!
//! A block is a straight line of micro-operations. Its code keeps all state in the [`Wave`], as the interpreter does,
//! and calls the handler of each op that has no template. So the interpreter may take over, or give way, between any
//! two ops.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod emit;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod scalar;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod vector;

use crate::micro_op::{MicroOp, Stop};
use crate::wave::{Group, Row, Wave};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Use of compiled code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// The interpreter alone.
    #[default]
    Off,
    /// Programs that run for long are compiled.
    On,
    /// All programs are compiled.
    Always,
    /// All programs are compiled, and each block also runs in the interpreter; a difference is a fault.
    Check,
}

/// Code of a block: returns whether an op has stopped the wave, for the reason in the context.
type Block<const L: usize> = unsafe extern "sysv64" fn(&mut Wave<L>, &mut Group<'_>, *mut Row<L>, &mut Context) -> bool;

/// Results of a block's code besides the wave's state.
#[derive(Default)]
pub(crate) struct Context {
    pub stop: Option<Stop>,
}

/// Executes `count` ops from `op` on, for code without a template of them. Returns whether one has stopped the wave.
///
/// # Safety
/// `op` is the first of as many, which are those from [`Wave::next`] on, and this CPU has the level of their handlers.
unsafe extern "sysv64" fn interpret<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: *const MicroOp<L>,
    count: usize,
    context: &mut Context,
) -> bool {
    // SAFETY: by this function's contract.
    for op in unsafe { std::slice::from_raw_parts(op, count) } {
        wave.next += 1;
        wave.count += u64::from(op.count);
        // SAFETY: by this function's contract.
        if let Err(stop) = unsafe { (op.run)(wave, group, op) } {
            context.stop = Some(stop);
            return true;
        }
    }
    false
}

/// The parts of a program that code is made from.
#[derive(Clone, Copy)]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
pub(crate) struct Source<'a, const L: usize> {
    pub ops: &'a [MicroOp<L>],
    /// Micro-operation that waves begin with.
    pub entry: u32,
    /// Constants that vector instructions read in the rows from `first_constant` on.
    pub constants: &'a [u32],
    pub first_constant: usize,
}

/// Executed micro-operations of a program, for each one that it has, after which it is compiled.
const WARM: u64 = 16;

/// Backward branches after which a wave of a program that is not compiled looks whether it is now.
pub(crate) const LOOK: u32 = 64;

/// The compiled code of a program, if it has any.
pub(crate) struct Compiled<const L: usize> {
    /// Instructions executed before it was compiled.
    executed: AtomicU64,
    code: OnceLock<Option<Blocks<L>>>,
}

impl<const L: usize> Default for Compiled<L> {
    fn default() -> Self {
        Compiled { executed: AtomicU64::new(0), code: OnceLock::new() }
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
        let is_hot = executed > WARM * program.ops.len() as u64;
        if is_hot {
            self.compile(program, false);
        }
        is_hot
    }

    /// Compiles the program unless it has been. `apart`: ops without a template end a block.
    pub fn compile(&self, program: Source<'_, L>, apart: bool) -> Option<&Blocks<L>> {
        self.code.get_or_init(|| Blocks::new(program, apart)).as_ref()
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
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl<const L: usize> Blocks<L> {
    /// Compiles a program. `None` if this host cannot run the code, or there would be none.
    fn new(program: Source<'_, L>, apart: bool) -> Option<Self> {
        let (code, starts) = emit::compile(program, apart)?;
        Some(Blocks { code: sim_jit::Code::new(&code).ok()?, starts })
    }

    /// The block that starts with a micro-operation, for a wave in this state.
    #[inline(always)]
    pub fn at(&self, at: u32, wave: &Wave<L>) -> Option<Block<L>> {
        let start = self.starts[at as usize][usize::from(!wave.full)];
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
}

impl<const L: usize> State<L> {
    fn of(wave: &Wave<L>) -> Self {
        let Wave { v, s, scc, next, count, .. } = wave;
        State { v: v.clone(), s: s.to_vec(), scc: *scc, next: *next, count: *count }
    }

    fn restore(self, wave: &mut Wave<L>) {
        wave.v = self.v;
        wave.s.copy_from_slice(&self.s);
        (wave.scc, wave.next, wave.count) = (self.scc, self.next, self.count);
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
        let rest = |state: &Self| (state.scc, state.next, state.count);
        (rest(self) != rest(other)).then(|| format!("{:?}, expected {:?}", rest(self), rest(other)))
    }
}

/// Runs a block without calls, and the same ops in the interpreter, whose results stay.
///
/// # Errors
/// The first difference.
pub(crate) fn check<const L: usize>(
    ops: &[MicroOp<L>],
    run: Block<L>,
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
) -> Result<(), String> {
    let before = State::of(wave);
    let first = wave.next as usize;
    let rows = wave.v.as_mut_ptr();
    // SAFETY: the code is of this program, and `rows` are the wave's.
    let stopped = unsafe { run(wave, group, rows, &mut Context::default()) };
    let compiled = State::of(wave);
    before.restore(wave);
    let ops = &ops[first..(compiled.next as usize).max(first)];
    // SAFETY: these are the ops from `next` on; handlers were selected for a level that this CPU has.
    let expected =
        unsafe { interpret(wave, group, ops.as_ptr(), ops.len(), &mut Context::default()) } || ops.is_empty();
    let names: Vec<_> = ops.iter().filter_map(|op| op.code).map(|code| code.name()).collect();
    // The NaN that wins in a sum, product or FMA depends on how a handler was compiled: Rust leaves it open.
    let is_float = |op: &MicroOp<L>| op.code.is_some_and(|code| code.name().ends_with("_f32"));
    match compiled.difference(&State::of(wave), ops.iter().any(is_float)) {
        None if stopped == expected => Ok(()),
        None => Err(format!("compiled code of {names:?} has stopped, or not")),
        Some(difference) => Err(format!("compiled code of {names:?}: {difference}")),
    }
}
