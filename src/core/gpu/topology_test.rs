// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Selection over the agents of `topology_test.c`: two gfx1100 with UUIDs, two gfx942 without.

use super::*;
use amdgpu_ffi::Code;
use amdgpu_hsa::testing::{Directory, compile};

/// The topology with the first `gpus` of the four GPUs.
fn topology(test: &str, gpus: usize) -> Topology {
    let directory = Directory::new(test);
    let path = directory.join("libhsa-runtime64.so.1");
    compile(&path, &[], &format!("#define GPUS {gpus}\n{}", include_str!("topology_test.c")));
    let library = Library::load(&[path]).expect("it is a runtime");
    Topology::new(&library).expect("it answers")
}

fn ordinals(selection: Result<Selection>) -> Vec<usize> {
    selection.expect("it is a device").gpus.iter().map(|gpu| gpu.ordinal).collect()
}

fn refused(selection: Result<Selection>) -> (Code, String) {
    let status = selection.expect_err("it is no device");
    (status.code(), status.to_string())
}

#[test]
fn paths_select_by_ordinal_and_uuid_in_their_order() {
    let topology = topology("paths", 4);
    let select = |path| ordinals(topology.select(path));
    assert_eq!(select(""), [0, 1], "all of the kind of the first");
    assert_eq!(select("*"), [0, 1]);
    assert_eq!(select("1"), [1]);
    assert_eq!(select("1,0"), [1, 0]);
    assert_eq!(select("0, 0,1"), [0, 1], "each once");
    assert_eq!(select("2,3"), [2, 3]);
    assert_eq!(select("GPU-00000000000000bb"), [1]);
    assert_eq!(select("gpu-00000000000000BB,0"), [1, 0]);
    assert_eq!(ordinals(topology.select_mask(0)), [0, 1]);
    assert_eq!(ordinals(topology.select_mask(0b1100)), [2, 3]);
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let topology = topology("absent", 4);
    for (path, code, part) in [
        ("4", Code::NOT_FOUND, "no GPU has the ordinal 4"),
        ("99999999999999999999999", Code::NOT_FOUND, "no GPU has the ordinal"),
        ("GPU-00000000000000ff", Code::NOT_FOUND, "no GPU has the UUID 'GPU-00000000000000ff'"),
        ("GPU-XX", Code::NOT_FOUND, "no GPU has the UUID 'GPU-XX'"),
        ("gfx1100", Code::INVALID_ARGUMENT, "'gfx1100' is not a device"),
        ("+1", Code::INVALID_ARGUMENT, "'+1' is not a device"),
        ("0,", Code::INVALID_ARGUMENT, "'' is not a device"),
        ("äöü€", Code::INVALID_ARGUMENT, "'äöü€' is not a device"),
    ] {
        let (found, text) = refused(topology.select(path));
        assert_eq!(found, code, "{text}");
        assert!(text.contains(part), "{text}");
        assert!(text.contains("0: GPU-00000000000000aa Radeon RX (gfx1100, node 2)"), "{text}");
        assert!(text.contains("3: no UUID Instinct (gfx942, node 5)"), "{text}");
    }
    let (code, text) = refused(topology.select_mask(1 << 63));
    assert_eq!(code, Code::NOT_FOUND);
    assert!(text.contains("GPU 63") && text.contains("1: GPU-00000000000000bb"), "{text}");
}

#[test]
fn gpus_of_different_kinds_are_not_one_device() {
    let topology = topology("kinds", 4);
    let (code, text) = refused(topology.select("1,2"));
    assert_eq!(code, Code::INCOMPATIBLE);
    assert!(text.contains("names differ (gfx1100 and gfx942)"), "{text}");
    assert!(text.contains("--device=amdgpu_rs://1 --device=amdgpu_rs://2"), "{text}");
}

#[test]
fn no_gpu_lists_nothing_and_cannot_be_selected() {
    let topology = topology("none", 0);
    assert!(topology.device_infos().is_empty());
    let (code, text) = refused(topology.select("*"));
    assert_eq!(code, Code::NOT_FOUND);
    assert!(text.contains("shows no GPU") && text.contains("ROCR_VISIBLE_DEVICES"), "{text}");
    let (_, text) = refused(topology.select("0"));
    assert!(text.contains("no GPU has the ordinal 0; no GPU is visible"), "{text}");
}

#[test]
fn devices_are_listed_with_paths_that_select_them() {
    let topology = topology("infos", 4);
    let infos = topology.device_infos();
    let row = |i: usize| (infos[i].id, infos[i].path.as_str(), infos[i].name.as_str());
    assert_eq!(row(0), (0, "", "2 of 4 visible GPUs (nodes 2, 3)"));
    assert_eq!(row(1), (1, "GPU-00000000000000aa", "Radeon RX (node 2)"));
    assert_eq!(row(4), (8, "3", "Instinct (node 5)"));
    for info in &infos {
        let by_id = ordinals(topology.select_mask(info.id));
        assert_eq!(by_id, ordinals(topology.select(&info.path)));
    }
    let one = self::topology("infos-one", 1);
    assert_eq!(one.device_infos()[0].name, "1 visible GPU (node 2)");
}

