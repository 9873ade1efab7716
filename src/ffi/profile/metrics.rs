// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The metrics of devices that IREE knows (`iree/hal/profile_metrics.h`).

use std::borrow::Cow;

use super::bytes_of;
use super::schema::{MetricDescriptorRecord, Record};
use crate::{raw, strings};

/// A metric that IREE knows: its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric(u64);

macro_rules! metrics {
    ($($name:ident = $id:ident;)*) => {
        impl Metric {$(
            #[doc = concat!("`", stringify!($id), "`.")]
            pub const $name: Self = Self(raw::$id as u64);
        )*}
    };
}

metrics! {
    COMPUTE_CLOCK = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_CLOCK_COMPUTE_CURRENT;
    MEMORY_CLOCK = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_CLOCK_MEMORY_CURRENT;
    EDGE_TEMPERATURE = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_TEMPERATURE_EDGE;
    HOTSPOT_TEMPERATURE = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_TEMPERATURE_HOTSPOT;
    MEMORY_TEMPERATURE = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_TEMPERATURE_MEMORY;
    SOCKET_POWER = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_POWER_SOCKET;
    COMPUTE_ACTIVITY = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_ACTIVITY_COMPUTE;
    MEMORY_ACTIVITY = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_ACTIVITY_MEMORY;
    MEMORY_USED = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_MEMORY_LOCAL_USED;
    MEMORY_TOTAL = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_MEMORY_LOCAL_TOTAL;
    THROTTLE_STATUS = IREE_HAL_PROFILE_BUILTIN_METRIC_ID_THROTTLE_STATUS;
}

impl Metric {
    /// All metrics, including those that this driver never has.
    pub fn all() -> impl Iterator<Item = Self> {
        // SAFETY: reads a table.
        let count = unsafe { raw::iree_hal_profile_builtin_metric_descriptor_count() };
        // SAFETY: an entry of the table, which is never changed, or null.
        let at = |index| unsafe { raw::iree_hal_profile_builtin_metric_descriptor_at(index).as_ref() };
        (0..count).filter_map(at).map(|descriptor| Self(descriptor.metric_id))
    }

    /// The number in records.
    pub fn id(self) -> u64 {
        self.0
    }

    fn descriptor(self) -> &'static raw::iree_hal_profile_metric_descriptor_t {
        // SAFETY: reads a table that is never changed.
        let descriptor = unsafe { raw::iree_hal_profile_builtin_metric_descriptor_lookup(self.0).as_ref() };
        descriptor.expect("metrics are made from the table")
    }

    /// The name.
    pub fn name(self) -> Cow<'static, str> {
        // SAFETY: texts of the table.
        unsafe { strings::text(self.descriptor().name) }
    }

    /// The record of the metric for `source`, followed by its name and description.
    pub fn record(self, source: u64) -> Vec<u8> {
        let descriptor = self.descriptor();
        // SAFETY: texts of the table.
        let (name, description) = unsafe { (strings::text(descriptor.name), strings::text(descriptor.description)) };
        let mut record = MetricDescriptorRecord::blank();
        record.record_length += (name.len() + description.len()) as u32;
        record.source_id = source;
        record.metric_id = self.0;
        record.unit = descriptor.unit;
        record.value_kind = descriptor.value_kind;
        record.semantic = descriptor.semantic;
        record.plot_hint = descriptor.plot_hint;
        record.name_length = name.len() as u32;
        record.description_length = description.len() as u32;
        [bytes_of(&record), name.as_bytes(), description.as_bytes()].concat()
    }
}
