//! A table as a notebook shows it.

use pyo3::prelude::*;

use super::Table;
use crate::html;

/// The first pairs and the last one.
pub(super) fn page(py: Python<'_>, table: &Table) -> PyResult<String> {
    const SHOWN: usize = 10;
    let len = table.__len__(py)?;
    let mut rows = Vec::new();
    let mut places: Vec<usize> = (0..len.min(SHOWN)).collect();
    places.extend((len > SHOWN).then(|| len - 1));
    for place in places {
        let (key, value) = table.nth(py, place as isize)?;
        let mut row = vec![place.to_string()];
        row.extend(html::cells([key, value])?);
        rows.push(row);
    }
    let name = html::escaped(&String::from_utf8_lossy(&table.name));
    let grid = html::grid(&["", "key", "value"], &rows);
    Ok(format!("<div><b>{name}</b> {len} pairs{grid}</div>"))
}
