// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Shared virtual memory: agents' access to memory that the host program has from outside of HSA (`hsa_amd_svm_*` of
//! `hsa_ext_amd.h`).
//!
//! Attributes belong to pages. Only access and "read only" have an effect on kernels here. The others are hints about
//! the location of memory and are only stored. As with locked memory, the program must keep the memory mapped while
//! kernels use it.

use std::collections::BTreeMap;
use std::ops::Range;

use hsa_abi::{HsaAgent, HsaPointerType, HsaStatus, HsaSvmAttribute, HsaSvmAttributePair, HsaSvmModel};
use parking_lot::RwLock;

use crate::machine::agent_id::{AgentIndex, AgentMask, CPU, agent_handle, agent_index};
use crate::machine::memory::allocation::AllocationInfo;

/// Attributes of a page.
#[derive(Clone, Copy, Debug)]
struct Attributes {
    /// Agents that may access it.
    access: AgentMask,
    /// Agents for which it must not migrate.
    in_place: AgentMask,
    model: HsaSvmModel,
    read_only: bool,
    hive_local: bool,
    read_mostly: bool,
    gpu_exec: bool,
    granularity: u64,
    preferred: HsaAgent,
    prefetched: HsaAgent,
}

/// The kernel driver's defaults for memory without attributes.
impl Default for Attributes {
    fn default() -> Self {
        Self {
            access: AgentMask::of(CPU),
            in_place: AgentMask::default(),
            model: HsaSvmModel::FINE_GRAINED,
            read_only: false,
            hive_local: false,
            read_mostly: false,
            gpu_exec: false,
            granularity: 9,
            preferred: HsaAgent::NULL,
            prefetched: HsaAgent::NULL,
        }
    }
}

impl Attributes {
    /// Sets a checked attribute.
    fn apply(&mut self, pair: &HsaSvmAttributePair) {
        let (value, on) = (pair.value, pair.value != 0);
        let agent = || agent_index(HsaAgent { handle: value }).map(AgentMask::of).unwrap_or_default();
        match pair.attribute {
            HsaSvmAttribute::GLOBAL_FLAG => self.model = HsaSvmModel(value),
            HsaSvmAttribute::READ_ONLY => self.read_only = on,
            HsaSvmAttribute::HIVE_LOCAL => self.hive_local = on,
            HsaSvmAttribute::READ_MOSTLY => self.read_mostly = on,
            HsaSvmAttribute::GPU_EXEC => self.gpu_exec = on,
            HsaSvmAttribute::MIGRATION_GRANULARITY => self.granularity = value,
            HsaSvmAttribute::PREFERRED_LOCATION => self.preferred = HsaAgent { handle: value },
            HsaSvmAttribute::AGENT_ACCESSIBLE => {
                (self.access, self.in_place) = (self.access | agent(), self.in_place.without(agent()));
            }
            HsaSvmAttribute::AGENT_ACCESSIBLE_IN_PLACE => {
                (self.access, self.in_place) = (self.access | agent(), self.in_place | agent());
            }
            _ => (self.access, self.in_place) = (self.access.without(agent()), self.in_place.without(agent())),
        }
    }
}

/// Checks that an attribute can be set to a value.
fn check(pair: &HsaSvmAttributePair, agent_count: usize) -> Result<(), HsaStatus> {
    let ok = match pair.attribute {
        HsaSvmAttribute::GLOBAL_FLAG => pair.value <= HsaSvmModel::COARSE_GRAINED.0,
        HsaSvmAttribute::READ_ONLY
        | HsaSvmAttribute::HIVE_LOCAL
        | HsaSvmAttribute::READ_MOSTLY
        | HsaSvmAttribute::GPU_EXEC
        | HsaSvmAttribute::MIGRATION_GRANULARITY => true,
        HsaSvmAttribute::PREFERRED_LOCATION if pair.value == 0 => true,
        HsaSvmAttribute::PREFERRED_LOCATION
        | HsaSvmAttribute::AGENT_ACCESSIBLE
        | HsaSvmAttribute::AGENT_ACCESSIBLE_IN_PLACE
        | HsaSvmAttribute::AGENT_NO_ACCESS => return agent_of(pair.value, agent_count).map(drop),
        _ => false,
    };
    if ok { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
}

/// Attributes of the pages from the key to `end`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    attributes: Attributes,
}

/// Attributes of all pages that have any.
#[derive(Debug, Default)]
pub struct Svm(RwLock<BTreeMap<u64, Piece>>);

