//! Bytes as text: one field after the other, each with its name.

/// A field shows this many lines of bytes; of the rest only their number and a checksum.
const LINES_MAX: usize = 4;

/// A dump that is being written, and how far it has come.
pub(super) struct Dump<'a> {
    bytes: &'a [u8],
    at: usize,
    text: String,
}

impl<'a> Dump<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, text: String::new() }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.text.push_str(&format!("# {text}\n"));
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next bytes, which stay next.
    pub(super) fn peek(&self, len: usize) -> &'a [u8] {
        &self.bytes[self.at..self.at + len]
    }

    /// The next field. Lines of zeros are left out.
    pub(super) fn field(&mut self, len: usize, name: &str) -> &'a [u8] {
        let (bytes, mut shown) = (self.peek(len), 0);
        for (i, line) in bytes.chunks(16).enumerate() {
            if line.iter().all(|byte| *byte == 0) {
                continue;
            }
            let at = self.at + i * 16;
            if shown == LINES_MAX {
                let rest = &bytes[i * 16..];
                let (count, sum) = (rest.len(), sum(rest));
                self.text.push_str(&format!("{at:06x} and {count} bytes more, sum {sum:016x}\n"));
                break;
            }
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = if shown == 0 { name } else { "" };
            self.text.push_str(format!("{at:06x} {hex} {name}").trim_end());
            self.text.push('\n');
            shown += 1;
        }
        self.at += len;
        bytes
    }

    /// A field that is a little-endian number.
    pub(super) fn int(&mut self, len: usize, name: &str) -> u64 {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(self.field(len, name));
        u64::from_le_bytes(bytes)
    }

    /// Numbers of as many bytes as they need, as one field.
    pub(super) fn numbers_as<const N: usize>(&mut self, name: &str) -> [u64; N] {
        let mut rest = self.bytes[self.at..].iter();
        let mut number = || {
            let mut number = 0;
            for shift in (0..).step_by(7) {
                let byte = rest.next().copied().unwrap_or_default();
                number |= u64::from(byte & 127) << shift;
                if byte < 128 {
                    break;
                }
            }
            number
        };
        let numbers = std::array::from_fn(|_| number());
        let len = self.left() - rest.len();
        self.field(len, name);
        numbers
    }

    /// Such a number alone.
    pub(super) fn number(&mut self, name: &str) -> u64 {
        let [number] = self.numbers_as(name);
        number
    }

    /// A length as a number, and that many bytes.
    pub(super) fn string(&mut self, name: &str) -> &'a [u8] {
        let len = self.number("length");
        self.field(len as usize, name)
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
