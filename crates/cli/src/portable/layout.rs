//! The options that say how the formats are laid out.

use clap::Args;

use super::Portable;

/// The separators of entries and of their fields.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The separator of the fields: one character, or \t (csv only)
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    pub(crate) delimiter: u8,
    /// Entries end with a zero byte, and are written as they are (lines only)
    #[arg(short = '0', long)]
    pub(crate) null: bool,
    /// Lines are keys, with empty values (lines only)
    #[arg(long)]
    pub(crate) keys_only: bool,
}

/// Which fields are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fields {
    /// The column or member with the key (not in mdb and lines)
    #[arg(long = "key-field", value_name = "NAME", default_value = "key")]
    pub(crate) key: String,
    /// The column or member with the value (not in mdb and lines)
    #[arg(long = "value-field", value_name = "NAME", default_value = "value")]
    pub(crate) value: String,
    /// The value is the whole line (csv and jsonl only)
    #[arg(long, conflicts_with = "value")]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) layout: Layout,
}

impl Layout {
    /// Whether the format knows what was asked for.
    pub(crate) fn check(self, portable: Portable) -> Result<(), String> {
        if portable != Portable::Lines && (self.null || self.keys_only) {
            return Err("-0 and --keys-only are for --as lines".to_owned());
        }
        if portable != Portable::Csv && self.delimiter != b',' {
            return Err("--delimiter is for --as csv".to_owned());
        }
        Ok(())
    }
}

impl Fields {
    /// Whether the format knows what was asked for.
    pub(crate) fn check(&self, portable: Portable) -> Result<(), String> {
        let has_names = !matches!(portable, Portable::Mdb | Portable::Lines);
        if !has_names && (self.key != "key" || self.value != "value") {
            let what = "--key-field and --value-field are for formats whose fields have names";
            return Err(what.to_owned());
        }
        if self.whole && (!has_names || portable.has_columns()) {
            return Err("--whole is for --as csv and --as jsonl".to_owned());
        }
        self.layout.check(portable)
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self { delimiter: b',', null: false, keys_only: false }
    }
}

impl Default for Fields {
    fn default() -> Self {
        let (key, value) = ("key".to_owned(), "value".to_owned());
        Self { key, value, whole: false, layout: Layout::default() }
    }
}

fn delimiter(written: &str) -> Result<u8, String> {
    match written.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("not a character that ends or quotes fields".to_owned()),
        [one] => Ok(*one),
        _ => Err("one character of ASCII, or \\t".to_owned()),
    }
}
