// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Metrics of GPUs: clocks, temperatures, power, activity, memory. They are sampled when a session begins, is flushed
//! and ends.
//!
//! Linux's amdgpu driver reports them in sysfs, in the folder of the PCI device (`Documentation/gpu/amdgpu/thermal.rst`
//! and `driver-misc.rst`): as files of one value, in hwmon units if they are in its folder, and as the table
//! `gpu_metrics`, which the GPU's firmware fills. Used and total memory are also properties of HSA agents, which are
//! the only source if sysfs is missing: in containers that do not see it, and on the software GPU. Metrics without a
//! source are not in the profile, and are named on standard error, once.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use amdgpu_ffi::messages;
use amdgpu_ffi::profile::metrics::Metric;
use amdgpu_ffi::profile::schema::{MetricSampleRecord, MetricSourceRecord, Record, flags};
use amdgpu_ffi::profile::{bytes_of, host_time};
use amdgpu_gpu::Gpu;

/// The sysfs folder of PCI devices.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// The kind of a source in its record: the first kind of IREE's driver for AMD GPUs.
const KIND_SYSFS: u32 = 1;
const KIND_AGENT: u32 = 2;

/// Sampled values. The first value of a metric is kept.
type Values = BTreeMap<Metric, i64>;

/// The metrics of a logical device's GPUs.
#[derive(Debug)]
pub struct Metrics(Vec<Source>);

impl Metrics {
    /// Finds the metrics of `gpus`, and reports those that are missing.
    pub fn new(gpus: &[Arc<Gpu>]) -> Self {
        let source = |gpu: &Arc<Gpu>| {
            let place = gpu.agent().info().pci.to_string();
            let source = Source::new(gpu.clone(), Folder::find(&Path::new(PCI_DEVICES).join(&place)), &place);
            tell_missing(&source, &place);
            source
        };
        Self(gpus.iter().map(source).collect())
    }

    /// The records of the sources.
    pub fn source_records(&self) -> Vec<u8> {
        self.0.iter().flat_map(Source::record).collect()
    }

    /// The records of the sources' metrics.
    pub fn descriptor_records(&self) -> Vec<u8> {
        let of =
            |source: &Source| source.metrics.iter().flat_map(|metric| metric.record(source.id)).collect::<Vec<_>>();
        self.0.iter().flat_map(of).collect()
    }

    /// A sample of each source.
    pub fn samples(&self) -> Vec<u8> {
        self.0.iter().flat_map(Source::sample).collect()
    }
}

/// Reports the metrics that no source has, once for each GPU of the process.
fn tell_missing(source: &Source, place: &str) {
    static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let missing: Vec<_> =
        Metric::all().filter(|metric| !source.metrics.contains(metric)).map(|metric| metric.name()).collect();
    if missing.is_empty() || !TOLD.lock().get_or_insert_default().insert(place.to_owned()) {
        return;
    }
    let found = match source.folder.is_some() {
        true => "has no files of them",
        false => "is not there, and HSA's properties of an agent tell of memory only",
    };
    messages::emit(&format!(
        "no device metrics {} of GPU {} ({}): {PCI_DEVICES}/{place} {found}",
        missing.join(", "),
        source.gpu.index(),
        source.gpu.agent().info().product
    ));
}

/// The source of all metrics of one GPU.
#[derive(Debug)]
struct Source {
    gpu: Arc<Gpu>,
    id: u64,
    name: String,
    folder: Option<Folder>,
    /// The metrics found at first.
    metrics: Vec<Metric>,
    next_sample: AtomicU64,
}

impl Source {
    fn new(gpu: Arc<Gpu>, folder: Option<Folder>, place: &str) -> Self {
        let name = format!("{}.{place}", if folder.is_some() { "amdgpu.sysfs" } else { "hsa.agent" });
        let id = gpu.index() as u64 + 1;
        let mut source = Self { gpu, id, name, folder, metrics: Vec::new(), next_sample: AtomicU64::new(1) };
        source.metrics = source.read().0.into_keys().collect();
        source
    }

