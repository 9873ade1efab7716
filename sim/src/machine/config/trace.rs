// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The trace that `HSA_SIM_TRACE` requests.

/// Level of detail of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Packets of queues, and the PM4 commands that they call.
    Packet,
    /// Start and end of kernels.
    Kernel,
    /// Also start and end of waves.
    Wave,
    /// Also each instruction.
    Instruction,
}

/// Requested trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Level of detail.
    pub detail: Detail,
    /// Only kernels whose names contain this text are traced.
    pub filter: String,
    /// Only waves of this workgroup are traced.
    pub workgroup: Option<[u32; 3]>,
    /// Only the waves of this number in their workgroups are traced.
    pub wave: Option<u32>,
}

impl TraceConfig {
    /// Parses `detail` or `detail,filter`, in which `,workgroup=X:Y:Z` and `,wave=N` may be. The error lists the
    /// accepted values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut workgroup, mut wave, mut rest) = (None, None, Vec::new());
        for part in text.split(',') {
            if let Some(place) = part.strip_prefix("workgroup=") {
                let numbers: Vec<u32> = place.split(':').map_while(|number| number.parse().ok()).collect();
                let mut all = [0; 3];
                match all.get_mut(..numbers.len()) {
                    Some(all) if numbers.len() == place.split(':').count() => all.copy_from_slice(&numbers),
                    _ => return Err(format!("{part}: expected workgroup=X:Y:Z")),
                }
                workgroup = Some(all);
            } else if let Some(number) = part.strip_prefix("wave=") {
                wave = Some(number.parse().map_err(|_| format!("{part}: expected wave=N"))?);
            } else {
                rest.push(part);
            }
        }
        let text = rest.join(",");
        let (detail, filter) = text.split_once(',').unwrap_or((&text, ""));
        let detail = match detail {
            "packets" if filter.is_empty() => Detail::Packet,
            "packets" => return Err("a trace of packets takes no kernel name".into()),
            "kernel" => Detail::Kernel,
            "wave" => Detail::Wave,
            "instruction" => Detail::Instruction,
            _ => {
                return Err(
                    "expected packets, or kernel, wave or instruction, and after commas a part of kernels' names, \
                     workgroup=X:Y:Z, wave=N"
                        .into(),
                );
            }
        };
        if detail < Detail::Wave && (workgroup.is_some() || wave.is_some()) {
            return Err("workgroup= and wave= need a trace of waves or instructions".into());
        }
        Ok(Self { detail, filter: filter.to_owned(), workgroup, wave })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_behind_a_comma() {
        let asked =
            |detail, filter: &str| Ok(TraceConfig { detail, filter: filter.into(), workgroup: None, wave: None });
        assert_eq!(TraceConfig::parse("kernel"), asked(Detail::Kernel, ""));
        assert_eq!(TraceConfig::parse("wave,a,b"), asked(Detail::Wave, "a,b"));
        assert_eq!(TraceConfig::parse("instruction,"), asked(Detail::Instruction, ""));
        assert_eq!(TraceConfig::parse("packets"), asked(Detail::Packet, ""));
        let some =
            TraceConfig { detail: Detail::Wave, filter: "a,b".into(), workgroup: Some([1, 2, 0]), wave: Some(3) };
        assert_eq!(TraceConfig::parse("wave,a,workgroup=1:2,b,wave=3"), Ok(some));
        for wrong in ["wave,workgroup=", "wave,workgroup=1:2:3:4", "wave,workgroup=1:x", "wave,wave=x", "kernel,wave=1"]
        {
            assert!(TraceConfig::parse(wrong).is_err(), "{wrong}");
        }
        assert!(TraceConfig::parse("packets,a").is_err());
        assert!(TraceConfig::parse("lane").is_err() && TraceConfig::parse("").is_err());
    }
}
