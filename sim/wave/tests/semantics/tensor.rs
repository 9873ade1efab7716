// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for gfx1250's tensor data mover: the elements of a tile, one after the other in LDS (CDNA5 ISA 10.11).

use crate::machine::{Case, Machine, State};
use random::Random;
use sim_isa::Target;

/// SGPRs of the descriptor's four parts.
const GROUPS: [usize; 4] = [20, 24, 32, 36];
const SIZE: usize = 8192;

/// The fields that cases choose. Sizes and strides are in elements, nearest dimension first; a tile without a dimension
/// has 0 there.
#[derive(Clone, Default)]
struct Tensor {
    /// log2 of an element's bytes.
    element: u32,
    tile: [u32; 5],
    tensor: [u32; 5],
    /// Strides of dimensions 1 to 4.
    stride: [u32; 4],
    /// The fields for the bytes between padding, and of it.
    padding: Option<(u32, u32)>,
    /// Number of repetitions, and the increment of both addresses after each.
    iterate: Option<(u32, u32, u32)>,
    /// Numbers of lines, in 16 or 32 bits.
    rows: Option<(bool, Vec<u32>)>,
    /// The state of a barrier before, at [`BARRIER`], at which the transfer arrives.
    barrier: Option<u64>,
    /// Elements at the end of a stored tile that are not in LDS.
    missing: usize,
}

/// Where in LDS the barrier is.
const BARRIER: usize = 16;

impl Tensor {
    /// Writes bits of a descriptor's part (tables 62 to 67).
    fn registers(&self, lds: u32, memory: u64) -> [u32; 20] {
        let mut bits = [false; 640];
        let mut put = |group: usize, at: usize, width: usize, value: u64| {
            let start = [0, 128, 384, 512][group] + at;
            for bit in 0..width {
                bits[start + bit] = value >> bit & 1 != 0;
            }
        };
        put(0, 0, 2, 1);
        put(0, 32, 32, lds.into());
        put(0, 64, 57, memory);
        put(0, 126, 2, 2);
        put(1, 16, 2, self.element.into());
        if let Some((interval, amount)) = self.padding {
            put(1, 20, 1, 1);
            put(1, 22, 3, interval.into());
            put(1, 25, 7, amount.into());
        }
        if self.barrier.is_some() {
            put(1, 18, 1, 1);
            put(1, 32, 16, BARRIER as u64 / 8);
        }
        put(1, 48, 32, self.tensor[0].into());
        put(1, 80, 32, self.tensor[1].into());
        put(1, 112, 16, self.tile[0].into());
        put(1, 128, 16, self.tile[1].into());
        put(1, 144, 16, self.tile[2].into());
        put(1, 160, 48, self.stride[0].into());
        put(1, 208, 48, self.stride[1].into());
        if let Some((wide, rows)) = &self.rows {
            put(0, 31, 1, 1);
            put(0, 30, 1, (*wide).into());
            let width = if *wide { 32 } else { 16 };
            for (n, row) in rows.iter().enumerate() {
                put(2 + n * width / 128, n * width % 128, width, (*row).into());
            }
        } else {
            put(2, 0, 32, self.tensor[2].into());
            if let Some((count, lds_step, memory_step)) = self.iterate {
                put(1, 19, 1, 1);
                put(2, 32, 32, lds_step.into());
                put(2, 64, 48, memory_step.into());
                put(2, 112, 16, (count - 1).into());
            } else {
                put(2, 32, 32, self.tensor[3].into());
                put(2, 64, 48, self.stride[2].into());
                put(2, 112, 16, self.tile[3].into());
                put(3, 0, 48, self.stride[3].into());
                put(3, 48, 32, self.tensor[4].into());
                put(3, 80, 16, self.tile[4].into());
            }
        }
        std::array::from_fn(|n| (0..32).map(|bit| u32::from(bits[32 * n + bit]) << bit).sum())
    }

