// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The lanes that data-parallel primitives read (RDNA3 ISA 7.7, CDNA3 ISA 6.4).

use sim_isa::Dpp;

/// The lanes that a crossing reads and writes, as far as they are known when code is translated.
pub(crate) struct Sources {
    /// Lane that each lane reads, if it is in `exist`.
    pub from: [u8; 64],
    /// Lanes that have a lane to read.
    exist: u64,
    /// Lanes that may be written.
    pub selected: u64,
    /// Lanes without a lane to read are written as well, with zeros.
    pub bound_ctrl: bool,
    /// Inactive lanes are read as well.
    fetch_inactive: bool,
}

impl Sources {
    pub fn new(dpp: Dpp, lanes: usize) -> Self {
        let mut sources = Sources { from: [0; 64], exist: 0, selected: 0, bound_ctrl: true, fetch_inactive: true };
        for lane in 0..lanes {
            let (from, selected) = match dpp {
                Dpp::None => (Some(lane), true),
                Dpp::Row { ctrl, row_mask, bank_mask, .. } => {
                    let selected = row_mask >> (lane / 16 % 4) & bank_mask >> (lane % 16 / 4) & 1 != 0;
                    (source_lane(ctrl, lane, lanes), selected)
                }
                Dpp::Lanes8 { sel, .. } => (Some(lane & !7 | (sel >> (3 * (lane & 7)) & 7) as usize), true),
            };
            sources.from[lane] = from.unwrap_or(0) as u8;
            sources.exist |= u64::from(from.is_some()) << lane;
            sources.selected |= u64::from(selected) << lane;
        }
        match dpp {
            Dpp::None => {}
            Dpp::Row { bound_ctrl, fetch_inactive, .. } => {
                (sources.bound_ctrl, sources.fetch_inactive) = (bound_ctrl, fetch_inactive);
            }
            Dpp::Lanes8 { fetch_inactive, .. } => sources.fetch_inactive = fetch_inactive,
        }
        sources
    }

    /// Lanes with a lane to read that may be read.
    #[inline(always)]
    pub fn readable<const L: usize>(&self, exec: u64) -> u64 {
        if self.fetch_inactive || exec | !(u64::MAX >> (64 - L)) == u64::MAX {
            return self.exist;
        }
        (0..L).fold(0, |lanes, lane| lanes | (exec >> self.from[lane] & 1) << lane) & self.exist
    }
}

/// The lane that `lane` of `lanes` reads, if there is one; for most controls it is in the same row of 16.
fn source_lane(ctrl: u16, lane: usize, lanes: usize) -> Option<usize> {
    let row = lane & !15;
    let at = lane & 15;
    let n = usize::from(ctrl & 15);
    let from = match ctrl {
        // quad_perm
        0..=0xff => at & !3 | usize::from(ctrl >> (2 * (at & 3)) & 3),
        // row_shl, row_shr, row_ror
        0x101..=0x10f => at + n,
        0x111..=0x11f => at.wrapping_sub(n),
        0x121..=0x12f => (at + 16 - n) & 15,
        // wave_shl, wave_rol, wave_shr, wave_ror
        0x130 => return Some(lane + 1).filter(|&from| from < lanes),
        0x134 => return Some((lane + 1) % lanes),
        0x138 => return lane.checked_sub(1),
        0x13c => return Some((lane + lanes - 1) % lanes),
        // row_mirror, row_half_mirror
        0x140 => 15 - at,
        0x141 => at & 8 | (7 - (at & 7)),
        // row_bcast:15, row_bcast:31
        0x142 => return row.checked_sub(1),
        0x143 => return (lane & 32).checked_sub(1),
        // row_share (row_newbcast), row_xmask
        0x150..=0x15f => n,
        0x160..=0x16f => at ^ n,
        _ => return None,
    };
    (from < 16).then_some(row | from)
}