impl Svm {
    /// The pages around `address` with the same attributes, if it has any.
    pub fn find(&self, address: u64) -> Option<AllocationInfo> {
        let pieces = self.0.read();
        let (&base, piece) = pieces.range(..=address).next_back().filter(|(_, piece)| address < piece.end)?;
        Some(AllocationInfo {
            pointer_type: HsaPointerType::UNKNOWN,
            read_only: if piece.attributes.read_only { AgentMask::ALL } else { AgentMask::default() },
            ..AllocationInfo::new(base, piece.end - base, CPU, piece.attributes.access)
        })
    }

    /// Sets attributes of whole pages, all or none. Agents are indices below `agent_count`.
    pub fn set(&self, pages: Range<u64>, list: &[HsaSvmAttributePair], agent_count: usize) -> Result<(), HsaStatus> {
        for pair in list {
            check(pair, agent_count)?;
        }
        self.change(pages, |attributes| list.iter().for_each(|pair| attributes.apply(pair)));
        Ok(())
    }

    /// Fills in the attributes of whole pages. If pages differ: indeterminate for the memory model, false for flags,
    /// the least granularity, no location, no access.
    pub fn get(
        &self,
        pages: Range<u64>,
        list: &mut [HsaSvmAttributePair],
        agent_count: usize,
    ) -> Result<(), HsaStatus> {
        let all = self.attributes(pages);
        let flag = |flag: fn(&Attributes) -> bool| u64::from(all.iter().all(flag));
        let location = |location: fn(&Attributes) -> HsaAgent| {
            let first = location(&all[0]);
            if all.iter().all(|attributes| location(attributes) == first) { first.handle } else { 0 }
        };
        for HsaSvmAttributePair { attribute, value } in list {
            *value = match *attribute {
                HsaSvmAttribute::GLOBAL_FLAG => match all.iter().all(|other| other.model == all[0].model) {
                    true => all[0].model.0,
                    false => HsaSvmModel::INDETERMINATE.0,
                },
                HsaSvmAttribute::READ_ONLY => flag(|attributes| attributes.read_only),
                HsaSvmAttribute::HIVE_LOCAL => flag(|attributes| attributes.hive_local),
                HsaSvmAttribute::READ_MOSTLY => flag(|attributes| attributes.read_mostly),
                HsaSvmAttribute::GPU_EXEC => flag(|attributes| attributes.gpu_exec),
                HsaSvmAttribute::MIGRATION_GRANULARITY => {
                    all.iter().map(|attributes| attributes.granularity).min().unwrap_or_default()
                }
                HsaSvmAttribute::PREFERRED_LOCATION => location(|attributes| attributes.preferred),
                HsaSvmAttribute::PREFETCH_LOCATION => location(|attributes| attributes.prefetched),
                HsaSvmAttribute::ACCESS_QUERY => {
                    let agent = agent_of(*value, agent_count)?;
                    *attribute = if all.iter().all(|attributes| attributes.in_place.has(agent)) {
                        HsaSvmAttribute::AGENT_ACCESSIBLE_IN_PLACE
                    } else if all.iter().all(|attributes| attributes.access.has(agent)) {
                        HsaSvmAttribute::AGENT_ACCESSIBLE
                    } else {
                        HsaSvmAttribute::AGENT_NO_ACCESS
                    };
                    *value
                }
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            };
        }
        Ok(())
    }

    /// Records that the pages were prefetched to an agent.
    pub fn prefetched(&self, pages: Range<u64>, agent: AgentIndex) {
        self.change(pages, |attributes| attributes.prefetched = agent_handle(agent));
    }

    /// The attributes of each part of the pages; at least one.
    fn attributes(&self, pages: Range<u64>) -> Vec<Attributes> {
        let pieces = self.0.read();
        let before = pieces.range(..pages.start).next_back().filter(|(_, piece)| piece.end > pages.start);
        let (mut all, mut at) = (Vec::new(), pages.start);
        for (&start, piece) in before.into_iter().chain(pieces.range(pages.clone())) {
            if start > at {
                all.push(Attributes::default());
            }
            all.push(piece.attributes);
            at = piece.end;
        }
        if at < pages.end {
            all.push(Attributes::default());
        }
        all
    }

