// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware registers and trap temporaries: each one is simulated, or refused by its name.

use crate::machine::{Case, MACHINES, Machine, State, check, cpu, machine_code, run};
use random::Random;
use sim_isa::Target;
use sim_llvm::{assemble, disassemble};
use sim_wave::{FaultKind, Jit, hardware_register};

/// Runs each instruction by itself on random registers; how it faults.
fn outcomes(machine: Machine, texts: impl Iterator<Item = String>) -> Vec<Option<FaultKind>> {
    let state = State::random(machine, &mut Random(0xd7));
    let cases: Vec<_> = texts.map(|text| Case::new(text, state.clone(), state.clone())).collect();
    let codes = machine_code(machine, &cases);
    codes.into_iter().map(|code| run(machine, &mut state.clone(), &code.unwrap(), Some(Jit::CHECK)).err()).collect()
}

/// The names are LLVM's.
#[test]
fn hardware_registers_have_their_names() {
    for machine in MACHINES {
        let cpu = cpu(machine);
        let lines: Vec<_> = (0..64).map(|number| format!("s_getreg_b32 s20, hwreg({number})")).collect();
        let words: Vec<_> = assemble(cpu, &lines).into_iter().map(|words| words.unwrap()).collect();
        for (number, text) in disassemble(cpu.split(',').next().unwrap(), &words).into_iter().enumerate() {
            let text = text.unwrap();
            let name = text.split_once("hwreg(HW_REG_").map(|(_, name)| name.trim_end_matches(')'));
            assert_eq!(hardware_register(machine.target, number as u16), name, "{cpu}: {text}");
        }
    }
}

/// Lists the hardware registers that can be read and written, of all targets together; the rest is refused.
#[test]
fn hardware_registers_are_simulated_or_refused_by_name() {
    const READ: [&str; 12] = [
        "MODE",
        "STATUS",
        "SH_MEM_BASES",
        "HW_ID",
        "XCC_ID",
        "HW_ID1",
        "HW_ID2",
        "SHADER_CYCLES",
        "WAVE_MODE",
        "SHADER_CYCLES_LO",
        "SHADER_CYCLES_HI",
        "WAVE_SCHED_MODE",
    ];
    const WRITTEN: [&str; 5] = ["MODE", "FLAT_SCR_LO", "FLAT_SCR_HI", "WAVE_MODE", "WAVE_SCHED_MODE"];
    for machine in MACHINES {
        // Two bits that all have.
        let read = outcomes(machine, (0..64).map(|number| format!("s_getreg_b32 s20, hwreg({number}, 0, 2)")));
        let written = (0..64).map(|number| format!("s_setreg_imm32_b32 hwreg({number}, 0, 2), 0"));
        for ((number, read), written) in read.into_iter().enumerate().zip(outcomes(machine, written)) {
            let Some(name) = hardware_register(machine.target, number as u16) else {
                for result in [read, written] {
                    assert!(
                        matches!(&result, Some(FaultKind::NotImplemented(what))
                            if what.contains(&format!("hardware register {number}, which"))),
                        "{machine:?} {number}: {result:?}"
                    );
                }
                continue;
            };
            let is_here = |names: &[&str]| names.contains(&name) || names.contains(&name.trim_start_matches("WAVE_"));
            let writable = is_here(&WRITTEN) && !(machine.target.is_gfx11() && name.starts_with("FLAT_SCR"));
            let readable = is_here(&READ) && name != "WAVE_STATUS";
            for (result, works) in [(read, readable), (written, writable)] {
                match &result {
                    None => assert!(works, "{machine:?} {name}"),
                    Some(FaultKind::NotImplemented(what)) => {
                        assert!(!works && what.ends_with(&format!("HW_REG_{name}")), "{machine:?} {name}: {what}")
                    }
                    Some(other) => panic!("{machine:?} {name}: {other}"),
                }
            }
        }
    }
}

/// Triton and LLVM's expert mode set it.
#[test]
fn the_scheduling_mode_is_what_was_written() {
    for machine in MACHINES.into_iter().filter(|machine| machine.target.is_gfx12()) {
        let before = State::random(machine, &mut Random(0xd8));
        let mut after = before.clone();
        (after.s[20], after.s[21]) = (2, 0);
        let lines = [
            "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2",
            "s_getreg_b32 s20, hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2)",
            // The first wave.
            "s_getreg_b32 s21, hwreg(HW_REG_WAVE_HW_ID1)",
        ];
        check(machine, vec![Case::new(lines.join("\n"), before, after)]);
    }
}

/// Hardware sets some on gfx12 (tests of launches have their values), user code has no others.
#[test]
fn trap_temporaries_that_hardware_does_not_set_are_refused() {
    for machine in MACHINES {
        let read = outcomes(machine, (0..16).map(|n| format!("s_mov_b32 s20, ttmp{n}")));
        let written = outcomes(machine, (0..16).map(|n| format!("s_mov_b32 ttmp{n}, 0")));
        for ((n, read), written) in read.into_iter().enumerate().zip(written) {
            let is_set = match machine.target {
                Target::Gfx1200 => (7..=9).contains(&n),
                Target::Gfx1250 => (6..=9).contains(&n),
                _ => false,
            };
            let is_refused = |result: &Option<FaultKind>| matches!(result, Some(FaultKind::NotImplemented(what)) if what.contains(&format!("ttmp{n}, which")));
            assert_eq!(read.is_none(), is_set, "{machine:?} ttmp{n}");
            assert!(is_set || is_refused(&read), "{machine:?} ttmp{n}: {read:?}");
            assert!(is_refused(&written) == is_set && written.is_none() != is_set, "{machine:?} ttmp{n}: {written:?}");
        }
    }
}