    fn record(&self) -> Vec<u8> {
        let mut record = MetricSourceRecord::blank();
        record.record_length += self.name.len() as u32;
        record.source_id = self.id;
        record.physical_device_ordinal = self.gpu.index() as u32;
        record.device_class = flags::DEVICE_CLASS_GPU;
        record.source_kind = if self.folder.is_some() { KIND_SYSFS } else { KIND_AGENT };
        record.source_revision = self.folder.as_ref().map_or(0, |folder| folder.revision);
        record.metric_count = self.metrics.len() as u32;
        record.name_length = self.name.len() as u32;
        [bytes_of(&record), self.name.as_bytes()].concat()
    }

    /// Reads the current values. Returns true if one could not be read.
    fn read(&self) -> (Values, bool) {
        let mut values = Values::new();
        let mut is_partial = self.folder.as_ref().is_some_and(|folder| !folder.read(&mut values));
        let total = self.gpu.info().coarse.info().size;
        values.entry(Metric::MEMORY_TOTAL).or_insert(total as i64);
        match self.gpu.agent().available_memory() {
            Ok(Some(available)) => {
                values.entry(Metric::MEMORY_USED).or_insert((total as u64).saturating_sub(available) as i64);
            }
            // An old runtime.
            Ok(None) => {}
            Err(_) => is_partial = true,
        }
        (values, is_partial)
    }

    /// The record of a sample, followed by its values.
    fn sample(&self) -> Vec<u8> {
        let mut record = MetricSampleRecord::blank();
        record.host_time_begin_ns = host_time();
        let (values, is_partial) = self.read();
        record.host_time_end_ns = host_time();
        let values: Vec<_> = self.metrics.iter().filter_map(|metric| Some((*metric, *values.get(metric)?))).collect();
        if is_partial || values.len() < self.metrics.len() {
            record.flags = flags::METRIC_SAMPLE_PARTIAL;
        }
        record.sample_id = self.next_sample.fetch_add(1, Ordering::Relaxed);
        record.source_id = self.id;
        record.physical_device_ordinal = self.gpu.index() as u32;
        record.value_count = values.len() as u32;
        // `iree_hal_profile_device_metric_value_t`: metric, value, and 64 bits of flags and nothing.
        let values: Vec<u8> = values
            .iter()
            .flat_map(|(metric, value)| [metric.id(), *value as u64, 0])
            .flat_map(u64::to_ne_bytes)
            .collect();
        record.record_length += values.len() as u32;
        [bytes_of(&record), &values].concat()
    }
}

/// The sysfs files of one GPU.
#[derive(Debug, Default, PartialEq, Eq)]
struct Folder {
    /// The path of `gpu_metrics`, if it exists in a known form.
    table: Option<PathBuf>,
    /// The table's format and content revision, as the bytes of a number; 0 without a table.
    revision: u32,
    /// Files with one number each, and the factor to the metric's unit.
    files: Vec<(Metric, PathBuf, i64)>,
}

impl Folder {
    /// Finds the files in the folder of a PCI device; none if nothing can be read there.
    fn find(device: &Path) -> Option<Self> {
        let mut folder = Self::default();
        let table = device.join("gpu_metrics");
        if let Ok(bytes) = std::fs::read(&table) {
            if let [_, _, format, content, ..] = bytes[..] {
                folder.revision = u32::from(format) << 8 | u32::from(content);
            }
            // A table of an unknown form is ignored.
            folder.table = read_table(&bytes, &mut Values::new()).then_some(table);
        }
        folder.add(Metric::COMPUTE_ACTIVITY, device.join("gpu_busy_percent"), 1000);
        folder.add(Metric::MEMORY_ACTIVITY, device.join("mem_busy_percent"), 1000);
        folder.add(Metric::MEMORY_USED, device.join("mem_info_vram_used"), 1);
        folder.add(Metric::MEMORY_TOTAL, device.join("mem_info_vram_total"), 1);
        for entry in std::fs::read_dir(device.join("hwmon")).into_iter().flatten().flatten() {
            folder.find_sensors(&entry.path());
        }
        (folder != Self::default()).then_some(folder)
    }