    fn case(&self, machine: Machine, stores: bool, parts: usize, random: &mut Random) -> Case {
        let mut before = State::random(machine, random);
        before.memory = (0..SIZE).map(|_| random.next() as u8).collect();
        before.lds = (0..SIZE).map(|_| random.next() as u8).collect();
        let start = match self.missing {
            0 => 64,
            missing => SIZE - (((self.tile[0] * self.tile[1]) as usize - missing) << self.element),
        };
        if let Some(state) = self.barrier {
            before.lds[BARRIER..BARRIER + 8].copy_from_slice(&state.to_le_bytes());
        }
        let registers = self.registers(start as u32, before.memory.as_ptr() as u64);
        for (group, range) in GROUPS.into_iter().zip([0..4, 4..12, 12..16, 16..20]).take(parts) {
            before.s[group..group + range.len()].copy_from_slice(&registers[range]);
        }
        let mut after = before.clone();
        let bytes = 1 << self.element;
        let (repeats, lds_step, memory_step) = self.iterate.unwrap_or((1, 0, 0));
        for turn in 0..repeats as usize {
            let mut local = start + turn * lds_step as usize * bytes;
            let mut written = 0;
            let count = |d: usize| self.tile[d].max(1);
            let lines = (0..count(4)).flat_map(|e| (0..count(3)).map(move |d| (e, d)));
            let lines = lines.flat_map(|(e, d)| (0..count(2)).map(move |c| (e, d, c)));
            for ((e, d, c), b) in lines.flat_map(|line| (0..count(1)).map(move |b| (line, b))) {
                let b = self.rows.as_ref().map_or(b, |(_, rows)| rows[b as usize]);
                for a in 0..self.tile[0] {
                    let at = [a, b, c, d, e];
                    let inside = (0..5).all(|n| self.tile[n] == 0 || at[n] < self.tensor[n]);
                    let place: u32 = a + (0..4).map(|n| at[n + 1] * self.stride[n]).sum::<u32>();
                    let global = (place as usize + turn * memory_step as usize) * bytes;
                    match (stores, inside) {
                        (true, true) => {
                            after.memory[global..global + bytes].copy_from_slice(&before.lds[local..local + bytes]);
                        }
                        (true, false) => {}
                        (false, true) => {
                            after.lds[local..local + bytes].copy_from_slice(&before.memory[global..global + bytes]);
                        }
                        (false, false) => after.lds[local..local + bytes].fill(0),
                    }
                    local += bytes;
                    written += bytes;
                    if let Some((interval, amount)) = self.padding.filter(|_| !stores)
                        && written >= 8 << interval
                    {
                        written = 0;
                        local += 4 * (amount as usize + 1);
                    }
                }
            }
        }
        if let Some(state) = self.barrier {
            // The last of all arrivals takes one from the phase, the others one from those that are pending.
            let state = if state << 35 == 0 { 7 << 29 | state >> 32 << 32 | state >> 32 } else { state - 1 };
            after.lds[BARRIER..BARRIER + 8].copy_from_slice(&state.to_le_bytes());
        }
        let name = if stores { "tensor_store_from_lds" } else { "tensor_load_to_lds" };
        let more = if parts == 4 { ", s[32:35], s[36:39]" } else { "" };
        Case::new(format!("{name} s[20:23], s[24:31]{more}"), before, after)
    }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    if machine.target != Target::Gfx1250 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for element in 0..4 {
        for stores in [false, true] {
            // Two dimensions, and a tile that reaches beyond the tensor in both.
            let flat = Tensor {
                element,
                tile: [8, 4, 0, 0, 0],
                tensor: [6 + random.below(3), 3 + random.below(2), 0, 0, 0],
                stride: [20, 0, 0, 0],
                ..Tensor::default()
            };
            let padded = Tensor { padding: Some((random.below(3), random.below(4))), ..flat.clone() };
            // Elements outside of the tensor need not be in LDS for a store.
            let cut = Tensor { tensor: [6, 4, 0, 0, 0], missing: if stores { 2 } else { 0 }, ..flat.clone() };
            let line = Tensor { tile: [9, 0, 0, 0, 0], ..flat.clone() };
            let last = Tensor { barrier: Some(3 << 32), ..flat.clone() };
            let first = Tensor { barrier: Some(3 << 32 | 3), ..flat.clone() };
            for tensor in [&flat, &padded, &cut, &line, &last, &first] {
                cases.push(tensor.case(machine, stores, 2, random));
            }
            let deep = Tensor {
                tile: [4, 3, 2, 2, 2],
                tensor: [4, 2, 2, 2, 1 + random.below(2)],
                stride: [5, 16, 40, 90],
                ..flat.clone()
            };
            let repeated = Tensor {
                tile: [4, 3, 2, 0, 0],
                tensor: [4, 3, 2, 0, 0],
                stride: [5, 16, 0, 0],
                iterate: Some((1 + random.below(3), 30, 50)),
                ..flat.clone()
            };
            let rows = |count: u32, random: &mut Random| (0..count).map(|_| random.below(12)).collect();
            let gathered = Tensor {
                tile: [6, 16, 0, 0, 0],
                tensor: [6, 9, 0, 0, 0],
                stride: [16, 0, 0, 0],
                // Stores to one row after another would be in their order.
                rows: Some((false, if stores { (0..16).rev().collect() } else { rows(16, random) })),
                ..flat.clone()
            };
            let gathered_wide = Tensor {
                tile: [6, 7, 0, 0, 0],
                rows: Some((true, if stores { (2..9).collect() } else { rows(7, random) })),
                ..gathered.clone()
            };
            for tensor in [&deep, &repeated, &gathered, &gathered_wide] {
                cases.push(tensor.case(machine, stores, 4, random));
            }
        }
    }
    // Without elements nothing is moved.
    cases.push(Tensor { tensor: [4; 5], ..Tensor::default() }.case(machine, false, 2, random));
    cases
}
