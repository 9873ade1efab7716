// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A kernel's arguments in memory: the user's, at the offsets in the code object's metadata, and the hidden ones, which
//! HIP's runtime would fill in (AMDGPUUsage, "Code Object V5 Metadata", `.value_kind`).

use amdgpu_code_object::{Argument, Kernel, ValueKind};

use crate::arguments::Given;
use crate::number::Type;

/// Dimensions and dynamic LDS of a launch.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of workgroups.
    pub grid: [u32; 3],
    /// Number of work-items in a workgroup.
    pub block: [u32; 3],
    /// Bytes of LDS in addition to the kernel's own.
    pub dynamic_lds: u32,
}

/// Addresses that hidden arguments have; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// The queue.
    pub queue: u64,
    /// The buffer for calls of the host.
    pub hostcall: u64,
    /// The buffer of OpenCL's `printf`.
    pub printf: u64,
}

/// Arguments that the user must give.
fn explicit(kernel: &Kernel) -> impl Iterator<Item = &Argument> {
    kernel.arguments.iter().filter(|argument| !matches!(argument.value_kind, ValueKind::Hidden(_)))
}

/// Checks the given arguments against the kernel's.
///
/// # Errors
/// The mismatch, with the arguments of the kernel.
pub fn check(kernel: &Kernel, given: &[Given]) -> Result<(), String> {
    let mut problems = Vec::new();
    let wanted: Vec<_> = explicit(kernel).collect();
    if wanted.len() != given.len() {
        problems.push(format!("it takes {} arguments, {} are given", wanted.len(), given.len()));
    }
    for (index, (wanted, given)) in wanted.iter().zip(given).enumerate() {
        let size = wanted.size as usize;
        let problem = match (&wanted.value_kind, given) {
            (kind, Given::Local { .. }) if is_local(kind) => None,
            (kind, _) if is_local(kind) => Some("a pointer to LDS, which local:BYTES gives".to_owned()),
            (_, Given::Local { .. }) => Some("no pointer to LDS".to_owned()),
            (ValueKind::Other(kind), _) => Some(format!("a {kind}, which cannot be given here")),
            (_, Given::Buffer { .. } | Given::Alias { .. }) if size != 8 => {
                Some(format!("{size} bytes, an address has 8"))
            }
            (_, Given::Value { of, bytes }) if bytes.len() != size => {
                Some(format!("{size} bytes, {of} has {}", bytes.len()))
            }
            (ValueKind::ByValue, Given::Value { of, .. }) if is_other_kind(&wanted.type_name, of) => {
                Some(format!("a {}, which {of} is not", wanted.type_name))
            }
            // A null pointer may be given as a number.
            _ => None,
        };
        problems.extend(problem.map(|problem| format!("argument {index} is {problem}")));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let mut text = format!("kernel {}: {}", kernel.name, problems.join("; "));
    for (index, argument) in wanted.iter().enumerate() {
        text += &format!("\n  {index}: {}", describe(argument));
    }
    Err(text)
}

/// True for a pointer to LDS whose size the launch chooses: OpenCL's `local` parameters.
fn is_local(kind: &ValueKind) -> bool {
    matches!(kind, ValueKind::Other(kind) if kind == "dynamic_shared_pointer")
}

/// True if a type's name in OpenCL says integer where the given type is a floating-point one, or the other way round.
/// Sizes are compared elsewhere; bytes are of any type.
fn is_other_kind(name: &str, given: &str) -> bool {
    let Some((_, given)) = Type::named(given) else { return false };
    match name {
        "half" | "float" | "double" => !given.is_float(),
        "bool" | "char" | "uchar" | "short" | "ushort" | "int" | "uint" | "long" | "ulong" => given.is_float(),
        _ => false,
    }
}

fn describe(argument: &Argument) -> String {
    let kind = match &argument.value_kind {
        ValueKind::ByValue => "by value",
        ValueKind::GlobalBuffer => "a buffer",
        kind if is_local(kind) => "a pointer to LDS",
        ValueKind::Hidden(kind) | ValueKind::Other(kind) => kind,
    };
    let name = if argument.name.is_empty() { String::new() } else { format!(" ({})", argument.name) };
    let of = if argument.type_name.is_empty() { String::new() } else { format!(", {}", argument.type_name) };
    format!("{} bytes, {kind}{of}{name}", argument.size)
}

/// Places the LDS that the arguments ask for, behind the kernel's own and `dynamic` bytes. Returns the offset of each
/// argument's part, and the bytes of LDS beside the kernel's own. Parts begin at multiples of 16.
pub fn place_local(kernel: &Kernel, given: &[Given], dynamic: u32) -> (Vec<Option<u32>>, u32) {
    let own = kernel.group_segment_size;
    let mut end = own.saturating_add(dynamic);
    let places = given.iter().map(|given| {
        let Given::Local { size } = given else { return None };
        let at = end.next_multiple_of(16);
        end = at.saturating_add(*size);
        Some(at)
    });
    let places = places.collect();
    (places, end - own)
}

/// Hidden arguments of a kernel that are null here although its code may use them, each with its purpose.
pub fn null_arguments(kernel: &Kernel) -> Vec<String> {
    let purpose = |name: &str| match name {
        "hidden_heap_v1" => Some("malloc and free"),
        "hidden_default_queue" | "hidden_completion_action" => Some("enqueue_kernel"),
        "hidden_multigrid_sync_arg" => Some("synchronization of several grids"),
        _ => None,
    };
    let names = kernel.arguments.iter().filter_map(|argument| match &argument.value_kind {
        ValueKind::Hidden(name) => Some(format!("{name} ({})", purpose(name)?)),
        _ => None,
    });
    names.collect()
}

/// Returns the bytes of the kernel arguments. `addresses` are those of buffers, aliases and parts of LDS among `given`.
/// The arguments have been [checked](check).
pub fn image(kernel: &Kernel, given: &[Given], addresses: &[Option<u64>], shape: &Shape, host: Host) -> Vec<u8> {
    let mut image = vec![0; kernel.kernarg_size as usize];
    let mut put = |argument: &Argument, bytes: &[u8]| {
        let size = bytes.len().min(argument.size as usize);
        image[argument.offset as usize..][..size].copy_from_slice(&bytes[..size]);
    };
    for (argument, (given, address)) in explicit(kernel).zip(given.iter().zip(addresses)) {
        match given {
            Given::Value { bytes, .. } => put(argument, bytes),
            _ => put(argument, &address.unwrap_or(0).to_le_bytes()),
        }
    }
    for argument in &kernel.arguments {
        if let ValueKind::Hidden(name) = &argument.value_kind {
            put(argument, &hidden(name, shape, host).to_le_bytes());
        }
    }
    image
}

/// Value of a hidden argument. Remainders of partial workgroups and offsets of grids are zero, because there are none.
/// Arguments that need more of a runtime are also zero: heap, default queue and so on. A kernel that uses one of these
/// faults at address 0.
fn hidden(name: &str, shape: &Shape, host: Host) -> u64 {
    let axis = match name.as_bytes().last() {
        Some(b'y') => 1,
        Some(b'z') => 2,
        _ => 0,
    };
    match name {
        "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => shape.grid[axis].into(),
        "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => shape.block[axis].into(),
        // HIP's grids always have three.
        "hidden_grid_dims" => 3,
        "hidden_dynamic_lds_size" => shape.dynamic_lds.into(),
        "hidden_queue_ptr" => host.queue,
        "hidden_hostcall_buffer" => host.hostcall,
        "hidden_printf_buffer" => host.printf,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, offset: u32, size: u32, value_kind: ValueKind) -> Argument {
        Argument { name: name.into(), offset, size, value_kind, type_name: String::new(), address_space: String::new() }
    }

    fn kernel(arguments: Vec<Argument>) -> Kernel {
        Kernel {
            name: "k".into(),
            symbol: "k.kd".into(),
            kernarg_size: 64,
            kernarg_alignment: 8,
            group_segment_size: 0,
            private_segment_size: 0,
            wavefront_size: 32,
            max_flat_workgroup_size: 1024,
            required_workgroup_size: None,
            sgpr_count: 0,
            vgpr_count: 0,
            uses_dynamic_stack: false,
            arguments,
        }
    }

    fn given(texts: &[&str]) -> Vec<Given> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn arguments_lie_where_the_metadata_says() {
        let hidden = |name: &str, offset, size| argument("", offset, size, ValueKind::Hidden(name.into()));
        let kernel = kernel(vec![
            argument("out", 0, 8, ValueKind::GlobalBuffer),
            argument("count", 8, 4, ValueKind::ByValue),
            hidden("hidden_block_count_x", 16, 4),
            hidden("hidden_block_count_z", 24, 4),
            hidden("hidden_group_size_y", 30, 2),
            hidden("hidden_remainder_x", 34, 2),
            hidden("hidden_grid_dims", 36, 2),
            hidden("hidden_dynamic_lds_size", 40, 4),
            hidden("hidden_queue_ptr", 48, 8),
        ]);
        let given = given(&["buffer:16", "i32:-2"]);
        assert_eq!(check(&kernel, &given), Ok(()));
        let shape = Shape { grid: [5, 6, 7], block: [8, 9, 1], dynamic_lds: 256 };
        let image = image(
            &kernel,
            &given,
            &[Some(0x1122_3344_5566_7788), None],
            &shape,
            Host { queue: 0x99, ..Host::default() },
        );
        let number = |offset: usize, size: usize| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&image[offset..][..size]);
            u64::from_le_bytes(bytes)
        };
        assert_eq!((number(0, 8), number(8, 4)), (0x1122_3344_5566_7788, 0xffff_fffe));
        assert_eq!((number(16, 4), number(24, 4), number(30, 2)), (5, 7, 9));
        assert_eq!((number(34, 2), number(36, 2), number(40, 4), number(48, 8)), (0, 3, 256, 0x99));
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_does() {
        let kernel = kernel(vec![
            argument("out", 0, 8, ValueKind::GlobalBuffer),
            argument("", 8, 4, ValueKind::ByValue),
            argument("tile", 12, 4, ValueKind::Other("pipe".into())),
        ]);
        let error = check(&kernel, &given(&["buffer:16", "u64:1"])).unwrap_err();
        for part in [
            "kernel k: it takes 3 arguments, 2 are given; argument 1 is 4 bytes, u64 has 8\n",
            "\n  0: 8 bytes, a buffer (out)\n  1: 4 bytes, by value\n  2: 4 bytes, pipe (tile)",
        ] {
            assert!(error.contains(part), "{error}");
        }
        let error = check(&kernel, &given(&["u64:0", "buffer:4", "u32:1"])).unwrap_err();
        assert!(error.contains("argument 1 is 4 bytes, an address has 8"), "{error}");
        assert!(error.contains("argument 2 is a pipe, which cannot"), "{error}");
    }

    #[test]
    fn local_arguments_lie_behind_the_kernels_lds() {
        let local = || ValueKind::Other("dynamic_shared_pointer".into());
        let mut kernel = kernel(vec![argument("a", 0, 4, local()), argument("b", 4, 4, local())]);
        kernel.group_segment_size = 20;
        let pair = given(&["local:10", "local:4"]);
        assert_eq!(check(&kernel, &pair), Ok(()));
        assert_eq!(place_local(&kernel, &pair, 0), (vec![Some(32), Some(48)], 32));
        assert_eq!(place_local(&kernel, &pair, 100), (vec![Some(128), Some(144)], 128));
        assert_eq!(place_local(&kernel, &[], 7), (vec![], 7));
        let error = check(&kernel, &given(&["local:10", "u32:4"])).unwrap_err();
        assert!(error.contains("argument 1 is a pointer to LDS, which local:BYTES gives"), "{error}");
    }

    #[test]
    fn types_of_the_metadata_are_respected() {
        let mut kernel = kernel(vec![argument("x", 0, 4, ValueKind::ByValue)]);
        kernel.arguments[0].type_name = "float".into();
        let error = check(&kernel, &given(&["i32:2"])).unwrap_err();
        assert!(
            error.contains("argument 0 is a float, which i32 is not\n  0: 4 bytes, by value, float (x)"),
            "{error}"
        );
        assert_eq!(check(&kernel, &given(&["f32:2"])), Ok(()));
        assert_eq!(check(&kernel, &given(&["bytes:00000000"])), Ok(()));
        kernel.arguments[0].type_name = "uint".into();
        assert!(check(&kernel, &given(&["f32:2"])).is_err() && check(&kernel, &given(&["i32:2"])).is_ok());
    }
}
