// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The descriptions of programs for profiles.

use hsa_abi::KernelDispatchPacket;

use super::{Action, AddressSource, KernargSource, NonDispatch, Program, Step};
use amdgpu_ffi::profile::schema::{CommandBufferRecord, CommandKind, CommandRecord, QueueEventKind, Record, flags};
use amdgpu_profile::metadata::CommandRecords;
use amdgpu_profile::{EventInfo, FunctionRef};

impl Program {
    /// The description of an execution.
    pub fn profile_event(&self) -> EventInfo {
        EventInfo {
            operations: self.stored.steps.len() as u32,
            command_buffer: self.recording.id,
            ..EventInfo::of(QueueEventKind::Execute)
        }
    }

    /// The records of the program and its commands.
    pub fn records(&self) -> CommandRecords {
        let recording = &self.recording;
        let mut buffer = CommandBufferRecord::blank();
        buffer.command_buffer_id = recording.id;
        buffer.mode = recording.mode.bits().into();
        buffer.command_categories = recording.categories.bits().into();
        buffer.queue_affinity = recording.affinity;
        buffer.physical_device_ordinal = self.gpu().index() as u32;
        let barriers = self.stored.barriers.iter().map(|index| {
            let mut record = command_record(self, *index, CommandKind::Barrier);
            record.flags = flags::COMMAND_BARRIER;
            record
        });
        let steps = self.stored.steps.iter().map(|step| step_record(self, step));
        let mut commands: Vec<_> = barriers.chain(steps).collect();
        commands.sort_by_key(|record| record.command_index);
        CommandRecords { buffer, commands }
    }
}

fn command_record(program: &Program, index: u32, kind: CommandKind) -> CommandRecord {
    let mut record = CommandRecord::blank();
    record.type_ = kind as u32;
    record.command_index = index;
    record.command_buffer_id = program.recording.id;
    record
}

fn step_record(program: &Program, step: &Step) -> CommandRecord {
    let command = &program.stored.commands[step.command as usize];
    let mut record = command_record(program, step.index, command.kind);
    record.length = command.length;
    if command.function != FunctionRef::default() {
        record.executable_id = command.function.executable;
        record.function_ordinal = command.function.ordinal;
    }
    let place = |record: &mut CommandRecord, place: AddressSource, is_source: bool| {
        let AddressSource::Binding { index, offset } = place else { return };
        record.flags |= flags::COMMAND_DYNAMIC_BINDINGS;
        match is_source {
            true => (record.source_ordinal, record.source_offset) = (index, offset),
            false => (record.target_ordinal, record.target_offset) = (index, offset),
        }
    };
    match step.action {
        Action::Dispatch(kernargs) => {
            record.flags |= kernarg_flags(program, kernargs);
            if command.kind == CommandKind::Dispatch {
                record.binding_count = kernargs.bindings();
                (record.workgroup_count, record.workgroup_size) = geometry(&step.packet(0));
            }
        }
        Action::NonDispatch(index) => match program.non_dispatch(index) {
            NonDispatch::IndirectDispatch { launch, kernargs, .. } => {
                record.flags |= kernarg_flags(program, *kernargs) | flags::COMMAND_INDIRECT_PARAMETERS;
                record.binding_count = kernargs.bindings();
                record.workgroup_size = launch.shape.size.map(u32::from);
            }
            NonDispatch::Fill { target, .. } | NonDispatch::Update { target, .. } => place(&mut record, *target, false),
            NonDispatch::Copy { source, target, .. } => {
                place(&mut record, *source, true);
                place(&mut record, *target, false);
            }
        },
    }
    record
}

fn kernarg_flags(program: &Program, kernargs: KernargSource) -> u32 {
    let is_dynamic = match kernargs {
        KernargSource::Stored { .. } => return flags::COMMAND_PREPUBLISHED_ARGUMENTS,
        KernargSource::Template { is_bound, .. } => is_bound,
        KernargSource::Buffer(index) => {
            matches!(program.stored.argument_buffers[index as usize].place, AddressSource::Binding { .. })
        }
    };
    if is_dynamic { flags::COMMAND_DYNAMIC_BINDINGS } else { flags::COMMAND_STATIC_BINDINGS }
}

/// The workgroup counts and sizes of a packet.
pub(super) fn geometry(packet: &KernelDispatchPacket) -> ([u32; 3], [u32; 3]) {
    let size = packet.workgroup_size.map(u32::from);
    let count = std::array::from_fn(|dimension| packet.grid_size[dimension].div_ceil(size[dimension].max(1)));
    (count, size)
}
