//! Pairs of Python on their way into a table.

use hedgerow::tree::WriteTxn;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Table;
use super::pairs::{Pairs, strings, two};
use crate::errors::OrRaise;

impl Table {
    /// Puts all pairs of a mapping, or of an iterable of pairs.
    pub(super) fn put_each(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match pairs.hasattr("keys")? {
            true => pairs.call_method0("items")?,
            false => pairs.clone(),
        };
        let mut rest = pairs.try_iter()?;
        if let Ok(list) = pairs.cast_exact::<PyList>() {
            let done = self.put_sorted(py, list)?;
            rest = list.get_slice(done, list.len()).try_iter()?;
        }
        let mut waiting = Pairs::default();
        for pair in rest {
            let pair = pair?;
            match strings(&pair) {
                Some((key, value)) if self.takes_bytes() => waiting.push(key, value),
                _ => {
                    let (key, value) = two(&pair)?;
                    waiting.push(&self.key(&key)?, &self.value(&value)?);
                }
            }
            if waiting.is_full() {
                self.put_all(py, &mut waiting)?;
            }
        }
        self.put_all(py, &mut waiting)
    }

    /// Whether it stores `bytes` as they are, and in their order.
    fn takes_bytes(&self) -> bool {
        self.is_bytewise && self.codecs.key.takes_bytes() && self.codecs.value.takes_bytes()
    }

    /// Puts pairs of `bytes` from the beginning of a list while they are sorted; how many. What
    /// only adds to a page in memory is done without letting the interpreter go, and without a copy
    /// beside the one in the page.
    fn put_sorted(&self, py: Python<'_>, list: &Bound<'_, PyList>) -> PyResult<usize> {
        const AT_ONCE: usize = 256;
        let mut done = 0;
        while self.takes_bytes() {
            let (begun, mut slowly) = (done, 0);
            self.txn.get().change_here(py, |txn| {
                while done < list.len() && done - begun < AT_ONCE && slowly < AT_ONCE / 2 {
                    let pair = list.get_item(done)?;
                    let Some((key, value)) = strings(&pair) else { break };
                    if !txn.put_at_end(self.handle, key, value) {
                        slowly += 1;
                        py.detach(|| txn.put(self.handle, key, value)).or_raise(py)?;
                    }
                    done += 1;
                }
                Ok(())
            })?;
            py.check_signals()?;
            if done - begun < AT_ONCE {
                break;
            }
        }
        Ok(done)
    }

    /// Puts pairs with one call of the store.
    pub(super) fn put_all(&self, py: Python<'_>, pairs: &mut Pairs) -> PyResult<()> {
        let put = |txn: &mut WriteTxn| {
            pairs.iter().try_for_each(|(key, value)| txn.put(self.handle, key, value))
        };
        self.txn.get().change(py, false, put)?;
        pairs.clear();
        py.check_signals()
    }
}
