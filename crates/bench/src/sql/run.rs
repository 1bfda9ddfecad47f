//! A run as it is kept: what was measured, on which machine, with which versions and options; and
//! the figures that follow from it.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Settings;
use crate::compare::machine;
use crate::compare::report::median;
use crate::engine::Result;
use crate::engines::sql::Library;

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    /// A name that no other run has.
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) began: u64,
    pub(super) machine: Value,
    pub(super) versions: Value,
    pub(super) settings: Settings,
    /// Why it ended before its end, if it did.
    pub(super) error: Option<String>,
    pub(super) rows: Vec<Row>,
    pub(super) sizes: Vec<Size>,
}

/// A test: milliseconds by engine and round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ms: Vec<Vec<f64>>,
    pub(super) processor_ms: Vec<Vec<f64>>,
}

/// Bytes of the files of each engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) when: String,
    pub(super) bytes: Vec<u64>,
}

impl Run {
    /// A run that begins now.
    pub(super) fn begin(settings: Settings) -> Result<Self> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let id = format!("{:08x}", RandomState::new().hash_one(began) as u32);
        let versions = json!({
            "hedgerow": env!("CARGO_PKG_VERSION"),
            "sqlite": Library::Ours.source(),
            "stock": Library::Stock.source(),
        });
        let (machine, error) = (machine::describe()?, None);
        Ok(Self { id, began, machine, versions, settings, error, rows: vec![], sizes: vec![] })
    }

    /// The day on which it began.
    pub(super) fn date(&self) -> &str {
        self.machine["date"].as_str().unwrap_or_default()
    }

    /// The geometric means of how many times faster the store is than each other engine, by the
    /// clock.
    pub(super) fn means(&self) -> Vec<f64> {
        (1..self.settings.engines().len())
            .map(|engine| mean(self.rows.iter().filter_map(|row| row.ratio(engine))))
            .collect()
    }

    /// The run as programs read it, with the figures that follow from it.
    pub(super) fn report(&self) -> Value {
        let mut report = json!(self);
        let count = self.settings.engines().len();
        report["engines"] = json!(self.settings.engines());
        report["geometric_means"] = json!(self.means());
        let rows = self.rows.iter().map(|row| {
            let engines = 0..count;
            json!({
                "test": row.name,
                "ms": engines.clone().map(|engine| row.median(engine)).collect::<Vec<_>>(),
                "processor_ms": engines.clone().map(|e| row.processor(e)).collect::<Vec<_>>(),
                "ratios": (1..count).map(|engine| row.ratio(engine)).collect::<Vec<_>>(),
                "rounds": row.ms,
            })
        });
        report["rows"] = rows.collect();
        report
    }
}

/// The geometric mean; not a number if there is nothing.
pub(super) fn mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
}

impl Row {
    /// A row of nothing yet, for a number of engines.
    pub(super) fn new(name: &str, engines: usize) -> Self {
        let none = vec![Vec::new(); engines];
        Self { name: name.to_owned(), ms: none.clone(), processor_ms: none }
    }

    /// The median of an engine's rounds, in milliseconds.
    pub(super) fn median(&self, engine: usize) -> f64 {
        self.ms.get(engine).map_or(f64::NAN, |rounds| median(rounds))
    }

    /// The same of the processor's time.
    pub(super) fn processor(&self, engine: usize) -> f64 {
        self.processor_ms.get(engine).map_or(f64::NAN, |rounds| median(rounds))
    }

    /// How many times faster the store is than an engine: the median of the rounds' ratios.
    pub(super) fn ratio(&self, engine: usize) -> Option<f64> {
        let (ours, other) = (self.ms.first()?, self.ms.get(engine)?);
        let ratios: Vec<f64> = other.iter().zip(ours).map(|(other, ours)| other / ours).collect();
        Some(median(&ratios)).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_rounds_and_means_are_geometric() {
        let mut row = Row::new("t", 3);
        row.ms = vec![vec![1.0, 2.0, 4.0], vec![2.0, 2.0, 16.0], vec![8.0, 16.0, 32.0]];
        assert_eq!((row.ratio(1), row.ratio(2)), (Some(2.0), Some(8.0)));
        assert_eq!(row.median(1), 2.0);
        assert!((mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
    }
}