    fn change(&self, pages: Range<u64>, change: impl Fn(&mut Attributes)) {
        let mut pieces = self.0.write();
        for edge in [pages.start, pages.end] {
            let around = pieces.range_mut(..edge).next_back().filter(|(_, piece)| piece.end > edge);
            if let Some((_, piece)) = around {
                let rest = *piece;
                piece.end = edge;
                pieces.insert(edge, rest);
            }
        }
        let (mut at, mut holes) = (pages.start, Vec::new());
        for (&start, piece) in pieces.range_mut(pages.clone()) {
            holes.push(at..start);
            change(&mut piece.attributes);
            at = piece.end;
        }
        holes.push(at..pages.end);
        for hole in holes.into_iter().filter(|hole| !hole.is_empty()) {
            let mut piece = Piece { end: hole.end, attributes: Attributes::default() };
            change(&mut piece.attributes);
            pieces.insert(hole.start, piece);
        }
    }
}

fn agent_of(value: u64, agent_count: usize) -> Result<AgentIndex, HsaStatus> {
    agent_index(HsaAgent { handle: value }).filter(|agent| agent.0 < agent_count).ok_or(HsaStatus::ERROR_INVALID_AGENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(attribute: HsaSvmAttribute, value: u64) -> HsaSvmAttributePair {
        HsaSvmAttributePair { attribute, value }
    }

    fn get(svm: &Svm, pages: Range<u64>, attribute: HsaSvmAttribute, value: u64) -> HsaSvmAttributePair {
        let mut list = [pair(attribute, value)];
        svm.get(pages, &mut list, 2).unwrap();
        list[0]
    }

    #[test]
    fn attributes_belong_to_pages() {
        let svm = Svm::default();
        let gpu = agent_handle(AgentIndex(1)).handle;
        let coarse = pair(HsaSvmAttribute::GLOBAL_FLAG, HsaSvmModel::COARSE_GRAINED.0);
        svm.set(0x2000..0x6000, &[pair(HsaSvmAttribute::AGENT_ACCESSIBLE, gpu)], 2).unwrap();
        svm.set(0x1000..0x3000, &[coarse, pair(HsaSvmAttribute::READ_ONLY, 1)], 2).unwrap();

        let model = |pages| get(&svm, pages, HsaSvmAttribute::GLOBAL_FLAG, 0).value;
        assert_eq!(model(0x1000..0x3000), HsaSvmModel::COARSE_GRAINED.0);
        assert_eq!(model(0x3000..0x8000), HsaSvmModel::FINE_GRAINED.0);
        assert_eq!(model(0..0x2000), HsaSvmModel::INDETERMINATE.0);
        let access = |pages| get(&svm, pages, HsaSvmAttribute::ACCESS_QUERY, gpu).attribute;
        assert_eq!(access(0x2000..0x6000), HsaSvmAttribute::AGENT_ACCESSIBLE);
        assert_eq!(access(0x2000..0x7000), HsaSvmAttribute::AGENT_NO_ACCESS);
        assert_eq!(access(0x1000..0x3000), HsaSvmAttribute::AGENT_NO_ACCESS);

        let found = svm.find(0x2fff).unwrap();
        assert_eq!((found.base, found.size), (0x2000, 0x1000));
        assert!(found.access.has(AgentIndex(1)) && found.read_only.has(AgentIndex(1)));
        let found = svm.find(0x3000).unwrap();
        assert_eq!((found.base, found.size), (0x3000, 0x3000));
        assert!(!found.read_only.has(AgentIndex(1)));
        assert!(svm.find(0x6000).is_none());
    }

    #[test]
    fn locations_and_refusals() {
        let svm = Svm::default();
        let gpu = agent_handle(AgentIndex(1)).handle;
        let prefetched = |pages| get(&svm, pages, HsaSvmAttribute::PREFETCH_LOCATION, 7).value;
        svm.prefetched(0x1000..0x2000, AgentIndex(1));
        assert_eq!((prefetched(0x1000..0x2000), prefetched(0x1000..0x3000)), (gpu, 0));
        for bad in [
            pair(HsaSvmAttribute::PREFETCH_LOCATION, gpu),
            pair(HsaSvmAttribute::ACCESS_QUERY, gpu),
            pair(HsaSvmAttribute::GLOBAL_FLAG, HsaSvmModel::INDETERMINATE.0),
            pair(HsaSvmAttribute(0x99), 0),
        ] {
            let list = [pair(HsaSvmAttribute::READ_ONLY, 1), bad];
            assert_eq!(svm.set(0x1000..0x2000, &list, 2), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        }
        let stranger = pair(HsaSvmAttribute::AGENT_ACCESSIBLE, agent_handle(AgentIndex(2)).handle);
        assert_eq!(svm.set(0x1000..0x2000, &[stranger], 2), Err(HsaStatus::ERROR_INVALID_AGENT));
        assert_eq!(get(&svm, 0x1000..0x2000, HsaSvmAttribute::READ_ONLY, 0).value, 0);
    }
}
