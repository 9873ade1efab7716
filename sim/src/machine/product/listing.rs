// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Entries of lists that messages print and that `docs/sim/variables.md` has as tables.

/// A variable or a setting, with its values and its default in Markdown.
#[derive(Debug)]
pub struct Entry {
    /// Name in the environment or in a list of settings.
    pub name: &'static str,
    /// Accepted values and their meaning.
    pub values: &'static str,
    /// Value or behaviour without the entry.
    pub default: &'static str,
}

impl Entry {
    /// Values and default as plain text.
    pub fn help(&self) -> String {
        format!("{} (default: {})", plain(self.values), plain(self.default))
    }
}

/// Returns `text` without Markdown's code marks and links.
fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once("](") {
        plain.push_str(before);
        rest = link.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain.replace(['`', '['], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_no_markdown() {
        let entry = Entry { name: "A", values: "`6.2`, `7.0`: [behave](rocr.md) like [it](#a)", default: "`7.0`" };
        assert_eq!(entry.help(), "6.2, 7.0: behave like it (default: 7.0)");
    }
}
