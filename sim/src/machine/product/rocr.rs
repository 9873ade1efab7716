// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Releases of ROCR that the runtime can behave like, and ROCR's own environment variables. `docs/sim/rocr.md` lists
//! every behaviour with its source.

use hsa_abi::HsaStatus;

/// A release of ROCR. Releases differ in some behaviours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// ROCm 6.2: ROCR 1.14.
    Rocm6_2,
    /// ROCm 7.0: ROCR 1.18.
    Rocm7_0,
}

impl Release {
    const NAMES: [(&str, Self); 2] = [("6.2", Self::Rocm6_2), ("7.0", Self::Rocm7_0)];

    /// Parses a release's name. The error lists the accepted names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, release)| release).ok_or_else(|| {
            let names = Self::NAMES.map(|(known, _)| known).join(", ");
            format!("HSA_SIM_ROCR={name}: unknown release; known ones: {names}")
        })
    }

    /// Minor versions of the runtime (its package's, as AMD builds it) and of AMD's extension. Both have major version
    /// 1.
    pub fn minor_versions(self) -> (u16, u16) {
        match self {
            Self::Rocm6_2 => (14, 6),
            Self::Rocm7_0 => (18, 11),
        }
    }

    /// Maximum number of work-items of a grid in each dimension, as agents and instruction sets report it.
    pub fn grid_max_dim(self) -> [u32; 3] {
        match self {
            Self::Rocm6_2 => [u32::MAX; 3],
            Self::Rocm7_0 => [i32::MAX as u32, u16::MAX.into(), u16::MAX.into()],
        }
    }

    /// Status of the export of memory that the kernel driver makes no DMA-BUFs of.
    pub fn without_dmabufs(self) -> HsaStatus {
        match self {
            Self::Rocm6_2 => HsaStatus::ERROR,
            Self::Rocm7_0 => HsaStatus::ERROR_OUT_OF_RESOURCES,
        }
    }

    /// True if the release supports code objects for generic targets.
    pub fn generic_targets(self) -> bool {
        self >= Self::Rocm7_0
    }
}

/// GPUs that `ROCR_VISIBLE_DEVICES` selects, in its order, as indices into `uuids`, which has one for each GPU; all if
/// it is not set. The list has numbers and prefixes of UUIDs. It ends at the first entry that is wrong, ambiguous or
/// repeated.
pub fn visible(list: Option<&str>, uuids: &[String]) -> Vec<usize> {
    let Some(list) = list else { return (0..uuids.len()).collect() };
    let mut visible = Vec::new();
    for token in list.split(',').take(uuids.len()) {
        let token = token.trim().to_uppercase();
        match place(&token, uuids) {
            Some(place) if !visible.contains(&place) => visible.push(place),
            _ => break,
        }
    }
    visible
}

fn place(token: &str, uuids: &[String]) -> Option<usize> {
    if !token.starts_with('G') {
        return token.parse().ok().filter(|&place: &usize| place < uuids.len());
    }
    // GPUs without a unique id share one UUID, which names none.
    let is_named = |&place: &usize| uuids[place] != "GPU-XX" && uuids[place].to_uppercase().starts_with(token);
    let mut matches = (0..uuids.len()).filter(is_named);
    let place = matches.next().filter(|_| (5..=20).contains(&token.len()))?;
    matches.next().is_none().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_are_numbers_and_starts_of_uuids_up_to_the_first_wrong_one() {
        let uuids = ["GPU-00aa", "GPU-00bb", "GPU-11cc"].map(str::to_owned);
        let visible = |list| visible(Some(list), &uuids);
        assert_eq!(visible(""), [0_usize; 0]);
        assert_eq!(visible("2,0"), [2, 0]);
        assert_eq!(visible(" 1 , gpu-11"), [1, 2]);
        assert_eq!(visible("GPU-00,1"), [0_usize; 0], "two match");
        assert_eq!(visible("GPU"), [0_usize; 0], "too short");
        assert_eq!(visible("1,1,0"), [1]);
        assert_eq!(visible("0,7,1"), [0]);
        assert_eq!(visible("-1,0"), [0_usize; 0]);
        assert_eq!(super::visible(None, &uuids), [0, 1, 2]);
    }

    #[test]
    fn an_unknown_release_is_told_which_there_are() {
        assert_eq!(Release::parse("6.2"), Ok(Release::Rocm6_2));
        assert_eq!(Release::parse("5"), Err("HSA_SIM_ROCR=5: unknown release; known ones: 6.2, 7.0".to_owned()));
    }
}
