// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Expected contents of memory: the operations one after the other, executed by the host.

use std::collections::BTreeMap;

use crate::program::{Fate, Kernel, Kind, OpId, Program, Room, Span, Touch, Work};

/// Bytes, of which some are not known.
pub type Bytes = Vec<Option<u8>>;

/// Memory at the end and where the host looks at it.
#[derive(Default)]
pub struct Model {
    pub buffers: Vec<Bytes>,
    pub files: Vec<Bytes>,
    /// Expected data of the reads by host calls and by threads.
    pub seen: BTreeMap<OpId, Vec<Bytes>>,
    /// Fills end one byte early: to see that checks see it.
    is_wrong: bool,
}

/// Bytes that a seed decides.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Initial value of a mapped buffer.
pub fn initial(buffer: usize) -> u64 {
    0xB0F0 + buffer as u64
}

/// Initial value of a file.
pub fn initial_of_file(file: usize) -> u64 {
    0xF11E_0000 + file as u64
}

/// The multiplier and the elements of a dispatch.
fn elements(bytes: &[Option<u8>]) -> Vec<Option<u32>> {
    let element = |chunk: &[Option<u8>]| Some(u32::from_le_bytes([chunk[0]?, chunk[1]?, chunk[2]?, chunk[3]?]));
    bytes.chunks_exact(4).map(element).collect()
}

impl Model {
    /// Runs the program.
    pub fn of(program: &Program, is_wrong: bool) -> Self {
        let known = |seed, length| noise(seed, length).into_iter().map(Some).collect();
        let buffers = program.buffers.iter().enumerate().map(|(index, buffer)| {
            if buffer.heap.is_mappable() { known(initial(index), buffer.size) } else { vec![None; buffer.size] }
        });
        let files = program.files.iter().enumerate().map(|(index, file)| known(initial_of_file(index), file.size));
        let mut model = Self { buffers: buffers.collect(), files: files.collect(), seen: BTreeMap::new(), is_wrong };
        for op in &program.ops {
            match op.fate {
                Fate::Certain => model.perform(program, op.id, &op.kind),
                Fate::Maybe(_) => {
                    // The call's view of memory is known where nothing else is in doubt.
                    if let Kind::Call { touch, .. } | Kind::Host(touch) = &op.kind {
                        model.look(op.id, touch);
                    }
                    model.forget(program, op.id);
                }
                Fate::Doomed(source) if source == op.id => model.forget(program, op.id),
                Fate::Doomed(_) => {}
            }
        }
        model
    }

    /// Marks the bytes that the operation writes as unknown.
    fn forget(&mut self, program: &Program, id: OpId) {
        for access in program.ops[program.index(id)].accesses(program).iter().filter(|access| access.is_write) {
            let bytes = match access.room {
                Room::Buffer(buffer) => &mut self.buffers[buffer],
                Room::File(file) => &mut self.files[file],
            };
            bytes[access.start..access.end].fill(None);
        }
    }

    fn span(&mut self, span: Span) -> &mut [Option<u8>] {
        &mut self.buffers[span.buffer][span.offset..][..span.length]
    }

    fn write(&mut self, span: Span, bytes: &[Option<u8>]) {
        self.span(span).copy_from_slice(bytes);
    }

    fn look(&mut self, id: OpId, touch: &Touch) {
        let seen = touch.reads.iter().map(|span| self.span(*span).to_vec()).collect();
        self.seen.insert(id, seen);
    }

    fn write_noise(&mut self, span: Span, seed: u64) {
        let bytes: Bytes = noise(seed, span.length).into_iter().map(Some).collect();
        self.write(span, &bytes);
    }

    fn perform(&mut self, program: &Program, id: OpId, kind: &Kind) {
        match kind {
            Kind::Work(work) => self.work(work),
            Kind::Execute { recording, bindings } => {
                for (_, work) in &program.recordings[*recording].commands {
                    self.work(&work.map(|place| place.resolve(bindings)));
                }
            }
            Kind::Alloca { buffer } | Kind::Dealloca { buffer } => self.buffers[*buffer].fill(None),
            Kind::Read { file, file_offset, target } => {
                let bytes = self.files[*file][*file_offset..][..target.length].to_vec();
                self.write(*target, &bytes);
            }
            Kind::Write { source, file, file_offset } => {
                let bytes = self.span(*source).to_vec();
                self.files[*file][*file_offset..][..source.length].copy_from_slice(&bytes);
            }
            Kind::Call { touch, .. } | Kind::Host(touch) => {
                self.look(id, touch);
                for (span, seed) in &touch.writes {
                    self.write_noise(*span, *seed);
                }
            }
            Kind::Barrier
            | Kind::FailHost
            | Kind::FailCall
            | Kind::Trap { .. }
            | Kind::MemoryFault { .. }
            | Kind::Session { .. }
            | Kind::Release => {}
        }
    }

    fn work(&mut self, work: &Work<Span>) {
        match work {
            Work::Fill { target, pattern } => {
                let length = target.length - usize::from(self.is_wrong);
                for (byte, value) in self.span(*target)[..length].iter_mut().zip(pattern.iter().cycle()) {
                    *byte = Some(*value);
                }
            }
            Work::Copy { source, target } => {
                let bytes = self.span(*source).to_vec();
                self.write(*target, &bytes);
            }
            Work::Update { target, noise } => self.write_noise(*target, *noise),
            Work::Dispatch { kernel, target, sources, factor } => {
                let sources: Vec<_> = sources.iter().map(|source| elements(self.span(*source))).collect();
                let count = target.length / 4;
                let results = (0..count).map(|index| match kernel {
                    Kernel::Combine => Some(sources[0][index]?.wrapping_mul(*factor).wrapping_add(sources[1][index]?)),
                    Kernel::Gather => sources[0][(index as u32).wrapping_mul(*factor) as usize % count],
                });
                let bytes = |element: Option<u32>| match element {
                    Some(value) => value.to_le_bytes().map(Some),
                    None => [None; 4],
                };
                let bytes: Bytes = results.flat_map(bytes).collect();
                self.write(*target, &bytes);
            }
        }
    }
}