    /// Finds the sensors of a hwmon device by their labels, because their numbers depend on the chip.
    fn find_sensors(&mut self, hwmon: &Path) {
        for (kind, count) in [("freq", 8), ("temp", 16)] {
            for number in 1..=count {
                let Ok(label) = std::fs::read_to_string(hwmon.join(format!("{kind}{number}_label"))) else { continue };
                let metric = match (kind, label.trim()) {
                    ("freq", "sclk" | "gfxclk") => Metric::COMPUTE_CLOCK,
                    ("freq", "mclk" | "uclk") => Metric::MEMORY_CLOCK,
                    ("temp", "edge") => Metric::EDGE_TEMPERATURE,
                    ("temp", "junction" | "hotspot") => Metric::HOTSPOT_TEMPERATURE,
                    ("temp", "mem" | "memory") => Metric::MEMORY_TEMPERATURE,
                    _ => continue,
                };
                self.add(metric, hwmon.join(format!("{kind}{number}_input")), 1);
            }
        }
        // Newer GPUs have only the second.
        for name in ["power1_average", "power1_input"] {
            self.add(Metric::SOCKET_POWER, hwmon.join(name), 1);
        }
    }

    /// Adds a file if it exists and its metric has none yet. It need not be readable now: the GPU may sleep.
    fn add(&mut self, metric: Metric, path: PathBuf, scale: i64) {
        let text = std::fs::read_to_string(&path);
        let is_number = text.map_or_else(|_| path.exists(), |text| text.trim().parse::<i64>().is_ok());
        if is_number && self.files.iter().all(|(other, ..)| *other != metric) {
            self.files.push((metric, path, scale));
        }
    }

    /// Adds the current values to `values`. Returns false if one could not be read.
    fn read(&self, values: &mut Values) -> bool {
        let mut is_whole = true;
        if let Some(table) = &self.table {
            is_whole &= std::fs::read(table).is_ok_and(|bytes| read_table(&bytes, values));
        }
        for (metric, path, scale) in &self.files {
            match number(path) {
                Some(value) => {
                    values.entry(*metric).or_insert(value.saturating_mul(*scale));
                }
                None => is_whole &= values.contains_key(metric),
            }
        }
        is_whole
    }
}

/// The number in a file. Sensors of a sleeping GPU cannot be read.
fn number(path: &Path) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The metrics in a table of format 1, content 1 to 3 (Linux, `kgd_pp_interface.h`, `gpu_metrics_v1_3`): the metric,
/// the offset of its 16 bits, and the factor to the metric's unit.
const TABLE: [(Metric, usize, i64); 8] = [
    (Metric::EDGE_TEMPERATURE, 4, 1000),
    (Metric::HOTSPOT_TEMPERATURE, 6, 1000),
    (Metric::MEMORY_TEMPERATURE, 8, 1000),
    (Metric::COMPUTE_ACTIVITY, 16, 1000),
    (Metric::MEMORY_ACTIVITY, 18, 1000),
    (Metric::SOCKET_POWER, 22, 1_000_000),
    (Metric::COMPUTE_CLOCK, 54, 1_000_000),
    (Metric::MEMORY_CLOCK, 58, 1_000_000),
];

/// Offset of the throttle status as reported by the firmware (32 bits). Content 3 added the one that is the same on all
/// chips (64 bits).
const THROTTLE: usize = 68;
const INDEPENDENT_THROTTLE: usize = 112;

