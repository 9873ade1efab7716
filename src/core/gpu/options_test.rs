// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

use super::*;
use amdgpu_ffi::{Code, MAX_QUEUES};

fn set(pairs: &[(&str, &str)]) -> Result<Options> {
    let mut options = Options::default();
    for (key, value) in pairs {
        options.set(key, value)?;
    }
    Ok(options)
}

fn failure(pairs: &[(&str, &str)]) -> (Code, String) {
    let status = set(pairs).and_then(|options| options.verify()).expect_err("must be refused");
    (status.code(), status.to_string())
}

#[test]
fn defaults_are_those_of_the_c_driver_and_valid() {
    let options = Options::default();
    options.verify().expect("defaults are valid");
    assert_eq!(options.host_block_pool_small_size, 8192);
    assert_eq!(options.kernarg_capacity, 262_144);
    assert_eq!(options.hardware_queues_per_gpu, 2);
}

#[test]
fn every_knob_reads_back_what_it_shows() {
    for knob in KNOBS {
        assert!(!knob.help.is_empty() && !knob.values.is_empty());
        if knob.default().is_empty() {
            continue;
        }
        let options = set(&[(knob.key, &knob.default())]).expect(knob.key);
        assert_eq!(options, Options::default(), "{}", knob.key);
    }
}

#[test]
fn keys_are_unique_and_every_field_has_one() {
    let keys: std::collections::BTreeSet<_> = KNOBS.iter().map(|knob| knob.key).collect();
    assert_eq!(keys.len(), KNOBS.len());
    let fields = format!("{:?}", Options::default()).matches(": ").count();
    assert_eq!(fields, KNOBS.len());
}

#[test]
fn values_are_taken() {
    let options = set(&[
        ("libhsa_search_path", "/a"),
        ("libhsa_search_path", "/b/libhsa-runtime64.so"),
        ("queue_placement", "host"),
        ("command_buffer_mode", "auto"),
        ("pm4_command_buffer_publication_mode", "host-async-copy-nonblocking"),
        ("preallocate_pools", "0"),
        ("force_wait_barrier_defer", ""),
        ("hip_device_id", "false"),
        ("aql_queue_capacity", " 1024 "),
        ("default_pool_frontier_capacity", "255"),
        ("host_block_pool_large_size", "131072"),
        ("host_block_pool_large_size", "0"),
    ])
    .expect("all are legal");
    options.verify().expect("and go together");
    assert_eq!(options.libhsa_search_path.len(), 2);
    assert_eq!(options.command_buffer_mode, CommandBufferMode::Auto);
    assert!(!options.preallocate_pools && options.force_wait_barrier_defer);
    assert_eq!(options.aql_queue_capacity, 1024);
    assert_eq!(options.default_pool_frontier_capacity, 255);
    assert_eq!(options.host_block_pool_large_size, 65536, "0 is the default");
    let most = (1_u64 << 63).to_string();
    let options = set(&[("host_block_pool_small_size", &most), ("host_block_pool_large_size", &most)]);
    options.and_then(|options| options.verify()).expect("powers of two, as large as there are");
}

#[test]
fn an_unknown_key_lists_the_known_and_the_nearest() {
    let (code, text) = failure(&[("comand_buffer_mod", "aql")]);
    assert_eq!(code, Code::INVALID_ARGUMENT);
    assert!(text.contains("unknown option 'comand_buffer_mod' (did you mean 'command_buffer_mode'?)"), "{text}");
    for knob in KNOBS {
        assert!(text.contains(knob.key), "{text}");
    }
    let (_, text) = failure(&[("zzz", "1")]);
    assert!(!text.contains("did you mean"), "{text}");
    let (_, text) = failure(&[(&"ä".repeat(100_000), "1")]);
    assert!(text.contains("known options: libhsa_search_path") && text.len() < 2000, "{text}");
    let (_, text) = failure(&[("command_buffer_mode", &"a".repeat(1 << 20))]);
    assert!(text.len() < 1000, "{text}");
}

