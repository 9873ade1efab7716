// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Properties of the machine's GPUs: the product, and its integration in the platform (`HSA_SIM_AGENTS`).

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED,
};

use crate::machine::product::listing::Entry;
use crate::machine::product::target::{self, TargetInfo};

/// Part of a GPU's memory that the host reaches through the PCI aperture. The kernel driver lets HSA programs use it
/// only if it covers all of the memory (`kfd_dev_is_large_bar`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// All of the memory.
    Large,
    /// A part, as without resizable BAR. HSA programs cannot use it, but still reach the HDP's registers.
    Small,
    /// Nothing, and no registers either, as in a guest with a virtual function.
    None,
}

/// A GPU agent.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Product that the GPU is.
    pub target: &'static TargetInfo,
    /// Compute units.
    pub compute_units: u32,
    /// Accelerator dies.
    pub xcc: u32,
    /// Size of its own memory in bytes; `None` if it uses the CPU's.
    pub memory: Option<u64>,
    /// Global pools of the GPU, in ROCR's order: `HSA_GLOBAL_FLAG_*`.
    pub pools: Vec<u32>,
    /// Host access to its memory.
    pub bar: Bar,
    /// True if it and other GPUs can get access to each other's memory.
    pub peers: bool,
    /// True if host writes to its memory must be flushed.
    pub hdp_checked: bool,
    /// True if its packet processors publish their read index late.
    pub late_read_index: bool,
    /// True if the kernel driver shares the process's virtual memory with it (`SVMAPISupported` of its topology), so
    /// that locked memory has its host address. Kernels without device-private memory do not.
    pub svm: bool,
    /// True if the kernel driver makes DMA-BUFs of its memory, as drivers do from version 1.12 on.
    pub dmabuf: bool,
    /// Position among the devices on the PCI bus. Partitions of a device share it.
    pub device: usize,
}

/// Names of the pools in settings.
const POOLS: [(&str, u32); 3] = [
    ("coarse", HSA_GLOBAL_FLAG_COARSE_GRAINED),
    ("extended", HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED),
    ("fine", HSA_GLOBAL_FLAG_FINE_GRAINED),
];

const fn setting(name: &'static str, values: &'static str, default: &'static str) -> Entry {
    Entry { name, values, default }
}

/// Settings of a GPU.
pub const SETTINGS: [Entry; 11] = [
    setting("bar", "`large`, `small`, `none`: the host's access to the GPU's memory", "`large`"),
    setting("pools", "some of `coarse+extended+fine`: global memory pools", "ROCR's for the product"),
    setting("cus", "a number of compute units", "the product's"),
    setting("memory", "`own`, or `shared` with the host, as in an APU", "`shared` of APUs, else `own`"),
    setting("product", "a [product](products.md) of this name, as `rx7900xt`, `mi300a`", "the first"),
    setting("partitions", "a number of agents for one device", "`1`"),
    setting("peers", "`yes`, `no`: access between this GPU and others", "`yes`"),
    setting("hdp", "`checked`, `trusted`: unflushed host writes fail a kernel", "`checked`"),
    setting("read_index", "`prompt`, `late`: time at which the read index passes a packet", "`prompt`"),
    setting("svm", "`yes`, `no`: shared virtual memory with the process", "`yes`"),
    setting("dmabuf", "`yes`, `no`: descriptors of allocated memory", "`yes`"),
];

/// Maximum number of GPUs: agents are bits of a 64-bit access mask, and one is the CPU.
const MAX_GPUS: usize = 63;

