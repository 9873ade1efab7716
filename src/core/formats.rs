// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The targets that compiled modules ask a device for. A module asks before it brings code, and when the answer is no,
//! IREE's error is a kilobyte that names neither the GPU nor what to do: a device that was given no code in its life
//! says so at its end.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::executable::{isas, supports_format, target_of_format};
use crate::core::gpu::Gpu;
use crate::ffi::messages;

/// What a device has answered. Tells of refusals in a message when it is dropped, if it never said yes.
#[derive(Debug, Default)]
pub struct Formats(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// Targets that the device's GPUs do not run, in the order of the questions.
    refused: Vec<String>,
    accepted: bool,
    /// What the GPUs are.
    gpus: Vec<String>,
    runs: String,
}

impl Formats {
    /// Whether all of `gpus` run executables of `format`.
    pub fn ask(&self, gpus: &[Arc<Gpu>], format: &str) -> bool {
        let accepted = gpus.iter().all(|gpu| supports_format(gpu, format));
        let mut answers = self.0.lock();
        answers.accepted |= accepted;
        if let Some(target) = target_of_format(format).filter(|_| !accepted) {
            answers.refused.push(target.to_string());
            answers.refused.dedup();
            answers.gpus = gpus.iter().map(|gpu| gpu.agent().info().name.clone()).collect();
            answers.runs = gpus
                .first()
                .map_or(String::new(), |gpu| isas(gpu).iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        }
        accepted
    }
}

impl Answers {
    /// What is to be said at the end.
    fn complaint(&self) -> Option<String> {
        let (first, others) = self.gpus.split_first()?;
        if self.accepted || self.refused.is_empty() {
            return None;
        }
        let wanted = self.refused.join(", ");
        Some(if others.iter().all(|other| other == first) {
            format!(
                "the module is for {wanted}, the GPU is a {first}, which runs {}; compile it with --iree-rocm-target={first}",
                self.runs
            )
        } else {
            format!(
                "the module is for {wanted}, the device's GPUs are {}, and each would have to run it; choose one of them \
                 (amdgpu_rs://<ordinal>)",
                self.gpus.join(", ")
            )
        })
    }
}

impl Drop for Formats {
    fn drop(&mut self) {
        if let Some(complaint) = self.0.get_mut().complaint() {
            messages::tell(&complaint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    fn answers(refused: &[&str], accepted: bool, gpus: &[&str]) -> Answers {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Answers { refused: owned(refused), accepted, gpus: owned(gpus), runs: "gfx1100, gfx11-generic".to_owned() }
    }

    #[test]
    fn a_device_that_ran_nothing_names_its_gpu_and_the_modules() {
        let text = answers(&["gfx90a", "gfx942"], false, &["gfx1100"]).complaint().expect("it complains");
        assert_eq!(
            text,
            "the module is for gfx90a, gfx942, the GPU is a gfx1100, which runs gfx1100, gfx11-generic; compile it with \
             --iree-rocm-target=gfx1100"
        );
        let text = answers(&["gfx1100"], false, &["gfx1100", "gfx942"]).complaint().expect("it complains");
        assert!(text.contains("the device's GPUs are gfx1100, gfx942"), "{text}");
    }

    #[test]
    fn a_module_for_several_targets_of_which_one_fits_is_no_reason_to_complain() {
        assert_eq!(answers(&["gfx942"], true, &["gfx1100"]).complaint(), None);
        assert_eq!(answers(&[], false, &[]).complaint(), None);
    }
}
