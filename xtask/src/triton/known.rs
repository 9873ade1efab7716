// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Cases that are known not to pass, `known.toml`: kernels that Triton refuses to compile, and faults of Triton or of
//! LLVM with their proofs. An entry whose cases pass is an error, so that the list stays true.

use serde::Deserialize;

use super::{Case, Outcome};
use xtask_core::error::{Error, Result};
use xtask_core::glob;

const LIST: &str = include_str!("known.toml");

/// Cases that end in a way other than passing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Globs of names.
    pub cases: Vec<String>,
    /// The targets; all if empty.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The outcome, refused or failed.
    outcome: Outcome,
    /// A part of each case's details.
    says: String,
    /// The reason, in one line.
    why: String,
    /// Evidence for the reason; not needed for the compiler's own messages.
    #[serde(default)]
    proof: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    known: Vec<Known>,
}

/// Judgement of a case by the list.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The case passed.
    Passed,
    /// The compiler refused it, for a known reason.
    Refused(&'a str),
    /// The case failed, for a known reason that lies elsewhere.
    Known(&'a str),
    /// The case failed, or it did not fail although the list says so.
    Failed(String),
}

impl Known {
    fn is_about(&self, target: &str, name: &str) -> bool {
        (self.targets.is_empty() || self.targets.iter().any(|known| known == target))
            && self.cases.iter().any(|glob| glob::matches(glob, name))
    }
}

/// Parses the list.
///
/// # Errors
/// When it is malformed.
pub fn load() -> Result<Vec<Known>> {
    let list: List = toml::from_str(LIST).map_err(|error| Error::setup(format!("known.toml: {error}")))?;
    for known in &list.known {
        let (passed, unproved) =
            (known.outcome == Outcome::Passed, known.outcome == Outcome::Failed && known.proof.is_empty());
        if passed || unproved {
            return Err(Error::setup(format!(
                "known.toml: `{}` needs an outcome that is not passed, and a proof",
                known.why
            )));
        }
    }
    Ok(list.known)
}

/// Judges a case by the list.
pub fn judge<'a>(list: &'a [Known], target: &str, case: &Case) -> Verdict<'a> {
    let mut about = list.iter().filter(|known| known.is_about(target, &case.name));
    if case.outcome == Outcome::Passed {
        return match about.next() {
            None => Verdict::Passed,
            Some(known) => Verdict::Failed(format!("it passes, so take it out of known.toml: {}", known.why)),
        };
    }
    let known = about.find(|known| known.outcome == case.outcome && case.detail.contains(&known.says));
    match (known, case.outcome) {
        (Some(known), Outcome::Refused) => Verdict::Refused(&known.why),
        (Some(known), _) => Verdict::Known(&known.why),
        (None, Outcome::Refused) => Verdict::Failed(format!("Triton does not compile it: {}", case.detail)),
        (None, _) => Verdict::Failed(case.detail.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(outcome: Outcome, target: &str, name: &str, detail: &str) -> String {
        let list: List = toml::from_str(
            r#"
            [[known]]
            cases = ["sort_*"]
            targets = ["gfx942"]
            outcome = "failed"
            says = "race"
            why = "a race"
            proof = "seen"
            [[known]]
            cases = ["dot_f64"]
            outcome = "refused"
            says = "f64"
            why = "no f64"
            "#,
        )
        .unwrap();
        let case = Case { name: name.to_owned(), outcome, detail: detail.to_owned(), path: String::new() };
        format!("{:?}", judge(&list.known, target, &case))
    }

    #[test]
    fn only_the_known_outcome_for_the_known_reason_is_no_failure() {
        let (passed, refused, failed) = (Outcome::Passed, Outcome::Refused, Outcome::Failed);
        assert_eq!(judged(failed, "gfx942", "sort_i8", "race: LDS"), r#"Known("a race")"#);
        assert_eq!(judged(refused, "gfx90a", "dot_f64", "no f64 here"), r#"Refused("no f64")"#);
        assert_eq!(judged(passed, "gfx90a", "sort_i8", ""), "Passed");
        for (outcome, target, name, detail) in [
            (failed, "gfx942", "sort_i8", "wrong"),
            (failed, "gfx90a", "sort_i8", "race: LDS"),
            (refused, "gfx942", "sort_i8", "race"),
            (passed, "gfx942", "sort_i8", ""),
            (passed, "gfx90a", "dot_f64", ""),
            (failed, "gfx90a", "dot_f64", "f64"),
            (refused, "gfx90a", "dot_f32", "f64"),
        ] {
            assert!(judged(outcome, target, name, detail).starts_with("Failed"), "{outcome:?} {target} {name}");
        }
    }

    #[test]
    fn the_list_is_well_formed() {
        assert!(!load().unwrap().is_empty());
    }
}