#[test]
fn pools_and_cpus_are_the_right_ones() {
    let topology = topology("pools", 4);
    let selection = topology.select("0,1").expect("it is a device");
    assert_eq!(selection.cpus.len(), 2);
    let handles =
        selection.gpus.iter().map(|gpu| (gpu.agent.handle().handle, selection.cpus[gpu.cpu].agent.handle().handle));
    assert_eq!(handles.collect::<Vec<_>>(), [(10, 2), (11, 1)]);
    let cpu = &selection.cpus[0];
    assert_eq!(cpu.fine.handle().handle, 21, "not the one for kernel arguments");
    assert_eq!(cpu.kernarg.handle().handle, 22);
    let gpu = &selection.gpus[0];
    assert_eq!(gpu.coarse.handle().handle, 100);
    assert!(!gpu.host_access.is_some() && gpu.fine_is_host_visible);
    assert!(gpu.is_accessible_to(&selection.gpus[1].agent).expect("it answers"));
    assert_eq!(gpu.targets[0].to_string(), "gfx1100");

    let selection = topology.select("2").expect("a GPU without fine-grained memory is a device");
    let gpu = &selection.gpus[0];
    assert!(matches!(gpu.host_access, HostAccess::Flushed(_)) && !gpu.fine_is_host_visible);
    assert_eq!(selection.cpus.len(), 1);
    assert_eq!(
        selection.cpus[selection.gpus[0].cpu].agent.handle().handle,
        1,
        "the first where the nearest is not known"
    );
}

#[test]
fn options_are_checked_against_the_gpus() {
    let topology = topology("options", 4);
    let selection = topology.select("0,1").expect("it is a device");
    let mut options = Options::default();
    selection.verify(&options).expect("defaults fit");
    options.hardware_queues_per_gpu = 33;
    let text = selection.verify(&options).expect_err("too many queues").to_string();
    assert!(text.contains("hardware_queues_per_gpu=33 on 2 GPUs makes 66 queues"), "{text}");
    options = Options { aql_queue_capacity: 32, ..Options::default() };
    let status = selection.verify(&options).expect_err("too few packets");
    assert_eq!(status.code(), Code::OUT_OF_RANGE);
    assert!(status.to_string().contains("aql_queue_capacity=32 must be 64 to 131072 packets on GPU 0:"), "{status}");
}

#[test]
fn the_dump_shows_what_there_is() {
    let topology = topology("dump", 4);
    let text = topology.dump(0b101).expect("both are there");
    for part in [
        "HSA 1.1 runtime /",
        "  build:                  1.14.0.60204\n",
        "  AMD's extension:        1.6\n",
        "  memory faults reported: no\n",
        "\nGPU 0: Radeon RX (gfx1100)\n",
        "  path:           GPU-00000000000000aa\n",
        "  pci:            0000:0a:00.0, chip 0x744c\n",
        "  node:           2, nearest CPU 1 (CPU)\n",
        "  isas:           amdgcn-amd-amdhsa--gfx1100, amdgcn-amd-amdhsa--gfx11-generic\n",
        "  compute units:  96, 32 lanes a wavefront, 0 MHz\n",
        "  queues:         at most 128, of 64 to 131072 packets\n",
        "  peers:          1, 2, 3\n",
        "  memory pool:    global, coarse-grained, 24.0 GiB, granule 4.0 KiB\n",
        "  memory pool:    group, 64.0 KiB, granule 4.0 KiB\n",
        "\nGPU 2: Instinct (gfx942)\n",
        "  uuid:           none\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("GPU 1"), "{text}");
    assert_eq!(topology.dump(0).expect("all").matches("\nGPU ").count(), 4);
    assert_eq!(topology.dump(1 << 4).expect_err("it is not there").code(), Code::NOT_FOUND);
}

/// The gfx1100 here list their generic target as new runtimes do, the gfx942 do not.
#[test]
fn the_device_library_names_a_target_that_the_runtime_knows() {
    let topology = topology("loadable", 4);
    let target = |gpu: usize, isa: &str| {
        let library = device_binaries::select(isa).expect("it is embedded");
        let elf = topology.gpus[gpu].loadable(library.elf).expect("a code object");
        (library.target, code_object::infer_format(&elf).expect("a code object").target.to_string())
    };
    assert_eq!(target(0, "gfx1100"), ("gfx11-generic", "gfx11-generic".to_owned()));
    assert_eq!(target(2, "gfx942"), ("gfx9-4-generic", "gfx942".to_owned()));
}