/// Parses a list of GPUs: targets separated by commas, each with settings behind a colon (`gfx1100:bar=none`), further
/// settings of the same GPU behind commas.
///
/// # Errors
/// The wrong item, and the accepted values.
pub fn parse(list: &str) -> Result<Vec<Gpu>, String> {
    let mut products: Vec<(&str, Vec<&str>)> = Vec::new();
    for item in list.split(',').map(str::trim) {
        match (item.split_once(':'), products.last_mut()) {
            (Some((target, setting)), _) => products.push((target, vec![setting])),
            (None, Some((_, settings))) if item.contains('=') => settings.push(item),
            (None, _) => products.push((item, Vec::new())),
        }
    }
    let mut gpus = Vec::new();
    for (device, (target, settings)) in products.into_iter().enumerate() {
        gpus.extend(product(device, target, &settings)?);
    }
    if gpus.len() > MAX_GPUS {
        return Err(format!("{} agents; at most {MAX_GPUS} are possible", gpus.len()));
    }
    Ok(gpus)
}

/// Agents of the `device`-th product: one, or one for each partition.
fn product(device: usize, name: &str, settings: &[&str]) -> Result<Vec<Gpu>, String> {
    let first = target::find(name)
        .ok_or_else(|| format!("unknown target '{name}'; known targets: {}", target::names().join(", ")))?;
    let target = match settings.iter().rev().find_map(|setting| setting.trim().strip_prefix("product=")) {
        Some(model) => target::products(name).find(|target| target.model() == model).ok_or_else(|| {
            let models: Vec<_> = target::products(name).map(TargetInfo::model).collect();
            format!("'{model}' is not a product of {name}; known products: {}", models.join(", "))
        })?,
        None => first,
    };
    let mut gpu = Gpu {
        target,
        compute_units: target.compute_units,
        xcc: target.xcc,
        memory: (!target.is_apu).then_some(target.memory),
        pools: target.pools.to_vec(),
        bar: Bar::Large,
        peers: true,
        hdp_checked: true,
        late_read_index: false,
        svm: true,
        dmabuf: true,
        device,
    };
    let mut partitions = 1;
    for setting in settings {
        let wrong = || {
            let known = SETTINGS.iter().map(|known| format!("\n  {} = {}", known.name, known.help()));
            format!("'{setting}' of {name} is not a setting; accepted:{}", known.collect::<String>())
        };
        let (key, value) = setting.trim().split_once('=').ok_or_else(wrong)?;
        let number = || value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(wrong);
        match (key, value) {
            ("bar", "large") => gpu.bar = Bar::Large,
            ("bar", "small") => gpu.bar = Bar::Small,
            ("bar", "none") => gpu.bar = Bar::None,
            ("pools", list) => gpu.pools = pools(list).ok_or_else(wrong)?,
            ("cus", _) => gpu.compute_units = number()?,
            ("product", _) => {}
            ("memory", "own") => gpu.memory = Some(target.memory),
            ("memory", "shared") => gpu.memory = None,
            ("partitions", _) => partitions = number()?,
            ("peers", "yes" | "no") => gpu.peers = value == "yes",
            ("hdp", "checked" | "trusted") => gpu.hdp_checked = value == "checked",
            ("read_index", "prompt" | "late") => gpu.late_read_index = value == "late",
            ("svm", "yes" | "no") => gpu.svm = value == "yes",
            ("dmabuf", "yes" | "no") => gpu.dmabuf = value == "yes",
            _ => return Err(wrong()),
        }
    }
    if !gpu.xcc.is_multiple_of(partitions) {
        return Err(format!("partitions={partitions} of {name}: its {} dies cannot be divided so", gpu.xcc));
    }
    gpu.compute_units /= partitions;
    gpu.xcc /= partitions;
    gpu.memory = gpu.memory.map(|memory| memory / u64::from(partitions));
    Ok(vec![gpu; partitions as usize])
}

/// Parses a list of pools, in ROCR's order; `None` if a name is unknown or the list is empty.
fn pools(list: &str) -> Option<Vec<u32>> {
    let known = |name: &str| POOLS.iter().any(|(pool, _)| *pool == name);
    let names: Vec<_> = list.split('+').collect();
    let wanted = POOLS.iter().filter(|(pool, _)| names.contains(pool)).map(|(_, flags)| *flags);
    names.iter().all(|name| known(name)).then(|| wanted.collect())
}

