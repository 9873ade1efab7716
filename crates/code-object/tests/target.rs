// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Target ids: names, ELF flags, compatibility.

use std::collections::HashSet;

use amdgpu_code_object::{Feature, MismatchReason, PROCESSORS, Processor, TargetError, TargetId};
use proptest::prelude::*;

fn target(text: &str) -> TargetId {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Why code for the first target does not run on the second.
fn reasons(code_object: &str, agent: &str) -> Vec<MismatchReason> {
    let result = target(code_object).check_runs_on(&target(agent));
    result.err().map_or_else(Vec::new, |mismatch| mismatch.reasons)
}

#[test]
fn parses_and_prints_names() {
    for name in ["gfx900", "gfx90a", "gfx90a:sramecc+:xnack-", "gfx906:xnack+", "gfx1100", "gfx1036"]
        .into_iter()
        .chain(["gfx9-generic", "gfx9-4-generic", "gfx10-3-generic", "gfx12-5-generic:", "gfx1310"])
    {
        let name = name.trim_end_matches(':');
        assert_eq!(target(name).to_string(), name);
        let isa = format!("amdgcn-amd-amdhsa--{name}");
        assert_eq!(target(&isa), target(name));
        assert_eq!(target(name).hsa_isa_name(), isa);
    }
    let gfx90a = target("gfx90a:xnack-:sramecc+");
    assert_eq!(gfx90a.processor, Processor::Exact { major: 9, minor: 0, stepping: 10 });
    assert_eq!((gfx90a.sramecc, gfx90a.xnack), (Feature::On, Feature::Off));
    let gfx1100 = target("gfx1100");
    assert_eq!((gfx1100.sramecc, gfx1100.xnack), (Feature::Unsupported, Feature::Unsupported));
}

#[test]
fn rejects_bad_names() {
    for name in
        ["", "gfx", "gfx11", "gfx110000", "gfx09a", "gfx90A", "gfx9x0", "sm_80", "gfx-generic", "gfx11-1-1-generic"]
            .into_iter()
            .chain(["amdgcn-amd-amdhsa--", "amdgcn-amd-amdhsa-gfx900", "gfx011-generic", "gfx9é0", "gfx1250-strict"])
    {
        assert!(matches!(name.parse::<TargetId>(), Err(TargetError::Processor(_))), "{name}");
    }
    for name in ["gfx90a:", "gfx90a:xnack", "gfx90a:xnack+:", "gfx90a:xnack+:xnack+", "gfx90a:tgsplit+", "gfx90a:+"] {
        assert!(matches!(name.parse::<TargetId>(), Err(TargetError::Feature { .. })), "{name}");
    }
    let error = "gfx1100:xnack+".parse::<TargetId>().unwrap_err().to_string();
    assert_eq!(error, "target id `gfx1100:xnack+` sets `xnack`, which gfx1100 does not let one choose");
}

#[test]
fn table_is_consistent() {
    let processors: HashSet<_> = PROCESSORS.iter().map(|info| info.processor).collect();
    let machs: HashSet<_> = PROCESSORS.iter().map(|info| info.mach).collect();
    assert_eq!((processors.len(), machs.len()), (PROCESSORS.len(), PROCESSORS.len()));
    for info in PROCESSORS {
        assert_eq!(info.processor.to_string().parse(), Ok(info.processor));
        assert_eq!(Processor::from_mach(info.mach), Some(info));
        if let Some((generic, _)) = info.generic {
            let family = generic.info().expect("the family is in the table");
            // Code for the family may leave open whatever one of its members lets one choose.
            assert!(family.xnack >= info.xnack, "{}", info.processor);
        }
    }
}

/// `e_flags` as LLVM 22's assembler writes them (`llvm-mc --mcpu=... --amdhsa-code-object-version=6`).
#[test]
fn reads_elf_flags() {
    for (flags, name) in [
        (0x12c, "gfx900"),
        (0x52f, "gfx906"),
        (0x53f, "gfx90a"),
        (0x54c, "gfx942"),
        (0x133, "gfx1010"),
        (0x045, "gfx1036"),
        (0x041, "gfx1100"),
        (0x058, "gfx1153"),
        (0x04e, "gfx1201"),
        (0x549, "gfx1250"),
        (0x55a, "gfx1251"),
        (0x72f, "gfx906:xnack+"),
        (0xa3f, "gfx90a:sramecc-:xnack-"),
        (0xf3f, "gfx90a:sramecc+:xnack+"),
    ] {
        // Versions 4, 5 and 6 share the layout; only 0x72f and the last two carry settings.
        let expected = target(name);
        for abi_version in 2..=4 {
            assert_eq!(TargetId::from_elf(flags, abi_version), Ok(expected), "{flags:#x}");
        }
    }
    for (flags, name) in [(0x1000151, "gfx9-generic"), (0x100055f, "gfx9-4-generic"), (0x2000054, "gfx11-generic")] {
        let found = TargetId::from_elf(flags, 4).expect(name);
        assert_eq!(found.to_string(), name);
        assert_eq!(u32::from(found.generic_version), flags >> 24);
        assert!(matches!(TargetId::from_elf(flags, 3), Err(TargetError::GenericVersion { .. })));
    }
    // Version 3 has one bit a feature; a clear bit means off.
    assert_eq!(TargetId::from_elf(0x12f, 1), Ok(target("gfx906:sramecc-:xnack+")));
    assert_eq!(TargetId::from_elf(0x23f, 1), Ok(target("gfx90a:sramecc+:xnack-")));
    assert_eq!(TargetId::from_elf(0x041, 1), Ok(target("gfx1100")));
    assert_eq!(TargetId::from_elf(0x02a, 4), Err(TargetError::Mach { mach: 0x2a }));
    assert_eq!(TargetId::from_elf(0x041, 0), Err(TargetError::AbiVersion { abi_version: 0 }));
    assert_eq!(TargetId::from_elf(0x041, 5), Err(TargetError::AbiVersion { abi_version: 5 }));
    assert!(matches!(TargetId::from_elf(0x1000041, 4), Err(TargetError::GenericVersion { version: 1, .. })));
    assert!(matches!(TargetId::from_elf(0x0000054, 4), Err(TargetError::GenericVersion { version: 0, .. })));
}

#[test]
fn checks_compatibility() {
    for (code_object, agent) in [
        ("gfx1100", "gfx1100"),
        ("gfx11-generic", "gfx1100"),
        ("gfx11-generic", "gfx1151"),
        ("gfx11-generic", "gfx11-generic"),
        ("gfx9-4-generic", "gfx950:sramecc+:xnack-"),
        ("gfx90a", "gfx90a:sramecc+:xnack-"),
        ("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"),
        // GPUs newer than the table belong to the family of their version.
        ("gfx11-generic", "gfx1109"),
        ("gfx9-4-generic", "gfx943"),
    ] {
        assert_eq!(reasons(code_object, agent), [], "{code_object} on {agent}");
    }
    use MismatchReason::{GenericFamily, Processor, Sramecc, Xnack};
    for (code_object, agent, expected) in [
        ("gfx942", "gfx1100", vec![Processor]),
        ("gfx1100", "gfx11-generic", vec![Processor]),
        ("gfx11-generic", "gfx1201", vec![GenericFamily]),
        ("gfx9-generic", "gfx90a", vec![GenericFamily]),
        ("gfx12-generic", "gfx12-5-generic", vec![GenericFamily]),
        ("gfx11-generic", "gfx1210", vec![GenericFamily]),
        ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", vec![Xnack]),
        ("gfx90a:sramecc-:xnack+", "gfx90a:sramecc+:xnack-", vec![Sramecc, Xnack]),
        ("gfx90a:xnack+", "gfx90a", vec![Xnack]),
        ("gfx906:sramecc+", "gfx1100", vec![Processor, Sramecc]),
    ] {
        assert_eq!(reasons(code_object, agent), expected, "{code_object} on {agent}");
    }
}

#[test]
fn mismatch_names_both_targets_and_the_remedy() {
    let mismatch = target("gfx942:sramecc+").check_runs_on(&target("gfx1100")).unwrap_err();
    assert_eq!(
        mismatch.to_string(),
        "code compiled for `gfx942:sramecc+` does not run on a GPU of target `gfx1100` (another processor, other \
         sramecc setting); compile it for `gfx1100` or `gfx11-generic`"
    );
}

#[test]
fn finds_the_isa_of_an_agent() {
    let isas = [target("gfx1100"), target("gfx11-generic")];
    assert_eq!(target("gfx1100").find_runs_on(&isas), Ok(0));
    assert_eq!(target("gfx11-generic").find_runs_on(&isas), Ok(0));
    let mismatches = target("gfx1201").find_runs_on(&isas).unwrap_err();
    assert_eq!(mismatches.iter().map(|m| m.agent).collect::<Vec<_>>(), isas);
    assert_eq!(target("gfx1201").find_runs_on(&[]), Err(vec![]));
}

#[test]
fn maps_gpus_to_generic_targets() {
    for (gpu, generic) in [
        ("gfx90c", Some("gfx9-generic")),
        ("gfx908", None),
        ("gfx90a", None),
        ("gfx942:sramecc+", Some("gfx9-4-generic:sramecc+")),
        ("gfx1012", Some("gfx10-1-generic")),
        ("gfx1036", Some("gfx10-3-generic")),
        ("gfx1172", Some("gfx11-generic")),
        ("gfx1201", Some("gfx12-generic")),
        ("gfx1250", Some("gfx12-5-generic")),
        ("gfx11-generic", None),
        ("gfx1999", None),
    ] {
        assert_eq!(target(gpu).generic().map(|id| id.to_string()).as_deref(), generic, "{gpu}");
    }
}

proptest! {
    #[test]
    fn what_parses_prints_back(text in "(gfx[0-9a-f]{2,5}|gfx1?[0-9](-[0-9])?-generic)(:(xnack|sramecc)[+-]){0,2}") {
        if let Ok(parsed) = text.parse::<TargetId>() {
            prop_assert_eq!(parsed.to_string().parse::<TargetId>(), Ok(parsed));
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*") {
        let _ = text.parse::<TargetId>();
    }
}