/// Adds the values of a `gpu_metrics` table. Returns false for an unknown form. A value of all ones means that the GPU
/// does not have the metric.
fn read_table(bytes: &[u8], values: &mut Values) -> bool {
    let [low, high, 1, 1..=3, ..] = *bytes else { return false };
    let bytes = &bytes[..bytes.len().min(u16::from_le_bytes([low, high]).into())];
    for (metric, offset, scale) in TABLE {
        if let Some(value) = bytes.get(offset..).and_then(|rest| rest.first_chunk()).map(|it| u16::from_le_bytes(*it))
            && value != u16::MAX
        {
            values.entry(metric).or_insert(i64::from(value) * scale);
        }
    }
    let independent = bytes.get(INDEPENDENT_THROTTLE..).and_then(|rest| rest.first_chunk());
    let own = bytes.get(THROTTLE..).and_then(|rest| rest.first_chunk());
    let independent = independent.map(|it| u64::from_le_bytes(*it)).filter(|value| *value != u64::MAX);
    let own = own.map(|it| u32::from_le_bytes(*it)).filter(|value| *value != u32::MAX);
    if let Some(status) = independent.or(own.map(u64::from)) {
        values.entry(Metric::THROTTLE_STATUS).or_insert(status as i64);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of a PCI device, deleted when dropped.
    struct Sysfs(PathBuf);

    impl Sysfs {
        fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
            let root = std::env::temp_dir().join(format!("amdgpu_rs-metrics-{name}-{}", std::process::id()));
            for (path, bytes) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().expect("below the root")).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Sysfs {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn table(content: u8, length: u16, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0xff; length.into()];
        bytes[..4].copy_from_slice(&[length.to_le_bytes()[0], length.to_le_bytes()[1], 1, content]);
        for (offset, field) in fields {
            bytes[*offset..offset + field.len()].copy_from_slice(field);
        }
        bytes
    }

    #[test]
    fn files_of_sysfs_are_metrics_in_their_units() {
        let sysfs = Sysfs::new(
            "files",
            &[
                ("gpu_busy_percent", b"37\n"),
                ("mem_info_vram_used", b"1048576\n"),
                ("hwmon/hwmon3/freq1_label", b"sclk\n"),
                ("hwmon/hwmon3/freq1_input", b"2100000000\n"),
                ("hwmon/hwmon3/temp2_label", b"junction\n"),
                ("hwmon/hwmon3/temp2_input", b"-3000\n"),
                ("hwmon/hwmon3/temp5_label", b"something new\n"),
                ("hwmon/hwmon3/temp5_input", b"1\n"),
                ("hwmon/hwmon3/power1_average", b"90000000\n"),
                ("hwmon/hwmon3/power1_input", b"1\n"),
            ],
        );
        let folder = Folder::find(&sysfs.0).expect("there are files");
        let mut values = Values::new();
        assert!(folder.read(&mut values));
        let expected = [
            (Metric::COMPUTE_CLOCK, 2_100_000_000),
            (Metric::HOTSPOT_TEMPERATURE, -3000),
            (Metric::SOCKET_POWER, 90_000_000),
            (Metric::COMPUTE_ACTIVITY, 37_000),
            (Metric::MEMORY_USED, 1 << 20),
        ];
        assert_eq!(values, Values::from(expected));
        std::fs::write(sysfs.0.join("gpu_busy_percent"), "").unwrap();
        let mut values = Values::new();
        assert!(!folder.read(&mut values), "a value has gone");
        assert_eq!(values.len(), 4);
        assert_eq!(Folder::find(&sysfs.0.join("nothing")), None);
    }

    #[test]
    fn the_firmwares_table_comes_before_files_and_says_what_it_has_not() {
        let fields: [(usize, &[u8]); 4] =
            [(4, &[61, 0]), (54, &[0xd0, 0x07]), (68, &[5, 0, 0, 0]), (112, &[9, 0, 0, 0, 0, 0, 0, 0])];
        let sysfs = Sysfs::new(
            "table",
            &[("gpu_metrics", &table(3, 120, &fields)), ("gpu_busy_percent", b"4"), ("mem_busy_percent", b"x")],
        );
        let folder = Folder::find(&sysfs.0).expect("there are files");
        assert_eq!((folder.revision, folder.files.len()), (0x103, 1));
        let mut values = Values::new();
        assert!(folder.read(&mut values));
        let expected = [
            (Metric::EDGE_TEMPERATURE, 61_000),
            (Metric::COMPUTE_CLOCK, 2_000_000_000),
            (Metric::COMPUTE_ACTIVITY, 4000),
            (Metric::THROTTLE_STATUS, 9),
        ];
        assert_eq!(values, Values::from(expected));
        // A shorter table of an older firmware, and those of forms that are not known.
        let mut values = Values::new();
        assert!(read_table(&table(1, 96, &fields[..3]), &mut values));
        assert_eq!(values.get(&Metric::THROTTLE_STATUS), Some(&5));
        for bytes in [&table(4, 120, &[])[..], &[120, 0, 2, 3], &[1], &[]] {
            let mut values = Values::new();
            assert!(!read_table(bytes, &mut values) && values.is_empty(), "{bytes:?}");
        }
        let mut values = Values::new();
        assert!(read_table(&[255, 255, 1, 3, 60], &mut values) && values.is_empty(), "a table cut short");
    }
}
