// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The initial values of registers, which hardware sets before a wave's first instruction.

use crate::rig::launch;
use crate::{Map, load_for};
use sim_isa::Target;
use sim_llvm::assemble;
use sim_wave::run;

/// Stores a scalar register of each wave of a grid of 2x3x2 workgroups of 100 work-items, at the place that the
/// workgroup's id and the work-item's give it.
fn stored(target: Target, cpu: &str, lanes: u32, register: &str) -> Vec<u32> {
    let lines = [
        "s_load_b64 s[6:7], s[0:1], 0x0".to_owned(),
        format!("s_mov_b32 s8, {register}"),
        "s_and_b32 s9, ttmp7, 0xffff".to_owned(),
        "s_lshr_b32 s10, ttmp7, 16".to_owned(),
        "s_mul_i32 s10, s10, 6".to_owned(),
        "s_mul_i32 s9, s9, 2".to_owned(),
        "s_add_co_u32 s9, s9, s10".to_owned(),
        "s_add_co_u32 s9, s9, ttmp9".to_owned(),
        "s_mul_i32 s9, s9, 100".to_owned(),
        "v_and_b32 v0, 0x3ff, v0".to_owned(),
        "v_add_nc_u32 v0, s9, v0".to_owned(),
        "v_lshlrev_b32 v0, 2, v0".to_owned(),
        "v_mov_b32 v1, s8".to_owned(),
        "s_wait_kmcnt 0x0".to_owned(),
        "global_store_b32 v0, v1, s[6:7]".to_owned(),
        "s_endpgm".to_owned(),
    ];
    let code: Vec<u32> = assemble(cpu, &lines).into_iter().flat_map(Option::unwrap).collect();
    let out = vec![u32::MAX; 1200];
    let map = Map::default();
    let arguments = [map.of(&out, true)];
    map.of(&arguments, false);
    let mut launch = launch([200, 3, 2], [100, 1, 1], &arguments);
    launch.dispatch_id = 0x1234_5678_9abc;
    run(&load_for(target, lanes, &code), &launch, &map).unwrap();
    // SAFETY: the kernel wrote them through the address in the map.
    out.iter().map(|value| unsafe { std::ptr::read_volatile(value) }).collect()
}

#[test]
fn trap_temporaries_tell_where_a_wave_is() {
    for (target, cpu, lanes) in [
        (Target::Gfx1200, "gfx1201", 32),
        (Target::Gfx1200, "gfx1201,+wavefrontsize64", 64),
        (Target::Gfx1250, "gfx1250", 32),
    ] {
        let all = |value: &dyn Fn(u32, u32) -> u32| -> Vec<u32> {
            (0..1200).map(|n| value(n / 100, n % 100)).collect::<Vec<_>>()
        };
        // The packet's number, the wave's in its workgroup, and that there is more than one dimension.
        let wave = all(&|_, item| 0x1678_9abc & 0x1ff_ffff | (item / lanes) << 25 | 1 << 30);
        assert_eq!(stored(target, cpu, lanes, "ttmp8"), wave, "{cpu}");
        let [x, yz] = [all(&|group, _| group % 2), all(&|group, _| (group / 2 % 3) | ((group / 6) << 16))];
        assert_eq!(stored(target, cpu, lanes, "ttmp9"), x, "{cpu}");
        assert_eq!(stored(target, cpu, lanes, "ttmp7"), yz, "{cpu}");
        if target == Target::Gfx1250 {
            assert_eq!(stored(target, cpu, lanes, "ttmp6"), vec![0; 1200], "{cpu}");
        }
    }
}
