// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Families of profile records beyond events of queues and dispatches, through the C API: code objects.

#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::ffi::raw;
use raw::iree_hal_profile_executable_code_object_load_record_t as LoadRecord;
use raw::iree_hal_profile_executable_code_object_record_t as CodeObjectRecord;
use raw::iree_hal_profile_executable_record_t as ExecutableRecord;
use sink::{KERNELS, Sink, end};
use support::{Rig, passes_alone};

const DISPATCH: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS;
const METADATA: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA;

/// Code objects and their bytes.
fn code_objects(sink: &Sink) -> Vec<(CodeObjectRecord, Vec<u8>)> {
    let one = |chunk: sink::Chunk| {
        // SAFETY: plain data of this size, followed by the code.
        let record = unsafe { chunk.bytes.as_ptr().cast::<CodeObjectRecord>().read_unaligned() };
        assert_eq!(record.record_length as usize, chunk.bytes.len(), "one code object in a chunk");
        let code = chunk.bytes[size_of::<CodeObjectRecord>()..].to_vec();
        assert_eq!(record.data_length as usize, code.len());
        (record, code)
    };
    sink.chunks("executable-code-objects").into_iter().map(one).collect()
}

#[test]
fn code_objects_are_told_with_their_bytes_and_where_they_are() {
    passes_alone("code_objects_are_told_with_their_bytes_and_where_they_are", "gfx1100,gfx1100", || {
        let rig = Rig::open("0,1", &[]).unwrap();
        let sink = Sink::new();
        let first = rig.executable(KERNELS).unwrap();
        sink.begin(&rig, METADATA).unwrap();
        let second = rig.executable(KERNELS).unwrap();
        end(&rig).unwrap();
        let executables: Vec<ExecutableRecord> = sink.records("executables");
        let (objects, loads) = (code_objects(&sink), sink.records::<LoadRecord>("executable-code-object-loads"));
        assert_eq!((executables.len(), objects.len(), loads.len()), (2, 2, 4));
        for (executable, (object, code)) in executables.iter().zip(&objects) {
            assert_eq!(code, KERNELS);
            assert_eq!((object.executable_id, object.code_object_id), (executable.executable_id, object.executable_id));
            assert_eq!((executable.flags, object.flags), (1, 1));
            assert_eq!(executable.code_object_hash, object.code_object_hash);
            assert_eq!(object.code_object_hash, objects[0].0.code_object_hash);
            let own = loads.iter().filter(|load| load.code_object_id == object.code_object_id);
            let (gpus, deltas): (Vec<_>, Vec<_>) =
                own.map(|load| (load.physical_device_ordinal, load.load_delta)).unzip();
            assert_eq!(gpus, [0, 1]);
            assert_ne!(deltas[0], deltas[1]);
        }
        // As long as the segments of the file, which take whole pages.
        assert!(loads.iter().all(|load| load.load_size >= 4096 && load.load_delta % 4096 == 0));
        // Profiles of times only do not carry code.
        let times = Sink::new();
        times.begin(&rig, DISPATCH).unwrap();
        end(&rig).unwrap();
        assert_eq!(times.records::<ExecutableRecord>("executables").len(), 2);
        assert!(times.chunks("executable-code-objects").is_empty());
        drop((first, second));
    });
}