#[test]
fn a_bad_value_says_what_is_allowed() {
    let (code, text) = failure(&[("command_buffer_mode", "AQL")]);
    assert_eq!(code, Code::INVALID_ARGUMENT);
    assert!(text.contains("option command_buffer_mode='AQL'"), "{text}");
    assert!(text.contains("aql|pm4|auto, default 'aql'"), "{text}");
    for (key, value, part) in [
        ("aql_queue_capacity", "many", "not a whole number"),
        ("aql_queue_capacity", "-4", "must not be negative"),
        ("aql_queue_capacity", "4294967296", "4294967296 is too large"),
        ("default_pool_range_length", "99999999999999999999", "is too large"),
        ("default_pool_frontier_capacity", "256", "256 is too large"),
        ("preallocate_pools", "yes", "true|false"),
        ("libhsa_search_path", "", "the path is empty"),
    ] {
        let (code, text) = failure(&[(key, value)]);
        assert_eq!(code, Code::INVALID_ARGUMENT, "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_is_not_implemented_names_itself() {
    for (key, value) in [("queue_placement", "device"), ("exclusive_execution", "true"), ("wait_active_for_ns", "100")]
    {
        let (code, text) = failure(&[(key, value)]);
        assert_eq!(code, Code::UNIMPLEMENTED, "{text}");
        assert!(text.contains(key), "{text}");
    }
}

#[test]
fn limits_and_combinations_are_checked() {
    for (pairs, part) in [
        (vec![("host_block_pool_small_size", "2048")], "at least 4096"),
        (vec![("host_block_pool_large_size", "65537")], "power of two"),
        (vec![("host_block_pool_command_buffer_size", "4294967296")], "fit in 32 bits"),
        (vec![("device_block_pool_small_size", "512")], "at least 1024"),
        (vec![("device_block_pool_large_size", "4096")], "at least 65536"),
        (vec![("default_pool_alignment", "8")], "at least 16"),
        (vec![("default_pool_range_length", "128")], "at least default_pool_alignment=256"),
        (vec![("hardware_queues_per_gpu", "256")], "1 to 255"),
        (vec![("aql_queue_capacity", "1000")], "power of two"),
        (vec![("notification_capacity", "3")], "power of two"),
        (vec![("kernarg_capacity", "65536")], "twice aql_queue_capacity=65536"),
        (vec![("kernarg_capacity", "4096"), ("aql_queue_capacity", "4096")], "twice"),
    ] {
        let (code, text) = failure(&pairs);
        assert_eq!(code, Code::OUT_OF_RANGE, "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_help_of_hardware_queues_has_the_most_that_a_device_has() {
    let knob = KNOBS.iter().find(|knob| knob.key == "hardware_queues_per_gpu").expect("the knob");
    assert!(knob.help.contains(&format!("{MAX_QUEUES} over all GPUs")), "{}", knob.help);
}

/// Compares `made` with the text between two marks of a file below the project's root, or writes it if `UPDATE_DOCS` is
/// set.
fn check_generated(path: &str, begin: &str, end: &str, made: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    let text = std::fs::read_to_string(&file).expect(path);
    let (before, rest) = text.split_once(begin).expect(begin);
    let (_, after) = rest.split_once(end).expect(end);
    let made = [before, begin, made, end, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, made).expect(path);
        return;
    }
    assert!(text == made, "{path} is stale; UPDATE_DOCS=1 cargo test -p amdgpu-gpu options_of_the writes it");
}

/// The list of options in the book is made from [`KNOBS`]; `UPDATE_DOCS=1` writes it.
#[test]
fn options_of_the_page_are_the_drivers() {
    let mut list = String::new();
    for knob in KNOBS {
        let default = match knob.default() {
            value if value.is_empty() => "no default".to_owned(),
            value => format!("default `{value}`"),
        };
        list.push_str(&format!("* **`{}`** = `{}`, {default}\\\n  {}\n", knob.key, knob.values, knob.help));
    }
    let list = format!("\n{list}\n");
    check_generated("docs/using/options.md", "<!-- begin: options -->\n", "<!-- end: options -->\n", &list);
}

/// The flags of IREE's tools are made from [`KNOBS`], with the help that `--help` prints; `UPDATE_DOCS=1` writes them.
#[test]
fn options_of_the_flags_are_the_drivers() {
    // Pieces of a C string of at most 70 characters, in lines that a macro continues.
    let literal = |text: &str| {
        let mut lines = vec![String::new()];
        for word in text.split_inclusive(' ') {
            if lines.last().is_some_and(|line| line.len() + word.len() > 70) {
                lines.push(String::new());
            }
            lines.last_mut().expect("a line").push_str(word);
        }
        lines.iter().map(|line| format!(" \\\n    {line:?}")).collect::<String>()
    };
    let [mut numbers, mut words, mut switches] =
        ["NUMBER", "WORD", "SWITCH"].map(|kind| format!("#define AMDGPU_RS_{kind}_FLAGS(X)"));
    for knob in KNOBS.iter().filter(|knob| knob.key != "libhsa_search_path") {
        let (key, default) = (knob.key, knob.default());
        match knob.values {
            "true|false" => switches += &format!(" \\\n  X({key}, {default},{})", literal(knob.help)),
            values if values.starts_with('<') => {
                let help = match default.as_str() {
                    "0" => knob.help.to_owned(),
                    default => format!("{} 0 is the default, {default}.", knob.help),
                };
                numbers += &format!(" \\\n  X({key},{})", literal(&help));
            }
            values => {
                let help = format!("{} Values: {}.", knob.help, values.replace('|', ", "));
                words += &format!(" \\\n  X({key}, {default:?},{})", literal(&help));
            }
        }
    }
    let made = format!(
        "// Made from src/core/gpu/options.rs: UPDATE_DOCS=1 cargo test -p amdgpu-gpu options_of_the\n\
         // X(key, help): whole numbers; 0 leaves the default.\n{numbers}\n\n\
         // X(key, default, help): words.\n{words}\n\n\
         // X(key, default, help): switches.\n{switches}\n"
    );
    check_generated("registration/driver_module.c", "// begin: options\n", "// end: options\n", &made);
}