impl Gpu {
    /// True if the host can get access to its memory.
    pub fn is_host_visible(&self) -> bool {
        self.bar == Bar::Large || self.memory.is_none()
    }

    /// PCI bus, device and function, as the kernel driver packs them.
    pub fn location_id(&self) -> u32 {
        (self.device as u32 + 1) << 8
    }

    /// True if host writes go through a host data path that must be flushed.
    pub fn has_hdp(&self) -> bool {
        self.memory.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_belong_to_the_target_before_them() {
        let gpus = parse("gfx1100:bar=none,cus=4, gfx942:partitions=8,gfx1201,peers=no").unwrap();
        assert_eq!(gpus.len(), 10);
        assert_eq!((gpus[0].target.name, gpus[0].bar, gpus[0].compute_units), ("gfx1100", Bar::None, 4));
        for partition in &gpus[1..9] {
            assert_eq!((partition.target.name, partition.device, partition.xcc), ("gfx942", 1, 1));
            assert_eq!(partition.compute_units, 38);
            assert_eq!(partition.memory, Some(gpus[1].target.memory / 8));
        }
        assert_eq!((gpus[9].target.name, gpus[9].peers, gpus[9].device), ("gfx1201", false, 2));
    }

    #[test]
    fn products_of_a_name_have_their_own_properties() {
        let gpu = |list: &str| parse(list).unwrap().remove(0);
        let units = |list: &str| (gpu(list).target.product, gpu(list).compute_units);
        assert_eq!(units("gfx1100:product=rx7900xt"), ("AMD Radeon RX 7900 XT", 84));
        assert_eq!(units("gfx942:product=mi300a,cus=200"), ("AMD Instinct MI300A", 200));
        // APUs have the host's memory; firmware may set some aside.
        for (list, is_shared) in [
            ("gfx1151", true),
            ("gfx1151:memory=own", false),
            ("gfx942:product=mi300a", true),
            ("gfx942:product=mi325x", false),
            ("gfx1101", false),
        ] {
            assert_eq!(gpu(list).memory.is_none(), is_shared, "{list}");
        }
    }

    /// Each name is a processor of the instruction tables, and the machine number is its.
    #[test]
    fn products_are_of_known_processors() {
        for name in target::names() {
            for target in target::products(name) {
                assert!(sim_isa::Target::from_processor(name).is_some(), "{name}");
                let (isa, machine) = target.isas[0];
                assert_eq!(isa.split(':').next(), Some(name));
                assert_eq!(target::isa_name(machine), Some(isa));
                assert_eq!(target.shader_engines % target.xcc, 0, "{}", target.product);
            }
        }
    }

    #[test]
    fn pools_are_in_rocrs_order_and_default_to_the_products() {
        let pools = |list: &str| parse(list).unwrap()[0].pools.clone();
        assert_eq!(pools("gfx1201"), [HSA_GLOBAL_FLAG_COARSE_GRAINED]);
        assert_eq!(pools("gfx1100"), [HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED]);
        assert_eq!(pools("gfx1100:pools=fine+coarse"), [HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED]);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for (list, named) in [
            ("gfx9999", "gfx1200, gfx1201"),
            ("", "known targets"),
            ("bar=none", "known targets"),
            ("gfx1100:bar=huge", "bar = large, small, none: "),
            ("gfx1100:pools=rough", "coarse+extended+fine"),
            ("gfx1100:cus=0", "cus = a number of compute units"),
            ("gfx1100:cus=1,speed=2", "'speed=2' of gfx1100"),
            ("gfx942:partitions=3", "8 dies"),
            ("gfx1100:product=mi300x", "rx7900xtx, rx7900xt"),
        ] {
            let error = parse(list).unwrap_err();
            assert!(error.contains(named), "{list}: {error}");
        }
    }
}
